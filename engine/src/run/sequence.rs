//! Which frames of a lane have arrived: loss, duplicates and reordering told apart.

/// Sequence numbers that a window remembers. A duplicate or late frame up to so far behind the
/// newest is recognised exactly.
pub(super) const WINDOW: u64 = 4096;
const WORDS: usize = (WINDOW / 64) as usize;

/// What an arrival was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Newer than all before.
    New,
    /// Not here before, though a later one was: reordered (RFC 4737 §3.3).
    Reordered,
    /// Here before.
    Duplicate,
    /// So far behind that nobody remembers.
    TooLate,
}

/// The last [`WINDOW`] sequence numbers of a lane: a bit for each that has arrived.
///
/// A bit stands for the newest number with its remainder, so nothing need be cleared while numbers
/// arrive in order; a gap clears the bits it jumps over.
///
/// Numbers are 32 bits wide in the frame and go on for ever here: each is taken as the one
/// nearest to what is expected.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// One more than the newest that has arrived; 0 at first.
    next: u64,
    bits: [u64; WORDS],
}

impl Window {
    pub(super) const fn new() -> Self {
        Self {
            next: 0,
            bits: [0; WORDS],
        }
    }

    /// Notes the arrival of `sequence`.
    #[inline]
    pub(super) fn note(&mut self, sequence: u32) -> Arrival {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        let expected = self.next as u32;
        if sequence == expected {
            let (word, bit) = place(self.next);
            self.bits[word] |= bit;
            self.next += 1;
            return Arrival::New;
        }
        self.note_other(sequence.wrapping_sub(expected))
    }

    /// An arrival `distance` from what was expected, in two's complement.
    fn note_other(&mut self, distance: u32) -> Arrival {
        let ahead = distance.cast_signed();
        if ahead > 0 {
            let number = self.next + u64::from(distance);
            // Everything in between has not arrived; beyond the window it does not matter.
            let first = self.next.max((number + 1).saturating_sub(WINDOW));
            for skipped in first..number {
                let (word, bit) = place(skipped);
                self.bits[word] &= !bit;
            }
            let (word, bit) = place(number);
            self.bits[word] |= bit;
            self.next = number + 1;
            return Arrival::New;
        }
        let behind = u64::from(ahead.unsigned_abs());
        if behind > WINDOW || behind > self.next {
            return Arrival::TooLate;
        }
        let (word, bit) = place(self.next - behind);
        if self.bits[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.bits[word] |= bit;
        Arrival::Reordered
    }
}

#[inline]
fn place(number: u64) -> (usize, u64) {
    let word = (number / 64 % WORDS as u64) as usize;
    (word, 1 << (number % 64))
}
