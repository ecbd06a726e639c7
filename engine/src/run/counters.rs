//! Counters that one worker writes and anybody reads.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::outcome::Shortfall;

/// A counter with one writer: adding is a load and a store, no locked instruction.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add(&self, value: u64) {
        self.set(self.get() + value);
    }

    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What became of a lane's frames. On cache lines of its own (two, as they are fetched in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LaneSent {
    pub(super) posted: Counter,
    /// With FCS.
    pub(super) bytes: Counter,
    pub(super) abandoned: Counter,
    pub(super) late: Counter,
    pub(super) ring_full: Counter,
    pub(super) paused: Counter,
    pub(super) ended: Counter,
    /// What the rate asked for, once sending is over.
    pub(super) asked: Counter,
}

impl LaneSent {
    pub(super) fn shortfall(&self) -> Shortfall {
        Shortfall {
            late: self.late.get(),
            ring_full: self.ring_full.get(),
            paused: self.paused.get(),
            ended: self.ended.get(),
            abandoned: self.abandoned.get(),
        }
    }

    /// Frames known to be sent.
    pub(super) fn sent(&self) -> u64 {
        self.posted.get().saturating_sub(self.abandoned.get())
    }
}

/// What arrived of a lane at one receive queue.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LaneReceived {
    /// Duplicates included.
    pub(super) frames: Counter,
    /// With FCS.
    pub(super) bytes: Counter,
    pub(super) duplicated: Counter,
    pub(super) reordered: Counter,
    pub(super) too_late: Counter,
    /// Frames whose latency was taken.
    pub(super) timed: Counter,
    pub(super) latency_sum_ns: Counter,
    pub(super) latency_max_ns: Counter,
    /// Inverted, so that 0 means "none yet".
    pub(super) latency_min_inverted: Counter,
    /// In sixteenths of a nanosecond.
    pub(super) jitter_16ths: Counter,
}

/// A send queue's share of its worker's time, and what it forwarded.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct QueueSent {
    pub(super) busy_ns: Counter,
    pub(super) blocked_ns: Counter,
    /// Forwarding: frames and bytes posted, frames dropped.
    pub(super) frames: Counter,
    pub(super) bytes: Counter,
    pub(super) dropped: Counter,
    pub(super) abandoned: Counter,
}

/// What a receive queue's worker took from it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct QueueReceived {
    pub(super) busy_ns: Counter,
    pub(super) frames: Counter,
    /// With FCS.
    pub(super) bytes: Counter,
    pub(super) errors: Counter,
    pub(super) unmatched: Counter,
}

/// What workers and the control thread tell each other.
#[derive(Debug, Default)]
pub(super) struct Gate {
    stop: AtomicBool,
    /// When sending begins; 0 while that is not known.
    start_ns: AtomicU64,
    /// Workers that are ready to begin.
    ready: AtomicUsize,
    /// Send queues that are not done, and receive queues.
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// A worker is gone: nobody waits for its queues.
    broken: AtomicBool,
    /// When the last of them stopped posting.
    ended_ns: AtomicU64,
    /// Frames that senders which are done have sent to ports that receive, and what receivers
    /// which wait for the end have received there.
    expected: AtomicU64,
    arrived: AtomicU64,
}

impl Gate {
    pub(super) fn new(senders: usize) -> Self {
        Self {
            senders: AtomicUsize::new(senders),
            ..Self::default()
        }
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A worker is ready; once the run has a beginning, it is returned.
    pub(super) fn report_ready(&self) {
        self.ready.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.load(Ordering::Acquire)
    }

    pub(super) fn begin(&self, start_ns: u64) {
        self.start_ns.store(start_ns.max(1), Ordering::Release);
    }

    /// When sending begins, once that is known.
    pub(super) fn start_ns(&self) -> Option<u64> {
        Some(self.start_ns.load(Ordering::Acquire)).filter(|&start| start > 0)
    }

    /// A send queue will post nothing more.
    pub(super) fn note_end(&self, now_ns: u64) {
        self.ended_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    pub(super) fn ended_ns(&self) -> u64 {
        self.ended_ns.load(Ordering::Relaxed)
    }

    /// A send queue is done: drained, or given up.
    pub(super) fn sender_done(&self) {
        self.senders.fetch_sub(1, Ordering::AcqRel);
    }

    /// A send queue that is about to be done sent so many frames to a port that receives.
    pub(super) fn expect(&self, frames: u64) {
        self.expected.fetch_add(frames, Ordering::Relaxed);
    }

    /// So many of such frames arrived. Only said once nothing is sent any more.
    pub(super) fn note_arrived(&self, frames: u64) {
        self.arrived.fetch_add(frames, Ordering::Relaxed);
    }

    /// Whether frames may still be on their way. Known once all senders are done.
    pub(super) fn is_outstanding(&self) -> bool {
        self.arrived.load(Ordering::Relaxed) < self.expected.load(Ordering::Relaxed)
    }

    /// Whether no send queue is on the way any more.
    #[inline]
    pub(super) fn has_sent(&self) -> bool {
        self.senders.load(Ordering::Acquire) == 0 || self.broken.load(Ordering::Acquire)
    }

    /// A receive queue will tell when it is done.
    pub(super) fn receiver(&self) {
        self.receivers.fetch_add(1, Ordering::AcqRel);
    }

    /// A receive queue takes nothing more.
    pub(super) fn receiver_done(&self) {
        self.receivers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether nothing is received any more.
    #[inline]
    pub(super) fn has_received(&self) -> bool {
        self.receivers.load(Ordering::Acquire) == 0 || self.broken.load(Ordering::Acquire)
    }

    /// A worker left before its queues were done: the others end without them.
    pub(super) fn give_up(&self) {
        self.stop();
        self.broken.store(true, Ordering::Release);
    }
}
