//! Sending.
//!
//! The driver *posts* slots and writes the tail once a burst. It asks the device to report on
//! every 32nd packet and on the last of each burst, and notes what the ring looks like there: a
//! [`Mark`]. When the device reports a mark, everything up to it is done, so that one look at one
//! word completes 32 packets.

mod lap;
mod packet;

use std::ops::RangeInclusive;
use std::sync::Arc;

use hugemem::{Burst, Fifo, Resident, TxFlags};
use hw::Bar;
use hw::ring::MaskedCursor;
use port::{QueueState, Turn, TxCounts, TxQueue};

use crate::format::{DONE, REPORT, SendFormat, Words};
use crate::ring::Ring;
use crate::shared::Follower;
use lap::Lap;

/// Packets from one report to the next, at most.
const REPORT_EVERY: usize = 32;
/// Descriptors of a resident set that are kept at least.
const STRAIGHT: usize = 4 * REPORT_EVERY;
/// What the ring holds up to a slot that the device reports on.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// The slot.
    slot: MaskedCursor,
    /// Packets posted up to it, over the queue's life.
    packets: u64,
    /// Frames given up to it that come back through `reap`, likewise.
    owned: u64,
}

/// A resident set, as descriptors.
struct Loaded {
    set: Arc<Resident>,
    words: Box<[Words]>,
}

/// A set that was replaced while the device had frames of it.
struct Retired {
    set: Arc<Resident>,
    /// The device is done with it once so many packets are.
    packets: u64,
}

/// A send queue with descriptors of format `S`.
pub struct Tx<B: Bar, S: SendFormat> {
    format: S,
    ring: Ring<B>,
    follower: Follower,
    /// Shortest frame that is posted and largest, in bytes without FCS.
    shortest: usize,
    largest: usize,
    /// What frames may ask of the device; the rest is not done.
    offloads: TxFlags,
    /// Frames that were given and not yet handed back, in order.
    held: Fifo,
    /// The slot to write next.
    next: MaskedCursor,
    /// The first slot that the device may still own.
    clean: MaskedCursor,
    /// Marks that are not reported yet: `marks` of them from `first_mark` on.
    places: Box<[Mark]>,
    first_mark: usize,
    marks: usize,
    /// Packets since the last mark.
    unmarked: usize,
    /// Frames given, done, and handed back, over the queue's life.
    owned: u64,
    owned_done: u64,
    owned_back: u64,
    counts: TxCounts,
    /// Packets that were too long to send, and taken all the same.
    refused: u64,
    /// The context that the device remembers.
    context: Option<Words>,
    loaded: Option<Loaded>,
    lap: Lap,
    retired: Vec<Retired>,
}

impl<B: Bar, S: SendFormat> Tx<B, S> {
    /// A queue on a clear ring that posts frames of `sizes` bytes, without FCS: shorter ones are
    /// padded, larger ones refused. Of what frames ask, `offloads` is asked of the device.
    #[must_use]
    pub fn new(
        ring: Ring<B>,
        follower: Follower,
        format: S,
        sizes: RangeInclusive<usize>,
        offloads: TxFlags,
    ) -> Self {
        let start = MaskedCursor::new(ring.len());
        let mark = Mark {
            slot: start,
            packets: 0,
            owned: 0,
        };
        let mut queue = Self {
            format,
            held: Fifo::with_capacity(ring.len()),
            places: vec![mark; ring.len()].into_boxed_slice(),
            ring,
            follower,
            shortest: *sizes.start(),
            largest: *sizes.end(),
            offloads,
            next: start,
            clean: start,
            first_mark: 0,
            marks: 0,
            unmarked: 0,
            owned: 0,
            owned_done: 0,
            owned_back: 0,
            counts: TxCounts::default(),
            refused: 0,
            context: None,
            loaded: None,
            lap: Lap::default(),
            retired: Vec::new(),
        };
        queue.begin();
        queue
    }

    /// Writes what the device has to be told before the first packet. It goes with that.
    fn begin(&mut self) {
        self.lap.end();
        if let Some(words) = self.format.first() {
            self.put(words);
        }
    }

    /// True if the queue may work.
    #[inline]
    fn is_running(&mut self) -> bool {
        match self.follower.turn() {
            Turn::Work => true,
            other => self.take(other),
        }
    }

    #[cold]
    fn take(&mut self, turn: Turn) -> bool {
        match turn {
            Turn::Work | Turn::Resume => true,
            Turn::Clear => {
                self.give_up();
                self.follower.cleared();
                false
            }
            Turn::Rest => false,
        }
    }

    /// The device is lost: what it had is abandoned, and the ring empty again.
    fn give_up(&mut self) {
        self.counts.abandoned += self.counts.in_flight();
        self.owned_done = self.owned;
        let start = MaskedCursor::new(self.ring.len());
        (self.next, self.clean) = (start, start);
        (self.first_mark, self.marks, self.unmarked) = (0, 0, 0);
        self.context = None;
        self.retired.clear();
        self.begin();
        self.note();
    }

    /// Slots that can be written.
    #[inline]
    fn free(&self) -> usize {
        self.ring.len() - 1 - self.next.since(self.clean) as usize
    }

    /// Writes the next slot.
    #[inline]
    fn put(&mut self, words: Words) {
        self.ring.write(self.next.index(), words);
        self.next.advance(1);
    }

    /// The packet that was written last has its report asked for if it is time, or `now`.
    #[inline]
    fn mark(&mut self, now: bool) {
        if self.unmarked == 0 || (self.unmarked < REPORT_EVERY && !now) {
            return;
        }
        self.unmarked = 0;
        let slot = self.next.ahead(u32::MAX);
        self.ring.add(slot.index(), REPORT);
        let place = (self.first_mark + self.marks) & (self.places.len() - 1);
        self.places[place] = Mark {
            slot,
            packets: self.counts.posted,
            owned: self.owned,
        };
        self.marks += 1;
        debug_assert!(self.marks <= self.places.len(), "a mark takes a slot");
    }

    /// Counts `packets` that were written.
    #[inline]
    fn count(&mut self, packets: usize, owned: usize) {
        self.counts.posted += packets as u64;
        self.owned += owned as u64;
        self.unmarked += packets;
    }

    /// Hands over what was written.
    #[inline]
    fn hand_over(&mut self) {
        self.mark(true);
        self.ring.hand_over(self.next.index());
        self.note();
    }

    /// Looks what the device is done with: true if there was more.
    #[inline]
    fn look(&mut self) -> bool {
        let mut last = None;
        while self.marks > 0 {
            let mark = self.places[self.first_mark];
            if self.ring.second(mark.slot.index()) & DONE == 0 {
                break;
            }
            self.first_mark = (self.first_mark + 1) & (self.places.len() - 1);
            self.marks -= 1;
            self.put_back(mark.slot.index());
            last = Some(mark);
        }
        if let Some(mark) = last {
            self.clean = mark.slot.ahead(1);
            self.counts.completed = mark.packets - self.counts.abandoned;
            self.owned_done = mark.owned;
        }
        if self.clean == self.next {
            // With those behind the last mark that took no slot.
            self.counts.completed = self.counts.posted - self.counts.abandoned;
            self.owned_done = self.owned;
        }
        last.is_some()
    }

    /// A slot that the device has reported on holds its resident frame again, if it held one.
    #[inline]
    fn put_back(&self, slot: usize) {
        if let Some(loaded) = &self.loaded
            && let Some(frame) = self.lap.frame(loaded.set.slots().len(), slot)
        {
            self.ring.write(slot, loaded.words[frame]);
        }
    }

    /// Tells the control thread what was counted.
    #[inline]
    fn note(&self) {
        let ledger = self.follower.counts();
        ledger.posted.set(self.counts.posted);
        ledger.done.set(self.counts.completed);
        ledger.errors.set(self.refused);
    }

    /// Posts frames for as long as they are plain: one buffer each, posted as it is. How many, and
    /// whether others follow that there is room for.
    #[inline]
    fn post_plain(&mut self, frames: &mut Burst) -> (usize, bool) {
        let count = frames.len().min(self.free()).min(self.held.room());
        let (format, shortest, largest) = (self.format, self.shortest, self.largest);
        let mut left = &frames.as_slice()[..count];
        let mut all = true;
        while !left.is_empty() {
            let (now, rest) = left.split_at(left.len().min(REPORT_EVERY - self.unmarked));
            // Every frame is looked at, and written all the same: no branch for each. What is
            // written for one that is not plain is written over.
            self.ring.write_each(self.next.index(), now, |frame| {
                let len = frame.len();
                all &= frame.flags.is_empty() & (len >= shortest) & (len <= largest);
                format.plain(frame.iova().get(), bytes(len))
            });
            if !all {
                break;
            }
            self.next.advance(bytes(now.len()));
            self.count(now.len(), now.len());
            self.mark(false);
            left = rest;
        }
        let posted = count - left.len();
        self.held.put(frames, posted);
        (posted, !all)
    }
}

/// A length of at most a frame's, or of a burst.
#[inline]
fn bytes(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(0)
}

impl<B: Bar + Send, S: SendFormat> TxQueue for Tx<B, S> {
    fn burst(&mut self, frames: &mut Burst) -> usize {
        if frames.is_empty() || !self.is_running() {
            return 0;
        }
        if self.free() <= frames.len() {
            self.look();
        }
        self.lap.end();
        let (mut posted, others_follow) = self.post_plain(frames);
        if others_follow {
            posted += self.post_mixed(frames);
        }
        if posted > 0 {
            self.hand_over();
            if others_follow {
                // Packets that were refused and took no slot.
                self.look();
            }
        }
        posted
    }

    fn reap(&mut self, out: &mut Burst) -> usize {
        let running = self.is_running();
        if self.follower.has_failed() {
            return 0;
        }
        loop {
            let ready = usize::try_from(self.owned_done - self.owned_back).unwrap_or(0);
            let moved = self.held.take(out, ready);
            self.owned_back += moved as u64;
            // On if what was done was resident frames.
            if moved > 0 || !running || !self.look() {
                return moved;
            }
            self.note();
        }
    }

    fn load(&mut self, set: Arc<Resident>) {
        self.look();
        let completed = self.counts.completed + self.counts.abandoned;
        self.retired.retain(|old| old.packets > completed);
        if let Some(Loaded { set, .. }) = self.loaded.take() {
            let packets = self.counts.posted;
            self.retired.push(Retired { set, packets });
        }
        self.lap.end();
        let slots = set.slots();
        let words = slots
            .iter()
            .map(|slot| self.format.plain(slot.iova.get(), slot.len));
        // A short set several times over, so that a burst of it is a straight run too.
        let copies = STRAIGHT.div_ceil(slots.len().max(1));
        let words = std::iter::repeat_n(words, copies).flatten().collect();
        self.loaded = Some(Loaded { set, words });
    }

    fn burst_resident(&mut self, first: usize, count: usize) -> usize {
        if !self.is_running() {
            return 0;
        }
        if self.free() < count {
            self.look();
        }
        let loaded = self
            .loaded
            .take()
            .expect("a set is loaded before its frames are sent");
        let period = loaded.words.len();
        assert!(
            first < loaded.set.slots().len(),
            "frame {first} is not in the set"
        );
        let count = count.min(self.free());
        let (set, slots) = (loaded.set.slots().len(), self.ring.len());
        let is_there = self.lap.has(set, first, self.next.index(), slots);
        self.lap.posted(count, slots);
        let (mut number, mut left) = (first, count);
        while left > 0 {
            // Up to the next report, and to the end of the set.
            let most = (REPORT_EVERY - self.unmarked).min(period - number);
            let now = left.min(most);
            let words = &loaded.words[number..number + now];
            if !is_there {
                self.ring
                    .write_each(self.next.index(), words, |words| *words);
            }
            self.next.advance(bytes(now));
            self.count(now, 0);
            self.mark(false);
            number = if number + now == period {
                0
            } else {
                number + now
            };
            left -= now;
        }
        self.loaded = Some(loaded);
        if count > 0 {
            self.hand_over();
        }
        count
    }

    fn burst_resident_each(&mut self, numbers: &[u32]) -> usize {
        if numbers.is_empty() || !self.is_running() {
            return 0;
        }
        if self.free() < numbers.len() {
            self.look();
        }
        let loaded = self
            .loaded
            .take()
            .expect("a set is loaded before its frames are sent");
        self.lap.end();
        let count = numbers.len().min(self.free());
        let mut left = &numbers[..count];
        while !left.is_empty() {
            let (now, rest) = left.split_at(left.len().min(REPORT_EVERY - self.unmarked));
            let words = |number: &u32| loaded.words[*number as usize];
            self.ring.write_each(self.next.index(), now, words);
            self.next.advance(bytes(now.len()));
            self.count(now.len(), 0);
            self.mark(false);
            left = rest;
        }
        self.loaded = Some(loaded);
        if count > 0 {
            self.hand_over();
        }
        count
    }

    fn poll(&mut self) {
        if self.is_running() {
            self.look();
            self.note();
        }
    }

    fn counts(&self) -> TxCounts {
        self.counts
    }

    fn state(&self) -> QueueState {
        self.follower.state()
    }
}

impl<B: Bar, S: SendFormat> Drop for Tx<B, S> {
    fn drop(&mut self) {
        let held = &mut self.held;
        let frames = std::iter::from_fn(|| held.pop());
        let loaded = self.loaded.take().map(|loaded| loaded.set);
        let retired = self.retired.drain(..).map(|old| old.set);
        self.follower.leave(frames, retired.chain(loaded));
    }
}
