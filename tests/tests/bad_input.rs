//! Bad input: a clear error with a cure, the right exit code, nothing lost or left behind.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::path::Path;
use std::time::Duration;

use rig::liar::{Answer, Liar, Lie, Plan, RingLie};
use rig::rgen;

const USAGE: i32 = 2;
const NOT_READY: i32 = 3;
const PORT_FAILED: i32 = 4;

/// Runs `words` twice, for people and for machines: both must name the error's kind, say what was
/// found and what to do about it.
#[track_caller]
fn refused(words: &[&str], exit: &[i32], says: &str) {
    let ran = rgen::run(words);
    assert!(
        ran.code.is_some_and(|code| exit.contains(&code)),
        "{words:?}: {ran:#?}"
    );
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        told.to_lowercase().contains(&says.to_lowercase()),
        "no word of {says}: {ran:#?}"
    );
    // A cure, or the place in a profile with what would be right there, or clap's own help.
    let has_cure = ["cure: ", "-->", "write ", "Usage", "--help"];
    assert!(
        has_cure.iter().any(|word| told.contains(word)),
        "no cure: {ran:#?}"
    );
    assert!(ran.took < Duration::from_secs(30), "{ran:#?}");

    let as_json: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    let ran = rgen::run(&as_json);
    assert!(
        ran.code.is_some_and(|code| exit.contains(&code)),
        "{words:?}: {ran:#?}"
    );
    if !ran.stdout.is_empty() {
        let document = ran.json();
        assert!(document["error"]["code"].is_string(), "{document:#}");
    }
}

const PAIR: [&str; 4] = ["-p", "sim:virtio", "-p", "sim:virtio"];

fn run_bench<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["run", "bench", "-d", "100ms"]
        .iter()
        .chain(more)
        .copied()
        .collect()
}

#[test]
fn a_profile_that_there_is_not_is_refused_with_the_one_that_was_meant() {
    refused(&[&["run", "bnech"][..], &PAIR].concat(), &[USAGE], "bench");
    refused(&["show", "imixx"], &[USAGE], "imix");
    refused(&["show", "/no/such/file.toml"], &[USAGE], "file.toml");
    refused(&["show", "/"], &[USAGE], "/");
}

#[test]
fn knobs_and_values_that_there_are_not_are_refused_by_name() {
    for (knob, says) in [
        ("sise=64", "size"),
        ("size=63", "size"),
        ("size=9999999", "size"),
        ("size=64byte", "size"),
        ("size", "size"),
        ("=64", "knob"),
        ("vm=vra1", "var1"),
        ("vm=", "vm"),
        ("size=64,size", "size"),
    ] {
        refused(&["show", "bench", "-t", knob], &[USAGE], says);
    }
}

#[test]
fn rates_times_and_counts_that_are_none_are_refused() {
    for rate in [
        "", "fast", "-5mpps", "5mpsp", "nanpps", "infpps", "1e999pps", "0pps", "101%x",
    ] {
        let option = format!("--multiplier={rate}");
        refused(
            &run_bench(&[&[option.as_str()][..], &PAIR].concat()),
            &[USAGE],
            "",
        );
    }
    for time in ["", "10 parsecs", "-1s", "nan s", "99999999999999999999s"] {
        let option = format!("--duration={time}");
        refused(
            &[&["run", "bench", &option][..], &PAIR].concat(),
            &[USAGE],
            "",
        );
    }
    refused(&["show", "bench", "--count", "-1"], &[USAGE], "");
    refused(
        &run_bench(&[&["--require", "speed=9"][..], &PAIR].concat()),
        &[USAGE],
        "",
    );
    refused(
        &run_bench(&[&["--cores", "0-"][..], &PAIR].concat()),
        &[USAGE],
        "",
    );
    refused(
        &run_bench(&[&["--cores", "9999"][..], &PAIR].concat()),
        &[USAGE, NOT_READY],
        "9999",
    );
}

#[test]
fn port_strings_that_name_none_are_refused_with_what_they_look_like() {
    for port in [
        "",
        "virtio",
        "sim:",
        "sim:virto",
        "sim:virtio/2",
        "sim:virtio/x",
        "eth0",
        "0000:3b:00",
        "null:0",
        "vhost-user:",
        "af_packet:",
        "af_xdp:no-such-interface",
        "sim:virtio,speed=9",
        "sim:virtio,packed=maybe",
        "vhost-user:/x,queues=0",
        "vhost-user:/x,queues=many",
        "null:,",
    ] {
        refused(
            &run_bench(&["-p", port, "-p", "sim:virtio"]),
            &[USAGE, NOT_READY],
            "",
        );
    }
    refused(
        &run_bench(&["-p", "sim:virtio/0", "-p", "sim:virtio/0"]),
        &[USAGE],
        "taken",
    );
    refused(
        &run_bench(&["-p", "sim:virtio,loss=1%", "-p", "sim:virtio,loss=2%"]),
        &[USAGE],
        "at the other end of the wire",
    );
    // The machine may lack an IOMMU, which is then told first.
    refused(
        &run_bench(&["-p", "0000:ff:1f.7"]),
        &[NOT_READY, PORT_FAILED],
        "",
    );
}

#[test]
fn a_socket_that_nobody_listens_on_is_an_error_and_not_a_wait_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nobody.sock");
    let port = format!("vhost-user:{}", path.display());
    refused(
        &run_bench(&["-p", &port]),
        &[NOT_READY, PORT_FAILED],
        "nobody.sock",
    );
    let left_behind = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(left_behind);
    refused(
        &run_bench(&["-p", &port]),
        &[NOT_READY, PORT_FAILED],
        "nobody.sock",
    );
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a file").unwrap();
    refused(
        &run_bench(&["-p", &port]),
        &[NOT_READY, PORT_FAILED],
        "nobody.sock",
    );
}

#[test]
fn a_peer_that_speaks_nonsense_is_an_error_and_not_a_hang() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    let port = format!("vhost-user:{}", path.display());
    for lie in [
        Lie::HangUpAt(0),
        Lie::HangUpAt(1),
        Lie::SilentFrom(0),
        Lie::AnswerAt(1, Answer::Noise),
        Lie::AnswerAt(1, Answer::WrongRequest),
    ] {
        let _liar = Liar::start(&path, &Plan::of(lie)).unwrap();
        refused(
            &run_bench(&["-p", &port]),
            &[NOT_READY, PORT_FAILED],
            "liar.sock",
        );
    }
}

#[test]
fn a_peer_that_takes_no_frame_is_a_port_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mute.sock");
    let port = format!("vhost-user:{},wait=2s", path.display());
    for rate in ["max", "1kpps"] {
        let _mute = Liar::start(&path, &Plan::of(Lie::SendRing(RingLie::NeverUses))).unwrap();
        let ran = rgen::run(&run_bench(&["-p", &port, "-m", rate, "--json"]));
        let document = ran.ended(PORT_FAILED).json();
        let failures = document["failures"].as_array().unwrap();
        assert_eq!(failures.len(), 1, "{document:#}");
        let error = failures[0]["error"].as_str().unwrap();
        assert!(error.contains("no frame left it"), "{error}");
        rgen::adds_up(&document);
    }
}

fn profile(folder: &Path, text: &str) -> String {
    let path = folder.join("profile.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_profile_that_is_wrong_is_refused_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    for (text, says) in [
        ("", "stream"),
        ("[[stream]\n", "profile.toml"),
        ("[[stream]]\nnmae = 'a'\n", "nmae"),
        ("[[stream]]\nname = 'a'\nframe = 'eth / ipv5'\n", "ipv5"),
        (
            "[[stream]]\nname = 'a'\nframe = 'eth / ipv4 / udp'\nrate = '10 furlongs'\n",
            "furlongs",
        ),
        (
            "[[stream]]\nname = 'a'\nframe = 'eth / ipv4 / udp'\nsize = '3B'\n",
            "size",
        ),
        (
            "[[stream]]\nname = 'a'\nframe = 'eth / ipv4(dst=300.0.0.1) / udp'\n",
            "300.0.0.1",
        ),
        (
            "[[stream]]\nname = 'a'\nframe = 'eth / ipv4 / udp'\nvary = { 'ipv4.scr' = '10.0.0.0/8' }\n",
            "ipv4.scr",
        ),
        ("\u{0}\u{1}\u{2}", "profile.toml"),
    ] {
        let path = profile(folder.path(), text);
        refused(&["show", &path], &[USAGE], says);
        refused(
            &[&["run", &path, "-d", "100ms"][..], &PAIR].concat(),
            &[USAGE],
            says,
        );
    }
    let binary = folder.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe, 0x00, 0x80]).unwrap();
    refused(&["show", binary.to_str().unwrap()], &[USAGE], "binary.toml");
}

#[test]
fn a_result_that_cannot_be_written_is_an_error_before_anything_is_sent() {
    let words = [&["-o", "/no/such/folder/result.json"][..], &PAIR].concat();
    refused(&run_bench(&words), &[USAGE], "/no/such/folder");
    refused(
        &["show", "bench", "--pcap", "/no/such/folder/x.pcap"],
        &[USAGE],
        "/no/such/folder",
    );
}

#[test]
fn nothing_is_left_behind() {
    let shared = || std::fs::read_dir("/dev/shm").map_or(0, Iterator::count);
    let before = shared();
    let folder = tempfile::tempdir().unwrap();
    let ran = rgen::start_with(
        &[
            "run",
            "bench",
            "-m",
            "10kpps",
            "-d",
            "300ms",
            "-p",
            "sim:virtio",
            "-p",
            "sim:virtio",
        ],
        |command| {
            command
                .current_dir(folder.path())
                .env("TMPDIR", folder.path());
        },
    )
    .wait();
    ran.ended(0);
    assert_eq!(shared(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
