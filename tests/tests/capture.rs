//! `rgen capture` over a cable of Linux's: what is written, what is counted, what other tools read.

use std::path::Path;

use peers::lab_or_skip;
use peers::tcpdump;
use peers::tshark::judge;
use rig::rgen::{Running, run, start};
use rig::veth::{cable, enter_namespace};
use serde_json::Value;

/// A cable, at whose one end frames are sent until this is dropped: 16.0.0.4 to 16.0.0.254, by
/// turns.
fn sender() -> Running {
    sends("bench -t size=128,vm=var1 -m 5kpps")
}

/// A cable, at whose one end `what` is sent until this is dropped.
fn sends(what: &str) -> Running {
    enter_namespace().expect("tests run as root");
    cable(["r0", "r1"], 1500).expect("ip makes cables");
    let words = format!("run {what} -d 10m -p af_packet:r0");
    start(&words.split(' ').collect::<Vec<_>>())
}

fn capture(file: &Path, more: &[&str]) -> Running {
    let file = file.to_str().expect("a plain path");
    start(&[&["capture", "-p", "af_packet:r1", "-w", file], more].concat())
}

/// The port's counts, which add up.
#[track_caller]
fn counts(found: &Value) -> [u64; 5] {
    let keys = ["seen", "written", "filtered", "dropped", "beyond"];
    let counts = keys.map(|key| found["ports"][0][key].as_u64().expect("a count"));
    assert_eq!(counts[0], counts[1..].iter().sum::<u64>(), "{found:#}");
    counts
}

#[test]
fn as_many_frames_are_written_as_are_asked_for_and_tshark_reads_them() {
    let Some(lab) = lab_or_skip("as_many_frames_are_written_as_are_asked_for") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("few.pcapng");
    let _sending = sender();
    let filter = "udp and (src 16.0.0.10 or src 16.0.0.11)";
    let found = capture(&file, &["--filter", filter, "--count", "25", "--json"]).wait();
    let found = found.ended(0).json();
    assert_eq!(found["schema"], "rgen/capture/1");
    let [seen, written, filtered, ..] = counts(&found);
    assert_eq!(written, 25);
    // Two of 251 addresses, at least twelve laps of them.
    assert!(filtered >= 12 * 249 - 251 && seen > filtered, "{found:#}");
    let frames = judge(&lab, &file).unwrap();
    assert_eq!(frames.len(), 25);
    for frame in frames {
        assert_eq!((frame.bytes, &frame.objections[..]), (124, &[][..]));
        assert!(frame.protocols.starts_with("eth:ethertype:ip:udp"));
    }
}

/// Frames of many kinds, as many of each.
const KINDS: [&str; 10] = [
    "eth / ipv4(src=16.0.0.1, dst=48.0.0.1) / udp(sport=1025, dport=53)",
    "eth / ipv4(src=16.0.0.2, dst=48.0.1.1) / udp(sport=53, dport=2000)",
    "eth / ipv4(src=16.0.1.1, dst=16.0.0.1) / tcp(sport=1025, dport=80)",
    "eth / ipv4(src=16.0.1.1, dst=48.0.0.9) / icmp",
    "eth / ipv6(src=fd00::1, dst=fd00::2) / udp(sport=80, dport=53)",
    "eth / ipv6(src=fd00::2, dst=fd01::2) / tcp(sport=443, dport=1025)",
    "eth(dst=ff:ff:ff:ff:ff:ff, src=02:00:00:00:00:07) / arp",
    "eth / vlan(id=7) / ipv4(src=16.0.0.1, dst=48.0.0.1) / udp(dport=53)",
    "eth / vlan(id=7) / vlan(id=8) / ipv4(src=16.0.0.1) / tcp(dport=80)",
    "eth(dst=01:00:5e:00:00:05) / ipv4(dst=224.0.0.5) / udp(dport=12)",
];

#[test]
fn an_expression_lets_pass_what_tcpdump_lets_pass_and_nothing_else() {
    let Some(lab) = lab_or_skip("an_expression_lets_pass_what_tcpdump_lets_pass") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("kinds.toml");
    let streams = (100..).zip(KINDS).map(|(size, frame)| {
        format!(
            "[[stream]]\nname = \"{size}\"\nframe = \"{frame}\"\nsize = {size}\nrate = \"1kpps\"\n"
        )
    });
    std::fs::write(&profile, streams.collect::<String>()).unwrap();
    let _sending = sends(profile.to_str().unwrap());
    for expression in [
        "port 53",
        "tcp dst port 80",
        "src port 53 or icmp",
        "portrange 80-1025",
        "src host 16.0.0.1 and not udp",
        "dst net 48.0.0.0/24",
        "net 16.0.0.0/23 and tcp",
        "ip6 host fd00::2",
        "ether host 02:00:00:00:00:07",
        "ether multicast and not ether broadcast",
        "greater 104",
        "vlan 7 and udp",
        "vlan and vlan and tcp port 80",
        // They bind alike, from left to right.
        "arp or udp and port 53",
        "tcp and port 80 or arp and not ip6",
        "not arp or udp and not icmp",
        "!(udp || tcp) && !arp",
    ] {
        for (text, passes) in [
            (expression.to_owned(), true),
            (format!("not ({expression})"), false),
        ] {
            let file = folder.path().join("some.pcapng");
            let ran = capture(&file, &["--filter", &text, "--count", "100", "--json"]).wait();
            assert_eq!(counts(&ran.ended(0).json())[1], 100, "{text}");
            let found = tcpdump::count(&lab, &file, expression).unwrap();
            assert_eq!(found, if passes { 100 } else { 0 }, "{text}");
        }
    }
}

#[test]
fn files_take_turns_and_only_the_last_ones_stay() {
    let Some(lab) = lab_or_skip("files_take_turns") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ring.pcapng");
    let _sending = sender();
    let more = [
        "--rotate-size",
        "20kB",
        "--files",
        "3",
        "--count",
        "1000",
        "--snaplen",
        "60",
        "--json",
    ];
    let found = capture(&file, &more).wait();
    let found = found.ended(0).json();
    assert_eq!(counts(&found)[1], 1000);
    let files = found["files"].as_array().unwrap();
    let names: Vec<&str> = files.iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names.len(), 3);
    assert!(
        names.is_sorted() && names[2].ends_with("pcapng"),
        "{names:?}"
    );
    let there = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(there, 3, "the others are gone");
    let mut written = 0;
    for (number, name) in names.iter().enumerate() {
        let path = Path::new(name);
        let frames = judge(&lab, path).unwrap();
        assert!(
            frames.iter().all(|frame| frame.bytes == 124),
            "as long as they were"
        );
        written += frames.len();
        let bytes = std::fs::metadata(path).unwrap().len();
        assert!(
            number == 2 || (20_000..20_400).contains(&bytes),
            "{bytes} bytes"
        );
    }
    assert!(
        (300..1000).contains(&written),
        "{written} frames in three files"
    );
}

#[test]
fn a_file_that_takes_no_more_ends_the_capture_and_nothing_is_lost_from_the_books() {
    let _sending = sender();
    let ran = capture(Path::new("/dev/full"), &["--json"]).wait();
    let found = ran.ended(1).json();
    let [seen, ..] = counts(&found);
    assert!(seen > 0 && found["complete"] == false, "{found:#}");
    let failure = found["failures"][0]["error"].as_str().unwrap();
    assert!(failure.contains("takes no more"), "{failure}");
}

#[test]
fn what_makes_no_sense_is_refused_before_a_port_is_opened() {
    for (more, said) in [
        (
            &["-w", "x", "--filter", "udp port"][..],
            "missing at its end",
        ),
        (&["-w", "-", "--json"], "both go to stdout"),
        (&["-w", "-", "--rotate-time", "1s"], "one file"),
        (&["-w", "x", "--files", "3"], "only one"),
        (&["-w", "x", "--rotate-size", "big"], "no size"),
        (&["-w", "x", "--count", "0"], "0 is not in"),
    ] {
        let ran = run(&[&["capture", "-p", "nothing:"], more].concat());
        ran.ended(2);
        assert!(ran.stderr.contains(said), "{more:?}: {ran:#?}");
    }
}
