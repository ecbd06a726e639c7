//! Faults of the device, as its driver meets them.

use hw::Bar;
use models::Fault;
use models::ixgbe::{IxgbeVfOptions, Kind};

use crate::guest::{
    CTRL, Guest, HEAD, LINKS, RST, Wish, assert_clean, frame, rig, stepped, vf_pair, vf_rig,
};

#[test]
fn a_reset_that_is_stuck_shows_for_ever() {
    let sim = stepped(Kind::I82599);
    let a = Guest::attach(sim.function(0), false, Wish::default());
    sim.faults(0).switch_on(Fault::StuckReset);
    a.bar.store32(CTRL, RST);
    assert!((0..1000).all(|_| a.bar.load32(CTRL) & RST != 0));
    assert_eq!(sim.faults(0).done(Fault::StuckReset), 1000);
    sim.faults(0).clear(Fault::StuckReset);
    a.until(CTRL, RST, 0);
    assert_clean(&sim);
}

#[test]
fn completions_that_are_lost_never_come() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    sim.faults(0).inject(Fault::TxCompletionLost, 1);
    assert!(a.send(&frame(0, 64)));
    sim.settle();
    assert_eq!((a.reap(0), b.receive().len()), (0, 1));
    sim.faults(1).inject(Fault::RxCompletionLost, 1);
    assert!(a.send(&frame(1, 64)));
    assert!(a.send(&frame(2, 64)));
    sim.settle();
    assert_eq!(b.receive().len(), 0, "the second waits behind the first");
    assert_eq!(sim.counters(1).rx_frames, 3);
}

#[test]
fn a_completion_may_lie_about_its_length() {
    let (sim, mut a, b) = rig(Kind::I82599, &Wish::default());
    sim.faults(1).inject(Fault::WrongLength, 1);
    assert!(a.send(&frame(0, 64)));
    sim.settle();
    assert_eq!(b.rx[0].get(0)[1] >> 32 & 0xffff, 0xffff);
    assert_eq!(b.rx[0].get(0)[1] & 3, 3);
}

#[test]
fn a_head_may_be_where_the_ring_is_not() {
    let (sim, a, _b) = rig(Kind::I82599, &Wish::default());
    sim.faults(0).inject(Fault::IndexOutOfRange, 1);
    assert_eq!(a.bar.load32(0x6000 + HEAD), 15);
    assert_eq!(a.bar.load32(0x6000 + HEAD), 0);
}

#[test]
fn a_device_that_stops_is_well_again_after_a_reset() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    sim.faults(0).inject(Fault::NeedsReset, 1);
    assert!(a.send(&frame(0, 64)));
    sim.settle();
    assert_eq!((a.reap(0), b.receive().len()), (0, 0));
    a.reset(&|| ());
    a.set_up();
    for n in 0..30 {
        assert!(a.send(&frame(n, 64)));
        sim.settle();
        assert_eq!(b.receive(), [frame(n, 64)]);
    }
    assert_clean(&sim);
}

#[test]
fn late_completions_come_a_round_later() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    sim.faults(0).inject(Fault::LateCompletions, 3);
    assert!(a.send(&frame(0, 64)));
    sim.step();
    assert_eq!((a.reap(0), b.receive().len()), (0, 1));
    for _ in 0..3 {
        sim.step();
    }
    assert_eq!(a.reap(0), 1);
    assert_clean(&sim);
}

#[test]
fn a_device_that_is_gone_reads_as_ones_and_touches_nothing() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    assert!(a.send(&frame(0, 64)));
    sim.faults(0).switch_on(Fault::Removed);
    assert_eq!(a.bar.load32(LINKS), u32::MAX);
    for _ in 0..100 {
        sim.step();
    }
    assert_eq!((a.reap(0), b.receive().len()), (0, 0));
    assert_clean(&sim);
}

#[test]
fn a_message_may_be_refused_or_never_answered() {
    let (sim, _a, mut b, _pf) = vf_rig(&IxgbeVfOptions::default(), &Wish::default());
    let step = || {
        sim.step();
    };
    sim.faults(1).inject(Fault::CommandRefused, 1);
    assert!(!b.order(&[4 | 1 << 16, 5], &step));
    assert!(b.order(&[4 | 1 << 16, 5], &step));
    sim.faults(1).inject(Fault::CommandSilent, 1);
    assert_eq!(b.ask(&[4 | 1 << 16, 6], &step), None);
    assert!(b.order(&[4 | 1 << 16, 6], &step));
    assert_clean(&sim);
}

#[test]
fn a_physical_function_that_stays_in_reset_shows_it_to_the_virtual_one() {
    let (sim, _a, _pf) = vf_pair(&IxgbeVfOptions::default());
    let mut b = Guest::attach(sim.function(1), true, Wish::default());
    sim.faults(1).switch_on(Fault::StuckReset);
    assert!((0..50).all(|_| b.look_at_mailbox() & 0x40 != 0), "RSTI");
    sim.faults(1).clear(Fault::StuckReset);
    assert_eq!(b.look_at_mailbox() & 0x40, 0);
}
