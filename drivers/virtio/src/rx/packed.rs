//! Receiving on a packed ring.

use hugemem::{Burst, Frame};
use hw::ring::Cursor;

use crate::desc::DescFlags;
use crate::ring::RingMemory;
use crate::ring::packed::{Batch, Packed};
use crate::rx::{Fit, Held, RxEngine, Skipped, arm_again, full};
use crate::shared::Lie;

/// A packed ring that receives; `ORDERED` if the device promised to use buffers in order.
pub(crate) struct PackedRx<const ORDERED: bool> {
    ring: Packed,
    fit: Fit,
    held: Held,
    batch: Batch,
    /// The next slot to write.
    next: Cursor,
    /// Where the device writes what it used next.
    used: Cursor,
    skipped: Skipped,
}

impl<const ORDERED: bool> PackedRx<ORDERED> {
    /// A ring in `memory`.
    pub(crate) fn new(memory: RingMemory, fit: Fit) -> Self {
        let slots = memory.geometry.slots;
        Self {
            ring: Packed::new(memory),
            fit,
            held: Held::new(slots),
            batch: Batch::default(),
            next: Cursor::new(slots),
            used: Cursor::new(slots),
            skipped: Skipped::default(),
        }
    }

    /// The next buffer of an ordered device, which may have used several with one notice. Numbers
    /// are given and come back in ring order, so the next one is the slot's own.
    #[inline(always)]
    fn next_ordered(&mut self, out: &mut Burst) -> Result<Option<u32>, Lie> {
        #[expect(clippy::cast_possible_truncation, reason = "at most 32768 slots")]
        let expected = self.used.index() as u16;
        if self.skipped.left == 0 && self.skipped.last.is_none() {
            let Some(used) = self.ring.used(self.used) else {
                return Ok(None);
            };
            let slots = self.ring.slots();
            let id = usize::from(used.id);
            if id >= slots {
                return Err(Lie::Id(used.id));
            }
            // No remainder by division: a packed ring's size need not be a power of two.
            let at = self.used.index();
            let ahead = if id >= at { id - at } else { id + slots - at };
            if ahead >= self.held.len() {
                return Err(Lie::Id(used.id));
            }
            self.skipped = Skipped {
                left: ahead,
                last: Some(used.len),
            };
        }
        self.held.release(expected, out)?;
        if self.skipped.left > 0 {
            self.skipped.left -= 1;
            return Ok(Some(full(self.fit, out)));
        }
        Ok(Some(self.skipped.last.take().unwrap_or(0)))
    }
}

impl<const ORDERED: bool> RxEngine for PackedRx<ORDERED> {
    #[inline]
    fn room(&self) -> usize {
        self.held.room()
    }

    #[inline(always)]
    fn put(&mut self, empties: &mut Burst) {
        let Some((id, frame)) = self.held.keep(empties) else {
            return;
        };
        let (address, len) = self.fit.buffer(frame);
        self.batch.write(
            self.ring.table(),
            self.next,
            (address, len, id),
            DescFlags::WRITE,
        );
        self.next.advance(1);
    }

    #[inline]
    fn publish(&mut self) {
        self.batch.publish(self.ring.table());
    }

    #[inline]
    fn refresh(&mut self) -> Result<(), Lie> {
        Ok(())
    }

    #[inline(always)]
    fn next(&mut self, out: &mut Burst) -> Result<Option<u32>, Lie> {
        if self.held.len() == 0 {
            return Ok(None);
        }
        let taken = if ORDERED {
            self.next_ordered(out)?
        } else {
            match self.ring.used(self.used) {
                Some(used) => {
                    self.held.release(used.id, out)?;
                    Some(used.len)
                }
                None => None,
            }
        };
        if taken.is_some() {
            self.used.advance(1);
        }
        Ok(taken)
    }

    #[inline]
    fn wants_notification(&self) -> bool {
        self.ring.wants_notification()
    }

    fn restart(&mut self) {
        let frames = self.held.drain();
        self.ring.restart();
        self.batch = Batch::default();
        self.next = Cursor::new(self.ring.slots());
        self.used = self.next;
        self.skipped = Skipped::default();
        arm_again(self, frames);
    }

    fn drain(&mut self) -> impl Iterator<Item = Frame> {
        self.held.drain().into_iter()
    }
}
