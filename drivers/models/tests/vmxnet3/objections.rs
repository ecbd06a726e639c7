//! What the device does not stand for, one thing at a time.

use std::sync::atomic::Ordering;

use hw::{Bar, Function};
use models::Fault;
use models::vmxnet3::{Notify, Vmxnet3Options};

use crate::guest::ring::{BODY, CQ, EOP};
use crate::guest::{
    ACTIVATE, AT_FEATURES, AT_INTERRUPTS, AT_MF_LEN, AT_MF_PA, AT_MTU, AT_RSS, AT_RX_MODE, DSAH,
    DSAL, ECR, Guest, MACH, QUEUE_STATUS, RSS, RXPROD, STATS, TXPROD, UVRS, VRRS, Wish, frame,
    half, rig, stepped,
};

const TX_GEN: u64 = 1 << 14;
const RX_GEN: u64 = 1 << 31;
const COMP_GEN: u64 = 1 << 63;

#[track_caller]
fn objects(sim: &models::Sim, what: &str) {
    let all = sim.objections();
    assert_eq!(all.len(), 1, "{what}: {all:?}");
    assert!(all[0].contains(what), "{what}: {all:?}");
}

/// Activation fails for a guest that `spoil` has changed, with a sentence that says `what`.
#[track_caller]
fn refuses_of(wish: Wish, what: &str, spoil: impl FnOnce(&Guest)) {
    let sim = stepped(&Vmxnet3Options::default());
    let guest = Guest::lay_out(sim.function(0), wish);
    spoil(&guest);
    assert_eq!(guest.activate(), 1, "{what}");
    objects(&sim, what);
}

#[track_caller]
fn refuses(what: &str, spoil: impl FnOnce(&Guest)) {
    refuses_of(Wish::default(), what, spoil);
}

#[test]
fn a_shared_area_that_breaks_a_rule_is_refused() {
    refuses("magic 0xbabefee2", |guest| guest.set(0, 0xbabe_fee2));
    refuses("vmxnet3RevSpt", |guest| guest.set(16, 2));
    refuses("uptVerSpt", |guest| guest.set(20, 0));
    refuses("uptFeatures 0x20", |guest| guest.set(AT_FEATURES, 0x20));
    refuses("MTU 59", |guest| guest.set(AT_MTU, 59));
    refuses("MTU 9001", |guest| guest.set(AT_MTU, 9001));
    refuses("receive mode 0x20", |guest| guest.set(AT_RX_MODE, 0x20));
    refuses("0 transmit and 1 receive", |guest| {
        guest.set(60, 1 | 1 << 24);
    });
    refuses("9 transmit and 1 receive", |guest| {
        guest.set(60, 1 | 9 << 16 | 1 << 24);
    });
    refuses("queueDescLen 256 instead of 512", |guest| {
        guest.set(52, 256);
    });
    refuses("queue descriptors at", |guest| {
        guest.set64(40, guest.queues.iova().get() + 64);
    });
    refuses("queue descriptors: DMA", |guest| guest.set64(40, 0x10_0000));
    refuses("26 interrupts", |guest| guest.set(AT_INTERRUPTS, 26 << 8));
    refuses("events on number 2", |guest| {
        guest.set(AT_INTERRUPTS, 2 << 8 | 2 << 16);
    });
    refuses("multicast table of 7", |guest| guest.set(AT_MF_LEN, 7));
    refuses("multicast table: DMA", |guest| {
        guest.set(AT_MF_LEN, 6);
        guest.set64(AT_MF_PA, 0x10_0000);
    });
    refuses("one station", |guest| {
        guest.set_table(0, &[2, 0, 0, 0, 0, 1]);
        guest.set(AT_MF_LEN, 6);
        guest.set64(AT_MF_PA, guest.tables.iova().get());
    });
}

#[test]
fn spreading_that_breaks_a_rule_is_refused() {
    let wish = Wish {
        features: RSS,
        rx: 2,
        table: vec![0, 1],
        ..Wish::default()
    };
    let refuses = |what, spoil: &dyn Fn(&Guest)| refuses_of(wish.clone(), what, spoil);
    refuses("version 2", &|guest| guest.set(AT_RSS, 2));
    refuses("175 bytes", &|guest| guest.set(AT_RSS + 4, 175));
    refuses("RSS: DMA", &|guest| guest.set64(AT_RSS + 8, 0x10_0000));
    refuses("queue 2 in the table", &|guest| {
        guest.set_table(1024 + 48, &[2]);
    });
}

#[test]
fn rings_that_break_a_rule_are_refused() {
    refuses("ring of 33 slots", |guest| guest.set_queue_word(0, 56, 33));
    refuses("ring of 0 slots", |guest| guest.set_queue_word(0, 56, 0));
    refuses("ring of 4128 slots", |guest| {
        guest.set_queue_word(0, 56, 4128);
    });
    refuses("first ring of 16", |guest| guest.set_queue_word(1, 56, 16));
    refuses("second ring of 48 slots", |guest| {
        guest.set_queue_word(1, 60, 48);
    });
    refuses("32 completions for 64", |guest| {
        guest.set_queue_word(1, 64, 32);
    });
    refuses("0 completions for 32", |guest| {
        guest.set_queue_word(0, 64, 0);
    });
    refuses("not on a boundary of 512", |guest| {
        let at = guest.queue_word(0, 16) + 256;
        guest.set_queue_word(0, 16, at);
    });
    refuses("ring at 0x0", |guest| {
        guest.set_queue_word(1, 24, 0);
        guest.set_queue_word(1, 28, 0);
    });
    refuses("completion ring: DMA", |guest| {
        guest.set_queue_word(0, 32, 0x10_0000);
        guest.set_queue_word(0, 36, 0);
    });
    refuses("interrupt 2, of 2", |guest| guest.set_queue_word(1, 72, 2));
    refuses("before ACTIVATE_DEV", |guest| {
        guest.tx[0].ring.words[31][1].store(TX_GEN.to_le(), Ordering::Relaxed);
    });
    refuses("completion ring is not zero", |guest| {
        let words = &guest.rx[0].completions.words;
        words[63][1].store(COMP_GEN.to_le(), Ordering::Relaxed);
    });
    refuses("all slots of its first ring are armed", |guest| {
        let words = &guest.rx[0].rings[0].ring.words;
        words[31][1].store((RX_GEN | 2048).to_le(), Ordering::Relaxed);
    });
}

#[test]
fn data_rings_that_break_a_rule_are_refused() {
    let wish = Wish {
        tx_data: 128,
        rx_data: 128,
        ..Wish::default()
    };
    let refuses = |what, spoil: &dyn Fn(&Guest)| refuses_of(wish.clone(), what, spoil);
    refuses("31 entries in the data ring of a ring of 32", &|guest| {
        guest.set_queue_word(0, 60, 31);
    });
    refuses("entries of 64 bytes", &|guest| {
        guest.set_queue_word(0, 72, 64 << 16);
    });
    refuses("entries of 160 bytes", &|guest| {
        guest.set_queue_word(1, 72, 160 << 16);
    });
    refuses("entries of 2112 bytes", &|guest| {
        guest.set_queue_word(1, 72, 2112 << 16);
    });
    refuses("is not mapped", &|guest| {
        guest.set_queue_word(1, 48, 0x10_0000);
        guest.set_queue_word(1, 52, 0);
    });
}

#[test]
fn revision_seven_wants_rings_of_a_power_of_two() {
    let wish = |revision| Wish {
        revision,
        tx_size: 96,
        ..Wish::default()
    };
    let sim = stepped(&Vmxnet3Options::default());
    assert_eq!(Guest::lay_out(sim.function(0), wish(6)).activate(), 0);
    assert_eq!(Guest::lay_out(sim.function(1), wish(7)).activate(), 1);
    objects(&sim, "ring of 96 slots");
}

#[test]
fn steps_left_out_before_activation_are_named() {
    let fresh = || {
        let sim = stepped(&Vmxnet3Options::default());
        let guest = Guest::lay_out(sim.function(0), Wish::default());
        (sim, guest)
    };
    let (sim, guest) = fresh();
    assert_eq!(guest.command(ACTIVATE), 1);
    objects(&sim, "DSAL and DSAH");
    let (sim, guest) = fresh();
    let at = guest.shared.iova().get();
    guest.vd.store32(DSAL, half(at, 0));
    guest.vd.store32(DSAH, half(at, 1));
    // The low half alone takes the address away until the high one comes.
    guest.vd.store32(DSAL, half(at, 0));
    assert_eq!(guest.command(ACTIVATE), 1);
    objects(&sim, "DSAL and DSAH");
    let (sim, guest) = fresh();
    guest.function.set_config16(4, 2);
    assert_eq!(guest.activate(), 1);
    objects(&sim, "bus mastering");
    let (sim, guest) = fresh();
    guest.vd.store32(DSAH, half(guest.shared.iova().get(), 1));
    objects(&sim, "DSAH written without DSAL");
    let (sim, guest) = fresh();
    guest.function.reset().unwrap();
    guest.function.set_config16(4, 6);
    guest.vd.store32(VRRS, 1);
    assert_eq!(guest.activate(), 1);
    objects(&sim, "UVRS");
    let (sim, guest) = fresh();
    guest.vd.store32(DSAL, 0x1000);
    guest.vd.store32(DSAH, 0);
    assert_eq!(guest.command(ACTIVATE), 1);
    objects(&sim, "shared area: DMA");
    let (sim, guest) = fresh();
    assert_eq!([guest.activate(), guest.command(ACTIVATE)], [0, 0]);
    objects(&sim, "the device is active");
}

#[test]
fn odd_writes_to_registers_are_named() {
    let after = |what: &str, act: &dyn Fn(&Guest)| {
        let (sim, a, _b) = rig(&Vmxnet3Options::default(), &Wish::default());
        act(&a);
        sim.settle();
        objects(&sim, what);
    };
    after("VRRS written while", &|a| a.vd.store32(VRRS, 1));
    after("2 written to UVRS", &|a| a.vd.store32(UVRS, 2));
    after("0x20 written to ECR", &|a| a.vd.store32(ECR, 0x20));
    after("address", &|a| a.vd.store32(MACH, 0x1_0000));
    after("to 0x44 of BAR 1", &|a| a.vd.store32(0x44, 1));
    after("read of 0x4c of BAR 1", &|a| {
        a.vd.load32(0x4c);
    });
    after("access of 2 bytes", &|a| a.vd.store16(0x20, 1));
    after("command 0xcafe000a", &|a| {
        a.command(0xcafe_000a);
    });
    after("of revision 6, with revision 4", &|a| {
        a.command(0xf00d_000f);
    });
    after("2 written to IMR 3", &|a| a.pt.store32(24, 2));
    after("of BAR 0", &|a| a.pt.store32(0x500, 1));
    after("TXPROD of queue 0: slot 32 of a ring of 32", &|a| {
        a.pt.store32(TXPROD, 32);
    });
    after("TXPROD of queue 1, which is not set up", &|a| {
        a.pt.store32(TXPROD + 8, 0);
    });
    after("RXPROD of queue 0: slot 40", &|a| a.pt.store32(RXPROD, 40));
    after("TXPROD written with 2 bytes", &|a| a.pt.store16(TXPROD, 1));
    after("TXPROD 5, and slot 0 was not handed over", &|a| {
        a.pt.store32(TXPROD, 5);
    });
}

#[test]
fn a_doorbell_before_activation_is_named() {
    let sim = stepped(&Vmxnet3Options::default());
    let guest = Guest::lay_out(sim.function(0), Wish::default());
    guest.ring_rx(0);
    let all = sim.objections();
    assert_eq!(all.len(), 2);
    assert!(all[0].contains("RXPROD of queue 0 before ACTIVATE_DEV"));
    let offered = Vmxnet3Options {
        revision: 2,
        ..Vmxnet3Options::default()
    };
    let sim = stepped(&offered);
    let vd = sim.function(0).bar(1).unwrap();
    for value in [4, 3, 0] {
        vd.store32(VRRS, value);
    }
    assert_eq!(sim.objections().len(), 3);
}

/// Posts slots as `post` says, rings, and expects the queue to stand still with this error.
#[track_caller]
fn stops(error: u32, what: &str, post: impl FnOnce(&mut Guest)) {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    post(&mut a);
    a.ring_tx(0);
    sim.settle();
    objects(&sim, what);
    assert_eq!(b.receive().len(), 0);
    assert_eq!(a.get(crate::guest::AT_ECR), 2, "TQERR");
    a.command(QUEUE_STATUS);
    assert_eq!(a.status(0), (1, error), "{what}");
    assert!(a.tx[0].post(&[&frame(1, 60)], 0));
    a.ring_tx(0);
    sim.settle();
    assert_eq!(b.receive().len(), 0, "it stands still");
}

#[test]
fn transmit_slots_that_break_a_rule_stop_the_queue() {
    let whole = 60 | EOP | CQ;
    stops(0x8000_0000, "lies in the frame that begins at 0", |a| {
        let at = a.tx[0].buffer(0);
        a.tx[0].post_raw(at, 60, true);
        a.tx[0].post_raw(at, 60, true);
    });
    stops(
        0x8000_0007,
        "slot 1 was not handed over with the first",
        |a| {
            let at = a.tx[0].buffer(0);
            a.tx[0].post_raw(at, 60, true);
            a.tx[0].post_raw(at, whole, false);
        },
    );
    stops(0x8000_0002, "more than 16 slots", |a| {
        let at = a.tx[0].buffer(0);
        for n in 0..17 {
            a.tx[0].post_raw(at, if n == 16 { whole } else { 60 }, true);
        }
    });
    for odd in [1 << 16, 1 << 17, 1 << 46, 1 << 15] {
        stops(0x8000_0003, "type or reserved bits", |a| {
            let at = a.tx[0].buffer(0);
            a.tx[0].post_raw(at, whole | odd, true);
        });
    }
}

#[test]
fn a_slot_that_is_handed_over_before_it_came_back_stops_the_queue() {
    let options = Vmxnet3Options {
        notify: Notify::Polls,
        ..Vmxnet3Options::default()
    };
    let (sim, mut a, _b) = rig(&options, &Wish::default());
    sim.faults(0).switch_on(Fault::LateCompletions);
    for n in 0..31 {
        assert!(a.tx[0].post(&[&frame(n, 60)], 0));
    }
    sim.step();
    assert!(sim.objections().is_empty());
    let at = a.tx[0].buffer(0);
    for _ in 0..2 {
        a.tx[0].post_raw(at, 60 | EOP | CQ, true);
    }
    sim.step();
    objects(&sim, "slot 0 was handed over before it came back");
    a.command(QUEUE_STATUS);
    assert_eq!(a.status(0), (1, 0x8000_0001));
}

/// Sends a frame that is wrong: it is named and counted, and the next one passes.
#[track_caller]
fn counts(wish: Wish, what: &str, post: impl Fn(&mut Guest)) {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    post(&mut a);
    a.ring_tx(0);
    sim.settle();
    objects(&sim, what);
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    assert_eq!(b.receive(), [frame(1, 60)], "{what}");
    a.command(STATS);
    assert_eq!((a.stat(0, 8), a.stat(0, 2)), (1, 1), "error, and one good");
    assert_eq!(sim.counters(0).tx_errors, 1);
    a.tx[0].reap();
    assert_eq!(a.tx[0].held, 0, "its slots came back");
}

#[test]
fn frames_that_cannot_be_sent_are_counted_and_completed() {
    let raw = |at: u64, word: u64| move |a: &mut Guest| a.tx[0].post_raw(at, word, true);
    let whole = EOP | CQ;
    counts(
        Wish::default(),
        "which is not mapped",
        raw(0x10_0000, 60 | whole),
    );
    let here = |word: u64| {
        move |a: &mut Guest| {
            let at = a.tx[0].buffer(0);
            a.tx[0].post_raw(at, word, true);
        }
    };
    counts(Wish::default(), "frame of 13 bytes", here(13 | whole));
    // A length of 0 says 16384.
    counts(Wish::default(), "frame of 16384 bytes", here(whole));
    counts(Wish::default(), "mode 1", here(60 | whole | 1 << 42));
    let csum = 2 << 42 | 34 << 32 | 59 << 18;
    counts(Wish::default(), "checksum at 59", here(60 | whole | csum));
}

#[test]
fn a_frame_in_another_slots_data_is_named() {
    let wish = Wish {
        tx_data: 128,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    let base = u64::from(a.queue_word(0, 28)) << 32 | u64::from(a.queue_word(0, 24));
    a.tx[0].post_raw(base + 128, 60 | EOP | CQ, true);
    a.ring_tx(0);
    sim.settle();
    objects(&sim, "slot 0: 60 bytes at byte 128 of the data ring");
    assert_eq!(b.receive().len(), 1);
}

/// Spoils a receive slot, and expects the queue to stand still with this error.
#[track_caller]
fn stops_receiving(error: u32, what: &str, ring: usize, address: Option<u64>, word: u64) {
    let wish = Wish {
        head: 128,
        sg: 4,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    let slot = &b.rx[0].rings[ring].ring.words[0];
    if let Some(address) = address {
        slot[0].store(address.to_le(), Ordering::Relaxed);
    }
    slot[1].store((word | RX_GEN).to_le(), Ordering::Release);
    assert!(a.send(&frame(1, 1000)));
    sim.settle();
    objects(&sim, what);
    assert_eq!(b.receive().len(), 0);
    assert_eq!(b.get(crate::guest::AT_ECR), 1, "RQERR");
    b.command(QUEUE_STATUS);
    assert_eq!(b.status(1), (1, error), "{what}");
    assert_eq!(sim.counters(1).rx_not_ready, 1);
    assert_eq!(sim.unaccounted(0), 0);
}

#[test]
fn receive_slots_that_break_a_rule_stop_the_queue() {
    stops_receiving(0x8000_0004, "buffer of 127 bytes", 0, None, 127);
    stops_receiving(0x8000_0004, "buffer of 0 bytes", 1, None, BODY);
    stops_receiving(0x8000_0003, "reserved bits", 0, None, 128 | 1 << 15);
    stops_receiving(0x8000_0003, "reserved bits", 0, None, 128 | 1 << 16);
    stops_receiving(0x8000_0003, "a head, where there are bodies", 1, None, 2048);
}

#[test]
fn a_receive_buffer_that_is_not_mapped_ends_in_an_error() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    let slot = &b.rx[0].rings[0].ring.words[0];
    slot[0].store(0x10_0000u64.to_le(), Ordering::Relaxed);
    assert!(a.send(&frame(1, 60)));
    assert!(a.send(&frame(2, 60)));
    sim.settle();
    objects(&sim, "receive queue 0: DMA of 60 bytes at 0x100000");
    let got = b.rx[0].receive();
    assert_eq!([got[0].is_error(), got[1].is_error()], [true, false]);
    assert_eq!(got[1].bytes, frame(2, 60));
    assert_eq!(sim.counters(1).rx_dma_fault, 1);
}

#[test]
fn rings_that_are_unmapped_while_in_use_are_named() {
    let (sim, a, b) = rig(&Vmxnet3Options::default(), &Wish::default());
    drop(b);
    sim.settle();
    // The model's own words keep the memory; the address is gone all the same.
    let mut a = a;
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    let all = sim.objections();
    assert!(
        all.iter().any(|sentence| sentence.contains("unmapped")),
        "{all:?}"
    );
    assert_eq!(sim.unaccounted(0), 0);
}

#[test]
fn a_slot_that_rxprod_names_and_nobody_armed_is_named() {
    let options = Vmxnet3Options {
        update_rx_prod: true,
        ..Vmxnet3Options::default()
    };
    let (sim, mut a, b) = rig(&options, &Wish::default());
    b.rx[0].rings[0].ring.words[0][1].store(2048u64.to_le(), Ordering::Release);
    b.ring_rx(0);
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    objects(&sim, "slot 0 of receive ring 0 lies before RXPROD 31");
}
