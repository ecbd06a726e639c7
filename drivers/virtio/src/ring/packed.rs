//! A packed ring (§2.8): one ring of descriptors, which driver and device write in turn.
//!
//! The driver marks a descriptor available by setting its mark to its wrap counter, which turns
//! over on each lap; the device marks it used by setting both. A batch becomes visible at once
//! because the device does not pass the first descriptor: its flags are written last.

use std::sync::atomic::Ordering;

use hw::ring::Cursor;

use crate::desc::{DescFlags, Words, available, is_used, packed_used, packed_word};
use crate::ring::RingMemory;

/// The words of an event suppression structure (§2.8.14).
pub(super) const FLAGS: usize = 1;
/// "Tell me nothing" (§2.8.10).
pub(super) const DISABLE: u16 = 1;

/// A packed ring, seen by the driver.
pub(crate) struct Packed {
    memory: RingMemory,
}

/// What the device says of a used buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    /// The buffer's number.
    pub(crate) id: u16,
    /// Bytes that the device wrote to it.
    pub(crate) len: u32,
}

impl Packed {
    /// The ring in `memory`, which is clear.
    pub(crate) fn new(memory: RingMemory) -> Self {
        Self { memory }
    }

    /// Empties the ring.
    pub(crate) fn restart(&self) {
        self.memory.clear();
    }

    /// Slots.
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        self.memory.geometry.slots
    }

    /// The descriptors.
    #[inline]
    pub(crate) fn table(&self) -> &[Words] {
        &self.memory.desc
    }

    /// What the device has used at `at`, if it has.
    #[inline]
    pub(crate) fn used(&self, at: Cursor) -> Option<Used> {
        let word = self.memory.desc[at.index()][1].load(Ordering::Acquire);
        let (id, len, flags) = packed_used(word);
        if !is_used(flags, at.wrap()) {
            return None;
        }
        hw::ring::observe();
        Some(Used { id, len })
    }

    /// Whether the device wants to be told of new descriptors. Anything but a plain "no" is a
    /// "yes": what it says of particular descriptors needs `EVENT_IDX`, which is not taken.
    #[inline]
    pub(crate) fn wants_notification(&self) -> bool {
        u16::from_le(self.memory.device[FLAGS].load(Ordering::Relaxed)) & 3 != DISABLE
    }
}

/// Descriptors that are written and not yet handed over: all but the flags of the first.
///
/// Its words are held back until the batch is complete, as the device may take descriptors as
/// soon as the first of them is available.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    first: Option<(usize, u64)>,
}

impl Batch {
    /// Writes a descriptor at `at`; `flags` are those besides the marks.
    #[inline]
    pub(crate) fn write(
        &mut self,
        table: &[Words],
        at: Cursor,
        (address, len, id): (u64, u32, u16),
        flags: DescFlags,
    ) {
        let slot = &table[at.index()];
        slot[0].store(address.to_le(), Ordering::Relaxed);
        let rest = packed_word(len, id, flags | available(at.wrap()));
        self.close(slot, at.index(), rest);
    }

    /// True if there is nothing to hand over.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Writes the second word, or keeps it if it is the first of the batch.
    #[inline]
    pub(crate) fn close(&mut self, slot: &Words, index: usize, rest: u64) {
        if self.first.is_none() {
            self.first = Some((index, rest));
        } else {
            slot[1].store(rest, Ordering::Relaxed);
        }
    }

    /// Hands the batch to the device.
    #[inline]
    pub(crate) fn publish(&mut self, table: &[Words]) {
        if let Some((index, rest)) = self.first.take() {
            hw::ring::publish();
            table[index][1].store(rest, Ordering::Release);
        }
    }
}
