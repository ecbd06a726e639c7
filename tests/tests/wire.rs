//! The engine over a wire with faults: every frame that was asked for is sent or counted as
//! shortfall, and every frame that was sent is received or counted as lost, each by its cause.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::sync::Arc;
use std::time::Duration;

use engine::frame::{Frames, Macs, build, text};
use engine::run::{Clock, Finished, Hooks, Outcome, PortPlan, RunPlan};
use engine::stream::{Measure, Rate, Stream};
use models::{Flap, Sim, WireOptions};
use port::Port;
use rig::sims::{Variant, open, wired};

/// The processor's counter, for the engine.
#[derive(Clone, Copy)]
struct Tsc(hw::clock::Clock);

impl Clock for Tsc {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

fn stream(name: &str, macs: Macs, size: usize, pps: f64) -> Stream {
    let spec = text::parse("eth / ipv4(src=16.0.0.1, dst=48.0.0.1) / udp(sport=1025, dport=12)");
    let template = build(&spec.unwrap().sized(size), macs).unwrap();
    let mut stream = Stream::new(name, Frames::constant(template));
    stream.rate = Rate::Pps(pps);
    stream.measure = Measure::Count;
    stream
}

/// Two ports that send to each other over `wire`, each `frames` frames, and what came of it.
fn run(wire: WireOptions, variant: &Variant, frames: u64) -> (Outcome, Arc<Sim>) {
    let sim = wired(variant, wire);
    let ports = open(&sim, variant).unwrap();
    let macs = ports.each_ref().map(|port| port.info().mac);
    let plan = |number: usize, port: Box<dyn Port>| {
        let ends = Macs {
            src: macs[number],
            dst: macs[1 - number],
        };
        PortPlan {
            streams: vec![
                stream(&format!("small {number}"), ends, 64, 100_000.0),
                stream(&format!("large {number}"), ends, 1000, 50_000.0),
            ],
            peer: Some(1 - number),
            promiscuous: false,
            ..PortPlan::new(port)
        }
    };
    let [first, second] = ports;
    let plan = RunPlan {
        frames_limit: Some(2 * frames),
        duration_ns: Some(10_000_000_000),
        drain_ns: 3_000_000_000,
        quiet_ns: 100_000_000,
        catch_up_ns: 1_000_000_000,
        ..RunPlan::new(vec![plan(0, first), plan(1, second)])
    };
    let clock = Tsc(hw::clock::Clock::calibrate());
    let mut run = engine::run::start(plan, clock, Hooks::default()).unwrap();
    while !run.finished() {
        run.service();
        std::thread::sleep(Duration::from_millis(2));
    }
    let Finished { outcome, ports } = run.join();
    drop(ports);
    assert_eq!(outcome.check(), [""; 0], "{outcome:#?}");
    assert!(outcome.failures.is_empty(), "{outcome:#?}");
    assert_eq!(sim.objections(), [""; 0]);
    books(&outcome, &sim);
    (outcome, sim)
}

/// What holds on any wire.
fn books(outcome: &Outcome, sim: &Sim) {
    for from in [0, 1] {
        let to = 1 - from;
        let (sender, receiver) = (sim.counters(from), sim.counters(to));
        let wire = sim.wire(from);
        let [sent, received] = [from, to].map(|port| &outcome.figures.ports[port]);
        assert_eq!(wire.held(), 0, "frames still on their way: {wire:?}");
        assert_eq!(sim.unaccounted(from), 0);
        assert_eq!(sent.tx_frames, sender.tx_frames, "{outcome:#?}");
        assert_eq!(sent.tx_bytes, sender.tx_bytes);
        assert_eq!(received.rx_frames, receiver.rx_frames, "{outcome:#?}");
        assert_eq!(received.rx_bytes, receiver.rx_bytes);
        // A virtio device tells its driver of no frame that it dropped.
        assert_eq!(received.rx_missed, 0);
        let lost = wire.lost + wire.link_down + receiver.rx_dropped();
        assert_eq!(sent.tx_frames + wire.duplicated, received.rx_frames + lost);

        let streams = || {
            outcome
                .figures
                .streams
                .iter()
                .filter(move |s| s.port == from)
        };
        let total = |pick: fn(&engine::run::StreamFigures) -> u64| streams().map(pick).sum::<u64>();
        assert_eq!(total(|s| s.tx_frames), sent.tx_frames);
        assert_eq!(
            total(|s| s.rx_frames) + received.rx_unmatched,
            received.rx_frames,
            "{outcome:#?}"
        );
        // A corrupted frame whose stamp was hit is lost to its stream and unmatched at the port.
        let gone = lost + received.rx_unmatched;
        let streams_lost = total(|s| s.lost.unwrap());
        let streams_doubled = total(|s| s.duplicated);
        // A copy that is gone as well costs its stream no frame: it was one too many.
        assert!(streams_doubled <= wire.duplicated, "{outcome:#?} {wire:?}");
        assert_eq!(
            gone - streams_lost,
            wire.duplicated - streams_doubled,
            "{outcome:#?} {wire:?}"
        );
        if lost + wire.corrupted == 0 || wire.duplicated == 0 {
            assert_eq!((streams_lost, streams_doubled), (gone, wire.duplicated));
        }
        assert_eq!(total(|s| s.too_late + s.surplus + s.misdirected), 0);
    }
}

const FRAMES: u64 = 30_000;

fn formats() -> [Variant; 2] {
    [Variant::rings(false, false), Variant::rings(true, true)]
}

#[test]
fn a_good_wire_loses_nothing() {
    for variant in formats() {
        let (outcome, sim) = run(WireOptions::default(), &variant, FRAMES);
        let figures = &outcome.figures;
        assert_eq!(figures.asked_frames, 2 * FRAMES, "{outcome:#?}");
        // On a busy machine the receiver may have come too late for some.
        let missed: u64 = [0, 1]
            .iter()
            .map(|&end| sim.counters(end).rx_no_buffer)
            .sum();
        let lost: u64 = figures.streams.iter().filter_map(|s| s.lost).sum();
        assert_eq!(lost, missed);
        assert_eq!(sim.wire(0).reordered, 0);
        assert!(figures.streams.iter().all(|s| s.reordered == 0));
    }
}

#[test]
fn frames_that_the_wire_loses_are_lost_in_the_books_to_the_frame() {
    for variant in formats() {
        let wire = WireOptions {
            loss: 0.01,
            ..WireOptions::default()
        };
        let (_, sim) = run(wire, &variant, FRAMES);
        assert!((200..400).contains(&sim.wire(0).lost), "{:?}", sim.wire(0));
    }
}

#[test]
fn frames_that_the_wire_doubles_are_doubled_in_the_books() {
    for variant in formats() {
        let wire = WireOptions {
            duplicate: 0.01,
            ..WireOptions::default()
        };
        let (_, sim) = run(wire, &variant, FRAMES);
        assert!(sim.wire(1).duplicated > 200);
    }
}

#[test]
fn frames_that_are_passed_by_others_are_reordered_in_the_books() {
    for variant in formats() {
        let wire = WireOptions {
            reorder: 0.01,
            reorder_depth: 16,
            ..WireOptions::default()
        };
        let (outcome, sim) = run(wire, &variant, FRAMES);
        for from in [0, 1] {
            let of_port = outcome.figures.streams.iter().filter(|s| s.port == from);
            let seen: u64 = of_port.map(|s| s.reordered).sum();
            let held = sim.wire(from).reordered;
            // The last ones may have had nothing left to be passed by. A frame of the one stream
            // is passed by at least one of its own among 16.
            assert!(seen <= held && seen + 16 >= held, "{seen} seen of {held}");
            assert!(held > 200);
        }
    }
}

#[test]
fn damaged_frames_are_errors_or_lost_and_never_counted_as_good() {
    for variant in formats() {
        let wire = WireOptions {
            bad_fcs: 0.01,
            corrupt: 0.01,
            ..WireOptions::default()
        };
        let (outcome, sim) = run(wire, &variant, FRAMES);
        for to in [0, 1] {
            let port = &outcome.figures.ports[to];
            assert_eq!(sim.wire(1 - to).bad_fcs, sim.counters(to).rx_bad_fcs);
            assert!(sim.counters(to).rx_bad_fcs > 200);
            assert!(port.rx_unmatched <= sim.wire(1 - to).corrupted);
            assert!(port.rx_unmatched > 0, "no bit of any stamp was hit");
        }
    }
}

#[test]
fn a_link_that_flaps_costs_frames_that_are_all_counted() {
    for variant in formats() {
        let wire = WireOptions {
            flap: Some(Flap {
                every: 5000,
                frames: 500,
                hold: Duration::from_millis(30),
            }),
            ..WireOptions::default()
        };
        let (outcome, sim) = run(wire, &variant, FRAMES);
        let lost: u64 = [0, 1].iter().map(|&from| sim.wire(from).link_down).sum();
        let paused: u64 = outcome
            .figures
            .ports
            .iter()
            .map(|p| p.shortfall.paused)
            .sum();
        assert!(lost + paused > 0, "{outcome:#?}");
        assert!(!outcome.events.is_empty(), "a flap that nobody told of");
    }
}

#[test]
fn everything_at_once_is_told_apart() {
    for variant in formats() {
        let wire = WireOptions {
            loss: 0.01,
            duplicate: 0.01,
            reorder: 0.01,
            bad_fcs: 0.005,
            corrupt: 0.005,
            delay: Duration::from_micros(300),
            delayed: 0.5,
            ..WireOptions::default()
        };
        run(wire, &variant, FRAMES);
    }
}

#[test]
fn the_same_seed_loses_the_same_frames() {
    let wire = WireOptions {
        loss: 0.02,
        seed: 42,
        ..WireOptions::default()
    };
    let lost = |_: u32| {
        let (outcome, sim) = run(wire.clone(), &Variant::rings(false, false), 5000);
        let shortfall = outcome.figures.shortfall_frames;
        (shortfall, sim.wire(0).lost, sim.wire(1).lost)
    };
    let runs = [lost(0), lost(1)];
    if runs.iter().all(|run| run.0 == 0) {
        assert_eq!(runs[0], runs[1]);
    }
}
