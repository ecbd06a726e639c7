//! Laps of every ring, full and empty ones, doorbells.

use hw::Bar;
use models::vmxnet3::{Notify, Vmxnet3Options};

use crate::guest::ring::Armed;
use crate::guest::{Guest, TXPROD, Wish, all_is_well, frame, rig};

/// Sends `count` frames of many sizes from `a` to `b`, in bursts of `burst`.
fn pass(sim: &models::Sim, a: &mut Guest, b: &mut Guest, count: u64, burst: u64) {
    let mut sent = Vec::new();
    let mut got = Vec::new();
    for n in 0..count {
        let frame = frame(n, 60 + usize::try_from(n * 37 % 1400).unwrap());
        assert!(a.send(&frame), "room for frame {n}");
        sent.push(frame);
        if n % burst == burst - 1 {
            sim.step();
            got.extend(b.receive());
        }
    }
    sim.settle();
    got.extend(b.receive());
    assert_eq!(got.len(), sent.len());
    assert!(got == sent, "byte for byte, in order");
}

#[test]
fn frames_pass_in_both_directions_for_many_laps_at_odd_bursts() {
    for burst in [1, 3, 7, 13, 31] {
        let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
        pass(&sim, &mut a, &mut b, 400, burst);
        pass(&sim, &mut b, &mut a, 300, burst);
        a.tx[0].reap();
        assert_eq!(a.tx[0].completed.len(), 400);
        let laps: Vec<u32> = (0..400).map(|n| n % 32).collect();
        assert_eq!(a.tx[0].completed, laps, "each names its last slot");
        all_is_well(&sim);
    }
}

#[test]
fn a_ring_that_is_no_power_of_two_goes_round_too() {
    let wish = Wish {
        tx_size: 96,
        rx_size: 160,
        rx2_size: 64,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    pass(&sim, &mut a, &mut b, 1000, 50);
    all_is_well(&sim);
}

#[test]
fn frames_in_several_slots_arrive_as_one_for_many_laps() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    let mut taken = 0u32;
    for n in 0..200usize {
        let whole = frame(n as u64, 300 + n);
        let parts: Vec<&[u8]> = whole
            .chunks(300_usize.div_ceil(1 + n % 16).max(20))
            .collect();
        let parts = &parts[..parts.len().min(16)];
        let expected = parts.concat();
        assert!(a.send_as(0, parts, 0));
        taken += u32::try_from(parts.len()).unwrap();
        sim.settle();
        assert_eq!(b.receive(), [expected]);
        a.tx[0].reap();
        assert_eq!(a.tx[0].completed.last(), Some(&((taken - 1) % 32)));
    }
    all_is_well(&sim);
}

#[test]
fn a_full_ring_goes_out_and_is_full_again() {
    let wish = Wish {
        rx_size: 128,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    for lap in 0..10 {
        for n in 0..31 {
            assert!(a.send(&frame(lap * 31 + n, 64)));
        }
        assert!(!a.send(&frame(0, 64)), "one slot stays back");
        sim.settle();
        assert_eq!(b.receive().len(), 31);
    }
    all_is_well(&sim);
}

#[test]
fn a_starved_ring_is_counted_and_recovers() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    b.rx[0].rearms = false;
    let mut got = 0;
    for n in 0..50 {
        assert!(a.send(&frame(n, 64)));
        sim.settle();
        got += b.receive().len();
    }
    assert_eq!(got, 31, "as many as were armed");
    assert_eq!(sim.counters(1).rx_no_buffer, 19);
    b.command(crate::guest::STATS);
    assert_eq!(b.stat(1, 8), 19, "pktsRxOutOfBuf");
    b.rx[0].rings.iter_mut().for_each(Armed::arm);
    for n in 0..20 {
        assert!(a.send(&frame(n, 64)));
        sim.settle();
        assert_eq!(b.receive(), [frame(n, 64)]);
        b.rx[0].rings.iter_mut().for_each(Armed::arm);
    }
    all_is_well(&sim);
}

#[test]
fn nothing_moves_until_the_doorbell_says_up_to_where() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    for n in 0..3 {
        assert!(a.tx[0].post(&[&frame(n, 60)], 0));
    }
    sim.settle();
    assert_eq!(b.receive().len(), 0);
    a.pt.store32(TXPROD, 2);
    sim.settle();
    assert_eq!(b.receive(), [frame(0, 60), frame(1, 60)]);
    a.ring_tx(0);
    sim.settle();
    assert_eq!(b.receive(), [frame(2, 60)]);
    assert_eq!(sim.counters(0).kicks, 2);
    all_is_well(&sim);
}

#[test]
fn a_device_that_polls_needs_no_doorbell() {
    let options = Vmxnet3Options {
        notify: Notify::Polls,
        tx_threshold: 8,
        ..Vmxnet3Options::default()
    };
    let (sim, mut a, mut b) = rig(&options, &Wish::default());
    assert_eq!(a.queue_word(0, 4), 8, "it says how many to collect");
    for n in 0..100 {
        a.tx[0].reap();
        assert!(a.tx[0].post(&[&frame(n, 60)], 0));
        sim.settle();
        assert_eq!(b.receive(), [frame(n, 60)]);
    }
    all_is_well(&sim);
}

#[test]
fn a_device_that_wants_to_know_goes_by_rxprod() {
    let options = Vmxnet3Options {
        update_rx_prod: true,
        ..Vmxnet3Options::default()
    };
    let (sim, mut a, mut b) = rig(&options, &Wish::default());
    assert_eq!(b.queue_word(1, 0), 1, "it says so");
    assert!(a.send(&frame(0, 64)));
    sim.settle();
    assert_eq!(b.receive().len(), 0, "nothing was said to be armed");
    assert_eq!(sim.counters(1).rx_no_buffer, 1);
    b.ring_rx(0);
    for n in 0..200 {
        assert!(a.send(&frame(n, 64)));
        sim.settle();
        assert_eq!(b.receive(), [frame(n, 64)]);
        b.ring_rx(0);
    }
    all_is_well(&sim);
}

#[test]
fn data_rings_carry_small_frames_on_both_sides() {
    let wish = Wish {
        tx_data: 256,
        rx_data: 128,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    for n in 0..200 {
        let len = [60, 128, 129, 256, 257, 1000][usize::try_from(n % 6).unwrap()];
        assert!(a.send(&frame(n, len)));
        sim.settle();
        let got = b.rx[0].receive();
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].bytes, frame(n, len));
        let place = if len <= 128 { 2 } else { 0 };
        assert_eq!(got[0].places(1), [place], "{len} bytes");
    }
    all_is_well(&sim);
}

#[test]
fn several_queues_are_served_in_turn() {
    let wish = Wish {
        tx: 4,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    for n in 0..300usize {
        assert!(a.send_as(n % 4, &[&frame(n as u64, 64)], 0));
        sim.settle();
        assert_eq!(b.receive(), [frame(n as u64, 64)]);
    }
    a.command(crate::guest::STATS);
    assert_eq!([0, 1, 2, 3].map(|queue| a.stat(queue, 2)), [75; 4]);
    all_is_well(&sim);
}

#[test]
fn a_slot_without_completion_request_comes_back_with_the_next_that_has_one() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    for n in 0..60 {
        let last = n % 3 == 2;
        let first = a.tx[0].ring.next as usize;
        a.tx[0].reap();
        assert!(a.tx[0].post(&[&frame(n, 64)], 0));
        if !last {
            let word = &a.tx[0].ring.words[first][1];
            word.fetch_and(
                !crate::guest::ring::CQ.to_le(),
                std::sync::atomic::Ordering::AcqRel,
            );
        }
        a.ring_tx(0);
        sim.settle();
        assert_eq!(b.receive().len(), 1);
    }
    a.tx[0].reap();
    assert_eq!((a.tx[0].completed.len(), a.tx[0].held), (20, 0));
    all_is_well(&sim);
}
