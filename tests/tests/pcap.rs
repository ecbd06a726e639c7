//! What `rgen show --pcap` writes, read by tshark.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use peers::tshark::{Seen, judge};
use peers::{Lab, lab_or_skip};
use rig::rgen;

/// Writes `count` frames of what `words` name as pcap, and has every one judged.
fn judged(lab: &Lab, words: &[&str], count: usize) -> Vec<Seen> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("show.pcap");
    let count_text = count.to_string();
    let tail = [
        "--count",
        count_text.as_str(),
        "--pcap",
        file.to_str().unwrap(),
    ];
    let words: Vec<&str> = ["show"].iter().chain(words).chain(&tail).copied().collect();
    rgen::run(&words).ended(0);
    let frames = judge(lab, &file).unwrap();
    for (number, frame) in frames.iter().enumerate() {
        assert!(
            frame.objections.is_empty(),
            "{words:?}: frame {number}: {frame:?}"
        );
    }
    assert_eq!(frames.len(), count, "{words:?}");
    frames
}

#[test]
fn every_builtin_profile_is_read_without_a_complaint() {
    let Some(lab) = lab_or_skip("every_builtin_profile_is_read_without_a_complaint") else {
        return;
    };
    for about in engine::profile::list() {
        for direction in ["0", "1"] {
            judged(&lab, &[about.name, "--direction", direction], 200);
        }
    }
}

#[test]
fn every_knob_of_bench_is_read_without_a_complaint() {
    let Some(lab) = lab_or_skip("every_knob_of_bench_is_read_without_a_complaint") else {
        return;
    };
    for vm in ["none", "var1", "var2", "random", "tuple", "size", "cached"] {
        for size in ["64", "128", "1518", "9216", "imix"] {
            if vm == "size" && size == "imix" {
                continue;
            }
            let knobs = format!("size={size},vm={vm}");
            let frames = judged(&lab, &["bench", "-t", &knobs], 300);
            if let Ok(size) = size.parse::<usize>()
                && vm != "size"
            {
                let right = frames.iter().all(|frame| frame.bytes == size - 4);
                assert!(right, "{knobs}: {:?}", frames[0]);
            }
        }
    }
}

#[test]
fn a_profile_of_every_layer_is_read_as_what_it_is() {
    let Some(lab) = lab_or_skip("a_profile_of_every_layer_is_read_as_what_it_is") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (frame, protocols) in [
        ("eth / ipv4 / udp", "eth:ethertype:ip:udp"),
        (
            "eth / vlan(id=7) / ipv4 / udp",
            "eth:ethertype:vlan:ethertype:ip:udp",
        ),
        ("eth / ipv4 / tcp", "eth:ethertype:ip:tcp"),
        ("eth / ipv6 / udp", "eth:ethertype:ipv6:udp"),
        ("eth / ipv6 / tcp", "eth:ethertype:ipv6:tcp"),
        ("eth / ipv4 / icmp", "eth:ethertype:ip:icmp"),
        ("eth / arp", "eth:ethertype:arp"),
    ] {
        let path = folder.path().join("layers.toml");
        let text = format!("[[stream]]\nname = \"a\"\nframe = \"{frame}\"\nsize = \"128\"\n");
        std::fs::write(&path, text).unwrap();
        let frames = judged(&lab, &[path.to_str().unwrap()], 3);
        for read in frames {
            assert!(read.protocols.starts_with(protocols), "{frame}: {read:?}");
        }
    }
}

#[test]
fn a_truncated_or_bad_checksum_frame_would_have_been_found() {
    let Some(lab) = lab_or_skip("a_truncated_or_bad_checksum_frame_would_have_been_found") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("show.pcap");
    let path = file.to_str().unwrap();
    rgen::run(&["show", "bench", "--count", "1", "--pcap", path]).ended(0);
    let good = std::fs::read(&file).unwrap();
    // One bit of the IPv4 header, wherever the frame lies in the file.
    let at = good
        .windows(4)
        .position(|bytes| bytes == [0x08, 0x00, 0x45, 0x00])
        .unwrap();
    let mut bad = good;
    bad[at + 10] ^= 1;
    std::fs::write(&file, bad).unwrap();
    let frames = judge(&lab, &file).unwrap();
    assert!(!frames[0].objections.is_empty(), "{frames:?}");
}

#[test]
fn an_ipv6_address_that_varies_keeps_its_upper_half_and_its_checksums_right() {
    let Some(lab) = lab_or_skip("an_ipv6_address_that_varies") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("six.toml");
    let text = "[[stream]]\nname = \"a\"\nframe = \"eth / ipv6 / udp\"\nsize = 100\n\
                vary = { \"ipv6.src\" = \"2001:db8:1::1..2001:db8:1::9 each\" }\n";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    judged(&lab, &[path], 20);
    let shown = rgen::run(&["show", path, "--count", "9"]);
    let addresses = shown.ended(0).stdout.matches("src=2001:db8:1::").count();
    assert_eq!(addresses, 9, "{shown:#?}");
}

/// TRex's stateless profiles that are TOML here: the file, how many of its frames to look at, what
/// they are, and their sizes without FCS.
const TREX: &[(&str, usize, &str, &[usize])] = &[
    ("udp_1pkt_simple", 5, "eth:ethertype:ip:udp", &[60]),
    ("udp_1pkt_simple_bdir", 5, "eth:ethertype:ip:udp", &[60]),
    ("udp_1pkt_simple_burst", 1, "eth:ethertype:ip:udp", &[60]),
    ("udp_1pkt_simple_mac_dst", 5, "eth:ethertype:ip:udp", &[60]),
    (
        "udp_1pkt_dot1q",
        5,
        "eth:ethertype:vlan:ethertype:ip:udp",
        &[60],
    ),
    ("udp_1pkt_mpls", 17, "eth:ethertype:mpls", &[70]),
    ("udp_1pkt_mpls_vm", 100, "eth:ethertype:mpls", &[70]),
    ("udp_1pkt_mac", 30, "eth:ethertype:ip:udp", &[60]),
    ("udp_1pkt_range_clients", 500, "eth:ethertype:ip:udp", &[60]),
    (
        "hlt_4vlans",
        5,
        "eth:ethertype:vlan:ethertype:vlan:ethertype:vlan:ethertype:vlan:ethertype:ipv6:tcp",
        &[96],
    ),
    ("udp_rand_len_9k", 300, "eth:ethertype:ip:udp", &[]),
    ("burst_simple", 1, "eth:ethertype:ip:udp", &[60]),
    ("burst_3st_1000pkt", 2000, "eth:ethertype:ip:udp", &[60]),
    ("burst_3st_600pkt", 60, "eth:ethertype:ip:udp", &[60]),
    ("burst_3st_loop_x_times", 12, "eth:ethertype:ip:udp", &[60]),
    ("multi_burst_2st_1000pkt", 22, "eth:ethertype:ip:udp", &[60]),
    ("simple_3st", 60, "eth:ethertype:ip:udp", &[60]),
    ("imix_ipv6", 480, "eth:ethertype:ipv6:udp", &[62, 590, 1514]),
    ("flow_stats", 60, "eth:ethertype:ip:udp", &[60, 590]),
];

fn trex(name: &str) -> String {
    format!(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../profiles/trex/{}.toml"),
        name
    )
}

#[test]
fn every_profile_of_trexs_is_read_as_what_it_is() {
    let Some(lab) = lab_or_skip("every_profile_of_trexs_is_read_as_what_it_is") else {
        return;
    };
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../profiles/trex"));
    assert_eq!(files.unwrap().count(), TREX.len(), "one has no row here");
    for (name, count, protocols, sizes) in TREX {
        let frames = judged(&lab, &[&trex(name)], *count);
        for frame in &frames {
            assert!(frame.protocols.starts_with(protocols), "{name}: {frame:?}");
            let fits = sizes.is_empty() || sizes.contains(&frame.bytes);
            assert!(fits, "{name}: {frame:?}");
        }
        for size in *sizes {
            assert!(
                frames.iter().any(|frame| frame.bytes == *size),
                "{name}: {size}"
            );
        }
    }
}

/// Time and stream of each frame that `rgen show` prints of a profile, to its end.
fn shown(name: &str) -> Vec<(String, String)> {
    let ran = rgen::run(&["show", &trex(name), "--count", "100000"]);
    let lines = ran.ended(0).stdout.lines();
    let frames = lines.filter(|line| line.starts_with('#'));
    let words = frames.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .map(|words| (words[1].to_owned(), words[3].to_owned()))
        .collect()
}

#[test]
fn chains_of_trexs_profiles_are_shown_in_their_order_and_end() {
    // 1, 2 and 3 frames at 10 a second, 10 microseconds before each round, twice.
    let expected = [
        ("0.000010000", "S0"),
        ("0.100010000", "S1"),
        ("0.200010000", "S1"),
        ("0.300010000", "S2"),
        ("0.400010000", "S2"),
        ("0.500010000", "S2"),
        ("0.600020000", "S0"),
        ("0.700020000", "S1"),
        ("0.800020000", "S1"),
        ("0.900020000", "S2"),
        ("1.000020000", "S2"),
        ("1.100020000", "S2"),
    ];
    let expected = expected.map(|(at, name)| (at.to_owned(), name.to_owned()));
    assert_eq!(shown("burst_3st_loop_x_times"), expected);
    let names: Vec<_> = shown("burst_3st_600pkt")
        .into_iter()
        .map(|(_, name)| name)
        .collect();
    let runs: Vec<_> = names.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
    assert_eq!(runs, [10, 20, 30]);
    let last = shown("multi_burst_2st_1000pkt");
    assert_eq!(last.len(), 2 + 4 * 5);
    assert_eq!(last.iter().filter(|(_, name)| name == "S1").count(), 20);
}
