//! Which frames a device lets in.

use hw::Bar;
use models::e1000::Kind;
use models::{Sim, WireOptions};

use crate::guest::{
    ALL_MULTICAST, EVERYONE, Guest, LONG, MAC_B, PROMISCUOUS, RCTL, RECEIVE, VLAN_FILTER, Wish,
    arriving, assert_clean, frame, open_both, options, rig, tagged, to,
};

const PARTS: [Kind; 3] = [Kind::E1000, Kind::E1000e, Kind::Igb];
const OTHER: [u8; 6] = [2, 7, 7, 7, 7, 7];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0x21, 0x43];

fn frames() -> Vec<Vec<u8>> {
    [MAC_B, OTHER, GROUP, EVERYONE].map(to).to_vec()
}

#[track_caller]
fn expect(sim: &Sim, a: &mut Guest, b: &mut Guest, expected: [bool; 4]) {
    assert_eq!(arriving(sim, a, b, &frames()), expected);
}

#[test]
fn the_receive_control_says_who_is_let_in() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        let mut filtered = 0;
        for (modes, expected) in [
            (RECEIVE, [true, false, false, true]),
            (RECEIVE | PROMISCUOUS, [true, true, false, true]),
            (RECEIVE | ALL_MULTICAST, [true, false, true, true]),
            (RECEIVE & !(1 << 15), [true, false, false, false]),
            (
                RECEIVE | PROMISCUOUS | ALL_MULTICAST,
                [true, true, true, true],
            ),
        ] {
            b.bar.store32(RCTL, modes);
            expect(&sim, &mut a, &mut b, expected);
            filtered += expected.iter().filter(|passes| !**passes).count() as u64;
        }
        assert_eq!(sim.counters(1).rx_filtered, filtered, "{kind:?}");
        assert_clean(&sim);
    }
}

#[test]
fn further_addresses_are_let_in_as_far_as_the_table_goes() {
    for (kind, last) in [
        (Kind::E1000, 0x5478),
        (Kind::E1000e, 0x5478),
        (Kind::Igb, 0x5478),
        (Kind::Igb, 0x54e0),
        (Kind::Igb, 0x5518),
    ] {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        for (mac, low, high) in [
            (OTHER, 0x0707_0702, 0x8000_0707),
            (GROUP, 0x005e_0001, 0x8000_4321),
        ] {
            b.bar.store32(last, low);
            b.bar.store32(last + 4, high);
            assert_eq!(arriving(&sim, &mut a, &mut b, &[to(mac)]), [true]);
            b.bar.store32(last + 4, high & !(1 << 31));
            assert_eq!(arriving(&sim, &mut a, &mut b, &[to(mac)]), [false]);
        }
        assert_clean(&sim);
    }
}

#[test]
fn groups_are_let_in_by_the_hash_of_each_offset() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        // The last two bytes, 21 43, as a number: 0x4321, cut at four places.
        for (mo, hash) in [(0, 0x432), (1, 0x864), (2, 0x0c8), (3, 0x321)] {
            b.bar.store32(RCTL, RECEIVE | mo << 12);
            let register = 0x5200 + hash / 32 * 4;
            b.bar.store32(register, 1 << (hash % 32));
            expect(&sim, &mut a, &mut b, [true, false, true, true]);
            b.bar.store32(register, !(1 << (hash % 32)));
            expect(&sim, &mut a, &mut b, [true, false, false, true]);
            b.bar.store32(register, 0);
        }
        assert_clean(&sim);
    }
}

#[test]
fn only_the_vlans_of_the_table_are_let_in_once_the_filter_is_on() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        let plain = to(MAC_B);
        let frames = [1, 100, 0x6fff].map(|tag| tagged(&plain, tag)).to_vec();
        assert_eq!(arriving(&sim, &mut a, &mut b, &frames), [true; 3]);
        b.bar.store32(RCTL, RECEIVE | VLAN_FILTER);
        assert_eq!(arriving(&sim, &mut a, &mut b, &frames), [false; 3]);
        b.bar.store32(0x5600 + 100 / 32 * 4, 1 << (100 % 32));
        let expected = [false, true, false];
        assert_eq!(arriving(&sim, &mut a, &mut b, &frames), expected);
        b.bar.store32(0x5600 + 127 * 4, 1 << 31);
        let expected = [false, true, true];
        assert_eq!(arriving(&sim, &mut a, &mut b, &frames), expected);
        assert_eq!(arriving(&sim, &mut a, &mut b, &[plain]), [true]);
        assert_clean(&sim);
    }
}

#[test]
fn long_frames_need_to_be_allowed() {
    // Largest without, and with: bytes without FCS. The first two count on a tag.
    for (kind, short, long) in [
        (Kind::E1000, 1518, 16_124),
        (Kind::E1000e, 1518, 9230),
        (Kind::Igb, 1514, 9724),
    ] {
        let wish = Wish {
            buffer: if kind == Kind::Igb { 2048 } else { 16_384 },
            slots: 32,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(kind, &wish);
        let size = b.bar.load32(RCTL);
        let frames = |len: usize| [frame(1, len), frame(2, len + 1)].to_vec();
        let got = arriving(&sim, &mut a, &mut b, &frames(short));
        assert_eq!(got, [true, false], "{kind:?}");
        assert_eq!(sim.counters(1).rx_too_long, 1);
        assert_eq!(b.bar.load32(0x40ac), 1, "ROC");
        b.bar.store32(RCTL, size | LONG);
        let got = arriving(&sim, &mut a, &mut b, &[frame(3, long)]);
        assert_eq!(got, [true], "{kind:?}");
        assert_clean(&sim);
    }
}

#[test]
fn the_82576_allows_a_tag_and_has_a_limit_of_its_own() {
    let (sim, mut a, mut b) = rig(Kind::Igb, &Wish::default());
    let longest = tagged(&frame(1, 1514), 5);
    assert_eq!(arriving(&sim, &mut a, &mut b, &[longest]), [true]);
    b.bar.store32(RCTL, RECEIVE | LONG);
    b.bar.store32(0x5004, 2000);
    let frames = [frame(2, 1996), frame(3, 1997)];
    let got = arriving(&sim, &mut a, &mut b, &frames);
    assert_eq!(got, [true, false]);
    assert_clean(&sim);
}

#[test]
fn nothing_comes_in_before_the_receiver_is_on_and_damaged_frames_never() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        b.bar.store32(RCTL, RECEIVE & !2);
        assert_eq!(arriving(&sim, &mut a, &mut b, &[to(MAC_B)]), [false]);
        assert_eq!(sim.counters(1).rx_not_ready, 1);
        b.bar.store32(RCTL, RECEIVE);
        assert_eq!(arriving(&sim, &mut a, &mut b, &[to(MAC_B)]), [true]);
        assert_clean(&sim);
        let device = |mac| models::e1000::E1000::boxed("x", &options(kind, mac));
        let wire = WireOptions {
            bad_fcs: 1.0,
            ..WireOptions::default()
        };
        let sim = Sim::stepped(device(crate::guest::MAC_A), device(MAC_B), wire);
        let (mut a, mut b) = open_both(&sim, kind, &Wish::default());
        assert_eq!(arriving(&sim, &mut a, &mut b, &[to(MAC_B)]), [false]);
        assert_eq!(b.bar.load32(0x4000), 1, "CRCERRS");
        assert_clean(&sim);
    }
}
