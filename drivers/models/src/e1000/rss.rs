//! Which queue a received frame goes to: the Toeplitz hash and the table that it leads through
//! (82576 §7.1.2.8).

use super::packet::{Ip, Packet};

/// Fields of `MRQC` that say what is hashed (82574 §10.2.5.13, 82576 §8.10.15).
const TCP_IPV4: u32 = 1 << 16;
const IPV4: u32 = 1 << 17;
const TCP_IPV6_EX: u32 = 1 << 18;
const IPV6_EX: u32 = 1 << 19;
const IPV6: u32 = 1 << 20;
const TCP_IPV6: u32 = 1 << 21;
const UDP_IPV4: u32 = 1 << 22;
const UDP_IPV6: u32 = 1 << 23;
/// The fields that the 82574 has. Linux's e1000e sets one more (bit 21), on which nothing hangs.
pub(super) const FIELDS_82574: u32 = TCP_IPV4 | IPV4 | TCP_IPV6_EX | IPV6_EX | IPV6;

/// What was hashed, as the descriptor says it, and the hash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hash {
    pub(super) kind: u16,
    pub(super) value: u32,
}

/// Hashes a frame by the fields that `mrqc` asks for. Nothing hashed: kind 0, hash 0.
#[inline]
pub(super) fn hash(packet: &Packet<'_>, mrqc: u32, key: &[u8; 40]) -> Hash {
    let Some(ip) = packet.ip else {
        return Hash::default();
    };
    let (kind, with_ports) = if ip.v6 {
        kind_of_ipv6(&ip, mrqc)
    } else {
        kind_of_ipv4(&ip, mrqc)
    };
    if kind == 0 {
        return Hash::default();
    }
    let ports = ip.transport.filter(|_| with_ports);
    let ports = ports.map_or(&[][..], |transport| transport.ports);
    Hash {
        kind,
        value: toeplitz(key, ip.addresses, ports),
    }
}

fn kind_of_ipv4(ip: &Ip<'_>, mrqc: u32) -> (u16, bool) {
    match ip.transport {
        Some(transport) if transport.tcp && mrqc & TCP_IPV4 != 0 => (1, true),
        Some(transport) if !transport.tcp && mrqc & UDP_IPV4 != 0 => (7, true),
        _ if mrqc & IPV4 != 0 => (2, false),
        _ => (0, false),
    }
}

fn kind_of_ipv6(ip: &Ip<'_>, mrqc: u32) -> (u16, bool) {
    match ip.transport {
        // The 82574 has this one type for both, as QEMU gives it on the 82576 too.
        Some(transport) if transport.tcp && mrqc & (TCP_IPV6_EX | TCP_IPV6) != 0 => (3, true),
        Some(transport) if !transport.tcp && mrqc & UDP_IPV6 != 0 => (8, true),
        _ if mrqc & IPV6_EX != 0 => (4, false),
        _ if mrqc & IPV6 != 0 => (5, false),
        _ => (0, false),
    }
}

/// The Toeplitz hash of `first` and then `second`.
fn toeplitz(key: &[u8; 40], first: &[u8], second: &[u8]) -> u32 {
    let [a, b, c, d, ..] = *key;
    let mut window = u64::from(u32::from_be_bytes([a, b, c, d])) << 32;
    let mut hash = 0;
    for (byte, next) in first
        .iter()
        .chain(second)
        .zip(key[4..].iter().chain(&[0; 8]))
    {
        // Thirty-two bits of key above, the eight that come next below.
        window |= u64::from(*next) << 24;
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window >> 32;
            }
            window <<= 1;
        }
    }
    super::stats::low(hash)
}

#[cfg(test)]
mod test {
    use super::*;

    /// The key and the examples of the specification that every vendor repeats.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn the_published_examples_come_out() {
        let addresses = [66, 9, 149, 187, 161, 142, 100, 80];
        let ports = [0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(toeplitz(&KEY, &addresses, &[]), 0x323e_8fc2);
        assert_eq!(toeplitz(&KEY, &addresses, &ports), 0x51cc_c178);
        let addresses = [199, 92, 111, 2, 65, 69, 140, 83];
        let ports = [0x37, 0x96, 0x12, 0x83];
        assert_eq!(toeplitz(&KEY, &addresses, &[]), 0xd718_262a);
        assert_eq!(toeplitz(&KEY, &addresses, &ports), 0xc626_b0ea);
    }
}
