//! What is in a frame, as far as a NIC looks: IP, TCP, UDP, and their checksums.

use crate::virtio::checksum::{fold, sum};

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
/// Extension headers of IPv6 that may stand before the payload (RFC 8200 §4.1).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// Versions of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ip {
    V4,
    V6,
}

/// Where the headers of an IP packet are in its frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) ip: Ip,
    /// Offset of the IP header.
    pub(super) network: usize,
    /// Offset behind it and its extensions.
    pub(super) transport: usize,
    /// Offset behind the packet, which padding may follow.
    pub(super) end: usize,
    pub(super) protocol: u8,
    pub(super) is_fragment: bool,
}

impl Packet {
    /// Looks at the beginning of a frame. None: it is no IP, or the headers are cut short.
    pub(super) fn find(frame: &[u8]) -> Option<Self> {
        let mut at = 12;
        loop {
            let kind = *frame.get(at..)?.first_chunk::<2>()?;
            at += 2;
            match kind {
                [0x81, 0x00] | [0x88, 0xa8] => at += 2,
                [0x08, 0x00] => return Self::find_v4(frame, at),
                [0x86, 0xdd] => return Self::find_v6(frame, at),
                _ => return None,
            }
        }
    }

    fn find_v4(frame: &[u8], network: usize) -> Option<Self> {
        let header = frame.get(network..)?.first_chunk::<20>()?;
        let len = usize::from(header[0] & 0xf) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        (header[0] >> 4 == 4 && len >= 20 && total >= len).then_some(Self {
            ip: Ip::V4,
            network,
            transport: network + len,
            end: network + total,
            protocol: header[9],
            is_fragment: fragment != 0,
        })
    }

    fn find_v6(frame: &[u8], network: usize) -> Option<Self> {
        let header = frame.get(network..)?.first_chunk::<40>()?;
        let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut packet = Self {
            ip: Ip::V6,
            network,
            transport: network + 40,
            end: network + 40 + payload,
            protocol: header[6],
            is_fragment: false,
        };
        while let HOP_BY_HOP | ROUTING | DESTINATION | FRAGMENT = packet.protocol {
            let extension = frame.get(packet.transport..)?.first_chunk::<8>()?;
            let is_fragment = packet.protocol == FRAGMENT;
            packet.is_fragment |= is_fragment;
            let len = if is_fragment {
                8
            } else {
                (usize::from(extension[1]) + 1) * 8
            };
            packet.transport += len;
            packet.protocol = extension[0];
        }
        (header[0] >> 4 == 6).then_some(packet)
    }

    /// Source and destination, one behind the other.
    pub(super) fn addresses<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        match self.ip {
            Ip::V4 => frame.get(self.network + 12..self.network + 20),
            Ip::V6 => frame.get(self.network + 8..self.network + 40),
        }
    }

    /// Source and destination port, where there are some.
    pub(super) fn ports<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let has_some = matches!(self.protocol, TCP | UDP) && !self.is_fragment;
        frame
            .get(self.transport..self.transport + 4)
            .filter(|_| has_some)
    }

    /// Where the checksum of TCP or UDP is.
    pub(super) fn checksum_at(&self) -> Option<usize> {
        match self.protocol {
            TCP => Some(self.transport + 16),
            UDP => Some(self.transport + 6),
            _ => None,
        }
    }

    /// Whether the header's checksum is right; IPv6 has none that could be wrong.
    pub(super) fn is_header_good(&self, frame: &[u8]) -> bool {
        self.ip == Ip::V6
            || frame
                .get(self.network..self.transport)
                .is_some_and(|header| fold(sum(header)) == 0xffff)
    }

    /// Whether the checksum of TCP or UDP is right. None: there is none to check.
    pub(super) fn is_payload_good(&self, frame: &[u8]) -> Option<bool> {
        let at = self.checksum_at()?;
        let segment = frame.get(self.transport..self.end)?;
        let written = frame.get(at..at + 2).filter(|_| at + 2 <= self.end)?;
        if self.is_fragment {
            return None;
        }
        // Over IPv4, UDP may do without (RFC 768).
        if self.protocol == UDP && self.ip == Ip::V4 && written == [0, 0] {
            return Some(true);
        }
        Some(fold(self.pseudo(frame, segment.len())? + sum(segment)) == 0xffff)
    }

    /// Sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1) for a segment of `len` bytes.
    pub(super) fn pseudo(&self, frame: &[u8], len: usize) -> Option<u64> {
        let addresses = sum(self.addresses(frame)?);
        Some(addresses + u64::from(self.protocol) + (len as u64 >> 16) + (len as u64 & 0xffff))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// An IPv6 packet behind a VLAN tag, with a hop-by-hop header before UDP.
    fn v6() -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([
            0x81, 0, 0, 5, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 18, HOP_BY_HOP, 64,
        ]);
        frame.extend([0x11; 16]);
        frame.extend([0x22; 16]);
        frame.extend([UDP, 0, 1, 4, 0, 0, 0, 0]);
        frame.extend([0, 7, 0, 9, 0, 10, 0, 0, 0xab, 0xcd]);
        frame
    }

    #[test]
    fn headers_are_found_behind_tags_and_extensions() {
        let frame = v6();
        let packet = Packet::find(&frame).unwrap();
        assert_eq!((packet.ip, packet.protocol), (Ip::V6, UDP));
        assert_eq!((packet.network, packet.transport), (18, 66));
        assert_eq!(packet.ports(&frame), Some(&[0, 7, 0, 9][..]));
        assert_eq!(packet.addresses(&frame).unwrap().len(), 32);
        assert!(Packet::find(&frame[..60]).is_none());
        assert!(Packet::find(&[0; 60]).is_none());
    }

    #[test]
    fn checksums_are_judged_and_a_missing_one_over_ipv6_is_bad() {
        let mut frame = v6();
        let packet = Packet::find(&frame).unwrap();
        assert_eq!(packet.is_payload_good(&frame), Some(false));
        let segment = &frame[66..];
        let checksum = !fold(packet.pseudo(&frame, segment.len()).unwrap() + sum(segment));
        frame[72..74].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(packet.is_payload_good(&frame), Some(true));
        frame[75] ^= 1;
        assert_eq!(packet.is_payload_good(&frame), Some(false));
    }
}
