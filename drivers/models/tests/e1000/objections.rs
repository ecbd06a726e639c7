//! Each thing that a driver must not do, done once.

use hw::{Bar, Function};
use models::Sim;
use models::e1000::Kind;

use crate::guest::{
    CTRL, DEXT, ENABLE, EOP, Guest, IFCS, LINK_UP, MAILBOX, MESSAGE, PROMISCUOUS, RCTL, RS, STATUS,
    TCTL, VLE, Wish, frame, low, options, rig, stepped, vf_rig,
};

/// Says what the device had to say, and that it was this and nothing else.
#[track_caller]
fn assert_objection(sim: &Sim, part: &str) {
    let all = sim.objections();
    assert!(
        all.len() == 1 && all[0].contains(part),
        "wanted one objection about {part:?}, got {all:?}"
    );
    assert_eq!((sim.unaccounted(0), sim.unaccounted(1)), (0, 0));
}

/// A driver of a device that runs does something; the device has this to say.
#[track_caller]
fn running(kind: Kind, part: &str, wrong: impl FnOnce(&Sim, &mut Guest)) {
    let (sim, mut a, _b) = rig(kind, &Wish::default());
    assert_eq!(sim.objections(), [""; 0]);
    wrong(&sim, &mut a);
    sim.settle();
    assert_objection(&sim, part);
}

/// A write to a register of a device that nobody has started.
#[track_caller]
fn written(kind: Kind, offset: u32, value: u32, part: &str) {
    let sim = stepped(kind);
    let guest = Guest::attach(sim.function(0), kind, Wish::default());
    guest.bar.store32(offset, value);
    assert_objection(&sim, part);
}

/// Posts one descriptor.
#[track_caller]
fn posted(kind: Kind, bytes: usize, command: u64, part: &str) {
    running(kind, part, |sim, a| {
        let errors = sim.counters(0).tx_errors;
        assert!(a.post(0, &frame(1, bytes), command));
        a.ring_bell(0);
        sim.settle();
        assert_eq!(sim.counters(0).tx_frames, 0, "nothing was sent");
        assert!(sim.counters(0).tx_errors <= errors + 1);
    });
}

#[test]
fn places_without_a_register_and_other_widths() {
    written(Kind::E1000, 0x5818, 0, "no register");
    written(Kind::E1000, 0xc000, 0, "no register");
    // One queue each way; the 82574 has two.
    written(Kind::E1000, 0x2900, 0, "no register");
    written(Kind::E1000, 0x3900, 0, "no register");
    written(Kind::E1000e, 0x2a00, 0, "no register");
    written(Kind::IgbVf, RCTL, 0, "no register");
    written(Kind::E1000e, STATUS, 1, "read-only");
    written(Kind::Igb, 0x4074, 0, "read-only");
    running(Kind::Igb, "no register", |_, a| {
        assert_eq!(a.bar.load32(0x2820), 0);
    });
    running(Kind::E1000, "write-only", |_, a| {
        a.bar.load32(0xd8);
    });
    running(Kind::E1000, "2 bytes", |_, a| {
        a.bar.load16(RCTL);
    });
    running(Kind::E1000, "configuration", |_, a| {
        a.function.set_config16(0x40, 1);
    });
    running(Kind::E1000, "command register has off", |_, a| {
        a.function.set_config16(4, 0);
        a.bar.load32(STATUS);
    });
}

#[test]
fn reserved_bits_and_what_is_not_modelled() {
    written(Kind::E1000, RCTL, 1, "reserved");
    written(Kind::Igb, RCTL, 1 << 25, "reserved");
    written(Kind::E1000, RCTL, 1 << 25, "buffer size");
    written(Kind::E1000e, RCTL, 2 << 6, "looping back");
    written(Kind::E1000e, RCTL, 1 << 10, "split");
    written(Kind::E1000, TCTL, 1, "reserved");
    written(Kind::Igb, 0x18, 1 << 26, "reserved");
    written(Kind::Igb, 0x5818, 3, "MRQC");
    written(Kind::Igb, 0x5c00, 0x10, "reserved");
    written(Kind::E1000e, 0x5818, 2, "MRQC");
    // The 82574 hashes no UDP ports, and its queue is the highest bit of an entry.
    written(Kind::E1000e, 0x5818, 1 << 22, "reserved");
    written(Kind::E1000e, 0x5c00, 0x40, "reserved");
    written(Kind::E1000, 0x5404, 1 << 16, "not a destination");
}

#[test]
fn anything_but_a_look_during_a_reset() {
    for (write, part) in [(false, "read before"), (true, "written before")] {
        let sim = stepped(Kind::E1000);
        let guest = Guest::attach(sim.function(0), Kind::E1000, Wish::default());
        // So that time does not end it first.
        sim.faults(0).switch_on(models::Fault::StuckReset);
        guest.bar.store32(CTRL, 1 << 26);
        guest.bar.load32(STATUS);
        if write {
            guest.bar.store32(RCTL, 2);
        } else {
            guest.bar.load32(RCTL);
        }
        assert_objection(&sim, part);
    }
}

#[test]
fn rings_of_odd_sizes_and_places() {
    written(Kind::E1000, 0x2808, 100, "a multiple of 128");
    written(Kind::Igb, 0xe008, 1 << 20, "below 1 MiB");
    written(Kind::Igb, 0xc000, 0x1008, "boundary of 16");
    written(Kind::Igb, 0xc068, ENABLE, "without a ring");
    running(Kind::E1000, "while it runs", |_, a| {
        a.bar.store32(0x2800, 0);
    });
    running(Kind::Igb, "while it runs", |_, a| {
        a.bar.store32(0xe010, 3);
    });
}

#[test]
fn tails_too_early_and_too_far() {
    written(Kind::Igb, 0xc058, 3, "before the queue was enabled");
    running(Kind::E1000, "past its 8", |_, a| {
        a.bar.store32(0x3818, 8);
    });
    running(Kind::Igb, "past its 8", |_, a| {
        a.bar.store32(0xc018, 9);
    });
    running(Kind::Igb, "before the queue was enabled", |_, a| {
        a.bar.store32(0xe028, 0);
        a.bar.store32(0xe018, 1);
    });
}

#[test]
fn rings_and_buffers_that_are_not_mapped() {
    let nowhere = 0x7f_0000_0000;
    for kind in [Kind::E1000, Kind::E1000e, Kind::Igb] {
        running(kind, "not mapped", |_, a| {
            let command = a.command(60);
            a.tx[0].set(0, [nowhere, command]);
            a.tx[0].post = 1;
            a.ring_bell(0);
        });
        running(kind, "not mapped", |sim, a| {
            let enable = a.tx[0].base + 0x28;
            a.bar.store32(TCTL, 0);
            if kind == Kind::Igb {
                a.bar.store32(enable, 0);
            }
            a.bar.store32(a.tx[0].base + 4, low(nowhere >> 32));
            if kind == Kind::Igb {
                a.bar.store32(enable, ENABLE);
            }
            a.bar.store32(TCTL, 10);
            a.bar.store32(a.tx[0].base + 0x18, 1);
            sim.settle();
        });
    }
}

/// The receiver hands a wrong descriptor over, and a frame comes.
#[track_caller]
fn armed(kind: Kind, words: [u64; 2], part: &str) {
    let wish = Wish {
        extended: true,
        ..Wish::default()
    };
    let (sim, mut a, b) = rig(kind, &wish);
    b.rx[0].set(0, words);
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    assert_objection(&sim, part);
    assert_eq!(sim.counters(1).rx_dma_fault, 1);
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    assert_eq!(sim.counters(1).rx_no_buffer, 1, "the queue stands still");
}

#[test]
fn receive_descriptors_that_were_not_armed() {
    for kind in [Kind::E1000, Kind::E1000e, Kind::Igb] {
        armed(kind, [0x7f_0000_0000, 0], "not mapped");
        armed(kind, [0, 0], "no buffer");
    }
    armed(Kind::E1000, [0x1000, 1 << 32], "DD still set");
    armed(Kind::E1000e, [0x1000, 60 << 32 | 1], "DD still set");
    armed(Kind::Igb, [0x1000, 60 << 32 | 1], "DD still set");
}

#[test]
fn a_slot_handed_over_again_as_it_came_back() {
    let (sim, mut a, mut b) = rig(Kind::E1000, &Wish::default());
    b.rx[0].set(7, [b.rx[0].buffer(7), 0]);
    for n in 0..9 {
        assert!(a.send(&frame(n, 60)));
        sim.settle();
        // The tail moves on, the descriptors stay as they are.
        let tail = b.rx[0].after(b.rx[0].post);
        b.rx[0].post = tail;
        b.bar.store32(0x2818, tail);
    }
    assert_objection(&sim, "DD still set");
}

#[test]
fn frames_of_no_sensible_length() {
    let plain = EOP | IFCS | RS;
    posted(Kind::E1000, 60, plain | 13, "frame of 13 bytes");
    posted(Kind::E1000, 60, plain, "frame of 0 bytes");
    posted(Kind::E1000e, 9231, plain | 9231, "of at most 9230");
    let advanced = plain | DEXT | 3 << 20;
    posted(Kind::Igb, 60, advanced | 60 | 61 << 46, "PAYLEN 61");
    posted(Kind::Igb, 60, advanced | 60, "PAYLEN 0");
    running(Kind::E1000, "PSP is off", |_, a| {
        a.bar.store32(TCTL, 2);
        assert!(a.send(&frame(1, 40)));
    });
}

#[test]
fn descriptors_that_make_no_sense() {
    let plain = 60 | EOP | IFCS | RS;
    posted(Kind::E1000, 60, 60 | EOP | RS, "IFCS");
    posted(Kind::E1000, 60, plain | 1 << 32, "DD set");
    posted(Kind::E1000, 60, plain | DEXT | 2 << 20, "unknown type 2");
    posted(Kind::Igb, 60, plain | DEXT | 1 << 20, "unknown type 1");
    posted(Kind::E1000, 60, DEXT | 1 << 26, "segmentation");
    let advanced = plain | DEXT | 3 << 20 | 60 << 46;
    posted(Kind::Igb, 60, advanced | 1 << 31, "segmentation");
    posted(Kind::Igb, 60, advanced | 1 << 40, "without a context");
    posted(Kind::Igb, 60, advanced | 2 << 36, "context slot");
    posted(Kind::Igb, 60, advanced | VLE, "never set");
    posted(Kind::Igb, 60, DEXT | 2 << 20 | 5 << 36, "context slot 5");
    let data = plain | DEXT | 1 << 20;
    posted(Kind::E1000e, 60, data | 1 << 41, "without a context");
    posted(Kind::E1000e, 60, plain | VLE, "VME is off");
    posted(Kind::E1000, 60, plain | 1 << 26 | 59 << 16, "checksum of 0");
    running(Kind::Igb, "RS on another", |_, a| {
        let command = a.command(100) & !0xffff & !EOP | 50;
        assert!(a.post(0, &frame(1, 50), command));
        a.ring_bell(0);
    });
    running(Kind::E1000, "middle of a frame", |_, a| {
        assert!(a.post(0, &frame(1, 50), 50 | IFCS));
        a.context(0, [0, DEXT]);
        a.ring_bell(0);
    });
}

#[test]
fn a_context_of_before_the_queue_was_stopped() {
    running(Kind::Igb, "without a context", |sim, a| {
        a.context(0, [20 | 14 << 9, 1 << 10 | DEXT | 2 << 20]);
        a.ring_bell(0);
        sim.settle();
        a.start_queue(0);
        (a.tx[0].post, a.tx[0].look) = (0, 0);
        let command = a.command(60) | 1 << 41;
        assert!(a.post(0, &frame(1, 60), command));
        a.ring_bell(0);
    });
}

#[test]
fn a_hash_where_a_checksum_is_reported() {
    let wish = Wish {
        rctl: crate::guest::RECEIVE | PROMISCUOUS,
        ..Wish::default()
    };
    for (kind, mode) in [(Kind::E1000e, 1), (Kind::Igb, 2)] {
        let (sim, mut a, b) = rig(kind, &wish);
        b.bar.store32(0x5818, mode);
        assert!(a.send(&frame(1, 60)));
        sim.settle();
        assert_objection(&sim, "PCSD");
    }
}

#[test]
fn the_upper_half_of_a_counter_first() {
    running(Kind::E1000, "lower half", |sim, a| {
        assert!(a.send(&frame(1, 60)));
        sim.settle();
        a.bar.load32(0x4094);
    });
}

#[test]
fn the_eeprom_and_the_phy_asked_wrongly() {
    written(Kind::E1000, 0x14, 64 << 8 | 1, "word 64");
    written(Kind::E1000, 0x20, 2 << 26 | 2 << 21, "PHY 2");
    written(Kind::E1000, 0x20, 1 << 21, "operation 0");
    running(Kind::E1000, "READY", |_, a| {
        a.bar.store32(0x20, 2 << 26 | 1 << 21);
        a.bar.store32(0x20, 2 << 26 | 1 << 21);
    });
}

/// A virtual function that does something to its mailbox.
#[track_caller]
fn mailbox(part: &str, wrong: impl FnOnce(&mut Guest)) {
    let device = options(Kind::IgbVf, crate::guest::MAC_B);
    let (sim, _a, mut b, _pf) = vf_rig(&device, &Wish::default());
    wrong(&mut b);
    sim.settle();
    assert_objection(&sim, part);
}

#[test]
fn a_mailbox_that_is_somebody_elses() {
    mailbox("mailbox read", |b| {
        b.bar.load32(MESSAGE);
    });
    mailbox("mailbox written", |b| b.bar.store32(MESSAGE, 1));
    mailbox("not held", |b| b.bar.store32(MAILBOX, 1));
    mailbox("written with", |b| b.bar.store32(MAILBOX, 0x20));
    mailbox("still held", |b| {
        b.bar.store32(MAILBOX, 4);
        b.bar.store32(MESSAGE, 5);
        b.bar.store32(MAILBOX, 5);
    });
    mailbox("control register", |b| b.bar.store32(CTRL, LINK_UP));
}
