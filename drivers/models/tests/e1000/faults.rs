//! Devices that fail.

use hw::{Bar, Function};
use models::Fault;
use models::e1000::Kind;

use crate::guest::{CTRL, Guest, STATUS, Wish, assert_clean, frame, rig, stepped};

const PARTS: [Kind; 3] = [Kind::E1000, Kind::E1000e, Kind::Igb];

#[test]
fn a_reset_may_never_end() {
    for kind in PARTS {
        let sim = stepped(kind);
        let guest = Guest::attach(sim.function(0), kind, Wish::default());
        let faults = sim.faults(0);
        faults.switch_on(Fault::StuckReset);
        guest.bar.store32(CTRL, 1 << 26);
        assert!((0..100).all(|_| guest.bar.load32(CTRL) >> 26 & 1 == 1));
        assert_eq!(faults.done(Fault::StuckReset), 100, "{kind:?}");
        faults.clear(Fault::StuckReset);
        assert_eq!(guest.bar.load32(CTRL) >> 26 & 1, 0);
        assert_clean(&sim);
    }
}

#[test]
fn completions_may_be_lost_or_late() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        sim.faults(0).inject(Fault::TxCompletionLost, 1);
        assert!(a.send(&frame(1, 60)));
        sim.settle();
        assert_eq!((a.reap(0), b.receive().len()), (0, 1), "{kind:?}");
        sim.faults(0).inject(Fault::LateCompletions, 1);
        assert!(a.send(&frame(2, 60)));
        sim.step();
        assert_eq!(a.tx[0].get(1)[1] >> 32 & 1, 0);
        sim.settle();
        assert_eq!(a.tx[0].get(1)[1] >> 32 & 1, 1);
        sim.faults(1).inject(Fault::RxCompletionLost, 1);
        assert!(a.send(&frame(3, 60)));
        sim.settle();
        assert_eq!(b.receive().len(), 1, "the one before");
        assert_clean(&sim);
    }
}

#[test]
fn a_ring_that_shrinks_under_late_completions_is_not_walked_past_its_end() {
    let (sim, mut a, mut b) = rig(
        Kind::E1000,
        &Wish {
            slots: 16,
            ..Wish::default()
        },
    );
    sim.faults(0).switch_on(Fault::LateCompletions);
    for n in 0..12 {
        assert!(a.send(&frame(n, 60)));
    }
    sim.step();
    a.bar.store32(0x400, 0);
    a.bar.store32(0x3808, 128);
    sim.faults(0).clear(Fault::LateCompletions);
    sim.settle();
    assert_eq!(b.receive().len(), 12);
    let all = sim.objections();
    assert!(
        all.len() == 1 && all[0].contains("with 8 descriptors"),
        "{all:?}"
    );
}

#[test]
fn a_length_may_be_untrue() {
    for kind in PARTS {
        let (sim, mut a, b) = rig(kind, &Wish::default());
        sim.faults(1).inject(Fault::WrongLength, 1);
        assert!(a.send(&frame(1, 60)));
        sim.settle();
        let word = b.rx[0].get(0)[1];
        let len = if kind == Kind::Igb { word >> 32 } else { word };
        assert_eq!(len & 0xffff, 0xffff, "{kind:?}");
    }
}

#[test]
fn a_head_may_point_past_the_ring() {
    let (sim, _a, b) = rig(Kind::Igb, &Wish::default());
    sim.faults(1).inject(Fault::IndexOutOfRange, 1);
    assert_eq!(b.bar.load32(0xe010), 15);
    assert_eq!(b.bar.load32(0xe010), 0);
}

#[test]
fn a_device_may_stop_in_the_middle_until_it_is_reset() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        assert!(a.send(&frame(1, 60)));
        sim.faults(0).inject(Fault::NeedsReset, 1);
        sim.settle();
        assert_eq!((a.reap(0), b.receive().len()), (0, 0), "{kind:?}");
        a.reset(&|| ());
        a.set_up();
        assert!(a.send(&frame(2, 60)));
        sim.settle();
        assert_eq!((a.reap(0), b.receive().len()), (1, 1));
        assert_clean(&sim);
    }
}

#[test]
fn a_device_that_is_gone_reads_as_ones_and_touches_nothing() {
    for kind in PARTS {
        let (sim, mut a, b) = rig(kind, &Wish::default());
        sim.faults(1).switch_on(Fault::Removed);
        assert_eq!(b.bar.load32(STATUS), u32::MAX);
        assert_eq!(b.function.config16(0), u16::MAX);
        assert!(a.send(&frame(1, 60)));
        sim.settle();
        assert_eq!(sim.counters(1).rx_not_ready, 1, "{kind:?}");
        assert_clean(&sim);
    }
}
