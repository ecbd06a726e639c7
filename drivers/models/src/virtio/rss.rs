//! Hashes of received frames, and the queues that follow from them, as the driver asked for by
//! command (§5.1.6.4.3, §5.1.6.4.4, §5.1.6.5.6.4, §5.1.6.5.7).
//!
//! A frame's IP header is looked for behind its VLAN tags, and TCP or UDP directly behind that: as
//! no hash type of extension headers is offered, a packet that has some is hashed by its
//! addresses. A fragment has no ports.

use super::steer::Flow;

/// Most bytes of a key, which no device may have fewer of (§5.1.4.1).
pub(super) const KEY_MOST: u8 = 40;
/// Most entries of the table, likewise.
pub(super) const TABLE_MOST: u16 = 128;

/// Hash types (§5.1.6.4.3.1).
mod kind {
    pub(super) const IPV4: u32 = 1 << 0;
    pub(super) const TCPV4: u32 = 1 << 1;
    pub(super) const UDPV4: u32 = 1 << 2;
    pub(super) const IPV6: u32 = 1 << 3;
    pub(super) const TCPV6: u32 = 1 << 4;
    pub(super) const UDPV6: u32 = 1 << 5;
}

/// Those that the device has.
pub(super) const TYPES: u32 =
    kind::IPV4 | kind::TCPV4 | kind::UDPV4 | kind::IPV6 | kind::TCPV6 | kind::UDPV6;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// What a frame's hash is, and what the header says that it is of (§5.1.6.4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash {
    pub(super) value: u32,
    pub(super) report: u16,
}

/// How frames are hashed and spread.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spread {
    types: u32,
    key: [u8; KEY_MOST as usize],
    /// Pairs, by the hash's low bits; none if the driver asked for hashes alone.
    table: Vec<u16>,
    /// The pair of a frame without a hash.
    unclassified: u16,
}

/// Reads a command's data from its front.
struct Data<'a>(&'a [u8]);

impl<'a> Data<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let Some((bytes, rest)) = self.0.split_first_chunk::<N>() else {
            return Err("data that ends too early".into());
        };
        self.0 = rest;
        Ok(*bytes)
    }

    fn half(&mut self) -> Result<u16, String> {
        self.take().map(u16::from_le_bytes)
    }

    /// The types to hash.
    fn types(&mut self) -> Result<u32, String> {
        let types = self.take().map(u32::from_le_bytes)?;
        if types & !TYPES != 0 {
            return Err(format!("hash types {types:#x}, of {TYPES:#x}"));
        }
        Ok(types)
    }

    /// The key, after which nothing is read, as QEMU's device does not (`virtio_net_handle_rss`):
    /// Linux's from 6.12.117 on sends its structure whole, with a byte of padding at the end. One
    /// that is shorter than the longest is continued by zeros.
    fn key(mut self, types: u32) -> Result<[u8; KEY_MOST as usize], String> {
        let [len] = self.take()?;
        let rest: &'a [u8] = self.0;
        if len > KEY_MOST || (len == 0 && types != 0) {
            return Err(format!("a key of {len} bytes, of at most {KEY_MOST}"));
        }
        let Some(bytes) = rest.get(..usize::from(len)) else {
            return Err(format!("{} bytes where a key of {len} is", rest.len()));
        };
        let mut key = [0; KEY_MOST as usize];
        key[..bytes.len()].copy_from_slice(bytes);
        Ok(key)
    }
}

impl Spread {
    /// What `RSS_CONFIG` asks for (§5.1.6.5.7.1), and how many pairs it lets the driver send on;
    /// the device has `pairs`. `is_enabled` tells of a pair's receive queue.
    pub(super) fn by_table(
        data: &[u8],
        pairs: u16,
        is_enabled: impl Fn(u16) -> bool,
    ) -> Result<(Self, u16), String> {
        let mut data = Data(data);
        let types = data.types()?;
        let mask = data.half()?;
        if mask >= TABLE_MOST || !(mask + 1).is_power_of_two() {
            return Err(format!(
                "a mask of {mask:#x}: entries are a power of two, of at most {TABLE_MOST}"
            ));
        }
        let receiver = |data: &mut Data<'_>| {
            let pair = data.half()?;
            match pair < pairs && is_enabled(pair) {
                true => Ok(pair),
                false => Err(format!("receive queue {pair}, which is not enabled")),
            }
        };
        let unclassified = receiver(&mut data)?;
        let table = (0..=mask)
            .map(|_| receiver(&mut data))
            .collect::<Result<_, _>>()?;
        let senders = data.half()?;
        if !(1..=pairs).contains(&senders) {
            return Err(format!("{senders} send queues, of {pairs}"));
        }
        let spread = Self {
            types,
            key: data.key(types)?,
            table,
            unclassified,
        };
        Ok((spread, senders))
    }

    /// What `HASH_CONFIG` asks for: hashes, and no table (§5.1.6.5.6.4).
    pub(super) fn hashes_alone(data: &[u8]) -> Result<Self, String> {
        let mut data = Data(data);
        let types = data.types()?;
        if data.take::<8>()? != [0; 8] {
            return Err("reserved fields that are not zero".into());
        }
        Ok(Self {
            types,
            key: data.key(types)?,
            table: Vec::new(),
            unclassified: 0,
        })
    }

    /// True if it says which queue a frame goes to.
    pub(super) fn has_table(&self) -> bool {
        !self.table.is_empty()
    }

    /// How many pairs may get frames: those up to the last that is named.
    pub(super) fn receivers(&self) -> u16 {
        let last = self.table.iter().max().copied().unwrap_or(0);
        last.max(self.unclassified) + 1
    }

    /// The hash of the frame that begins with `head`. None: nothing of it is to be hashed.
    pub(super) fn hash(&self, head: &[u8]) -> Option<Hash> {
        let flow = Flow::find(head)?;
        let (tcp, udp, plain) = match flow.v6 {
            false => (kind::TCPV4, kind::UDPV4, kind::IPV4),
            true => (kind::TCPV6, kind::UDPV6, kind::IPV6),
        };
        let with_ports = match flow.protocol {
            TCP => tcp,
            UDP => udp,
            _ => 0,
        };
        let (kind, ports) = if !flow.ports.is_empty() && self.types & with_ports != 0 {
            (with_ports, flow.ports)
        } else if self.types & plain != 0 {
            (plain, &[][..])
        } else {
            return None;
        };
        Some(Hash {
            value: toeplitz(&self.key, flow.addresses.iter().chain(ports)),
            // A type is the bit before its report's number.
            report: u16::try_from(kind.trailing_zeros() + 1).expect("one of 32 bits"),
        })
    }

    /// The pair of a frame with this hash.
    pub(super) fn pair(&self, hash: Option<Hash>) -> u16 {
        let entry = hash.map(|hash| hash.value as usize & (self.table.len() - 1));
        entry.map_or(self.unclassified, |entry| self.table[entry])
    }
}

/// For each bit that is set, the 32 bits of the key from there on.
fn toeplitz<'a>(key: &[u8], bytes: impl Iterator<Item = &'a u8>) -> u32 {
    let bit = |at: usize| u64::from(key[at / 8] >> (7 - at % 8) & 1);
    let mut window = (0..32).fold(0, |window, at| window << 1 | bit(at));
    let mut next = 32;
    let mut hash = 0;
    for byte in bytes {
        for place in (0..8).rev() {
            if byte >> place & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 & 0xffff_ffff;
            if next < key.len() * 8 {
                window |= bit(next);
            }
            next += 1;
        }
    }
    u32::try_from(hash).expect("32 bits are kept")
}

#[cfg(test)]
mod test {
    use super::*;

    /// The key of Microsoft's verification suite.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    fn spread(types: u32) -> Spread {
        let mut data = types.to_le_bytes().to_vec();
        data.extend([3, 0, 2, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 40]);
        data.extend(KEY);
        let (spread, senders) = Spread::by_table(&data, 4, |_| true).unwrap();
        assert_eq!(senders, 4);
        spread
    }

    /// 66.9.149.187:2794 to 161.142.100.80:1766, of the verification suite.
    fn v4(protocol: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend([66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6]);
        frame
    }

    /// 3ffe:2501:200:1fff::7, port 2794, to 3ffe:2501:200:3::1, port 1766, of the same.
    fn v6(protocol: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 64]);
        frame.extend([
            0x3f, 0xfe, 0x25, 1, 2, 0, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 7,
        ]);
        frame.extend([0x3f, 0xfe, 0x25, 1, 2, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend([0x0a, 0xea, 0x06, 0xe6]);
        frame
    }

    #[test]
    fn hashes_are_those_of_microsofts_verification_suite() {
        let all = spread(TYPES);
        let told = |spread: &Spread, frame: &[u8]| {
            spread.hash(frame).map(|hash| (hash.value, hash.report))
        };
        assert_eq!(told(&all, &v4(TCP)), Some((0x51cc_c178, 2)));
        assert_eq!(told(&all, &v4(UDP)), Some((0x51cc_c178, 3)));
        assert_eq!(told(&all, &v4(1)), Some((0x323e_8fc2, 1)));
        assert_eq!(told(&all, &v6(TCP)), Some((0x4020_7d3d, 5)));
        assert_eq!(told(&all, &v6(UDP)), Some((0x4020_7d3d, 6)));
        assert_eq!(told(&all, &v6(58)), Some((0x2cc1_8cd5, 4)));
        let plain = spread(kind::IPV4 | kind::IPV6);
        assert_eq!(told(&plain, &v4(TCP)), Some((0x323e_8fc2, 1)));
        assert_eq!(told(&plain, &v6(UDP)), Some((0x2cc1_8cd5, 4)));
        let ports = spread(kind::TCPV4 | kind::UDPV6);
        assert_eq!(told(&ports, &v4(UDP)), None);
        assert_eq!(told(&ports, &v6(UDP)), Some((0x4020_7d3d, 6)));
    }

    #[test]
    fn the_low_bits_of_a_hash_pick_the_pair_and_no_hash_has_a_pair_of_its_own() {
        let all = spread(TYPES);
        // Of the hashes above.
        assert_eq!(all.pair(all.hash(&v4(TCP))), 0);
        assert_eq!(all.pair(all.hash(&v6(TCP))), 1);
        assert_eq!(all.pair(all.hash(&[0; 60])), 2);
        assert_eq!(all.receivers(), 4);
    }
}
