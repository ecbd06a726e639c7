//! Bring-up: resets, EEPROM, semaphores, module and PHY, link, statistics, interrupts.

use std::sync::{Arc, Mutex};

use hw::{Bar, Function};
use models::ixgbe::{Ixgbe, IxgbeOptions, Kind, Module};
use models::{Device, InterruptSink, LinkReport, Sim, WireOptions};

use crate::guest::{
    CTRL, Guest, KINDS, LINK_UP, LINKS, MAC_A, MAC_B, RST, Wish, assert_clean, frame, options, rig,
    stepped, stepped_with, tagged,
};

fn attach(sim: &Sim) -> Guest {
    Guest::attach(sim.function(0), false, Wish::default())
}

#[test]
fn a_reset_ends_in_three_steps_and_leaves_the_address_of_the_eeprom() {
    for kind in KINDS {
        for bit in [RST, 1 << 3] {
            let sim = stepped(kind);
            let a = attach(&sim);
            a.bar.store32(0x5400, 0);
            a.bar.store32(0x5404, 0);
            a.bar.store32(0x5080, 1 << 9);
            a.bar.store32(CTRL, bit);
            assert_eq!(a.bar.load32(CTRL), bit, "{kind:?}");
            assert_eq!(a.bar.load32(CTRL), 0);
            assert_eq!(a.bar.load32(0x1_0010) & 1 << 9, 0, "EEC.ARD");
            assert_eq!(a.bar.load32(0x1_0010) & 1 << 9, 1 << 9);
            assert_eq!(a.bar.load32(0x2f00) & 8, 0, "RDRXCTL.DMAIDONE");
            assert_eq!(a.bar.load32(0x2f00) & 8, 8);
            let [b0, b1, b2, b3, b4, b5] = MAC_A;
            assert_eq!(a.bar.load32(0x5400), u32::from_le_bytes([b0, b1, b2, b3]));
            assert_eq!(a.bar.load32(0x5404), u32::from_le_bytes([b4, b5, 0, 0x80]));
            assert_eq!(
                a.bar.load32(0xa200),
                a.bar.load32(0x5400),
                "the same register"
            );
            assert_eq!(a.bar.load32(0x5080), 0);
            assert_clean(&sim);
        }
    }
}

#[test]
fn a_link_reset_takes_the_link_down_and_a_plain_one_does_not() {
    let sim = stepped(Kind::I82599);
    let mut a = attach(&sim);
    assert_eq!(a.bar.load32(LINKS) & 0x7000_0000, 0x7000_0000, "10 Gbit/s");
    a.reset(&|| ());
    assert_eq!(a.bar.load32(LINKS) & LINK_UP, LINK_UP);
    a.bar.store32(CTRL, 1 << 3);
    a.until(CTRL, 1 << 3, 0);
    assert_eq!(a.bar.load32(LINKS), 0);
    sim.settle();
    assert_eq!(a.bar.load32(LINKS) & LINK_UP, LINK_UP);
    sim.set_link(false);
    sim.settle();
    assert_eq!(a.bar.load32(LINKS) & LINK_UP, 0);
}

#[test]
fn a_link_that_starts_again_is_down_for_a_while_and_says_so_twice() {
    let sim = stepped(Kind::I82599);
    let a = attach(&sim);
    let autoc = a.bar.load32(0x42a0);
    assert_eq!(autoc >> 13 & 7, 3, "10G over one lane");
    a.bar.load32(0x800);
    a.bar.store32(0x42a0, autoc ^ 2 << 13 | 1 << 12);
    assert_ne!(a.bar.load32(0x42b0) & 0xf_0000, 0, "ANLP1: on its way");
    a.bar.store32(0x42a0, autoc | 1 << 12);
    assert_eq!(a.bar.load32(0x42a0), autoc, "the restart bit clears itself");
    assert_eq!(a.bar.load32(LINKS), 0);
    assert_eq!(a.bar.load32(0x800) & 1 << 20, 1 << 20, "EICR.LSC");
    sim.settle();
    assert_eq!(a.bar.load32(LINKS) & LINK_UP, LINK_UP);
    assert_eq!(a.bar.load32(0x808) & 1 << 20, 1 << 20, "EICS shows it too");
    assert_eq!(a.bar.load32(0x800) & 1 << 20, 1 << 20);
    assert_eq!(a.bar.load32(0x800), 0);
}

#[test]
fn without_a_module_or_its_laser_there_is_no_link() {
    let empty = IxgbeOptions {
        module: Module::Absent,
        ..options(Kind::I82599, MAC_A)
    };
    let sim = stepped_with(&empty, &options(Kind::I82599, MAC_B));
    let a = attach(&sim);
    assert_eq!(a.bar.load32(LINKS), 0);
    assert_eq!(a.bar.load32(0x20) & 4, 0, "no module");
    let b = Guest::attach(sim.function(1), false, Wish::default());
    assert_eq!(b.bar.load32(0x20) & 4, 4);
    b.bar.store32(0x20, 1 << 3);
    assert_eq!(b.bar.load32(LINKS), 0);
    b.bar.store32(0x20, 0);
    sim.settle();
    assert_eq!(b.bar.load32(LINKS) & LINK_UP, LINK_UP);
}

#[test]
fn mastership_of_the_bus_ends_when_asked_to() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    assert_eq!(a.bar.load32(8) & 1 << 19, 1 << 19);
    a.bar.store32(CTRL, 1 << 2);
    assert_eq!(a.bar.load32(8) & 1 << 19, 0);
    assert!(a.send(&frame(0, 64)));
    sim.settle();
    assert_eq!(b.receive().len(), 0);
    a.bar.store32(CTRL, 0);
    sim.settle();
    assert_eq!(b.receive().len(), 1);
}

#[test]
fn configuration_space_says_which_device_it_is() {
    for (kind, id, len) in [
        (Kind::I82599, 0x10fb, 0x8_0000),
        (Kind::X540, 0x1528, 0x20_0000),
        (Kind::X550, 0x1563, 0x20_0000),
    ] {
        let sim = stepped(kind);
        let function = sim.function(0);
        assert_eq!((function.config16(0), function.config16(2)), (0x8086, id));
        assert_eq!(function.bar(0).unwrap().len(), len);
        assert_eq!(function.bar(4).unwrap().len(), 0x4000);
        assert!(function.bar(1).is_err());
    }
}

#[test]
fn statistics_tell_the_truth_and_are_cleared_by_being_read() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    let sizes = [60, 61, 124, 252, 508, 1020, 1514];
    for (n, size) in (0..).zip(sizes) {
        let mut sent = frame(n, size);
        if n == 1 {
            sent[..6].fill(0xff);
        }
        assert!(a.send(&sent));
        sim.settle();
        assert_eq!(b.receive(), [sent]);
    }
    let octets: u32 = sizes
        .iter()
        .map(|&size| u32::try_from(size).unwrap() + 4)
        .sum();
    for (guest, good, bytes, classes, broad) in [
        (&a, 0x4080, 0x4090, 0x40d8, 0x40f4),
        (&b, 0x4074, 0x4088, 0x405c, 0x4078),
    ] {
        assert_eq!(guest.bar.load32(good), 7);
        assert_eq!(guest.bar.load32(bytes), octets);
        assert_eq!(guest.bar.load32(bytes + 4), 0);
        assert_eq!(guest.bar.load32(bytes), 0, "gone with the upper half");
        let classes: Vec<_> = (0..6).map(|n| guest.bar.load32(classes + 4 * n)).collect();
        assert_eq!(classes, [1, 1, 1, 1, 1, 2]);
        assert_eq!(guest.bar.load32(broad), 1);
        assert_eq!(guest.bar.load32(good), 0);
    }
    assert_eq!(b.bar.load32(0x1030), 7, "QPRC");
    assert_eq!(b.bar.load32(0x1034), octets - 7 * 4, "QBRC: as in memory");
    assert_eq!(b.bar.load32(0x1038), 0);
    assert_eq!(a.bar.load32(0x8680), 7, "QPTC");
    assert_eq!(a.bar.load32(0x6030), 0, "the same counter");
    assert_eq!(a.bar.load32(0x8700), octets - 7 * 4, "QBTC");
    assert_clean(&sim);
}

#[test]
fn queues_count_in_the_set_that_they_are_led_to() {
    let wish = Wish {
        queues: 4,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish);
    a.bar.store32(0x8600, 0x0302_0100);
    b.bar.store32(0x2300, 0x0302_010f);
    for n in 0..4 {
        for _ in 0..=n {
            assert!(a.send_on(n, &frame(1, 64)));
        }
    }
    sim.settle();
    // Without RSS all come in on queue 0, whose ring has room for seven.
    assert_eq!(b.receive().len(), 7);
    for n in 0..4 {
        assert_eq!(a.bar.load32(0x8680 + 4 * n), n + 1);
    }
    assert_eq!(b.bar.load32(0x1030 + 0x40 * 15), 7);
    assert_eq!(b.bar.load32(0x1430 + 0x40 * 15), 3, "QPRDC");
    assert_eq!(b.bar.load32(0x1030), 0);
    assert_clean(&sim);
}

#[test]
fn a_tag_is_cut_out_and_reported_where_asked_for() {
    for strip in [false, true] {
        let wish = Wish {
            strip,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(Kind::I82599, &wish);
        for n in 0..25 {
            let plain = frame(n, 100);
            assert!(a.send(&tagged(&plain, 0x6005)));
            sim.settle();
            let received = b.receive_on(0).remove(0);
            if strip {
                assert_eq!((received.bytes, received.tag), (plain, 0x6005));
                assert_eq!(received.status & 8, 8, "VP");
            } else {
                assert_eq!(received.bytes, tagged(&plain, 0x6005));
                assert_eq!((received.tag, received.status & 8), (0, 0));
            }
        }
        assert_eq!(b.bar.load32(0x4088), 25 * 108, "with tag and FCS");
        assert_clean(&sim);
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<u16>>);

impl InterruptSink for Heard {
    fn message(&self, vector: u16) {
        self.0.lock().unwrap().push(vector);
    }
    fn line(&self, _high: bool) {}
}

#[test]
fn vectors_are_sent_for_queues_and_for_the_link() {
    let mut device = Ixgbe::new("a", &options(Kind::I82599, MAC_A));
    let heard = Arc::new(Heard::default());
    device.connect_interrupts(heard.clone());
    let heard = || std::mem::take(&mut *heard.0.lock().unwrap());
    let put = |device: &mut Ixgbe, at, value| device.bar_write(0, at, 4, value);
    device.config_write(4, 2, 6);
    // Queue 1 to vector 5, the rest to vector 63.
    put(&mut device, 0x900, 0x85 << 16);
    put(&mut device, 0xa00, 0xbf << 8);
    put(&mut device, 0x810, 0xffff);
    put(&mut device, 0xaa0, 1 << 5);
    put(&mut device, 0x880, 1 << 20);
    assert_eq!(heard(), [0; 0]);
    device.set_link(LinkReport {
        up: true,
        speed_bps: 10_000_000_000,
    });
    while device.poll() {}
    assert_eq!(heard(), [63]);
    put(&mut device, 0xa90, 1 << 5);
    assert_eq!(heard(), [5]);
    assert_eq!(device.bar_read(0, 0x800, 4), 1 << 20);
    assert_eq!(device.objections().all(), [""; 0]);
    assert_eq!(device.counters().read().interrupts, 2);
}

#[test]
fn a_frame_that_arrives_interrupts_its_queue() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    for guest in [&a, &b] {
        guest.bar.store32(0x900, 0x8180);
        guest.bar.store32(0x810, 0xffff);
        guest.bar.store32(0x898, 1 << 30 | 1 << 4);
        guest.bar.store32(0xad0, u32::MAX);
        guest.bar.store32(0xaa0, 3);
    }
    assert!(a.send(&frame(0, 64)));
    sim.settle();
    assert_eq!(sim.counters(1).interrupts, 1);
    assert_eq!(sim.counters(0).interrupts, 1, "sent");
    assert_eq!(b.bar.load32(0xaa0), 2, "masked by being sent");
    assert!(a.send(&frame(1, 64)));
    sim.settle();
    assert_eq!(sim.counters(1).interrupts, 1);
    b.bar.store32(0xaa0, 1);
    assert_eq!(sim.counters(1).interrupts, 2, "it had waited");
    assert_eq!(b.receive().len(), 2);
    assert_clean(&sim);
}

#[test]
fn what_is_sent_in_loopback_comes_back_and_meets_no_wire() {
    let sim = Sim::stepped(
        Ixgbe::boxed("a", &options(Kind::I82599, MAC_A)),
        Ixgbe::boxed("b", &options(Kind::I82599, MAC_B)),
        WireOptions::default(),
    );
    sim.set_link(false);
    let (mut a, _b) = crate::guest::open_both(&sim, &Wish::default());
    let control = a.bar.load32(0x4240);
    a.bar.store32(0x4240, control | 1 << 15);
    a.bar.store32(0x5080, 1 << 9 | 1 << 10);
    for n in 0..30 {
        assert!(a.send(&frame(n, 200)));
        sim.step();
        sim.step();
        assert_eq!(a.receive(), [frame(n, 200)]);
    }
    assert_eq!(a.bar.load32(0x4080), 30, "GPTC");
    assert_eq!(a.bar.load32(0x4074), 30, "GPRC");
    assert_eq!(sim.counters(0).tx_frames, 0, "none on the wire");
    assert_clean(&sim);
}

#[test]
fn x550s_firmware_reads_words_for_its_driver() {
    let sim = stepped(Kind::X550);
    let a = attach(&sim);
    assert_eq!(a.bar.load32(0x1_5f00) & 1, 1, "HICR.EN");
    a.bar.store32(0x1_5800, 0xff00_0031);
    a.bar.store32(0x1_5804, (0x3fu32 * 2).swap_bytes());
    a.bar.store32(0x1_5808, u32::from(2u16.swap_bytes()));
    a.bar.store32(0x1_5f00, 3);
    assert_eq!(a.bar.load32(0x1_5f00) & 6, 4, "done, and valid");
    let word = a.bar.load32(0x1_580c) & 0xffff;
    a.bar.store32(0x1_0014, 0x3f << 2 | 1);
    assert_eq!(a.bar.load32(0x1_0014) >> 16, word, "as EERD has it");
    assert_clean(&sim);
}

/// Writes a register and reads it back, as Linux's self-test does (`ethtool -t`).
#[track_caller]
fn patterns(a: &Guest, register: u32, writes: u32, mask: u32) {
    let before = a.bar.load32(register);
    for pattern in [0x5a5a_5a5a, 0xa5a5_a5a5, 0, u32::MAX] {
        a.bar.store32(register, pattern & writes);
        let seen = a.bar.load32(register);
        assert_eq!(seen, pattern & writes & mask, "{register:#x} {pattern:#x}");
    }
    a.bar.store32(register, before);
}

#[test]
fn what_a_self_test_writes_reads_back_as_on_the_hardware() {
    let sim = stepped(Kind::I82599);
    let mut a = attach(&sim);
    a.reset(&|| ());
    let status = a.bar.load32(8);
    a.bar.store32(8, 0x7fff_f30f);
    assert_eq!(a.bar.load32(8), status, "STATUS is read-only");
    for register in [0x3220, 0x3260] {
        patterns(&a, register, 0x8007_fff0, 0x8007_fff0);
    }
    for register in [0x3008, 0x3200] {
        patterns(&a, register, u32::MAX, u32::MAX);
    }
    for n in 0..128 {
        patterns(&a, 0x5200 + 4 * n, u32::MAX, u32::MAX);
    }
    for n in 0..16 {
        patterns(&a, 0x5400 + 8 * n, u32::MAX, u32::MAX);
        patterns(&a, 0x5404 + 8 * n, 0x800c_ffff, 0x8001_ffff);
    }
    assert_clean(&sim);
    for n in 0..4 {
        patterns(&a, 0x1000 + 0x40 * n, 0xffff_ff80, 0xffff_ff80);
        patterns(&a, 0x1004 + 0x40 * n, u32::MAX, u32::MAX);
        patterns(&a, 0x1008 + 0x40 * n, 0xf_ffff, 0xf_ff80);
        patterns(&a, 0x6000 + 0x40 * n, u32::MAX, 0xffff_ff80);
        patterns(&a, 0x6008 + 0x40 * n, 0xf_ff80, 0xf_ff80);
        // Rings that nobody else would enable; they are objected to, and the tails are kept.
        a.bar.store32(0x1028 + 0x40 * n, 1 << 25);
        patterns(&a, 0x1018 + 0x40 * n, 0xffff, 0xffff);
        a.bar.store32(0x1028 + 0x40 * n, 0);
    }
}

#[test]
fn a_semaphore_is_given_back_while_an_x540_resets() {
    const SEMAPHORE: u32 = 0x1_0140;
    const SYNC: u32 = 0x1_0160;
    for kind in [Kind::X540, Kind::X550] {
        let sim = stepped(kind);
        let a = attach(&sim);
        assert_eq!(a.bar.load32(SEMAPHORE) & 1, 0, "SMBI is taken");
        assert_eq!(a.bar.load32(SYNC), 0, "and so is REGSMP");
        a.bar.store32(SYNC, 1 << 31 | 2);
        a.bar.store32(CTRL, RST);
        // As Linux's ixgbe does it, without waiting for the reset's end.
        assert_eq!(a.bar.load32(SYNC), 1 << 31 | 2, "what is held stays held");
        a.bar.store32(SYNC, 1 << 31);
        a.bar.store32(SYNC, 0);
        a.bar.store32(SEMAPHORE, 0);
        assert_eq!(a.bar.load32(SEMAPHORE) & 1, 0, "free again");
        assert_eq!(a.bar.load32(CTRL), RST, "the reset goes on meanwhile");
        assert_clean(&sim);
    }
}
