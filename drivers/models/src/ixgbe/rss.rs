//! Which queue a received frame goes to: the Toeplitz hash (82599 §7.1.2.8).

use crate::e1000::packet::{Ip, Packet};

/// Fields of `MRQC` that say what is hashed (§8.2.3.7.12).
const TCP_IPV4: u32 = 1 << 16;
const IPV4: u32 = 1 << 17;
const IPV6: u32 = 1 << 20;
const TCP_IPV6: u32 = 1 << 21;
const UDP_IPV4: u32 = 1 << 22;
const UDP_IPV6: u32 = 1 << 23;

/// Bytes of a key.
pub(super) const KEY: usize = 40;
/// Bytes that are hashed at most: two IPv6 addresses and two ports.
const INPUT: usize = 36;

/// What was hashed, as the descriptor says it, and the hash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hash {
    pub(super) kind: u32,
    pub(super) value: u32,
}

/// A key, worked out for every byte at every place: a hash is one look a byte.
pub(super) struct Key {
    parts: Box<[[u32; 256]; INPUT]>,
}

impl Key {
    pub(super) fn new(key: &[u8; KEY]) -> Self {
        let mut parts = Box::new([[0; 256]; INPUT]);
        for (at, part) in parts.iter_mut().enumerate() {
            let bytes: [u8; 5] = std::array::from_fn(|n| key.get(at + n).copied().unwrap_or(0));
            let window = bytes
                .iter()
                .fold(0u64, |all, &byte| all << 8 | u64::from(byte));
            for (byte, hash) in (0u64..).zip(part.iter_mut()) {
                let under = (0..8).filter(|bit| byte << bit & 0x80 != 0);
                *hash = under.fold(0, |hash, bit| hash ^ super::bits::low(window >> (8 - bit)));
            }
        }
        Self { parts }
    }

    #[inline]
    fn of(&self, addresses: &[u8], ports: &[u8]) -> u32 {
        let bytes = addresses.iter().chain(ports);
        bytes
            .zip(self.parts.iter())
            .fold(0, |hash, (&byte, part)| hash ^ part[usize::from(byte)])
    }

    /// Hashes a frame by the fields that `mrqc` asks for. Nothing hashed: kind 0, hash 0.
    #[inline]
    pub(super) fn hash(&self, packet: &Packet<'_>, mrqc: u32) -> Hash {
        let Some(ip) = packet.ip else {
            return Hash::default();
        };
        let (kind, with_ports) = kind(&ip, mrqc);
        if kind == 0 {
            return Hash::default();
        }
        let ports = ip.transport.filter(|_| with_ports);
        let ports = ports.map_or(&[][..], |transport| transport.ports);
        Hash {
            kind,
            value: self.of(ip.addresses, ports),
        }
    }
}

/// The type that the descriptor shows (§7.1.6.2, table 7-15), and whether ports are hashed.
#[inline]
fn kind(ip: &Ip<'_>, mrqc: u32) -> (u32, bool) {
    let (tcp, udp, only) = if ip.v6 {
        ((TCP_IPV6, 3), (UDP_IPV6, 8), (IPV6, 5))
    } else {
        ((TCP_IPV4, 1), (UDP_IPV4, 7), (IPV4, 2))
    };
    match ip.transport {
        Some(transport) if transport.tcp && mrqc & tcp.0 != 0 => (tcp.1, true),
        Some(transport) if !transport.tcp && mrqc & udp.0 != 0 => (udp.1, true),
        _ if mrqc & only.0 != 0 => (only.1, false),
        _ => (0, false),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// The key and the examples of the specification that every vendor repeats.
    const PUBLISHED: [u8; KEY] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn the_published_examples_come_out() {
        let key = Key::new(&PUBLISHED);
        let addresses = [66, 9, 149, 187, 161, 142, 100, 80];
        let ports = [0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(key.of(&addresses, &[]), 0x323e_8fc2);
        assert_eq!(key.of(&addresses, &ports), 0x51cc_c178);
        let addresses = [199, 92, 111, 2, 65, 69, 140, 83];
        let ports = [0x37, 0x96, 0x12, 0x83];
        assert_eq!(key.of(&addresses, &[]), 0xd718_262a);
        assert_eq!(key.of(&addresses, &ports), 0xc626_b0ea);
    }
}
