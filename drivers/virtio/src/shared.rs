//! What the port and its queues share: whether to run, and what was counted.
//!
//! The port changes the signal; a queue looks at it once a burst (one load of a line that nobody
//! writes). When the peer is lost, the port says *pause*; each queue then gives up what is in
//! flight, clears its ring, and says so; only then does the port let the device in again and
//! say *run*. Thus a ring is only ever written by its owner.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hugemem::{Frame, Resident};
use port::{SharedSignal, Signal};

use crate::ring::Lie;

/// What one queue counts, for the control thread to read. Written by the queue's owner once a
/// burst; lines of its own, so that the counters of two queues never share one.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Ledger {
    /// The last round that the queue has cleared its ring for.
    pub(crate) cleared: AtomicU32,
    /// Frames that the device is done with, or that arrived.
    pub(crate) frames: AtomicU64,
    /// Their bytes, FCS included.
    pub(crate) bytes: AtomicU64,
    /// Frames given up when the device was lost, or that arrived with a bad length.
    pub(crate) errors: AtomicU64,
    /// Times that the device was told.
    pub(crate) kicks: AtomicU64,
    /// Buffers given to the device.
    pub(crate) posted: AtomicU64,
}

impl Ledger {
    /// Notes a value that only the queue's owner writes.
    #[inline]
    pub(crate) fn note(counter: &AtomicU64, value: u64) {
        counter.store(value, Ordering::Relaxed);
    }
}

/// What the port and all its queues share.
#[derive(Debug)]
pub(crate) struct Shared {
    signal: SharedSignal,
    failure: AtomicU64,
    halted: AtomicBool,
    orphans: Mutex<Vec<Frame>>,
    sets: Mutex<Vec<Arc<Resident>>>,
    ledgers: Box<[Ledger]>,
}

impl Shared {
    /// For `queues` queues that run.
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            signal: SharedSignal::new(Signal::run(1)),
            failure: AtomicU64::new(0),
            halted: AtomicBool::new(false),
            orphans: Mutex::default(),
            sets: Mutex::default(),
            ledgers: (0..queues).map(|_| Ledger::default()).collect(),
        }
    }

    /// What to do now.
    #[inline]
    pub(crate) fn signal(&self) -> Signal {
        self.signal.get()
    }

    /// What to do now, and to see everything that was done before it was said.
    pub(crate) fn signal_after_all(&self) -> Signal {
        self.signal.get_after_all()
    }

    /// Says what to do.
    pub(crate) fn set(&self, signal: Signal) {
        self.signal.set(signal);
    }

    /// Counters of ring number `ring`.
    #[inline]
    pub(crate) fn ledger(&self, ring: usize) -> &Ledger {
        &self.ledgers[ring]
    }

    /// All counters, by ring.
    pub(crate) fn ledgers(&self) -> &[Ledger] {
        &self.ledgers
    }

    /// Notes that ring `ring` is clear for `round`.
    pub(crate) fn clear_for(&self, ring: usize, round: u32) {
        self.ledgers[ring].cleared.store(round, Ordering::Release);
    }

    /// True when every ring of `rings` is clear for `round`, or its queue gone.
    pub(crate) fn all_clear(&self, rings: impl IntoIterator<Item = usize>, round: u32) -> bool {
        rings
            .into_iter()
            .all(|ring| self.ledgers[ring].cleared.load(Ordering::Acquire) >= round)
    }

    /// Notes that the device told a lie to ring `ring`, and ends the port's work.
    #[cold]
    pub(crate) fn fail(&self, ring: usize, lie: Lie) {
        let word = (ring as u64) << 40 | lie.pack();
        let _ = self
            .failure
            .compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed);
        self.set(Signal::FAILED);
    }

    /// The first lie, in words, if there was one.
    pub(crate) fn failure(&self) -> Option<String> {
        let word = self.failure.load(Ordering::Acquire);
        (word != 0).then(|| format!("ring {}: {}", word >> 40, Lie::explain(word)))
    }

    /// Notes that the device touches no memory any more: frames may go home.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::Release);
        self.set(Signal::FAILED);
        let orphans = {
            let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *orphans)
        };
        drop(orphans);
        self.sets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Keeps resident sets of a queue that was dropped, as [`Shared::adopt`] does frames.
    pub(crate) fn keep(&self, sets: impl Iterator<Item = Arc<Resident>>) {
        let mut kept = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_halted() {
            kept.extend(sets);
        }
    }

    /// True once the device touches no memory.
    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// Keeps frames of a queue that was dropped while the device may still use them, until the
    /// device is halted.
    pub(crate) fn adopt(&self, ring: usize, frames: impl Iterator<Item = Frame>) {
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_halted() {
            frames.for_each(drop);
        } else {
            orphans.extend(frames);
        }
        // Nobody will write this ring again: every later round finds it clear.
        self.clear_for(ring, u32::MAX);
    }
}
