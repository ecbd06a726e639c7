//! A virtual function, and the physical one beside it.

use hw::{Bar, Function};
use models::Sim;
use models::ixgbe::{Api, IxgbeVfOptions, Kind, Pf, PfOptions, VfMac};

use crate::guest::{
    EVERYONE, Guest, KINDS, LINK_UP, MAC_B, Wish, arriving, assert_clean, frame, low, tagged, to,
    vf_pair, vf_rig,
};

const STRANGER: [u8; 6] = [0x02, 9, 9, 9, 9, 9];
const GROUP: [u8; 6] = [0x01, 0, 0x5e, 0x11, 0x22, 0x33];
const OTHER_GROUP: [u8; 6] = [0x33, 0x33, 0, 0, 0xab, 0xcd];

/// Messages.
const RESET: u32 = 1;
const SET_MAC: u32 = 2;
const MULTICAST: u32 = 3;
const VLAN: u32 = 4;
const LPE: u32 = 5;
const MACVLAN: u32 = 6;
const NEGOTIATE: u32 = 8;
const QUEUES: u32 = 9;
const RETA: u32 = 10;
const RSS_KEY: u32 = 11;
const XCAST: u32 = 12;
const LINK_STATE: u32 = 16;
const ADD: u32 = 1 << 16;

fn of(kind: Kind, pf: PfOptions) -> IxgbeVfOptions {
    IxgbeVfOptions {
        pf,
        ..IxgbeVfOptions::of(kind, MAC_B)
    }
}

fn with(pf: PfOptions) -> IxgbeVfOptions {
    of(Kind::I82599, pf)
}

fn words(mac: [u8; 6]) -> [u32; 2] {
    let [a, b, c, d, e, f] = mac;
    [
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, 0, 0]),
    ]
}

fn address_of(answer: [u32; 4]) -> [u8; 6] {
    let [a, b, c, d] = answer[1].to_le_bytes();
    let [e, f, ..] = answer[2].to_le_bytes();
    [a, b, c, d, e, f]
}

/// A virtual function whose driver has said hello, and no more.
fn greeted(options: &IxgbeVfOptions) -> (Sim, Guest, Guest, Pf, [u32; 4]) {
    let (sim, a, pf) = vf_pair(options);
    let mut b = Guest::attach(sim.function(1), true, Wish::default());
    b.reset(&|| {
        sim.step();
    });
    let answer = b.say_hello(&|| {
        sim.step();
    });
    (sim, a, b, pf, answer)
}

/// Orders, each with whether it is granted.
#[track_caller]
fn ask_all(sim: &Sim, guest: &mut Guest, orders: &[(&[u32], bool)]) {
    for (words, granted) in orders {
        let got = guest.order(words, &|| {
            sim.step();
        });
        assert_eq!(got, *granted, "{words:x?}");
    }
}

#[test]
fn configuration_space_and_hello_say_who_it_is() {
    for (kind, id) in [
        (Kind::I82599, 0x10ed),
        (Kind::X540, 0x1515),
        (Kind::X550, 0x1565),
    ] {
        let (sim, _a, b, _pf, answer) = greeted(&of(kind, PfOptions::default()));
        assert_eq!(b.function.config16(2), id);
        assert_eq!(b.function.bar(0).unwrap().len(), 0x4000);
        assert!(b.function.bar(3).is_ok() && b.function.bar(4).is_err());
        assert_eq!(answer[0], RESET | 1 << 31);
        assert_eq!((address_of(answer), answer[3]), (MAC_B, 0));
        assert_clean(&sim);
    }
}

#[test]
fn without_an_address_from_outside_hello_is_refused_and_one_may_be_chosen() {
    let pf = PfOptions {
        mac: VfMac::Unset,
        ..PfOptions::default()
    };
    let (sim, mut a, mut b, _pf, answer) = greeted(&with(pf));
    assert_eq!(answer[..3], [RESET | 1 << 30, 0, 0]);
    let [low, high] = words(STRANGER);
    let [bad, _] = words([1, 0, 0, 0, 0, 0]);
    ask_all(
        &sim,
        &mut b,
        &[
            (&[SET_MAC, bad, 0], false),
            (&[SET_MAC, 0, 0], false),
            (&[SET_MAC, low, high], true),
            (&[NEGOTIATE, 2], true),
            (&[LPE, 1518], true),
        ],
    );
    b.set_up();
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &[to(STRANGER), to(MAC_B)]),
        [true, false]
    );
    assert_clean(&sim);
}

#[test]
fn nothing_but_hello_is_heard_before_hello() {
    let (sim, _a, _pf) = vf_pair(&with(PfOptions::default()));
    let mut b = Guest::attach(sim.function(1), true, Wish::default());
    let answer = b.ask(&[LPE, 1518], &|| {
        sim.step();
    });
    assert_eq!(
        answer.unwrap()[0],
        LPE | 1 << 30,
        "refused, and not clear to send"
    );
}

#[test]
fn frames_pass_both_ways_for_many_laps_and_are_counted() {
    for kind in KINDS {
        let wish = Wish {
            strip: true,
            ..Wish::default()
        };
        let (sim, mut a, mut b, _pf) = vf_rig(&of(kind, PfOptions::default()), &wish);
        let mut octets = 0;
        for n in 0..30 {
            let len = 60 + usize::try_from(n).unwrap();
            octets += n + 64;
            assert!(a.send(&frame(n, len)));
            let mut back = frame(n, len);
            back[..12].copy_from_slice(&[crate::guest::MAC_A, MAC_B].concat());
            assert!(b.send(&back));
            sim.settle();
            assert_eq!(b.receive(), [frame(n, len)], "{kind:?}");
            assert_eq!(a.receive(), [back]);
        }
        for (frames, bytes) in [(0x101c, 0x1020), (0x201c, 0x2020)] {
            assert_eq!(b.bar.load32(frames), 30);
            assert_eq!(b.bar.load32(frames), 30, "not cleared by being read");
            assert_eq!(b.bar.load32(bytes), low(octets));
            assert_eq!(b.bar.load32(bytes + 4), 0);
        }
        assert_clean(&sim);
    }
}

#[test]
fn versions_are_negotiated_down_from_what_the_physical_function_knows() {
    for (newest, codes) in [
        (
            Api::V14,
            [false, false, false, true, true, true, true, true],
        ),
        (
            Api::V12,
            [false, false, false, false, false, true, true, true],
        ),
        (Api::V15, [false, false, true, true, true, true, true, true]),
        // Linux leaves one out.
        (Api::V17, [true, true, false, true, true, true, true, true]),
    ] {
        let pf = PfOptions {
            newest_api: newest,
            ..PfOptions::default()
        };
        let (sim, _a, mut b, _pf, _) = greeted(&with(pf));
        ask_all(
            &sim,
            &mut b,
            &[(&[NEGOTIATE, 1], false), (&[NEGOTIATE, 9], false)],
        );
        for (code, granted) in [8, 7, 6, 5, 4, 3, 2, 0].into_iter().zip(codes) {
            ask_all(&sim, &mut b, &[(&[NEGOTIATE, code], granted)]);
        }
        assert_clean(&sim);
    }
}

#[test]
fn queues_keys_and_link_state_can_be_asked_for_with_the_version_that_knows_them() {
    let pf = PfOptions {
        rss_query: true,
        vlan: 7,
        ..PfOptions::default()
    };
    let (sim, _a, mut b, _pf, _) = greeted(&with(pf));
    let step = || {
        sim.step();
    };
    for words in [[QUEUES], [RETA], [RSS_KEY], [LINK_STATE]] {
        ask_all(&sim, &mut b, &[(&words, false)]);
    }
    ask_all(&sim, &mut b, &[(&[NEGOTIATE, 2], true)]);
    assert_eq!(b.ask(&[QUEUES], &step).unwrap()[1..], [4, 4, 1]);
    ask_all(&sim, &mut b, &[(&[RETA], false), (&[NEGOTIATE, 3], true)]);
    assert_eq!(b.ask(&[RETA], &step).unwrap()[1..], [0xe4e4_e4e4; 3]);
    assert_eq!(b.ask(&[RSS_KEY], &step).unwrap()[1], 0xda56_5a6d);
    assert_eq!(b.ask(&[LINK_STATE, 0], &step).unwrap()[1], 1);
    let (sim, _a, mut b, _pf, _) = greeted(&with(PfOptions::default()));
    ask_all(&sim, &mut b, &[(&[NEGOTIATE, 3], true), (&[RETA], false)]);
    assert_clean(&sim);
}

#[test]
fn features_are_negotiated_with_the_latest_version_alone() {
    const FEATURES: u32 = 0x12;
    let pf = PfOptions {
        newest_api: Api::V17,
        mtu: 9000,
        ..PfOptions::default()
    };
    let (sim, _a, mut b, _pf, _) = greeted(&of(Kind::I82599, pf));
    let step = || {
        sim.step();
    };
    ask_all(
        &sim,
        &mut b,
        &[(&[NEGOTIATE, 7], true), (&[FEATURES, 3], false)],
    );
    ask_all(&sim, &mut b, &[(&[NEGOTIATE, 8], true)]);
    let granted = b.ask(&[FEATURES, 3], &step).unwrap()[1];
    assert_eq!(granted, 1, "IPsec, and the mailbox stays as it was");
    // Long frames are borne as with 1.4; the link's speed is for later controllers.
    ask_all(&sim, &mut b, &[(&[LPE, 9018], true), (&[0x11], false)]);
    assert_clean(&sim);
}

#[test]
fn with_the_latest_rules_the_sender_keeps_the_mailbox_until_it_was_heard() {
    let pf = PfOptions {
        newest_api: Api::V15,
        ..PfOptions::default()
    };
    let (sim, _a, mut b, _pf, _) = greeted(&with(pf));
    ask_all(&sim, &mut b, &[(&[NEGOTIATE, 6], true)]);
    b.bar.store32(0x2fc, 4);
    b.bar.store32(0x200, LPE);
    b.bar.store32(0x204, 1518);
    b.bar.store32(0x2fc, 5);
    sim.settle();
    assert_eq!(
        b.look_at_mailbox() & 0x30,
        0x20,
        "heard, and the answer waits"
    );
    b.bar.store32(0x2fc, 0);
    sim.settle();
    assert_eq!(b.look_at_mailbox() & 0x10, 0x10);
    assert_eq!(
        b.bar.load32(0x200),
        LPE | 0xa000_0000,
        "read without being held"
    );
    b.bar.store32(0x2fc, 2);
    assert_clean(&sim);
    // With the older ones nobody hears it.
    let (sim, _a, mut b, _pf, _) = greeted(&with(PfOptions::default()));
    b.seen = 0;
    b.bar.store32(0x2fc, 4);
    b.bar.store32(0x200, LPE);
    b.bar.store32(0x2fc, 5);
    sim.settle();
    assert_eq!(b.look_at_mailbox() & 0x20, 0);
    assert!(sim.objections()[0].contains("still held (VFU)"));
}

#[test]
fn after_a_reset_of_the_physical_function_the_later_rules_hold_until_the_virtual_one_resets_too() {
    let pf = PfOptions {
        newest_api: Api::V15,
        ..PfOptions::default()
    };
    let (sim, _a, mut b, pf, _) = greeted(&with(pf));
    ask_all(&sim, &mut b, &[(&[NEGOTIATE, 6], true)]);
    pf.reset();
    sim.settle();
    assert_eq!(b.bar.load32(0x200), 0x100, "read without being held");
    b.bar.store32(0x2fc, 2);
    b.bar.store32(0x2fc, 4);
    b.bar.store32(0x200, LPE);
    b.bar.store32(0x2fc, 5);
    sim.settle();
    assert_eq!(b.look_at_mailbox() & 0x20, 0x20, "heard");
    b.bar.store32(0x2fc, 0);
    sim.settle();
    assert_eq!(b.bar.load32(0x200), LPE | 0x4000_0000, "and refused");
    assert_clean(&sim);
    b.bar.store32(0, 1 << 26);
    sim.settle();
    b.bar.load32(0x200);
    assert!(sim.objections()[0].contains("without being held"));
}

/// What the physical function answers, and whether frames come in afterwards.
fn jumbo(kind: Kind, mtu: u32, api: u32, longest: u32) -> (bool, bool) {
    let pf = PfOptions {
        mtu,
        newest_api: Api::V15,
        ..PfOptions::default()
    };
    let (sim, mut a, mut b, _pf, _) = greeted(&of(kind, pf));
    ask_all(&sim, &mut b, &[(&[NEGOTIATE, api], true)]);
    let granted = b.order(&[LPE, longest], &|| {
        sim.step();
    });
    b.set_up();
    assert_eq!(
        b.bar.load32(0x10) & LINK_UP,
        LINK_UP,
        "the link shows nothing of it"
    );
    let arrived = arriving(&sim, &mut a, &mut b, &[to(MAC_B)]);
    assert_clean(&sim);
    (granted, arrived[0])
}

#[test]
fn an_82599_lets_jumbo_frames_be_only_where_its_physical_function_has_them() {
    const GRANTED: (bool, bool) = (true, true);
    const DEAD: (bool, bool) = (false, false);
    for (mtu, api, longest, expected) in [
        // The usual frames on both sides.
        (1500, 0, 1518, GRANTED),
        (1500, 2, 1518, GRANTED),
        (1500, 5, 1518, GRANTED),
        // More than the physical function has: refused, and nothing comes in any more.
        (1500, 2, 1519, DEAD),
        (1500, 5, 9728, DEAD),
        (1500, 0, 1522, DEAD),
        // It has them, and the version says that the virtual function can bear it.
        (9000, 2, 9018, GRANTED),
        (9000, 5, 1518, GRANTED),
        (1501, 3, 9728, GRANTED),
        // The first version and those that Linux does not list cannot.
        (9000, 0, 1518, DEAD),
        (9000, 0, 9018, DEAD),
        (9000, 6, 1518, DEAD),
    ] {
        let got = jumbo(Kind::I82599, mtu, api, longest);
        assert_eq!(got, expected, "MTU {mtu}, API {api}, {longest}");
    }
    for kind in [Kind::X540, Kind::X550] {
        assert_eq!(jumbo(kind, 1500, 0, 9728), GRANTED, "no further rule");
        assert_eq!(jumbo(kind, 9000, 0, 1518), GRANTED);
    }
    for kind in KINDS {
        // Out of every bound: refused, and what was stays.
        let before = kind != Kind::I82599;
        assert_eq!(jumbo(kind, 9000, 2, 67), (false, before));
        assert_eq!(jumbo(kind, 9000, 2, 9729), (false, before));
    }
}

#[test]
fn a_refused_length_can_be_mended_by_a_good_one() {
    let (sim, mut a, mut b, _pf) = vf_rig(&with(PfOptions::default()), &Wish::default());
    assert_eq!(arriving(&sim, &mut a, &mut b, &[to(MAC_B)]), [true]);
    ask_all(&sim, &mut b, &[(&[LPE, 9018], false)]);
    assert_eq!(arriving(&sim, &mut a, &mut b, &[to(MAC_B)]), [false]);
    assert_eq!(sim.counters(1).rx_not_ready, 1);
    ask_all(&sim, &mut b, &[(&[LPE, 1518], true)]);
    assert_eq!(arriving(&sim, &mut a, &mut b, &[to(MAC_B)]), [true]);
    assert_clean(&sim);
}

#[test]
fn the_longest_frame_grows_and_never_shrinks() {
    let (sim, mut a, mut b, _pf) = vf_rig(&of(Kind::X540, PfOptions::default()), &Wish::default());
    let frames = [frame(1, 1514), frame(1, 1515), frame(1, 3000)];
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &frames),
        [true, false, false]
    );
    ask_all(&sim, &mut b, &[(&[LPE, 3004], true), (&[LPE, 1518], true)]);
    assert_eq!(arriving(&sim, &mut a, &mut b, &frames), [true; 3]);
    assert_eq!(arriving(&sim, &mut a, &mut b, &[frame(1, 3001)]), [false]);
    assert_clean(&sim);
}

#[test]
fn a_pinned_address_or_vlan_is_not_the_virtual_functions_to_change() {
    let pf = PfOptions {
        mac: VfMac::Pinned,
        vlan: 9,
        qos: 3,
        ..PfOptions::default()
    };
    let (sim, mut a, mut b, handle) = vf_rig(&with(pf), &Wish::default());
    let ([low, high], [own_low, own_high]) = (words(STRANGER), words(MAC_B));
    ask_all(
        &sim,
        &mut b,
        &[
            (&[SET_MAC, low, high], false),
            (&[SET_MAC, own_low, own_high], true),
            (&[MACVLAN | ADD, low, high], false),
            (&[MACVLAN, 0, 0], true),
            (&[VLAN | ADD, 5], false),
        ],
    );
    let frames = [to(MAC_B), tagged(&to(MAC_B), 9), tagged(&to(MAC_B), 5)];
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &frames),
        [false, true, false]
    );
    let mut sent = frame(1, 80);
    sent[6..12].copy_from_slice(&MAC_B);
    assert!(b.send(&sent));
    sim.settle();
    assert_eq!(a.receive(), [tagged(&sent, 0x6009)]);
    handle.set_vlan(0, 0);
    sim.settle();
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &frames),
        [true, false, false]
    );
    assert_clean(&sim);
}

#[test]
fn a_port_vlans_tag_is_cut_out_and_hidden() {
    let pf = PfOptions {
        vlan: 9,
        ..PfOptions::default()
    };
    let wish = Wish {
        strip: true,
        ..Wish::default()
    };
    let (sim, mut a, mut b, _pf) = vf_rig(&with(pf), &wish);
    assert!(a.send(&tagged(&to(MAC_B), 9)));
    sim.settle();
    let received = b.receive_on(0).remove(0);
    assert_eq!((received.bytes, received.tag), (to(MAC_B), 0));
    assert_eq!(received.status & 8, 0, "no VP");
    assert_clean(&sim);
}

#[test]
fn further_addresses_groups_and_vlans_are_let_in_as_they_are_asked_for() {
    let (sim, mut a, mut b, _pf) = vf_rig(&with(PfOptions::default()), &Wish::default());
    let frames = [
        to(STRANGER),
        to(EVERYONE),
        to(GROUP),
        to(OTHER_GROUP),
        tagged(&to(MAC_B), 5),
        tagged(&to(MAC_B), 0x6000),
    ];
    let none = [false, true, false, false, false, true];
    assert_eq!(arriving(&sim, &mut a, &mut b, &frames), none);
    let [low, high] = words(STRANGER);
    let hash = u32::from(GROUP[5]) << 4 | u32::from(GROUP[4]) >> 4;
    ask_all(
        &sim,
        &mut b,
        &[
            (&[MACVLAN | ADD, low, high], true),
            (&[MULTICAST | ADD, hash], true),
            (&[VLAN | ADD, 5], true),
        ],
    );
    let all = [true, true, true, false, true, true];
    assert_eq!(arriving(&sim, &mut a, &mut b, &frames), all);
    ask_all(
        &sim,
        &mut b,
        &[
            (&[MACVLAN, 0, 0], true),
            (&[VLAN, 5], true),
            (&[VLAN, 0], true),
            (&[MULTICAST, 0], true),
        ],
    );
    let left = [false, true, true, false, false, true];
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &frames),
        left,
        "the shared table of groups only grows"
    );
    assert_clean(&sim);
}

#[test]
fn a_mode_is_granted_as_far_as_trust_and_hardware_go() {
    let trusted = PfOptions {
        trusted: true,
        ..PfOptions::default()
    };
    let promiscuous = PfOptions {
        promiscuous: true,
        ..trusted
    };
    let plain = PfOptions::default();
    for (kind, pf, api, mode, granted) in [
        (Kind::I82599, plain, 2, 1, None),
        (Kind::I82599, plain, 3, 1, Some(1)),
        (Kind::I82599, plain, 3, 2, Some(1)),
        (Kind::I82599, plain, 3, 3, None),
        (Kind::I82599, plain, 4, 3, Some(1)),
        (Kind::I82599, plain, 5, 4, None),
        (Kind::I82599, trusted, 4, 2, Some(2)),
        (Kind::I82599, promiscuous, 4, 3, None),
        (Kind::X540, trusted, 4, 3, None),
        (Kind::X540, promiscuous, 4, 3, Some(3)),
        (Kind::X550, promiscuous, 5, 0, Some(0)),
    ] {
        let (sim, mut a, mut b, _pf, _) = greeted(&of(kind, pf));
        ask_all(
            &sim,
            &mut b,
            &[(&[NEGOTIATE, api], true), (&[LPE, 1518], true)],
        );
        b.set_up();
        let answer = b.ask(&[XCAST, mode], &|| {
            sim.step();
        });
        let answer = answer.unwrap();
        let got = (answer[0] >> 31 == 1).then_some(answer[1]);
        assert_eq!(got, granted, "{kind:?} {pf:?} API {api} mode {mode}");
        let (groups, strangers) = (granted >= Some(2), granted == Some(3));
        let frames = [to(MAC_B), to(EVERYONE), to(GROUP), to(STRANGER)];
        assert_eq!(
            arriving(&sim, &mut a, &mut b, &frames),
            [true, true, groups, strangers]
        );
        assert_clean(&sim);
    }
}

#[test]
fn foreign_addresses_and_vlans_are_not_sent_and_counted_by_the_physical_function() {
    let (sim, mut a, mut b, pf) = vf_rig(&with(PfOptions::default()), &Wish::default());
    let from = |mac: [u8; 6]| {
        let mut sent = frame(1, 80);
        sent[6..12].copy_from_slice(&mac);
        sent
    };
    for (sent, arrives) in [
        (from(MAC_B), true),
        (from(STRANGER), false),
        (tagged(&from(MAC_B), 5), false),
    ] {
        assert!(b.send(&sent));
        sim.settle();
        assert_eq!(a.receive().len(), usize::from(arrives));
        assert_eq!(b.reap(0), 1, "its descriptor comes back in any case");
    }
    assert_eq!(pf.spoofed(), 2);
    pf.set_spoof_check(false);
    sim.settle();
    assert!(b.send(&from(STRANGER)));
    sim.settle();
    assert_eq!(a.receive().len(), 1);
    assert_clean(&sim);
}

#[test]
fn a_reset_of_the_physical_function_is_announced_and_forgets_everything() {
    let (sim, mut a, mut b, pf) = vf_rig(&with(PfOptions::default()), &Wish::default());
    pf.reset();
    sim.step();
    assert_eq!(b.look_at_mailbox() & 0x50, 0x50, "RSTI, and a message");
    assert_eq!(b.bar.load32(0x10), 0, "no link");
    sim.settle();
    let value = b.look_at_mailbox();
    assert_eq!(value & 0xc0, 0x80, "RSTD");
    let message = b.hear().unwrap()[0];
    assert_eq!(message, 0x100, "not clear to send");
    assert_eq!(
        b.bar.load32(0x1000 + 0x28) & 1 << 25,
        0,
        "its queues are off"
    );
    let answer = b.ask(&[LPE, 1518], &|| {
        sim.step();
    });
    assert_eq!(answer.unwrap()[0], LPE | 1 << 30);
    let step = || {
        sim.step();
    };
    b.reset(&step);
    b.say_hello(&step);
    ask_all(&sim, &mut b, &[(&[LPE, 1518], true)]);
    b.set_up();
    assert_eq!(arriving(&sim, &mut a, &mut b, &[to(MAC_B)]), [true]);
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn a_new_mtu_of_the_physical_function_resets_it_and_is_what_counts_then() {
    let (sim, mut a, mut b, pf) = vf_rig(&with(PfOptions::default()), &Wish::default());
    let step = || {
        sim.step();
    };
    ask_all(&sim, &mut b, &[(&[LPE, 9018], false)]);
    pf.set_mtu(9000);
    sim.settle();
    b.reset(&step);
    b.say_hello(&step);
    b.set_up();
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &[to(MAC_B)]),
        [false],
        "nothing before its length was agreed on"
    );
    ask_all(
        &sim,
        &mut b,
        &[(&[NEGOTIATE, 2], true), (&[LPE, 1518], true)],
    );
    let frames = [to(MAC_B), frame(1, 9014), frame(1, 9015)];
    assert_eq!(arriving(&sim, &mut a, &mut b, &frames), [true, true, false]);
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn a_physical_function_that_is_down_takes_link_and_mailbox_with_it() {
    let (sim, mut a, mut b, pf) = vf_rig(&with(PfOptions::default()), &Wish::default());
    pf.take_down();
    sim.settle();
    assert_eq!(b.bar.load32(0x10), 0);
    assert_eq!(b.look_at_mailbox() & 0x40, 0x40, "RSTI");
    assert!(a.send(&to(MAC_B)));
    sim.settle();
    assert_eq!(sim.counters(1).rx_not_ready, 1);
    pf.bring_up();
    sim.settle();
    assert_eq!(b.look_at_mailbox() & 0xc0, 0x80);
    assert_eq!(b.bar.load32(0x10) & LINK_UP, LINK_UP);
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn the_link_goes_with_the_wire_and_each_change_is_a_message() {
    let (sim, _a, mut b, pf) = vf_rig(&with(PfOptions::default()), &Wish::default());
    assert_eq!(b.bar.load32(0x10), 0x7000_0000);
    for up in [false, true] {
        sim.set_link(up);
        sim.step();
        assert_eq!(b.bar.load32(0x10) & LINK_UP != 0, up);
        assert_eq!(b.hear().unwrap()[0], 0x100 | 1 << 29, "clear to send");
    }
    ask_all(&sim, &mut b, &[(&[NEGOTIATE, 5], true)]);
    pf.set_link_enabled(false);
    sim.step();
    assert_eq!(b.hear().unwrap()[0], 0x100 | 1 << 29);
    let answer = b.ask(&[LINK_STATE, 0], &|| {
        sim.step();
    });
    assert_eq!(answer.unwrap()[1], 0);
    assert_clean(&sim);
}

#[test]
fn frames_are_spread_over_as_many_queues_as_the_virtual_function_says() {
    for kind in KINDS {
        for (bits, used) in [(0u32, 1), (1, 2), (2, 4)] {
            let wish = Wish {
                queues: 4,
                ..Wish::default()
            };
            let (sim, mut a, mut b, _pf) = vf_rig(&of(kind, PfOptions::default()), &wish);
            b.bar.store32(0x300, bits << 29);
            if kind == Kind::X550 {
                b.bar.store32(0x3000, 1 | 1 << 17);
                for n in 0..10 {
                    b.bar
                        .store32(0x3100 + 4 * n, 0x9e37_79b9u32.wrapping_mul(n + 1));
                }
                for n in 0..16 {
                    b.bar.store32(0x3200 + 4 * n, 0x0302_0100);
                }
            }
            let mut seen = [0; 4];
            for n in 0..60 {
                let sent = crate::queues::ipv4(6, [10, 0, n, 1], [10, 1, 1, 1], [1, 2]);
                assert!(a.send(&sent));
                sim.settle();
                for (queue, count) in seen.iter_mut().enumerate() {
                    *count += b.receive_on(queue).len();
                }
            }
            assert_eq!(seen.iter().sum::<usize>(), 60);
            let busy = seen.iter().filter(|&&count| count > 0).count();
            assert_eq!(busy, used, "{kind:?} {seen:?}");
            assert_clean(&sim);
        }
    }
}

#[test]
fn a_queue_beyond_its_pool_is_anothers() {
    let pf = PfOptions {
        queues: 2,
        ..PfOptions::default()
    };
    let (sim, _a, b, _pf) = vf_rig(&with(pf), &Wish::default());
    b.bar.store32(0x1080 + 8, 128);
    b.bar.store32(0x1080 + 0x28, 1 << 25);
    assert!(sim.objections()[0].contains("another pool's"));
    assert_eq!(b.bar.load32(0x1080 + 0x28) & 1 << 25, 0);
}

#[test]
fn messages_interrupt_where_asked_to() {
    let (sim, _a, b, _pf) = vf_rig(&with(PfOptions::default()), &Wish::default());
    b.bar.store32(0x140, 0x82);
    b.bar.store32(0x108, 4);
    let before = sim.counters(1).interrupts;
    sim.set_link(false);
    sim.step();
    assert_eq!(sim.counters(1).interrupts, before + 1);
    assert_eq!(b.bar.load32(0x100), 4, "VTEICR");
    assert_eq!(b.bar.load32(0x100), 0);
}
