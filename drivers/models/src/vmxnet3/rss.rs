//! Spreading received frames over queues: the Toeplitz hash of addresses and ports.

use super::bits::command;
use super::packet::{Ip, Packet, TCP, UDP};

/// What `UPT1_RSSConf` holds: types, function, sizes, key, table.
pub(super) const CONF_BYTES: usize = 8 + KEY + TABLE;
const KEY: usize = 40;
const TABLE: usize = 128;
const TOEPLITZ: u16 = 1;

/// `hashType`: which headers are hashed.
mod kind {
    pub(super) const IPV4: u16 = 1;
    pub(super) const TCP_IPV4: u16 = 2;
    pub(super) const IPV6: u16 = 4;
    pub(super) const TCP_IPV6: u16 = 8;
    pub(super) const ALL: u16 = 0xf;
}

/// Fields that revision 4 adds, as `SET_RSS_FIELDS` has them.
pub(super) mod field {
    pub(crate) const UDPIP4: u32 = 4;
    pub(crate) const UDPIP6: u32 = 8;
    /// TCP over both, which is always hashed.
    pub(crate) const TCP: u32 = 3;
    /// What the model can do.
    pub(crate) const ALL: u32 = TCP | UDPIP4 | UDPIP6;
}

/// What a driver has asked for.
pub(super) struct Rss {
    types: u16,
    key: [u8; KEY],
    table: Vec<u8>,
}

/// A frame's hash, and what it was made of (`rssType` in its completion).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash {
    pub(super) value: u32,
    pub(super) kind: u8,
}

impl Rss {
    /// Reads what the driver wrote; the rule that it breaks, otherwise.
    pub(super) fn parse(conf: &[u8], queues: u8) -> Result<Self, String> {
        let word = |at: usize| u16::from_le_bytes([conf[at], conf[at + 1]]);
        let [types, function, key, table] = [0, 2, 4, 6].map(word);
        if types & !kind::ALL != 0 {
            return Err(format!("hash types {types:#x}"));
        }
        if function != TOEPLITZ {
            return Err(format!("hash function {function}, which is not Toeplitz"));
        }
        let (key, entries) = (usize::from(key), usize::from(table));
        if key != KEY || entries == 0 || entries > TABLE {
            return Err(format!("key of {key} bytes, table of {entries}"));
        }
        let table = conf[8 + KEY..8 + KEY + entries].to_vec();
        if let Some(queue) = table.iter().find(|queue| **queue >= queues) {
            return Err(format!("queue {queue} in the table, of {queues}"));
        }
        Ok(Self {
            types,
            key: *conf[8..].first_chunk().expect("room for a key"),
            table,
        })
    }

    /// The hash of the frame that begins with `head`. None: there is nothing to hash.
    pub(super) fn hash(&self, head: &[u8], fields: u32) -> Option<Hash> {
        let packet = Packet::find(head)?;
        let addresses = packet.addresses(head)?;
        let v4 = packet.ip == Ip::V4;
        let (tcp, udp, plain) = if v4 {
            (kind::TCP_IPV4, field::UDPIP4, kind::IPV4)
        } else {
            (kind::TCP_IPV6, field::UDPIP6, kind::IPV6)
        };
        if let Some(ports) = packet.ports(head) {
            let number = match packet.protocol {
                TCP if self.types & tcp != 0 => Some(if v4 { 2 } else { 4 }),
                UDP if fields & udp != 0 => Some(if v4 { 5 } else { 6 }),
                _ => None,
            };
            if let Some(number) = number {
                let value = toeplitz(&self.key, addresses.iter().chain(ports));
                return Some(Hash {
                    value,
                    kind: number,
                });
            }
        }
        (self.types & plain != 0).then(|| Hash {
            value: toeplitz(&self.key, addresses.iter()),
            kind: if v4 { 1 } else { 3 },
        })
    }

    /// The queue of a frame with this hash.
    pub(super) fn queue(&self, hash: Option<Hash>) -> usize {
        let Some(hash) = hash else { return 0 };
        usize::from(self.table[hash.value as usize % self.table.len()])
    }
}

/// Fields that are asked for, and those of them that can be had.
pub(super) fn applied(wanted: u32) -> u32 {
    wanted & field::ALL
}

/// The rule that a request for fields breaks: UDP is hashed beside TCP, not instead (DPDK commit
/// 52ec00fd14 found ESXi to refuse the one without the other).
pub(super) fn fields_flaw(wanted: u32) -> Option<String> {
    let number = command::SET_RSS_FIELDS;
    (wanted & field::TCP != field::TCP)
        .then(|| format!("command {number:#x} with fields {wanted:#x}, without those of TCP"))
}

/// The hash that Microsoft's "Scalable networking with RSS" describes.
fn toeplitz<'a>(key: &[u8; KEY], bytes: impl Iterator<Item = &'a u8>) -> u32 {
    let mut window = u32::from_be_bytes(*key.first_chunk().expect("a longer key"));
    let mut hash = 0;
    for (byte, coming) in bytes.zip(&key[4..]) {
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | u32::from(coming >> bit & 1);
        }
    }
    hash
}

#[cfg(test)]
mod test {
    use super::*;

    /// The key that Microsoft's verification suite uses.
    const SAMPLE: [u8; KEY] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    fn conf(types: u16) -> Vec<u8> {
        let mut conf = Vec::new();
        for word in [types, TOEPLITZ, 40, 4] {
            conf.extend(word.to_le_bytes());
        }
        conf.extend(SAMPLE);
        conf.extend([0, 1, 2, 1]);
        conf.resize(CONF_BYTES, 0);
        conf
    }

    /// 66.9.149.187:2794 to 161.142.100.80:1766, of the verification suite.
    fn v4(protocol: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend([66, 9, 149, 187, 161, 142, 100, 80]);
        frame.extend([0x0a, 0xea, 0x06, 0xe6]);
        frame.resize(74, 0);
        frame
    }

    #[test]
    fn hashes_are_those_of_the_verification_suite() {
        let rss = Rss::parse(&conf(kind::ALL), 3).unwrap();
        let of = |protocol, fields| rss.hash(&v4(protocol), fields).unwrap();
        let (ports, addresses) = (0x51cc_c178, 0x323e_8fc2);
        let hash = |value, kind| Hash { value, kind };
        assert_eq!(of(TCP, 0), hash(ports, 2));
        assert_eq!(of(UDP, 0), hash(addresses, 1));
        assert_eq!(of(UDP, field::UDPIP4), hash(ports, 5));
        assert_eq!(of(1, field::ALL), hash(addresses, 1));
        assert_eq!(rss.hash(&[0; 60], 0), None);
        // The last two bits of the hash are the entry in a table of four.
        assert_eq!(rss.queue(Some(of(TCP, 0))), 0);
        assert_eq!(rss.queue(Some(of(UDP, 0))), 2);
        assert_eq!(rss.queue(None), 0);
    }

    #[test]
    fn what_a_driver_must_not_ask_for_is_named() {
        let with = |at: usize, value: u8| {
            let mut conf = conf(kind::ALL);
            conf[at] = value;
            Rss::parse(&conf, 3).err().unwrap_or_default()
        };
        assert!(with(0, 0x1f).contains("hash types"));
        assert!(with(2, 2).contains("Toeplitz"));
        assert!(with(4, 39).contains("key of 39"));
        assert!(with(6, 129).contains("table of 129"));
        assert!(with(6, 0).contains("table of 0"));
        assert!(with(48, 3).contains("queue 3 in the table, of 3"));
        assert_eq!(with(52, 9), "", "behind the table");
        assert!(fields_flaw(field::UDPIP4).is_some());
        assert!(fields_flaw(field::ALL).is_none());
    }
}
