//! `rgen rfc2544`: the four tests, and what adds up in them. Trials are short, and nothing is said
//! about speed.

use serde_json::Value;

use crate::common::{Left, run};

/// Frames a second that the wire lets through, with a burst of as many as pass in its pause.
const KNEE: f64 = 20_000.0;
const WIRE: &str = "sim:virtio,knee=20kpps,knee_pause=20ms";

fn rfc2544(more: &[&str]) -> Left {
    let words = [
        "rfc2544",
        "-p",
        WIRE,
        "-p",
        WIRE,
        "--one-way",
        "--duration",
        "60ms",
        "--catch-up",
        "100ms",
    ];
    run(&[&words[..], more].concat())
}

fn tested(more: &[&str]) -> Left {
    let words = ["--json", "--rest", "30ms", "--width", "10%"];
    rfc2544(&[&words[..], more].concat())
}

fn number(row: &Value, path: &str) -> f64 {
    let found = row.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number at {path}: {row:#}"))
}

/// What holds in the list of losses: from all of the highest load down in steps, to two loads of
/// which nothing is lost, or to the end.
fn assert_losses(row: &Value, step: f64) {
    let losses = row["loss"].as_array().expect("losses are a list");
    for (n, at) in (0..).zip(losses) {
        let share = 1.0 - f64::from(n) * step;
        assert!((number(at, "/share") - share).abs() < 1e-9, "{row:#}");
        let load = number(row, "/max_pps") * share;
        assert!((number(at, "/load_pps") / load - 1.0).abs() < 1e-9);
        let missing = number(at, "/lost_frames") + number(at, "/unsent_frames");
        let ratio = missing / number(at, "/asked_frames");
        assert!((number(at, "/loss_ratio") - ratio).abs() < 1e-12, "{at:#}");
    }
    let is_good = |at: &&Value| number(at, "/loss_ratio") == 0.0;
    let good: Vec<bool> = losses.iter().map(|at| is_good(&at)).collect();
    let first = good.windows(2).position(|two| two == [true, true]);
    match first {
        Some(place) => assert_eq!(place + 2, good.len(), "it goes on: {row:#}"),
        None => assert!(
            good.len() as f64 >= 0.95 / step,
            "it stops too soon: {row:#}"
        ),
    }
}

#[test]
fn the_four_tests_of_a_wire_with_a_knee_agree_with_it_and_with_each_other() {
    let left = tested(&["--size", "64,256", "--step", "25%", "--seed", "7"]);
    let found = left.document();
    assert_eq!(found["schema"], "rgen/rfc2544/1");
    assert_eq!(
        (&found["strict"], &found["seed"]),
        (&false.into(), &7.into())
    );
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{left:?}");
    let mut is_limited = false;
    for row in rows {
        let goal = &row["throughput"];
        let (lower, upper) = (number(goal, "/lower_pps"), number(goal, "/upper_pps"));
        assert!(
            lower <= KNEE * 1.001,
            "more than the wire lets through: {left:?}"
        );
        assert!(number(goal, "/width") <= 0.1001, "{goal:#}");
        is_limited |= !goal["limited_by"].is_null();
        // A machine that was busy for a moment sends too much at once afterwards, and the wire
        // loses of it at loads that it bears; one lost frame is too many here.
        let trials = row["trials"].as_array().unwrap();
        let is_disturbed = |trial: &Value| {
            let missing = number(trial, "/lost_frames") + number(trial, "/unsent_frames");
            number(trial, "/load_pps") < KNEE && missing > 0.0
        };
        if !trials.iter().any(is_disturbed) {
            assert!(upper >= KNEE && lower >= KNEE * 0.899, "{goal:#}");
        }
        let latency = &row["latency"];
        assert_eq!(
            (&latency["repeats"], &latency["tagged"]),
            (&1.into(), &false.into())
        );
        assert_eq!(number(latency, "/load_pps"), lower);
        let of = |key: &str| number(latency, key);
        assert!(
            0.0 < of("/min_ns") && of("/min_ns") <= of("/mean_ns"),
            "{latency:#}"
        );
        assert!(of("/mean_ns") <= of("/max_ns"), "{latency:#}");
        assert_losses(row, 0.25);
        let highest = &row["loss"][0];
        assert!(
            number(highest, "/lost_frames") > 0.0,
            "far above the knee: {row:#}"
        );
        // In a burst at the highest rate no more pass than the wire lets through meanwhile, and
        // what it lets through at once.
        let burst = &row["burst"];
        let most = KNEE * (number(burst, "/seconds") + 0.03);
        assert!((1.0..=most).contains(&number(burst, "/frames")), "{row:#}");
        assert_eq!(burst["whole"], false);
    }
    assert_eq!(left.code, if is_limited { 6 } else { 0 }, "{left:?}");
}

#[test]
fn a_wire_that_loses_nothing_carries_its_line_and_the_longest_burst() {
    // Slow enough for a machine that has other things to do.
    let words = [
        "rfc2544",
        "-p",
        "sim:virtio,speed=10M",
        "-p",
        "sim:virtio,speed=10M",
        "--json",
        "--size",
        "1518",
        "--duration",
        "100ms",
        "--test",
        "throughput,loss,burst",
        "--catch-up",
        "200ms",
    ];
    let left = run(&words);
    let found = left.document();
    assert_eq!(left.code, 0, "{left:?}");
    let row = &found["rows"][0];
    assert_eq!(row["max_is"], "line");
    assert_eq!(row["throughput"]["end"], "at_max", "{row:#}");
    assert_eq!(row["max_pps"], row["line_pps"]);
    let line = 10e6 / ((1518.0 + 20.0) * 8.0);
    assert!((number(row, "/line_pps") / line - 1.0).abs() < 1e-9);
    assert_eq!(row["loss"].as_array().unwrap().len(), 2, "{row:#}");
    assert_eq!(
        (&row["burst"]["whole"], &row["latency"]),
        (&true.into(), &Value::Null)
    );
    let whole = (line * 0.1).floor();
    assert_eq!(number(row, "/burst/frames"), whole);
}

#[test]
fn a_strict_test_times_one_tagged_frame_in_each_of_twenty_repetitions() {
    let left = tested(&["--strict", "--size", "64", "--test", "latency"]);
    let found = left.document();
    assert_eq!(found["strict"], true);
    let row = &found["rows"][0];
    let latency = &row["latency"];
    assert_eq!(
        (&latency["repeats"], &latency["tagged"]),
        (&20.into(), &true.into()),
        "{left:?}"
    );
    assert!((number(latency, "/seconds") - 0.12).abs() < 1e-9);
    assert_eq!(
        (&row["loss"], &row["burst"]),
        (&Value::Array(Vec::new()), &Value::Null)
    );
}

#[test]
fn what_cannot_be_tested_is_refused_before_a_port_is_opened() {
    for (words, said) in [
        (&["-p", "sim:nothing"][..], "two ports"),
        (&["-p", "x:", "-p", "y:", "--step", "0%"], "--step 0%"),
        (&["-p", "x:", "-p", "y:", "--size", "63"], "63"),
        (&["-p", "x:", "-p", "y:", "--test", "jitter"], "jitter"),
        (&["imix", "-p", "x:", "-p", "y:"], "size"),
        (&["-p", "x:", "-p", "y:", "--duration", "0s"], "trial"),
    ] {
        let left = run(&[&["rfc2544"], words].concat());
        assert_eq!(left.code, 2, "{left:?}");
        assert!(left.stderr.contains(said), "{words:?}: {left:?}");
    }
}

#[test]
fn the_tables_are_printed_for_people_and_as_markdown() {
    let words = ["--size", "64", "--width", "20%", "--step", "50%"];
    let left = rfc2544(&words);
    for said in [
        "§26.1",
        "§26.2",
        "§26.3",
        "§26.4",
        "THROUGHPUT",
        "quick: trials of 0.06 s",
    ] {
        assert!(left.stdout.contains(said), "no {said}: {left:?}");
    }
    let left = rfc2544(&[&words[..], &["--md"]].concat());
    assert!(left.stdout.starts_with("### rgen rfc2544: "), "{left:?}");
    assert!(left.stdout.matches("|--").count() >= 4, "{left:?}");
}
