//! What arrives is told apart: loss, duplicates, reordering, strangers.

use std::sync::atomic::Ordering;

use super::*;
use crate::field::{Order, Program, Values, Var, Write};

fn measured(turn: impl Fn(&Knobs)) -> (Outcome, Arc<Knobs>) {
    let (plan, knobs) = plan(vec![stream("one", 500_000.0, Measure::Latency)]);
    turn(&knobs);
    (run(plan, Manual::new(50)), knobs)
}

#[test]
fn a_whole_stream_is_whole_and_has_a_latency() {
    let (done, _) = measured(|_| {});
    let one = &done.figures.streams[0];
    assert_eq!(
        (one.tx_frames, one.rx_frames, one.lost),
        (10_000, 10_000, Some(0))
    );
    assert_eq!(
        (one.duplicated, one.reordered, one.too_late, one.surplus),
        (0, 0, 0, 0)
    );
    assert_eq!(one.rx_bytes, 640_000);
    let latency = one.latency.unwrap();
    assert_eq!(latency.count, 10_000);
    assert!(latency.min > 0 && latency.mean >= latency.min as f64);
    assert!(latency.p50 <= latency.p90 && latency.p90 <= latency.p99);
    assert!(latency.p99 <= latency.p999 && latency.p999 <= latency.max);
    assert_eq!(done.figures.ports[1].rx_unmatched, 0);
}

#[test]
fn loss_is_counted_to_the_frame() {
    let (done, knobs) = measured(|knobs| knobs.drop_every.store(7, Ordering::Relaxed));
    let dropped = knobs.dropped.load(Ordering::Relaxed);
    assert!(dropped > 1000);
    let one = &done.figures.streams[0];
    assert_eq!(
        (one.lost, one.duplicated, one.reordered),
        (Some(dropped), 0, 0)
    );
}

#[test]
fn duplicates_are_counted_to_the_frame() {
    let (done, knobs) = measured(|knobs| knobs.double_every.store(5, Ordering::Relaxed));
    let doubled = knobs.doubled.load(Ordering::Relaxed);
    assert!(doubled > 1000);
    let one = &done.figures.streams[0];
    assert_eq!(
        (one.lost, one.duplicated, one.reordered),
        (Some(0), doubled, 0)
    );
    assert_eq!(
        one.latency.unwrap().count,
        10_000,
        "duplicates have no latency"
    );
}

#[test]
fn reordering_is_counted_to_the_frame() {
    let (done, knobs) = measured(|knobs| knobs.swap_every.store(4, Ordering::Relaxed));
    let one = &done.figures.streams[0];
    assert_eq!((one.lost, one.duplicated), (Some(0), 0));
    let swapped = knobs.swapped.load(Ordering::Relaxed);
    // The last one may have had nothing to change places with.
    assert!(
        swapped > 1000 && swapped - one.reordered <= 1,
        "{swapped} {}",
        one.reordered
    );
}

#[test]
fn all_faults_at_once_are_told_apart() {
    let (done, knobs) = measured(|knobs| {
        knobs.drop_every.store(7, Ordering::Relaxed);
        knobs.double_every.store(5, Ordering::Relaxed);
    });
    let one = &done.figures.streams[0];
    assert_eq!(one.lost, Some(knobs.dropped.load(Ordering::Relaxed)));
    assert_eq!(one.duplicated, knobs.doubled.load(Ordering::Relaxed));
}

#[test]
fn frames_in_several_buffers_are_one_frame_each_and_keep_their_stamp() {
    // Cuts that fall inside the stamp, too.
    for cut in [1, 7, 20, 45, 50, 59] {
        let (mut plan, _) = plan(vec![stream("one", 100_000.0, Measure::Count)]);
        let (a, b, _) = fake::pair();
        let streams = std::mem::take(&mut plan.ports[0].streams);
        plan.ports.clear();
        let mut receiver = PortPlan::new(b);
        receiver.streams = streams;
        receiver.peer = Some(0);
        plan.ports.extend([PortPlan::new(a), receiver]);
        // The knobs turn what the first end receives.
        let (c, d, knobs) = fake::pair();
        knobs.cut.store(cut, Ordering::Relaxed);
        (plan.ports[0].port, plan.ports[1].port) = (c, d);
        let done = run(plan, Manual::new(50));
        let one = &done.figures.streams[0];
        assert_eq!((one.rx_frames, one.lost), (2000, Some(0)), "cut at {cut}");
        assert_eq!(one.rx_bytes, 2000 * 64);
        assert_eq!(done.figures.ports[0].rx_frames, 2000);
    }
}

#[test]
fn strangers_are_counted_for_the_port_and_for_no_stream() {
    let (mut plan, _) = plan(vec![
        stream("measured", 100_000.0, Measure::Count),
        stream("not", 300_000.0, Measure::None),
    ]);
    plan.resident_limit = 0;
    let done = run(plan, Manual::new(50));
    assert_eq!(done.figures.streams[0].rx_frames, 2000);
    assert_eq!(done.figures.ports[1].rx_unmatched, 6000);
    assert_eq!(done.figures.ports[1].rx_frames, 8000);
}

#[test]
fn frames_at_the_wrong_port_are_misdirected_and_lost() {
    let (a, b, _) = fake::pair();
    let (c, _knobs) = fake::looped();
    let mut sender = PortPlan::new(a);
    sender.streams = vec![stream("one", 100_000.0, Measure::Count)];
    sender.peer = Some(2);
    let mut plan = RunPlan::new(vec![sender, PortPlan::new(b), PortPlan::new(c)]);
    plan.duration_ns = Some(5 * MS);
    plan.drain_ns = MS;
    plan.quiet_ns = MS / 10;
    let done = run(plan, Manual::new(50));
    let one = &done.figures.streams[0];
    assert_eq!(
        (one.rx_frames, one.misdirected, one.lost),
        (0, 500, Some(500))
    );
}

#[test]
fn both_directions_and_a_port_that_hears_itself() {
    let (a, b, _) = fake::pair();
    let (c, _knobs) = fake::looped();
    let mut plans: Vec<PortPlan> = [a, b, c].map(PortPlan::new).into();
    for (number, plan) in plans.iter_mut().enumerate() {
        plan.streams = vec![stream(
            "s",
            100_000.0 * (number + 1) as f64,
            Measure::Latency,
        )];
        plan.peer = Some([1, 0, 2][number]);
    }
    let mut plan = RunPlan::new(plans);
    plan.duration_ns = Some(5 * MS);
    plan.quiet_ns = MS / 10;
    let done = run(plan, Manual::new(30));
    let received: Vec<u64> = done.figures.streams.iter().map(|s| s.rx_frames).collect();
    assert_eq!(received, [500, 1000, 1500]);
    assert!(
        done.figures
            .streams
            .iter()
            .all(|stream| stream.lost == Some(0))
    );
}

#[test]
fn the_same_seed_sends_the_same_frames() {
    let sent = |seed, nonce| {
        let (mut plan, knobs) = plan(vec![
            stream("one", 100_000.0, Measure::None),
            stream("two", 50_000.0, Measure::Count),
        ]);
        (plan.seed, plan.stamp_nonce) = (seed, nonce);
        plan.duration_ns = Some(5 * MS);
        knobs.keep.store(true, Ordering::Relaxed);
        run(plan, Manual::new(50));
        let mut kept = knobs.kept.lock().unwrap().clone();
        for frame in &mut kept {
            let end = frame.len() - 18;
            // Balance, time and tag depend on when it was sent.
            frame[end..end + 10].fill(0);
            frame[end + 14..].fill(0);
        }
        kept
    };
    assert_eq!(sent(1, 1).len(), 750);
    let sorted = |mut frames: Vec<Vec<u8>>| {
        frames.sort();
        frames
    };
    assert_eq!(sorted(sent(1, 1)), sorted(sent(1, 1)));
}

#[test]
fn rendered_frames_are_those_that_would_be_written_in_the_same_order() {
    let counting = |name: &str, mark: u8, period: u64, pps: f64| {
        let mut bytes = udp_bytes(60);
        bytes[45] = mark;
        let values = Values::Step {
            order: Order::Inc,
            min: 0,
            max: period - 1,
            init: None,
            step: 1,
        };
        let program = Program {
            vars: vec![Var {
                name: "n".into(),
                width: 1,
                values,
                next: None,
            }],
            writes: vec![Write::new("n", 50, 1)],
            ..Program::default()
        };
        let mut stream = stream(name, pps, Measure::None);
        stream.frames = Frames::varied(Template::raw(bytes), program);
        stream
    };
    let sent = |several: bool, limit| {
        let mut streams = vec![counting("a", 1, 251, 400_000.0)];
        if several {
            streams.push(counting("b", 2, 3, 150_000.0));
            streams.push(counting("c", 3, 100, 37_000.0));
        }
        let (mut plan, knobs) = plan(streams);
        plan.resident_limit = limit;
        knobs.keep.store(true, Ordering::Relaxed);
        run(plan, Manual::new(50));
        let kept = knobs.kept.lock().unwrap().clone();
        // Streams may interleave otherwise; each keeps its own order.
        [1, 2, 3].map(|mark| {
            let of_stream = kept.iter().filter(|frame| frame[45] == mark);
            of_stream.map(|frame| frame[50]).collect::<Vec<_>>()
        })
    };
    for several in [false, true] {
        let written = sent(several, 0);
        assert_eq!(written[0].len(), 8000);
        assert!(
            written[0]
                .iter()
                .zip(0u64..)
                .all(|(&n, at)| u64::from(n) == at % 251)
        );
        assert_eq!(sent(several, 32_768), written);
    }
}

#[test]
fn stamps_leave_the_checksum_of_the_payload_as_it_was() {
    let sum = |bytes: &[u8]| {
        let words = bytes
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum % 0xffff
    };
    let (plan, knobs) = plan(vec![stream("one", 500_000.0, Measure::Latency)]);
    knobs.keep.store(true, Ordering::Relaxed);
    run(plan, Manual::new(50));
    let before = udp_bytes(60);
    let kept = knobs.kept.lock().unwrap();
    assert_eq!(kept.len(), 10_000);
    for frame in kept.iter() {
        assert_eq!(frame[..42], before[..42]);
        assert_eq!(sum(&frame[42..]), sum(&before[42..]));
    }
}

#[test]
fn silence_does_not_end_receiving_while_frames_are_on_their_way() {
    let (port, knobs) = fake::looped();
    let mut one = PortPlan::new(port);
    one.streams = vec![stream("one", 500_000.0, Measure::Count)];
    one.peer = Some(0);
    let mut plan = RunPlan::new(vec![one]);
    plan.duration_ns = Some(2 * MS);
    plan.quiet_ns = MS / 10;
    plan.yield_when_idle = false;
    // Two visits of 50 ns to a look: 10 ms, a hundred times what counts as silence.
    knobs.looks.store(100_000, Ordering::Relaxed);
    let done = run(plan, Manual::new(50));
    let one = &done.figures.streams[0];
    assert_eq!(
        (one.tx_frames, one.rx_frames, one.lost),
        (1000, 1000, Some(0))
    );
}
