//! What was counted, over all queues and all runs.

use std::sync::atomic::Ordering;

use port::{Counters, Extended};

use crate::shared::Shared;

/// Sums of what a ring's queue counted. virtio has no counters in the device.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    frames: u64,
    bytes: u64,
    errors: u64,
    kicks: u64,
    posted: u64,
}

/// Sums by ring: receive, send, receive, …
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals(Vec<Sums>);

impl Totals {
    /// Adds what the queues of a run counted.
    pub(crate) fn add(&mut self, shared: &Shared) {
        let ledgers = shared.ledgers();
        if self.0.len() < ledgers.len() {
            self.0.resize(ledgers.len(), Sums::default());
        }
        for (sums, ledger) in self.0.iter_mut().zip(ledgers) {
            let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            sums.frames += read(&ledger.frames);
            sums.bytes += read(&ledger.bytes);
            sums.errors += read(&ledger.errors);
            sums.kicks += read(&ledger.kicks);
            sums.posted += read(&ledger.posted);
        }
    }

    /// The counters that every port has. A frame without buffer is dropped by the device, which
    /// tells nobody, so none counts as missed.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for pair in self.0.chunks(2) {
            counters.rx_frames += pair[0].frames;
            counters.rx_bytes += pair[0].bytes;
            counters.rx_errors += pair[0].errors;
            if let Some(tx) = pair.get(1) {
                counters.tx_frames += tx.frames;
                counters.tx_bytes += tx.bytes;
            }
        }
        counters
    }

    /// Everything, by queue.
    pub(crate) fn extended(&self) -> Vec<Extended> {
        let mut extended = Vec::new();
        for (ring, sums) in self.0.iter().enumerate() {
            let (kind, errors, posted) = match ring.is_multiple_of(2) {
                true => ("rx", "bad_length", "armed"),
                false => ("tx", "abandoned", "posted"),
            };
            for (name, value) in [
                ("frames", sums.frames),
                ("bytes", sums.bytes),
                (errors, sums.errors),
                (posted, sums.posted),
                ("kicks", sums.kicks),
            ] {
                let name = format!("{kind}{}_{name}", ring / 2);
                extended.push(Extended { name, value });
            }
        }
        extended
    }
}
