//! `--json`: one document, with the keys that scripts rely on.

use crate::common::{assert_accounted, number, run, sum};
use serde_json::Value;

const PAIR: [&str; 4] = ["-p", "sim:virtio", "-p", "sim:virtio"];
/// A rate that any machine keeps, and a second's grace for one that is busy with other tests.
const CALM: [&str; 6] = ["-m", "5kpps", "-d", "1s", "--catch-up", "1s"];

fn keys(document: &Value, keys: &[&str]) {
    for key in keys {
        assert!(document.get(key).is_some(), "no {key}: {document:#}");
    }
}

fn run_json(profile: &[&str], more: &[&str]) -> (i32, Value) {
    let left = run(&[&["run"], profile, &PAIR[..], &CALM, more, &["--json"]].concat());
    (left.code, left.document())
}

#[test]
fn a_run_accounts_for_every_frame_and_says_all_that_it_was() {
    let (code, run) = run_json(&["bench", "-t", "size=64,vm=var1"], &["--seed", "7"]);
    assert_eq!(code, 0, "{run:#}");
    assert_accounted(&run);
    assert_eq!(number(&run, "/asked_frames"), 10_000);
    assert_eq!(number(&run, "/shortfall_frames"), 0);
    assert_eq!(number(&run, "/seed"), 7);
    assert_eq!(run["schema"], "rgen/run/1");
    assert_eq!(run["complete"], true);
    keys(
        &run,
        &[
            "version",
            "duration_s",
            "ports",
            "streams",
            "config",
            "machine",
            "warnings",
            "events",
        ],
    );
    keys(
        &run["ports"][0],
        &[
            "port",
            "driver",
            "tx_frames",
            "rx_frames",
            "tx_bytes",
            "rx_bytes",
            "tx_pps",
            "rx_pps",
            "tx_cpu",
            "rx_cpu",
            "rx_missed",
            "rx_errors",
            "tx_errors",
        ],
    );
    keys(&run["machine"], &["cpu", "cores", "kernel", "tsc_hz"]);
    assert_eq!(run["config"]["knobs"]["vm"], "var1");
    assert_eq!(run["config"]["multiplier"], "5kpps");
    assert_eq!(sum(&run, "tx_bytes"), 64 * sum(&run, "tx_frames"));
}

#[test]
fn a_latency_run_measures_its_streams() {
    let (_, run) = run_json(&["latency"], &[]);
    assert_accounted(&run);
    let streams = run["streams"].as_array().unwrap();
    let measured: Vec<&Value> = streams
        .iter()
        .filter(|stream| stream["measured"] == true)
        .collect();
    assert_eq!(measured.len(), 2, "one a direction");
    for stream in measured {
        keys(
            stream,
            &[
                "name",
                "tx_frames",
                "rx_frames",
                "lost",
                "duplicated",
                "reordered",
            ],
        );
        keys(
            &stream["latency_ns"],
            &["min", "mean", "p50", "p99", "p999", "max", "jitter"],
        );
        let sent = stream["tx_frames"].as_u64().unwrap();
        let received = stream["rx_frames"].as_u64().unwrap();
        assert_eq!(sent, received + stream["lost"].as_u64().unwrap());
    }
}

#[test]
fn only_the_first_port_sends_where_one_way_is_asked_for() {
    let (_, run) = run_json(&["bench"], &["--one-way"]);
    assert_accounted(&run);
    assert_eq!(number(&run, "/asked_frames"), 5_000);
    assert_eq!(number(&run, "/ports/1/tx_frames"), 0);
    assert_eq!(number(&run, "/ports/0/rx_frames"), 0);
}

#[test]
fn duplicates_do_not_hide_what_was_lost() {
    let port = "sim:virtio,loss=10%,dup=10%,seed=3";
    let words = [
        "run",
        "bench",
        "-p",
        port,
        "-p",
        port,
        "--one-way",
        "--json",
    ];
    let left = run(&[&words[..], &["--require", "loss=0"], &CALM].concat());
    assert_eq!(left.code, 5, "{left:?}");
}

#[test]
fn the_stream_of_documents_has_a_line_each_and_ends_with_the_result() {
    let words = [
        &["run", "bench"],
        &PAIR[..],
        &CALM,
        &["-d", "2s", "--json-stream"],
    ];
    let mut words = words.concat();
    let first = words.iter().position(|word| *word == "-d").unwrap();
    words.drain(first..first + 2);
    let left = run(&words);
    let lines: Vec<Value> = left
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (last, intervals) = lines.split_last().unwrap();
    assert_eq!(last["schema"], "rgen/run/1");
    assert!(!intervals.is_empty(), "{left:?}");
    for line in intervals {
        assert_eq!(line["schema"], "rgen/interval/1");
        keys(line, &["elapsed_s", "asked_frames", "ports"]);
    }
}

#[test]
fn the_same_document_goes_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let name = file.display().to_string();
    let (_, run) = run_json(&["bench"], &["-o", &name]);
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(saved, run);
}

#[test]
fn a_file_that_cannot_be_written_costs_no_result() {
    let words = ["run", "bench", "-p", "null:", "-m", "1kpps", "-d", "200ms"];
    let with =
        |file: &str| run(&[&words[..], &["--catch-up", "1s", "--json", "-o", file]].concat());
    // A path that is wrong is known before the run, one that fills up is not.
    let left = with("/nonexistent/result.json");
    assert_eq!(left.code, 2, "{left:?}");
    assert_eq!(left.document()["schema"], "rgen/error/1");
    assert!(!left.stderr.contains("sending"), "{left:?}");
    let left = with("/dev/full");
    assert_eq!(left.code, 1, "{left:?}");
    assert_eq!(left.document()["schema"], "rgen/run/1");
    assert!(left.stderr.contains("error[output]: "), "{left:?}");
    // Without --json: the JSON is the one thing on stdout.
    let left = run(&[&words[..], &["--catch-up", "1s", "-o", "-"]].concat());
    assert_eq!(left.code, 0, "{left:?}");
    assert_eq!(left.document()["schema"], "rgen/run/1");
}

#[test]
fn a_result_replaces_a_longer_one_and_a_refusal_leaves_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    std::fs::write(&file, "x".repeat(100_000)).unwrap();
    let name = file.display().to_string();
    let refused = run(&["run", "bnech", "-p", "null:", "-o", &name]);
    assert_eq!(refused.code, 2);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 100_000);
    let (_, run) = run_json(&["bench"], &["-o", &name]);
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(saved, run);
}

#[test]
fn a_profile_of_ones_own_names_its_ports_and_criteria() {
    let toml = r#"
        [ports]
        tx = "sim:virtio/0"
        rx = "sim:virtio/1"
        [[stream]]
        name = "web"
        frame = "eth / ipv4(dst=48.0.0.1) / udp(dport=80) / stamp"
        size = 128
        rate = "1kpps"
        vary = { "udp.sport" = "1024..2047 each" }
        [require]
        loss = "0"
        latency = { min = "1h" }
    "#;
    let left = crate::common::left(
        crate::common::rgen()
            .args(["run", "-", "-d", "1s", "--catch-up", "1s", "--json"])
            .write_stdin(toml),
    );
    let run = left.document();
    assert_eq!(left.code, 0, "{run:#}");
    assert_accounted(&run);
    assert_eq!(number(&run, "/asked_frames"), 1000);
    assert_eq!(run["config"]["one_way"], true);
    assert!(
        run["config"]["profile_source"]
            .as_str()
            .unwrap()
            .contains("[require]")
    );
    assert_eq!(run["requirements"].as_array().unwrap().len(), 2);
}

#[test]
fn exit_codes_tell_what_came_of_it() {
    // A criterion that cannot hold, and one that nobody can judge.
    assert_eq!(run_json(&["latency"], &["--require", "p99<1ns"]).0, 5);
    let left = run(&[
        "run",
        "bench",
        "-p",
        "null:",
        "-d",
        "200ms",
        "--require",
        "loss=0",
        "--json",
    ]);
    assert_eq!(left.code, 5, "{left:?}");
    // More than any core makes.
    let words = [
        "run",
        "bench",
        "-t",
        "vm=random",
        "-p",
        "null:",
        "-d",
        "300ms",
        "--json",
    ];
    let left = run(&[&words[..], &["-m", "90000mpps"]].concat());
    assert_eq!(left.code, 6, "{left:?}");
    let document = left.document();
    assert_eq!(document["bottleneck"], "generator");
    let (asked, short) = (
        number(&document, "/asked_frames"),
        number(&document, "/shortfall_frames"),
    );
    assert_eq!(asked, sum(&document, "tx_frames") + short);
    // As much as it makes is as asked.
    let left = run(&[&words[..], &["-m", "max"]].concat());
    assert_eq!(left.code, 0, "{left:?}");
}

#[test]
fn every_command_has_its_document() {
    for (words, schema, codes) in [
        (&["doctor"][..], "rgen/doctor/1", &[0, 3][..]),
        (&["ports"], "rgen/ports/1", &[0]),
        (&["hugepages"], "rgen/hugepages/1", &[0]),
        (&["show"], "rgen/show/1", &[0]),
        (&["show", "bench"], "rgen/show/1", &[0]),
        (&["demo", "-d", "200ms"], "rgen/run/1", &[0]),
        (
            &["fwd", "-p", "null:", "--mode", "rxonly", "-d", "200ms"],
            "rgen/fwd/1",
            &[0],
        ),
        (
            &["fwd", "-p", "null:", "--mode", "txonly", "-d", "200ms"],
            "rgen/fwd/1",
            &[0],
        ),
    ] {
        let left = run(&[words, &["--json"]].concat());
        assert!(codes.contains(&left.code), "{words:?}: {left:?}");
        assert_eq!(left.document()["schema"], schema, "{words:?}");
    }
}

#[test]
fn the_doctor_fails_when_it_finds_a_problem_and_only_then() {
    let left = run(&["doctor", "--json"]);
    let document = left.document();
    let problems = number(&document, "/problems");
    assert_eq!(left.code == 3, problems > 0);
    assert_eq!(document["ready"] == true, problems == 0);
    for check in document["checks"].as_array().unwrap() {
        keys(check, &["id", "title", "verdict", "findings"]);
        for finding in check["findings"].as_array().unwrap() {
            let is_well = finding["verdict"] == "ready";
            assert!(is_well || finding["cure"].is_string(), "{finding}");
        }
    }
}

#[test]
fn frames_in_a_pcap_file_have_their_document_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcap").display().to_string();
    let words = ["show", "bench", "--count", "3", "--json", "--pcap"];
    let left = run(&[&words[..], &[&file]].concat());
    let document = left.document();
    assert_eq!(left.code, 0, "{left:?}");
    assert_eq!(document["schema"], "rgen/show/1");
    assert_eq!(document["pcap"]["file"], file);
    assert_eq!(number(&document, "/pcap/frames"), 3);
    let left = run(&[&words[..], &["-"]].concat());
    assert_eq!(left.code, 2, "{left:?}");
    assert_eq!(left.document()["schema"], "rgen/error/1");
}

#[test]
fn the_same_seed_gives_the_same_frames() {
    let frames = |seed: &str| {
        let words = [
            "show",
            "bench",
            "-t",
            "vm=random",
            "--count",
            "50",
            "--seed",
            seed,
            "--json",
        ];
        run(&words).document()["frames"].clone()
    };
    assert_eq!(frames("7"), frames("7"));
    assert_ne!(frames("7"), frames("8"));
}

#[test]
fn shown_frames_are_as_far_apart_as_their_rate_says() {
    let words = [
        "show", "latency", "-m", "1mpps", "--count", "2002", "--json",
    ];
    let shown = run(&words).document();
    let frames = shown["frames"].as_array().unwrap();
    let of = |stream: &str| -> Vec<u64> {
        let ours = frames.iter().filter(|frame| frame["stream"] == stream);
        ours.map(|frame| frame["at_ns"].as_u64().unwrap()).collect()
    };
    let data: Vec<u64> = (0..2000).map(|n| n * 1000).collect();
    assert_eq!(of("udp"), data);
    assert_eq!(
        of("latency.12"),
        [0, 1_000_000],
        "its own rate, whatever -m says"
    );
}

#[test]
fn one_core_is_slower_and_said_aloud_and_the_accounting_is_exact() {
    // The child inherits what this thread may run on.
    hw::cpu::pin(hw::cpu::allowed().unwrap()[0]).unwrap();
    let (_, run) = run_json(&["bench"], &["--drain", "5s"]);
    assert_accounted(&run);
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("one core for everything"), "{warnings}");
}
