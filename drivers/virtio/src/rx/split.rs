//! Receiving on a split ring.

use hugemem::{Burst, Frame};

use crate::desc::DescFlags;
use crate::ring::RingMemory;
use crate::ring::split::{Split, set_single};
use crate::rx::{Fit, Held, RxEngine, Skipped, arm_again, full};
use crate::shared::Lie;

/// A split ring that receives; `ORDERED` if the device promised to use buffers in order.
pub(crate) struct SplitRx<const ORDERED: bool> {
    ring: Split,
    fit: Fit,
    held: Held,
    /// Buffers made available, ever.
    available: u16,
    /// Buffers used, as far as they were taken out.
    seen: u16,
    /// Buffers used, as far as the device's index was read.
    known: u16,
    skipped: Skipped,
}

impl<const ORDERED: bool> SplitRx<ORDERED> {
    /// A ring in `memory`.
    pub(crate) fn new(memory: RingMemory, fit: Fit) -> Self {
        let slots = memory.geometry.slots;
        Self {
            ring: Split::new(memory),
            fit,
            held: Held::new(slots),
            available: 0,
            seen: 0,
            known: 0,
            skipped: Skipped::default(),
        }
    }

    /// An ordered ring's buffers come back in ring order.
    fn expected(&self) -> u16 {
        let mask = self.ring.slots() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "at most 32768 slots")]
        let slot = (usize::from(self.seen) & mask) as u16;
        slot
    }

    /// The next buffer of an ordered device, which may have used several with one notice.
    fn next_ordered(&mut self, out: &mut Burst) -> Result<u32, Lie> {
        if self.skipped.left == 0 && self.skipped.last.is_none() {
            let (id, len) = self.ring.used(self.seen);
            let id = u16::try_from(id).map_err(|_| Lie::Id(u16::MAX))?;
            let mask = self.ring.slots() - 1;
            let ahead = usize::from(id.wrapping_sub(self.expected())) & mask;
            let limit = usize::from(self.known.wrapping_sub(self.seen));
            if usize::from(id) > mask || ahead >= limit {
                return Err(Lie::Id(id));
            }
            self.skipped = Skipped {
                left: ahead,
                last: Some(len),
            };
        }
        self.held.release(self.expected(), out)?;
        if self.skipped.left > 0 {
            self.skipped.left -= 1;
            return Ok(full(self.fit, out));
        }
        Ok(self.skipped.last.take().unwrap_or(0))
    }
}

impl<const ORDERED: bool> RxEngine for SplitRx<ORDERED> {
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
        set_single(
            &self.ring.table()[usize::from(id)],
            address,
            len,
            DescFlags::WRITE,
        );
        self.ring.offer(self.available, id);
        self.available = self.available.wrapping_add(1);
    }

    #[inline]
    fn publish(&mut self) {
        self.ring.publish(self.available);
    }

    #[inline]
    fn refresh(&mut self) -> Result<(), Lie> {
        if self.known == self.seen {
            let index = self.ring.used_index();
            let new = index.wrapping_sub(self.seen);
            if usize::from(new) > self.held.len() {
                return Err(Lie::Count(new));
            }
            self.known = index;
        }
        Ok(())
    }

    #[inline(always)]
    fn next(&mut self, out: &mut Burst) -> Result<Option<u32>, Lie> {
        if self.seen == self.known {
            return Ok(None);
        }
        let taken = if ORDERED {
            self.next_ordered(out)?
        } else {
            let (id, len) = self.ring.used(self.seen);
            let id = u16::try_from(id).map_err(|_| Lie::Id(u16::MAX))?;
            self.held.release(id, out)?;
            len
        };
        self.seen = self.seen.wrapping_add(1);
        Ok(Some(taken))
    }

    #[inline]
    fn wants_notification(&self) -> bool {
        self.ring.wants_notification()
    }

    fn restart(&mut self) {
        let frames = self.held.drain();
        self.ring.restart();
        (self.available, self.seen, self.known) = (0, 0, 0);
        self.skipped = Skipped::default();
        arm_again(self, frames);
    }

    fn drain(&mut self) -> impl Iterator<Item = Frame> {
        self.held.drain().into_iter()
    }
}
