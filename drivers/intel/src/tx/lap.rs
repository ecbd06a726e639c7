//! Slots that keep their descriptors: resident frames that come round in step with the ring.

/// How many slots behind the next one hold resident frames in a row, each as many frames of the
/// set after slot 0's as it is slots away.
///
/// Once that is all of the ring, and the set's length divides the ring's, each slot holds what
/// would be written to it. Only where the device has reported is it not so, until that is put
/// back.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lap {
    /// The slots, as many as the ring has at most.
    slots: usize,
    /// The frame of the set that slot 0 holds.
    at_start: usize,
}

impl Lap {
    /// Other frames came between.
    #[inline]
    pub(super) fn end(&mut self) {
        self.slots = 0;
    }

    /// Frames from number `first` of a set of `frames` on are to be posted from slot `slot` on of
    /// a ring of `ring` slots: true if they are there already.
    #[inline]
    pub(super) fn has(&mut self, frames: usize, first: usize, slot: usize, ring: usize) -> bool {
        // A ring's slots are a power of two, and so is what divides them.
        if !frames.is_power_of_two() || frames > ring {
            self.end();
            return false;
        }
        let at_start = first.wrapping_sub(slot) & (frames - 1);
        if at_start != self.at_start {
            *self = Self { slots: 0, at_start };
        }
        self.slots == ring
    }

    /// `count` frames were posted.
    #[inline]
    pub(super) fn posted(&mut self, count: usize, ring: usize) {
        self.slots = (self.slots + count).min(ring);
    }

    /// Which of the set's `frames` slot `slot` holds, if there is such a lap.
    #[inline]
    pub(super) fn frame(&self, frames: usize, slot: usize) -> Option<usize> {
        let is_one = self.slots > 0 && frames.is_power_of_two();
        is_one.then(|| (self.at_start + slot) & (frames - 1))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_set_that_divides_the_ring_is_there_after_a_whole_lap_in_step() {
        let mut lap = Lap::default();
        for round in 0..3 {
            // Frame 3 in slot 1: slot 0 would hold frame 2.
            let (slot, first) = ((1 + 16 * round) % 32, 3);
            assert!(!lap.has(4, first, slot, 32) || round == 2, "round {round}");
            lap.posted(16, 32);
        }
        assert!(lap.has(4, 3, 1, 32));
        assert_eq!(lap.frame(4, 0), Some(2));
        assert_eq!(lap.frame(4, 31), Some(1));
        assert!(!lap.has(4, 2, 1, 32), "out of step");
        lap.posted(31, 32);
        assert!(!lap.has(4, 1, 0, 32), "a slot is missing");
        lap.end();
        assert_eq!(lap.frame(4, 0), None);
    }

    #[test]
    fn a_set_that_does_not_divide_the_ring_is_never_there() {
        let mut lap = Lap::default();
        for frames in [3, 64] {
            lap.posted(64, 32);
            assert!(!lap.has(frames, 0, 0, 32));
            assert_eq!(lap.frame(frames, 0), None);
        }
    }
}
