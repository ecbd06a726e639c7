//! Sending on a split ring.
//!
//! Descriptors are used in ring order. A device that completes in order (they all do, whether
//! they promise it or not) thus finds the same frame under the same descriptor as on the lap
//! before wherever the engine's frames come round in the same order, and then no descriptor and
//! no entry of the available ring is written at all: the driver compares before it stores.
//!
//! Without `IN_ORDER`, the first part of the table may be a *resident table*: entry *i* describes
//! frame *i* modulo the set's period, for as many whole periods as fit, written once when the
//! set is loaded. Posting such frames writes two bytes each in the available ring, and nothing
//! once a lap has shown every entry to be right; their completions are only counted, so that the
//! used ring stays in the device's cache but for its index. At most as many of them are in
//! flight as the table has entries, so that no descriptor is made available twice by a device
//! that keeps the order. Whether it does is read from the used ring for the first lap, and from
//! the last entry of each look later; one that does not gets its resident frames like all others.

use hugemem::{Frame, Resident, ResidentSlot};

use crate::desc::{DescFlags, split_word};
use crate::ring::RingMemory;
use crate::ring::split::{Split, set, set_single, set16};
use crate::shared::Lie;
use crate::tx::lane::Lane;
use crate::tx::tables::Tables;
use crate::tx::{SEGMENTS, TxEngine};

/// A split ring that sends; `ORDERED` if the device promised to complete in order.
pub(crate) struct SplitTx<const ORDERED: bool> {
    ring: Split,
    header: usize,
    lane: Lane,
    tables: Option<Tables>,
    /// First slot of the lane; those before it are the resident table.
    base: usize,
    /// The lane's next slot.
    next: usize,
    /// The lane's oldest slot that the device is not known to be done with.
    oldest: usize,
    /// Slots that the device completed before their turn.
    early: Box<[bool]>,
    /// How many those are.
    waiting: usize,
    /// Slots of the frame that begins at each; none in the middle of a packet.
    lens: Box<[u8]>,
    /// True once a packet of several slots was posted: `lens` matters.
    chained: bool,
    /// Buffers made available, ever.
    available: u16,
    /// Buffers used, as far as they were looked at.
    seen: u16,
    table: Table,
}

/// State of the resident table.
#[derive(Debug, Default)]
struct Table {
    /// Entries: whole periods.
    len: usize,
    /// Frames of a period.
    period: usize,
    /// The next entry.
    next: usize,
    /// Entries with the device.
    busy: usize,
    /// Latest entries of the available ring that follow each other as they did a lap before.
    run: usize,
    /// The oldest entry with the device, if it keeps the order.
    oldest: usize,
    /// Completions that were found in order, up to a lap's worth.
    proven: usize,
    /// True once one was not.
    disorderly: bool,
}

impl Table {
    /// The device is done with the entries up to `id`, `count` of them.
    #[inline]
    fn complete(&mut self, id: u32, count: usize) -> Result<(), Lie> {
        if id as usize >= self.len || count > self.busy {
            return Err(Lie::Id(u16::try_from(id).unwrap_or(u16::MAX)));
        }
        self.busy -= count;
        self.oldest += count;
        if self.oldest >= self.len {
            self.oldest -= self.len;
        }
        let last = if self.oldest == 0 {
            self.len
        } else {
            self.oldest
        } - 1;
        self.disorderly |= id as usize != last;
        Ok(())
    }
}

impl<const ORDERED: bool> SplitTx<ORDERED> {
    /// A ring in `memory`, for frames behind a header of `header` bytes.
    pub(crate) fn new(memory: RingMemory, header: usize, tables: Option<Tables>) -> Self {
        let slots = memory.geometry.slots;
        let extra = tables.as_ref().map_or(0, Tables::len) * SEGMENTS;
        Self {
            ring: Split::new(memory),
            header,
            lane: Lane::new(slots, slots + extra),
            tables,
            base: 0,
            next: 0,
            oldest: 0,
            early: vec![false; slots].into_boxed_slice(),
            waiting: 0,
            lens: vec![1; slots].into_boxed_slice(),
            chained: false,
            available: 0,
            seen: 0,
            table: Table::default(),
        }
    }

    /// The lane's slot after `slot`.
    #[inline]
    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.ring.slots() {
            self.base
        } else {
            slot + 1
        }
    }

    /// The lane's slot `count` slots after `slot`.
    #[inline]
    fn ahead(&self, slot: usize, count: usize) -> usize {
        let lane = self.ring.slots() - self.base;
        self.base + (slot - self.base + count) % lane
    }

    /// Writes one slot for each of `count` items, in ring order.
    #[inline]
    fn write(&mut self, count: usize, mut items: impl Iterator<Item = (u64, usize)>) {
        let header = self.header;
        let slots = self.ring.slots();
        let mut left = count;
        while left > 0 {
            let (first, at) = (self.next, self.ring.place(self.available));
            // As far as neither the lane nor the available ring begins again.
            let straight = left.min(slots - first).min(slots - at);
            let table = self.ring.table()[first..first + straight].iter();
            let entries = self.ring.entries()[at..at + straight].iter();
            let places = (slot16(first)..).zip(table.zip(entries));
            for ((slot, (desc, entry)), (address, len)) in places.zip(items.by_ref()) {
                let len = bytes32(len + header);
                set_single(desc, address - header as u64, len, DescFlags::empty());
                set16(entry, slot);
            }
            if self.chained {
                self.lens[first..first + straight].fill(1);
            }
            self.next = if first + straight == slots {
                self.base
            } else {
                first + straight
            };
            self.available = self.available.wrapping_add(slot16(straight));
            left -= straight;
        }
        self.table.run = 0;
    }

    /// The device completed the buffer whose head is `id`.
    #[inline]
    fn complete(&mut self, id: u32) -> Result<(), Lie> {
        let slot = id as usize;
        if slot == self.oldest && self.lane.flying() > 0 {
            self.lane.landed(1);
            self.step();
            while self.waiting > 0 && self.early[self.oldest] {
                self.early[self.oldest] = false;
                self.waiting -= 1;
                self.step();
            }
            return Ok(());
        }
        self.complete_early(id)
    }

    /// Goes on to the next slot.
    #[inline]
    fn step(&mut self) {
        self.lane.settle(1);
        self.oldest = match self.chained {
            false => self.after(self.oldest),
            true => self.ahead(self.oldest, usize::from(self.lens[self.oldest])),
        };
    }

    /// As [`Self::complete`], for a device that does not keep the order.
    #[cold]
    fn complete_early(&mut self, id: u32) -> Result<(), Lie> {
        let lie = Lie::Id(u16::try_from(id).unwrap_or(u16::MAX));
        let slot = id as usize;
        let slots = self.ring.slots();
        if slot < self.base || slot >= slots {
            return Err(lie);
        }
        let lane = slots - self.base;
        let distance = (slot + lane - self.oldest) % lane;
        let mut posted = (self.next + lane - self.oldest) % lane;
        if posted == 0 && self.lane.flying() > 0 {
            posted = lane;
        }
        if distance >= posted || self.early[slot] || self.lens[slot] == 0 {
            return Err(lie);
        }
        self.early[slot] = true;
        self.waiting += 1;
        self.lane.landed(1);
        Ok(())
    }

    /// Buffers that the device has.
    #[inline]
    fn outstanding(&self) -> u16 {
        self.available.wrapping_sub(self.seen)
    }

    /// Reads the used entries up to `index`.
    fn read_used(&mut self, index: u16) -> Result<(), Lie> {
        while self.seen != index {
            let (id, _) = self.ring.used(self.seen);
            if (id as usize) < self.base {
                self.table.complete(id, 1)?;
                self.table.proven += 1;
            } else {
                self.complete(id)?;
            }
            self.seen = self.seen.wrapping_add(1);
        }
        Ok(())
    }

    /// True if frame `first` is the next that the resident table has.
    #[inline]
    fn follows(&self, first: usize) -> bool {
        let table = &self.table;
        table.len > 0
            && !table.disorderly
            && (table.busy == 0 || table.next % table.period == first)
    }

    /// Posts `count` entries of the resident table from frame `first` on.
    #[inline]
    fn put_table(&mut self, first: usize, count: usize) {
        if self.table.next % self.table.period != first {
            self.table.next = first;
            self.table.oldest = first;
            self.table.run = 0;
        }
        // A lap of entries that follow each other, and as many periods in a lap: every entry of
        // the available ring already is what it should be.
        let steady =
            self.table.run >= self.ring.slots() && self.ring.slots().is_multiple_of(self.table.len);
        if steady {
            self.table.next = (self.table.next + count) % self.table.len;
        } else {
            let (mut entry, mut at, mut left) = (self.table.next, self.available, count);
            while left > 0 {
                let place = self.ring.place(at);
                let straight = left
                    .min(self.table.len - entry)
                    .min(self.ring.slots() - place);
                let entries = self.ring.entries()[place..place + straight].iter();
                for (cell, number) in entries.zip(slot16(entry)..) {
                    set16(cell, number);
                }
                entry += straight;
                if entry == self.table.len {
                    entry = 0;
                }
                at = at.wrapping_add(slot16(straight));
                left -= straight;
            }
            self.table.next = entry;
            self.table.run = (self.table.run + count).min(self.ring.slots());
        }
        self.table.busy += count;
        self.available = self.available.wrapping_add(slot16(count));
    }
}

impl<const ORDERED: bool> TxEngine for SplitTx<ORDERED> {
    fn lane(&self) -> &Lane {
        &self.lane
    }

    fn lane_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }

    #[inline]
    fn put(&mut self, frames: &[Frame]) -> u64 {
        let mut bytes = 0;
        let items = frames.iter().map(|frame| {
            bytes += frame.len() as u64;
            (frame.iova().get(), frame.len())
        });
        self.write(frames.len(), items);
        bytes
    }

    fn chain_slots(&self, segments: usize) -> Option<usize> {
        match &self.tables {
            Some(tables) => (self.lane.tables_busy() < tables.len()).then_some(1),
            None => Some(segments),
        }
    }

    fn put_chain(&mut self, frames: &[Frame]) {
        let (head, at) = (self.next, self.available);
        self.ring.offer(at, slot16(head));
        self.available = at.wrapping_add(1);
        self.table.run = 0;
        let last = frames.len() - 1;
        let parts = frames.iter().enumerate().map(|(n, frame)| {
            let header = if n == 0 { self.header } else { 0 };
            (
                n,
                frame.iova().get() - header as u64,
                bytes32(frame.len() + header),
            )
        });
        if let Some(tables) = &mut self.tables {
            let (table, address) = tables.take(frames.len());
            for (n, part, len) in parts {
                let rest = match n == last {
                    false => split_word(len, DescFlags::NEXT, slot16(n + 1)),
                    true => split_word(len, DescFlags::empty(), 0),
                };
                set(&table[n], part, rest);
            }
            let len = bytes32(size_of_val(table));
            set_single(&self.ring.table()[head], address, len, DescFlags::INDIRECT);
            self.lens[head] = 1;
            self.next = self.after(head);
            return;
        }
        let mut slot = head;
        for (n, part, len) in parts {
            let next = self.after(slot);
            let rest = match n == last {
                false => split_word(len, DescFlags::NEXT, slot16(next)),
                true => split_word(len, DescFlags::empty(), 0),
            };
            set(&self.ring.table()[slot], part, rest);
            self.lens[slot] = 0;
            slot = next;
        }
        self.lens[head] = u8::try_from(frames.len()).expect("a packet has few buffers");
        self.chained = true;
        self.next = slot;
    }

    fn load(&mut self, set: &Resident) {
        let (period, slots) = (set.slots().len(), self.ring.slots());
        let Table {
            len: had,
            disorderly,
            proven,
            ..
        } = self.table;
        self.table = Table {
            disorderly,
            proven,
            ..Table::default()
        };
        if ORDERED {
            return;
        }
        // Whole periods in half of the ring where they go round with it, else in three quarters:
        // the rest is for other frames.
        let len = match slots.is_multiple_of(period) && period <= slots / 2 {
            true => slots / 2,
            false => slots / 4 * 3 / period * period,
        };
        let can_move = self.lane.is_empty();
        let len = if can_move {
            len
        } else {
            had.min(len) / period * period
        };
        if !can_move && len == 0 {
            return;
        }
        for (entry, slot) in self.ring.table()[..len]
            .iter()
            .zip(set.slots().iter().cycle())
        {
            let len = slot.len + bytes32(self.header);
            set_single(
                entry,
                slot.iova.back(self.header as u64).get(),
                len,
                DescFlags::empty(),
            );
        }
        self.table.len = len;
        self.table.period = period;
        if can_move {
            self.base = len;
            self.lane.resize(slots - len);
            (self.next, self.oldest) = (len, len);
        }
    }

    #[inline]
    fn room_for_residents(&self, first: usize) -> usize {
        if self.follows(first) {
            self.table.len - self.table.busy
        } else {
            self.lane.free()
        }
    }

    #[inline]
    fn put_residents(&mut self, set: &[ResidentSlot], first: usize, count: usize) -> usize {
        let count = count.min(self.room_for_residents(first));
        if count == 0 {
            return 0;
        }
        if self.follows(first) {
            self.put_table(first, count);
            return count;
        }
        let (mut at, mut left) = (first, count);
        while left > 0 {
            let straight = left.min(set.len() - at);
            let frames = set[at..at + straight].iter();
            self.write(
                straight,
                frames.map(|slot| (slot.iova.get(), slot.len as usize)),
            );
            at = 0;
            left -= straight;
        }
        self.lane.take_residents(count);
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

    fn mix(&mut self) {
        if self.table.len == 0 || self.table.busy > 0 || !self.lane.is_empty() {
            return;
        }
        let Table {
            disorderly, proven, ..
        } = self.table;
        self.table = Table {
            disorderly,
            proven,
            ..Table::default()
        };
        self.base = 0;
        self.lane.resize(self.ring.slots());
        (self.next, self.oldest) = (0, 0);
    }

    fn residents(&self) -> usize {
        self.table.busy + self.lane.residents()
    }

    #[inline]
    fn publish(&mut self) {
        self.ring.publish(self.available);
    }

    #[inline]
    fn look(&mut self, _want: usize) -> Result<usize, Lie> {
        let index = self.ring.used_index();
        let new = index.wrapping_sub(self.seen);
        if new == 0 {
            return Ok(0);
        }
        if new > self.outstanding() {
            return Err(Lie::Count(new));
        }
        let count = usize::from(new);
        if ORDERED {
            self.lane.landed(count);
            self.lane.settle(count);
            self.seen = index;
        } else if self.lane.flying() == 0 && self.table.proven >= self.ring.slots() {
            // Resident frames alone: counted, and the last one's number looked at.
            let (id, _) = self.ring.used(index.wrapping_sub(1));
            self.table.complete(id, count)?;
            self.seen = index;
        } else {
            self.read_used(index)?;
        }
        self.lane.free_residents();
        Ok(count)
    }

    #[inline]
    fn wants_notification(&self) -> bool {
        self.ring.wants_notification()
    }

    #[inline]
    fn flying(&self) -> usize {
        self.lane.flying() + self.table.busy
    }

    fn restart(&mut self) -> usize {
        let lost = self.lane.abandon() + self.table.busy;
        self.ring.restart();
        self.early.fill(false);
        self.lens.fill(1);
        (self.next, self.oldest) = (self.base, self.base);
        (self.available, self.seen, self.waiting) = (0, 0, 0);
        self.chained = false;
        let Table { len, period, .. } = self.table;
        self.table = Table {
            len,
            period,
            ..Table::default()
        };
        lost
    }
}

/// A slot's number as descriptors have it.
#[inline]
fn slot16(slot: usize) -> u16 {
    debug_assert!(
        slot <= crate::ring::SLOTS_MAX,
        "a ring has at most 32768 slots"
    );
    #[expect(clippy::cast_possible_truncation, reason = "at most 32768 slots")]
    let slot = slot as u16;
    slot
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
