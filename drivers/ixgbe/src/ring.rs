//! A ring of descriptors in memory, and the register that hands slots over.

use std::sync::atomic::{AtomicU64, Ordering};

use hugemem::Dma;
use hw::Bar;
use hw::mmio::{Reg, Rw};
use hw::ring::{observe, publish};

use crate::desc::Words;

/// A descriptor as it lies in memory.
pub(crate) type Slot = [AtomicU64; 2];

/// Fewest slots of a ring (Linux, `IXGBE_MIN_TXD`).
pub(crate) const SLOTS_MIN: usize = 64;
/// Most slots of a physical function's ring (Linux, `IXGBE_MAX_TXD_82599`; X550 has more).
pub(crate) const SLOTS_MAX: usize = 8192;
/// Most slots of a virtual function's ring (Linux, `IXGBEVF_MAX_TXD`).
pub(crate) const VF_SLOTS_MAX: usize = 4096;
/// Where a ring may begin (82599 datasheet §8.2.3.8).
pub(crate) const ALIGN: usize = 128;

/// One end of a ring: memory, and the tail register.
///
/// Driver and device own slots in turn: those from the device's head up to, not including, the
/// tail are the device's. Head and tail being equal means that the device has none, so one slot
/// always stays with the driver.
pub(crate) struct Ring<B: Bar> {
    slots: Dma<Slot>,
    bar: B,
    tail: Reg<u32, Rw>,
}

impl<B: Bar> Ring<B> {
    /// The ring in `slots`, whose tail is `tail` of `bar`.
    pub(crate) fn new(slots: Dma<Slot>, bar: B, tail: Reg<u32, Rw>) -> Self {
        Self { slots, bar, tail }
    }

    /// Slots in it.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Writes a descriptor that the device does not own.
    #[inline]
    pub(crate) fn write(&self, index: usize, [first, second]: Words) {
        let slot = &self.slots[index];
        slot[0].store(first.to_le(), Ordering::Relaxed);
        slot[1].store(second.to_le(), Ordering::Relaxed);
    }

    /// Adds bits to the second word of a descriptor that was just written.
    #[inline]
    pub(crate) fn add(&self, index: usize, bits: u64) {
        let word = &self.slots[index][1];
        let now = u64::from_le(word.load(Ordering::Relaxed));
        word.store((now | bits).to_le(), Ordering::Relaxed);
    }

    /// The second word, which says whether the device is done. What is read afterwards is no
    /// older.
    #[inline]
    pub(crate) fn second(&self, index: usize) -> u64 {
        let word = u64::from_le(self.slots[index][1].load(Ordering::Acquire));
        observe();
        word
    }

    /// The first word.
    #[inline]
    pub(crate) fn first(&self, index: usize) -> u64 {
        u64::from_le(self.slots[index][0].load(Ordering::Relaxed))
    }

    /// Hands every slot before `index` over.
    #[inline]
    pub(crate) fn hand_over(&self, index: usize) {
        publish();
        self.bar.write(self.tail, u32::try_from(index).unwrap_or(0));
    }
}

/// Makes a ring that no device owns all zero.
pub(crate) fn clear(slots: &Dma<Slot>) {
    for word in slots.iter().flatten() {
        word.store(0, Ordering::Relaxed);
    }
}
