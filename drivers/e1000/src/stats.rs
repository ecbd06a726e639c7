//! What the device counts, added up over resets and registers that wrap or clear themselves.

use hw::Bar;
use intel::{Counted, went};
use port::{Counters, Extended};

use crate::regs::count::{self, Row};

/// Counters that QEMU's 8254x clears by reading, as hardware clears all of them. Its others run
/// freely (QEMU, `hw/net/e1000.c`, `macreg_readops`).
const QEMU_CLEARS: &[&str] = &[
    "PRC64", "PRC127", "PRC255", "PRC511", "PRC1023", "PRC1522", "GPRC", "BPRC", "MPRC", "GPTC",
    "GORC", "GOTC", "RUC", "ROC", "TOR", "TOT", "TPR", "TPT", "PTC64", "PTC127", "PTC255",
    "PTC511", "PTC1023", "PTC1522", "MPTC", "BPTC",
];

/// Who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A physical function: every counter is cleared by reading.
    Pf,
    /// QEMU's 8254x, which clears some.
    Qemu,
    /// A virtual function: no counter is ever cleared.
    Vf,
}

/// Counters of one device, since the port was opened.
#[derive(Debug, Clone)]
pub(crate) struct Totals {
    rows: &'static [Row],
    sums: Box<[u64]>,
    /// What a counter that is never cleared showed last.
    last: Box<[u32]>,
    source: Source,
    /// Frames that queues dropped for want of buffers ([`crate::regs::QueueRegs::rqdpc`]).
    dropped: u64,
}

impl Totals {
    /// Of a physical function, whose counters are cleared by reading.
    pub(crate) fn pf() -> Self {
        Self::new(count::PF, Source::Pf)
    }

    /// Of QEMU's 8254x, of whose counters some run freely.
    pub(crate) fn qemu() -> Self {
        Self::new(count::PF, Source::Qemu)
    }

    /// Of a virtual function, whose counters run freely.
    pub(crate) fn vf() -> Self {
        Self::new(count::VF, Source::Vf)
    }

    fn new(rows: &'static [Row], source: Source) -> Self {
        Self {
            rows,
            sums: vec![0; rows.len()].into_boxed_slice(),
            last: vec![0; rows.len()].into_boxed_slice(),
            source,
            dropped: 0,
        }
    }

    /// What the registers show. A counter of 64 bits is cleared by reading its second half, so
    /// that goes last (82576 §8.18).
    fn read<B: Bar>(&self, bar: &B) -> Vec<u64> {
        let one = |row: &Row| {
            let low = u64::from(bar.read(row.low()));
            if row.wide {
                low | u64::from(bar.read(row.high())) << 32
            } else {
                low
            }
        };
        self.rows.iter().map(one).collect()
    }

    /// Adds what was counted since the last time. `is_there` is asked after the registers were
    /// read: of a device that is gone nothing is added.
    pub(crate) fn sample<B: Bar>(&mut self, bar: &B, is_there: impl FnOnce() -> bool) {
        let values = self.read(bar);
        if !is_there() {
            return;
        }
        let sums = self.sums.iter_mut().zip(&mut self.last);
        for ((row, value), (sum, last)) in self.rows.iter().zip(values).zip(sums) {
            let clears = match self.source {
                Source::Pf => true,
                Source::Qemu => QEMU_CLEARS.contains(&row.name),
                Source::Vf => false,
            };
            if clears {
                *sum += value;
            } else {
                let [a, b, c, d, ..] = value.to_le_bytes();
                let now = u32::from_le_bytes([a, b, c, d]);
                *sum += went((*last).into(), now.into(), u32::MAX.into());
                *last = now;
            }
        }
    }

    /// Reads and forgets: after a reset, and when the port is opened.
    pub(crate) fn forget<B: Bar>(&mut self, bar: &B) {
        let values = self.read(bar);
        for (last, value) in self.last.iter_mut().zip(values) {
            let [a, b, c, d, ..] = value.to_le_bytes();
            *last = u32::from_le_bytes([a, b, c, d]);
        }
    }

    /// Adds frames that queues dropped for want of buffers.
    pub(crate) fn drop_frames(&mut self, frames: u64) {
        self.dropped += frames;
    }

    fn sum(&self, names: &[&str]) -> u64 {
        let rows = self.rows.iter().zip(&self.sums);
        rows.filter(|(row, _)| names.contains(&row.name))
            .map(|(_, sum)| sum)
            .sum()
    }
}

impl Counted for Totals {
    fn counters(&self) -> Counters {
        // QEMU's 8254x leaves the octets of good frames at zero.
        let octets = |good: &[&str], total: &[&str]| match self.sum(good) {
            0 if self.source == Source::Qemu => self.sum(total),
            octets => octets,
        };
        Counters {
            tx_frames: self.sum(&["GPTC", "VFGPTC"]),
            tx_bytes: octets(&["GOTC", "VFGOTC"], &["TOT"]),
            tx_errors: self.sum(&["ECOL", "LATECOL"]),
            rx_frames: self.sum(&["GPRC", "VFGPRC"]),
            rx_bytes: octets(&["GORC", "VFGORC"], &["TOR"]),
            rx_missed: self.sum(&["MPC"]) + self.dropped,
            rx_errors: self.sum(&["CRCERRS", "ALGNERRC", "RXERRC", "RUC", "ROC"]),
        }
    }

    fn extended(&self) -> Vec<Extended> {
        let rows = self.rows.iter().zip(&self.sums);
        let mut all: Vec<_> = rows
            .map(|(row, &value)| Extended {
                name: row.name.to_owned(),
                value,
            })
            .collect();
        if self.source != Source::Vf {
            all.push(Extended {
                name: "RQDPC".to_owned(),
                value: self.dropped,
            });
        }
        all
    }
}
