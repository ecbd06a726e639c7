//! What is asked is sent or reported, to the frame.

use std::sync::atomic::Ordering;

use port::{PortError, QueueState};
use proptest::prelude::*;

use super::super::{Bottleneck, RunError};
use super::*;
use crate::stream::Mode;

#[test]
fn a_rate_below_the_limit_is_sent_exactly() {
    let (plan, _) = plan(vec![stream("one", 1_000_000.0, Measure::None)]);
    let done = run(plan, Manual::new(50));
    assert_eq!(done.figures.asked_frames, 20_000);
    assert_eq!(done.figures.shortfall_frames, 0);
    assert_eq!(done.figures.ports[1].rx_frames, 20_000);
    assert_eq!(done.figures.ports[0].lost, Some(0));
    assert_eq!(done.figures.streams[0].lost, Some(0));
    assert_eq!(done.bottleneck, Bottleneck::None);
    assert!((done.duration_s - 0.020).abs() < 1e-9);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn asked_is_the_rate_times_the_duration_whatever_they_are(
        pps in 1u64..3_000_000,
        duration_ns in 1u64..30_000_000,
        measured: bool,
        resident: bool,
    ) {
        let measure = if measured { Measure::Count } else { Measure::None };
        let (mut plan, _) = plan(vec![stream("one", pps as f64, measure)]);
        plan.duration_ns = Some(duration_ns);
        if !resident {
            plan.resident_limit = 0;
        }
        let done = run(plan, Manual::new(40));
        let asked = u128::from(pps) * u128::from(duration_ns) / 1_000_000_000;
        prop_assert_eq!(u128::from(done.figures.asked_frames), asked);
        prop_assert_eq!(done.figures.shortfall_frames, 0);
        prop_assert_eq!(done.figures.ports[1].rx_frames, done.figures.asked_frames);
    }

    #[test]
    fn many_streams_add_up_and_each_is_exact(
        rates in prop::collection::vec(1u64..40_000, 1..60),
        limit in prop::option::of(0u64..5_000),
    ) {
        let streams = rates.iter().enumerate().map(|(number, &pps)| {
            let measure = if number % 2 == 0 { Measure::Count } else { Measure::None };
            stream(&number.to_string(), pps as f64, measure)
        });
        let (mut plan, _) = plan(streams.collect());
        plan.frames_limit = limit;
        let done = run(plan, Manual::new(40));
        prop_assert_eq!(done.figures.shortfall_frames, 0);
        prop_assert_eq!(done.figures.ports[1].rx_frames, done.figures.asked_frames);
        if let Some(limit) = limit {
            prop_assert!(done.figures.asked_frames <= limit);
            return Ok(());
        }
        for (stream, &pps) in done.figures.streams.iter().zip(&rates) {
            // Streams begin at different points of their gap: up to one frame more.
            let exact = pps * 20 / 1000;
            prop_assert!((exact..=exact + 1).contains(&stream.asked));
        }
    }
}

#[test]
fn ten_thousand_streams_each_send_their_share() {
    for resident in [true, false] {
        let streams = (0..10_000).map(|number| stream(&number.to_string(), 150.0, Measure::None));
        let (mut plan, _) = plan(streams.collect());
        plan.resident_limit = usize::from(resident) * 9_000;
        let done = run(plan, Manual::new(40));
        assert_eq!(done.figures.asked_frames, 30_000);
        assert_eq!(done.figures.shortfall_frames, 0);
        let mut streams = done.figures.streams.iter();
        assert!(streams.all(|stream| stream.tx_frames == 3 && stream.tx_bytes == 192));
    }
}

#[test]
fn one_frame_an_hour_is_sent_when_it_is_due_and_not_before() {
    let mut one = stream("slow", 1.0 / 3600.0, Measure::None);
    one.mode = Mode::Burst { frames: 2 };
    let (mut plan, _) = plan(vec![one]);
    plan.duration_ns = None;
    // Each reading takes ten seconds: two hours in 720 of them.
    plan.catch_up_ns = 60_000_000_000;
    plan.drain_ns = 600_000_000_000;
    plan.quiet_ns = 100_000_000_000;
    let done = run(plan, Manual::new(10_000_000_000));
    assert_eq!(
        (done.figures.asked_frames, done.figures.shortfall_frames),
        (2, 0)
    );
    assert!(
        (7200.0..7300.0).contains(&done.duration_s),
        "{}",
        done.duration_s
    );
}

#[test]
fn several_queues_send_a_stream_together_exactly_and_measured() {
    let (mut plan, _) = plan(vec![stream("one", 777_777.0, Measure::Count)]);
    plan.ports[0].config.tx_queues = 3;
    plan.ports[1].config.rx_queues = 3;
    let done = run(plan, Manual::new(30));
    assert_eq!(done.figures.asked_frames, 777_777 * 20 / 1000);
    assert_eq!(done.figures.shortfall_frames, 0);
    let one = &done.figures.streams[0];
    assert_eq!((one.rx_frames, one.lost), (one.tx_frames, Some(0)));
    assert_eq!((one.reordered, one.duplicated), (0, 0));
}

#[test]
fn several_workers_account_for_the_same_frames() {
    let (mut plan, _) = plan(vec![
        stream("one", 400_000.0, Measure::Latency),
        stream("other", 300_000.0, Measure::None),
    ]);
    plan.cores = vec![0, 1, 0];
    plan.ports[0].config.tx_queues = 2;
    plan.ports[1].config.rx_queues = 2;
    let done = run(plan, Manual::new(15));
    assert_eq!(done.figures.asked_frames, 14_000);
    let sent = done.figures.ports[0].tx_frames;
    assert_eq!(sent + done.figures.shortfall_frames, 14_000);
    assert_eq!(done.figures.ports[1].rx_frames, sent);
}

#[test]
fn a_frame_limit_is_reached_and_not_passed() {
    let streams = vec![
        stream("three", 300_000.0, Measure::None),
        stream("one", 100_000.0, Measure::Count),
    ];
    let (mut plan, _) = plan(streams);
    plan.duration_ns = None;
    plan.frames_limit = Some(1001);
    let done = run(plan, Manual::new(50));
    assert_eq!(done.figures.asked_frames, 1001);
    assert_eq!(done.figures.shortfall_frames, 0);
    assert_eq!(done.figures.streams[0].tx_frames, 750);
}

#[test]
fn as_fast_as_possible_keeps_proportions_and_asks_what_it_sent() {
    let streams = vec![
        stream("three", 3.0, Measure::None),
        stream("one", 1.0, Measure::Count),
    ];
    let (mut plan, _) = plan(streams);
    plan.ports[0].unlimited = true;
    let done = run(plan, Manual::new(1000));
    let [three, one] = &done.figures.streams[..] else {
        unreachable!()
    };
    assert_eq!(done.figures.shortfall_frames, 0);
    assert!(one.tx_frames > 1000, "{}", one.tx_frames);
    assert!(three.tx_frames.abs_diff(3 * one.tx_frames) <= 64);
    assert_eq!(one.rx_frames, one.tx_frames);
}

#[test]
fn a_stream_that_keeps_its_rate_does_so_beside_one_without_limit() {
    let mut probe = stream("probe", 10_000.0, Measure::Latency);
    probe.scaled = false;
    let (mut plan, _) = plan(vec![stream("bulk", 1.0, Measure::None), probe]);
    plan.ports[0].unlimited = true;
    let done = run(plan, Manual::new(1000));
    let [bulk, probe] = &done.figures.streams[..] else {
        unreachable!()
    };
    assert_eq!(
        (probe.asked, probe.tx_frames, probe.lost),
        (200, 200, Some(0))
    );
    assert!(bulk.tx_frames > 10_000);
}

#[test]
fn a_worker_that_was_late_catches_up_within_the_bound() {
    let (mut plan, _) = plan(vec![stream("one", 1_000_000.0, Measure::None)]);
    plan.catch_up_ns = 10 * MS;
    plan.duration_ns = Some(40 * MS);
    let clock = Manual::new(50);
    let running = start(plan, clock, Hooks::default()).unwrap();
    clock.skip(9 * MS);
    let done = join(running);
    assert_eq!(
        (done.figures.asked_frames, done.figures.shortfall_frames),
        (40_000, 0)
    );
}

#[test]
fn a_worker_that_was_too_late_reports_what_it_did_not_send() {
    let (mut plan, _) = plan(vec![stream("one", 1_000_000.0, Measure::Count)]);
    plan.catch_up_ns = MS;
    plan.duration_ns = Some(400 * MS);
    let clock = Manual::new(50);
    let running = start(plan, clock, Hooks::default()).unwrap();
    clock.skip(101 * MS);
    let done = join(running);
    assert_eq!(done.figures.asked_frames, 400_000);
    let late = done.figures.ports[0].shortfall.late;
    assert_eq!(late, done.figures.shortfall_frames);
    // All but the last millisecond of what was missed, less the time before the beginning.
    assert!((99_000..=100_500).contains(&late), "{late}");
    assert_eq!(done.bottleneck, Bottleneck::Generator);
    assert_eq!(done.figures.streams[0].lost, Some(0));
}

#[test]
fn a_ring_that_stays_full_is_the_ports_fault() {
    for (resident, count) in [(true, 1), (false, 1), (true, 5), (false, 5)] {
        let streams = (0..count).map(|_| stream("s", 500_000.0 / f64::from(count), Measure::None));
        let (mut plan, knobs) = plan(streams.collect());
        plan.catch_up_ns = MS;
        plan.drain_ns = MS;
        plan.resident_limit = usize::from(resident) * 1000;
        knobs.stuck.store(true, Ordering::Relaxed);
        let done = run(plan, Manual::new(50));
        assert_eq!(done.figures.asked_frames, 10_000);
        assert_eq!(done.figures.ports[0].tx_frames, 0);
        let short = done.figures.ports[0].shortfall;
        assert_eq!((short.ring_full, short.total()), (10_000, 10_000));
        assert_eq!(done.bottleneck, Bottleneck::Port);
    }
}

#[test]
fn what_falls_due_while_the_peer_is_away_is_shortfall_and_sending_goes_on() {
    for several in [false, true] {
        let mut streams = vec![stream("one", 500_000.0, Measure::Count)];
        if several {
            streams.push(stream("other", 100_000.0, Measure::None));
        }
        let (mut plan, knobs) = plan(streams);
        plan.catch_up_ns = MS;
        plan.duration_ns = Some(3000 * MS);
        let mut running = start(plan, Manual::new(100), Hooks::default()).unwrap();
        let sent = |running: &mut Run| running.snapshot().figures.ports[0].tx_frames;
        while sent(&mut running) < 100 {}
        knobs.set_state(QueueState::Paused);
        while running.snapshot().figures.ports[0].shortfall.paused < 1000 {}
        knobs.set_state(QueueState::Running);
        let before = sent(&mut running);
        while sent(&mut running) < before + 100 {}
        running.stop();
        let done = join(running);
        let short = done.figures.ports[0].shortfall;
        assert!(short.paused >= 1000, "{short:?}");
    }
}

#[test]
fn a_port_that_fails_ends_the_run_with_what_was_done() {
    let (mut plan, knobs) = plan(vec![
        stream("one", 500_000.0, Measure::None),
        stream("other", 100_000.0, Measure::Count),
    ]);
    plan.duration_ns = None;
    let mut running = start(plan, Manual::new(100), Hooks::default()).unwrap();
    while running.snapshot().figures.ports[0].tx_frames < 100 {}
    knobs.set_state(QueueState::Failed);
    let done = join(running);
    assert!(
        matches!(done.failures[..], [(0, PortError::Gone { .. })]),
        "{:?}",
        done.failures
    );
    assert!(done.events.iter().any(|event| event.what.contains("gone")));
    assert!(done.figures.ports[0].tx_frames >= 100);
}

#[test]
fn stopping_settles_what_was_asked_until_then() {
    let (mut plan, _) = plan(vec![stream("one", 500_000.0, Measure::Latency)]);
    plan.duration_ns = None;
    let mut running = start(plan, Manual::new(100), Hooks::default()).unwrap();
    while running.snapshot().figures.ports[0].tx_frames < 1000 {}
    running.stop();
    let done = join(running);
    let asked = done.figures.asked_frames;
    assert!(asked >= 1000);
    let exact = done.duration_s * 500_000.0;
    assert!((exact - asked as f64).abs() <= 1.0, "{asked} of {exact}");
    assert_eq!(done.figures.streams[0].lost, Some(0));
}

#[test]
fn bursts_leave_with_their_pauses_and_end() {
    let mut one = stream("bursts", 1_000_000.0, Measure::Count);
    one.mode = Mode::MultiBurst {
        frames: 10,
        gap_ns: MS,
        bursts: Some(7),
    };
    one.start_delay_ns = 2 * MS;
    let (mut plan, _) = plan(vec![one]);
    plan.duration_ns = None;
    let done = run(plan, Manual::new(50));
    assert_eq!(
        (done.figures.asked_frames, done.figures.shortfall_frames),
        (70, 0)
    );
    // Two of delay, six pauses, seven bursts of nine gaps.
    assert!(
        (0.008..0.0082).contains(&done.duration_s),
        "{}",
        done.duration_s
    );
}

#[test]
fn a_chain_of_bursts_leaves_in_its_order_and_every_loop_is_counted() {
    for queues in [1, 2] {
        let burst = |name: &str, frames, next: &str| Stream {
            mode: Mode::Burst { frames },
            next: Some(next.into()),
            waits: name != "a",
            ..stream(name, 1_000_000.0, Measure::Count)
        };
        let mut streams = vec![
            burst("a", 10, "b"),
            burst("b", 20, "c"),
            burst("c", 30, "a"),
        ];
        streams[0].start_delay_ns = MS;
        streams[2].loops = Some(4);
        let (mut plan, _) = plan(streams);
        plan.ports[0].config.tx_queues = queues;
        plan.duration_ns = None;
        let done = run(plan, Manual::new(50));
        let sent: Vec<u64> = done.figures.streams.iter().map(|s| s.tx_frames).collect();
        assert_eq!(sent, [40, 80, 120]);
        assert_eq!(done.figures.shortfall_frames, 0);
        // Four delays of a millisecond, and 240 frames a microsecond each.
        assert!(
            (0.004_239..0.004_3).contains(&done.duration_s),
            "{}",
            done.duration_s
        );
    }
}

#[test]
fn ports_can_be_used_again_and_nothing_leaks() {
    let (a, b, _) = fake::pair();
    let mut ports = vec![a, b];
    for lap in 0..5 {
        let mut plans: Vec<PortPlan> = ports.into_iter().map(PortPlan::new).collect();
        plans[0].streams = vec![
            stream("one", 500_000.0, Measure::Count),
            stream("other", 500_000.0, Measure::None),
        ];
        let mut plan = RunPlan::new(plans);
        plan.duration_ns = Some(3 * MS);
        plan.quiet_ns = MS / 10;
        plan.stamp_nonce = lap;
        let finished = start(plan, Manual::new(50), Hooks::default())
            .unwrap()
            .join();
        assert_eq!(finished.outcome.check(), Vec::<String>::new());
        assert_eq!(finished.outcome.leaked, 0);
        // Counters of the port went on; the run's begin at zero.
        assert_eq!(finished.outcome.figures.ports[0].device.tx_frames, 3000);
        ports = finished.ports;
    }
}

#[test]
fn what_a_port_cannot_do_is_refused_before_anything_starts() {
    let refused = |change: fn(&mut RunPlan)| {
        let (mut plan, _) = plan(vec![stream("one", 1000.0, Measure::Count)]);
        change(&mut plan);
        start(plan, Manual::new(50), Hooks::default()).err()
    };
    let error = refused(|plan| plan.ports[0].config.tx_queues = 99);
    assert!(
        matches!(error, Some(RunError::Unsupported { .. })),
        "{error:?}"
    );
    let error = refused(|plan| plan.ports[0].config.tx_slots = Some(3));
    assert!(
        matches!(error, Some(RunError::Unsupported { .. })),
        "{error:?}"
    );
    let error = refused(|plan| plan.ports[0].streams[0].frames = udp(9999));
    assert!(
        matches!(error, Some(RunError::Unsupported { .. })),
        "{error:?}"
    );
    let error = refused(|plan| plan.ports[0].streams[0].rate = Rate::Pps(0.0));
    assert!(matches!(error, Some(RunError::Rate { .. })), "{error:?}");
    let error = refused(|plan| plan.ports[0].streams[0].rate = Rate::LinePercent(1.0));
    assert!(matches!(error, Some(RunError::Rate { .. })), "{error:?}");
    let error = refused(|plan| plan.ports.clear());
    assert!(matches!(error, Some(RunError::NoPorts)), "{error:?}");
}

#[test]
fn a_link_that_stays_down_is_an_error_that_names_the_port() {
    let (mut plan, knobs) = plan(vec![stream("one", 1000.0, Measure::None)]);
    knobs.link_down.store(true, Ordering::Relaxed);
    plan.link_wait_ns = MS;
    let error = start(plan, Manual::new(MS), Hooks::default())
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "fake/0: the link is down after 1 ms");
}

#[test]
fn a_share_of_the_line_follows_the_links_speed() {
    let mut one = stream("one", 1.0, Measure::None);
    one.rate = Rate::LinePercent(10.0);
    let (plan, knobs) = plan(vec![one]);
    knobs.speed_bps.store(10_000_000_000, Ordering::Relaxed);
    let done = run(plan, Manual::new(50));
    // 10 % of 14 880 952.38 a second for 20 ms.
    assert_eq!(done.figures.asked_frames, 29_761);
}

#[test]
fn frames_that_leave_a_slow_device_after_the_drain_are_sent_if_they_are_received() {
    let (port, knobs) = fake::looped();
    let mut one = PortPlan::new(port);
    one.streams = vec![stream("one", 500_000.0, Measure::Count)];
    one.streams[0].mode = Mode::Burst { frames: 100 };
    one.peer = Some(0);
    let mut plan = RunPlan::new(vec![one]);
    plan.duration_ns = Some(MS);
    plan.drain_ns = MS;
    plan.yield_when_idle = false;
    // Two visits of 50 ns to a poll: half a drain time after the end of it.
    knobs.polls.store(15_000, Ordering::Relaxed);
    let done = run(plan, Manual::new(50));
    let one = &done.figures.streams[0];
    assert_eq!((one.tx_frames, one.rx_frames), (100, 100));
    assert_eq!(
        (one.lost, one.surplus, one.shortfall.total()),
        (Some(0), 0, 0)
    );
}

#[test]
fn what_a_slow_device_keeps_is_the_ports_fault() {
    let (mut one, knobs) = plan(vec![stream("one", 500_000.0, Measure::Count)]);
    one.drain_ns = MS;
    knobs.polls.store(u64::MAX, Ordering::Relaxed);
    let done = run(one, Manual::new(50));
    let short = done.figures.ports[0].shortfall;
    assert_eq!(done.figures.ports[0].tx_frames, 0);
    assert_eq!(short.abandoned, fake::SLOTS as u64);
    assert_eq!(short.total(), 10_000);
    assert_eq!(done.bottleneck, Bottleneck::Port);
}
