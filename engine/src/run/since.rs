//! What a send queue has counted since a trial began.

use port::TxCounts;

/// Tells a trial's frames from those that a queue sent before.
///
/// A queue counts from its start on. Frames leave a ring in order, so that those which the device
/// still had when the trial began (it was slow, or is stuck) are the next to be completed or
/// abandoned.
pub(super) struct Since {
    last: TxCounts,
    /// Frames in flight from before.
    stale: u64,
    own: TxCounts,
}

impl Since {
    /// From `now` on.
    pub(super) fn begin(now: TxCounts) -> Self {
        Self {
            last: now,
            stale: now.in_flight(),
            own: TxCounts::default(),
        }
    }

    /// Whether frames were abandoned that have not been noted.
    #[inline]
    pub(super) fn is_more_abandoned(&self, now: TxCounts) -> bool {
        now.abandoned != self.last.abandoned
    }

    /// Takes note of what the queue says `now`; what of it is the trial's.
    pub(super) fn note(&mut self, now: TxCounts) -> TxCounts {
        let completed = self.less_stale(now.completed - self.last.completed);
        let abandoned = self.less_stale(now.abandoned - self.last.abandoned);
        self.own.posted += now.posted - self.last.posted;
        self.own.completed += completed;
        self.own.abandoned += abandoned;
        self.last = now;
        self.own
    }

    fn less_stale(&mut self, count: u64) -> u64 {
        let old = count.min(self.stale);
        self.stale -= old;
        count - old
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn counts(posted: u64, completed: u64, abandoned: u64) -> TxCounts {
        TxCounts {
            posted,
            completed,
            abandoned,
        }
    }

    #[test]
    fn frames_from_before_are_the_first_to_leave_and_count_for_nothing() {
        let mut since = Since::begin(counts(100, 90, 4));
        assert_eq!(since.note(counts(110, 93, 4)), counts(10, 0, 0));
        assert_eq!(since.note(counts(110, 98, 4)), counts(10, 2, 0));
        assert!(since.is_more_abandoned(counts(110, 98, 12)));
        let own = since.note(counts(110, 98, 12));
        assert_eq!((own, own.in_flight()), (counts(10, 2, 8), 0));
    }

    #[test]
    fn a_reset_takes_along_what_was_there_before_too() {
        let mut since = Since::begin(counts(100, 90, 0));
        assert_eq!(since.note(counts(105, 91, 14)), counts(5, 0, 5));
        let own = since.note(counts(108, 93, 14));
        assert_eq!((own, own.in_flight()), (counts(8, 2, 5), 1));
    }
}
