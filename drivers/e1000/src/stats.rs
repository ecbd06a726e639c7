//! What the device counts, added up over resets and registers that wrap or clear themselves.

use hw::Bar;
use port::{Counters, Extended};

use crate::regs::count::{self, Row};

/// Counters of one device, since the port was opened.
#[derive(Debug, Clone)]
pub(crate) struct Totals {
    rows: &'static [Row],
    sums: Box<[u64]>,
    /// What a counter that is never cleared showed last.
    last: Box<[u32]>,
    clears: bool,
    /// Frames that queues dropped for want of buffers ([`crate::regs::QueueRegs::rqdpc`]).
    dropped: u64,
}

impl Totals {
    /// Of a physical function, whose counters are cleared by reading.
    pub(crate) fn pf() -> Self {
        Self::new(count::PF, true)
    }

    /// Of a virtual function, whose counters run freely.
    pub(crate) fn vf() -> Self {
        Self::new(count::VF, false)
    }

    fn new(rows: &'static [Row], clears: bool) -> Self {
        Self {
            rows,
            sums: vec![0; rows.len()].into_boxed_slice(),
            last: vec![0; rows.len()].into_boxed_slice(),
            clears,
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
        for ((sum, last), value) in self.sums.iter_mut().zip(&mut self.last).zip(values) {
            if self.clears {
                *sum += value;
            } else {
                let [a, b, c, d, ..] = value.to_le_bytes();
                let now = u32::from_le_bytes([a, b, c, d]);
                *sum += u64::from(now.wrapping_sub(*last));
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

    /// The counters that every port has.
    pub(crate) fn counters(&self) -> Counters {
        Counters {
            tx_frames: self.sum(&["GPTC", "VFGPTC"]),
            tx_bytes: self.sum(&["GOTC", "VFGOTC"]),
            tx_errors: self.sum(&["ECOL", "LATECOL"]),
            rx_frames: self.sum(&["GPRC", "VFGPRC"]),
            rx_bytes: self.sum(&["GORC", "VFGORC"]),
            rx_missed: self.sum(&["MPC"]) + self.dropped,
            rx_errors: self.sum(&["CRCERRS", "ALGNERRC", "RXERRC", "RUC", "ROC"]),
        }
    }

    /// Everything, by datasheet name.
    pub(crate) fn extended(&self) -> Vec<Extended> {
        let rows = self.rows.iter().zip(&self.sums);
        let mut all: Vec<_> = rows
            .map(|(row, &value)| Extended {
                name: row.name.to_owned(),
                value,
            })
            .collect();
        if self.clears {
            all.push(Extended {
                name: "RQDPC".to_owned(),
                value: self.dropped,
            });
        }
        all
    }
}
