//! Interrupts: who masks them, and which are to be sent.

use super::bits::limit;

const VECTORS: usize = limit::EXT_INTERRUPTS as usize;

/// The state of all vectors.
pub(super) struct Interrupts {
    masked: [bool; VECTORS],
    pending: [bool; VECTORS],
    /// A vector is masked by being sent.
    pub(super) auto_mask: bool,
    /// The line of INTx, which a read of `ICR` lets go.
    pub(super) line: bool,
}

impl Interrupts {
    /// As after a reset: all are masked.
    pub(super) fn new() -> Self {
        Self {
            masked: [true; VECTORS],
            pending: [false; VECTORS],
            auto_mask: false,
            line: false,
        }
    }

    /// There is reason for `vector`. True if it is sent.
    pub(super) fn raise(&mut self, vector: u8, disabled: bool) -> bool {
        let vector = usize::from(vector);
        let Some(pending) = self.pending.get_mut(vector) else {
            return false;
        };
        *pending = true;
        self.send(vector, disabled)
    }

    /// The driver masks `vector` or not. True if it is sent then.
    pub(super) fn mask(&mut self, vector: usize, masked: bool, disabled: bool) -> bool {
        if let Some(mask) = self.masked.get_mut(vector) {
            *mask = masked;
        }
        self.send(vector, disabled)
    }

    pub(super) fn is_masked(&self, vector: usize) -> bool {
        self.masked.get(vector).copied().unwrap_or(false)
    }

    fn send(&mut self, vector: usize, disabled: bool) -> bool {
        let is_due = self.pending.get(vector) == Some(&true);
        if !is_due || disabled || self.is_masked(vector) {
            return false;
        }
        self.pending[vector] = false;
        self.masked[vector] = self.auto_mask;
        self.line |= vector == 0;
        true
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_masked_vector_waits_and_one_that_masks_itself_is_sent_once() {
        let mut interrupts = Interrupts::new();
        assert!(!interrupts.raise(3, false));
        assert!(!interrupts.mask(3, false, true), "all are disabled");
        assert!(interrupts.mask(3, false, false));
        assert!(!interrupts.mask(3, false, false), "nothing is pending");
        interrupts.auto_mask = true;
        assert!(interrupts.raise(3, false));
        assert!(interrupts.is_masked(3));
        assert!(!interrupts.raise(3, false));
        assert!(interrupts.mask(3, false, false));
        assert!(!interrupts.raise(200, false), "no such vector");
    }
}
