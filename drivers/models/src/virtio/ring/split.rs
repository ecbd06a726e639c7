//! Split rings (§2.7): descriptors, what the driver made available, what the device has used.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use hugemem::{IommuFault, Iova, SimWords, Translator};

use super::super::bits::descriptor as flag;
use super::indirect::{self, Order};
use super::{Broken, Chain, Ring, Rules, Used, add};
use crate::frames::Segment;

/// Flag of both rings' heads: the other side need not tell this one (§2.7.6, §2.7.8).
const QUIET: u16 = 1;
/// Words before the entries of the available ring: flags and index.
const HEAD: usize = 2;

pub(crate) struct Split {
    rules: Rules,
    size: u16,
    table: SimWords<[AtomicU64; 2]>,
    avail: SimWords<AtomicU16>,
    used_head: SimWords<AtomicU16>,
    used: SimWords<AtomicU32>,
    avail_event: Option<SimWords<AtomicU16>>,
    cursor: Cursor,
    /// The driver's index when it was last looked at.
    posted: u16,
    /// Chains that were put back, published or not.
    returned: u16,
    /// How far the driver was told.
    published: u16,
    doorbell: bool,
}

/// How far the device has come.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    taken: u16,
    /// Where the next chain begins, if the driver uses descriptors in order (§2.7.9).
    expected: u16,
}

impl Split {
    pub(crate) fn new(
        rules: Rules,
        size: u16,
        [table, avail, used]: [u64; 3],
        memory: &mut Translator,
    ) -> Result<Self, IommuFault> {
        let count = usize::from(size);
        let avail_event = if rules.event_idx {
            let at = Iova::from_device(used + 4 + 8 * u64::from(size));
            Some(memory.words(at, 1)?)
        } else {
            None
        };
        Ok(Self {
            table: memory.words(Iova::from_device(table), count)?,
            // The last word is the event index; it is only there if that was negotiated.
            avail: memory.words(
                Iova::from_device(avail),
                HEAD + count + usize::from(rules.event_idx),
            )?,
            used_head: memory.words(Iova::from_device(used), HEAD)?,
            used: memory.words(Iova::from_device(used + 4), count * 2)?,
            avail_event,
            rules,
            size,
            cursor: Cursor {
                taken: 0,
                expected: 0,
            },
            posted: 0,
            returned: 0,
            published: 0,
            doorbell: false,
        })
    }

    /// Looks at the driver's index. True if there is something new.
    fn look(&mut self) -> Result<bool, Broken> {
        let index = u16::from_le(self.avail[1].load(Ordering::Acquire));
        let in_flight = index.wrapping_sub(self.returned);
        if index.wrapping_sub(self.cursor.taken) > self.size || in_flight > self.size {
            return Err(Broken::new(format!(
                "available index went from {} to {index} in a ring of {} with {} in flight",
                self.posted,
                self.size,
                self.posted.wrapping_sub(self.returned)
            )));
        }
        self.posted = index;
        Ok(index != self.cursor.taken)
    }

    #[inline]
    fn descriptor(&self, at: u16) -> (Segment, u16, u16) {
        let [address, rest] = &self.table[usize::from(at)];
        let rest = u64::from_le(rest.load(Ordering::Relaxed));
        let [a, b, c, d, e, f, g, h] = rest.to_le_bytes();
        let flags = u16::from_le_bytes([e, f]);
        let segment = Segment {
            iova: u64::from_le(address.load(Ordering::Relaxed)),
            len: u32::from_le_bytes([a, b, c, d]),
            writable: flags & flag::WRITE != 0,
        };
        (segment, flags, u16::from_le_bytes([g, h]))
    }

    /// Follows a chain to its end; how many descriptors it has.
    fn follow(
        &self,
        head: u16,
        memory: &mut Translator,
        out: &mut Vec<Segment>,
    ) -> Result<u16, Broken> {
        let first = out.len();
        let mut at = head;
        for slots in 1..=self.size {
            let (segment, flags, next) = self.descriptor(at);
            let known = flag::NEXT | flag::WRITE | flag::INDIRECT;
            if flags & !known != 0 {
                self.rules.objections.raise(format!(
                    "reserved flags {:#x} in descriptor {at}",
                    flags & !known
                ));
            }
            if flags & flag::INDIRECT != 0 {
                if !self.rules.indirect {
                    return Err(Broken::new("indirect descriptor, which was not negotiated"));
                }
                if flags & flag::NEXT != 0 {
                    return Err(Broken::new(
                        "indirect descriptor with a next one (§2.7.5.3.1)",
                    ));
                }
                let objections = &self.rules.objections;
                indirect::read(
                    segment,
                    Order::Linked,
                    self.size,
                    memory,
                    out,
                    first,
                    objections,
                )?;
                return Ok(slots);
            }
            add(out, first, segment)?;
            if flags & flag::NEXT == 0 {
                return Ok(slots);
            }
            if next >= self.size {
                return Err(Broken::new(format!(
                    "next descriptor {next} in a ring of {}",
                    self.size
                )));
            }
            if self.rules.in_order && next != (at + 1) % self.size {
                self.rules.objections.raise(format!(
                    "descriptor {next} after {at}, with descriptors used in order (§2.7.9)"
                ));
            }
            at = next;
        }
        Err(Broken::new(format!(
            "chain from descriptor {head} is longer than the ring of {}: it loops",
            self.size
        )))
    }

    #[cold]
    fn out_of_order(&self, head: u16) {
        self.rules.objections.raise(format!(
            "descriptor {head} posted where {} was due, with descriptors used in order (§2.7.9)",
            self.cursor.expected
        ));
    }

    #[inline]
    fn write(&self, at: u16, id: u32, written: u32) {
        let slot = usize::from(at % self.size) * 2;
        self.used[slot].store(id.to_le(), Ordering::Relaxed);
        self.used[slot + 1].store(written.to_le(), Ordering::Relaxed);
    }

    /// Keeps the event index where the driver never passes it, or where it passes it next.
    fn move_event(&self) {
        if let Some(event) = &self.avail_event {
            let at = if self.doorbell {
                self.cursor.taken
            } else {
                self.cursor.taken.wrapping_sub(1)
            };
            event[0].store(at.to_le(), Ordering::Relaxed);
        }
    }
}

impl Ring for Split {
    type Mark = Cursor;

    #[inline]
    fn next(
        &mut self,
        memory: &mut Translator,
        out: &mut Vec<Segment>,
    ) -> Result<Option<Chain>, Broken> {
        if self.cursor.taken == self.posted && !self.look()? {
            return Ok(None);
        }
        let slot = usize::from(self.cursor.taken & (self.size - 1));
        let head = u16::from_le(self.avail[HEAD + slot].load(Ordering::Relaxed));
        if head >= self.size {
            return Err(Broken::new(format!(
                "descriptor {head} posted in a ring of {}",
                self.size
            )));
        }
        if self.rules.in_order && head != self.cursor.expected {
            self.out_of_order(head);
        }
        let (segment, flags, _) = self.descriptor(head);
        let slots = if flags & !flag::WRITE == 0 {
            let first = out.len();
            add(out, first, segment)?;
            1
        } else {
            self.follow(head, memory, out)?
        };
        self.cursor.taken = self.cursor.taken.wrapping_add(1);
        self.cursor.expected = (head + slots) & (self.size - 1);
        Ok(Some(Chain { id: head, slots }))
    }

    fn mark(&self) -> Cursor {
        self.cursor
    }

    fn rewind(&mut self, mark: Cursor) {
        self.cursor = mark;
    }

    #[inline]
    fn put(&mut self, used: &[Used]) {
        for used in used {
            self.write(self.returned, u32::from(used.chain.id), used.written);
            self.returned = self.returned.wrapping_add(1);
        }
    }

    fn put_batch(&mut self, last: Chain, chains: u16, _slots: u16) {
        self.write(self.returned, u32::from(last.id), 0);
        self.returned = self.returned.wrapping_add(chains);
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let old = self.published;
        self.published = self.returned;
        self.used_head[1].store(self.returned.to_le(), Ordering::Release);
        self.move_event();
        // The driver may be about to go to sleep: the index must be out before the look at its
        // wishes (§2.7.7.1).
        fence(Ordering::SeqCst);
        if self.rules.event_idx {
            let event =
                u16::from_le(self.avail[HEAD + usize::from(self.size)].load(Ordering::Relaxed));
            let since = self.returned.wrapping_sub(event).wrapping_sub(1);
            return since < self.returned.wrapping_sub(old);
        }
        let flags = u16::from_le(self.avail[0].load(Ordering::Relaxed));
        if flags & !QUIET != 0 {
            self.rules.objections.raise(format!(
                "reserved flags {:#x} in the available ring",
                flags & !QUIET
            ));
        }
        flags & QUIET == 0 && old != self.returned
    }

    fn want_doorbell(&mut self, wanted: bool) {
        self.doorbell = wanted;
        // With event indexes the flag stays 0 (§2.7.10).
        let flags = if wanted || self.rules.event_idx {
            0
        } else {
            QUIET
        };
        self.used_head[0].store(flags.to_le(), Ordering::Relaxed);
        self.move_event();
        fence(Ordering::SeqCst);
    }

    fn publish_too_many(&mut self) -> bool {
        let ahead = self.returned.wrapping_add(self.size).wrapping_add(7);
        self.used_head[1].store(ahead.to_le(), Ordering::Release);
        true
    }

    fn put_stranger(&mut self, used: Used) {
        self.write(self.returned, u32::from(self.size) + 17, used.written);
        self.returned = self.returned.wrapping_add(1);
    }

    fn check(&self, memory: &mut Translator) -> Result<(), Broken> {
        let parts = [
            (self.table.iova, self.table.len),
            (self.avail.iova, self.avail.len),
            (self.used.iova, self.used.len),
        ];
        check_mapped(&parts, memory)
    }
}

/// A driver that unmaps a ring has to stop the device first.
pub(super) fn check_mapped(parts: &[(Iova, usize)], memory: &mut Translator) -> Result<(), Broken> {
    for &(iova, len) in parts {
        if !memory.covers(iova, len) {
            return Err(Broken::new(format!(
                "ring at {iova} was unmapped while the queue is enabled"
            )));
        }
    }
    Ok(())
}
