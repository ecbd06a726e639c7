//! How commands end: Ctrl-C, and readers that go away.

use std::io::{BufRead, BufReader, Read};

use crate::common::{assert_accounted, interrupt_at, number, rgen, spawn, sum};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Interrupts a command at its first line of progress, which only one that sends writes.
fn interrupt(words: &[&str], signal: Signal) -> (i32, Value) {
    let left = interrupt_at("pps", words, signal);
    assert!(left.stderr.contains("stopping"), "{left:?}");
    (left.code, left.document())
}

#[test]
fn ctrl_c_keeps_what_a_benchmark_and_the_tests_of_rfc_2544_have_found() {
    let pair = ["-p", "sim:virtio,knee=20kpps", "-p", "sim:virtio", "--json"];
    let folder = tempfile::tempdir().expect("there is room");
    let page = folder.path().join("report.html");
    let page = page.to_str().expect("a plain path");
    for (command, found, more) in [
        ("bench", "/rows/0/ndr", &["--html", page][..]),
        ("rfc2544", "/rows/0/throughput", &[]),
    ] {
        let words = [&[command, "--duration", "500ms"], &pair[..], more].concat();
        let (code, document) = interrupt(&words, Signal::SIGINT);
        assert_eq!(
            (code, &document["complete"]),
            (130, &false.into()),
            "{document:#}"
        );
        assert_eq!(number(&document, "/exit_code"), 130);
        let rows = document["rows"].as_array().expect("rows are a list");
        assert_eq!(rows.len(), 1, "nothing is begun afterwards");
        let trials = rows[0]["trials"].as_array().expect("trials are a list");
        assert!(!trials.is_empty() && trials.len() < 8, "{document:#}");
        let end = document.pointer(found).expect("it is there");
        assert!(end.is_null() || end["end"] == "searching", "{document:#}");
    }
    let page = std::fs::read_to_string(page).expect("the report is there");
    assert!(page.contains("This result is partial"));
}

#[test]
fn ctrl_c_stops_drains_and_prints_a_partial_result_that_adds_up() {
    let pair = ["-p", "sim:virtio", "-p", "sim:virtio"];
    let words = [
        &["run", "bench", "-m", "5kpps", "-d", "1h", "--json"],
        &pair[..],
    ]
    .concat();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (code, run) = interrupt(&words, signal);
        assert_eq!(code, 130);
        assert_eq!(run["complete"], false);
        assert_eq!(number(&run, "/exit_code"), 130);
        assert!(sum(&run, "tx_frames") > 0);
        assert_accounted(&run);
    }
}

#[test]
fn a_forwarder_without_a_time_ends_well_by_ctrl_c() {
    let words = ["fwd", "-p", "null:", "--mode", "rxonly", "--json"];
    let (code, document) = interrupt(&words, Signal::SIGINT);
    assert_eq!((code, &document["complete"]), (0, &Value::Bool(true)));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for words in [
        &["show", "bench", "--pcap", "-", "--count", "100000"][..],
        &["show", "bench", "--count", "20000"],
        &["show", "bench", "--count", "20000", "--json"],
        &["show", "bench", "--count", "18446744073709551615"],
        &["show", "bench", "--count", "18446744073709551615", "--json"],
        &["ports"],
        &["--help"],
    ] {
        let mut child = spawn(words);
        // Nobody reads, from the start or after a little.
        let mut some = [0; 16];
        let mut stdout = child.stdout.take().unwrap();
        let _ = stdout.read(&mut some).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{words:?}: {output:?}");
    }
}

#[test]
fn a_stream_of_documents_ends_with_its_reader_and_may_be_quiet() {
    let words = ["run", "bench", "-p", "null:", "-d", "10m", "-m", "1kpps"];
    let mut child = spawn(&[&words[..], &["--catch-up", "1s", "--json-stream", "-q"]].concat());
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("rgen/interval/1"), "{line}");
    drop(lines);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn talk_that_nobody_hears_is_no_error() {
    let words = ["run", "bench", "-p", "null:", "-d", "100ms", "-m", "1kpps"];
    let mut child = spawn(&[&words[..], &["--catch-up", "1s"]].concat());
    drop(child.stderr.take());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn a_pcap_holds_what_was_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bench.pcap");
    let name = file.display().to_string();
    let words = ["show", "bench", "-t", "size=imix,vm=var2", "--count", "12"];
    let shown = rgen().args(words).arg("--json").output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    rgen()
        .args(words)
        .args(["--pcap", &name])
        .assert()
        .success();
    let mut pcap = pcap_file::pcap::PcapReader::new(std::fs::File::open(&file).unwrap()).unwrap();
    let mut written = Vec::new();
    while let Some(packet) = pcap.next_packet() {
        let packet = packet.unwrap();
        let hex: String = packet
            .data()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        written.push((packet.timestamp().as_nanos(), hex));
    }
    let frames = shown["frames"].as_array().unwrap().iter();
    let expected: Vec<_> = frames
        .map(|frame| {
            let at = u128::from(frame["at_ns"].as_u64().unwrap());
            (at, frame["bytes"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(written, expected);
    let mut sizes: Vec<usize> = written.iter().map(|(_, hex)| hex.len() / 2 + 4).collect();
    sizes.sort_unstable();
    sizes.dedup();
    assert_eq!(sizes, [68, 590, 1514], "TRex's bench IMIX");
    let unwritable = rgen()
        .args(words)
        .args(["--pcap", "/nonexistent/x"])
        .output()
        .unwrap();
    assert_eq!(unwritable.status.code(), Some(2));
}
