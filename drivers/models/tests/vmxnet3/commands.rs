//! Registers, commands, events, filters, counters.

use hw::{Bar, Function};
use models::vmxnet3::{Vmxnet3Options, register_map};

use crate::guest::{
    ACTIVATE, AT_ECR, AT_FEATURES, AT_INFO, AT_INTR_CTRL, AT_MF_LEN, AT_MF_PA, AT_RX_MODE,
    AT_VLANS, CMD, ECR, Guest, ICR, LINK, MAC_FILTERS, MACH, MACL, ORDINARY, QUIESCE, RESET,
    RX_MODE, STATS, UVRS, VLAN_FILTERS, VRRS, Wish, all_is_well, frame, rig, stepped,
};

/// The device's permanent address, as the default options have it.
const OWN: [u8; 6] = [0, 0x0c, 0x29, 0x12, 0x34, 0x56];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 7];

fn to(mac: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = frame(3, len);
    frame[..6].copy_from_slice(&mac);
    frame
}

fn ordinary() -> Wish {
    Wish {
        mode: ORDINARY,
        ..Wish::default()
    }
}

/// Which of these frames arrive.
fn arrive(sim: &models::Sim, a: &mut Guest, b: &mut Guest, frames: &[Vec<u8>]) -> Vec<bool> {
    let arrives = |frame: &Vec<u8>| {
        assert!(a.send(frame));
        sim.settle();
        let got = b.receive();
        assert!(got.iter().all(|got| got == frame));
        got.len() == 1
    };
    frames.iter().map(arrives).collect()
}

#[test]
fn the_device_says_what_it_is() {
    let sim = stepped(&Vmxnet3Options::default());
    let function = sim.function(0);
    let ids = [0, 2, 0x2c, 0x2e].map(|at| function.config16(at));
    assert_eq!(ids, [0x15ad, 0x07b0, 0x15ad, 0x07b0]);
    assert_eq!(function.config32(8) >> 16, 0x0200, "an Ethernet controller");
    let caps: Vec<u8> = hw::function::capabilities(&function)
        .map(|(id, _)| id)
        .collect();
    assert_eq!(caps, [0x05, 0x11]);
    let vd = function.bar(1).unwrap();
    assert_eq!((vd.load32(VRRS), vd.load32(UVRS)), (0x7f, 1));
    assert_eq!((vd.load32(MACL), vd.load32(MACH)), (0x1229_0c00, 0x5634));
    let older = Vmxnet3Options {
        revision: 3,
        ..Vmxnet3Options::default()
    };
    let vd = stepped(&older).function(0).bar(1).unwrap();
    assert_eq!(vd.load32(VRRS), 7);
    assert!(sim.objections().is_empty());
}

#[test]
fn capabilities_that_are_not_offered_stay_off() {
    const DCR: u32 = 0x48;
    let sim = stepped(&Vmxnet3Options::default());
    let vd = sim.function(0).bar(1).unwrap();
    vd.store32(VRRS, 1 << 6);
    vd.store32(DCR, 0xfc | vd.load32(DCR));
    vd.store32(CMD, 0xf00d_0012);
    assert_eq!(
        vd.load32(CMD),
        vd.load32(DCR),
        "what is offered, and no more"
    );
    assert!(sim.objections().is_empty(), "{:?}", sim.objections());
}

#[test]
fn questions_are_answered_by_the_read_after_the_write() {
    let (sim, a, _b) = rig(&Vmxnet3Options::default(), &Wish::default());
    assert_eq!(a.command(LINK), 10_000 << 16 | 1);
    assert_eq!(a.command(0xf00d_0003), 0x1229_0c00);
    assert_eq!(a.command(0xf00d_0004), 0x5634);
    assert_eq!(a.command(0xf00d_0005), 0x07b0);
    assert_eq!(a.command(0xf00d_0008), 0, "any interrupt, any mask");
    assert_eq!(a.command(0xf00d_000a), 128);
    assert_eq!(a.vd.load32(CMD), 128, "the answer stays");
    sim.set_link(false);
    sim.step();
    assert_eq!(a.command(LINK), 10_000 << 16);
    all_is_well(&sim);
}

#[test]
fn newer_revisions_answer_more() {
    let wish = |revision| Wish {
        revision,
        ..Wish::default()
    };
    let (sim, a, _b) = rig(&Vmxnet3Options::default(), &wish(6));
    assert_eq!(a.command(0xf00d_000f), 16 << 8 | 8);
    all_is_well(&sim);
    let options = Vmxnet3Options {
        large_bar: true,
        ..Vmxnet3Options::default()
    };
    let sim = stepped(&options);
    let mut a = Guest::lay_out(sim.function(0), wish(7));
    let mut b = Guest::open(sim.function(1), wish(7));
    assert_eq!(a.vd.load32(0x48), 1 << 16 | 1);
    a.vd.store32(0x48, 1 << 16);
    assert_eq!(a.command(0xf00d_0012), 1 << 16);
    assert_eq!(a.activate(), 0);
    assert!(a.tx[0].post(&[&frame(1, 60)], 0));
    a.pt.store32(0x1000, a.tx[0].ring.next);
    sim.settle();
    assert_eq!(b.receive(), [frame(1, 60)]);
    all_is_well(&sim);
}

#[test]
fn udp_is_hashed_when_asked_for() {
    let (sim, a, _b) = rig(&Vmxnet3Options::default(), &Wish::default());
    assert_eq!(a.command(0xf00d_000c), 3, "TCP over both");
    a.set(AT_INFO, 0x3f);
    assert_eq!(a.command(0xcafe_0010), 0);
    assert_eq!(a.command(0xf00d_000c), 15, "no ESP");
    all_is_well(&sim);
}

#[test]
fn modes_decide_what_is_received() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &ordinary());
    let frames = [OWN, GROUP, [0xff; 6], [2, 7, 7, 7, 7, 7]].map(|mac| to(mac, 80));
    for (mode, expected) in [
        (7, [true, false, true, false]),
        (0, [false; 4]),
        (1, [true, false, false, false]),
        (4 | 8, [false, true, true, false]),
        (0x10, [true; 4]),
        (7, [true, false, true, false]),
    ] {
        b.set(AT_RX_MODE, mode);
        assert_eq!(b.command(RX_MODE), 0);
        assert_eq!(arrive(&sim, &mut a, &mut b, &frames), expected, "{mode:#x}");
    }
    let counts = sim.counters(1);
    assert_eq!((counts.rx_filtered, counts.rx_frames), (13, 11));
    all_is_well(&sim);
}

#[test]
fn the_multicast_table_is_read_when_the_driver_says_so() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &ordinary());
    let other = [1, 0, 0x5e, 0, 0, 8];
    let frames = [GROUP, other].map(|mac| to(mac, 80));
    for (table, expected) in [
        (vec![GROUP], [true, false]),
        (vec![other, GROUP], [true, true]),
        (vec![other], [false, true]),
        (vec![], [false, false]),
    ] {
        b.set_table(0, &table.concat());
        b.set64(AT_MF_PA, b.tables.iova().get());
        b.set(AT_MF_LEN, u32::try_from(table.len() * 6).unwrap());
        assert_eq!(b.command(MAC_FILTERS), 0);
        assert_eq!(arrive(&sim, &mut a, &mut b, &frames), expected);
    }
    all_is_well(&sim);
}

#[test]
fn vlans_are_read_when_the_driver_says_so() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &ordinary());
    let tagged = |id: u16| {
        let mut frame = to(OWN, 80);
        frame.splice(12..12, [&[0x81, 0][..], &id.to_be_bytes()].concat());
        frame
    };
    let frames = [tagged(1), tagged(35), tagged(4094), to(OWN, 80)];
    for n in 0..128 {
        b.set(AT_VLANS + 4 * n, 0);
    }
    assert_eq!(arrive(&sim, &mut a, &mut b, &frames), [true; 4], "not yet");
    b.command(VLAN_FILTERS);
    assert_eq!(
        arrive(&sim, &mut a, &mut b, &frames),
        [false, false, false, true]
    );
    b.set(AT_VLANS + 4, 1 << 3);
    b.set(AT_VLANS + 4 * 127, 1 << 30);
    b.command(VLAN_FILTERS);
    assert_eq!(
        arrive(&sim, &mut a, &mut b, &frames),
        [false, true, true, true]
    );
    all_is_well(&sim);
}

#[test]
fn another_address_holds_once_both_halves_are_written() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &ordinary());
    let frames = [OWN, [2, 4, 6, 8, 10, 12]].map(|mac| to(mac, 80));
    b.vd.store32(MACL, 0x0806_0402);
    assert_eq!(arrive(&sim, &mut a, &mut b, &frames), [true, false]);
    b.vd.store32(MACH, 0x0c0a);
    assert_eq!(arrive(&sim, &mut a, &mut b, &frames), [false, true]);
    assert_eq!(b.command(0xf00d_0003), 0x1229_0c00, "the permanent one");
    all_is_well(&sim);
}

#[test]
fn activation_gives_the_permanent_address_back_where_the_device_is_like_that() {
    for resets in [true, false] {
        let options = Vmxnet3Options {
            activation_resets_mac: resets,
            ..Vmxnet3Options::default()
        };
        let sim = stepped(&options);
        let a = Guest::lay_out(sim.function(0), ordinary());
        a.vd.store32(MACL, 0x0806_0402);
        a.vd.store32(MACH, 0x0c0a);
        assert_eq!(a.activate(), 0);
        let expected = if resets { 0x1229_0c00 } else { 0x0806_0402 };
        assert_eq!(a.vd.load32(MACL), expected);
    }
}

#[test]
fn counters_are_exact_by_kind_and_begin_anew_with_each_activation() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    let mut expected = [0; 10];
    for n in 0..90usize {
        let kind = [OWN, GROUP, [0xff; 6]][n % 3];
        let len = 60 + n * 11;
        assert!(a.send(&to(kind, len)));
        sim.settle();
        assert_eq!(b.receive().len(), 1);
        expected[2 + 2 * (n % 3)] += 1;
        expected[3 + 2 * (n % 3)] += len as u64;
    }
    let stats =
        |guest: &Guest, queue| -> Vec<u64> { (0..10).map(|n| guest.stat(queue, n)).collect() };
    assert_eq!(stats(&a, 0), [0; 10], "not before they are asked for");
    a.command(STATS);
    b.command(STATS);
    assert_eq!(stats(&a, 0), expected);
    assert_eq!(stats(&b, 1), expected);
    assert_eq!(a.command(QUIESCE), 0);
    a.command(STATS);
    assert_eq!(stats(&a, 0), expected, "nobody writes them any more");
    all_is_well(&sim);
}

#[test]
fn a_device_stops_and_starts_again_with_fresh_rings() {
    let sim = stepped(&Vmxnet3Options::default());
    for round in 0..10u64 {
        let mut a = Guest::open(sim.function(0), Wish::default());
        let mut b = Guest::open(sim.function(1), Wish::default());
        for n in 0..40 + round {
            assert!(a.send(&frame(n, 64)));
            sim.settle();
            assert_eq!(b.receive(), [frame(n, 64)]);
        }
        for end in [&a, &b] {
            assert_eq!(end.command(QUIESCE), 0);
            assert_eq!(end.command(RESET), 0);
        }
        sim.settle();
    }
    all_is_well(&sim);
}

#[test]
fn a_quiet_device_touches_no_memory() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    assert_eq!(b.command(QUIESCE), 0);
    assert!(a.send(&frame(1, 64)));
    sim.settle();
    assert_eq!(b.receive().len(), 0);
    assert_eq!(sim.counters(1).rx_not_ready, 1);
    drop(b);
    assert!(a.send(&frame(1, 64)));
    sim.settle();
    all_is_well(&sim);
}

#[test]
fn features_may_change_while_the_device_is_active() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    let tagged = [&frame(1, 60)[..12], &[0x81, 0, 0, 5], &frame(1, 60)[12..]].concat();
    for (features, expected) in [(4, frame(1, 60)), (0, tagged.clone())] {
        b.set64(AT_FEATURES, features);
        assert_eq!(b.command(0xcafe_0009), 0);
        assert!(a.send(&tagged));
        sim.settle();
        assert_eq!(b.receive(), [expected]);
    }
    all_is_well(&sim);
}

#[test]
fn a_link_that_changes_is_an_event_until_it_is_acknowledged() {
    let (sim, a, _b) = rig(&Vmxnet3Options::default(), &Wish::default());
    assert_eq!(a.get(AT_ECR), 0);
    sim.set_link(false);
    sim.step();
    assert_eq!(a.get(AT_ECR), 4);
    a.vd.store32(ECR, 3);
    assert_eq!(a.get(AT_ECR), 4);
    a.vd.store32(ECR, 4);
    assert_eq!(a.get(AT_ECR), 0);
    sim.set_link(true);
    sim.step();
    assert_eq!(a.get(AT_ECR), 4);
    all_is_well(&sim);
}

#[test]
fn interrupts_are_sent_unless_masked_and_shown_in_icr() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    assert_eq!(b.pt.load32(0), 1, "masked at first");
    assert!(a.send(&frame(1, 64)));
    sim.settle();
    assert_eq!(sim.counters(1).interrupts, 0);
    b.pt.store32(0, 0);
    assert_eq!(sim.counters(1).interrupts, 0, "all are off");
    b.set(AT_INTR_CTRL, 0);
    b.pt.store32(0, 0);
    assert_eq!(sim.counters(1).interrupts, 1, "it was pending");
    assert_eq!((b.vd.load32(ICR), b.vd.load32(ICR)), (1, 0));
    assert!(a.send(&frame(1, 64)));
    sim.settle();
    assert_eq!(sim.counters(1).interrupts, 2);
    b.pt.store32(0, 1);
    assert!(a.send(&frame(1, 64)));
    sim.settle();
    assert_eq!(sim.counters(1).interrupts, 2);
    assert_eq!(b.receive().len(), 3);
    all_is_well(&sim);
}

#[test]
fn a_reset_of_the_function_forgets_everything() {
    let (sim, a, _b) = rig(&Vmxnet3Options::default(), &Wish::default());
    a.vd.store32(MACL, 0x0806_0402);
    a.vd.store32(MACH, 0x0c0a);
    a.function.reset().unwrap();
    assert_eq!(a.function.config16(4), 2);
    assert_eq!(a.vd.load32(MACL), 0x1229_0c00);
    assert_eq!(a.command(ACTIVATE), 1);
    assert_eq!(
        sim.objections(),
        ["a: ACTIVATE_DEV: no revision was written to VRRS"]
    );
}

#[test]
fn the_map_names_every_register_once() {
    let [commands, doorbells] = register_map();
    let offsets: Vec<u32> = commands.iter().map(|register| register.offset).collect();
    assert_eq!(
        offsets,
        [0, 8, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38, 0x40, 0x48, 0x88]
    );
    let offsets: Vec<u32> = doorbells.iter().map(|register| register.offset).collect();
    assert_eq!(offsets, [0, 0x600, 0x800, 0xa00]);
}
