//! Ways in which a device can fail, to be switched on while it runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What can go wrong with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A reset that was asked for never ends. Counted each time the driver looks.
    StuckReset,
    /// A sent frame's completion never appears.
    TxCompletionLost,
    /// A received frame's completion never appears (the frame is in memory).
    RxCompletionLost,
    /// A received frame's completion gives a length that its buffer does not have.
    WrongLength,
    /// A completion names a buffer that the ring does not have.
    IdOutOfRange,
    /// The index of completions runs ahead of what was posted. (Rings with an index only.)
    IndexOutOfRange,
    /// The device stops in the middle of traffic and asks for a reset.
    NeedsReset,
    /// A command on the control queue, mailbox or admin queue is refused.
    CommandRefused,
    /// A command is taken and never answered.
    CommandSilent,
    /// Completions of a round come a round later. Counted once a round.
    LateCompletions,
    /// The device is gone: reads give all ones, nothing is read from or written to memory.
    Removed,
}

/// How many there are.
const KINDS: usize = Fault::Removed as usize + 1;

/// A device's faults: what is on, and how often each has struck.
#[derive(Debug, Default)]
pub struct DeviceFaults {
    /// One look tells the data path that all is well.
    any: AtomicBool,
    left: [AtomicU64; KINDS],
    done: [AtomicU64; KINDS],
}

impl DeviceFaults {
    /// Lets `fault` strike the next `times` times that it can.
    pub fn inject(&self, fault: Fault, times: u64) {
        self.left[fault as usize].store(times, Ordering::Relaxed);
        self.any.store(true, Ordering::Release);
    }

    /// Lets `fault` strike until it is cleared.
    pub fn switch_on(&self, fault: Fault) {
        self.inject(fault, u64::MAX);
    }

    /// Ends `fault`.
    pub fn clear(&self, fault: Fault) {
        self.left[fault as usize].store(0, Ordering::Relaxed);
    }

    /// How often `fault` has struck.
    #[must_use]
    pub fn done(&self, fault: Fault) -> u64 {
        self.done[fault as usize].load(Ordering::Acquire)
    }

    /// True if `fault` would strike, without letting it.
    #[must_use]
    pub fn is_on(&self, fault: Fault) -> bool {
        self.left[fault as usize].load(Ordering::Acquire) > 0
    }

    /// True if any fault was ever switched on.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Lets `fault` strike if it is on.
    #[inline]
    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        self.any() && self.strike(fault)
    }

    #[cold]
    fn strike(&self, fault: Fault) -> bool {
        let take = |left: u64| match left {
            0 => None,
            u64::MAX => Some(u64::MAX),
            left => Some(left - 1),
        };
        let left = &self.left[fault as usize];
        let struck = left
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, take)
            .is_ok();
        if struck {
            self.done[fault as usize].fetch_add(1, Ordering::AcqRel);
        }
        struck
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_fault_strikes_as_often_as_asked_and_is_counted() {
        let faults = DeviceFaults::default();
        assert!(!faults.strikes(Fault::WrongLength));
        faults.inject(Fault::WrongLength, 2);
        let struck = (0..5)
            .filter(|_| faults.strikes(Fault::WrongLength))
            .count();
        assert_eq!((struck, faults.done(Fault::WrongLength)), (2, 2));
        assert!(!faults.is_on(Fault::WrongLength));
    }

    #[test]
    fn a_fault_that_is_switched_on_stays_until_it_is_cleared() {
        let faults = DeviceFaults::default();
        faults.switch_on(Fault::CommandRefused);
        assert!((0..100).all(|_| faults.strikes(Fault::CommandRefused)));
        faults.clear(Fault::CommandRefused);
        assert!(!faults.strikes(Fault::CommandRefused));
        assert_eq!(faults.done(Fault::CommandRefused), 100);
    }
}
