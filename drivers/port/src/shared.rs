//! What a port and its queues share: whether to run, what was counted, and what outlives a queue.
//!
//! The port changes the signal; a queue looks at it once a burst (one load of a line that nobody
//! writes). When the device is lost, the port says *pause*; each queue then gives up what is in
//! flight, clears its rings, and says so; only then does the port start the device again and say
//! *run*. Thus a ring is only ever written by its owner.
//!
//! A queue that is dropped while its device runs leaves its frames here: the device may still
//! write to them. They go home when the port says that the device is halted.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hugemem::{Frame, Resident};

use crate::QueueState;
use crate::signal::{SharedSignal, Signal};

/// Which queue of a port: its kind, and its place among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueId {
    /// A receive queue.
    Rx(usize),
    /// A send queue.
    Tx(usize),
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rx(number) => write!(f, "receive queue {number}"),
            Self::Tx(number) => write!(f, "send queue {number}"),
        }
    }
}

/// A count that its owner writes, once a burst, and the control thread reads.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Notes a value. Only the owner does: there is no adding, so no locked instruction.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value that was noted last.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One queue's part; lines of its own, so that what two queues count never shares one.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part<C> {
    /// The last round that the queue has cleared its rings for.
    cleared: AtomicU32,
    counts: C,
}

impl<C> Part<C> {
    fn is_clear(&self, round: u32) -> bool {
        self.cleared.load(Ordering::Acquire) >= round
    }
}

/// What outlives the queue that it was given to.
#[derive(Debug, Default)]
struct Orphans {
    frames: Vec<Frame>,
    sets: Vec<Arc<Resident>>,
}

/// What a port and all its queues share. `C` is what a queue counts, in [`Count`]s; `L` is the
/// driver's word for what no honest device does.
#[derive(Debug)]
pub struct Shared<C, L> {
    signal: SharedSignal,
    failure: Mutex<Option<(QueueId, L)>>,
    halted: AtomicBool,
    orphans: Mutex<Orphans>,
    /// The receive queues', then the send queues'.
    parts: Box<[Part<C>]>,
    rx: usize,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Default, L: Copy + fmt::Display> Shared<C, L> {
    /// For so many receive and send queues, which begin to work.
    #[must_use]
    pub fn new(rx: usize, tx: usize) -> Arc<Self> {
        Arc::new(Self {
            signal: SharedSignal::new(Signal::run(1)),
            failure: Mutex::new(None),
            halted: AtomicBool::new(false),
            orphans: Mutex::default(),
            parts: (0..rx + tx).map(|_| Part::default()).collect(),
            rx,
        })
    }

    /// Says what to do.
    pub fn set(&self, signal: Signal) {
        self.signal.set(signal);
    }

    fn place(&self, queue: QueueId) -> usize {
        match queue {
            QueueId::Rx(number) => number,
            QueueId::Tx(number) => self.rx + number,
        }
    }

    /// What a queue counted.
    #[must_use]
    pub fn counts(&self, queue: QueueId) -> &C {
        &self.parts[self.place(queue)].counts
    }

    /// What the receive queues counted.
    pub fn rx_counts(&self) -> impl ExactSizeIterator<Item = &C> {
        self.parts[..self.rx].iter().map(|part| &part.counts)
    }

    /// What the send queues counted.
    pub fn tx_counts(&self) -> impl ExactSizeIterator<Item = &C> {
        self.parts[self.rx..].iter().map(|part| &part.counts)
    }

    /// True when every queue's rings are clear for `round`, or the queue gone.
    #[must_use]
    pub fn all_clear(&self, round: u32) -> bool {
        self.parts.iter().all(|part| part.is_clear(round))
    }

    /// True when a queue's rings are clear for `round`, or the queue gone.
    #[must_use]
    pub fn is_clear(&self, queue: QueueId, round: u32) -> bool {
        self.parts[self.place(queue)].is_clear(round)
    }

    /// The first lie that the device told, and to which queue, in words.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let failure = locked(&self.failure);
        failure.map(|(queue, lie)| format!("{queue}: {lie}"))
    }

    /// Notes that the device touches no memory any more: frames may go home.
    pub fn halt(&self) {
        self.halted.store(true, Ordering::Release);
        self.set(Signal::FAILED);
        // Frames lock their pool as they go home: not under this lock.
        let orphans = std::mem::take(&mut *locked(&self.orphans));
        drop(orphans);
    }
}

/// What a queue is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Work.
    Work,
    /// Work, for the first time since the device came back.
    Resume,
    /// Give up what is in flight and clear the rings, then say [`Follower::cleared`].
    Clear,
    /// Nothing.
    Rest,
}

/// A queue's side of what is shared: what it last saw, and what it has done about it.
#[derive(Debug)]
pub struct Follower<C, L> {
    shared: Arc<Shared<C, L>>,
    queue: QueueId,
    /// Where its part is.
    place: usize,
    /// The signal under which it works.
    signal: Signal,
    /// The round for which its rings are clear.
    cleared: u32,
}

impl<C: Default, L: Copy + fmt::Display> Follower<C, L> {
    /// Of a queue that begins to work now.
    #[must_use]
    pub fn new(shared: &Arc<Shared<C, L>>, queue: QueueId) -> Self {
        let signal = shared.signal.get();
        Self {
            shared: Arc::clone(shared),
            queue,
            place: shared.place(queue),
            signal,
            cleared: signal.round(),
        }
    }

    /// What to do in this call.
    #[inline]
    pub fn turn(&mut self) -> Turn {
        let signal = self.shared.signal.get();
        if signal == self.signal && signal.state() == QueueState::Running {
            return Turn::Work;
        }
        self.follow()
    }

    #[cold]
    fn follow(&mut self) -> Turn {
        let signal = self.shared.signal.get_after_all();
        match signal.state() {
            QueueState::Failed => Turn::Rest,
            _ if self.cleared != signal.round() => {
                // Not `signal` itself: the first turn that works is to be told from the others.
                self.signal = Signal::pause(signal.round());
                Turn::Clear
            }
            QueueState::Running => {
                self.signal = signal;
                Turn::Resume
            }
            QueueState::Paused => Turn::Rest,
        }
    }

    /// The rings are clear for the round of the last [`Turn::Clear`].
    pub fn cleared(&mut self) {
        self.cleared = self.signal.round();
        self.clear_for(self.cleared);
    }

    fn clear_for(&self, round: u32) {
        let part = &self.shared.parts[self.place];
        part.cleared.store(round, Ordering::Release);
    }

    /// Whether the queue works.
    #[must_use]
    pub fn state(&self) -> QueueState {
        self.shared.signal.get().state()
    }

    /// True once the port failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state() == QueueState::Failed
    }

    /// What the queue counts.
    #[inline]
    #[must_use]
    pub fn counts(&self) -> &C {
        &self.shared.parts[self.place].counts
    }

    /// The device told a lie: the port's work ends.
    #[cold]
    pub fn fail(&self, lie: L) {
        // The first one is told.
        locked(&self.shared.failure).get_or_insert((self.queue, lie));
        self.shared.set(Signal::FAILED);
    }

    /// The queue ends. What the device may still use is kept until the device is halted.
    pub fn leave(
        &self,
        frames: impl Iterator<Item = Frame>,
        sets: impl Iterator<Item = Arc<Resident>>,
    ) {
        let mut orphans = locked(&self.shared.orphans);
        if self.shared.halted.load(Ordering::Acquire) {
            drop(orphans);
            frames.for_each(drop);
        } else {
            orphans.frames.extend(frames);
            orphans.sets.extend(sets);
        }
        // Nobody will write these rings again: every later round finds them clear.
        self.clear_for(u32::MAX);
    }
}

#[cfg(test)]
mod test {
    use hugemem::{Memory, MemoryRequest, Pages, Pool, SimSpace};

    use super::*;

    #[derive(Debug, Default)]
    struct Ledger {
        frames: Count,
    }

    #[derive(Debug, Clone, Copy)]
    struct Lie(u32);

    impl fmt::Display for Lie {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "it said {}", self.0)
        }
    }

    type Both = Arc<Shared<Ledger, Lie>>;

    fn pool(frames: usize) -> Pool {
        let memory = Memory::new(&MemoryRequest {
            bytes: Pool::footprint(frames, 256),
            pages: Pages::HugeOrBase,
            node: None,
            spaces: vec![SimSpace::new()],
        });
        let memory = memory.expect("there is memory for a test");
        Pool::new(&memory, frames, 256).expect("the frames fit")
    }

    #[test]
    fn a_queue_clears_once_rests_and_is_told_when_the_device_is_back() {
        let shared: Both = Shared::new(1, 1);
        let mut rx = Follower::new(&shared, QueueId::Rx(0));
        let mut tx = Follower::new(&shared, QueueId::Tx(0));
        assert_eq!((rx.turn(), tx.turn()), (Turn::Work, Turn::Work));
        for round in 2..6 {
            shared.set(Signal::pause(round));
            assert_eq!(rx.turn(), Turn::Clear);
            assert_eq!(rx.turn(), Turn::Clear, "until it says that it has");
            rx.cleared();
            assert_eq!(rx.turn(), Turn::Rest);
            assert!(shared.is_clear(QueueId::Rx(0), round));
            assert!(!shared.all_clear(round), "the other one has not");
            assert_eq!(tx.turn(), Turn::Clear);
            tx.cleared();
            assert!(shared.all_clear(round));
            shared.set(Signal::run(round));
            assert_eq!((rx.turn(), rx.turn()), (Turn::Resume, Turn::Work));
            assert_eq!((tx.turn(), tx.turn()), (Turn::Resume, Turn::Work));
        }
    }

    #[test]
    fn a_queue_that_missed_the_pause_clears_before_it_works_and_still_resumes() {
        let shared: Both = Shared::new(1, 0);
        let mut rx = Follower::new(&shared, QueueId::Rx(0));
        shared.set(Signal::run(2));
        assert_eq!(rx.turn(), Turn::Clear);
        rx.cleared();
        assert_eq!((rx.turn(), rx.turn()), (Turn::Resume, Turn::Work));
    }

    #[test]
    fn the_first_lie_is_told_with_its_queue_and_ends_the_work_of_all() {
        let shared: Both = Shared::new(1, 2);
        let mut rx = Follower::new(&shared, QueueId::Rx(0));
        let tx = Follower::new(&shared, QueueId::Tx(1));
        assert_eq!(shared.failure(), None);
        tx.fail(Lie(7));
        rx.fail(Lie(8));
        assert_eq!(shared.failure().as_deref(), Some("send queue 1: it said 7"));
        assert_eq!(rx.turn(), Turn::Rest);
        assert!(rx.has_failed() && tx.has_failed());
    }

    #[test]
    fn counts_are_told_apart_by_kind_and_number() {
        let shared: Both = Shared::new(2, 2);
        let ids = [
            QueueId::Rx(0),
            QueueId::Rx(1),
            QueueId::Tx(0),
            QueueId::Tx(1),
        ];
        for (value, id) in (1..).zip(ids) {
            Follower::new(&shared, id).counts().frames.set(value);
        }
        let rx: Vec<_> = shared
            .rx_counts()
            .map(|counts| counts.frames.get())
            .collect();
        let tx: Vec<_> = shared
            .tx_counts()
            .map(|counts| counts.frames.get())
            .collect();
        assert_eq!((rx, tx), (vec![1, 2], vec![3, 4]));
        assert_eq!(shared.counts(QueueId::Tx(1)).frames.get(), 4);
    }

    #[test]
    fn what_a_queue_leaves_goes_home_when_the_device_is_halted() {
        let shared: Both = Shared::new(1, 1);
        let pool = pool(4);
        let leave = |id| {
            let frames = [pool.take(), pool.take()];
            Follower::new(&shared, id).leave(frames.into_iter().flatten(), std::iter::empty());
        };
        leave(QueueId::Rx(0));
        assert_eq!(pool.free(), 2, "the device may still write");
        assert!(shared.is_clear(QueueId::Rx(0), 9), "nobody waits for it");
        shared.halt();
        assert_eq!(pool.free(), 4);
        leave(QueueId::Tx(0));
        assert_eq!(pool.free(), 4, "a queue that ends later keeps nothing");
    }
}
