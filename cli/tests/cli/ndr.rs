//! `rgen ndr`, on wires whose knee is known. Rates are low and trials short, so that a busy machine
//! loses nothing of its own; nothing is said about time.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::{Left, interrupt_at, number, run};

/// Between two trials the wire's pause passes, so that each is a talk of its own.
const CALM: [&str; 10] = [
    "--trial",
    "100ms",
    "--sum",
    "300ms",
    "--rest",
    "80ms",
    "--warm-up",
    "0s",
    "--catch-up",
    "100ms",
];
/// Frames a second at the knee.
const KNEE: f64 = 20_000.0;

fn port(shape: &str) -> String {
    format!("sim:virtio,rx_slots=4096,tx_slots=4096,knee=20kpps,knee_shape={shape},knee_pause=60ms")
}

fn search(port: &str, more: &[&str]) -> Left {
    search_for(port, "300ms", more)
}

/// Each load is looked at for `sum`.
fn search_for(port: &str, sum: &str, more: &[&str]) -> Left {
    let words = ["ndr", "udp64", "-p", port, "-p", port, "--json"];
    let calm = CALM.map(|word| if word == "300ms" { sum } else { word });
    run(&[&words[..], &calm, more].concat())
}

fn load(goal: &Value, key: &str) -> f64 {
    goal[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no {key}: {goal:#}"))
}

/// The knee is found: nothing below it is lost (the wire makes no loss of a thread that was held
/// up), and a load beyond it is no lower bound. A trial of 100 ms sees 3 % more than the rate (the
/// wire's allowance).
///
/// A generator that other programs kept from sending in time says so: then its bounds are its own,
/// the exit code is 6, and of the wire is known only what it is not.
fn assert_found(left: &Left, goal: &Value, truth: f64, width: f64) {
    let (lower, upper) = (load(goal, "lower_pps"), load(goal, "upper_pps"));
    assert!(lower < 1.07 * truth && lower < upper, "{goal:#}");
    assert_eq!(goal["end"], "found", "{goal:#}");
    assert_eq!(goal["regular"], true, "{goal:#}");
    assert!(load(goal, "width") <= width * 1.001, "{goal:#}");
    // What share of a slope's frames is lost is a matter of chance, as far as a trial's few tell.
    let chance = if goal["loss_ratio"] == 0.0 { 0.0 } else { 0.05 };
    let truth = truth * (1.0 - chance);
    if goal["limited_by"].is_null() {
        assert!(upper >= truth, "lost below the knee: {left:?}");
        assert!(lower >= truth * (1.0 - width * 1.001), "{goal:#}");
    } else {
        assert_eq!(left.code, 6, "{left:?}");
    }
}

/// The search went to its end: 0, or 6 where the generator was the limit.
fn assert_done(left: &Left, found: &Value) {
    let mut goals = found["goals"].as_array().into_iter().flatten();
    let is_limited = goals.any(|goal| !goal["limited_by"].is_null());
    assert_eq!(left.code, if is_limited { 6 } else { 0 }, "{left:?}");
}

#[test]
fn a_sharp_knee_is_found_in_both_directions_and_told_whole() {
    let range = ["--min", "4kpps", "--max", "64kpps", "--width", "4%"];
    let left = search(&port("sharp"), &[&range[..], &["--seed", "5"]].concat());
    let found = left.document();
    assert_done(&left, &found);
    assert_eq!(found["schema"], "rgen/ndr/1");
    let goals = found["goals"].as_array().unwrap();
    let names: Vec<_> = goals.iter().map(|goal| &goal["name"]).collect();
    assert_eq!(names, ["NDR", "PDR 0.5 %"]);
    assert_found(&left, &goals[0], KNEE, 0.04);
    assert_found(&left, &goals[1], KNEE, 0.04);
    let total = load(&goals[0], "total_pps");
    assert!(
        (total / load(&goals[0], "lower_pps") - 2.0).abs() < 1e-9,
        "both ways"
    );
    assert!((load(&goals[0], "bps_l1") - total * 84.0 * 8.0).abs() < 1.0);
    let trials = found["trials"].as_array().unwrap();
    assert_eq!(trials.len() as u64, number(&found, "/trial_count"));
    for trial in trials {
        let [asked, lost, unsent] = ["asked_frames", "lost_frames", "unsent_frames"]
            .map(|key| trial[key].as_u64().unwrap());
        assert!(lost + unsent <= asked, "{trial}");
    }
    assert_eq!(
        (number(&found, "/seed"), number(&found, "/sending_ports")),
        (5, 2)
    );
    assert_eq!(found["max_is"], "given");
    assert_eq!(found["search"]["method"], "mlrsearch");
    assert_eq!(found["search"]["loss_by"], "totals");
    assert_eq!(found["config"]["command"], "ndr");
    for key in ["machine", "warnings", "events", "failures", "version"] {
        assert!(found.get(key).is_some(), "no {key}: {found:#}");
    }
}

#[test]
fn on_a_slope_a_little_loss_allows_a_little_more() {
    // A tenth of what is beyond the knee K is lost: 1 % of a load of K / 0.9.
    let range = [
        "--min", "4kpps", "--max", "64kpps", "--width", "4%", "--pdr", "1%",
    ];
    let left = search(&port("sloped"), &[&range[..], &["--one-way"]].concat());
    let found = left.document();
    assert_done(&left, &found);
    assert_found(&left, &found["goals"][0], KNEE, 0.04);
    assert_found(&left, &found["goals"][1], KNEE / 0.9, 0.04);
    assert_eq!(found["goals"][1]["name"], "PDR 1 %");
    let passed = load(&found["goals"][1], "throughput_pps") / load(&found["goals"][1], "lower_pps");
    assert!((0.99..=1.0).contains(&passed), "{found:#}");
    assert_eq!(number(&found, "/sending_ports"), 1);
}

#[test]
fn a_disturbance_now_and_then_is_no_knee() {
    let range = [
        "--min",
        "4kpps",
        "--max",
        "64kpps",
        "--width",
        "4%",
        "--no-pdr",
        "--one-way",
    ];
    // Long enough that hardly ever most of its trials are disturbed ones.
    let left = search_for(&port("noisy"), "1100ms", &range);
    let found = left.document();
    assert_done(&left, &found);
    assert_eq!(found["goals"].as_array().unwrap().len(), 1);
    assert_found(&left, &found["goals"][0], KNEE, 0.04);
}

#[test]
fn the_ends_of_the_range_are_results_of_their_own() {
    // Far more than a trial, what may be sent late, and the ring hold together.
    let range = ["--min", "100kpps", "--max", "125kpps", "--no-pdr"];
    let left = search(&port("sharp"), &range);
    let found = left.document();
    assert_eq!(left.code, 5, "{left:?}");
    assert_eq!(found["goals"][0]["end"], "below_min");
    assert_eq!(found["goals"][0]["lower_pps"], Value::Null);
    let range = ["--min", "1kpps", "--max", "4kpps", "--no-pdr"];
    let left = search(&port("sharp"), &range);
    let found = left.document();
    assert_eq!(left.code, 0, "{left:?}");
    assert_eq!(found["goals"][0]["end"], "at_max");
    assert!((load(&found["goals"][0], "lower_pps") - 4000.0).abs() < 1e-6);
    assert_eq!(found["goals"][0]["upper_pps"], Value::Null);
}

/// A wire that carries 14 881 frames a second, and a device that lets its sender wait.
const SLOW: &str = "sim:virtio,speed=10M,paced";

#[test]
fn what_was_not_sent_is_not_the_limit_of_the_device() {
    // Far more than a trial, what may be sent late, and the ring hold together.
    let range = ["--min", "100kpps", "--max", "125kpps", "--no-pdr"];
    let left = search(SLOW, &range);
    let found = left.document();
    assert_eq!(left.code, 6, "{left:?}");
    let limit = found["goals"][0]["limited_by"].as_str().unwrap();
    assert!(limit.contains("ring was full"), "{limit}");
    let trial = &found["trials"][0];
    assert!(number(trial, "/unsent_frames") > 0 && number(trial, "/lost_frames") == 0);
    assert_eq!(trial["bottleneck"], "port");
    let words = ["ndr", "udp64", "-p", SLOW, "-p", SLOW];
    let left = run(&[&words[..], &CALM, &range].concat());
    assert!(left.stdout.contains("was not sent"), "{left:?}");
}

#[test]
fn the_highest_load_is_the_lines_or_what_the_generator_can_do() {
    let short = ["--min", "1kpps", "--limit", "100ms", "--no-pdr"];
    let found = search(SLOW, &short).document();
    assert_eq!(found["max_is"], "line");
    assert!(
        (load(&found, "max_pps") - 1e7 / (84.0 * 8.0)).abs() < 0.01,
        "{found:#}"
    );
    let found = search(SLOW, &[&short[..], &["--max", "max"]].concat()).document();
    assert_eq!(found["max_is"], "generator");
    assert_eq!(found["trials"][0]["is_warm_up"], true);
    assert_eq!(found["trials"][0]["load_pps"], found["max_pps"]);
    let found = search(SLOW, &[&short[..], &["--max", "50%"]].concat()).document();
    assert!(
        (load(&found, "max_pps") - 5e6 / (84.0 * 8.0)).abs() < 0.01,
        "{found:#}"
    );
    // What streams of a fixed rate take of the line is not there for the others.
    let words = ["ndr", "latency", "-p", SLOW, "-p", SLOW, "--json"];
    let found = run(&[&words[..], &CALM, &short].concat()).document();
    assert!(
        load(&found, "max_pps") < 1e7 / (84.0 * 8.0) - 900.0,
        "{found:#}"
    );
}

#[test]
fn where_others_may_be_on_the_wire_every_frame_is_marked() {
    // A cable that leads nowhere: what is sent is lost.
    let words = [
        "ndr",
        "udp64",
        "-p",
        "sim:virtio",
        "--min",
        "1kpps",
        "--max",
        "2kpps",
        "--json",
    ];
    let left = run(&[&words[..], &CALM].concat());
    let found = left.document();
    assert_eq!(
        (left.code, &found["goals"][0]["end"]),
        (5, &"below_min".into()),
        "{left:?}"
    );
    assert_eq!(found["search"]["loss_by"], "stamps");
    assert_eq!(found["config"]["streams"][0]["measure"], "count");
    let left = run(&[&words[..], &CALM, &["--totals"]].concat());
    let found = left.document();
    assert_eq!(found["search"]["loss_by"], "totals");
    assert_eq!(found["config"]["streams"][0]["measure"], "none");
    // Copies would hide losses from totals.
    let port = "sim:virtio,dup=5%,loss=5%";
    let range = ["--min", "2kpps", "--max", "4kpps", "--no-pdr"];
    let left = search(port, &range);
    let found = left.document();
    assert_eq!(
        (left.code, &found["search"]["loss_by"]),
        (5, &"stamps".into()),
        "{left:?}"
    );
}

#[test]
fn methods_and_their_times_are_as_asked() {
    let at = |more: &[&str]| {
        let range = ["--min", "1kpps", "--max", "2kpps"];
        let left = search("sim:virtio", &[&range[..], more].concat());
        let found = left.document();
        assert_done(&left, &found);
        found
    };
    let strict = at(&["--method", "rfc2544"]);
    assert_eq!(strict["search"]["method"], "rfc2544");
    assert_eq!(strict["search"]["exceed_ratio"], 0.0);
    assert_eq!(
        strict["goals"].as_array().unwrap().len(),
        1,
        "no PDR unless asked for"
    );
    let twice = at(&["--method", "tst009", "--pdr", "0.1%"]);
    assert_eq!(twice["search"]["exceed_ratio"], 0.5);
    assert_eq!(twice["goals"][1]["loss_ratio"], 0.001);
    for (found, sum) in [(&strict, 0.3), (&twice, 0.3)] {
        assert_eq!(found["search"]["trial_s"], 0.1);
        assert_eq!(found["search"]["sum_s"], sum);
        assert_eq!(found["search"]["rest_s"], 0.08);
    }
}

#[test]
fn when_time_is_up_what_is_known_is_told() {
    let range = [
        "--min", "1kpps", "--max", "64kpps", "--limit", "300ms", "--no-pdr",
    ];
    let left = search(&port("sharp"), &range);
    let found = left.document();
    assert_eq!(
        (left.code, &found["goals"][0]["end"]),
        (5, &"time_up".into()),
        "{left:?}"
    );
    let words = ["ndr", "udp64", "-p", "sim:virtio", "-p", "sim:virtio"];
    let range = ["--min", "1kpps", "--max", "2kpps", "--limit", "100ms"];
    let left = run(&[&words[..], &CALM, &range].concat());
    assert!(left.stdout.contains("time was up"), "{left:?}");
}

#[test]
fn nonsense_is_refused_before_a_port_is_opened() {
    for (more, said) in [
        (&["--min", "max"][..], "--min max"),
        (&["--min", "5kpps", "--max", "4kpps"], "no range"),
        (&["--width", "0"], "width"),
        (&["--width", "100%"], "less than all"),
        (&["--pdr", "0.5%", "--no-pdr"], "cannot be used with"),
        (&["--trial", "soon"], "--trial"),
        (&["--method", "guess"], "guess"),
        (&["--min", "60%", "--max", "50%"], "no range"),
        (&["--min", "50kpps", "--max", "10mbps"], "no range"),
        (&["--trial", "60ms"], "--limit 50ms"),
        (&["--max", "10"], ""),
    ] {
        let words = [
            "ndr",
            "udp64",
            "-p",
            "sim:virtio",
            "-p",
            "sim:virtio",
            "--limit",
            "50ms",
        ];
        let short: &[&str] = if more[0] == "--trial" {
            &[]
        } else {
            &["--trial", "20ms"]
        };
        let left = run(&[&words[..], short, more].concat());
        if said.is_empty() {
            assert_ne!(left.code, 1, "a factor is a load too: {left:?}");
            continue;
        }
        assert_eq!(left.code, 2, "{more:?}: {left:?}");
        assert!(left.stderr.contains(said), "{more:?}: {left:?}");
    }
}

#[test]
fn a_range_that_is_none_is_refused_before_ports_are_looked_for() {
    // The ports do not exist: whoever looked for them would say so.
    let nowhere = "vhost-user:/nowhere/at/all.sock";
    for range in [["5kpps", "4kpps"], ["60%", "50%"], ["1gbps", "10kpps"]] {
        let [min, max] = range;
        let words = ["ndr", "udp64", "-p", nowhere, "--min", min, "--max", max];
        let left = run(&words);
        assert_eq!(left.code, 2, "{left:?}");
        assert!(left.stderr.contains("no range"), "{left:?}");
    }
}

#[test]
fn a_progress_line_a_trial_and_ctrl_c_gives_what_is_known() {
    let port = port("sharp");
    let words = [
        "ndr", "udp64", "-p", &port, "-p", &port, "--json", "--max", "64kpps",
    ];
    let left = interrupt_at("NDR", &[&words[..], &CALM].concat(), Signal::SIGINT);
    let line = left.stderr.lines().find(|line| line.contains("NDR"));
    let line = line.expect("it waits for this one");
    assert!(
        line.contains("64.000 kpps") && line.contains("lost"),
        "{line}"
    );
    assert_eq!(left.code, 130);
    let found = left.document();
    assert_eq!(
        (&found["complete"], &found["goals"][0]["end"]),
        (&false.into(), &"searching".into())
    );
}
