//! Registers that do more than keep what is written.

use hw::{Bar, Function};
use models::e1000::{E1000Options, Kind, map};

use crate::guest::{
    CTRL, Guest, ICR, IMS, LINK_UP, MAC_A, RCTL, STATUS, Wish, assert_clean, frame, options, rig,
    stepped, stepped_with, to,
};

const PARTS: [Kind; 3] = [Kind::E1000, Kind::E1000e, Kind::Igb];

fn attached(kind: Kind) -> (models::Sim, Guest) {
    let sim = stepped(kind);
    let guest = Guest::attach(sim.function(0), kind, Wish::default());
    (sim, guest)
}

#[test]
fn each_device_says_who_it_is() {
    let all = [
        (Kind::E1000, 0x100e, 0x2_0000, Some((1, 64))),
        (Kind::E1000e, 0x10d3, 0x2_0000, Some((2, 32))),
        (Kind::Igb, 0x10c9, 0x2_0000, Some((2, 32))),
        (Kind::IgbVf, 0x10ca, 0x4000, None),
    ];
    for (kind, id, bytes, io) in all {
        let sim = stepped(kind);
        let function = sim.function(0);
        assert_eq!(function.config32(0), id << 16 | 0x8086);
        assert_eq!(function.config16(0xa), 0x200, "Ethernet");
        assert_eq!(function.bar(0).unwrap().len(), bytes);
        if let Some((index, bytes)) = io {
            assert_eq!(function.bar(index).unwrap().len(), bytes);
        }
        let express = hw::function::capabilities(&function).any(|(id, _)| id == 0x10);
        assert_eq!(express, kind != Kind::E1000);
        assert!(function.bar(4).is_err());
        assert_clean(&sim);
    }
}

#[test]
fn a_reset_shows_for_a_while_and_leaves_the_address_of_the_eeprom() {
    for kind in PARTS {
        let (sim, mut guest) = attached(kind);
        guest.bar.store32(0x5400, 0);
        guest.bar.store32(CTRL, LINK_UP);
        guest.bar.store32(0x5200, 7);
        guest.bar.store32(CTRL, 1 << 26);
        let shown: Vec<bool> = (0..4)
            .map(|_| guest.bar.load32(CTRL) >> 26 & 1 == 1)
            .collect();
        assert_eq!(shown, [true, true, false, false], "{kind:?}");
        assert_eq!(guest.bar.load32(0x5200), 0);
        let address = [guest.bar.load32(0x5400), guest.bar.load32(0x5404)];
        assert_eq!(address, [0x0000_5452, 0x8000_0a00]);
        guest.reset(&|| ());
        assert_clean(&sim);
    }
}

#[test]
fn a_reset_forgets_rings_and_tails() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        for n in 0..3 {
            assert!(a.send(&frame(n, 60)));
        }
        sim.settle();
        assert_eq!(b.receive().len(), 3);
        let (tx, rx) = (a.tx[0].base, a.rx[0].base);
        let of = |at: u32| [0x8, 0x10, 0x18].map(|register| a.bar.load32(at + register));
        assert_eq!((of(tx), of(rx)), ([128, 3, 3], [128, 0, 7]), "{kind:?}");
        a.bar.store32(CTRL, 1 << 26);
        while a.bar.load32(CTRL) >> 26 & 1 == 1 {}
        assert_eq!((of(tx), of(rx)), ([0; 3], [0; 3]));
        assert_clean(&sim);
        a.bar.store32(tx + 0x18, 1);
        assert_eq!(sim.objections().len(), 1, "no ring, no tail");
    }
}

#[test]
fn a_reset_is_over_after_a_time_too() {
    let quick = E1000Options {
        reset_lasts: std::time::Duration::ZERO,
        ..options(Kind::Igb, MAC_A)
    };
    let sim = stepped_with(&quick, &quick);
    let guest = Guest::attach(sim.function(0), Kind::Igb, Wish::default());
    guest.bar.store32(CTRL, 1 << 26);
    assert_eq!(guest.bar.load32(RCTL), 0);
    assert_clean(&sim);
}

#[test]
fn the_address_is_in_the_eeprom_too() {
    for (kind, shift, done) in [
        (Kind::E1000, 8, 1 << 4),
        (Kind::E1000e, 2, 1 << 1),
        (Kind::Igb, 2, 1 << 1),
    ] {
        let (sim, guest) = attached(kind);
        let mut mac = Vec::new();
        for word in 0..3 {
            guest.bar.store32(0x14, word << shift | 1);
            let value = guest.bar.load32(0x14);
            assert_eq!(value & 0xffff, word << shift | done);
            mac.extend(u16::try_from(value >> 16).unwrap().to_le_bytes());
        }
        assert_eq!(mac, MAC_A);
        assert_clean(&sim);
    }
}

#[test]
fn the_link_shows_once_software_lets_it() {
    for kind in PARTS {
        let (sim, guest) = attached(kind);
        let status = || guest.bar.load32(STATUS);
        assert_eq!(status() & 3, 1, "{kind:?}: full duplex, no link");
        guest.bar.store32(IMS, 1 << 2);
        guest.bar.store32(CTRL, LINK_UP);
        assert_eq!(status() & 0xc3, 0x83, "up, 1000 Mbit/s");
        assert_eq!(guest.bar.load32(ICR) & 4, 4);
        assert_eq!(guest.bar.load32(ICR), 0, "cleared by being read");
        for up in [false, true] {
            sim.set_link(up);
            sim.step();
            assert_eq!(status() >> 1 & 1 == 1, up);
            assert_eq!(guest.bar.load32(ICR), 1 << 31 | 4);
        }
        assert_eq!(sim.counters(0).interrupts, 3);
        assert_clean(&sim);
    }
}

#[test]
fn a_link_may_wait_until_the_phy_is_told_to_negotiate() {
    let waits = E1000Options {
        waits_to_negotiate: true,
        ..options(Kind::Igb, MAC_A)
    };
    let sim = stepped_with(&waits, &waits);
    let guest = Guest::attach(sim.function(0), Kind::Igb, Wish::default());
    guest.bar.store32(CTRL, LINK_UP);
    assert_eq!(guest.bar.load32(STATUS) & 2, 0);
    // BMCR: negotiate, and begin anew.
    guest.bar.store32(0x20, 1 << 26 | 1 << 21 | 0x1340);
    assert_eq!(guest.bar.load32(STATUS) & 2, 2);
    assert_clean(&sim);
}

#[test]
fn a_disabled_master_touches_no_memory() {
    for kind in [Kind::E1000e, Kind::Igb] {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        assert_eq!(a.bar.load32(STATUS) >> 19 & 1, 1);
        a.bar.store32(CTRL, LINK_UP | 4);
        assert_eq!(a.bar.load32(STATUS) >> 19 & 1, 0, "{kind:?}");
        assert!(a.send(&frame(1, 60)));
        sim.settle();
        assert_eq!((a.reap(0), b.receive().len()), (0, 0));
        a.bar.store32(CTRL, LINK_UP);
        sim.settle();
        assert_eq!((a.reap(0), b.receive().len()), (1, 1));
        assert_clean(&sim);
    }
}

#[test]
fn causes_are_masked_and_set_by_hand() {
    let (sim, guest) = attached(Kind::E1000e);
    guest.bar.store32(0xc8, 0x50);
    assert_eq!(sim.counters(0).interrupts, 0, "nobody asked");
    guest.bar.store32(ICR, 0x10);
    assert_eq!(guest.bar.load32(ICR), 0x40, "one was written away");
    guest.bar.store32(IMS, 0x50);
    guest.bar.store32(0xd8, 0x10);
    assert_eq!(guest.bar.load32(IMS), 0x40);
    guest.bar.store32(0xc8, 0x50);
    assert_eq!(sim.counters(0).interrupts, 1);
    assert_clean(&sim);
}

#[test]
fn queue_interrupts_go_where_the_allocation_says() {
    let (sim, mut a, mut b) = rig(Kind::Igb, &Wish::default());
    // Receive queue 0 to vector 3, transmit queue 0 to vector 5.
    b.bar.store32(0x1700, 0x80 | 3);
    a.bar.store32(0x1700, (0x80 | 5) << 8);
    b.bar.store32(0x1524, 1 << 3);
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    assert_eq!(a.bar.load32(0x1580), 1 << 5);
    assert_eq!(b.bar.load32(0x1580), 1 << 3);
    assert_eq!(b.bar.load32(0x1580), 0);
    assert_eq!(sim.counters(0).interrupts, 0);
    assert_eq!(sim.counters(1).interrupts, 1);
    assert_eq!(b.receive().len(), 1);
    assert_clean(&sim);
}

#[test]
fn statistics_count_what_was_on_the_wire_and_are_cleared_by_being_read() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        let mut bytes = 0;
        for len in [60, 61, 200, 400, 800, 1400, 1514] {
            assert!(a.send(&frame(1, len)));
            bytes += u32::try_from(len).unwrap() + 4;
            sim.settle();
            assert_eq!(b.receive().len(), 1);
        }
        let read = |guest: &Guest, at: u32| guest.bar.load32(at);
        let sizes: Vec<u32> = (0..6).map(|n| read(&a, 0x40d8 + 4 * n)).collect();
        assert_eq!(sizes, [1, 1, 1, 1, 1, 2], "{kind:?} PTC64…1522");
        let sizes: Vec<u32> = (0..6).map(|n| read(&b, 0x405c + 4 * n)).collect();
        assert_eq!(sizes, [1, 1, 1, 1, 1, 2], "PRC64…1522");
        assert_eq!((read(&a, 0x4080), read(&a, 0x40d4)), (7, 7), "GPTC, TPT");
        assert_eq!((read(&b, 0x4074), read(&b, 0x40d0)), (7, 7), "GPRC, TPR");
        for (guest, at) in [(&a, 0x4090), (&a, 0x40c8), (&b, 0x4088), (&b, 0x40c0)] {
            assert_eq!(read(guest, at), bytes, "octets at {at:#x}");
            assert_eq!(read(guest, at), bytes, "the low half stays");
            assert_eq!(read(guest, at + 4), 0);
            assert_eq!(read(guest, at), 0, "and goes with the high one");
        }
        assert_eq!((read(&a, 0x4080), read(&b, 0x4074)), (0, 0));
        assert_clean(&sim);
    }
}

#[test]
fn groups_and_everyone_are_counted_apart() {
    let (sim, mut a, mut b) = rig(Kind::E1000, &Wish::default());
    b.bar.store32(RCTL, b.wish.rctl | 1 << 4);
    for to in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], crate::guest::MAC_B] {
        assert!(a.send(&crate::guest::to(to)));
        sim.settle();
        assert_eq!(b.receive().len(), 1);
    }
    let counts = |guest: &Guest, at: [u32; 3]| at.map(|at| guest.bar.load32(at));
    assert_eq!(counts(&a, [0x40f4, 0x40f0, 0x4080]), [1, 1, 3]);
    assert_eq!(counts(&b, [0x4078, 0x407c, 0x4074]), [1, 1, 3]);
    let of = sim.counters(1);
    let kinds = (of.rx_unicast, of.rx_multicast, of.rx_broadcast);
    assert_eq!(kinds, (1, 1, 1));
    assert_clean(&sim);
}

#[test]
fn registers_are_reached_through_the_io_window_too() {
    let (sim, guest) = attached(Kind::E1000);
    let window = guest.function.bar(1).unwrap();
    window.store32(0, 0x38);
    assert_eq!((window.load32(0), window.load32(4)), (0x38, 0x8100));
    window.store32(4, 0x88a8);
    assert_eq!(guest.bar.load32(0x38), 0x88a8);
    assert_clean(&sim);
}

#[test]
fn mailboxes_to_virtual_functions_are_held_announced_and_released() {
    let (sim, guest) = attached(Kind::Igb);
    let (own, other, memory) = (0xc00 + 4 * 3, 0xc40 + 4 * 3, 0x800 + 64 * 3);
    assert_eq!(guest.bar.load32(other), 0x40, "a reset goes on");
    guest.bar.store32(0x18, 1 << 14);
    assert_eq!(guest.bar.load32(other), 0x80, "and is over");
    guest.bar.store32(own, 8);
    assert_eq!((guest.bar.load32(own), guest.bar.load32(other)), (8, 0x88));
    guest.bar.store32(memory, 0x100);
    guest.bar.store32(own, 1);
    assert_eq!((guest.bar.load32(own), guest.bar.load32(other)), (0, 0x90));
    assert_eq!(guest.bar.load32(memory), 0x100);
    guest.bar.store32(0xc80, 0xff);
    guest.bar.store32(0xc88, 0xff);
    assert_clean(&sim);
    guest.bar.store32(memory, 0);
    guest.bar.store32(own, 2);
    guest.bar.store32(other, 4);
    assert_eq!(sim.objections().len(), 3);
}

#[test]
fn a_device_may_have_fewer_queues_than_the_hardware() {
    let few = E1000Options {
        queues: Some(2),
        ..options(Kind::Igb, MAC_A)
    };
    let sim = stepped_with(&few, &few);
    let guest = Guest::attach(sim.function(0), Kind::Igb, Wish::default());
    guest.bar.store32(0xc048, 128);
    assert_clean(&sim);
    guest.bar.store32(0xc088, 128);
    assert_eq!(sim.objections().len(), 1);
}

#[test]
fn a_sibling_shows_its_own_id() {
    let sibling = E1000Options {
        device_id: Some(0x100f),
        ..options(Kind::E1000, MAC_A)
    };
    let sim = stepped_with(&sibling, &sibling);
    let guest = Guest::attach(sim.function(0), Kind::E1000, Wish::default());
    assert_eq!(guest.function.config16(2), 0x100f);
    guest.bar.store32(0x14, 0xd << 8 | 1);
    assert_eq!(guest.bar.load32(0x14) >> 16, 0x100f);
    assert_clean(&sim);
}

#[test]
fn the_list_of_registers_names_what_data_sheets_name() {
    let find = |kind: Kind, name: &str| {
        let found = map(kind).into_iter().find(|info| info.name == name);
        found.map(|info| (info.offset, info.stride, info.count))
    };
    assert_eq!(find(Kind::E1000, "RDT"), Some((0x2818, 0x100, 1)));
    assert_eq!(find(Kind::Igb, "TDT"), Some((0xe018, 0x40, 16)));
    assert_eq!(find(Kind::Igb, "RETA"), Some((0x5c00, 4, 32)));
    assert_eq!(find(Kind::IgbVf, "V2PMAILBOX"), Some((0xc40, 4, 1)));
    assert_eq!(find(Kind::E1000, "MRQC"), None);
    assert_eq!(find(Kind::IgbVf, "GPRC"), None);
}

#[test]
fn the_function_is_reset_from_outside() {
    let (sim, mut a, mut b) = rig(Kind::E1000e, &Wish::default());
    b.function.reset().unwrap();
    assert_eq!(b.bar.load32(RCTL), 0);
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    assert_eq!(sim.counters(1).rx_not_ready, 1);
    assert_eq!(b.function.config16(4), 7, "put back");
    b.set_up();
    assert!(a.send(&frame(2, 60)));
    sim.settle();
    assert_eq!(b.receive(), [frame(2, 60)]);
    assert_clean(&sim);
}

#[test]
fn timers_do_not_keep_the_bit_that_flushes_them() {
    for kind in [Kind::E1000, Kind::E1000e] {
        let (sim, guest) = attached(kind);
        for timer in [0x2820, 0x3820] {
            guest.bar.store32(timer, 1 << 31 | 0xa5a5);
            assert_eq!(guest.bar.load32(timer), 0xa5a5, "{kind:?}");
        }
        assert_clean(&sim);
    }
}

#[test]
fn the_mdios_ownership_is_given_back_while_a_reset_goes_on() {
    let (sim, guest) = attached(Kind::E1000e);
    guest.bar.store32(CTRL, 1 << 26);
    let owned = guest.bar.load32(0xf00);
    guest.bar.store32(0xf00, owned & !(1 << 5));
    while guest.bar.load32(CTRL) & 1 << 26 != 0 {}
    assert_clean(&sim);
}

#[test]
fn what_is_sent_in_loopback_comes_back_and_meets_no_wire() {
    for kind in [Kind::E1000, Kind::E1000e, Kind::Igb] {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        // BMCR: loop back, 1000 Mbit/s, full duplex.
        a.bar.store32(0x20, 1 << 26 | 1 << 21 | 0x4140);
        assert!(a.send(&to(MAC_A)));
        assert!(b.send(&to(MAC_A)));
        sim.settle();
        assert_eq!(a.receive().len(), 1, "{kind:?}");
        assert_eq!(b.receive().len(), 0);
        assert_eq!(sim.counters(0).rx_not_ready, 1, "nothing comes in");
        assert_eq!(sim.counters(0).tx_frames, 0);
        a.bar.load32(0x20);
        a.bar.store32(0x20, 1 << 26 | 1 << 21 | 0x1140);
        assert!(a.send(&frame(3, 60)));
        sim.settle();
        assert_eq!(b.receive().len(), 1);
        assert_clean(&sim);
    }
}

#[test]
fn an_address_register_keeps_its_own_bits_alone() {
    for (kind, kept) in [
        (Kind::E1000, 0x8003_ffff),
        (Kind::E1000e, 0x8003_ffff),
        (Kind::Igb, 0x83ff_ffff),
    ] {
        let (sim, guest) = attached(kind);
        for pattern in [0x5a5a_5a5a, 0xa5a5_a5a5, u32::MAX, 0] {
            for entry in [0x5408, 0x5478] {
                guest.bar.store32(entry, pattern);
                guest.bar.store32(entry + 4, pattern);
                let halves = [guest.bar.load32(entry), guest.bar.load32(entry + 4)];
                assert_eq!(halves, [pattern, pattern & kept], "{kind:?} {entry:#x}");
            }
        }
        // What no driver means for an address is objected to all the same.
        let all = sim.objections();
        let named = all.iter().all(|one| one.contains("not a destination"));
        assert!(named && !all.is_empty(), "{kind:?}: {all:?}");
    }
}

#[test]
fn fibres_control_word_is_there_on_all_of_them_and_keeps_what_is_written() {
    for kind in PARTS {
        let (sim, guest) = attached(kind);
        for value in [0x5a5a, 0xa5a5, 0xffff, 0] {
            guest.bar.store32(0x178, value);
            assert_eq!(guest.bar.load32(0x178), value, "{kind:?}");
        }
        assert_clean(&sim);
    }
}
