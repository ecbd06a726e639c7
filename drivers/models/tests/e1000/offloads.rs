//! What the devices do to frames: checksums, tags.

use hw::Bar;
use models::e1000::Kind;

use crate::guest::{
    CTRL, DEXT, EOP, Guest, IFCS, LINK_UP, MAC_A, MAC_B, RS, STRIP, VLE, Wish, assert_clean, frame,
    rig, tagged, to,
};

const PARTS: [Kind; 3] = [Kind::E1000, Kind::E1000e, Kind::Igb];
/// Status of received checksums.
const UDPCS: u32 = 1 << 4;
const L4CS: u32 = 1 << 5;
const IPCS: u32 = 1 << 6;
const L4E: u32 = 1 << 29;
const IPE: u32 = 1 << 30;

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2);
    words
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum()
}

fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap()
}

/// An IPv4 frame with TCP or UDP: as software leaves it to the device, and as it must come out.
pub(crate) fn packet(tcp: bool, payload: usize) -> [Vec<u8>; 2] {
    let (header, field, protocol) = if tcp { (20, 16, 6) } else { (8, 6, 17) };
    let mut segment = vec![0; header];
    segment[..4].copy_from_slice(&[4, 1, 0, 12]);
    if tcp {
        segment[12] = 0x50;
    } else {
        let len = u16::try_from(header + payload).unwrap();
        segment[4..6].copy_from_slice(&len.to_be_bytes());
    }
    segment.extend((0..payload).map(|n| u8::try_from(n * 7 % 251).unwrap()));
    let total = u16::try_from(20 + segment.len()).unwrap();
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0x12, 0x34, 0, 0, 64, protocol, 0, 0]);
    ip.extend([16, 0, 0, 1, 48, 0, 0, 1]);
    let pseudo = sum(&ip[12..20]) + u32::from(protocol) + u32::try_from(segment.len()).unwrap();
    let ethernet = [&MAC_B[..], &MAC_A, &[8, 0]].concat();
    let mut begun = segment.clone();
    begun[field..field + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
    let left = [&ethernet[..], &ip, &begun].concat();
    let checksum = !fold(pseudo + sum(&segment));
    segment[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    let header_sum = !fold(sum(&ip));
    ip[10..12].copy_from_slice(&header_sum.to_be_bytes());
    [left, [&ethernet[..], &ip, &segment].concat()]
}

/// A context for an IPv4 packet behind 14 bytes of Ethernet.
fn context(kind: Kind, tcp: bool, vlan: u16) -> [u64; 2] {
    if kind == Kind::Igb {
        let lengths = 20 | 14 << 9 | u64::from(vlan) << 16;
        let command = 1 << 10 | u64::from(tcp) << 11 | 2 << 20 | DEXT;
        return [lengths, command];
    }
    let at = 34 + if tcp { 16 } else { 6 };
    let places = 14 | 24 << 8 | 33 << 16 | 34 << 32 | at << 40;
    [places, DEXT]
}

/// The command of a frame with both checksums asked for.
fn summed(guest: &Guest, len: usize) -> u64 {
    if guest.kind == Kind::Igb {
        guest.command(len) | 3 << 40
    } else {
        guest.command(len) | DEXT | 1 << 20 | 3 << 40
    }
}

#[test]
fn checksums_are_filled_in_where_a_context_says() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        for payload in 20..60 {
            for tcp in [false, true] {
                let [left, right] = packet(tcp, payload);
                a.context(0, context(kind, tcp, 0));
                let command = summed(&a, left.len());
                assert!(a.post(0, &left, command));
                a.ring_bell(0);
                sim.settle();
                assert_eq!(b.receive(), [right], "{kind:?} {payload}");
            }
        }
        assert_clean(&sim);
    }
}

#[test]
fn a_context_holds_until_the_next_one_and_the_82576_has_two() {
    let (sim, mut a, mut b) = rig(Kind::Igb, &Wish::default());
    a.context(0, context(Kind::Igb, false, 0));
    let [low, high] = context(Kind::Igb, true, 0);
    a.context(0, [low, high | 1 << 36]);
    a.ring_bell(0);
    for payload in 30..50 {
        for tcp in [true, false] {
            let [left, right] = packet(tcp, payload);
            let command = summed(&a, left.len()) | u64::from(tcp) << 36;
            assert!(a.post(0, &left, command));
            a.ring_bell(0);
            sim.settle();
            assert_eq!(b.receive(), [right], "{payload}");
        }
    }
    assert_clean(&sim);
}

#[test]
fn a_legacy_descriptor_inserts_one_checksum() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        let [mut left, right] = packet(false, 40);
        left[24..26].copy_from_slice(&right[24..26]);
        // CSS 34, CSO 40, IC.
        let plain = left.len() as u64 | EOP | IFCS | RS;
        let command = plain | 1 << 26 | 40 << 16 | 34 << 40;
        assert!(a.post(0, &left, command));
        a.ring_bell(0);
        sim.settle();
        assert_eq!(b.receive(), [right], "{kind:?}");
        assert_clean(&sim);
    }
}

#[test]
fn tags_are_inserted_and_cut_out() {
    for kind in PARTS {
        for strip in [false, true] {
            let wish = Wish {
                ctrl: LINK_UP | if strip { STRIP } else { 0 },
                extended: true,
                ..Wish::default()
            };
            let (sim, mut a, mut b) = rig(kind, &wish);
            a.bar.store32(CTRL, LINK_UP | STRIP | 1);
            for n in 0..20u16 {
                let (tag, plain) = (0x6000 | n, frame(u64::from(n), 60 + usize::from(n)));
                if kind == Kind::Igb {
                    a.context(0, context(kind, false, tag));
                }
                let command = a.command(plain.len()) | VLE;
                let command = if kind == Kind::Igb {
                    command
                } else {
                    command | u64::from(tag) << 48
                };
                assert!(a.post(0, &plain, command));
                a.ring_bell(0);
                sim.settle();
                let got = b.receive_on(0).remove(0);
                let says_so = got.status >> 3 & 1 == 1;
                assert_eq!(says_so, strip, "{kind:?}");
                if strip {
                    assert_eq!((got.tag, got.bytes), (tag, plain));
                } else {
                    assert_eq!(got.bytes, tagged(&plain, tag));
                }
            }
            assert!(a.send(&to(MAC_B)));
            sim.settle();
            let got = b.receive_on(0).remove(0);
            assert_eq!((got.status >> 3 & 1, got.bytes), (0, to(MAC_B)));
            assert_clean(&sim);
        }
    }
}

#[test]
fn a_tag_is_one_only_where_the_register_names_its_type() {
    for kind in PARTS {
        let wish = Wish {
            ctrl: LINK_UP | STRIP,
            extended: true,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(kind, &wish);
        let sent = tagged(&frame(1, 60), 5);
        for (vlan_type, stripped) in [(0, 0), (0x8100, 1), (0x88a8, 0)] {
            b.bar.store32(0x38, vlan_type);
            assert!(a.send(&sent));
            sim.settle();
            let got = b.receive_on(0).remove(0);
            assert_eq!(got.status >> 3 & 1, stripped, "{kind:?} {vlan_type:x}");
        }
        b.bar.store32(0x38, 0x8100);
        assert_clean(&sim);
    }
}

#[test]
fn a_checksum_and_a_tag_go_together() {
    for kind in PARTS {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        a.bar.store32(CTRL, LINK_UP | STRIP | 1);
        let [left, right] = packet(true, 33);
        a.context(0, context(kind, true, 77));
        let special = if kind == Kind::Igb { 0 } else { 77 << 48 };
        let command = summed(&a, left.len()) | VLE | special;
        assert!(a.post(0, &left, command));
        a.ring_bell(0);
        sim.settle();
        assert_eq!(b.receive(), [tagged(&right, 77)], "{kind:?}");
        assert_clean(&sim);
    }
}

/// What a device says of a frame's checksums.
fn verdict(sim: &models::Sim, a: &mut Guest, b: &mut Guest, bytes: &[u8]) -> u32 {
    assert!(a.send(bytes));
    sim.settle();
    let got = b.receive_on(0).remove(0);
    assert_eq!(got.bytes, bytes);
    got.status & (UDPCS | L4CS | IPCS | L4E | IPE)
}

#[test]
fn received_checksums_are_judged() {
    for (kind, extended) in [
        (Kind::E1000, false),
        (Kind::E1000e, false),
        (Kind::E1000e, true),
        (Kind::Igb, true),
    ] {
        let wish = Wish {
            extended,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(kind, &wish);
        b.bar.store32(0x5000, 3 << 8);
        let judge = |a: &mut Guest, b: &mut Guest, bytes: &[u8]| verdict(&sim, a, b, bytes);
        let [_, udp] = packet(false, 40);
        let [_, tcp] = packet(true, 40);
        let good = IPCS | L4CS;
        // The first device has no such bit (developer's manual §3.2.3.1).
        let by_udp = if kind == Kind::E1000 { 0 } else { UDPCS };
        assert_eq!(judge(&mut a, &mut b, &udp), good | by_udp, "{kind:?}");
        assert_eq!(judge(&mut a, &mut b, &tcp), good);
        let mut bad = udp.clone();
        bad[50] ^= 1;
        assert_eq!(judge(&mut a, &mut b, &bad), good | by_udp | L4E);
        let mut bad = tcp.clone();
        bad[22] ^= 1;
        assert_eq!(judge(&mut a, &mut b, &bad), good | IPE);
        let mut none = udp.clone();
        none[40..42].fill(0);
        assert_eq!(judge(&mut a, &mut b, &none), IPCS, "nothing to check");
        assert_eq!(judge(&mut a, &mut b, &frame(1, 70)), 0, "no IP");
        assert_eq!(judge(&mut a, &mut b, &tagged(&udp, 9)), good | by_udp);
        b.bar.store32(0x5000, 0);
        assert_eq!(judge(&mut a, &mut b, &udp), 0, "not asked to");
        assert_clean(&sim);
    }
}

#[test]
fn the_82540_says_when_it_did_not_look() {
    let (sim, mut a, mut b) = rig(Kind::E1000, &Wish::default());
    let [_, udp] = packet(false, 40);
    for (control, expected) in [(0, 1), (3 << 8, 0)] {
        b.bar.store32(0x5000, control);
        assert!(a.send(&udp));
        sim.settle();
        assert_eq!(b.receive_on(0)[0].status >> 2 & 1, expected, "IXSM");
    }
    assert_clean(&sim);
}

#[test]
fn without_a_hash_the_ip_identification_is_told() {
    for kind in [Kind::E1000e, Kind::Igb] {
        let wish = Wish {
            extended: true,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(kind, &wish);
        let [_, udp] = packet(false, 40);
        assert!(a.send(&udp));
        sim.settle();
        let got = b.receive_on(0).remove(0);
        assert_eq!((got.first >> 32, got.status >> 9 & 1), (0x1234, 1));
        if kind == Kind::Igb {
            assert_eq!(got.first & 0xffff, 0x210, "UDP over IPv4");
        }
        assert_clean(&sim);
    }
}
