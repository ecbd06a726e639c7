//! Packed rings (§2.8): one ring of descriptors that both sides write.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering, fence};

use hugemem::{IommuFault, Iova, SimWords, Translator};

use super::super::bits::{descriptor as flag, event};
use super::indirect::{self, Order};
use super::split::check_mapped;
use super::{Broken, Chain, Ring, Rules, Used, add};
use crate::frames::Segment;

/// The wrap counter in an event position (§2.8.14).
const WRAP: u16 = 1 << 15;

pub(crate) struct Packed {
    rules: Rules,
    size: u16,
    ring: SimWords<[AtomicU64; 2]>,
    /// Position and flags that the driver writes.
    driver: SimWords<AtomicU16>,
    /// And those that the device writes.
    device: SimWords<AtomicU16>,
    next: Cursor,
    used: Cursor,
    /// Where `used` was when the driver was last told.
    told: Cursor,
}

/// A slot, and the lap's wrap counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    at: u16,
    wrap: bool,
}

/// A descriptor's second word, taken apart.
#[derive(Clone, Copy)]
struct Word {
    len: u32,
    id: u16,
    flags: u16,
}

impl Word {
    #[inline]
    fn of(raw: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = u64::from_le(raw).to_le_bytes();
        Self {
            len: u32::from_le_bytes([a, b, c, d]),
            id: u16::from_le_bytes([e, f]),
            flags: u16::from_le_bytes([g, h]),
        }
    }

    #[inline]
    fn raw(self) -> u64 {
        let (len, id, flags) = (
            u64::from(self.len),
            u64::from(self.id),
            u64::from(self.flags),
        );
        (len | id << 32 | flags << 48).to_le()
    }

    fn avail(self) -> bool {
        self.flags & flag::AVAIL != 0
    }

    fn used(self) -> bool {
        self.flags & flag::USED != 0
    }
}

impl Cursor {
    #[inline]
    fn step(&mut self, slots: u16, size: u16) {
        // Both are at most 32768, so the sum may just not fit 16 bits.
        let at = u32::from(self.at) + u32::from(slots);
        let size = u32::from(size);
        let (at, flip) = if at >= size {
            (at - size, true)
        } else {
            (at, false)
        };
        self.at = u16::try_from(at).expect("below the ring's size");
        self.wrap ^= flip;
    }
}

impl Packed {
    pub(crate) fn new(
        rules: Rules,
        size: u16,
        [ring, driver, device]: [u64; 3],
        memory: &mut Translator,
    ) -> Result<Self, IommuFault> {
        let start = Cursor { at: 0, wrap: true };
        Ok(Self {
            rules,
            size,
            ring: memory.words(Iova::from_device(ring), usize::from(size))?,
            driver: memory.words(Iova::from_device(driver), 2)?,
            device: memory.words(Iova::from_device(device), 2)?,
            next: start,
            used: start,
            told: start,
        })
    }

    #[inline]
    fn word(&self, at: u16, ordering: Ordering) -> Word {
        Word::of(self.ring[usize::from(at)][1].load(ordering))
    }

    #[inline]
    fn segment(&self, at: u16, word: Word) -> Segment {
        Segment {
            iova: u64::from_le(self.ring[usize::from(at)][0].load(Ordering::Relaxed)),
            len: word.len,
            writable: word.flags & flag::WRITE != 0,
        }
    }

    /// Whether the descriptor that was seen at `at` is there for the device.
    #[inline]
    fn is_available(at: Cursor, word: Word) -> Result<bool, Broken> {
        if word.avail() != at.wrap {
            return Ok(false);
        }
        if word.used() == at.wrap {
            return Err(Broken::new(format!(
                "descriptor {} is marked as used in this lap, and the device has not used it",
                at.at
            )));
        }
        Ok(true)
    }

    /// Follows a chain from its first descriptor; its id is in the last one (§2.8.6).
    fn follow(
        &self,
        mut word: Word,
        memory: &mut Translator,
        out: &mut Vec<Segment>,
    ) -> Result<Chain, Broken> {
        let first = out.len();
        let mut at = self.next;
        for slots in 1..=self.size {
            let known = flag::NEXT | flag::WRITE | flag::INDIRECT | flag::AVAIL | flag::USED;
            if word.flags & !known != 0 {
                self.rules.objections.raise(format!(
                    "reserved flags {:#x} in descriptor {}",
                    word.flags & !known,
                    at.at
                ));
            }
            let segment = self.segment(at.at, word);
            let last = word.flags & flag::NEXT == 0;
            if word.flags & flag::INDIRECT != 0 {
                if !self.rules.indirect {
                    return Err(Broken::new("indirect descriptor, which was not negotiated"));
                }
                if !last || slots > 1 {
                    return Err(Broken::new("indirect descriptor in a chain (§2.8.8)"));
                }
                let objections = &self.rules.objections;
                indirect::read(
                    segment,
                    Order::Listed,
                    self.size,
                    memory,
                    out,
                    first,
                    objections,
                )?;
            } else {
                add(out, first, segment)?;
            }
            if last {
                return Ok(Chain { id: word.id, slots });
            }
            if slots == self.size {
                break;
            }
            at.step(1, self.size);
            word = self.word(at.at, Ordering::Relaxed);
            if !Self::is_available(at, word)? {
                return Err(Broken::new(format!(
                    "descriptor {} of a chain is not available, though the first is",
                    at.at
                )));
            }
        }
        Err(Broken::new(format!(
            "chain from descriptor {} is longer than the ring of {}",
            self.next.at, self.size
        )))
    }

    /// The word that gives `used` back at `at`.
    #[inline]
    fn used_word(at: Cursor, id: u16, written: u32) -> u64 {
        let mut flags = if at.wrap { flag::AVAIL | flag::USED } else { 0 };
        if written > 0 {
            flags |= flag::WRITE;
        }
        Word {
            len: written,
            id,
            flags,
        }
        .raw()
    }

    #[inline]
    fn write(&self, at: Cursor, id: u16, written: u32) {
        self.ring[usize::from(at.at)][1].store(Self::used_word(at, id, written), Ordering::Release);
    }

    /// Slots from `told` to `used`, and whether position `event` lies among them.
    fn passed(&self, event: u16) -> bool {
        let size = u32::from(self.size);
        let lap = |cursor: Cursor| u32::from(cursor.at) + if cursor.wrap { 0 } else { size };
        let laps = size * 2;
        let event = Cursor {
            at: event & !WRAP,
            wrap: event & WRAP != 0,
        };
        let from_told = |cursor: Cursor| (lap(cursor) + laps - lap(self.told)) % laps;
        from_told(event) < from_told(self.used)
    }
}

impl Ring for Packed {
    type Mark = Cursor;

    #[inline]
    fn next(
        &mut self,
        memory: &mut Translator,
        out: &mut Vec<Segment>,
    ) -> Result<Option<Chain>, Broken> {
        let word = self.word(self.next.at, Ordering::Acquire);
        if !Self::is_available(self.next, word)? {
            return Ok(None);
        }
        let chain = if word.flags & !(flag::WRITE | flag::AVAIL | flag::USED) == 0 {
            let first = out.len();
            add(out, first, self.segment(self.next.at, word))?;
            Chain {
                id: word.id,
                slots: 1,
            }
        } else {
            self.follow(word, memory, out)?
        };
        if chain.id >= self.size {
            self.rules
                .objections
                .raise(format!("buffer id {} in a ring of {}", chain.id, self.size));
        }
        self.next.step(chain.slots, self.size);
        Ok(Some(chain))
    }

    fn mark(&self) -> Cursor {
        self.next
    }

    fn rewind(&mut self, mark: Cursor) {
        self.next = mark;
    }

    #[inline]
    fn put(&mut self, used: &[Used]) {
        let Some((head, more)) = used.split_first() else {
            return;
        };
        let first = self.used;
        self.used.step(head.chain.slots, self.size);
        for used in more {
            self.write(self.used, used.chain.id, used.written);
            self.used.step(used.chain.slots, self.size);
        }
        // The driver looks at the first one first, so it is written last.
        self.write(first, head.chain.id, head.written);
    }

    fn put_batch(&mut self, last: Chain, _chains: u16, slots: u16) {
        self.write(self.used, last.id, 0);
        self.used.step(slots, self.size);
    }

    fn publish(&mut self) -> bool {
        fence(Ordering::SeqCst);
        let [position, flags] = &self.driver[..] else {
            return false;
        };
        let flags = u16::from_le(flags.load(Ordering::Relaxed));
        let wanted = match flags {
            event::ENABLE => self.used != self.told,
            event::DISABLE => false,
            event::DESCRIPTOR if self.rules.event_idx => {
                self.passed(u16::from_le(position.load(Ordering::Relaxed)))
            }
            _ => {
                self.rules.objections.raise(format!(
                    "flags {flags:#x} in the driver's event suppression (§2.8.14)"
                ));
                true
            }
        };
        self.told = self.used;
        wanted
    }

    fn want_doorbell(&mut self, wanted: bool) {
        let flags = if wanted {
            event::ENABLE
        } else {
            event::DISABLE
        };
        self.device[1].store(flags.to_le(), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    fn publish_too_many(&mut self) -> bool {
        false
    }

    fn put_stranger(&mut self, used: Used) {
        self.write(self.used, self.size.wrapping_add(17), used.written);
        self.used.step(used.chain.slots, self.size);
    }

    fn check(&self, memory: &mut Translator) -> Result<(), Broken> {
        let parts = [
            (self.ring.iova, self.ring.len),
            (self.driver.iova, self.driver.len),
            (self.device.iova, self.device.len),
        ];
        check_mapped(&parts, memory)
    }
}
