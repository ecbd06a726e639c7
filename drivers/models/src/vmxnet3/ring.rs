//! Rings whose slots change hands by a generation bit.
//!
//! A slot belongs to the side that the bit says: it starts as 1 on the first lap and turns over
//! with each. Each ring has laps of its own. Slots have 16 bytes, two words of 64 bits.

use std::sync::atomic::{AtomicU64, Ordering};

use hugemem::{IommuFault, Iova, SimWords, Translator};

use super::bits::desc::COMP_GEN;

/// A ring, and where the device is in it.
pub(super) struct Ring {
    words: SimWords<[AtomicU64; 2]>,
    size: u32,
    next: u32,
    /// What the bit must be on this lap.
    generation: bool,
}

impl Ring {
    /// A ring of `size` slots at `at`, at its beginning.
    pub(super) fn open(at: u64, size: u32, memory: &mut Translator) -> Result<Self, IommuFault> {
        let words = memory.words(Iova::from_device(at), size as usize)?;
        Ok(Self {
            words,
            size,
            next: 0,
            generation: true,
        })
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// The slot that comes next.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// The next slot's words if `bit` of the second shows this lap's generation.
    #[inline]
    pub(super) fn peek(&self, bit: u64) -> Option<[u64; 2]> {
        let [first, second] = self.words.get(self.next as usize)?;
        let second = u64::from_le(second.load(Ordering::Acquire));
        let is_ours = (second & bit != 0) == self.generation;
        is_ours.then(|| [u64::from_le(first.load(Ordering::Relaxed)), second])
    }

    /// Goes on to the next slot.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.next += 1;
        if self.next >= self.size {
            self.next = 0;
            self.generation = !self.generation;
        }
    }

    /// Writes a completion into the next slot, with the generation of this lap, and goes on. The
    /// word with the generation is written last.
    #[inline]
    pub(super) fn put(&mut self, [first, second]: [u64; 2]) {
        let Some(slot) = self.words.get(self.next as usize) else {
            return;
        };
        let generation = if self.generation { COMP_GEN } else { 0 };
        slot[0].store(first.to_le(), Ordering::Relaxed);
        slot[1].store((second | generation).to_le(), Ordering::Release);
        self.advance();
    }

    /// How many slots show the first lap's generation in `bit`.
    pub(super) fn marked(&self, bit: u64) -> usize {
        let shows =
            |slot: &&[AtomicU64; 2]| u64::from_le(slot[1].load(Ordering::Acquire)) & bit != 0;
        self.words.iter().filter(shows).count()
    }

    /// True while the ring is mapped.
    pub(super) fn is_mapped(&self, memory: &mut Translator) -> bool {
        memory.covers(self.words.iova, self.words.len)
    }
}
