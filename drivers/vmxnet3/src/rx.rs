//! A receive queue.
//!
//! Frames are armed in two rings: heads, which every received frame begins in, and bodies, which
//! a frame goes on in that does not fit its head. Only a port that was started with `RX_SCATTER`
//! arms bodies; then both rings get about as many. Each ring's buffers are used in its order. A
//! device may pass over buffers; they are armed again behind the others.
//!
//! What a device says of a frame stands in the completion of its last buffer, so a frame is
//! handed up when all its completions are there.

use std::sync::atomic::Ordering;

use hugemem::{BURST, Burst, Dma, Fifo, Frame, TxFlags};
use hw::Bar;
use hw::ring::MaskedCursor;
use port::{QueueState, RxBurst, RxFlags, RxMeta, RxQueue, Turn};

use crate::area::{Area, queue};
use crate::desc::{self, BUFFER_MAX, DATA, DataWords, Done, Words, completion};
use crate::plan::RxMemory;
use crate::regs::pass;
use crate::shared::{Follower, Lie};

/// Most buffers of a received frame.
pub(crate) const CHAIN: usize = 32;

/// A ring of empty buffers.
struct Side {
    ring: Dma<Words>,
    /// Bodies, not heads.
    body: bool,
    /// The next slot to fill.
    fill: MaskedCursor,
    /// The oldest slot that the device has.
    oldest: MaskedCursor,
    /// The frames in the slots between.
    frames: Fifo,
    /// Up to where the device was told of armed slots.
    told: MaskedCursor,
}

impl Side {
    fn new(ring: Dma<Words>, body: bool) -> Self {
        let start = MaskedCursor::new(ring.len());
        Self {
            body,
            fill: start,
            oldest: start,
            told: start,
            frames: Fifo::with_capacity(ring.len()),
            ring,
        }
    }

    /// Hands the next slot over with the buffer of `frame`.
    #[inline]
    fn write(&mut self, frame: &Frame) {
        let len = frame.capacity().min(BUFFER_MAX) as u64;
        let slot = &self.ring[self.fill.index()];
        desc::arm(slot, self.fill, frame.iova().get(), len, self.body);
        self.fill.advance(1);
    }

    /// Arms the first `count` of `empties`; there is room.
    #[inline]
    fn arm(&mut self, empties: &mut Burst, count: usize) {
        for frame in &empties.as_slice()[..count] {
            self.write(frame);
        }
        self.frames.put(empties, count);
    }

    /// How far slot `index` is behind the oldest that the device has.
    #[inline]
    fn ahead(&self, index: usize) -> Result<usize, Lie> {
        let ahead = index.wrapping_sub(self.oldest.index()) & (self.ring.len() - 1);
        if index < self.ring.len() && ahead < self.frames.len() {
            Ok(ahead)
        } else {
            Err(Lie::Slot(index))
        }
    }

    /// Arms the oldest frame again: the device has passed it over.
    fn arm_oldest_again(&mut self) {
        if let Some(frame) = self.frames.pop() {
            self.oldest.advance(1);
            self.write(&frame);
            let full = self.frames.push(frame);
            debug_assert!(full.is_ok(), "it was here before");
        }
    }

    /// The ring as new, with every frame that it holds armed.
    fn restart(&mut self) {
        clear(&self.ring);
        let start = MaskedCursor::new(self.ring.len());
        (self.fill, self.oldest, self.told) = (start, start, start);
        for number in 0..self.frames.len() {
            let frame = self
                .frames
                .get(number)
                .expect("the number is below the length");
            let len = frame.capacity().min(BUFFER_MAX) as u64;
            let slot = &self.ring[self.fill.index()];
            desc::arm(slot, self.fill, frame.iova().get(), len, self.body);
            self.fill.advance(1);
        }
    }
}

fn clear(ring: &[Words]) {
    for slot in ring {
        slot.iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

/// What a queue is to do besides moving frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Duties {
    /// Receive queues that the device has: the number of a ring tells its queue modulo this.
    pub(crate) queues: u32,
    /// Most buffers of a frame: 1 without `RX_SCATTER`.
    pub(crate) chain: usize,
    /// Tell what the device found out about checksums.
    pub(crate) checksums: bool,
}

/// A receive queue of a device whose registers are `B`.
pub(crate) struct Rx<B: Bar> {
    bar: B,
    /// Its number in the device.
    number: u32,
    area: Area,
    heads: Side,
    bodies: Side,
    completions: Dma<Words>,
    /// The next completion.
    next: MaskedCursor,
    data: Option<Dma<DataWords>>,
    duties: Duties,
    follower: Follower,
    frames: u64,
    errors: u64,
    armed: u64,
    kicks: u64,
    copied: u64,
    skipped: u64,
}

/// Where a buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Head,
    Body,
    /// In the data ring, at the slot of its head, which stays empty.
    Data,
}

impl<B: Bar> Rx<B> {
    /// A queue on rings that are clear.
    pub(crate) fn new(
        bar: B,
        number: u32,
        memory: RxMemory,
        duties: Duties,
        follower: Follower,
    ) -> Self {
        let RxMemory {
            area,
            heads,
            bodies,
            completions,
            data,
        } = memory;
        Self {
            bar,
            number,
            area,
            next: MaskedCursor::new(completions.len()),
            heads: Side::new(heads, false),
            bodies: Side::new(bodies, true),
            completions,
            data,
            duties,
            follower,
            frames: 0,
            errors: 0,
            armed: 0,
            kicks: 0,
            copied: 0,
            skipped: 0,
        }
    }

    /// True if the queue may work.
    #[inline]
    fn is_running(&mut self) -> bool {
        match self.follower.turn() {
            Turn::Work | Turn::Resume => true,
            Turn::Rest => false,
            Turn::Clear => {
                clear(&self.completions);
                self.next = MaskedCursor::new(self.completions.len());
                self.heads.restart();
                self.bodies.restart();
                self.follower.cleared();
                false
            }
        }
    }

    /// The completion `ahead` of the next, if it is there.
    #[inline]
    fn peek(&self, ahead: u32) -> Option<Done> {
        let at = self.next.ahead(ahead);
        completion(&self.completions[at.index()], at)
    }

    /// The ring that a completion names.
    #[inline]
    fn place(&self, done: Done) -> Result<Place, Lie> {
        let ring = done.ring();
        match ring.wrapping_sub(self.number) {
            0 => Ok(Place::Head),
            distance if distance == self.duties.queues => Ok(Place::Body),
            distance if distance == 2 * self.duties.queues && self.data.is_some() => {
                Ok(Place::Data)
            }
            _ => Err(Lie::Ring(ring)),
        }
    }

    /// Takes what the device has filled. Where that is nothing, nothing is done but to look, as
    /// whoever mostly sends does after every burst.
    #[inline]
    fn collect(&mut self, out: &mut RxBurst) -> Result<(), Lie> {
        while out.frames.len() < BURST && self.peek(0).is_some() {
            if self.take_singles(out)? == 0 && !self.take_frame(out)? {
                break;
            }
        }
        Ok(())
    }

    /// Takes frames that fill a head each, as long as they follow one another; how many.
    #[inline]
    fn take_singles(&mut self, out: &mut RxBurst) -> Result<usize, Lie> {
        // So narrow that clearing it is a few stores, not a call of memset. That one's vectors of
        // 256 bits, in an emulated guest, leave the host's processor in a state in which all that
        // QEMU does for the next register access takes half as long again.
        let mut lens = [0u16; BURST];
        let at = out.frames.len();
        let most = (BURST - at).min(self.heads.frames.len());
        let mut count = 0;
        while count < most {
            #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
            let Some(done) = self.peek(count as u32) else {
                break;
            };
            let expected = self.heads.oldest.index() + count;
            let is_next = done.index() == expected & (self.heads.ring.len() - 1);
            let is_single = done.is_first() & done.is_last() & !done.is_bad();
            if !is_next || !is_single || done.len() == 0 || done.ring() != self.number {
                break;
            }
            lens[count] = done.len16();
            out.meta[at + count] = self.meta(done, done);
            count += 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
        let steps = count as u32;
        self.heads.frames.take(&mut out.frames, count);
        self.heads.oldest.advance(steps);
        self.next.advance(steps);
        self.frames += count as u64;
        let mut lie = None;
        let taken = out.frames.as_mut_slice()[at..].iter_mut();
        for ((frame, &len), meta) in taken.zip(&lens).zip(&mut out.meta[at..]) {
            lie = fit(frame, len.into(), meta).err().or(lie);
        }
        lie.map_or(Ok(count), Err)
    }

    /// Takes a frame of any kind, if all of it is there and `out` has room for it. True if
    /// something was done.
    fn take_frame(&mut self, out: &mut RxBurst) -> Result<bool, Lie> {
        let Some(parts) = self.parts()? else {
            return Ok(false);
        };
        let Some(first) = self.peek(0) else {
            return Ok(false);
        };
        if parts == 1 && first.len() == 0 {
            // Nothing was written: the buffer was passed over.
            let place = self.place(first)?;
            self.pass_over(place, first.index())?;
            let side = if place == Place::Body {
                &mut self.bodies
            } else {
                &mut self.heads
            };
            side.arm_oldest_again();
            self.skipped += 1;
            self.next.advance(1);
            return Ok(true);
        }
        if out.frames.room() < parts {
            return Ok(false);
        }
        let at = out.frames.len();
        let mut last = first;
        for number in 0..parts {
            let Some(done) = self.peek(0) else {
                return Ok(false);
            };
            self.take_part(done, out)?;
            out.meta[at + number] = RxMeta::default();
            if number + 1 < parts {
                out.meta[at + number].flags = RxFlags::MORE;
            }
            last = done;
            self.next.advance(1);
        }
        let mut meta = self.meta(first, last);
        if last.is_bad() {
            self.errors += 1;
            // Whoever gathers the parts looks at each.
            out.meta[at + parts - 1].flags |= RxFlags::ERROR;
            meta.flags |= RxFlags::ERROR;
        } else {
            self.frames += 1;
        }
        meta.flags |= out.meta[at].flags;
        out.meta[at] = meta;
        Ok(true)
    }

    /// Buffers of the next frame, if all its completions are there.
    fn parts(&self) -> Result<Option<usize>, Lie> {
        let mut parts = 0;
        loop {
            #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
            let Some(done) = self.peek(parts as u32) else {
                return Ok(None);
            };
            if done.is_first() != (parts == 0) {
                return Err(Lie::Torn);
            }
            parts += 1;
            if done.is_last() {
                return Ok(Some(parts));
            }
            if parts >= self.duties.chain {
                return Err(Lie::Chain(self.duties.chain));
            }
        }
    }

    /// Arms again what the device has passed over before slot `index`.
    fn pass_over(&mut self, place: Place, index: usize) -> Result<(), Lie> {
        let side = if place == Place::Body {
            &mut self.bodies
        } else {
            &mut self.heads
        };
        let ahead = side.ahead(index)?;
        for _ in 0..ahead {
            side.arm_oldest_again();
        }
        self.skipped += ahead as u64;
        Ok(())
    }

    /// Moves the buffer that `done` is about to the end of `out`, which has room.
    fn take_part(&mut self, done: Done, out: &mut RxBurst) -> Result<(), Lie> {
        let place = self.place(done)?;
        self.pass_over(place, done.index())?;
        let side = if place == Place::Body {
            &mut self.bodies
        } else {
            &mut self.heads
        };
        side.frames.take(&mut out.frames, 1);
        side.oldest.advance(1);
        let at = out.frames.len() - 1;
        let frame = &mut out.frames.as_mut_slice()[at];
        if place == Place::Data {
            if done.len() > DATA {
                frame.set_len(0);
                out.meta[at].flags = RxFlags::ERROR;
                return Err(Lie::Length(done.len()));
            }
            if let Some(data) = &self.data {
                copy(&data[done.index()], frame, done.len());
                self.copied += 1;
            }
        }
        fit(frame, done.len(), &mut out.meta[at])
    }

    /// What is said of a frame in the completions of its first and its last buffer.
    #[inline]
    fn meta(&self, first: Done, last: Done) -> RxMeta {
        let mut meta = RxMeta::default();
        if let Some(hash) = first.hash() {
            meta.hash = hash;
            meta.flags |= RxFlags::HASH;
        }
        if let Some(tag) = last.tag() {
            meta.vlan = tag;
            meta.flags |= RxFlags::VLAN;
        }
        if self.duties.checksums {
            meta.flags |= match last.ipv4() {
                Some(true) => RxFlags::IPV4_GOOD,
                Some(false) => RxFlags::IPV4_BAD,
                None => RxFlags::empty(),
            };
            meta.flags |= match last.l4() {
                Some(true) => RxFlags::L4_GOOD,
                Some(false) => RxFlags::L4_BAD,
                None => RxFlags::empty(),
            };
        }
        meta
    }

    /// Tells the device of armed slots, if it wants to be told. On the first lap it is told in any
    /// case: it may not have looked yet.
    #[inline]
    fn tell(&mut self) {
        let wanted = self.area.get(queue::RX_UPDATE) & 0xff != 0;
        for (side, register) in [
            (&mut self.heads, pass::RXPROD),
            (&mut self.bodies, pass::RXPROD2),
        ] {
            if side.told != side.fill && (wanted || side.fill.lap() == 0) {
                side.told = side.fill;
                hw::ring::publish();
                #[expect(clippy::cast_possible_truncation, reason = "at most 4096 slots")]
                let index = side.fill.index() as u32;
                self.bar.write(register.of(self.number), index);
                self.kicks += 1;
                self.follower.counts().kicks.set(self.kicks);
            }
        }
    }

    /// Tells the control thread what was counted.
    #[inline]
    fn note(&self) {
        let ledger = self.follower.counts();
        ledger.frames.set(self.frames);
        ledger.errors.set(self.errors);
        ledger.posted.set(self.armed);
        ledger.kicks.set(self.kicks);
        ledger.copied.set(self.copied);
        ledger.skipped.set(self.skipped);
    }

    /// Buffers that the device has.
    #[inline]
    fn held(&self) -> usize {
        self.heads.frames.len() + self.bodies.frames.len()
    }
}

/// Says that `len` bytes are in `frame`, if it holds that many.
#[inline]
fn fit(frame: &mut Frame, len: usize, meta: &mut RxMeta) -> Result<(), Lie> {
    if len > frame.capacity() {
        // The frame is in the burst already: nobody shall take it for a good one.
        frame.set_len(0);
        meta.flags = RxFlags::ERROR;
        return Err(Lie::Length(len));
    }
    frame.set_len(len);
    Ok(())
}

/// Copies what the device put into the data ring to its frame, as far as that holds it.
fn copy(words: &DataWords, frame: &mut Frame, len: usize) {
    let room = frame.room_mut();
    let len = len.min(room.len());
    for (bytes, word) in room[..len].chunks_mut(8).zip(words) {
        let word = word.load(Ordering::Relaxed).to_ne_bytes();
        bytes.copy_from_slice(&word[..bytes.len()]);
    }
}

impl<B: Bar + Send> RxQueue for Rx<B> {
    fn burst(&mut self, out: &mut RxBurst) -> usize {
        if !self.is_running() {
            return 0;
        }
        let before = out.frames.len();
        if let Err(lie) = self.collect(out) {
            self.follower.fail(lie);
        }
        let moved = out.frames.len() - before;
        if moved == 0 {
            // The device may have run out of buffers after the last were armed.
            self.tell();
        } else {
            self.note();
        }
        moved
    }

    fn arm(&mut self, empties: &mut Burst) -> usize {
        if !self.is_running() {
            return 0;
        }
        let count = self.room().min(empties.len());
        if count == 0 {
            return 0;
        }
        for frame in &mut empties.as_mut_slice()[..count] {
            frame.flags = TxFlags::empty();
        }
        let heads = if self.duties.chain == 1 {
            count
        } else {
            // So many that heads and bodies are equally many then, as near as may be.
            let half = (self.held() + count).div_ceil(2);
            half.saturating_sub(self.heads.frames.len()).min(count)
        };
        self.heads.arm(empties, heads);
        self.bodies.arm(empties, count - heads);
        self.armed += count as u64;
        self.tell();
        self.note();
        count
    }

    fn room(&self) -> usize {
        self.heads.ring.len() - 1 - self.held()
    }

    fn state(&self) -> QueueState {
        self.follower.state()
    }
}

impl<B: Bar> Drop for Rx<B> {
    fn drop(&mut self) {
        let (heads, bodies) = (&mut self.heads.frames, &mut self.bodies.frames);
        let frames = std::iter::from_fn(|| heads.pop().or_else(|| bodies.pop()));
        self.follower.leave(frames, std::iter::empty());
    }
}
