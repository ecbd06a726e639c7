//! Ring memory: where the parts of a virtqueue lie, in either format.

pub(crate) mod packed;
pub(crate) mod split;

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use hugemem::{Dma, Memory, MemoryError};

use crate::desc::Words;

/// Which of the two formats a ring has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Three parts, each written by one side (§2.7). The flag is for the drafts' layout, which a
    /// legacy device finds by one page number (§2.7.2).
    Split {
        /// Parts follow each other as the drafts say.
        legacy: bool,
    },
    /// One part, written by both (§2.8).
    Packed,
}

/// What a ring's memory looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Its format.
    pub(crate) format: Format,
    /// Slots: a power of two if split, 1 to 32768.
    pub(crate) slots: usize,
}

/// Most slots in a ring (§2.7, §2.8.10.1).
pub(crate) const SLOTS_MAX: usize = 32768;

/// Two cache lines: neighbours are fetched in pairs, so what one side writes stays this far from
/// what the other does.
const APART: usize = 128;
/// A line of the cache.
const LINE: usize = 64;
/// The page that the drafts' layout is made of (§2.7.2).
const LEGACY_PAGE: usize = 4096;
/// Flags and index, before the entries of the available and of the used ring.
const HEAD: usize = 4;

impl Geometry {
    /// Where the parts begin, and where the last ends.
    fn offsets(self) -> Offsets {
        let desc = self.slots * size_of::<Words>();
        match self.format {
            Format::Packed => {
                let driver = desc.next_multiple_of(APART);
                let device = driver + APART;
                Offsets {
                    driver,
                    driver_words: 2,
                    device,
                    device_words: 2,
                    end: device + APART,
                }
            }
            // Flags and index end a line, and the entries begin the next: the index that one
            // side polls shares no line with the entries that the other writes.
            Format::Split { legacy: false } => {
                let driver = desc.next_multiple_of(APART) + LINE - HEAD;
                let driver_bytes = HEAD + self.slots * 2;
                let device = (driver + driver_bytes).next_multiple_of(APART) + LINE - HEAD;
                let device_bytes = HEAD + self.slots * 8;
                Offsets {
                    driver,
                    driver_words: driver_bytes / 2,
                    device,
                    device_words: device_bytes / 2,
                    end: (device + device_bytes).next_multiple_of(APART),
                }
            }
            // §2.7.2: descriptors, available ring with its event word, page, used ring.
            Format::Split { legacy: true } => {
                let driver_bytes = HEAD + self.slots * 2;
                let device = (desc + driver_bytes + 2).next_multiple_of(LEGACY_PAGE);
                let device_bytes = HEAD + self.slots * 8;
                Offsets {
                    driver: desc,
                    driver_words: driver_bytes / 2,
                    device,
                    device_words: device_bytes / 2,
                    end: (device + device_bytes + 2).next_multiple_of(LEGACY_PAGE),
                }
            }
        }
    }

    /// Bytes of memory that a ring takes, with what alignment may cost.
    pub(crate) fn bytes(self) -> usize {
        self.offsets().end + self.align()
    }

    fn align(self) -> usize {
        match self.format {
            Format::Split { legacy: true } => LEGACY_PAGE,
            _ => APART,
        }
    }

    /// Carves a ring.
    pub(crate) fn carve(self, memory: &Memory) -> Result<RingMemory, MemoryError> {
        let at = self.offsets();
        let all: Dma<AtomicU64> = memory.carve(at.end / size_of::<u64>(), self.align())?;
        Ok(RingMemory {
            geometry: self,
            desc: all.view(0, self.slots),
            driver: all.view(at.driver, at.driver_words),
            device: all.view(at.device, at.device_words),
        })
    }
}

struct Offsets {
    driver: usize,
    driver_words: usize,
    device: usize,
    device_words: usize,
    end: usize,
}

/// The memory of one ring, by its parts.
#[derive(Debug, Clone)]
pub(crate) struct RingMemory {
    /// What it looks like.
    pub(crate) geometry: Geometry,
    /// Descriptors: the table of a split ring, the ring itself of a packed one.
    pub(crate) desc: Dma<Words>,
    /// What the driver tells: the available ring, or the driver's event suppression.
    pub(crate) driver: Dma<AtomicU16>,
    /// What the device tells: the used ring, or the device's event suppression.
    pub(crate) device: Dma<AtomicU16>,
}

impl RingMemory {
    /// Makes the ring empty, with the device's interrupts suppressed. Only while the device is
    /// not let near it.
    pub(crate) fn clear(&self) {
        for word in self.desc.iter().flatten() {
            word.store(0, Ordering::Relaxed);
        }
        self.clear_indexes();
    }

    /// As [`RingMemory::clear`], but leaves the descriptors as they are.
    pub(crate) fn clear_indexes(&self) {
        for word in self.driver.iter().chain(self.device.iter()) {
            word.store(0, Ordering::Relaxed);
        }
        let (at, silence) = match self.geometry.format {
            Format::Split { .. } => (split::FLAGS, split::NO_INTERRUPT),
            Format::Packed => (packed::FLAGS, packed::DISABLE),
        };
        self.driver[at].store(silence.to_le(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_lie_on_their_boundaries() {
        for slots in [1usize, 2, 8, 64, 256, 1024, 32768] {
            for legacy in [false, true] {
                let at = Geometry {
                    format: Format::Split { legacy },
                    slots,
                }
                .offsets();
                assert!(at.driver >= slots * 16 && at.driver.is_multiple_of(2));
                assert!(at.device >= at.driver + at.driver_words * 2 + usize::from(legacy) * 2);
                assert!(at.device.is_multiple_of(4));
                assert!(at.end >= at.device + at.device_words * 2);
                if !legacy && slots > 1 {
                    assert_eq!(at.driver / APART, (at.driver + HEAD - 1) / APART);
                    assert_ne!(at.driver / APART, at.device / APART);
                    assert!((at.device + HEAD).is_multiple_of(LINE));
                }
            }
        }
        let legacy = Geometry {
            format: Format::Split { legacy: true },
            slots: 256,
        }
        .offsets();
        assert_eq!(
            (legacy.driver, legacy.device, legacy.end),
            (4096, 8192, 12288)
        );
        let packed = Geometry {
            format: Format::Packed,
            slots: 100,
        }
        .offsets();
        assert_eq!(
            (packed.driver, packed.device, packed.end),
            (1664, 1792, 1920)
        );
    }
}
