//! What the port and its queues share: whether to run, and what was counted.
//!
//! The port changes the signal; a queue looks at it once a burst (one load of a line that nobody
//! writes). When the device is lost, the port says *pause*; each queue then gives up what is in
//! flight, clears its ring, and says so; only then does the port start the device again and say
//! *run*. Thus a ring is only ever written by its owner.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hugemem::{Frame, Resident};
use port::{QueueState, SharedSignal, Signal};

/// A completion that cannot be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lie {
    /// The length that it gives.
    pub(crate) len: u16,
    /// Bytes of the buffer.
    pub(crate) buffer: u16,
}

/// What one queue counts, for the control thread to read. Written by the queue's owner once a
/// burst; lines of its own, so that the counters of two queues never share one.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Ledger {
    /// The last round that the queue has cleared its ring for.
    cleared: AtomicU32,
    /// Frames that the device is done with (sending), or buffers that it filled (receiving).
    pub(crate) done: AtomicU64,
    /// Frames posted (sending), or buffers armed (receiving).
    pub(crate) posted: AtomicU64,
    /// Frames that were refused as too long, or given up when the device was lost.
    pub(crate) errors: AtomicU64,
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
    /// For `rings` rings that run: the receive queues', then the send queues'.
    pub(crate) fn new(rings: usize) -> Self {
        Self {
            signal: SharedSignal::new(Signal::run(1)),
            failure: AtomicU64::new(0),
            halted: AtomicBool::new(false),
            orphans: Mutex::default(),
            sets: Mutex::default(),
            ledgers: (0..rings).map(|_| Ledger::default()).collect(),
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

    /// Counters of ring `ring`.
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

    /// True when every ring is clear for `round`, or its queue gone.
    pub(crate) fn all_clear(&self, round: u32) -> bool {
        self.ledgers
            .iter()
            .all(|ledger| ledger.cleared.load(Ordering::Acquire) >= round)
    }

    /// Notes that the device told a lie to ring `ring`, and ends the port's work.
    #[cold]
    pub(crate) fn fail(&self, ring: usize, lie: Lie) {
        let word = 1 << 63 | (ring as u64) << 32 | u64::from(lie.len) << 16 | u64::from(lie.buffer);
        let _ = self
            .failure
            .compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed);
        self.set(Signal::FAILED);
    }

    /// The first lie, in words, if there was one.
    pub(crate) fn failure(&self) -> Option<String> {
        let word = self.failure.load(Ordering::Acquire);
        (word != 0).then(|| {
            format!(
                "ring {}: the device says that it wrote {} bytes to a buffer of {}",
                word >> 32 & 0xffff,
                word >> 16 & 0xffff,
                word & 0xffff
            )
        })
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

    /// True once the device touches no memory.
    fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// Keeps resident sets of a queue that was dropped, as [`Shared::adopt`] does frames.
    pub(crate) fn keep(&self, sets: impl Iterator<Item = Arc<Resident>>) {
        let mut kept = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_halted() {
            kept.extend(sets);
        }
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

/// Where a queue stands with the signal.
#[derive(Debug)]
pub(crate) struct Follower {
    shared: Arc<Shared>,
    /// The queue's ring, by number.
    ring: usize,
    /// The signal under which it works.
    signal: Signal,
    /// The round for which its ring is clear.
    cleared: u32,
}

/// What a queue is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Work.
    Work,
    /// Work, for the first time since the device came back.
    Resume,
    /// Give up what is in flight and clear the ring, then say [`Follower::cleared`].
    Clear,
    /// Nothing.
    Rest,
}

impl Follower {
    /// A queue on ring `ring`.
    pub(crate) fn new(shared: Arc<Shared>, ring: usize) -> Self {
        let signal = shared.signal();
        Self {
            shared,
            ring,
            signal,
            cleared: signal.round(),
        }
    }

    /// What to do in this call.
    #[inline]
    pub(crate) fn turn(&mut self) -> Turn {
        let signal = self.shared.signal();
        if signal == self.signal && signal.state() == QueueState::Running {
            return Turn::Work;
        }
        self.follow()
    }

    #[cold]
    fn follow(&mut self) -> Turn {
        let signal = self.shared.signal_after_all();
        match signal.state() {
            QueueState::Failed => {
                self.signal = signal;
                Turn::Rest
            }
            QueueState::Running if self.cleared == signal.round() => {
                self.signal = signal;
                Turn::Resume
            }
            _ if self.cleared != signal.round() => {
                self.signal = signal;
                Turn::Clear
            }
            _ => Turn::Rest,
        }
    }

    /// The ring is clear for the round of the last [`Turn::Clear`].
    pub(crate) fn cleared(&mut self) {
        self.cleared = self.signal.round();
        self.shared.clear_for(self.ring, self.cleared);
    }

    /// True once the port failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.signal().state() == QueueState::Failed
    }

    /// Whether the queue works.
    pub(crate) fn state(&self) -> QueueState {
        self.shared.signal().state()
    }

    /// The queue's counters.
    #[inline]
    pub(crate) fn ledger(&self) -> &Ledger {
        self.shared.ledger(self.ring)
    }

    /// The device told a lie.
    #[cold]
    pub(crate) fn fail(&self, lie: Lie) {
        self.shared.fail(self.ring, lie);
    }

    /// The queue ends: its frames are kept until the device is halted.
    pub(crate) fn leave(
        &self,
        frames: impl Iterator<Item = Frame>,
        sets: impl Iterator<Item = Arc<Resident>>,
    ) {
        self.shared.keep(sets);
        self.shared.adopt(self.ring, frames);
    }
}
