//! Frames over rings, lap after lap, in every size.

use hw::Bar;
use models::ixgbe::Kind;

use crate::guest::{
    DCTL, DEXT, DONE, ENABLE, EOP, Guest, IFCS, KINDS, RS, Wish, assert_clean, frame, low, rig,
};

fn wish(legacy: bool) -> Wish {
    Wish {
        legacy,
        ..Wish::default()
    }
}

#[test]
fn frames_arrive_whole_and_in_order_for_many_laps() {
    for kind in KINDS {
        for legacy in [false, true] {
            let (sim, mut a, mut b) = rig(kind, &wish(legacy));
            let mut number = 0;
            for lap in 0..20u64 {
                let sent: Vec<Vec<u8>> = (0..lap % 7 + 1)
                    .map(|n| frame(number + n, 60 + usize::try_from(number + n).unwrap()))
                    .collect();
                number += sent.len() as u64;
                assert!(sent.iter().all(|frame| a.send(frame)));
                sim.settle();
                assert_eq!(b.receive(), sent, "{kind:?}");
            }
            assert!(number > 24, "three laps of eight slots");
            assert_eq!(a.reap(0), 6, "the last lap's");
            assert_clean(&sim);
            assert_eq!(sim.counters(0).tx_frames, number);
            assert_eq!(sim.counters(1).rx_frames, number);
        }
    }
}

#[test]
fn one_slot_always_stays_back_and_what_finds_none_is_the_queues_loss_or_the_ports() {
    for drop in [true, false] {
        let wish = Wish {
            drop,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(Kind::I82599, &wish);
        for round in 0..4 {
            let sent: Vec<_> = (0..7).map(|n| frame(round * 9 + n, 64)).collect();
            assert!(sent.iter().all(|frame| a.send(frame)));
            sim.settle();
            let more = [frame(100, 64), frame(101, 64)];
            assert!(more.iter().all(|frame| a.send(frame)));
            sim.settle();
            assert_eq!(b.receive(), sent, "seven of eight");
        }
        assert_eq!(sim.counters(1).rx_no_buffer, 8);
        let (queue, port) = if drop { (8, 0) } else { (0, 8) };
        assert_eq!(b.bar.load32(0x1430), queue, "QPRDC");
        assert_eq!(b.bar.load32(0x3fa0), port, "MPC");
        assert_eq!(b.bar.load32(0x1430) + b.bar.load32(0x3fa0), 0);
        assert_clean(&sim);
    }
}

#[test]
fn a_frame_longer_than_a_buffer_goes_into_several() {
    for legacy in [false, true] {
        let wish = Wish {
            buffer: 1024,
            legacy,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(Kind::I82599, &wish);
        for lap in 0..12 {
            let sent = frame(lap, 1500);
            assert!(a.send(&sent));
            sim.settle();
            let received = b.receive_on(0);
            assert_eq!(received[0].bytes, sent);
            assert_eq!(received[0].pieces, 2);
        }
        assert_clean(&sim);
    }
}

#[test]
fn a_frame_may_be_posted_in_pieces_and_leaves_with_its_last() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    for lap in 0..9 {
        let sent = frame(lap, 300);
        let total = 300u64 << 46;
        let part = |len: u64| len | IFCS | DEXT | 3 << 20 | total;
        assert!(a.post(0, &sent[..20], part(20)));
        assert!(a.post(0, &sent[20..100], part(80)));
        a.ring_bell(0);
        sim.settle();
        assert_eq!(b.receive().len(), 0);
        assert!(a.post(0, &sent[100..], part(200) | EOP | RS));
        a.ring_bell(0);
        sim.settle();
        assert_eq!(b.receive(), [sent]);
        assert_eq!(a.reap(0), 3);
    }
    assert_clean(&sim);
}

fn post_without_report(a: &mut Guest, count: u64) {
    for n in 0..count {
        let command = a.command(64) & !RS;
        assert!(a.post(0, &frame(n, 64), command));
    }
    a.ring_bell(0);
}

#[test]
fn without_rs_a_descriptor_is_not_written_back_and_the_head_still_moves() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    post_without_report(&mut a, 3);
    sim.settle();
    assert_eq!(b.receive().len(), 3);
    assert_eq!((0..3).map(|n| a.tx[0].get(n)[1] & DONE).sum::<u64>(), 0);
    assert_eq!(a.bar.load32(0x6010), 3, "TDH");
    assert!(a.send(&frame(9, 64)));
    sim.settle();
    assert_eq!(a.reap(0), 4, "the one with RS speaks for those before");
    assert_clean(&sim);
}

#[test]
fn with_a_threshold_all_are_written_back_in_groups_and_the_rest_at_last() {
    let wish = Wish {
        slots: 16,
        threshold: 4,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish);
    for _ in 0..5 {
        let first = a.tx[0].post;
        post_without_report(&mut a, 3);
        sim.step();
        let done = |a: &Guest, n: u32| a.tx[0].get((first + n) % 16)[1] & DONE != 0;
        assert!((0..3).all(|n| !done(&a, n)), "three wait for the fourth");
        sim.settle();
        assert!((0..3).all(|n| done(&a, n)), "nothing comes any more");
        assert_eq!(a.reap(0), 3);
        post_without_report(&mut a, 4);
        sim.step();
        assert_eq!(a.reap(0), 4, "four at once");
        sim.settle();
        assert_eq!(b.receive().len(), 7);
    }
    assert_clean(&sim);
}

#[test]
fn the_head_is_written_to_memory_instead_where_asked_for() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    let place = a
        .memory
        .carve::<std::sync::atomic::AtomicU32>(1, 64)
        .unwrap();
    let iova = place.iova().get();
    a.bar.store32(0x603c, low(iova >> 32));
    a.bar.store32(0x6038, low(iova) | 1);
    for n in 0..20 {
        let at = a.tx[0].post;
        let command = a.command(64);
        a.tx[0].write(at, &frame(n, 64));
        a.tx[0].set(at, [a.tx[0].buffer(at), command]);
        a.tx[0].post = a.tx[0].after(at);
        a.ring_bell(0);
        sim.settle();
        assert_eq!(a.tx[0].get(at)[1] & DONE, 0);
        let head = place[0].load(std::sync::atomic::Ordering::Acquire);
        assert_eq!(u32::from_le(head), a.tx[0].post);
        assert_eq!(b.receive().len(), 1);
    }
    assert_clean(&sim);
}

#[test]
fn a_queue_that_is_switched_off_takes_nothing_and_starts_again() {
    let (sim, mut a, mut b) = rig(Kind::X540, &Wish::default());
    for lap in 0..4 {
        b.bar.store32(0x1000 + DCTL, 0);
        b.until(0x1000 + DCTL, ENABLE, 0);
        assert!(a.send(&frame(lap, 64)));
        sim.settle();
        assert_eq!(sim.counters(1).rx_no_buffer, lap + 1);
        b.rx.clear();
        b.tx.clear();
        b.bar.store32(0x6000 + DCTL, 0);
        b.until(0x6000 + DCTL, ENABLE, 0);
        if lap > 0 {
            // Memory for two sets of rings only.
            let (_, fresh) = crate::guest::open_both(&sim, &Wish::default());
            drop(fresh);
            break;
        }
        b.make_rings();
        b.start_queue(0);
        b.arm();
        assert!(a.send(&frame(lap, 64)));
        sim.settle();
        assert_eq!(b.receive(), [frame(lap, 64)]);
    }
    assert_eq!(sim.objections(), [""; 0]);
}
