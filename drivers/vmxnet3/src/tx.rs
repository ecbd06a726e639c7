//! A send queue.
//!
//! Frames lie in the ring in the order in which they were posted, one or more slots each, and the
//! device completes them in that order, each by the slot of its last buffer. A frame of several
//! buffers becomes visible with the one store that hands over its first slot, which is written
//! last. One slot always stays empty, so that a producer index that meets the device's own means an
//! empty ring.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hugemem::{Burst, Dma, Fifo, Frame, Resident, TxFlags};
use hw::Bar;
use hw::ring::MaskedCursor;
use port::{QueueState, Turn, TxCounts, TxQueue};

use crate::area::{Area, queue};
use crate::checksum;
use crate::desc::{self, BUFFER_MAX, DATA, DataWords, Words, completion, tx};
use crate::plan::TxMemory;
use crate::regs::pass;
use crate::shared::{Follower, Lie};

/// Most buffers of a sent frame (defs: `VMXNET3_MAX_TXD_PER_PKT`).
pub(crate) const SEGMENTS: usize = 16;

/// In [`Tx::ends`]: the slot of a buffer that is not its frame's last.
const MIDDLE: u8 = u8::MAX;
/// In [`Tx::ends`]: the slot of a resident frame, which gives no buffer back.
const RESIDENT: u8 = 0;

/// A send queue of a device whose registers are `B`.
pub(crate) struct Tx<B: Bar> {
    bar: B,
    /// Its number in the device.
    number: u32,
    area: Area,
    ring: Dma<Words>,
    completions: Dma<Words>,
    data: Option<Dma<DataWords>>,
    /// What frames may ask of the device.
    allowed: TxFlags,
    /// The next slot to fill.
    fill: MaskedCursor,
    /// The oldest slot that the device has.
    oldest: MaskedCursor,
    /// The next completion.
    next: MaskedCursor,
    /// For each slot: how many buffers come back when it is completed, or what else it is.
    ends: Box<[u8]>,
    /// Frames of the engine, with the device or waiting to be reaped.
    frames: Fifo,
    /// How many of the first of them are done.
    done: usize,
    /// Resident frames that the device has.
    residents: usize,
    set: Option<Arc<Resident>>,
    /// The set to take up once the device has no frame of the last one.
    pending: Option<Arc<Resident>>,
    /// Frames that the device was not told of.
    deferred: u32,
    follower: Follower,
    counts: TxCounts,
    kicks: u64,
    copied: u64,
}

impl<B: Bar> Tx<B> {
    /// A queue on rings that are clear.
    pub(crate) fn new(
        bar: B,
        number: u32,
        memory: TxMemory,
        allowed: TxFlags,
        follower: Follower,
    ) -> Self {
        let TxMemory {
            area,
            ring,
            completions,
            data,
        } = memory;
        let slots = ring.len();
        let start = MaskedCursor::new(slots);
        Self {
            bar,
            number,
            area,
            ring,
            completions,
            data,
            allowed,
            fill: start,
            oldest: start,
            next: start,
            ends: vec![RESIDENT; slots].into_boxed_slice(),
            frames: Fifo::with_capacity(slots),
            done: 0,
            residents: 0,
            set: None,
            pending: None,
            deferred: 0,
            follower,
            counts: TxCounts::default(),
            kicks: 0,
            copied: 0,
        }
    }

    /// True if the queue may work.
    #[inline]
    fn is_running(&mut self) -> bool {
        match self.follower.turn() {
            Turn::Work | Turn::Resume => true,
            Turn::Rest => false,
            Turn::Clear => {
                self.restart();
                self.follower.cleared();
                false
            }
        }
    }

    /// The device was reset: what it had is abandoned, and the rings are as new.
    #[cold]
    fn restart(&mut self) {
        self.counts.abandoned += self.counts.in_flight();
        self.done = self.frames.len();
        self.residents = 0;
        self.deferred = 0;
        for slot in self.ring.iter().chain(self.completions.iter()) {
            slot.iter()
                .for_each(|word| word.store(0, Ordering::Relaxed));
        }
        let start = MaskedCursor::new(self.ring.len());
        (self.fill, self.oldest, self.next) = (start, start, start);
        self.note();
    }

    /// Slots that can be filled.
    #[inline]
    fn free(&self) -> usize {
        self.ring.len() - 1 - self.fill.since(self.oldest) as usize
    }

    /// Frames of the engine that can be taken: those that wait to be reaped count.
    #[inline]
    fn room(&self) -> usize {
        (self.ring.len() - 1).saturating_sub(self.frames.len())
    }

    /// Fills the next slot with a buffer of `len` bytes at `address`.
    #[inline]
    fn put(&mut self, address: u64, len: usize, rest: u64, end: u8) {
        let index = self.fill.index();
        desc::post(&self.ring[index], self.fill, address, rest | length(len));
        self.ends[index] = end;
        self.fill.advance(1);
    }

    /// Fills the next slot with a whole frame.
    #[inline]
    fn put_frame(&mut self, frame: &Frame, rest: u64) {
        let address = match self.copy(frame) {
            Some(address) => address,
            None => frame.iova().get(),
        };
        self.put(address, frame.len(), rest | tx::EOP | tx::CQ, 1);
    }

    /// Copies a small frame into the data ring, if there is one; where it lies then.
    #[inline]
    fn copy(&mut self, frame: &Frame) -> Option<u64> {
        let data = self.data.as_ref().filter(|_| frame.len() <= DATA)?;
        let index = self.fill.index();
        let (whole, rest) = frame.bytes().as_chunks::<8>();
        let words = &data[index];
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            words[whole.len()].store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
        self.copied += 1;
        Some(data.iova().add((index * DATA) as u64).get())
    }

    /// Posts frames that are one buffer each and ask for nothing.
    #[inline]
    fn post_plain(&mut self, frames: &mut Burst) -> usize {
        let count = frames.len().min(self.free()).min(self.room());
        for frame in &frames.as_slice()[..count] {
            self.put_frame(frame, 0);
        }
        self.frames.put(frames, count);
        self.hand_over(count);
        count
    }

    /// Posts frames of any kind.
    fn post_mixed(&mut self, frames: &mut Burst) -> usize {
        let (mut buffers, mut packets) = (0, 0);
        while !frames.is_empty() {
            let more = frames.iter().take_while(|frame| goes_on(frame)).count();
            let segments = (more + 1).min(frames.len());
            assert!(
                segments <= SEGMENTS,
                "a frame has at most as many buffers as caps say"
            );
            if segments > self.free() || segments > self.room() {
                break;
            }
            let parts = &frames.as_slice()[..segments];
            let asked = self.asked(&parts[0]);
            match parts {
                [one] => self.put_frame(one, asked),
                parts => self.put_chain(parts, asked),
            }
            self.frames.put(frames, segments);
            (buffers, packets) = (buffers + segments, packets + 1);
        }
        self.hand_over(packets);
        buffers
    }

    /// What a frame asks of the device, in its first descriptor.
    fn asked(&self, first: &Frame) -> u64 {
        let mut rest = 0;
        let flags = first.flags & self.allowed;
        if flags.contains(TxFlags::VLAN) {
            rest |= tx::TI | tx::TCI.put(first.vlan.into());
        }
        if flags.contains(TxFlags::L4_CHECKSUM)
            && let Some(place) = checksum::place(first.bytes())
        {
            rest |= tx::OM.put(tx::OM_CHECKSUM)
                | tx::HLEN.put(place.header)
                | tx::MSSCOF.put(place.field);
        }
        rest
    }

    /// Fills slots with one frame in several buffers, its first slot last. A buffer of no bytes
    /// gets no slot: a descriptor cannot say so.
    fn put_chain(&mut self, parts: &[Frame], asked: u64) {
        let filled = |frame: &&Frame| !frame.is_empty();
        let count = parts.iter().filter(filled).count().max(1);
        let mut parts_left = parts.iter().filter(filled);
        let first = parts_left.next().unwrap_or(&parts[0]);
        let end = |number: usize| {
            if number + 1 == count {
                tx::EOP | tx::CQ
            } else {
                0
            }
        };
        let head = self.fill;
        self.fill.advance(1);
        for (number, part) in (1..).zip(parts_left) {
            self.put(part.iova().get(), part.len(), end(number), MIDDLE);
        }
        let last = self.fill;
        self.fill = head;
        self.put(first.iova().get(), first.len(), asked | end(0), MIDDLE);
        self.fill = last;
        let last_slot = head.ahead(last.since(head) - 1).index();
        self.ends[last_slot] = u8::try_from(parts.len()).expect("a frame has few buffers");
    }

    /// Hands `packets` frames over, and tells the device if it wants to be told.
    #[inline]
    fn hand_over(&mut self, packets: usize) {
        if packets == 0 {
            return;
        }
        self.counts.posted += packets as u64;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a ring has 4096 slots at most"
        )]
        let packets = packets as u32;
        let waiting = self.deferred.saturating_add(packets);
        if waiting >= self.area.get(queue::TX_THRESHOLD) {
            self.kick();
        } else {
            self.defer(waiting);
        }
        self.note();
    }

    /// Tells the device how far the ring is filled.
    fn kick(&mut self) {
        self.defer(0);
        hw::ring::publish();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a ring has 4096 slots at most"
        )]
        let index = self.fill.index() as u32;
        self.bar.write(pass::TXPROD.of(self.number), index);
        self.kicks += 1;
    }

    /// Notes how many frames the device was not told of, also for the device.
    #[inline]
    fn defer(&mut self, frames: u32) {
        if self.deferred != frames {
            self.deferred = frames;
            self.area.put(queue::TX_DEFERRED, frames);
        }
    }

    /// Looks what the device is done with; how many frames more.
    #[inline]
    fn look(&mut self) -> usize {
        let (mut frames, mut lie) = (0, None);
        while let Some(done) = completion(&self.completions[self.next.index()], self.next) {
            match self.complete(done.index()) {
                Ok(more) => frames += more,
                Err(found) => {
                    lie = Some(found);
                    break;
                }
            }
            self.next.advance(1);
        }
        if frames > 0 {
            self.counts.completed += frames as u64;
            self.follower.counts().frames.set(self.counts.completed);
        }
        if let Some(lie) = lie {
            self.fail(lie);
        } else if frames == 0 && self.deferred > 0 {
            // The device may sleep: what it was not told of would stay for ever.
            self.kick();
        }
        frames
    }

    /// The device is done with every slot up to `index`; how many frames those are.
    #[inline]
    fn complete(&mut self, index: usize) -> Result<usize, Lie> {
        let slots = self.ring.len();
        if index >= slots {
            return Err(Lie::Slot(index));
        }
        let ahead = index.wrapping_sub(self.oldest.index()) & (slots - 1);
        if ahead >= self.fill.since(self.oldest) as usize {
            return Err(Lie::Slot(index));
        }
        if self.ends[index] == MIDDLE {
            return Err(Lie::Middle(index));
        }
        let mut frames = 0;
        for _ in 0..=ahead {
            match self.ends[self.oldest.index()] {
                MIDDLE => {}
                RESIDENT => {
                    frames += 1;
                    self.residents -= 1;
                }
                buffers => {
                    frames += 1;
                    self.done += usize::from(buffers);
                }
            }
            self.oldest.advance(1);
        }
        Ok(frames)
    }

    #[cold]
    fn fail(&mut self, lie: Lie) {
        self.follower.fail(lie);
        // The frames stay until the device is stopped, which may still read them.
        self.counts.abandoned += self.counts.in_flight();
        self.note();
    }

    /// Tells the control thread what was counted.
    #[inline]
    fn note(&self) {
        let ledger = self.follower.counts();
        ledger.frames.set(self.counts.completed);
        ledger.posted.set(self.counts.posted);
        ledger.errors.set(self.counts.abandoned);
        ledger.kicks.set(self.kicks);
        ledger.copied.set(self.copied);
    }

    /// Takes up the set that waits, if the device has no frame of the last one.
    fn take_up(&mut self) -> bool {
        if self.pending.is_none() {
            return true;
        }
        if self.residents > 0 {
            self.look();
        }
        if self.residents > 0 {
            return false;
        }
        self.set = self.pending.take();
        true
    }

    /// Slots that can be filled of the `want` that are wanted, once the device was looked at; none
    /// if it lied.
    #[inline]
    fn make_room(&mut self, want: usize) -> usize {
        if self.free() < want {
            self.look();
            if self.follower.has_failed() {
                return 0;
            }
        }
        want.min(self.free())
    }

    /// Fills slots with the frames of the loaded set that `numbers` names, as many as fit; how
    /// many.
    #[inline]
    fn post_residents(&mut self, numbers: impl ExactSizeIterator<Item = usize>) -> usize {
        if !self.is_running() || !self.take_up() {
            return 0;
        }
        let count = self.make_room(numbers.len());
        let set = self.set.take();
        let slots = set
            .as_ref()
            .expect("a set is loaded before its frames are sent")
            .slots();
        for number in numbers.take(count) {
            let slot = slots[number];
            self.put(
                slot.iova.get(),
                slot.len as usize,
                tx::EOP | tx::CQ,
                RESIDENT,
            );
        }
        self.set = set;
        self.residents += count;
        self.hand_over(count);
        count
    }
}

/// True if the next frame continues this one.
#[inline]
fn goes_on(frame: &Frame) -> bool {
    frame.flags.contains(TxFlags::MORE)
}

/// The length in a descriptor. A frame of no bytes cannot be told of, as 0 means 16384: it is
/// sent as one of a byte, which the device drops and counts.
#[inline]
fn length(len: usize) -> u64 {
    assert!(len <= BUFFER_MAX, "a frame is at most as long as caps say");
    tx::LEN.put(len.max(1) as u64)
}

impl<B: Bar + Send> TxQueue for Tx<B> {
    fn burst(&mut self, frames: &mut Burst) -> usize {
        if frames.is_empty() || !self.is_running() {
            return 0;
        }
        if self.make_room(frames.len()) == 0 {
            return 0;
        }
        let plain = frames
            .iter()
            .fold(true, |plain, frame| plain & frame.flags.is_empty());
        if plain {
            self.post_plain(frames)
        } else {
            self.post_mixed(frames)
        }
    }

    fn reap(&mut self, out: &mut Burst) -> usize {
        let running = self.is_running();
        if self.follower.has_failed() {
            return 0;
        }
        loop {
            let moved = self.frames.take(out, self.done);
            self.done -= moved;
            // On if what was done was resident frames.
            if moved > 0 || !running || self.look() == 0 {
                return moved;
            }
        }
    }

    fn load(&mut self, set: Arc<Resident>) {
        self.pending = Some(set);
        self.take_up();
    }

    fn burst_resident(&mut self, first: usize, count: usize) -> usize {
        let loaded = self.pending.as_ref().or(self.set.as_ref());
        let period = loaded.map_or(0, |set| set.slots().len());
        assert!(first < period, "frame {first} is not in the set");
        let mut next = first;
        self.post_residents((0..count).map(|_| {
            let number = next;
            next = if next + 1 == period { 0 } else { next + 1 };
            number
        }))
    }

    fn burst_resident_each(&mut self, numbers: &[u32]) -> usize {
        self.post_residents(numbers.iter().map(|&number| number as usize))
    }

    fn poll(&mut self) {
        if self.is_running() {
            self.look();
        }
    }

    fn counts(&self) -> TxCounts {
        self.counts
    }

    fn state(&self) -> QueueState {
        self.follower.state()
    }
}

impl<B: Bar> Drop for Tx<B> {
    fn drop(&mut self) {
        let sets = [self.set.take(), self.pending.take()];
        let queued = &mut self.frames;
        let frames = std::iter::from_fn(|| queued.pop());
        self.follower.leave(frames, sets.into_iter().flatten());
    }
}
