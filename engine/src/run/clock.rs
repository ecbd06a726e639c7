//! What the engine asks of a clock.

/// A monotonic clock that every worker reads: nanoseconds from any fixed point.
///
/// All copies of one clock agree, on every core. The engine reads it once for each visit of a
/// queue (and once more for a burst with measured frames, right after the poll), so a reading
/// should cost no more than some tens of cycles: the command line passes the time-stamp counter.
pub trait Clock: Copy + Send + 'static {
    /// Nanoseconds now.
    fn now_ns(&self) -> u64;
}

#[cfg(test)]
pub(crate) mod manual {
    //! A clock that only moves when it is read, so that pacing is tested without waiting and
    //! every run of a test is the same.

    use std::sync::atomic::{AtomicU64, Ordering};

    use super::Clock;

    /// Moves `step_ns` at each reading.
    #[derive(Clone, Copy)]
    pub(crate) struct Manual {
        now: &'static AtomicU64,
        step_ns: u64,
    }

    impl Manual {
        pub(crate) fn new(step_ns: u64) -> Self {
            // One word a test: it lives as long as the process, as threads may hold copies.
            let now = Box::leak(Box::new(AtomicU64::new(1_000_000)));
            Self { now, step_ns }
        }

        /// Jumps ahead, as a clock does for a thread that was not scheduled.
        pub(crate) fn skip(&self, ns: u64) {
            self.now.fetch_add(ns, Ordering::Relaxed);
        }
    }

    impl Clock for Manual {
        fn now_ns(&self) -> u64 {
            self.now.fetch_add(self.step_ns, Ordering::Relaxed)
        }
    }
}
