//! Timelines, by themselves.

use proptest::prelude::*;

use super::super::pace::{Bursts, FrameRate, Pacer, Timeline};

fn exact(frames: u64, per_ns: u64, elapsed: u64) -> u64 {
    u64::try_from(u128::from(frames) * u128::from(elapsed) / u128::from(per_ns)).unwrap()
}

proptest! {
    #[test]
    fn due_is_the_product_whatever_its_size(
        frames in 1u64..1_000_000_000,
        per_ns in 1u64..u64::MAX / 4,
        elapsed in 0u64..1 << 50,
    ) {
        let line = Timeline::new(FrameRate::new(frames, per_ns).unwrap());
        prop_assert_eq!(line.due(elapsed), exact(frames, per_ns, elapsed));
    }

    #[test]
    fn due_time_is_the_first_moment_at_which_it_is_due(
        pps in 1u64..200_000_000,
        position in 0u64..1_000_000_000,
        part in 0u64..5,
        delay in 0u64..1000,
        bursts in prop::option::of((1u64..50, 0u64..10_000)),
    ) {
        let bursts = bursts.and_then(|(frames, gap_ns)| Bursts::new(frames, gap_ns));
        let mut line = Timeline::new(FrameRate::per_second(pps).unwrap()).delayed(delay);
        line = match bursts {
            None => line.phased(part, 5),
            bursts => line.in_bursts(bursts),
        };
        let at = line.due_time(position);
        prop_assert!(line.due(at) > position);
        prop_assert!(at == 0 || line.due(at - 1) <= position);
    }

    #[test]
    fn the_parts_of_a_stream_add_up_to_it(
        pps in 1u64..200_000_000,
        parts in 1u64..9,
        elapsed in 0u64..100_000_000_000,
    ) {
        let rate = FrameRate::per_second(pps).unwrap();
        let line = |part| Timeline::new(rate.split(parts)).phased(part, parts);
        let sum: u64 = (0..parts).map(|part| line(part).due(elapsed)).sum();
        prop_assert_eq!(sum, exact(pps, 1_000_000_000, elapsed));
    }

    #[test]
    fn a_rate_in_decimals_is_within_a_part_in_a_billion(pps in 1e-3f64..1e9) {
        let rate = FrameRate::from_pps(pps).unwrap();
        prop_assert!((rate.pps() / pps - 1.0).abs() < 1e-6_f64.max(1e-9 / pps));
        if pps > 1.0 {
            prop_assert!((rate.pps() / pps - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn nothing_is_given_up_within_the_bound_and_everything_else_beyond(
        pps in 1000u64..10_000_000,
        late in 0u64..50_000_000,
    ) {
        const CATCH_UP: u64 = 5_000_000;
        let line = Timeline::new(FrameRate::per_second(pps).unwrap());
        let pacer = Pacer::new(line, CATCH_UP);
        let backlog = pacer.backlog(late);
        prop_assert_eq!(backlog, exact(pps, 1_000_000_000, late));
        let given_up = pacer.too_late(late, backlog);
        let old = exact(pps, 1_000_000_000, late.saturating_sub(CATCH_UP));
        prop_assert!(given_up.abs_diff(old) <= 1);
        prop_assert!(backlog == 0 || given_up < backlog, "the last one is always sent");
    }
}

#[test]
fn ten_days_at_line_rate_do_not_drift_by_a_frame() {
    // 100 Gbit/s of 64-byte frames.
    let rate = FrameRate::from_bits(100_000_000_000, 84 * 8).unwrap();
    let line = Timeline::new(rate);
    let ten_days = 864_000_000_000_000;
    assert_eq!(line.due(ten_days), 128_571_428_571_428);
    let mut pacer = Pacer::new(line, 1000);
    let (mut now, mut sent) = (0, 0);
    for step in [1, 67, 1_000, 999_999, 86_400_000_000_000]
        .into_iter()
        .cycle()
        .take(50)
    {
        now += step;
        let due = pacer.backlog(now);
        pacer.advance(due);
        sent += due;
        assert_eq!(sent, exact(100_000_000_000, 84 * 8 * 1_000_000_000, now));
    }
}

#[test]
fn no_rate_is_none() {
    for pps in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e14] {
        assert_eq!(FrameRate::from_pps(pps), None);
    }
    assert_eq!(FrameRate::new(1, 0), None);
    assert_eq!(FrameRate::from_pps(1e6), FrameRate::per_second(1_000_000));
}
