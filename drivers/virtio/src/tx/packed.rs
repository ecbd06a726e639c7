//! Sending on a packed ring.
//!
//! Every descriptor is written anew on each lap, as its marks change; a buffer's number is its
//! first slot. With `IN_ORDER` the device writes one used descriptor for a batch, at the batch's
//! first slot and with the number of its last buffer (§2.8.9), so of the lines that the driver
//! wrote only few come back.

use std::sync::atomic::Ordering;

use hugemem::{Frame, Resident, ResidentSlot};
use hw::ring::Cursor;

use crate::desc::{DescFlags, available, packed_word};
use crate::ring::RingMemory;
use crate::ring::packed::{Batch, Packed};
use crate::shared::Lie;
use crate::tx::lane::Lane;
use crate::tx::tables::Tables;
use crate::tx::{SEGMENTS, TxEngine};

/// A packed ring that sends; `ORDERED` if the device promised to complete in order.
pub(crate) struct PackedTx<const ORDERED: bool> {
    ring: Packed,
    header: usize,
    lane: Lane,
    tables: Option<Tables>,
    batch: Batch,
    /// The next slot to write.
    next: Cursor,
    /// Where the device writes what it used next.
    used: Cursor,
    /// The oldest slot that the device is not known to be done with; `used`, if it keeps order.
    oldest: Cursor,
    /// Slots from `used` to `next`.
    outstanding: usize,
    /// Buffers that the device completed before their turn, by number.
    early: Box<[bool]>,
    /// How many those are.
    waiting: usize,
    /// Slots of the frame that begins at each; none in the middle of a packet.
    lens: Box<[u8]>,
    /// True once a packet of several slots was posted: `lens` matters.
    chained: bool,
}

impl<const ORDERED: bool> PackedTx<ORDERED> {
    /// A ring in `memory`, for frames behind a header of `header` bytes.
    pub(crate) fn new(memory: RingMemory, header: usize, tables: Option<Tables>) -> Self {
        let slots = memory.geometry.slots;
        let extra = tables.as_ref().map_or(0, Tables::len) * SEGMENTS;
        Self {
            ring: Packed::new(memory),
            header,
            lane: Lane::new(slots, slots + extra),
            tables,
            batch: Batch::default(),
            next: Cursor::new(slots),
            used: Cursor::new(slots),
            oldest: Cursor::new(slots),
            outstanding: 0,
            early: vec![false; slots].into_boxed_slice(),
            waiting: 0,
            lens: vec![1; slots].into_boxed_slice(),
            chained: false,
        }
    }

    /// Writes one slot for each of `count` items.
    #[inline]
    fn write(&mut self, count: usize, mut items: impl Iterator<Item = (u64, usize)>) {
        let header = self.header;
        let table = self.ring.table();
        let mut left = count;
        while left > 0 {
            let straight = left.min(self.next.to_end());
            let first = self.next.index();
            let marks = available(self.next.wrap());
            let mut slots = (slot16(first)..).zip(&table[first..first + straight]);
            // The first descriptor of the batch is handed over last.
            if self.batch.is_empty()
                && let (Some((id, slot)), Some((address, len))) = (slots.next(), items.next())
            {
                slot[0].store((address - header as u64).to_le(), Ordering::Relaxed);
                self.batch
                    .close(slot, first, packed_word(bytes32(len + header), id, marks));
            }
            for ((id, slot), (address, len)) in slots.zip(items.by_ref()) {
                slot[0].store((address - header as u64).to_le(), Ordering::Relaxed);
                let rest = packed_word(bytes32(len + header), id, marks);
                slot[1].store(rest, Ordering::Relaxed);
            }
            if self.chained {
                self.lens[first..first + straight].fill(1);
            }
            self.next.advance(cursor32(straight));
            left -= straight;
        }
        self.outstanding += count;
    }

    /// The frames in the `slots` slots from `oldest` on, which all begin a frame or go on in one.
    fn frames_in(&self, slots: usize) -> usize {
        if !self.chained {
            return slots;
        }
        let (mut at, mut left, mut frames) = (self.used, slots, 0);
        while left > 0 {
            let len = usize::from(self.lens[at.index()]).max(1).min(left);
            at.advance(cursor32(len));
            left -= len;
            frames += 1;
        }
        frames
    }

    /// The slots that buffer `id` takes, if it is one that the device has.
    #[inline]
    fn len_of(&self, id: u16) -> Result<usize, Lie> {
        match self.lens.get(usize::from(id)) {
            Some(&len) if len > 0 => Ok(usize::from(len)),
            _ => Err(Lie::Id(id)),
        }
    }

    /// Slots from `from` to that of `id`.
    #[inline]
    fn distance(&self, from: Cursor, id: u16) -> usize {
        let id = usize::from(id);
        if id >= from.index() {
            id - from.index()
        } else {
            id + from.slots() - from.index()
        }
    }

    /// A used descriptor that stands for all buffers up to `id`.
    #[inline]
    fn complete_up_to(&mut self, id: u16) -> Result<usize, Lie> {
        let slots = self.len_of(id)? + self.distance(self.used, id);
        if slots > self.outstanding {
            return Err(Lie::Id(id));
        }
        let frames = self.frames_in(slots);
        self.used.advance(cursor32(slots));
        self.outstanding -= slots;
        self.lane.landed(frames);
        self.lane.settle(frames);
        Ok(frames)
    }

    /// Used descriptors of up to `most` single slots that come in order, as they do from most
    /// devices; how many there were.
    #[inline]
    fn complete_run(&mut self, most: usize) -> usize {
        if self.chained || self.waiting > 0 {
            return 0;
        }
        let most = most.min(self.outstanding);
        let mut count = 0;
        while count < most
            && let Some(used) = self.ring.used(self.used)
            && usize::from(used.id) == self.used.index()
        {
            self.used.advance(1);
            count += 1;
        }
        self.oldest = self.used;
        self.outstanding -= count;
        self.lane.landed(count);
        self.lane.settle(count);
        count
    }

    /// A used descriptor for buffer `id` alone.
    #[inline]
    fn complete(&mut self, id: u16) -> Result<usize, Lie> {
        let len = self.len_of(id)?;
        // The device's buffers begin in the slots from `oldest` to `next`.
        let behind = self.next.since(self.oldest) as usize;
        if self.distance(self.oldest, id) >= behind || self.early[usize::from(id)] {
            return Err(Lie::Id(id));
        }
        if len > self.outstanding {
            return Err(Lie::Id(id));
        }
        self.used.advance(cursor32(len));
        self.outstanding -= len;
        self.lane.landed(1);
        if usize::from(id) != self.oldest.index() {
            self.early[usize::from(id)] = true;
            self.waiting += 1;
            return Ok(1);
        }
        self.step(len);
        while self.waiting > 0 && self.early[self.oldest.index()] {
            self.early[self.oldest.index()] = false;
            self.waiting -= 1;
            self.step(usize::from(self.lens[self.oldest.index()]));
        }
        Ok(1)
    }

    #[inline]
    fn step(&mut self, len: usize) {
        self.lane.settle(1);
        self.oldest.advance(cursor32(len));
    }
}

impl<const ORDERED: bool> TxEngine for PackedTx<ORDERED> {
    fn lane(&self) -> &Lane {
        &self.lane
    }

    fn lane_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }

    #[inline]
    fn put(&mut self, frames: &[Frame]) -> u64 {
        let mut bytes = 0;
        self.write(
            frames.len(),
            frames.iter().map(|frame| {
                bytes += frame.len() as u64;
                (frame.iova().get(), frame.len())
            }),
        );
        bytes
    }

    fn chain_slots(&self, segments: usize) -> Option<usize> {
        match &self.tables {
            Some(tables) => (self.lane.tables_busy() < tables.len()).then_some(1),
            None => Some(segments),
        }
    }

    fn put_chain(&mut self, frames: &[Frame]) {
        let head = self.next.index();
        let last = frames.len() - 1;
        let header = self.header;
        let parts = frames.iter().enumerate().map(|(n, frame)| {
            let header = if n == 0 { header } else { 0 };
            (
                n,
                frame.iova().get() - header as u64,
                bytes32(frame.len() + header),
            )
        });
        if let Some(tables) = &mut self.tables {
            let (table, address) = tables.take(frames.len());
            for (n, part, len) in parts {
                // §2.8.7: in a table only the length counts, and the flag for writing.
                table[n][0].store(part.to_le(), Ordering::Relaxed);
                let rest = packed_word(len, 0, DescFlags::empty());
                table[n][1].store(rest, Ordering::Relaxed);
            }
            let len = bytes32(size_of_val(table));
            let desc = (address, len, slot16(head));
            self.batch
                .write(self.ring.table(), self.next, desc, DescFlags::INDIRECT);
            self.lens[head] = 1;
            self.next.advance(1);
            self.outstanding += 1;
            return;
        }
        for (n, part, len) in parts {
            let flags = if n == last {
                DescFlags::empty()
            } else {
                DescFlags::NEXT
            };
            let desc = (part, len, slot16(head));
            self.batch.write(self.ring.table(), self.next, desc, flags);
            self.lens[self.next.index()] = 0;
            self.next.advance(1);
        }
        self.lens[head] = u8::try_from(frames.len()).expect("a packet has few buffers");
        self.chained = true;
        self.outstanding += frames.len();
    }

    fn load(&mut self, _set: &Resident) {}

    #[inline]
    fn room_for_residents(&self, _first: usize) -> usize {
        self.lane.free()
    }

    #[inline]
    fn put_residents(&mut self, set: &[ResidentSlot], first: usize, count: usize) -> usize {
        let count = count.min(self.lane.free());
        let (mut at, mut left) = (first, count);
        while left > 0 {
            let straight = left.min(set.len() - at);
            let slots = set[at..at + straight].iter();
            self.write(
                straight,
                slots.map(|slot| (slot.iova.get(), slot.len as usize)),
            );
            at = 0;
            left -= straight;
        }
        if count > 0 {
            self.lane.take_residents(count);
        }
        count
    }

    #[inline]
    fn put_each(&mut self, set: &[ResidentSlot], numbers: &[u32]) {
        let slots = numbers.iter().map(|&number| set[number as usize]);
        self.write(
            numbers.len(),
            slots.map(|slot| (slot.iova.get(), slot.len as usize)),
        );
        self.lane.take_residents(numbers.len());
    }

    fn residents(&self) -> usize {
        self.lane.residents()
    }

    #[inline]
    fn publish(&mut self) {
        self.batch.publish(self.ring.table());
    }

    #[inline]
    fn look(&mut self, want: usize) -> Result<usize, Lie> {
        let mut frames = 0;
        while frames < want && self.outstanding > 0 {
            if !ORDERED {
                frames += self.complete_run(want - frames);
            }
            if self.outstanding == 0 {
                break;
            }
            let Some(used) = self.ring.used(self.used) else {
                break;
            };
            frames += match ORDERED {
                true => self.complete_up_to(used.id)?,
                false => self.complete(used.id)?,
            };
        }
        self.lane.free_residents();
        Ok(frames)
    }

    #[inline]
    fn wants_notification(&self) -> bool {
        self.ring.wants_notification()
    }

    #[inline]
    fn flying(&self) -> usize {
        self.lane.flying()
    }

    fn restart(&mut self) -> usize {
        let lost = self.lane.abandon();
        self.ring.restart();
        self.batch = Batch::default();
        let first = Cursor::new(self.ring.slots());
        (self.next, self.used, self.oldest) = (first, first, first);
        (self.outstanding, self.waiting) = (0, 0);
        self.early.fill(false);
        self.lens.fill(1);
        self.chained = false;
        lost
    }
}

/// A slot's number as descriptors have it.
#[inline]
fn slot16(slot: usize) -> u16 {
    debug_assert!(
        slot < crate::ring::SLOTS_MAX,
        "a ring has at most 32768 slots"
    );
    #[expect(clippy::cast_possible_truncation, reason = "at most 32768 slots")]
    let slot = slot as u16;
    slot
}

/// A number of slots as cursors have it.
#[inline]
fn cursor32(slots: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 32768 slots")]
    let slots = slots as u32;
    slots
}

/// A length as descriptors have it.
#[inline]
fn bytes32(len: usize) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a frame's length is 16 bits"
    )]
    let len = len as u32;
    len
}
