//! Which frames are let in.

use hw::Bar;
use models::ixgbe::Kind;

use crate::guest::{
    BAM, EVERYONE, FCTRL, Guest, KINDS, MAC_B, MPE, UPE, Wish, arriving, assert_clean, frame, rig,
    tagged, to,
};

const GROUP: [u8; 6] = [0x01, 0, 0x5e, 0x11, 0x22, 0x33];
const OTHER_GROUP: [u8; 6] = [0x33, 0x33, 0, 0, 0xab, 0xcd];
const STRANGER: [u8; 6] = [0x02, 9, 9, 9, 9, 9];

fn kinds() -> [Vec<u8>; 5] {
    [MAC_B, EVERYONE, GROUP, OTHER_GROUP, STRANGER].map(to)
}

/// The bit of a table that an address has, with offset 0.
fn bit(mac: [u8; 6]) -> (u32, u32) {
    let hash = u32::from(mac[5]) << 4 | u32::from(mac[4]) >> 4;
    (hash / 32 * 4, 1 << (hash % 32))
}

fn set_address(guest: &Guest, n: u32, mac: [u8; 6], high: u32) {
    let at = if n < 16 { 0x5400 } else { 0xa200 } + 8 * n;
    let [a, b, c, d, e, f] = mac;
    guest.bar.store32(at, u32::from_le_bytes([a, b, c, d]));
    guest
        .bar
        .store32(at + 4, u32::from_le_bytes([e, f, 0, 0]) | high);
}

#[test]
fn only_what_was_asked_for_is_let_in() {
    for kind in KINDS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        for (control, expected) in [
            (0, [true, false, false, false, false]),
            (BAM, [true, true, false, false, false]),
            (MPE, [true, false, true, true, false]),
            (UPE, [true, false, false, false, true]),
            (BAM | MPE | UPE, [true; 5]),
        ] {
            b.bar.store32(FCTRL, control);
            assert_eq!(
                arriving(&sim, &mut a, &mut b, &kinds()),
                expected,
                "{control:#x}"
            );
        }
        assert_eq!(sim.counters(1).rx_filtered, 4 + 3 + 2 + 3);
        assert_clean(&sim);
    }
}

#[test]
fn further_addresses_count_once_they_are_valid() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    for n in [1, 15, 16, 127] {
        let mut mac = STRANGER;
        mac[5] = u8::try_from(n).unwrap();
        set_address(&b, n, mac, 0);
        assert_eq!(arriving(&sim, &mut a, &mut b, &[to(mac)]), [false]);
        set_address(&b, n, mac, 1 << 31);
        assert_eq!(arriving(&sim, &mut a, &mut b, &[to(mac)]), [true], "{n}");
        set_address(&b, n, mac, 0);
        assert_eq!(arriving(&sim, &mut a, &mut b, &[to(mac)]), [false]);
    }
    assert_clean(&sim);
}

#[test]
fn tables_of_groups_and_stations_work_by_twelve_bits_at_the_offset_asked_for() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    let (at, one) = bit(GROUP);
    b.bar.store32(0x5200 + at, one);
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &[to(GROUP)]),
        [false],
        "MFE is off"
    );
    b.bar.store32(0x5090, 1 << 2);
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &[to(GROUP), to(OTHER_GROUP)]),
        [true, false]
    );
    b.bar.store32(0x5090, 1 << 2 | 3);
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &[to(GROUP)]),
        [false],
        "other bits"
    );
    let low = u32::from(GROUP[5]) << 8 | u32::from(GROUP[4]);
    let hash = low & 0xfff;
    b.bar.store32(0x5200 + hash / 32 * 4, 1 << (hash % 32));
    assert!(a.send(&to(GROUP)));
    sim.settle();
    let received = b.receive_on(0).remove(0);
    assert_eq!(received.status & 1 << 7, 1 << 7, "PIF: not an exact one");
    b.bar.store32(0x5090, 1 << 2);
    let (at, one) = bit(STRANGER);
    b.bar.store32(0xf400 + at, one);
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &[to(STRANGER)]),
        [true],
        "UTA"
    );
    assert!(a.send(&to(MAC_B)));
    sim.settle();
    assert_eq!(b.receive_on(0)[0].status & 1 << 7, 0);
    assert_clean(&sim);
}

#[test]
fn vlans_are_let_in_by_their_id_where_the_filter_is_on() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    let frames = [
        frame(1, 80),
        tagged(&frame(1, 80), 0x6007),
        tagged(&frame(1, 80), 8),
    ];
    assert_eq!(arriving(&sim, &mut a, &mut b, &frames), [true; 3]);
    b.bar.store32(0x5088, 0x8100 | 1 << 30);
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &frames),
        [true, false, false]
    );
    b.bar.store32(0xa000, 1 << 7);
    assert_eq!(arriving(&sim, &mut a, &mut b, &frames), [true, true, false]);
    b.bar.store32(0x5088, 0x88a8 | 1 << 30);
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &frames),
        [true; 3],
        "no tags any more"
    );
    assert_clean(&sim);
}

#[test]
fn the_twelve_bits_are_those_that_the_offset_names() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    // Bits 47 to 36 of the address, 46 to 35, 45 to 34, 43 to 32 (its first byte has the low ones).
    let bits = u32::from(GROUP[5]) << 8 | u32::from(GROUP[4]);
    for (offset, shift) in [(0, 4), (1, 3), (2, 2), (3, 0)] {
        let hash = bits >> shift & 0xfff;
        let at = 0x5200 + hash / 32 * 4;
        b.bar.store32(0x5090, 1 << 2 | offset);
        assert_eq!(arriving(&sim, &mut a, &mut b, &[to(GROUP)]), [false]);
        b.bar.store32(at, 1 << (hash % 32));
        assert_eq!(
            arriving(&sim, &mut a, &mut b, &[to(GROUP)]),
            [true],
            "{offset}"
        );
        b.bar.store32(at, 0);
    }
    assert_clean(&sim);
}
