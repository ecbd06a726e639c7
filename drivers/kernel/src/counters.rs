//! What the kernel counts of an interface, whoever sends and receives there.

use std::{fs, io};

use port::Extended;

use crate::interface::{TABLE, lines};

/// The columns of the kernel's table (`dev_seq_printf_stats` in Linux's net-procfs.c), by the
/// names that `ip -statistics link` and `/sys/class/net` know.
const NAMES: [&str; 16] = [
    "if_rx_bytes",
    "if_rx_packets",
    "if_rx_errors",
    "if_rx_dropped",
    "if_rx_fifo_errors",
    "if_rx_frame_errors",
    "if_rx_compressed",
    "if_multicast",
    "if_tx_bytes",
    "if_tx_packets",
    "if_tx_errors",
    "if_tx_dropped",
    "if_tx_fifo_errors",
    "if_collisions",
    "if_tx_carrier_errors",
    "if_tx_compressed",
];

/// An interface's counters, in the order of [`NAMES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted([u64; NAMES.len()]);

impl Counted {
    /// Those of the interface `name`; none if the table does not have it.
    pub(crate) fn read(name: &str) -> io::Result<Option<Self>> {
        Ok(Self::of(&fs::read_to_string(TABLE)?, name))
    }

    fn of(table: &str, name: &str) -> Option<Self> {
        let (_, numbers) = lines(table).find(|(found, _)| *found == name)?;
        let mut counted = Self::default();
        let numbers = numbers.split_ascii_whitespace();
        for (place, number) in counted.0.iter_mut().zip(numbers) {
            *place = number.parse().ok()?;
        }
        Some(counted)
    }

    /// By name, what was counted after `before`.
    pub(crate) fn since(&self, before: &Self) -> Vec<Extended> {
        let pairs = self.0.iter().zip(before.0);
        NAMES
            .iter()
            .zip(pairs)
            .map(|(name, (now, before))| Extended {
                name: (*name).into(),
                value: now.wrapping_sub(before),
            })
            .collect()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const TABLE: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       1       2    3    4    5     6          7         8        9      10   11   12   13    14      15         16
veth.7:21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
";

    #[test]
    fn the_kernels_table_is_read_by_name() {
        let counted = Counted::of(TABLE, "veth.7").unwrap();
        let by_name = counted.since(&Counted::of(TABLE, "lo").unwrap());
        assert!(by_name.iter().all(|counter| counter.value == 20));
        let all = counted.since(&Counted::default());
        let value = |name: &str| {
            all.iter()
                .find(|counter| counter.name == name)
                .unwrap()
                .value
        };
        assert_eq!(value("if_rx_packets"), 22);
        assert_eq!(value("if_tx_dropped"), 32);
        assert_eq!(Counted::of(TABLE, "veth"), None);
    }
}
