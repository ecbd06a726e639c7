//! What was counted, over all queues and all runs.

use port::{Counters, Extended};

use crate::shared::{Ledger, Shared};

/// Sums of what a queue counted. virtio has no counters in the device.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    frames: u64,
    bytes: u64,
    errors: u64,
    kicks: u64,
    posted: u64,
}

impl Sums {
    fn add(&mut self, ledger: &Ledger) {
        self.frames += ledger.frames.get();
        self.bytes += ledger.bytes.get();
        self.errors += ledger.errors.get();
        self.kicks += ledger.kicks.get();
        self.posted += ledger.posted.get();
    }
}

/// Sums by queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    rx: Vec<Sums>,
    tx: Vec<Sums>,
}

impl Totals {
    /// Adds what the queues of a run counted.
    pub(crate) fn add(&mut self, shared: &Shared) {
        add(&mut self.rx, shared.rx_counts());
        add(&mut self.tx, shared.tx_counts());
    }

    /// The counters that every port has. A frame without buffer is dropped by the device, which
    /// tells nobody, so none counts as missed.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for rx in &self.rx {
            counters.rx_frames += rx.frames;
            counters.rx_bytes += rx.bytes;
            counters.rx_errors += rx.errors;
        }
        for tx in &self.tx {
            counters.tx_frames += tx.frames;
            counters.tx_bytes += tx.bytes;
        }
        counters
    }

    /// Everything, by queue.
    pub(crate) fn extended(&self) -> Vec<Extended> {
        let mut extended = Vec::new();
        for (kind, errors, posted, queues) in [
            ("rx", "bad_length", "armed", &self.rx),
            ("tx", "abandoned", "posted", &self.tx),
        ] {
            for (queue, sums) in queues.iter().enumerate() {
                for (name, value) in [
                    ("frames", sums.frames),
                    ("bytes", sums.bytes),
                    (errors, sums.errors),
                    (posted, sums.posted),
                    ("kicks", sums.kicks),
                ] {
                    let name = format!("{kind}{queue}_{name}");
                    extended.push(Extended { name, value });
                }
            }
        }
        extended
    }
}

fn add<'a>(sums: &mut Vec<Sums>, ledgers: impl ExactSizeIterator<Item = &'a Ledger>) {
    if sums.len() < ledgers.len() {
        sums.resize(ledgers.len(), Sums::default());
    }
    for (sums, ledger) in sums.iter_mut().zip(ledgers) {
        sums.add(ledger);
    }
}
