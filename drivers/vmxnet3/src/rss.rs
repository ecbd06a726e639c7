//! How received frames spread over queues (upt1_defs: `UPT1_RSSConf`).

use std::sync::atomic::{AtomicU8, Ordering};

use port::Rss;

/// Bytes of the configuration.
pub(crate) const BYTES: usize = KEY_AT + KEY + TABLE;

/// What is hashed: addresses, and ports of TCP, of IPv4 and IPv6 (upt1_defs: `UPT1_RSS_HASH_TYPE_*`).
const HASH_TYPES: u16 = 0xf;
/// Toeplitz (upt1_defs: `UPT1_RSS_HASH_FUNC_TOEPLITZ`).
const TOEPLITZ: u16 = 1;
/// Where the key begins.
const KEY_AT: usize = 8;
/// Bytes of the key (upt1_defs: `UPT1_RSS_MAX_KEY_SIZE`).
const KEY: usize = 40;
/// Most entries of the table, a byte each (upt1_defs: `UPT1_RSS_MAX_IND_TABLE_SIZE`).
const TABLE: usize = 128;

/// What `SET_RSS_FIELDS` reads: ports of TCP and of UDP over both. UDP alone is refused (defs:
/// `Vmxnet3_RSSField`).
pub(crate) const FIELDS: u32 = 0xf;

/// The key of Microsoft's "Verifying the RSS Hash Calculation", which most drivers begin with.
const DEFAULT_KEY: [u8; KEY] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Equal shares for `queues` queues.
pub(crate) fn even(queues: usize) -> Rss {
    let entries = (queues * 4).next_power_of_two().min(TABLE);
    Rss {
        key: DEFAULT_KEY.to_vec(),
        table: (0u16..)
            .zip(0..entries)
            .map(|(number, _)| number % u16::try_from(queues).unwrap_or(1))
            .collect(),
    }
}

/// What is wrong with `rss` on a port with `queues` receive queues, if anything: what is allowed.
pub(crate) fn check(rss: &Rss, offered: bool, queues: usize) -> Result<(), String> {
    if !offered {
        return Err("this device has none".into());
    }
    if rss.key.len() != KEY {
        return Err(format!("a key of {KEY} bytes"));
    }
    let entries = rss.table.len();
    if entries > TABLE || !entries.is_power_of_two() {
        return Err(format!(
            "a table of a power of two of entries, {TABLE} at most"
        ));
    }
    match rss
        .table
        .iter()
        .find(|&&queue| usize::from(queue) >= queues)
    {
        Some(queue) => Err(format!("queues 0 to {}, and none of {queue}", queues - 1)),
        None => Ok(()),
    }
}

/// Writes the configuration for the device to read.
pub(crate) fn write(rss: &Rss, memory: &[AtomicU8]) {
    let half = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
    let head = [
        HASH_TYPES,
        TOEPLITZ,
        half(rss.key.len()),
        half(rss.table.len()),
    ];
    let head = head.iter().flat_map(|value| value.to_le_bytes());
    let table = rss.table.iter().map(|&queue| queue.to_le_bytes()[0]);
    let bytes = head.chain(rss.key.iter().copied()).chain(table);
    for (cell, byte) in memory.iter().zip(bytes) {
        cell.store(byte, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn even_shares_are_even_and_pass_the_check() {
        for queues in 1..=16 {
            let rss = even(queues);
            assert_eq!(check(&rss, true, queues), Ok(()));
            for queue in 0..queues {
                let share = rss
                    .table
                    .iter()
                    .filter(|&&q| usize::from(q) == queue)
                    .count();
                assert!(
                    (rss.table.len() / queues..=rss.table.len().div_ceil(queues)).contains(&share)
                );
            }
        }
    }

    #[test]
    fn what_the_device_cannot_do_is_named() {
        let wrong = |change: fn(&mut Rss)| {
            let mut rss = even(4);
            change(&mut rss);
            check(&rss, true, 4).unwrap_err()
        };
        assert!(wrong(|rss| rss.key.truncate(39)).contains("40 bytes"));
        assert!(wrong(|rss| rss.table.truncate(15)).contains("power of two"));
        assert!(wrong(|rss| rss.table = vec![0; 256]).contains("128 at most"));
        assert!(wrong(|rss| rss.table[3] = 4).contains("none of 4"));
        assert!(check(&even(4), false, 4).is_err());
    }

    #[test]
    fn the_configuration_lies_as_the_device_reads_it() {
        let memory: Vec<_> = (0..BYTES).map(|_| AtomicU8::new(0)).collect();
        write(&even(2), &memory);
        let bytes: Vec<_> = memory.iter().map(|b| b.load(Ordering::Relaxed)).collect();
        assert_eq!(bytes[..8], [15, 0, 1, 0, 40, 0, 8, 0]);
        assert_eq!(bytes[8..10], [0x6d, 0x5a]);
        assert_eq!(bytes[48..56], [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(bytes.len(), 176);
    }
}
