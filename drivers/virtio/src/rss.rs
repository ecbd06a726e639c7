//! Receive-side scaling: the device picks a frame's queue by a hash of its addresses and ports
//! (§5.1.6.5.7), and says what the hash was (§5.1.6.4.4).

use port::Rss;

bitflags::bitflags! {
    /// What a hash is made of (§5.1.6.4.3.1).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(crate) struct HashTypes: u32 {
        /// Addresses of IPv4.
        const IPV4 = 1 << 0;
        /// Those, and ports of TCP.
        const TCPV4 = 1 << 1;
        /// Those, and ports of UDP.
        const UDPV4 = 1 << 2;
        /// Addresses of IPv6.
        const IPV6 = 1 << 3;
        /// Those, and ports of TCP.
        const TCPV6 = 1 << 4;
        /// Those, and ports of UDP.
        const UDPV6 = 1 << 5;
    }
}

/// Fewest bytes of a key: what hashing addresses of IPv6 and ports takes, which every device must
/// hold (§5.1.4.1).
const KEY: usize = 40;
/// Most entries of a table that the driver sets: more than any device is known to have, and they
/// fit a command.
const TABLE_MAX: usize = 1024;

/// The key of Microsoft's "Verifying the RSS Hash Calculation", which most drivers begin with.
const DEFAULT_KEY: [u8; KEY] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// How a device can spread, as its configuration says (§5.1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ability {
    key_bytes: usize,
    entries: usize,
    /// What it hashes of what the driver knows.
    pub(crate) types: HashTypes,
}

impl Ability {
    /// With keys of up to `key_bytes` bytes, tables of up to `entries` entries, and hashes of
    /// `types`, whose unknown bits are passed over. None where that is too little to spread by:
    /// a device that keeps to the standard has more.
    pub(crate) fn new(key_bytes: u8, entries: u16, types: u32) -> Option<Self> {
        let ability = Self {
            key_bytes: usize::from(key_bytes),
            entries: usize::from(entries).min(TABLE_MAX),
            types: HashTypes::from_bits_truncate(types),
        };
        let will_do = ability.key_bytes >= KEY && ability.entries > 0 && !ability.types.is_empty();
        will_do.then_some(ability)
    }

    /// Equal shares for `queues` queues.
    pub(crate) fn even(self, queues: usize) -> Rss {
        let queues = queues.max(1);
        let most = 1 << self.entries.ilog2();
        let entries = (queues * 16).next_power_of_two().min(most);
        let queue = |entry: usize| u16::try_from(entry % queues).unwrap_or(0);
        Rss {
            key: DEFAULT_KEY.to_vec(),
            table: (0..entries).map(queue).collect(),
        }
    }

    /// Checks `rss` for `queues` receive queues.
    ///
    /// # Errors
    /// What would be possible instead, in words.
    pub(crate) fn check(self, rss: &Rss, queues: usize) -> Result<(), String> {
        let Self {
            key_bytes, entries, ..
        } = self;
        if !(KEY..=key_bytes).contains(&rss.key.len()) {
            return Err(match key_bytes {
                KEY => format!("a key of {KEY} bytes"),
                _ => format!("a key of {KEY} to {key_bytes} bytes"),
            });
        }
        let len = rss.table.len();
        if len > entries || !len.is_power_of_two() {
            return Err(format!(
                "a table of a power of two of entries, {entries} at most"
            ));
        }
        let strange = |queue: &&u16| usize::from(**queue) >= queues;
        match rss.table.iter().find(strange) {
            Some(queue) => Err(format!("queues below {queues}, and none of {queue}")),
            None => Ok(()),
        }
    }
}

/// The data of the command that sets all of it (§5.1.6.5.7.1): hash types, mask, the queue of
/// frames without a hash, table, send queues in use, key. A queue is told by its pair's number.
pub(crate) fn command_data(types: HashTypes, rss: &Rss, pairs: u16) -> Vec<u8> {
    const UNCLASSIFIED: u16 = 0;
    let mask = u16::try_from(rss.table.len() - 1).expect("a table has few entries");
    let key_bytes = u8::try_from(rss.key.len()).expect("a key has few bytes");
    let mut data = types.bits().to_le_bytes().to_vec();
    data.extend(mask.to_le_bytes());
    data.extend(UNCLASSIFIED.to_le_bytes());
    data.extend(rss.table.iter().flat_map(|queue| queue.to_le_bytes()));
    data.extend(pairs.to_le_bytes());
    data.push(key_bytes);
    data.extend(&rss.key);
    data
}

#[cfg(test)]
mod test {
    use super::*;

    fn ability() -> Ability {
        Ability::new(52, 128, 0x1ff).unwrap()
    }

    #[test]
    fn a_device_that_says_too_little_spreads_nothing() {
        assert_eq!(Ability::new(39, 128, 0x3f), None, "a key too short");
        assert_eq!(Ability::new(40, 0, 0x3f), None, "no table");
        assert_eq!(
            Ability::new(40, 128, 0x1c0),
            None,
            "hashes of what is unknown"
        );
        let least = Ability::new(40, 1, 1).unwrap();
        assert_eq!(least.even(4).table, [0]);
        assert_eq!(ability().types, HashTypes::all());
    }

    #[test]
    fn even_shares_are_even_and_pass_the_check() {
        for queues in 1..=128 {
            let rss = ability().even(queues);
            assert_eq!(ability().check(&rss, queues), Ok(()));
            for queue in 0..queues {
                let is_its = |entry: &&u16| usize::from(**entry) == queue;
                let share = rss.table.iter().filter(is_its).count();
                let entries = rss.table.len();
                assert!((entries / queues..=entries.div_ceil(queues)).contains(&share));
            }
        }
        let odd = Ability::new(40, 100, 1).unwrap();
        assert_eq!(odd.even(8).table.len(), 64, "a power of two that fits");
    }

    #[test]
    fn what_the_device_cannot_do_is_named() {
        let wrong = |change: fn(&mut Rss)| {
            let mut rss = ability().even(4);
            change(&mut rss);
            ability().check(&rss, 4).unwrap_err()
        };
        assert!(wrong(|rss| rss.key.truncate(39)).contains("40 to 52 bytes"));
        assert!(wrong(|rss| rss.key = vec![1; 53]).contains("40 to 52 bytes"));
        assert!(wrong(|rss| rss.table.clear()).contains("128 at most"));
        assert!(wrong(|rss| rss.table.truncate(3)).contains("power of two"));
        assert!(wrong(|rss| rss.table = vec![0; 256]).contains("128 at most"));
        assert!(wrong(|rss| rss.table[1] = 4).contains("none of 4"));
    }

    #[test]
    fn the_command_has_the_bytes_that_the_standard_says() {
        let rss = Rss {
            key: (0..40).collect(),
            table: vec![0, 1, 2, 0x102],
        };
        let data = command_data(HashTypes::IPV4 | HashTypes::UDPV6, &rss, 3);
        let head = [
            0x21, 0, 0, 0, // hash types
            3, 0, // mask
            0, 0, // unclassified
            0, 0, 1, 0, 2, 0, 2, 1, // table
            3, 0,  // send queues
            40, // key
        ];
        assert_eq!(data[..head.len()], head);
        assert_eq!(data[head.len()..], rss.key);
    }
}
