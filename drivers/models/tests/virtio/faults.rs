//! Each fault of a device, as its driver sees it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hw::{Bar, Function};
use models::virtio::VirtioOptions;
use models::{Fault, Sim, WireOptions};

use crate::driver::ring::Kind;
use crate::driver::{BASE, CTRL, CTRL_RX, Driver, MRG, PACKED, Wish, frame, rig};

const KINDS: [u64; 2] = [0, PACKED];

fn open(features: u64) -> (Sim, Driver, Driver) {
    let wish = Wish {
        features: BASE | MRG | CTRL | CTRL_RX | features,
        ..Wish::default()
    };
    let options = VirtioOptions {
        packed: true,
        ..VirtioOptions::default()
    };
    rig(&options, &wish, WireOptions::default())
}

#[track_caller]
fn assert_well(sim: &Sim) {
    assert_eq!(sim.objections(), [""; 0], "the driver did nothing wrong");
    assert_eq!((sim.unaccounted(0), sim.unaccounted(1)), (0, 0));
}

#[test]
fn a_stuck_reset_never_ends_until_it_is_cleared() {
    let (sim, a, _b) = open(0);
    let faults = sim.faults(0);
    faults.switch_on(Fault::StuckReset);
    a.set_status(0);
    assert!((0..1000).all(|_| a.status() != 0));
    assert_eq!(faults.done(Fault::StuckReset), 1000);
    faults.clear(Fault::StuckReset);
    a.reset();
    assert_well(&sim);
}

#[test]
fn a_lost_completion_leaves_one_buffer_out_and_the_others_come_back() {
    for kind in KINDS {
        let (sim, mut a, mut b) = open(kind);
        sim.faults(0).inject(Fault::TxCompletionLost, 1);
        sim.faults(1).inject(Fault::RxCompletionLost, 1);
        for n in 0..5 {
            assert!(a.send(&frame(n, 60)));
        }
        sim.settle();
        a.reap();
        assert_eq!((a.completed, b.receive().len()), (4, 4));
        assert_eq!(sim.faults(0).done(Fault::TxCompletionLost), 1);
        assert_eq!(sim.counters(1).rx_frames, 5, "it is in memory");
        assert_well(&sim);
    }
}

#[test]
fn a_wrong_length_is_longer_than_any_buffer() {
    for kind in KINDS {
        let (sim, mut a, b) = open(kind);
        sim.faults(1).inject(Fault::WrongLength, 1);
        assert!(a.send(&frame(1, 60)));
        sim.settle();
        let (_, len) = b.rx[0].ring.next_used().unwrap();
        assert!(len > 1 << 20);
        assert_well(&sim);
    }
}

#[test]
fn an_id_out_of_range_is_one_that_the_ring_does_not_have() {
    for kind in KINDS {
        for end in 0..2 {
            let (sim, mut a, b) = open(kind);
            sim.faults(end).inject(Fault::IdOutOfRange, 1);
            assert!(a.send(&frame(1, 60)));
            sim.settle();
            let ring = if end == 0 {
                &a.tx[0].ring
            } else {
                &b.rx[0].ring
            };
            let (id, _) = ring.next_used().unwrap();
            assert_eq!(id, 8 + 17);
            assert_eq!(sim.faults(end).done(Fault::IdOutOfRange), 1);
            assert_well(&sim);
        }
    }
}

#[test]
fn an_index_out_of_range_claims_more_than_was_posted() {
    let (sim, mut a, _b) = open(0);
    sim.faults(0).inject(Fault::IndexOutOfRange, 1);
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    let reap = catch_unwind(AssertUnwindSafe(|| a.reap()));
    assert!(reap.is_err(), "a driver that believes it is lost");
    assert_well(&sim);
}

#[test]
fn a_device_that_needs_a_reset_stops_and_is_well_after_one() {
    let (sim, mut a, mut b) = open(0);
    sim.faults(0).inject(Fault::NeedsReset, 1);
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    assert_eq!(a.status(), 0x4f);
    assert_eq!(b.receive().len(), 0);
    a.reset();
    let mut a = Driver::open(sim.function(0), a.wish.clone());
    assert!(a.send(&frame(2, 60)));
    sim.settle();
    assert_eq!(b.receive(), [frame(2, 60)]);
    assert_well(&sim);
}

#[test]
fn commands_are_refused_or_never_answered() {
    let (sim, mut a, _b) = open(0);
    let settle = || sim.settle();
    sim.faults(0).inject(Fault::CommandRefused, 1);
    assert_eq!(a.command(0, 0, &[0], &settle), Some(1));
    assert_eq!(a.command(0, 0, &[0], &settle), Some(0));
    sim.faults(0).inject(Fault::CommandSilent, 1);
    assert_eq!(a.command(0, 0, &[1], &settle), None);
    assert_eq!(sim.counters(0).commands, 3);
    assert_well(&sim);
}

#[test]
fn late_completions_come_in_the_end() {
    for kind in KINDS {
        let (sim, mut a, mut b) = open(kind);
        sim.faults(0).inject(Fault::LateCompletions, 3);
        for n in 0..6 {
            assert!(a.send(&frame(n, 60)));
            sim.step();
        }
        assert!(a.completed < 6);
        sim.faults(0).clear(Fault::LateCompletions);
        assert!(a.send(&frame(6, 60)));
        sim.settle();
        a.reap();
        assert_eq!((a.completed, b.receive().len()), (7, 7));
        assert_well(&sim);
    }
}

#[test]
fn a_removed_device_reads_as_ones_touches_no_memory_and_is_counted_at_the_other_end() {
    let (sim, mut a, mut b) = open(0);
    sim.faults(1).switch_on(Fault::Removed);
    assert_eq!(b.status(), 0xff);
    assert_eq!(b.function.config32(0), u32::MAX);
    assert_eq!(b.bar.load16(18), u16::MAX);
    b.set_status(0);
    b.kick(1);
    assert!(b.function.reset().is_err());
    assert!(a.send(&frame(1, 60)) && b.send(&frame(2, 60)));
    sim.settle();
    assert_eq!((a.receive().len(), b.receive().len()), (0, 0));
    let Kind::Split { used_head, .. } = &b.tx[0].ring.kind else {
        unreachable!()
    };
    assert_eq!(used_head[1].load(std::sync::atomic::Ordering::Relaxed), 0);
    assert_eq!(sim.counters(1).rx_not_ready, 1);
    drop(b);
    sim.settle();
    assert_well(&sim);
}
