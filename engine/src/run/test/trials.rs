//! Trials one after the other on ports that stay started: each adds up by itself.

use std::sync::atomic::Ordering;

use port::QueueState;

use super::super::{Bottleneck, Offer, Pace, RunError, Standby, open};
use super::*;
use crate::load::Load;

fn at(pps: f64) -> Offer {
    Offer {
        pace: Pace::Load(Load::Rate(Rate::Pps(pps))),
        duration_ns: Some(20 * MS),
        frames_limit: None,
    }
}

/// Runs one trial, whose books must close.
fn trial(standby: Standby, offer: &Offer, clock: Manual) -> (Outcome, Standby) {
    let running = standby.start(offer, clock, Hooks::default()).unwrap();
    let (outcome, standby) = running.join_open();
    let broken = outcome.check();
    assert!(broken.is_empty(), "{broken:?}\n{outcome:#?}");
    (outcome, standby)
}

fn close(standby: Standby) {
    let closed = standby.close();
    assert_eq!((closed.leaked, closed.failures.len()), (0, 0));
}

#[test]
fn each_trial_counts_from_zero_at_its_own_rate() {
    for (measure, resident) in [
        (Measure::None, true),
        (Measure::None, false),
        (Measure::Latency, false),
    ] {
        let (mut plan, _) = plan(vec![
            stream("three", 3.0, measure),
            stream("one", 1.0, measure),
        ]);
        plan.resident_limit = usize::from(resident) * 1000;
        let clock = Manual::new(50);
        let mut standby = open(plan).unwrap();
        for pps in [400_000u32, 40_000, 1_000_000, 400, 400_000] {
            let (done, next) = trial(standby, &at(f64::from(pps)), clock);
            let asked = u64::from(pps) * 20 / 1000;
            let figures = &done.figures;
            assert_eq!((figures.asked_frames, figures.shortfall_frames), (asked, 0));
            assert_eq!(figures.ports[1].rx_frames, asked);
            assert_eq!(figures.ports[0].lost, Some(0));
            assert_eq!(figures.ports[0].device.tx_frames, asked);
            assert_eq!(figures.ports[1].device.rx_frames, asked);
            assert_eq!(figures.streams[0].tx_frames, asked * 3 / 4);
            assert!((done.duration_s - 0.020).abs() < 1e-9);
            if measure == Measure::Latency {
                let one = &figures.streams[1];
                assert_eq!((one.lost, one.duplicated), (Some(0), 0));
                assert_eq!(one.latency.unwrap().count, asked / 4);
            }
            standby = next;
        }
        close(standby);
    }
}

#[test]
fn a_trial_may_be_as_fast_as_can_be_and_the_next_one_slow_again() {
    let (plan, _) = plan(vec![stream("one", 1.0, Measure::Count)]);
    let clock = Manual::new(1000);
    let fast = Offer {
        pace: Pace::Unlimited,
        ..at(1.0)
    };
    let standby = open(plan).unwrap();
    let (done, standby) = trial(standby, &fast, clock);
    assert!(done.figures.ports[0].tx_frames > 10_000, "{done:#?}");
    let (done, standby) = trial(standby, &at(1000.0), clock);
    assert_eq!(done.figures.asked_frames, 20);
    let limited = Offer {
        frames_limit: Some(777),
        duration_ns: None,
        ..fast
    };
    let (done, standby) = trial(standby, &limited, clock);
    assert_eq!(done.figures.ports[1].rx_frames, 777);
    close(standby);
}

#[test]
fn loss_is_that_of_the_trial() {
    let (plan, knobs) = plan(vec![stream("one", 1.0, Measure::Count)]);
    let clock = Manual::new(50);
    let mut standby = open(plan).unwrap();
    for every in [0, 7, 0, 5] {
        knobs.drop_every.store(every, Ordering::Relaxed);
        let before = knobs.dropped.load(Ordering::Relaxed);
        let (done, next) = trial(standby, &at(500_000.0), clock);
        let dropped = knobs.dropped.load(Ordering::Relaxed) - before;
        assert_eq!(dropped > 1000, every > 0);
        assert_eq!(done.figures.streams[0].lost, Some(dropped));
        standby = next;
    }
    close(standby);
}

#[test]
fn several_queues_and_workers_are_there_again_in_every_trial() {
    let (mut plan, _) = plan(vec![
        stream("one", 3.0, Measure::Count),
        stream("other", 1.0, Measure::None),
    ]);
    plan.cores = vec![0, 1, 0];
    plan.ports[0].config.tx_queues = 3;
    plan.ports[1].config.rx_queues = 3;
    let clock = Manual::new(30);
    let mut standby = open(plan).unwrap();
    for _ in 0..3 {
        let (done, next) = trial(standby, &at(700_000.0), clock);
        assert_eq!(done.figures.asked_frames, 14_000);
        let sent = done.figures.ports[0].tx_frames;
        assert_eq!(done.figures.ports[1].rx_frames, sent);
        standby = next;
    }
    close(standby);
}

/// A measured stream to the far end of a wire, which is in the test's hands.
fn to_far_end() -> (Standby, fake::Far) {
    let (near, far) = fake::with_far_end();
    let mut sender = PortPlan::new(near);
    sender.streams = vec![stream("one", 1.0, Measure::Count)];
    let mut plan = RunPlan::new(vec![sender]);
    plan.quiet_ns = MS / 10;
    plan.drain_ns = MS;
    plan.yield_when_idle = false;
    (open(plan).unwrap(), far)
}

#[test]
fn a_late_frame_of_the_last_trial_is_foreign_to_the_next() {
    let (standby, far) = to_far_end();
    let clock = Manual::new(50);
    let (done, standby) = trial(standby, &at(1000.0), clock);
    assert_eq!(done.figures.streams[0].lost, Some(20));
    let old = far.take();
    assert_eq!(old.len(), 20);
    let endless = Offer {
        duration_ns: None,
        ..at(100_000.0)
    };
    let mut running = standby.start(&endless, clock, Hooks::default()).unwrap();
    let mut own = Vec::new();
    while own.len() < 20 {
        own.extend(far.take());
    }
    let received = |running: &mut Run| running.snapshot().figures.ports[0].rx_frames;
    for frame in old.iter().chain(&own[..20]) {
        far.send(frame);
    }
    while received(&mut running) < 40 {}
    running.stop();
    let (done, standby) = running.join_open();
    assert_eq!(done.check(), Vec::<String>::new());
    assert_eq!(done.figures.streams[0].rx_frames, 20, "its own");
    assert_eq!(done.figures.ports[0].rx_unmatched, 20, "the last trial's");
    close(standby);
}

#[test]
fn what_comes_between_trials_is_nobodys() {
    let (standby, far) = to_far_end();
    let clock = Manual::new(50);
    let (_, standby) = trial(standby, &at(1000.0), clock);
    for _ in 0..300 {
        far.send(&udp_bytes(60));
    }
    let (done, standby) = trial(standby, &at(1000.0), clock);
    let port = &done.figures.ports[0];
    assert_eq!((port.rx_frames, port.device.rx_frames), (0, 0));
    close(standby);
}

#[test]
fn a_link_that_was_lost_between_trials_is_waited_for() {
    let (mut plan, knobs) = plan(vec![stream("one", 1.0, Measure::Count)]);
    plan.link_wait_ns = MS;
    let clock = Manual::new(50);
    let (done, standby) = trial(open(plan).unwrap(), &at(100_000.0), clock);
    assert_eq!(done.events, []);
    knobs.down_looks.store(3, Ordering::Relaxed);
    let (done, standby) = trial(standby, &at(100_000.0), clock);
    assert_eq!(done.figures.streams[0].lost, Some(0));
    let said: Vec<_> = done
        .events
        .iter()
        .map(|event| (event.port, event.at_ns))
        .collect();
    assert_eq!(said, [(0, 0)], "{done:?}");
    // It does not come back: an error that names it.
    knobs.link_down.store(true, Ordering::Relaxed);
    let error = standby.start(&at(1.0), Manual::new(MS), Hooks::default());
    assert!(matches!(error.err(), Some(RunError::LinkDown { .. })));
}

#[test]
fn what_a_slow_device_still_had_is_not_taken_for_the_next_trials() {
    let (mut plan, knobs) = plan(vec![stream("one", 1.0, Measure::Count)]);
    plan.drain_ns = MS;
    let clock = Manual::new(50);
    let hundred = Offer {
        frames_limit: Some(100),
        ..at(500_000.0)
    };
    knobs.polls.store(u64::MAX, Ordering::Relaxed);
    let (done, standby) = trial(open(plan).unwrap(), &hundred, clock);
    assert_eq!(done.figures.ports[0].shortfall.abandoned, 100);
    assert_eq!(done.bottleneck, Bottleneck::Port);
    // It keeps those of the next trial too: only these are its own.
    let (done, standby) = trial(standby, &hundred, clock);
    assert_eq!(done.figures.ports[0].shortfall.abandoned, 100);
    // Waited for in vain: 20 000 looks of 50 ns. All leave when the third trial drains.
    knobs.polls.store(22_000, Ordering::Relaxed);
    let fifty = Offer {
        frames_limit: Some(50),
        ..hundred
    };
    let (done, standby) = trial(standby, &fifty, clock);
    let (one, port) = (&done.figures.streams[0], &done.figures.ports[1]);
    assert_eq!(port.rx_frames, 50, "what came in between was thrown away");
    assert_eq!((one.asked, one.tx_frames, one.lost), (50, 50, Some(0)));
    assert_eq!(one.shortfall.total(), 0);
    let (done, standby) = trial(standby, &at(500_000.0), clock);
    assert_eq!(done.figures.ports[1].rx_frames, 10_000);
    close(standby);
}

#[test]
fn a_port_that_failed_ends_the_trials() {
    let (plan, knobs) = plan(vec![stream("one", 1.0, Measure::Count)]);
    let clock = Manual::new(50);
    let (_, standby) = trial(open(plan).unwrap(), &at(100_000.0), clock);
    knobs.set_state(QueueState::Failed);
    let error = standby.start(&at(1.0), clock, Hooks::default());
    assert!(matches!(error.err(), Some(RunError::Port(_))));
}

#[test]
fn a_load_that_no_stream_can_make_up_is_refused() {
    let mut fixed = stream("fixed", 1000.0, Measure::Count);
    fixed.scaled = false;
    let (plan, _) = plan(vec![fixed]);
    let error = open(plan)
        .unwrap()
        .start(&at(5000.0), Manual::new(50), Hooks::default());
    assert!(matches!(error.err(), Some(RunError::Load { .. })));
}
