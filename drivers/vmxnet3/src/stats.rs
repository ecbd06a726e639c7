//! What was counted, over all runs. The device's counters lie in the queue descriptors
//! (upt1_defs: `UPT1_TxStats`, `UPT1_RxStats`); whether they begin anew when it is activated is not
//! said anywhere, so a run counts from where they were then.
//!
//! Bytes are counted without FCS. QEMU's device counts each frame that is larger than the MTU under
//! LRO as well; LRO is never on, so that pair of counters is in no sum.

use port::{Counters, Extended};

use crate::area::{Area, queue};
use crate::plan::Parts;
use crate::shared::{Ledger, Shared};

/// Counters of a queue.
const COUNT: usize = 10;

type Values = [u64; COUNT];

const TX_NAMES: [&str; COUNT] = [
    "TSOPktsTxOK",
    "TSOBytesTxOK",
    "ucastPktsTxOK",
    "ucastBytesTxOK",
    "mcastPktsTxOK",
    "mcastBytesTxOK",
    "bcastPktsTxOK",
    "bcastBytesTxOK",
    "pktsTxError",
    "pktsTxDiscard",
];
const RX_NAMES: [&str; COUNT] = [
    "LROPktsRxOK",
    "LROBytesRxOK",
    "ucastPktsRxOK",
    "ucastBytesRxOK",
    "mcastPktsRxOK",
    "mcastBytesRxOK",
    "bcastPktsRxOK",
    "bcastBytesRxOK",
    "pktsRxOutOfBuf",
    "pktsRxError",
];
/// Where unicast, multicast and broadcast frames are; their bytes are next.
const GOOD: [usize; 3] = [2, 4, 6];
/// What is wrong with a frame: of the first kind, of the second.
const BAD: [usize; 2] = [8, 9];
/// Bytes of the FCS.
const FCS: u64 = 4;

/// The device's counters of every queue: what they are, or what was added up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Device {
    tx: Vec<Values>,
    rx: Vec<Values>,
}

impl Device {
    /// What the queue descriptors of a run say.
    pub(crate) fn read(parts: &Parts) -> Self {
        let values = |area: &Area| -> Values {
            std::array::from_fn(|number| area.get64(queue::STATS + number * 8))
        };
        Self {
            tx: parts.tx.iter().map(|memory| values(&memory.area)).collect(),
            rx: parts.rx.iter().map(|memory| values(&memory.area)).collect(),
        }
    }

    /// What was counted since `before`, added to this.
    fn add(&mut self, now: &Self, before: &Self) {
        for (sums, now, before) in [
            (&mut self.tx, &now.tx, &before.tx),
            (&mut self.rx, &now.rx, &before.rx),
        ] {
            if sums.len() < now.len() {
                sums.resize(now.len(), [0; COUNT]);
            }
            for ((sums, now), before) in sums.iter_mut().zip(now).zip(before) {
                for ((sum, now), before) in sums.iter_mut().zip(now).zip(before) {
                    *sum = sum.wrapping_add(now.wrapping_sub(*before));
                }
            }
        }
    }
}

/// What a queue counted itself.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    frames: u64,
    errors: u64,
    kicks: u64,
    posted: u64,
    copied: u64,
    skipped: u64,
}

/// Everything, over all runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    device: Device,
    tx: Vec<Own>,
    rx: Vec<Own>,
}

impl Totals {
    /// Adds what the device counted from `before` to `now`.
    pub(crate) fn add_device(&mut self, now: &Device, before: &Device) {
        self.device.add(now, before);
    }

    /// Adds what the queues of a run counted.
    pub(crate) fn add_queues(&mut self, shared: &Shared) {
        add(&mut self.rx, shared.rx_counts());
        add(&mut self.tx, shared.tx_counts());
    }

    /// The counters that every port has: the device's.
    pub(crate) fn counters(&self) -> Counters {
        let sum = |queues: &[Values], number: usize| -> u64 {
            queues.iter().map(|values| values[number]).sum()
        };
        let good = |queues: &[Values]| {
            let frames: u64 = GOOD.iter().map(|&number| sum(queues, number)).sum();
            let bytes: u64 = GOOD.iter().map(|&number| sum(queues, number + 1)).sum();
            (frames, bytes + FCS * frames)
        };
        let (tx, rx) = (&self.device.tx, &self.device.rx);
        let ((tx_frames, tx_bytes), (rx_frames, rx_bytes)) = (good(tx), good(rx));
        Counters {
            tx_frames,
            tx_bytes,
            tx_errors: sum(tx, BAD[0]) + sum(tx, BAD[1]),
            rx_frames,
            rx_bytes,
            rx_missed: sum(rx, BAD[0]),
            rx_errors: sum(rx, BAD[1]),
        }
    }

    /// Everything, by queue.
    pub(crate) fn extended(&self) -> Vec<Extended> {
        let mut all = Vec::new();
        let mut add = |kind: &str, queue: usize, name: &str, value| {
            let name = format!("{kind}{queue}_{name}");
            all.push(Extended { name, value });
        };
        for (kind, names, queues) in [
            ("tx", &TX_NAMES, &self.device.tx),
            ("rx", &RX_NAMES, &self.device.rx),
        ] {
            for (queue, values) in queues.iter().enumerate() {
                let named = names.iter().zip(values);
                named.for_each(|(name, &value)| add(kind, queue, name, value));
            }
        }
        for (queue, own) in self.tx.iter().enumerate() {
            add("tx", queue, "posted", own.posted);
            add("tx", queue, "completed", own.frames);
            add("tx", queue, "abandoned", own.errors);
            add("tx", queue, "data_ring", own.copied);
            add("tx", queue, "kicks", own.kicks);
        }
        for (queue, own) in self.rx.iter().enumerate() {
            add("rx", queue, "armed", own.posted);
            add("rx", queue, "frames", own.frames);
            add("rx", queue, "damaged", own.errors);
            add("rx", queue, "data_ring", own.copied);
            add("rx", queue, "passed_over", own.skipped);
            add("rx", queue, "kicks", own.kicks);
        }
        all
    }
}

fn add<'a>(sums: &mut Vec<Own>, ledgers: impl ExactSizeIterator<Item = &'a Ledger>) {
    if sums.len() < ledgers.len() {
        sums.resize(ledgers.len(), Own::default());
    }
    for (sums, ledger) in sums.iter_mut().zip(ledgers) {
        sums.add(ledger);
    }
}

impl Own {
    fn add(&mut self, ledger: &Ledger) {
        self.frames += ledger.frames.get();
        self.errors += ledger.errors.get();
        self.kicks += ledger.kicks.get();
        self.posted += ledger.posted.get();
        self.copied += ledger.copied.get();
        self.skipped += ledger.skipped.get();
    }
}
