//! Checksums and tags, looked at and inserted.

use models::ixgbe::Kind;

use crate::guest::{
    CC, DEXT, EOP, Guest, IFCS, KINDS, RS, VLE, Wish, assert_clean, frame, rig, tagged,
};

const IPE: u32 = 1 << 31;
const L4E: u32 = 1 << 30;
const IPCS: u32 = 1 << 6;
const L4CS: u32 = 1 << 5;

fn sum(bytes: &[u8]) -> u32 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
    }
    sum
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// A frame with a TCP or UDP packet over IPv4 or IPv6, checksums right.
pub(crate) fn packet(v6: bool, tcp: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = frame(1, 14);
    let protocol = if tcp { 6 } else { 17 };
    let head = if tcp { 20 } else { 8 };
    let total = u16::try_from(head + payload.len()).unwrap();
    if v6 {
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        let [a, b] = total.to_be_bytes();
        frame.extend([0x60, 0, 0, 0, a, b, protocol, 64]);
        frame.extend((0..32).map(|n| n * 3 + 1));
    } else {
        frame[12..14].copy_from_slice(&[8, 0]);
        let [a, b] = (total + 20).to_be_bytes();
        frame.extend([0x45, 0, a, b, 0x12, 0x34, 0, 0, 64, protocol, 0, 0]);
        frame.extend([10, 1, 2, 3, 10, 4, 5, 6]);
        let check = (!fold(sum(&frame[14..34]))).to_be_bytes();
        frame[24..26].copy_from_slice(&check);
    }
    let at = frame.len();
    let addresses = if v6 { 22..54 } else { 26..34 };
    let pseudo = sum(&frame[addresses]) + u32::from(protocol) + u32::from(total);
    frame.extend([4, 1, 0, 80]);
    if tcp {
        frame.extend([0, 0, 1, 0, 0, 0, 0, 0, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]);
    } else {
        frame.extend(total.to_be_bytes());
        frame.extend([0, 0]);
    }
    frame.extend(payload);
    let check = (!fold(pseudo + sum(&frame[at..]))).to_be_bytes();
    let field = at + if tcp { 16 } else { 6 };
    frame[field..field + 2].copy_from_slice(&check);
    frame
}

/// Where the checksums of IP and of what is in it are.
pub(crate) fn fields(v6: bool, tcp: bool) -> (usize, usize) {
    let at = if v6 { 54 } else { 34 };
    (24, at + if tcp { 16 } else { 6 })
}

/// Replaces the checksum by the sum of the pseudo-header, as software leaves it to hardware.
pub(crate) fn prepare(frame: &mut [u8], v6: bool, tcp: bool, with_length: bool) {
    let (_, field) = fields(v6, tcp);
    let at = if v6 { 54 } else { 34 };
    let addresses = if v6 { 22..54 } else { 26..34 };
    let protocol = if tcp { 6 } else { 17 };
    let length = if with_length { frame.len() - at } else { 0 };
    let pseudo = fold(sum(&frame[addresses]) + protocol + u32::try_from(length).unwrap());
    frame[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
    if !v6 {
        frame[24..26].fill(0);
    }
}

/// A context for these headers.
pub(crate) fn context(v6: bool, tcp: bool, vlan: u16, l4: u64, mss: u64) -> [u64; 2] {
    let ip = if v6 { 40 } else { 20 };
    let kind = if v6 { 0 } else { 1 << 10 } | if tcp { 1 << 11 } else { 0 };
    [
        ip | 14 << 9 | u64::from(vlan) << 16,
        kind | 2 << 20 | DEXT | l4 << 40 | mss << 48,
    ]
}

fn receive_one(guest: &mut Guest) -> (Vec<u8>, u32) {
    let mut all = guest.receive_on(0);
    assert_eq!(all.len(), 1);
    let received = all.remove(0);
    (received.bytes, received.status)
}

#[test]
fn checksums_are_looked_at_and_the_bad_ones_named() {
    for kind in KINDS {
        for legacy in [false, true] {
            let wish = Wish {
                legacy,
                ..Wish::default()
            };
            let (sim, mut a, mut b) = rig(kind, &wish);
            for (v6, tcp) in [(false, true), (false, false), (true, true), (true, false)] {
                let good = packet(v6, tcp, b"some payload of odd length");
                let (ip, l4) = fields(v6, tcp);
                let header = if v6 { 0 } else { IPCS };
                let mut bad_ip = good.clone();
                bad_ip[ip] ^= 1;
                let mut bad_l4 = good.clone();
                bad_l4[l4] ^= 1;
                let cases = [
                    (good, header | L4CS),
                    (bad_l4, header | L4CS | L4E),
                    (bad_ip, if v6 { 0 } else { IPCS | IPE | L4CS }),
                ];
                for (sent, expected) in cases.into_iter().take(if v6 { 2 } else { 3 }) {
                    assert!(a.send(&sent));
                    sim.settle();
                    let (bytes, status) = receive_one(&mut b);
                    assert_eq!(bytes, sent);
                    let seen = status & (IPCS | L4CS | IPE | L4E);
                    assert_eq!(seen, expected, "{kind:?} v6 {v6} tcp {tcp}");
                }
            }
            assert_clean(&sim);
        }
    }
}

#[test]
fn an_82599_takes_udp_without_a_checksum_for_bad_and_later_ones_do_not() {
    for (kind, expected) in [(Kind::I82599, L4CS | L4E), (Kind::X540, 0), (Kind::X550, 0)] {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        let mut sent = packet(false, false, b"payload of a good length here");
        let (_, field) = fields(false, false);
        sent[field..field + 2].fill(0);
        assert!(a.send(&sent));
        sim.settle();
        let (_, status) = receive_one(&mut b);
        assert_eq!(status & (L4CS | L4E), expected, "{kind:?}");
        assert_clean(&sim);
    }
}

#[test]
fn checksums_are_inserted_by_a_context() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    for lap in 0..6 {
        for (v6, tcp) in [(false, true), (false, false), (true, true), (true, false)] {
            let expected = packet(v6, tcp, &[lap; 77]);
            let mut sent = expected.clone();
            prepare(&mut sent, v6, tcp, true);
            a.context(0, context(v6, tcp, 0, 0, 0));
            let popts = if v6 { 2 } else { 3 } << 40;
            let command = a.command(sent.len()) | popts | CC;
            assert!(a.post(0, &sent, command));
            a.ring_bell(0);
            sim.settle();
            assert_eq!(receive_one(&mut b).0, expected, "v6 {v6} tcp {tcp}");
        }
    }
    assert_clean(&sim);
}

#[test]
fn a_context_stays_until_another_comes_into_its_slot() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &Wish::default());
    a.context(0, context(false, true, 5, 0, 0));
    let [first, second] = context(false, true, 6, 0, 0);
    a.context(0, [first, second | 1 << 36]);
    for lap in 0..8 {
        for (slot, tag) in [(0u64, 5), (1, 6)] {
            let plain = frame(lap, 90);
            let command = a.command(90) | VLE | CC | slot << 36;
            assert!(a.post(0, &plain, command));
            a.ring_bell(0);
            sim.settle();
            assert_eq!(receive_one(&mut b).0, tagged(&plain, tag));
        }
    }
    assert_clean(&sim);
}

#[test]
fn a_legacy_descriptor_inserts_its_own_tag_and_sum() {
    let wish = Wish {
        legacy: true,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish);
    let expected = packet(false, false, &[7; 50]);
    let mut sent = expected.clone();
    prepare(&mut sent, false, false, true);
    sent[24..26].copy_from_slice(&expected[24..26]);
    let (_, field) = fields(false, false);
    let command = sent.len() as u64 | EOP | IFCS | RS | 1 << 26;
    let command = command | (field as u64) << 16 | 34 << 40;
    assert!(a.post(0, &sent, command));
    a.ring_bell(0);
    sim.settle();
    assert_eq!(receive_one(&mut b).0, expected);
    let plain = frame(2, 100);
    assert!(a.post(0, &plain, 100 | EOP | IFCS | RS | VLE | 0x2007 << 48));
    a.ring_bell(0);
    sim.settle();
    assert_eq!(receive_one(&mut b).0, tagged(&plain, 0x2007));
    assert_clean(&sim);
}
