//! Interrupts by MSI-X (82599 §7.3): causes, masks, and which vectors would be sent.
//!
//! A queue's cause is the number of the vector that `IVAR` leads it to; the others are bits 16 to
//! 30 of `EICR`, which share the vector that `IVAR_MISC` names.

/// Vectors that a physical function has.
const VECTORS: u32 = 64;
/// In `EICR`: causes of queues, and the others.
const QUEUES: u32 = 0xffff;
const OTHERS: u32 = 0x7fff_0000;
/// In an `IVAR` byte: it leads somewhere.
const VALID: u8 = 0x80;

/// Causes, masks, and what they come to.
#[derive(Default)]
pub(super) struct Interrupts {
    /// Causes of queues, by vector.
    queues: u64,
    queues_on: u64,
    /// Causes beside queues.
    others: u32,
    others_on: u32,
    /// Cleared when their interrupt is sent (`EIAC`).
    clears: u32,
    /// Masked when their interrupt is sent (`EIAM`, `EIAM_EX`), if that is on at all.
    masks: u64,
    auto_mask: bool,
    /// Where the other causes lead.
    other_vector: u8,
    /// Vectors to be sent.
    fired: u64,
    /// Interrupts sent since the count was last asked for.
    sent: u64,
}

impl Interrupts {
    /// A queue has something to say; `entry`: its `IVAR` byte.
    #[inline]
    pub(super) fn raise_queue(&mut self, entry: u8) {
        if entry & VALID == 0 {
            return;
        }
        let bit = 1u64 << (entry & 0x3f);
        self.queues |= bit;
        if self.queues_on & bit != 0 {
            self.fire(bit);
        }
    }

    /// Something else has happened.
    pub(super) fn raise(&mut self, causes: u32) {
        self.others |= causes & OTHERS;
        if self.others & self.others_on & causes != 0 {
            self.fire_other();
        }
    }

    fn fire(&mut self, bits: u64) {
        self.fired |= bits;
        self.sent += u64::from(bits.count_ones());
        // Bits 16 and up of the register that says so are the other causes', so the vectors
        // from there on are always cleared (§8.2.3.5.3).
        let clears = u64::from(self.clears & QUEUES) | !u64::from(QUEUES);
        self.queues &= !(bits & clears);
        if self.auto_mask {
            self.queues_on &= !(bits & self.masks);
        }
    }

    fn fire_other(&mut self) {
        if self.other_vector & VALID == 0 {
            return;
        }
        self.fired |= 1 << (self.other_vector & 0x3f);
        self.sent += 1;
        self.others &= !(self.clears & OTHERS);
    }

    /// Vectors that are to be sent now, each once.
    pub(super) fn take_vectors(&mut self) -> u64 {
        std::mem::take(&mut self.fired)
    }

    /// Interrupts since the last call.
    #[inline]
    pub(super) fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.sent)
    }

    /// `EICR` as it stands.
    pub(super) fn causes(&self) -> u32 {
        super::bits::low(self.queues) & QUEUES | self.others
    }

    /// `EICR` is read, which clears it.
    pub(super) fn take_causes(&mut self) -> u32 {
        let causes = self.causes();
        self.clear(causes);
        causes
    }

    /// `EICR` is written: those bits are cleared.
    pub(super) fn clear(&mut self, causes: u32) {
        self.others &= !causes;
        self.queues &= !u64::from(causes & QUEUES);
    }

    /// `EICS` is written: as if it had happened.
    pub(super) fn set_causes(&mut self, causes: u32) {
        self.set_queue_causes(u64::from(causes & QUEUES));
        self.raise(causes);
    }

    /// `EICS_EX` is written.
    pub(super) fn set_queue_causes(&mut self, vectors: u64) {
        self.queues |= vectors;
        let now = vectors & self.queues_on;
        if now != 0 {
            self.fire(now);
        }
    }

    /// `EIMS` as it stands.
    pub(super) fn mask(&self) -> u32 {
        super::bits::low(self.queues_on) & QUEUES | self.others_on
    }

    pub(super) fn queue_mask(&self) -> u64 {
        self.queues_on
    }

    /// `EIMS` is written.
    pub(super) fn enable(&mut self, causes: u32) {
        self.enable_queues(u64::from(causes & QUEUES));
        self.others_on |= causes & OTHERS;
        if self.others & self.others_on & causes != 0 {
            self.fire_other();
        }
    }

    /// `EIMS_EX` is written.
    pub(super) fn enable_queues(&mut self, vectors: u64) {
        self.queues_on |= vectors;
        let waiting = self.queues & vectors;
        if waiting != 0 {
            self.fire(waiting);
        }
    }

    /// `EIMC` is written.
    pub(super) fn disable(&mut self, causes: u32) {
        self.queues_on &= !u64::from(causes & QUEUES);
        self.others_on &= !causes;
    }

    /// `EIMC_EX` is written.
    pub(super) fn disable_queues(&mut self, vectors: u64) {
        self.queues_on &= !vectors;
    }

    /// `EIAC`, `EIAM` with its extension, `GPIE`, `IVAR_MISC` as they stand.
    pub(super) fn set_up(&mut self, clears: u32, masks: u64, gpie: u32, misc: u32) {
        self.clears = clears;
        self.masks = masks;
        self.auto_mask = gpie & 1 << 30 != 0;
        let [_, other, ..] = misc.to_le_bytes();
        self.other_vector = other;
    }
}

const _: () = assert!(VECTORS == u64::BITS);

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_masked_cause_waits_until_it_is_asked_for() {
        let mut all = Interrupts::default();
        all.set_up(QUEUES, 0, 0, 0x8100);
        all.raise_queue(0x83);
        all.raise_queue(0x03);
        assert_eq!(all.take_vectors(), 0);
        assert_eq!(all.causes(), 8);
        all.enable(8);
        assert_eq!(all.take_vectors(), 8);
        assert_eq!(all.causes(), 0, "cleared by being sent");
        all.raise(1 << 20);
        assert_eq!((all.take_vectors(), all.causes()), (0, 1 << 20));
        all.enable(1 << 20);
        assert_eq!(all.take_vectors(), 2);
        assert_eq!(all.causes(), 1 << 20, "not among those of EIAC");
        assert_eq!((all.take_causes(), all.causes()), (1 << 20, 0));
        assert_eq!(all.take_count(), 2);
    }

    #[test]
    fn a_vector_that_masks_itself_is_sent_once_and_then_waits() {
        let mut all = Interrupts::default();
        all.set_up(QUEUES, u64::MAX, 1 << 30, 0);
        all.enable_queues(1 << 40);
        all.raise_queue(0x80 | 40);
        assert_eq!(all.take_vectors(), 1 << 40);
        all.raise_queue(0x80 | 40);
        assert_eq!(all.take_vectors(), 0);
        assert_eq!(all.queue_mask(), 0);
        all.enable_queues(1 << 40);
        assert_eq!(all.take_vectors(), 1 << 40);
    }
}
