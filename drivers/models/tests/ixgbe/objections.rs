//! What the device does not put up with, each said in a sentence.

use hw::Bar;
use models::Sim;
use models::ixgbe::Kind;

use crate::guest::{
    CTRL, DCTL, DEXT, DONE, ENABLE, EOP, Guest, HLREG0, IFCS, LEN, RS, RST, RXCTRL, SRRCTL, TAIL,
    VLE, Wish, frame, rig, stepped,
};

fn attach(sim: &Sim) -> Guest {
    Guest::attach(sim.function(0), false, Wish::default())
}

/// The only thing that was objected to.
#[track_caller]
fn only(sim: &Sim, part: &str) {
    let objections = sim.objections();
    assert_eq!(objections.len(), 1, "{objections:?}");
    assert!(objections[0].contains(part), "{objections:?}");
}

#[test]
fn registers_wait_until_a_reset_is_over() {
    for (register, writes, part) in [
        (0x5080, true, "written before the reset was over"),
        (0x42a4, false, "read before the reset was over"),
    ] {
        let sim = stepped(Kind::I82599);
        let a = attach(&sim);
        a.bar.store32(CTRL, RST);
        if writes {
            a.bar.store32(register, 1);
        } else {
            a.bar.load32(register);
        }
        only(&sim, part);
    }
}

#[test]
fn neither_address_nor_engine_is_touched_before_it_is_there() {
    let sim = stepped(Kind::I82599);
    let a = attach(&sim);
    a.bar.store32(CTRL, RST);
    a.until(CTRL, RST, 0);
    a.bar.load32(0x5400);
    only(&sim, "EEC.ARD");
    let sim = stepped(Kind::I82599);
    let a = attach(&sim);
    a.bar.store32(CTRL, RST);
    a.until(CTRL, RST, 0);
    a.until(0x1_0010, 1 << 9, 1 << 9);
    let stripped = a.bar.load32(0x2f00) | 2;
    a.bar.store32(0x2f00, stripped);
    let sim2 = &sim;
    a.bar.store32(CTRL, RST);
    a.until(CTRL, RST, 0);
    a.bar.store32(0x4a80, 1);
    only(sim2, "DMAIDONE");
}

#[test]
fn a_tail_before_its_queue_is_enabled_is_ignored_and_named() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    b.bar.store32(0x1000 + DCTL, 0);
    b.until(0x1000 + DCTL, ENABLE, 0);
    b.bar.store32(0x1000 + TAIL, 3);
    only(&sim, "before the queue was enabled");
    b.bar.store32(0x1000 + DCTL, ENABLE);
    assert_eq!(b.bar.load32(0x1000 + TAIL), 7, "as it was");
    assert!(a.send(&frame(0, 64)));
    sim.settle();
    assert_eq!(b.receive().len(), 1);
}

#[test]
fn a_tail_past_the_ring_stops_the_queue() {
    let (sim, mut a, _b) = rig(Kind::I82599, &Wish::default());
    a.bar.store32(0x6000 + TAIL, 8);
    sim.settle();
    let objections = sim.objections();
    assert!(
        objections[0].contains("past its 8 descriptors"),
        "{objections:?}"
    );
    assert!(
        objections[1].contains("tail 8 and head 0"),
        "{objections:?}"
    );
    assert!(a.send(&frame(0, 64)));
    sim.settle();
    assert_eq!(sim.counters(0).tx_frames, 0);
}

#[test]
fn a_ring_is_where_and_as_long_as_the_data_sheet_allows() {
    for (register, value, part) in [
        (0, 0x1040, "boundary of 128"),
        (LEN, 100, "multiple of 128"),
    ] {
        let sim = stepped(Kind::I82599);
        let a = attach(&sim);
        a.bar.store32(0x1000 + register, value);
        only(&sim, part);
    }
    let sim = stepped(Kind::I82599);
    let a = attach(&sim);
    a.bar.store32(0x1000 + DCTL, ENABLE);
    only(&sim, "without a ring");
    let (sim, a, _b) = rig(Kind::I82599, &Wish::default());
    // Whether it drops is the one thing that may change: Linux's driver does so with the link.
    let before = a.bar.load32(0x1000 + SRRCTL);
    a.bar.store32(0x1000 + SRRCTL, before ^ 1 << 28);
    assert_eq!(sim.objections(), [""; 0]);
    a.bar.store32(0x1000 + SRRCTL, 4);
    only(&sim, "while it runs");
}

#[test]
fn what_must_be_set_before_is_asked_for() {
    let sim = stepped(Kind::I82599);
    let a = attach(&sim);
    a.bar.store32(0x6000 + LEN, 128);
    a.bar.store32(0x6000 + DCTL, ENABLE);
    assert!((0..9).all(|_| a.bar.load32(0x6000 + DCTL) & ENABLE == 0));
    only(&sim, "DMATXCTL.TE");
    let sim = stepped(Kind::I82599);
    attach(&sim).bar.store32(RXCTRL, 1);
    only(&sim, "RXCRCSTRP and RDRXCTL.CRCSTRIP");
    let sim = stepped(Kind::I82599);
    attach(&sim).bar.store32(0x8120, 3);
    only(&sim, "RTTDCS.ARBDIS");
    let sim = stepped(Kind::I82599);
    attach(&sim).bar.store32(0x5818, 4);
    only(&sim, "a mode that is not modelled");
    let sim = stepped(Kind::I82599);
    attach(&sim).bar.load32(0x3100c);
    only(&sim, "has no register");
    let sim = stepped(Kind::I82599);
    attach(&sim).bar.store32(0x4074, 0);
    only(&sim, "read-only");
    let sim = stepped(Kind::I82599);
    attach(&sim).bar.load16(0x5080);
    only(&sim, "registers have 4");
}

/// What is said of one descriptor, and whether the queue lives on.
fn posting(words: impl Fn(&Guest) -> Vec<u64>, len: usize) -> (Vec<String>, bool) {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    for word in words(&a) {
        assert!(a.post(0, &frame(1, len), word));
    }
    a.ring_bell(0);
    sim.settle();
    b.receive();
    assert!(a.post(0, &frame(1, 64), a.command(64)));
    a.ring_bell(0);
    sim.settle();
    (sim.objections(), b.receive().len() == 1)
}

#[test]
fn a_descriptor_that_would_hang_the_queue_hangs_it() {
    let full = 64u64 | EOP | IFCS | RS | DEXT | 3 << 20 | 64 << 46;
    for (word, part) in [
        (full | DONE, "with DD set"),
        (full & !(3 << 20) | 5 << 20, "unknown type 5"),
        (full & !0xffff, "without data"),
        (full & !EOP, "RS on another"),
        (
            13 | EOP | IFCS | RS | DEXT | 3 << 20 | 13 << 46,
            "hangs the queue",
        ),
        (2 << 20 | DEXT | 2 << 36, "context slot 2"),
    ] {
        let (objections, lives) = posting(|_| vec![word], 64);
        assert!(objections[0].contains(part), "{part}: {objections:?}");
        assert!(!lives, "{part}");
    }
    let (objections, lives) = posting(|_| vec![full & !EOP & !RS, 2 << 20 | DEXT], 64);
    assert!(objections[0].contains("in the middle of a frame") && !lives);
}

#[test]
fn a_frame_that_cannot_be_sent_is_counted_and_the_next_one_goes() {
    let full = 64u64 | EOP | IFCS | RS | DEXT | 3 << 20 | 64 << 46;
    for (word, part) in [
        (full & !IFCS, "without IFCS"),
        (full ^ 1 << 46, "PAYLEN 65"),
        (full | VLE, "context that was never set"),
        (full | 1 << 41, "without a context"),
        (full | 1 << 31, "without a context"),
    ] {
        let (objections, lives) = posting(|_| vec![word], 64);
        assert_eq!(objections.len(), 1, "{part}: {objections:?}");
        assert!(objections[0].contains(part), "{part}: {objections:?}");
        assert!(lives, "{part}");
    }
}

#[test]
fn more_than_forty_descriptors_are_too_many() {
    let wish = Wish {
        slots: 64,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish);
    let part = |last: bool, total: u64| {
        let ends = if last { EOP | RS } else { 0 };
        2 | ends | IFCS | DEXT | 3 << 20 | total << 46
    };
    for n in 0..40 {
        assert!(a.post(0, &[n, n], part(n == 39, 80)));
    }
    a.ring_bell(0);
    sim.settle();
    assert_eq!(sim.objections(), [""; 0]);
    b.bar.store32(0x5080, 1 << 9);
    for n in 0..41 {
        a.reap(0);
        assert!(a.post(0, &[n, n], part(n == 40, 82)));
    }
    a.ring_bell(0);
    sim.settle();
    only(&sim, "more than 40");
    assert_eq!(b.receive().len(), 0);
}

#[test]
fn short_frames_need_padding_and_frames_need_an_fcs() {
    for (bit, part) in [(1 << 10, "a runt"), (1, "without an FCS")] {
        let (sim, mut a, _b) = rig(Kind::I82599, &Wish::default());
        let control = a.bar.load32(HLREG0);
        a.bar.store32(HLREG0, control & !bit);
        assert!(a.send(&frame(0, 40)));
        sim.settle();
        only(&sim, part);
    }
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    assert!(a.send(&frame(0, 40)));
    sim.settle();
    assert_eq!(b.receive()[0].len(), 60);
}

#[test]
fn a_slot_that_was_not_armed_stops_the_queue() {
    for (words, part) in [
        ([0x1000, 60 << 32 | 1], "DD still set"),
        ([0, 0], "no buffer"),
    ] {
        let (sim, mut a, b) = rig(Kind::I82599, &Wish::default());
        b.rx[0].set(0, words);
        assert!(a.send(&frame(0, 64)));
        sim.settle();
        only(&sim, part);
        assert_eq!(sim.counters(1).rx_dma_fault, 1);
        assert_eq!(sim.unaccounted(0), 0);
    }
}

#[test]
fn memory_that_is_not_mapped_is_neither_read_nor_written() {
    let (sim, mut a, b) = rig(Kind::I82599, &Wish::default());
    b.rx[0].set(0, [0x70_0000_0000, 0]);
    assert!(a.send(&frame(0, 64)));
    sim.settle();
    only(&sim, "which is not mapped");
    let (sim, mut a, _b) = rig(Kind::I82599, &Wish::default());
    let command = a.command(64);
    a.tx[0].set(0, [0x70_0000_0000, command]);
    a.tx[0].post = 1;
    a.ring_bell(0);
    sim.settle();
    only(&sim, "which is not mapped");
}

#[test]
fn header_split_is_not_modelled_and_says_so() {
    let (sim, mut a, b) = rig(Kind::I82599, &Wish::default());
    b.bar.store32(0x1000 + DCTL, 0);
    b.until(0x1000 + DCTL, ENABLE, 0);
    b.bar.store32(0x1000 + SRRCTL, 5 << 25 | 2);
    b.bar.store32(0x1000 + DCTL, ENABLE);
    assert!(a.send(&frame(0, 64)));
    sim.settle();
    only(&sim, "descriptor type 5");
}

#[test]
fn semaphores_are_held_by_who_writes_what_they_guard() {
    let sim = stepped(Kind::I82599);
    let a = attach(&sim);
    assert_eq!(a.bar.load32(0x1_0140) & 1, 0);
    a.bar.store32(0x1_0140, 3);
    assert_eq!(a.bar.load32(0x1_0140) & 2, 2);
    a.bar.store32(0x1_0160, 1 << 1);
    a.bar.store32(0x1_0140, 0);
    assert_eq!(sim.objections(), [""; 0]);
    a.bar.store32(0x1_0160, 0);
    only(&sim, "does not hold its semaphore");
}
