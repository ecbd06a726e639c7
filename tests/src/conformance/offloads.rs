//! What the device does to frames.

use std::collections::VecDeque;

use hugemem::TxFlags;
use port::{Config, Mac, Offloads, Port, RxFlags};

use super::line::{Failure, Line, Received};
use super::packet::Packet;
use super::{Named, Verdict};
use crate::require;

pub(super) const CHECKS: &[Named] = &[
    (
        "a checksum that the device fills in is right, or marked as still to be filled in",
        fills_checksums_in,
    ),
    (
        "a good checksum is never called bad, nor a bad one good",
        judges_checksums,
    ),
    (
        "checksums of TCP and UDP, over IPv4 and IPv6, are filled in and judged right",
        every_kind_of_packet,
    ),
    (
        "a header checksum of IPv4 is filled in right, and never judged wrongly",
        header_checksums,
    ),
];

/// A UDP datagram of IPv4 with right checksums, as an Ethernet frame.
fn datagram(to: Mac, from: Mac, payload: &[u8]) -> Vec<u8> {
    let udp_len = u16::try_from(8 + payload.len()).unwrap_or(u16::MAX);
    let ip_len = udp_len + 20;
    let mut ip = [
        0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 16, 0, 0, 1, 48, 0, 0, 1,
    ];
    ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
    let sum = checksum(&ip, 0);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut udp = [
        &[0x04, 0x01, 0x00, 0x0c][..],
        &udp_len.to_be_bytes(),
        &[0, 0],
        payload,
    ]
    .concat();
    let sum = checksum(&udp, pseudo_header(&ip, udp_len));
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    [&to[..], &from[..], &[0x08, 0x00], &ip, &udp].concat()
}

/// The sum over the pseudo-header of UDP (RFC 768), not inverted.
fn pseudo_header(ip: &[u8; 20], udp_len: u16) -> u32 {
    let words = ip[12..20]
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    words.sum::<u32>() + 17 + u32::from(udp_len)
}

/// The Internet checksum (RFC 1071) of `bytes` on top of `sum`.
fn checksum(bytes: &[u8], sum: u32) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    !fold(sum + words.sum::<u32>())
}

fn fold(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum & 0xffff).unwrap_or(0)
}

/// Sends one frame with flags, and returns it as it arrives.
fn one(line: &mut Line, bytes: &[u8], flags: TxFlags) -> Result<Received, Failure> {
    let mut frames = VecDeque::from([bytes.to_vec()]);
    let posted = line.ends[0].post_flagged(0, &mut frames, 1, flags);
    require!(posted == 1, "an empty ring took {posted} frames");
    let mut received = line.transfer(0, &[], 1)?;
    received
        .pop()
        .ok_or_else(|| Failure::Found("nothing came".into()))
}

fn fills_checksums_in(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    if !ports[0].caps().offloads.contains(Offloads::TX_L4_CHECKSUM) {
        return Ok(Verdict::NotOffered("filling checksums in"));
    }
    let both = ports[0].caps().offloads & ports[1].caps().offloads;
    let config = Config {
        offloads: both & (Offloads::TX_L4_CHECKSUM | Offloads::RX_CHECKSUM),
        ..Config::default()
    };
    let mut line = Line::start(ports, &config)?;
    let macs = line.macs();
    for len in 18..200_u8 {
        let payload: Vec<u8> = (0..len).map(|n| n.wrapping_mul(89)).collect();
        let right = datagram(macs[1], macs[0], &payload);
        let mut partial = right.clone();
        let ip: [u8; 20] = std::array::from_fn(|n| right[14 + n]);
        let begun = fold(pseudo_header(&ip, u16::from(len) + 8));
        partial[40..42].copy_from_slice(&begun.to_be_bytes());
        let got = one(&mut line, &partial, TxFlags::L4_CHECKSUM)?;
        let is_partial = got.meta.flags.contains(RxFlags::L4_PARTIAL);
        let expected = if is_partial { &partial } else { &right };
        require!(
            got.bytes == *expected && !got.meta.flags.contains(RxFlags::L4_BAD),
            "payload of {len}: checksum {:02x?}, right is {:02x?} ({:?})",
            &got.bytes[40..42],
            &right[40..42],
            got.meta.flags
        );
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn judges_checksums(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    if !ports[1].caps().offloads.contains(Offloads::RX_CHECKSUM) {
        return Ok(Verdict::NotOffered("checking checksums"));
    }
    let both = ports[0].caps().offloads & ports[1].caps().offloads;
    let config = Config {
        offloads: both & Offloads::RX_CHECKSUM,
        ..Config::default()
    };
    let mut line = Line::start(ports, &config)?;
    let macs = line.macs();
    let good = datagram(macs[1], macs[0], &[7; 40]);
    let mut bad = good.clone();
    bad[60] ^= 0x10;
    let mut none = good.clone();
    none[40..42].fill(0);
    for (bytes, wrong) in [
        (&good, RxFlags::L4_BAD),
        (&bad, RxFlags::L4_GOOD),
        // No checksum at all is allowed for UDP over IPv4 (RFC 768).
        (&none, RxFlags::L4_BAD),
    ] {
        let got = one(&mut line, bytes, TxFlags::empty())?;
        require!(got.bytes == *bytes, "the frame changed");
        require!(!got.meta.flags.contains(wrong), "{:?}", got.meta.flags);
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn every_kind_of_packet(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let wanted = Offloads::TX_L4_CHECKSUM | Offloads::RX_CHECKSUM;
    let both = ports[0].caps().offloads & ports[1].caps().offloads;
    if !both.contains(wanted) {
        return Ok(Verdict::NotOffered(
            "filling checksums in, and checking them",
        ));
    }
    let config = Config {
        offloads: wanted,
        ..Config::default()
    };
    let mut line = Line::start(ports, &config)?;
    let macs = line.macs();
    for payload in [0, 1, 2, 17, 100, 333, 1400] {
        for packet in Packet::kinds(payload) {
            let right = packet.frame(macs[1], macs[0]);
            // What Ethernet pads is no part of the packet.
            let is_whole = right.bytes.len() >= 60;
            let at = right.checksum_at;
            let mut partial = right.bytes.clone();
            partial[at..at + 2].copy_from_slice(&right.begun);
            let got = one(&mut line, &partial, TxFlags::L4_CHECKSUM)?;
            let flags = got.meta.flags;
            let expected = if flags.contains(RxFlags::L4_PARTIAL) {
                &partial
            } else {
                &right.bytes
            };
            require!(
                got.bytes.starts_with(expected) && !flags.contains(RxFlags::L4_BAD),
                "{packet:?}: {:02x?} at {at}, {flags:?}",
                got.bytes.get(at..at + 2)
            );
            let mut bad = right.bytes.clone();
            bad[at] ^= 0x40;
            let got = one(&mut line, &bad, TxFlags::empty())?;
            require!(
                got.bytes.starts_with(&bad) && !got.meta.flags.contains(RxFlags::L4_GOOD),
                "{packet:?} with a wrong checksum: {:?}",
                got.meta.flags
            );
            let got = one(&mut line, &right.bytes, TxFlags::empty())?;
            require!(
                (!is_whole || got.bytes == right.bytes)
                    && !got.meta.flags.contains(RxFlags::L4_BAD),
                "{packet:?} with a right checksum: {:?}",
                got.meta.flags
            );
        }
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn header_checksums(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let both = ports[0].caps().offloads & ports[1].caps().offloads;
    let wanted = both & (Offloads::TX_IPV4_CHECKSUM | Offloads::RX_CHECKSUM);
    if wanted.is_empty() {
        return Ok(Verdict::NotOffered("header checksums"));
    }
    let config = Config {
        offloads: wanted,
        ..Config::default()
    };
    let mut line = Line::start(ports, &config)?;
    let macs = line.macs();
    for payload in 20..120 {
        let right = Packet::kinds(payload)[0].frame(macs[1], macs[0]).bytes;
        if wanted.contains(Offloads::TX_IPV4_CHECKSUM) {
            let mut empty = right.clone();
            empty[24..26].fill(0);
            let got = one(&mut line, &empty, TxFlags::IPV4_CHECKSUM)?;
            require!(
                got.bytes == right && !got.meta.flags.contains(RxFlags::IPV4_BAD),
                "header checksum {:02x?}, right is {:02x?}",
                &got.bytes[24..26],
                &right[24..26]
            );
        }
        let mut bad = right.clone();
        bad[22] ^= 1;
        for (bytes, wrong) in [(&right, RxFlags::IPV4_BAD), (&bad, RxFlags::IPV4_GOOD)] {
            let got = one(&mut line, bytes, TxFlags::empty())?;
            let flags = got.meta.flags;
            require!(got.bytes == *bytes && !flags.contains(wrong), "{flags:?}");
        }
    }
    line.stop()?;
    Ok(Verdict::Passed)
}
