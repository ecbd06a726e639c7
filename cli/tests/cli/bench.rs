//! `rgen bench`: the table, its forms, and what adds up in it. Trials are short, and nothing is
//! said about speed.

use serde_json::Value;

use crate::common::{Left, run};

/// Short enough for a test; a knee keeps loads low, so that a busy machine keeps up.
const SHORT: [&str; 8] = [
    "--rest",
    "30ms",
    "--duration",
    "60ms",
    "--width",
    "20%",
    "--catch-up",
    "100ms",
];

fn bench(port: &str, more: &[&str]) -> Left {
    let words = ["bench", "-p", port, "-p", port];
    run(&[&words[..], &SHORT, more].concat())
}

fn at(row: &Value, path: &str) -> f64 {
    row.pointer(path)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("no number at {path}: {row:#}"))
}

fn close(left: f64, right: f64) -> bool {
    (left / right - 1.0).abs() < 1e-9
}

/// What holds in every row that has an NDR.
fn assert_row(row: &Value) {
    let (ndr, ports) = (at(row, "/ndr/lower_pps"), at(row, "/sending_ports"));
    assert!(close(at(row, "/ndr/total_pps"), ndr * ports), "{row:#}");
    let bits = at(row, "/mean_size") * 8.0;
    assert!(close(at(row, "/ndr/bps_l2"), ndr * ports * bits), "{row:#}");
    assert!(close(at(row, "/ndr/bps_l1"), ndr * ports * (bits + 160.0)));
    let cpu = at(row, "/ndr/tx_cpu");
    assert!(close(at(row, "/max_tx_pps"), ndr / cpu), "{row:#}");
    assert!(close(at(row, "/tx_ns"), cpu / ndr * 1e9), "{row:#}");
    let line = at(row, "/link_bps") / (bits + 160.0);
    assert!(close(at(row, "/line_pps"), line), "{row:#}");
    assert!(close(at(row, "/ndr/line_percent"), ndr / line * 100.0));
    assert!(ndr <= line * 1.0001, "more than the line: {row:#}");
    let trials = row["trials"].as_array().expect("trials are a list");
    for trial in trials {
        let count = |key: &str| trial[key].as_u64().expect("a count");
        let missing = count("lost_frames") + count("unsent_frames");
        // Unpaced, nothing is asked but what was sent.
        assert!(missing <= count("asked_frames").max(missing), "{trial:#}");
    }
    let bounds = trials.last().expect("there were trials");
    assert_eq!(bounds["lower_pps"], row["ndr"]["lower_pps"], "{row:#}");
}

#[test]
fn the_table_has_a_row_for_each_kind_of_frames_on_every_driver() {
    for driver in ["virtio", "e1000", "igb", "vmxnet3", "ixgbe"] {
        let port = format!("sim:{driver},knee=20kpps,knee_pause=20ms");
        // Both kinds on one of them.
        let vm = if driver == "virtio" {
            "var1,cached"
        } else {
            "var1"
        };
        let more = ["--json", "--seed", "5", "--latency-at", "50%", "--vm", vm];
        let left = bench(&port, &more);
        let found = left.document();
        assert_eq!(found["schema"], "rgen/bench/1");
        let rows = found["rows"].as_array().unwrap();
        let kinds: Vec<_> = rows.iter().map(|row| row["vm"].as_str().unwrap()).collect();
        assert_eq!(kinds.join(","), vm);
        assert!(rows.iter().all(|row| row["size"] == "64"));
        assert_eq!(
            (left.code, &found["complete"]),
            (0, &true.into()),
            "{left:?}"
        );
        for row in rows {
            assert_eq!(row["driver"], driver, "{row:#}");
            assert_row(row);
            let latency = &row["latency"][0];
            assert!(
                close(at(latency, "/load_pps"), at(row, "/ndr/lower_pps") * 0.5),
                "{row:#}"
            );
            let points = latency["distribution"].as_array().unwrap();
            let figures = &latency["latency_ns"];
            assert_eq!(points.last().unwrap()[1], figures["max"], "{latency:#}");
            assert_eq!(points.last().unwrap()[0], 1.0);
            let is_sorted = points.is_sorted_by_key(|point| point[1].as_u64());
            assert!(is_sorted && points.len() > 5, "{latency:#}");
            assert!(at(figures, "/min") <= at(figures, "/p50"));
            assert!(at(figures, "/p50") <= at(figures, "/p99"));
        }
        assert_eq!(
            (&found["seed"], &found["one_way"]),
            (&5.into(), &true.into())
        );
        assert_eq!(found["search"]["trial_s"], 0.06);
        assert_eq!(found["search"]["width"], 0.2);
    }
}

const CALM: &str = "sim:virtio,knee=20kpps,knee_pause=20ms";

#[test]
fn sizes_and_both_ways_are_rows_and_rates_of_their_own() {
    let more = [
        "--size",
        "64,imix",
        "--vm",
        "var1",
        "--both-ways",
        "--latency-at",
        "90%",
    ];
    let left = bench(CALM, &[&more[..], &["--json"]].concat());
    let found = left.document();
    assert_eq!(left.code, 0, "{left:?}");
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_row(row);
        assert_eq!(row["sending_ports"], 2);
    }
    // TRex's bench IMIX: 28 of 68 B, 16 of 590, 4 of 1514.
    let mean = (28.0 * 68.0 + 16.0 * 590.0 + 4.0 * 1514.0) / 48.0;
    assert!(
        (at(&rows[1], "/mean_size") - mean).abs() < 1e-6,
        "{rows:#?}"
    );
}

#[test]
fn a_port_that_receives_nothing_shows_what_it_takes_alone() {
    // Long enough that a worker has its turn on a busy machine.
    let words = ["bench", "-p", "null:", "-p", "null:", "--duration", "300ms"];
    let left = run(&[&words[..], &["--json"]].concat());
    let found = left.document();
    assert_eq!(left.code, 0, "{left:?}");
    for row in found["rows"].as_array().unwrap() {
        assert_eq!(
            (&row["ndr"], &row["line_pps"]),
            (&Value::Null, &Value::Null)
        );
        assert!(at(row, "/unpaced_pps") > 0.0);
        assert!(row["no_ndr"].as_str().unwrap().contains("receives nothing"));
        assert_eq!(row["latency"], Value::Array(Vec::new()));
    }
    let left = run(&words);
    assert!(left.stdout.contains("receives nothing"), "{left:?}");
}

#[test]
fn one_result_is_printed_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (html, json) = (file("report.html"), file("result.json"));
    let left = bench(CALM, &["--html", &html, "-o", &json, "--vm", "var1"]);
    assert_eq!(left.code, 0, "{left:?}");
    let head = left.stdout.lines().nth(2).unwrap();
    for name in [
        "VM", "DRIVER", "NDR", "LINE", "TX CPU", "RX CPU", "MAX TX", "LATENCY", "LIMIT",
    ] {
        assert!(head.contains(name), "{left:?}");
    }
    for said in [
        "var1",
        "virtio",
        "latency",
        "trials of 0.06 s",
        "width 20 %",
        "90.0 %",
    ] {
        assert!(left.stdout.contains(said), "no {said}: {}", left.stdout);
    }
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    // Bars, the search, loss against load, percentiles, distribution.
    assert_eq!(page.matches("<svg").count(), 5);
    for outside in [
        "<script", "<link", "<img", "<iframe", "src=", "href=", "url(", "@import",
    ] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
    // The names of its own plots' language aside, it names no other place.
    let places = page.matches("://").count();
    assert_eq!(places, page.matches("http://www.w3.org/2000/svg").count());
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_row(&saved["rows"][0]);
    for tag in ["svg", "table", "figure", "pre", "div", "tr"] {
        let opened = page.matches(&format!("<{tag}>")).count();
        let opened = opened + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn comma_separated_values_and_markdown_say_the_same() {
    let left = bench(CALM, &["--csv", "--latency-at", "50%,90%"]);
    assert_eq!(left.code, 0, "{left:?}");
    let lines: Vec<Vec<&str>> = left
        .stdout
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(lines.len(), 3, "a header and two kinds: {}", left.stdout);
    let of = |name: &str| lines[0].iter().position(|field| *field == name).unwrap();
    for line in &lines[1..] {
        assert_eq!(line.len(), lines[0].len(), "{}", left.stdout);
        let number = |name: &str| line[of(name)].parse::<f64>().unwrap();
        let (ndr, upper) = (number("ndr_pps"), number("upper_pps"));
        assert!(ndr > 0.0 && ndr < upper, "{}", left.stdout);
        assert!(close(number("at_90_pps"), ndr * 0.9), "{}", left.stdout);
        assert!(number("at_50_min_ns") <= number("at_50_max_ns"));
        assert!(close(number("line_share"), ndr / number("line_pps")));
    }
    let left = bench(CALM, &["--md", "--vm", "cached"]);
    assert_eq!(left.code, 0, "{left:?}");
    let tables = left.stdout.lines().filter(|line| line.starts_with("|--"));
    assert_eq!(tables.count(), 3, "{}", left.stdout);
    assert!(left.stdout.contains("| cached"), "{}", left.stdout);
}

#[test]
fn nothing_that_arrives_is_no_rate() {
    let left = bench(
        "sim:virtio,loss=99%",
        &["--json", "--vm", "var1", "--min", "2kpps"],
    );
    let found = left.document();
    assert_eq!(left.code, 5, "{left:?}");
    let row = &found["rows"][0];
    assert_eq!(row["ndr"]["end"], "below_min", "{row:#}");
    assert_eq!(
        (&row["max_tx_pps"], &row["latency"]),
        (&Value::Null, &Value::Array(Vec::new()))
    );
}

#[test]
fn nonsense_is_refused_before_a_port_is_opened() {
    for (more, said) in [
        (&["--size", "10"][..], "size"),
        (&["--vm", "guess"], "vm"),
        (&["--width", "0"], "width"),
        (&["--duration", "0"], "no"),
        (&["--latency-at", "0"], "--latency-at 0"),
        (&["--latency-at", "100%"], "less than all"),
        (&["--min", "max"], "--min max"),
        (&["--csv", "--md"], "cannot be used with"),
        (&["--csv", "--json"], "one output"),
        (&["-p", "sim:virtio"], "3 are named"),
        (&["--html", "/nowhere/at/all.html"], "cannot write"),
    ] {
        let words = ["bench", "-p", "sim:virtio", "-p", "sim:virtio"];
        let left = run(&[&words[..], more].concat());
        assert_eq!(left.code, 2, "{more:?}: {left:?}");
        assert!(
            left.stderr.contains(said) || left.stdout.contains(said),
            "{more:?}: {left:?}"
        );
    }
}
