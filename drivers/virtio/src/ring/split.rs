//! A split ring (§2.7): the table of descriptors, the available ring and the used ring.
//!
//! The driver writes table and available ring, the device the used ring; each publishes by an
//! index that runs freely. So in a ring whose descriptors stay as they are, the only lines that
//! cross from the driver's core to the device's are those of the available ring.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use hugemem::Dma;

use crate::desc::{DescFlags, Words, split_word};
use crate::ring::RingMemory;

/// Flags and index come first in both rings.
pub(super) const FLAGS: usize = 0;
const INDEX: usize = 1;
const ENTRIES: usize = 2;
/// The driver wants no interrupts (§2.7.6).
pub(super) const NO_INTERRUPT: u16 = 1;
/// The device wants no notifications (§2.7.8).
const NO_NOTIFY: u16 = 1;

/// A split ring, seen by the driver.
pub(crate) struct Split {
    memory: RingMemory,
    available: Dma<AtomicU16>,
    used: Dma<[AtomicU32; 2]>,
    mask: usize,
}

impl Split {
    /// The ring in `memory`, which is clear.
    pub(crate) fn new(memory: RingMemory) -> Self {
        let slots = memory.geometry.slots;
        assert!(
            slots.is_power_of_two(),
            "a split ring has a power of two of slots (§2.7)"
        );
        Self {
            available: memory.driver.part(ENTRIES..ENTRIES + slots),
            used: memory.device.view(ENTRIES * size_of::<u16>(), slots),
            mask: slots - 1,
            memory,
        }
    }

    /// Empties the ring. The table stays: descriptors that nothing refers to do no harm.
    pub(crate) fn restart(&self) {
        self.memory.clear_indexes();
    }

    /// Slots.
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        self.mask + 1
    }

    /// The table of descriptors.
    #[inline]
    pub(crate) fn table(&self) -> &[Words] {
        &self.memory.desc
    }

    /// The entries of the available ring.
    #[inline]
    pub(crate) fn entries(&self) -> &[AtomicU16] {
        &self.available
    }

    /// The place of index `at` in the rings.
    #[inline]
    pub(crate) fn place(&self, at: u16) -> usize {
        usize::from(at) & self.mask
    }

    /// Makes descriptor `head` the entry at index `at`. A line that holds it already stays as it
    /// is in every cache.
    #[inline]
    pub(crate) fn offer(&self, at: u16, head: u16) {
        set16(&self.available[usize::from(at) & self.mask], head);
    }

    /// Hands everything up to index `end` to the device.
    #[inline]
    pub(crate) fn publish(&self, end: u16) {
        hw::ring::publish();
        self.memory.driver[INDEX].store(end.to_le(), Ordering::Release);
    }

    /// The index up to which the device has used buffers.
    #[inline]
    pub(crate) fn used_index(&self) -> u16 {
        let index = u16::from_le(self.memory.device[INDEX].load(Ordering::Acquire));
        hw::ring::observe();
        index
    }

    /// The used entry at index `at`: head of the buffer, and bytes written to it.
    #[inline]
    pub(crate) fn used(&self, at: u16) -> (u32, u32) {
        let [id, len] = &self.used[usize::from(at) & self.mask];
        (
            u32::from_le(id.load(Ordering::Relaxed)),
            u32::from_le(len.load(Ordering::Relaxed)),
        )
    }

    /// Whether the device wants to be told of new buffers.
    #[inline]
    pub(crate) fn wants_notification(&self) -> bool {
        u16::from_le(self.memory.device[FLAGS].load(Ordering::Relaxed)) & NO_NOTIFY == 0
    }
}

/// Stores `value` unless it is there already: an equal store would take the line away from the
/// other side's cache for nothing.
#[inline]
pub(crate) fn set16(word: &AtomicU16, value: u16) {
    if word.load(Ordering::Relaxed) != value.to_le() {
        word.store(value.to_le(), Ordering::Relaxed);
    }
}

/// Writes a descriptor that stands for itself; unless it is there already, as above.
#[inline]
pub(crate) fn set_single(slot: &Words, address: u64, len: u32, flags: DescFlags) {
    set(slot, address, split_word(len, flags, 0));
}

/// Writes both words of a descriptor, unless they are there already.
#[inline]
pub(crate) fn set(slot: &Words, address: u64, rest: u64) {
    let address = address.to_le();
    if slot[0].load(Ordering::Relaxed) != address {
        slot[0].store(address, Ordering::Relaxed);
    }
    if slot[1].load(Ordering::Relaxed) != rest {
        slot[1].store(rest, Ordering::Relaxed);
    }
}
