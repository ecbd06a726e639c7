//! What is common to queues of both kinds: their rings by the rules, and why one stands still.

use hugemem::Translator;

use super::bits::{desc::COMP_GEN, limit};
use super::ring::Ring;

/// A queue cannot go on.
#[derive(Debug)]
pub(super) struct Stop {
    /// What its status says from now on.
    pub(super) error: u32,
    pub(super) sentence: String,
}

impl Stop {
    #[cold]
    pub(super) fn new(error: u32, sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self { error, sentence }
    }
}

/// How the rings of a queue are opened.
pub(super) struct Opener<'a> {
    pub(super) memory: &'a mut Translator,
    /// The revision in use.
    pub(super) revision: u8,
    /// The queue, as sentences name it: `transmit queue 0`.
    pub(super) name: String,
}

impl Opener<'_> {
    /// A ring for descriptors.
    pub(super) fn ring(&mut self, what: &str, at: u64, size: u32) -> Result<Ring, String> {
        // Since revision 7, Linux makes it a power of two (`vmxnet3_adjust_rx_ring_size`).
        let is_even = self.revision < 7 || size.is_power_of_two();
        if size == 0 || size > limit::RING || !size.is_multiple_of(limit::RING_STEP) || !is_even {
            return Err(format!("{}: {what} of {size} slots", self.name));
        }
        self.open(what, at, size)
    }

    /// A ring for completions, which holds at least one for each of `slots`.
    pub(super) fn completions(
        &mut self,
        at: u64,
        size: u32,
        slots: u32,
        most: u32,
    ) -> Result<Ring, String> {
        if size < slots || size > most || !size.is_multiple_of(limit::RING_STEP) {
            return Err(format!(
                "{}: {size} completions for {slots} slots",
                self.name
            ));
        }
        let ring = self.open("completion ring", at, size)?;
        if ring.marked(COMP_GEN) > 0 {
            return Err(format!("{}: its completion ring is not zero", self.name));
        }
        Ok(ring)
    }

    fn open(&mut self, what: &str, at: u64, size: u32) -> Result<Ring, String> {
        if at == 0 || !at.is_multiple_of(limit::RING_ALIGN) {
            return Err(format!(
                "{}: {what} at {at:#x}, not on a boundary of {} bytes",
                self.name,
                limit::RING_ALIGN
            ));
        }
        Ring::open(at, size, self.memory).map_err(|fault| format!("{}: {what}: {fault}", self.name))
    }

    /// A data ring of `count` entries of `size` bytes.
    pub(super) fn data(
        &mut self,
        at: u64,
        count: u32,
        size: u16,
        least: u16,
    ) -> Result<(), String> {
        let name = &self.name;
        let fits = (least..=limit::DATA_MAX).contains(&size);
        if !fits || !size.is_multiple_of(limit::DATA_STEP) {
            return Err(format!("{name}: entries of {size} bytes in its data ring"));
        }
        if at == 0 || !at.is_multiple_of(limit::RING_ALIGN) {
            return Err(format!("{name}: data ring at {at:#x}"));
        }
        let bytes = count as usize * usize::from(size);
        let iova = hugemem::Iova::from_device(at);
        if !self.memory.covers(iova, bytes) {
            return Err(format!("{name}: its data ring at {at:#x} is not mapped"));
        }
        Ok(())
    }
}
