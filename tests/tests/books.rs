//! The engine's books on cables whose flaws are known to the frame.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::time::Duration;

use engine::frame::{Frames, Macs, build, text};
use engine::run::{Clock, Finished, Hooks, Outcome, PortPlan, RunPlan};
use engine::stream::{Measure, Rate, Stream};
use rig::cable::{Flaw, cable};

#[derive(Clone, Copy)]
struct Tsc(hw::clock::Clock);

impl Clock for Tsc {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

/// Sends `frames` frames from the first end of a cable to the second.
fn run(flaw: Flaw, frames: u64, measure: Measure) -> Outcome {
    let ports = cable(flaw);
    let macs = Macs {
        src: ports[0].info().mac,
        dst: ports[1].info().mac,
    };
    let spec = text::parse("eth / ipv4 / udp").unwrap().sized(100);
    let mut stream = Stream::new("s", Frames::constant(build(&spec, macs).unwrap()));
    stream.rate = Rate::Pps(50_000.0);
    stream.measure = measure;
    let [first, second] = ports;
    let mut sender = PortPlan::new(first);
    sender.streams = vec![stream];
    sender.peer = Some(1);
    let plan = RunPlan {
        frames_limit: Some(frames),
        duration_ns: Some(20_000_000_000),
        quiet_ns: 50_000_000,
        catch_up_ns: 2_000_000_000,
        ..RunPlan::new(vec![sender, PortPlan::new(second)])
    };
    let clock = Tsc(hw::clock::Clock::calibrate());
    let mut run = engine::run::start(plan, clock, Hooks::default()).unwrap();
    while !run.finished() {
        run.service();
        std::thread::sleep(Duration::from_millis(1));
    }
    let Finished { outcome, .. } = run.join();
    assert_eq!(outcome.figures.asked_frames, frames, "{outcome:#?}");
    outcome
}

/// Frames sent, received, lost, duplicated and reordered, of the stream.
fn stream(outcome: &Outcome) -> [u64; 5] {
    let stream = &outcome.figures.streams[0];
    [
        stream.tx_frames,
        stream.rx_frames,
        stream.lost.unwrap(),
        stream.duplicated,
        stream.reordered,
    ]
}

#[test]
fn a_good_cable_brings_every_frame() {
    for measure in [Measure::Count, Measure::Latency] {
        let outcome = run(Flaw::None, 20_001, measure);
        assert_eq!(outcome.check(), [""; 0]);
        assert_eq!(stream(&outcome), [20_001, 20_001, 0, 0, 0], "{outcome:#?}");
        assert_eq!(outcome.figures.shortfall_frames, 0);
        let latency = outcome.figures.streams[0].latency;
        assert_eq!(latency.is_some(), measure == Measure::Latency);
        assert!(latency.is_none_or(|latency| latency.count == 20_001));
    }
}

#[test]
fn loss_duplicates_and_reordering_are_counted_to_the_frame() {
    // Every 500th frame of 20 001 is struck.
    for (flaw, expected) in [
        (Flaw::Loses, [20_001, 19_961, 40, 0, 0]),
        (Flaw::Duplicates, [20_001, 20_041, 0, 40, 0]),
        (Flaw::Reorders, [20_001, 20_001, 0, 0, 40]),
    ] {
        let outcome = run(flaw, 20_001, Measure::Count);
        assert_eq!(outcome.check(), [""; 0]);
        assert_eq!(stream(&outcome), expected, "{flaw:?}: {outcome:#?}");
    }
}

#[test]
fn a_frame_that_is_damaged_where_nobody_looks_is_received_all_the_same() {
    let outcome = run(Flaw::Damages, 20_001, Measure::Count);
    assert_eq!(outcome.check(), [""; 0]);
    assert_eq!(outcome.figures.ports[1].rx_frames, 20_001);
}

#[test]
fn a_port_that_keeps_a_frame_is_found_out() {
    let outcome = run(Flaw::Keeps, 20_001, Measure::Count);
    // The cable gives the frame back when its queue ends, so nothing has leaked then.
    assert_eq!(outcome.leaked, 0, "{outcome:#?}");
    assert_eq!(stream(&outcome), [20_001, 20_001, 0, 0, 0]);
}

#[test]
fn frames_for_nobody_are_counted_by_the_port_alone() {
    let outcome = run(Flaw::None, 3000, Measure::None);
    assert_eq!(outcome.check(), [""; 0]);
    assert_eq!(outcome.figures.ports[1].rx_frames, 3000, "{outcome:#?}");
    assert!(!outcome.figures.streams[0].measured);
    assert_eq!(outcome.figures.ports[0].lost, Some(0), "{outcome:#?}");
}
