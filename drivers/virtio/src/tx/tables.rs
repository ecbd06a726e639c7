//! Tables of descriptors for packets of several buffers (§2.7.5.3, §2.8.7).

use hugemem::Dma;

use crate::desc::Words;
use crate::tx::SEGMENTS;

/// Tables of [`SEGMENTS`] descriptors, used in turn. Packets are given back in ring order, so
/// the oldest table is always the next to be free.
pub(crate) struct Tables {
    memory: Dma<Words>,
    next: usize,
}

impl Tables {
    /// How many tables a ring of `slots` has.
    pub(crate) const fn count(slots: usize) -> usize {
        if slots < 8 { 1 } else { slots / 8 }
    }

    /// Descriptors in all tables of a ring of `slots`.
    pub(crate) const fn descriptors(slots: usize) -> usize {
        Self::count(slots) * SEGMENTS
    }

    /// The tables in `memory`.
    pub(crate) fn new(memory: Dma<Words>) -> Self {
        Self { memory, next: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.memory.len() / SEGMENTS
    }

    /// The next table, of `segments` descriptors, and its bus address.
    pub(crate) fn take(&mut self, segments: usize) -> (&[Words], u64) {
        let first = self.next * SEGMENTS;
        self.next = (self.next + 1) % self.len();
        let address = self.memory.iova().add((first * size_of::<Words>()) as u64);
        (&self.memory[first..first + segments], address.get())
    }
}
