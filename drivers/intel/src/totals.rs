//! What a device counts, added up over resets and registers that clear themselves or wrap.

use hw::Bar;
use hw::mmio::{Rc, Reg};
use port::Extended;

use crate::counter::went;

/// A counter of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<P> {
    /// Datasheet name.
    pub name: String,
    /// Its first byte.
    pub offset: u32,
    /// Where it wraps. More than 32 bits are in two registers, low half first.
    pub mask: u64,
    /// Reading clears it; else it runs freely.
    pub clears: bool,
    /// What it is part of.
    pub part: P,
}

impl<P> Row<P> {
    /// What it shows. One of two registers is cleared by reading its second half, so that goes
    /// last (82576 §8.18; 82599 datasheet §8.2.3.23).
    fn read<B: Bar>(&self, bar: &B) -> u64 {
        let one = |offset| u64::from(bar.read(Reg::<u32, Rc>::at(offset)));
        let low = one(self.offset);
        if self.mask > u64::from(u32::MAX) {
            (low | one(self.offset + 4) << 32) & self.mask
        } else {
            low
        }
    }
}

/// Counters of one device, since the port was opened, each of which is part of a `P`.
#[derive(Debug, Clone)]
pub struct Totals<P> {
    rows: Box<[Row<P>]>,
    sums: Box<[u64]>,
    /// What a counter that runs freely showed last.
    last: Box<[u64]>,
}

impl<P: PartialEq> Totals<P> {
    /// Nothing was counted yet.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = Row<P>>) -> Self {
        let rows: Box<[_]> = rows.into_iter().collect();
        let zeros = vec![0; rows.len()].into_boxed_slice();
        Self {
            sums: zeros.clone(),
            last: zeros,
            rows,
        }
    }

    fn read<B: Bar>(&self, bar: &B) -> Vec<u64> {
        self.rows.iter().map(|row| row.read(bar)).collect()
    }

    /// Adds what was counted since the last time. `is_there` is asked after the registers were
    /// read: of a device that is gone nothing is added.
    pub fn sample<B: Bar>(&mut self, bar: &B, is_there: impl FnOnce() -> bool) {
        let values = self.read(bar);
        if !is_there() {
            return;
        }
        let sums = self.sums.iter_mut().zip(&mut self.last);
        for ((row, value), (sum, last)) in self.rows.iter().zip(values).zip(sums) {
            if row.clears {
                *sum += value;
            } else {
                *sum += went(*last, value, row.mask);
                *last = value;
            }
        }
    }

    /// Reads and forgets: after a reset, and when the port is opened.
    pub fn forget<B: Bar>(&mut self, bar: &B) {
        let values = self.read(bar);
        self.last.copy_from_slice(&values);
    }

    /// The sum of the counters that are part of `part`.
    pub fn sum(&self, part: P) -> u64 {
        let rows = self.rows.iter().zip(&self.sums);
        rows.filter(|(row, _)| row.part == part)
            .map(|(_, sum)| sum)
            .sum()
    }

    /// Every counter, by its datasheet name.
    #[must_use]
    pub fn extended(&self) -> Vec<Extended> {
        let rows = self.rows.iter().zip(&self.sums);
        rows.map(|(row, &value)| Extended {
            name: row.name.clone(),
            value,
        })
        .collect()
    }
}
