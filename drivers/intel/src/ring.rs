//! A ring of descriptors in memory, and the register that hands slots over.

use std::sync::atomic::{AtomicU64, Ordering};

use hugemem::Dma;
use hw::Bar;
use hw::mmio::{Reg, Rw};
use hw::ring::{observe, publish};

use crate::format::Words;

/// A descriptor as it lies in memory.
pub type Slot = [AtomicU64; 2];

/// Where a ring may begin, in bytes (82599 datasheet §8.2.3.8; DPDK's choice for older ones, more
/// than the 16 bytes that their datasheets ask for).
pub const ALIGN: usize = 128;

/// One end of a ring: memory, and the tail register.
///
/// Driver and device own slots in turn: those from the device's head up to, not including, the
/// tail are the device's. Head and tail being equal means that the device has none, so one slot
/// always stays with the driver.
pub struct Ring<B: Bar> {
    slots: Dma<Slot>,
    bar: B,
    tail: Reg<u32, Rw>,
}

impl<B: Bar> Ring<B> {
    /// The ring in `slots`, whose tail is `tail` of `bar`.
    pub fn new(slots: Dma<Slot>, bar: B, tail: Reg<u32, Rw>) -> Self {
        Self { slots, bar, tail }
    }

    /// Slots in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it has no slots at all, which no ring of a device has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Writes a descriptor that the device does not own.
    #[inline]
    pub fn write(&self, index: usize, [first, second]: Words) {
        let slot = &self.slots[index];
        slot[0].store(first.to_le(), Ordering::Relaxed);
        slot[1].store(second.to_le(), Ordering::Relaxed);
    }

    /// Writes a descriptor for each of `items`, which are no more than the ring has slots, from slot
    /// `from` on and round the ring's end. The device owns none of them.
    #[inline]
    pub fn write_each<T>(&self, from: usize, items: &[T], mut words: impl FnMut(&T) -> Words) {
        // Two straight runs: no index is checked for each.
        let (to_end, slots) = (self.slots.len() - from, &self.slots[..]);
        let (first, rest) = items.split_at(items.len().min(to_end));
        let mut write = |slots: &[Slot], items: &[T]| {
            for (slot, item) in slots.iter().zip(items) {
                let [first, second] = words(item);
                slot[0].store(first.to_le(), Ordering::Relaxed);
                slot[1].store(second.to_le(), Ordering::Relaxed);
            }
        };
        write(&slots[from..], first);
        write(slots, rest);
    }

    /// Adds bits to the second word of a descriptor that was just written.
    #[inline]
    pub fn add(&self, index: usize, bits: u64) {
        let word = &self.slots[index][1];
        let now = u64::from_le(word.load(Ordering::Relaxed));
        word.store((now | bits).to_le(), Ordering::Relaxed);
    }

    /// The second word, which says whether the device is done. What is read afterwards is no
    /// older.
    #[inline]
    pub fn second(&self, index: usize) -> u64 {
        let word = u64::from_le(self.slots[index][1].load(Ordering::Acquire));
        observe();
        word
    }

    /// The first word.
    #[inline]
    pub fn first(&self, index: usize) -> u64 {
        u64::from_le(self.slots[index][0].load(Ordering::Relaxed))
    }

    /// Hands every slot before `index` over.
    #[inline]
    pub fn hand_over(&self, index: usize) {
        publish();
        self.bar.write(self.tail, u32::try_from(index).unwrap_or(0));
    }
}

/// Makes a ring that no device owns all zero.
pub fn clear(slots: &Dma<Slot>) {
    for word in slots.iter().flatten() {
        word.store(0, Ordering::Relaxed);
    }
}
