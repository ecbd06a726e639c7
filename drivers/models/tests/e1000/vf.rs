//! The virtual function, and the physical one behind its mailbox.

use hw::{Bar, Function};
use models::e1000::{E1000Options, Kind, PfOptions, VfMac};
use models::{Fault, Sim};

use crate::guest::{
    Guest, MAC_A, MAC_B, MAILBOX, STATUS, Wish, arriving, assert_clean, frame, options, tagged, to,
    vf_rig,
};

const OTHER: [u8; 6] = [2, 7, 7, 7, 7, 7];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0x21, 0x43];
const CTS: u32 = 1 << 29;
const NACK: u32 = 1 << 30;
const ACK: u32 = 1 << 31;

fn device(pf: PfOptions) -> E1000Options {
    E1000Options {
        pf,
        ..options(Kind::IgbVf, MAC_B)
    }
}

fn rig() -> (Sim, Guest, Guest, models::e1000::Pf) {
    vf_rig(&device(PfOptions::default()), &Wish::default())
}

fn words(mac: [u8; 6]) -> [u32; 2] {
    let [a, b, c, d, e, f] = mac;
    [
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, 0, 0]),
    ]
}

/// A message's answer.
#[track_caller]
fn answer(sim: &Sim, b: &mut Guest, message: &[u32]) -> u32 {
    let step = || {
        sim.step();
    };
    b.ask(message, &step).unwrap()[0]
}

fn hello(sim: &Sim, b: &mut Guest) -> [u32; 3] {
    b.bar.store32(0, 1 << 26);
    b.say_hello(&|| {
        sim.step();
    })
}

#[test]
fn a_reset_is_answered_with_the_address() {
    let (sim, _a, mut b, _pf) = rig();
    let [low, high] = words(MAC_B);
    assert_eq!(hello(&sim, &mut b), [1 | ACK, low, high]);
    assert_eq!(b.bar.load32(STATUS) & 0x83, 0x83, "up, 1000 Mbit/s");
    assert_clean(&sim);
}

#[test]
fn without_an_address_a_reset_is_refused_and_the_driver_chooses_one() {
    let unset = PfOptions {
        mac: VfMac::Unset,
        ..PfOptions::default()
    };
    let (sim, mut a, mut b, _pf) = vf_rig(&device(unset), &Wish::default());
    assert_eq!(hello(&sim, &mut b), [1 | NACK, 0, 0]);
    b.set_up();
    assert_eq!(arriving(&sim, &mut a, &mut b, &[to(OTHER)]), [false]);
    let [low, high] = words(OTHER);
    let got = answer(&sim, &mut b, &[2, low, high]);
    assert_eq!(got, 2 | CTS | ACK);
    assert_eq!(arriving(&sim, &mut a, &mut b, &[to(OTHER)]), [true]);
    assert_clean(&sim);
}

#[test]
fn an_address_that_the_administrator_set_stays() {
    let pinned = PfOptions {
        mac: VfMac::Pinned,
        ..PfOptions::default()
    };
    let (sim, mut a, mut b, pf) = vf_rig(&device(pinned), &Wish::default());
    let [low, high] = words(OTHER);
    for message in [[2, low, high], [2 | 2 << 16, low, high]] {
        let got = answer(&sim, &mut b, &message);
        assert_eq!(got, message[0] | CTS | NACK);
    }
    pf.set_mac(OTHER);
    sim.step();
    assert_eq!(hello(&sim, &mut b), [1 | ACK, low, high]);
    b.set_up();
    let got = arriving(&sim, &mut a, &mut b, &[to(OTHER), to(MAC_B)]);
    assert_eq!(got, [true, false]);
    assert_clean(&sim);
}

#[test]
fn nonsense_addresses_are_refused() {
    let (sim, _a, mut b, _pf) = rig();
    for mac in [[0; 6], GROUP, [0xff; 6]] {
        let [low, high] = words(mac);
        let got = answer(&sim, &mut b, &[2, low, high]);
        assert_eq!(got, 2 | CTS | NACK);
    }
    assert_clean(&sim);
}

#[test]
fn before_a_reset_and_for_what_is_unknown_there_is_a_refusal() {
    let (sim, _a, mut b, _pf) = rig();
    assert_eq!(answer(&sim, &mut b, &[7]), 7 | CTS | NACK);
    b.bar.store32(0, 1 << 26);
    sim.step();
    b.look_at_mailbox();
    b.seen = 0;
    assert_eq!(answer(&sim, &mut b, &[5, 1518]), 5 | NACK, "no CTS");
    assert_clean(&sim);
}

#[test]
fn further_addresses_are_added_until_there_is_no_room_and_cleared_at_once() {
    let few = PfOptions {
        mac_filters: 2,
        ..PfOptions::default()
    };
    let (sim, mut a, mut b, _pf) = vf_rig(&device(few), &Wish::default());
    let macs = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 1, 2], [2, 0, 0, 0, 1, 3]];
    let frames = macs.map(to).to_vec();
    let add = 2 | 2 << 16;
    for (n, mac) in macs.into_iter().enumerate() {
        let [low, high] = words(mac);
        let verdict = if n < 2 { ACK } else { NACK };
        let got = answer(&sim, &mut b, &[add, low, high]);
        assert_eq!(got, add | CTS | verdict);
    }
    let got = arriving(&sim, &mut a, &mut b, &frames);
    assert_eq!(got, [true, true, false]);
    let clear = 2 | 1 << 16;
    assert_eq!(answer(&sim, &mut b, &[clear, 0, 0]), clear | CTS | ACK);
    assert_eq!(arriving(&sim, &mut a, &mut b, &frames), [false; 3]);
    assert_clean(&sim);
}

#[test]
fn groups_come_by_hash_or_all_and_promiscuity_is_not_to_be_had() {
    let (sim, mut a, mut b, _pf) = rig();
    let frames = [to(GROUP), to(OTHER), to([0xff; 6])];
    let arrive = |a: &mut Guest, b: &mut Guest| arriving(&sim, a, b, &frames);
    assert_eq!(arrive(&mut a, &mut b), [false, false, true]);
    let one = 3 | 1 << 16;
    assert_eq!(answer(&sim, &mut b, &[one, 0x432]), one | CTS | ACK);
    assert_eq!(arrive(&mut a, &mut b), [true, false, true]);
    assert_eq!(answer(&sim, &mut b, &[3]), 3 | CTS | ACK);
    assert_eq!(arrive(&mut a, &mut b), [false, false, true]);
    let got = answer(&sim, &mut b, &[6 | 2 << 16]);
    assert_eq!(got, 6 | CTS | ACK, "the bit is taken out of the answer");
    assert_eq!(arrive(&mut a, &mut b), [true, false, true]);
    let unicast = 6 | 1 << 16;
    assert_eq!(answer(&sim, &mut b, &[unicast]), unicast | CTS | NACK);
    assert_eq!(arrive(&mut a, &mut b), [false, false, true]);
    assert_clean(&sim);
}

#[test]
fn vlans_are_joined_one_by_one_and_their_tags_cut_out() {
    let (sim, mut a, mut b, _pf) = rig();
    let plain = to(MAC_B);
    let tags = [0x6000, 100, 200].map(|tag| tagged(&plain, tag)).to_vec();
    let got = arriving(&sim, &mut a, &mut b, &tags);
    assert_eq!(got, [true, false, false], "priority tags alone");
    let add = 4 | 1 << 16;
    assert_eq!(answer(&sim, &mut b, &[add, 100]), add | CTS | ACK);
    assert!(a.send(&tags[1]));
    sim.settle();
    let received = b.receive_on(0).remove(0);
    assert_eq!((received.tag, received.bytes), (100, plain.clone()));
    assert_eq!(received.status >> 3 & 1, 1);
    assert_eq!(answer(&sim, &mut b, &[4, 100]), 4 | CTS | ACK);
    let got = arriving(&sim, &mut a, &mut b, &tags);
    assert_eq!(got, [true, false, false]);
    for vlan in 1..=32 {
        let verdict = if vlan <= 31 { ACK } else { NACK };
        let got = answer(&sim, &mut b, &[add, vlan]);
        assert_eq!(got, add | CTS | verdict, "VLAN {vlan}");
    }
    assert_eq!(arriving(&sim, &mut a, &mut b, &[plain]), [true]);
    assert_clean(&sim);
}

#[test]
fn a_port_vlan_is_nobodys_choice() {
    let (sim, mut a, mut b, pf) = rig();
    pf.set_vlan(42, 3);
    sim.step();
    let (plain, tag) = (to(MAC_B), 3 << 13 | 42);
    assert_eq!(answer(&sim, &mut b, &[4 | 1 << 16, 7]) & NACK, NACK);
    let frames = [plain.clone(), tagged(&plain, 42), tagged(&plain, 7)];
    let got = arriving(&sim, &mut a, &mut b, &frames);
    assert_eq!(got, [false, true, false]);
    let mut back = frame(1, 60);
    back[..12].copy_from_slice(&[MAC_A, MAC_B].concat());
    assert!(b.send(&back));
    sim.settle();
    assert_eq!(a.receive(), [tagged(&back, tag)]);
    pf.set_vlan(0, 0);
    sim.step();
    assert_eq!(arriving(&sim, &mut a, &mut b, &[plain]), [true]);
    assert_clean(&sim);
}

#[test]
fn long_frames_need_the_physical_functions_word() {
    let (sim, mut a, mut b, _pf) = rig();
    let frames = [1514, 1515, 4000, 9000].map(|len| frame(1, len)).to_vec();
    let got = arriving(&sim, &mut a, &mut b, &frames);
    assert_eq!(got, [true, false, false, false]);
    assert_eq!(answer(&sim, &mut b, &[5, 4004]), 5 | CTS | ACK);
    let got = arriving(&sim, &mut a, &mut b, &frames);
    assert_eq!(got, [true, true, true, false]);
    let longer = tagged(&frame(1, 4000), 0);
    assert_eq!(arriving(&sim, &mut a, &mut b, &[longer]), [false], "tag");
    assert_eq!(answer(&sim, &mut b, &[5, 20_000]), 5 | CTS | ACK);
    let got = arriving(&sim, &mut a, &mut b, &[frame(1, 9724), frame(1, 9725)]);
    assert_eq!(got, [true, false], "no more than the hardware takes");
    assert_clean(&sim);
}

#[test]
fn frames_with_foreign_addresses_or_vlans_are_not_sent() {
    let (sim, mut a, mut b, pf) = rig();
    let mut own = to(MAC_A);
    own[6..12].copy_from_slice(&MAC_B);
    let mut foreign = own.clone();
    foreign[6..12].copy_from_slice(&OTHER);
    let frames = [own.clone(), foreign, tagged(&own, 5)];
    let sent = |b: &mut Guest, a: &mut Guest| arriving(&sim, b, a, &frames);
    assert_eq!(sent(&mut b, &mut a), [true, false, false]);
    assert_eq!((pf.spoofed(), sim.counters(1).tx_errors), (2, 2));
    pf.set_spoof_check(false);
    sim.step();
    assert_eq!(sent(&mut b, &mut a), [true; 3]);
    pf.set_spoof_check(true);
    sim.step();
    let [low, high] = words(OTHER);
    answer(&sim, &mut b, &[2 | 2 << 16, low, high]);
    answer(&sim, &mut b, &[4 | 1 << 16, 5]);
    assert_eq!(sent(&mut b, &mut a), [true; 3]);
    assert_eq!(b.reap(0), 1, "dropped ones were completed all the same");
    assert_clean(&sim);
}

#[test]
fn statistics_run_free() {
    let (sim, mut a, mut b, _pf) = rig();
    for n in 0..20 {
        assert!(a.send(&frame(n, 60)));
        let mut back = to(MAC_A);
        back[6..12].copy_from_slice(&MAC_B);
        assert!(b.send(&back));
        sim.settle();
        assert_eq!((b.receive().len(), a.receive().len()), (1, 1));
    }
    let read = |at: u32| b.bar.load32(at);
    for _ in 0..2 {
        assert_eq!((read(0xf10), read(0xf18)), (20, 20 * 64));
        assert_eq!((read(0xf14), read(0xf34)), (20, 20 * 84));
        assert_eq!(read(0xf3c), 0, "no group");
    }
    assert_clean(&sim);
}

#[test]
fn a_reset_of_the_physical_function_takes_everything_along() {
    let (sim, mut a, mut b, pf) = rig();
    let plain = to(MAC_B);
    answer(&sim, &mut b, &[5, 9728]);
    pf.reset();
    sim.step();
    assert_eq!(b.bar.load32(STATUS) & 2, 0, "no link meanwhile");
    let seen = b.look_at_mailbox();
    assert_eq!(seen & 0xd0, 0x50, "a message, and a reset goes on");
    assert_eq!(b.bar.load32(b.rx[0].base + 8), 0, "no ring");
    assert!(a.send(&plain));
    sim.step();
    assert_eq!(sim.counters(1).rx_not_ready, 1);
    for _ in 0..5 {
        sim.step();
    }
    assert_eq!(b.hear().unwrap()[0], 0x100, "not clear to send");
    assert_eq!(b.bar.load32(MAILBOX) & 0xc0, 0, "RSTD was read above");
    assert_eq!(b.seen & 0x80, 0x80);
    b.seen = 0;
    assert_eq!(hello(&sim, &mut b)[0], 1 | ACK);
    b.set_up();
    let got = arriving(&sim, &mut a, &mut b, &[plain, frame(1, 4000)]);
    assert_eq!(
        got,
        [true, false],
        "and long frames must be asked for again"
    );
    assert_clean(&sim);
}

#[test]
fn a_physical_function_that_is_down_answers_nothing() {
    let (sim, _a, mut b, pf) = rig();
    pf.take_down();
    for _ in 0..10 {
        sim.step();
    }
    assert_eq!(b.look_at_mailbox() & 0x40, 0x40, "a reset without end");
    assert_eq!(b.bar.load32(STATUS) & 2, 0);
    b.seen = 0;
    assert!(b.tell(&[1]));
    for _ in 0..10 {
        sim.step();
    }
    assert_eq!(b.look_at_mailbox() & 0x20, 0);
    pf.bring_up();
    for _ in 0..10 {
        sim.step();
    }
    assert_eq!(hello(&sim, &mut b)[0], 1 | ACK);
    assert_clean(&sim);
}

#[test]
fn a_change_of_the_link_is_announced() {
    let (sim, _a, mut b, _pf) = rig();
    // The mailbox has vector 2, as Linux's igbvf sets it up.
    b.bar.store32(0x1740, 0x82);
    b.bar.store32(0x1524, 1 << 2);
    for up in [false, true] {
        let before = sim.counters(1).interrupts;
        sim.set_link(up);
        sim.step();
        assert_eq!(sim.counters(1).interrupts, before + 1);
        assert_eq!(b.bar.load32(0x1580), 1 << 2, "EICR, cleared by being read");
        assert_eq!(b.hear().unwrap()[0], 0x100 | CTS);
        assert_eq!(b.bar.load32(STATUS) >> 1 & 1 == 1, up);
    }
    assert_clean(&sim);
}

#[test]
fn a_mailbox_may_refuse_or_say_nothing() {
    let (sim, _a, mut b, _pf) = rig();
    let faults = sim.faults(1);
    faults.inject(Fault::CommandRefused, 1);
    assert_eq!(answer(&sim, &mut b, &[5, 1518]), 5 | CTS | NACK);
    faults.inject(Fault::CommandSilent, 1);
    assert!(b.tell(&[5, 1518]));
    for _ in 0..10 {
        sim.step();
    }
    assert_eq!(b.look_at_mailbox() & 0x30, 0);
    assert_eq!(answer(&sim, &mut b, &[5, 1518]), 5 | CTS | ACK);
    assert_eq!(sim.counters(1).commands, 3);
    assert_clean(&sim);
}

#[test]
fn a_reset_of_its_own_forgets_rings_and_what_was_asked_for() {
    let (sim, mut a, mut b, _pf) = rig();
    let [low, high] = words(OTHER);
    answer(&sim, &mut b, &[2, low, high]);
    answer(&sim, &mut b, &[4 | 1 << 16, 100]);
    answer(&sim, &mut b, &[6 | 2 << 16]);
    assert!(a.send(&to(OTHER)));
    sim.settle();
    assert_eq!(b.receive().len(), 1);
    let rx = b.rx[0].base;
    hello(&sim, &mut b);
    let left = [0x8, 0x10, 0x18, 0x28].map(|register| b.bar.load32(rx + register));
    assert_eq!((left[..3].to_vec(), left[3] >> 25 & 1), (vec![0; 3], 0));
    b.set_up();
    let frames = [to(OTHER), to(MAC_B), tagged(&to(MAC_B), 100), to(GROUP)];
    let got = arriving(&sim, &mut a, &mut b, &frames);
    assert_eq!(got, [false, true, false, false]);
    assert_clean(&sim);
}

#[test]
fn a_reset_may_never_end() {
    let (sim, _a, mut b, _pf) = rig();
    sim.faults(1).switch_on(Fault::StuckReset);
    b.bar.store32(0, 1 << 26);
    for _ in 0..20 {
        sim.step();
        assert_eq!(b.look_at_mailbox() & 0x40, 0x40);
    }
    sim.faults(1).clear(Fault::StuckReset);
    assert_eq!(hello(&sim, &mut b)[0], 1 | ACK);
    assert_clean(&sim);
}

#[test]
fn both_queues_send_and_frames_come_to_the_first_for_many_laps() {
    let wish = Wish {
        queues: 2,
        ..Wish::default()
    };
    let (sim, mut a, mut b, _pf) = vf_rig(&device(PfOptions::default()), &wish);
    for n in 0..40 {
        let sent = frame(n, 60 + usize::try_from(n).unwrap());
        assert!(a.send(&sent));
        let mut back = sent.clone();
        back[..12].copy_from_slice(&[MAC_A, MAC_B].concat());
        assert!(b.send_on(0, &back) && b.send_on(1, &back));
        sim.settle();
        assert_eq!(b.receive(), [sent]);
        assert_eq!(a.receive(), [back.clone(), back]);
    }
    for n in 0..7 {
        assert!(a.send(&frame(n, 60)));
    }
    sim.settle();
    assert!(a.send(&frame(7, 60)));
    sim.settle();
    assert_eq!(b.bar.load32(0x2830), 1, "RQDPC");
    assert_eq!(b.receive().len(), 7);
    b.function.reset().unwrap();
    assert!(a.send(&frame(9, 60)));
    sim.settle();
    assert_eq!(b.bar.load32(b.rx[0].base + 8), 0);
    assert_clean(&sim);
}
