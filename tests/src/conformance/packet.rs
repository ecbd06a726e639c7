//! IP packets for checks that look into them, with right checksums, and the hash of RSS.

use port::Mac;

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
    Tcp,
    Udp,
}

/// A packet: from host and port number `flow` of one net to a fixed one of another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) v6: bool,
    pub(crate) carries: Carries,
    /// Which flow it is of.
    pub(crate) flow: u16,
    /// Bytes behind the headers.
    pub(crate) payload: usize,
}

/// A packet in its frame, and where the parts are.
pub(crate) struct Framed {
    pub(crate) bytes: Vec<u8>,
    /// Offset of the checksum of TCP or UDP.
    pub(crate) checksum_at: usize,
    /// What is there before a device fills it in: the sum of the pseudo-header.
    pub(crate) begun: [u8; 2],
    /// Source and destination: addresses, then ports.
    pub(crate) flow: Vec<u8>,
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

impl Packet {
    /// Every kind of packet, of one flow.
    pub(crate) fn kinds(payload: usize) -> [Self; 4] {
        let kind = |v6, carries| Self {
            v6,
            carries,
            flow: 1,
            payload,
        };
        [
            kind(false, Carries::Udp),
            kind(false, Carries::Tcp),
            kind(true, Carries::Udp),
            kind(true, Carries::Tcp),
        ]
    }

    /// The packet in a frame from `from` to `to`.
    pub(crate) fn frame(self, to: Mac, from: Mac) -> Framed {
        let (protocol, mut segment, at) = self.segment();
        let addresses = self.addresses();
        let len = segment.len();
        let pseudo = sum(&addresses) + u32::from(protocol) + as_u32(len);
        let checksum = !fold(pseudo + sum(&segment));
        segment[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        let header = self.header(protocol, &addresses, len);
        let kind = if self.v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
        let flow = [&addresses[..], &segment[..4]].concat();
        Framed {
            checksum_at: ETHERNET + header.len() + at,
            begun: fold(pseudo).to_be_bytes(),
            bytes: [&to[..], &from[..], &kind, &header, &segment].concat(),
            flow,
        }
    }

    /// Protocol number, header and payload with a checksum of zero, and where that goes.
    fn segment(self) -> (u8, Vec<u8>, usize) {
        let ports = [self.flow.wrapping_add(1024).to_be_bytes(), [0, 12]].concat();
        let payload = (0..self.payload).map(|n| (n % 251).to_le_bytes()[0]);
        match self.carries {
            Carries::Tcp => {
                // Numbers, a header of five words, ACK, a window.
                let rest = [0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0];
                let segment = ports.into_iter().chain(rest).chain(payload).collect();
                (6, segment, 16)
            }
            Carries::Udp => {
                let [high, low] = as_u16(8 + self.payload).to_be_bytes();
                let rest = [high, low, 0, 0];
                let segment = ports.into_iter().chain(rest).chain(payload).collect();
                (17, segment, 6)
            }
        }
    }

    /// Source and destination.
    fn addresses(self) -> Vec<u8> {
        let [high, low] = self.flow.to_be_bytes();
        if self.v6 {
            let mut addresses = [[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low]; 2];
            addresses[1] = [0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
            addresses.concat()
        } else {
            vec![16, 0, high, low, 48, 0, 0, 1]
        }
    }

    fn header(self, protocol: u8, addresses: &[u8], len: usize) -> Vec<u8> {
        if self.v6 {
            let [high, low] = as_u16(len).to_be_bytes();
            let fixed = [0x60, 0, 0, 0, high, low, protocol, 64];
            return [&fixed[..], addresses].concat();
        }
        let [high, low] = as_u16(20 + len).to_be_bytes();
        let fixed = [0x45, 0, high, low, 0, 1, 0, 0, 64, protocol, 0, 0];
        let mut header = [&fixed[..], addresses].concat();
        let checksum = !fold(sum(&header));
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }
}

fn as_u16(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

fn as_u32(len: usize) -> u32 {
    u32::from(as_u16(len))
}

/// The sum of `bytes` as 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    as_u16(sum as usize)
}

/// The Toeplitz hash of `bytes`: for each bit that is set, the 32 bits of the key from there on.
pub(crate) fn toeplitz(key: &[u8], bytes: &[u8]) -> u32 {
    let bit = |bytes: &[u8], n: usize| bytes.get(n / 8).is_some_and(|b| b >> (7 - n % 8) & 1 == 1);
    (0..bytes.len() * 8)
        .filter(|&n| bit(bytes, n))
        .map(|n| (0..32).fold(0, |word, k| word << 1 | u32::from(bit(key, n + k))))
        .fold(0, |hash, word| hash ^ word)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_verification_suite() {
        // Microsoft, "Verifying the RSS hash calculation": 66.9.149.187:2794 to
        // 161.142.100.80:1766.
        let key = [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
            0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
            0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
        ];
        let flow = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(toeplitz(&key, &flow), 0x51cc_c178);
        assert_eq!(toeplitz(&key, &flow[..8]), 0x323e_8fc2);
    }

    #[test]
    fn checksums_of_every_kind_of_packet_are_right() {
        for packet in Packet::kinds(33) {
            let framed = packet.frame([2; 6], [4; 6]);
            let (addresses, header) = if packet.v6 {
                (22..54, 40)
            } else {
                (26..34, 20)
            };
            let segment = &framed.bytes[ETHERNET + header..];
            let protocol = if packet.carries == Carries::Tcp {
                6
            } else {
                17
            };
            let pseudo = sum(&framed.bytes[addresses]) + protocol + as_u32(segment.len());
            assert_eq!(fold(pseudo + sum(segment)), 0xffff, "{packet:?}");
            assert_eq!(fold(pseudo).to_be_bytes(), framed.begun);
        }
    }
}
