//! What the port and its queues share: whether to run, and what was counted.
//!
//! The port changes the signal; a queue looks at it once a burst. When a device has to be started
//! over, the port resets it, and says *pause*; each queue then gives up what is in flight, clears
//! its rings, and says so; only then does the port activate the device again and say *run*. Thus
//! rings are only ever written by their owner, while the device is not looking.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hugemem::{Frame, Resident};
use port::{QueueState, SharedSignal, Signal};

/// A queue's number: its kind, and its place among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// A receive queue.
    Rx(usize),
    /// A send queue.
    Tx(usize),
}

/// What a device did that no honest one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It completed a slot that it does not have.
    Slot(usize),
    /// It completed a frame in the middle.
    Middle(usize),
    /// It wrote more into a buffer than the buffer holds.
    Length(usize),
    /// It put a frame into more buffers than it may.
    Chain(usize),
    /// It named a ring that is not the queue's.
    Ring(u32),
    /// A frame began within another.
    Torn,
}

impl Lie {
    fn pack(self) -> u64 {
        let (kind, value) = match self {
            Self::Slot(slot) => (1, slot as u64),
            Self::Middle(slot) => (2, slot as u64),
            Self::Length(len) => (3, len as u64),
            Self::Chain(buffers) => (4, buffers as u64),
            Self::Ring(ring) => (5, u64::from(ring)),
            Self::Torn => (6, 0),
        };
        kind << 32 | value & u64::from(u32::MAX)
    }

    fn explain(word: u64) -> String {
        let value = word & u64::from(u32::MAX);
        match word >> 32 & 0xff {
            1 => format!("the device completed slot {value}, which it does not have"),
            2 => format!("the device completed slot {value}, in the middle of a frame"),
            3 => format!("the device wrote {value} bytes into a buffer that holds fewer"),
            4 => format!("the device put a frame into more than {value} buffers"),
            5 => format!("the device named ring {value}, which the queue does not have"),
            _ => "the device began a frame within another".into(),
        }
    }
}

/// What one queue counts, for the control thread to read. Written by the queue's owner once a
/// burst; lines of its own, so that the counters of two queues never share one.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Ledger {
    /// The last round that the queue has cleared its rings for.
    cleared: AtomicU32,
    /// Frames that the device is done with, or that arrived.
    pub(crate) frames: AtomicU64,
    /// Frames given up when the device was reset, or that arrived damaged.
    pub(crate) errors: AtomicU64,
    /// Times that the device was told of new slots.
    pub(crate) kicks: AtomicU64,
    /// Frames or buffers given to the device.
    pub(crate) posted: AtomicU64,
    /// Send: frames copied into the data ring. Receive: frames taken from it.
    pub(crate) copied: AtomicU64,
    /// Buffers that the device passed over.
    pub(crate) skipped: AtomicU64,
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
    rx: Box<[Ledger]>,
    tx: Box<[Ledger]>,
}

impl Shared {
    /// For so many queues that run.
    pub(crate) fn new(rx: usize, tx: usize) -> Self {
        let ledgers = |count| (0..count).map(|_| Ledger::default()).collect();
        Self {
            signal: SharedSignal::new(Signal::run(1)),
            failure: AtomicU64::new(0),
            halted: AtomicBool::new(false),
            orphans: Mutex::default(),
            sets: Mutex::default(),
            rx: ledgers(rx),
            tx: ledgers(tx),
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

    /// Counters of a queue.
    #[inline]
    pub(crate) fn ledger(&self, queue: Name) -> &Ledger {
        match queue {
            Name::Rx(number) => &self.rx[number],
            Name::Tx(number) => &self.tx[number],
        }
    }

    /// Counters of all receive queues, and of all send queues.
    pub(crate) fn ledgers(&self) -> (&[Ledger], &[Ledger]) {
        (&self.rx, &self.tx)
    }

    /// Notes that a queue's rings are clear for `round`.
    pub(crate) fn clear_for(&self, queue: Name, round: u32) {
        self.ledger(queue).cleared.store(round, Ordering::Release);
    }

    /// True when every queue's rings are clear for `round`, or the queue is gone.
    pub(crate) fn all_clear(&self, round: u32) -> bool {
        self.rx
            .iter()
            .chain(&self.tx)
            .all(|ledger| ledger.cleared.load(Ordering::Acquire) >= round)
    }

    /// Notes that the device told a lie to a queue, and ends the port's work.
    #[cold]
    pub(crate) fn fail(&self, queue: Name, lie: Lie) {
        let (kind, number) = match queue {
            Name::Rx(number) => (0, number),
            Name::Tx(number) => (1, number),
        };
        let word = (number as u64) << 48 | kind << 40 | lie.pack();
        // The first lie is the one that is told.
        let _ = self
            .failure
            .compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed);
        self.set(Signal::FAILED);
    }

    /// The first lie, in words, if there was one.
    pub(crate) fn failure(&self) -> Option<String> {
        let word = self.failure.load(Ordering::Acquire);
        let kind = if word >> 40 & 1 == 0 {
            "receive"
        } else {
            "send"
        };
        (word != 0).then(|| format!("{kind} queue {}: {}", word >> 48, Lie::explain(word)))
    }

    /// Notes that the device touches no memory any more: frames may go home.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::Release);
        self.set(Signal::FAILED);
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        orphans.clear();
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.clear();
    }

    /// Keeps resident sets of a queue that was dropped, as [`Shared::adopt`] does frames.
    pub(crate) fn keep(&self, sets: impl Iterator<Item = Arc<Resident>>) {
        let mut kept = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_halted() {
            kept.extend(sets);
        }
    }

    fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// Keeps frames of a queue that was dropped while the device may still use them, until the
    /// device is halted.
    pub(crate) fn adopt(&self, queue: Name, frames: impl Iterator<Item = Frame>) {
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_halted() {
            frames.for_each(drop);
        } else {
            orphans.extend(frames);
        }
        // Nobody will write these rings again: every later round finds them clear.
        self.clear_for(queue, u32::MAX);
    }
}

/// A queue's side of the signal: what it last saw, and what it has done about it.
#[derive(Debug)]
pub(crate) struct Follower {
    shared: Arc<Shared>,
    /// The queue.
    pub(crate) name: Name,
    /// The signal under which it works.
    signal: Signal,
    /// The round for which its rings are clear.
    cleared: u32,
}

/// What a signal asks of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Work.
    Work,
    /// Nothing.
    Wait,
    /// Give up what is in flight and make the rings as new; then say [`Follower::is_clear`].
    Clear,
}

impl Follower {
    /// For a queue that begins to work now.
    pub(crate) fn new(shared: Arc<Shared>, name: Name) -> Self {
        let signal = shared.signal();
        Self {
            shared,
            name,
            signal,
            cleared: signal.round(),
        }
    }

    /// What to do now.
    #[inline]
    pub(crate) fn step(&mut self) -> Step {
        let signal = self.shared.signal();
        if signal == self.signal && signal.state() == QueueState::Running {
            return Step::Work;
        }
        self.follow()
    }

    #[cold]
    fn follow(&mut self) -> Step {
        let signal = self.shared.signal_after_all();
        match signal.state() {
            QueueState::Running if self.cleared == signal.round() => {
                self.signal = signal;
                Step::Work
            }
            QueueState::Running | QueueState::Paused if self.cleared != signal.round() => {
                Step::Clear
            }
            _ => Step::Wait,
        }
    }

    /// Notes that the rings are clear.
    pub(crate) fn is_clear(&mut self) {
        self.cleared = self.shared.signal_after_all().round();
        self.shared.clear_for(self.name, self.cleared);
    }

    /// True if the port never works again.
    pub(crate) fn has_failed(&self) -> bool {
        self.shared.signal() == Signal::FAILED
    }

    /// Whether the queue works.
    pub(crate) fn state(&self) -> QueueState {
        self.shared.signal().state()
    }

    /// The queue's counters.
    #[inline]
    pub(crate) fn ledger(&self) -> &Ledger {
        self.shared.ledger(self.name)
    }

    /// The device told a lie.
    pub(crate) fn fail(&self, lie: Lie) {
        self.shared.fail(self.name, lie);
    }

    /// What it shares with the port.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}
