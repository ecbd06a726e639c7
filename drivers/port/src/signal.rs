//! The word by which a port tells its queues what to do ([`crate::Shared`] says how it is used).

use std::sync::atomic::{AtomicU32, Ordering};

use crate::QueueState;

/// What the queues shall do: a phase, and how often the device was started over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(u32);

impl Signal {
    const RUN: u32 = 1;
    const PAUSE: u32 = 2;
    const FAIL: u32 = 3;

    /// Never work again.
    pub const FAILED: Self = Self(Self::FAIL);

    /// Work with the device, for the `round`th time.
    #[must_use]
    pub const fn run(round: u32) -> Self {
        Self(round << 2 | Self::RUN)
    }

    /// Give up what is in flight, and wait for the `round`th time.
    #[must_use]
    pub const fn pause(round: u32) -> Self {
        Self(round << 2 | Self::PAUSE)
    }

    /// The round that it is about.
    #[inline]
    #[must_use]
    pub const fn round(self) -> u32 {
        self.0 >> 2
    }

    /// What it means for a queue.
    #[inline]
    #[must_use]
    pub const fn state(self) -> QueueState {
        match self.0 & 3 {
            Self::RUN => QueueState::Running,
            Self::PAUSE => QueueState::Paused,
            _ => QueueState::Failed,
        }
    }
}

/// The signal that a port and all its queues share.
#[derive(Debug)]
pub(crate) struct SharedSignal(AtomicU32);

impl SharedSignal {
    /// One that says `signal`.
    pub(crate) const fn new(signal: Signal) -> Self {
        Self(AtomicU32::new(signal.0))
    }

    /// What to do now.
    #[inline]
    pub(crate) fn get(&self) -> Signal {
        Signal(self.0.load(Ordering::Relaxed))
    }

    /// What to do now, and to see everything that was done before it was said.
    pub(crate) fn get_after_all(&self) -> Signal {
        Signal(self.0.load(Ordering::Acquire))
    }

    /// Says what to do.
    pub(crate) fn set(&self, signal: Signal) {
        self.0.store(signal.0, Ordering::Release);
    }
}
