//! Telling the device that there are new buffers.

use std::sync::Arc;

/// Where a queue knocks: a register or an eventfd. Rung once a burst at most, and only where the
/// device asks for it, which a polling one does not.
pub(crate) trait Doorbell: Send + Sync {
    /// Tells the device.
    fn ring(&self);
}

/// A queue's way to tell its device, and when to.
pub(crate) struct Notifier {
    doorbell: Arc<dyn Doorbell>,
    kicks: u64,
    /// Bursts in a row after which the device wanted to hear nothing.
    silent: u32,
}

/// After so many bursts of which the device wanted no notice, it polls.
const POLLS: u32 = 64;

impl Notifier {
    /// A way to tell the device by `doorbell`.
    pub(crate) fn new(doorbell: Arc<dyn Doorbell>) -> Self {
        Self {
            doorbell,
            kicks: 0,
            silent: 0,
        }
    }

    /// Times that the device was told.
    pub(crate) fn kicks(&self) -> u64 {
        self.kicks
    }

    /// Tells the device of what was just published, if it wants to know.
    ///
    /// A device that goes to sleep says so and then looks once more (§2.7.13.4.1): for neither
    /// side to miss the other, what was published must be seen before its wish is read. That
    /// barrier waits for every store of the burst to reach the other core, so it is left out for
    /// a device that polls. Should such a one fall asleep all the same, the next burst, or
    /// [`Notifier::remind`], wakes it.
    #[inline]
    pub(crate) fn notify(&mut self, wanted: impl Fn() -> bool) {
        if self.silent < POLLS {
            hw::ring::settle();
        }
        if wanted() {
            self.ring();
        } else if self.silent < POLLS {
            self.silent += 1;
        }
    }

    /// Tells a device that fell asleep unseen, if there may be one.
    pub(crate) fn remind(&mut self, wanted: impl Fn() -> bool) {
        if self.silent >= POLLS {
            hw::ring::settle();
            if wanted() {
                self.ring();
            }
        }
    }

    #[cold]
    fn ring(&mut self) {
        self.silent = 0;
        self.kicks += 1;
        self.doorbell.ring();
    }
}
