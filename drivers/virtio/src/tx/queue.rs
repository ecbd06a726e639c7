//! A send queue as the engine sees it.

use std::sync::Arc;

use hugemem::{BURST, Burst, Frame, HEADROOM, Resident, ResidentSlot, TxFlags};
use port::{QueueState, Turn, TxCounts, TxQueue};

use crate::checksum;
use crate::desc::checksum_header;
use crate::doorbell::Notifier;
use crate::shared::Follower;
use crate::shared::Lie;
use crate::tx::lane::FCS;
use crate::tx::{SEGMENTS, TxEngine};

/// A send queue over ring `E`; `CSUM` if the device completes checksums.
pub(crate) struct Tx<E: TxEngine, const CSUM: bool> {
    engine: E,
    header: usize,
    follower: Follower,
    notifier: Notifier,
    set: Option<Loaded>,
    /// The set to take up once the device has no frame of the last one.
    pending: Option<Loaded>,
    counts: TxCounts,
    /// Bytes posted, less those abandoned.
    bytes: u64,
}

/// A resident set, and the bytes of its first so many frames.
struct Loaded {
    set: Arc<Resident>,
    /// The set's slots, as many whole periods as make a few bursts: a short set would else be
    /// posted in pieces of a few frames.
    laps: Box<[ResidentSlot]>,
    sums: Box<[u64]>,
    /// The frame after the last that was posted.
    next: usize,
}

impl Loaded {
    fn new(set: Arc<Resident>) -> Self {
        let mut sums = Vec::with_capacity(set.slots().len() + 1);
        let mut sum = 0;
        sums.push(0);
        for slot in set.slots() {
            sum += u64::from(slot.len) + FCS;
            sums.push(sum);
        }
        let laps = (4 * BURST).div_ceil(set.slots().len());
        Self {
            laps: set.slots().repeat(laps).into_boxed_slice(),
            set,
            sums: sums.into_boxed_slice(),
            next: 0,
        }
    }

    fn period(&self) -> usize {
        self.set.slots().len()
    }

    /// Bytes of `count` frames from `first` on, FCS included.
    #[inline]
    fn bytes(&self, first: usize, count: usize) -> u64 {
        let period = self.period();
        let end = first + count;
        if end <= period {
            return self.sums[end] - self.sums[first];
        }
        let (laps, rest) = ((end / period) as u64, end % period);
        self.sums[period] * laps + self.sums[rest] - self.sums[first]
    }

    /// Bytes of the last `count` frames that were posted.
    fn last_bytes(&self, count: usize) -> u64 {
        let period = self.period();
        self.bytes((self.next + period - count % period) % period, count)
    }
}

impl<E: TxEngine, const CSUM: bool> Tx<E, CSUM> {
    /// A queue on a clear ring.
    pub(crate) fn new(engine: E, header: usize, follower: Follower, notifier: Notifier) -> Self {
        Self {
            engine,
            header,
            follower,
            notifier,
            set: None,
            pending: None,
            counts: TxCounts::default(),
            bytes: 0,
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

    /// Takes the bytes of the frames that the device has off those that were posted.
    fn take_off_flying(&mut self) {
        let (owned, residents) = self.engine.lane().flying_bytes();
        let residents = residents + self.engine.flying() - self.engine.lane().flying();
        let resident = self.set.as_ref().map_or(0, |set| set.last_bytes(residents));
        self.bytes = self.bytes.saturating_sub(owned + resident);
    }

    /// The device is lost: what it had is abandoned, and the ring empty again.
    fn give_up(&mut self) {
        self.take_off_flying();
        self.counts.abandoned += self.engine.restart() as u64;
        self.engine.lane_mut().free_residents();
        self.note();
    }

    /// Looks what the device is done with: how many frames more.
    #[inline]
    fn look(&mut self, want: usize) -> usize {
        match self.engine.look(want) {
            Ok(0) => 0,
            Ok(frames) => {
                self.counts.completed += frames as u64;
                self.follower.counts().frames.set(self.counts.completed);
                frames
            }
            Err(lie) => {
                self.fail(lie);
                0
            }
        }
    }

    #[cold]
    fn fail(&mut self, lie: Lie) {
        self.follower.fail(lie);
        // The frames stay until the device is stopped, which may still read them.
        self.take_off_flying();
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
        ledger.bytes.set(self.bytes);
        ledger.kicks.set(self.notifier.kicks());
    }

    /// Hands `frames` frames of `bytes` bytes over, and tells the device if it wants to be told.
    #[inline]
    fn hand_over(&mut self, frames: usize, bytes: u64) {
        self.counts.posted += frames as u64;
        self.bytes += bytes;
        self.engine.publish();
        let engine = &self.engine;
        self.notifier.notify(|| engine.wants_notification());
        self.note();
    }

    /// Posts frames that all are plain: one buffer each, and a header of zeros.
    #[inline]
    fn post_plain(&mut self, frames: &mut Burst) -> usize {
        let count = frames.len().min(self.engine.lane().free());
        if count == 0 {
            return 0;
        }
        let bytes = self.engine.put(&frames.as_slice()[..count]);
        self.engine.lane_mut().take(frames, count);
        self.hand_over(count, bytes + FCS * count as u64);
        count
    }

    /// Posts frames of any kind.
    fn post_mixed(&mut self, frames: &mut Burst) -> usize {
        let (mut buffers, mut packets, mut bytes) = (0, 0, 0);
        while !frames.is_empty() {
            let free = self.engine.lane().free();
            let singles = frames.iter().take_while(|frame| !goes_on(frame)).count();
            if singles > 0 {
                let count = singles.min(free);
                if count == 0 {
                    break;
                }
                for frame in &mut frames.as_mut_slice()[..count] {
                    self.write_header(frame);
                }
                bytes += self.engine.put(&frames.as_slice()[..count]);
                self.engine.lane_mut().take(frames, count);
                (buffers, packets) = (buffers + count, packets + count);
                continue;
            }
            let more = frames.iter().take_while(|frame| goes_on(frame)).count();
            let segments = (more + 1).min(frames.len());
            assert!(
                segments <= SEGMENTS,
                "a packet has at most as many buffers as caps say"
            );
            let Some(slots) = self
                .engine
                .chain_slots(segments)
                .filter(|&slots| slots <= free)
            else {
                break;
            };
            self.write_header(&mut frames.as_mut_slice()[0]);
            let parts = &frames.as_slice()[..segments];
            bytes += parts.iter().map(|frame| frame.len() as u64).sum::<u64>();
            self.engine.put_chain(parts);
            self.engine.lane_mut().take_chain(frames, segments, slots);
            (buffers, packets) = (buffers + segments, packets + 1);
        }
        if packets > 0 {
            self.hand_over(packets, bytes + FCS * packets as u64);
        }
        buffers
    }

    /// Writes the header of a packet that begins with `frame`: zeros, unless the device is to
    /// complete a checksum.
    fn write_header(&self, frame: &mut Frame) {
        if CSUM
            && frame.flags.contains(TxFlags::L4_CHECKSUM)
            && let Some(place) = checksum::place(frame.bytes())
        {
            let header = checksum_header(place.start, place.offset);
            frame.headroom_mut()[HEADROOM - self.header..].copy_from_slice(&header[..self.header]);
        } else {
            frame.clean_headroom();
        }
    }

    /// Takes up the set that waits, if the device has no frame of the last one.
    #[cold]
    fn take_up(&mut self) -> bool {
        if self.engine.residents() > 0 {
            self.look(usize::MAX);
        }
        if self.engine.residents() > 0 {
            return false;
        }
        if let Some(loaded) = self.pending.take() {
            self.engine.load(&loaded.set);
            self.set = Some(loaded);
        }
        true
    }
}

/// True if the next frame continues this one.
#[inline]
fn goes_on(frame: &Frame) -> bool {
    frame.flags.contains(TxFlags::MORE)
}

/// True if a frame is one buffer and its header is zeros.
#[inline]
fn is_plain(frame: &Frame) -> bool {
    frame.flags.is_empty() && frame.has_clean_headroom()
}

impl<E: TxEngine, const CSUM: bool> TxQueue for Tx<E, CSUM> {
    fn burst(&mut self, frames: &mut Burst) -> usize {
        if frames.is_empty() || !self.is_running() {
            return 0;
        }
        if self.engine.lane().free() < frames.len() {
            self.look(BURST);
        }
        // Every frame is looked at: no branch for each.
        if frames
            .iter()
            .fold(true, |plain, frame| plain & is_plain(frame))
        {
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
            let moved = self.engine.lane_mut().reap(out);
            // On if what was done was resident frames, or waits for its turn.
            if moved > 0 || !running || self.engine.flying() == 0 || self.look(BURST) == 0 {
                return moved;
            }
        }
    }

    fn load(&mut self, set: Arc<Resident>) {
        self.pending = Some(Loaded::new(set));
        self.take_up();
    }

    fn burst_resident(&mut self, first: usize, count: usize) -> usize {
        if !self.is_running() {
            return 0;
        }
        if self.pending.is_some() && !self.take_up() {
            return 0;
        }
        let loaded = self
            .set
            .as_mut()
            .expect("a set is loaded before its frames are sent");
        let period = loaded.period();
        assert!(first < period, "frame {first} is not in the set");
        if self.engine.room_for_residents(first) < count {
            match self.engine.look(count) {
                Ok(frames) => self.counts.completed += frames as u64,
                Err(lie) => {
                    self.fail(lie);
                    return 0;
                }
            }
        }
        let posted = self.engine.put_residents(&loaded.laps, first, count);
        if posted == 0 {
            return 0;
        }
        let bytes = loaded.bytes(first, posted);
        loaded.next = (first + posted) % period;
        self.hand_over(posted, bytes);
        posted
    }

    fn burst_resident_each(&mut self, numbers: &[u32]) -> usize {
        if numbers.is_empty() || !self.is_running() {
            return 0;
        }
        if self.pending.is_some() && !self.take_up() {
            return 0;
        }
        if self.engine.lane().free() < numbers.len() {
            self.look(numbers.len());
            self.engine.mix();
        }
        let loaded = self
            .set
            .as_mut()
            .expect("a set is loaded before its frames are sent");
        let count = numbers.len().min(self.engine.lane().free());
        let numbers = &numbers[..count];
        let Some(&last) = numbers.last() else {
            return 0;
        };
        self.engine.put_each(loaded.set.slots(), numbers);
        let bytes = numbers.iter().map(|&number| {
            let number = number as usize;
            loaded.sums[number + 1] - loaded.sums[number]
        });
        let bytes = bytes.sum();
        loaded.next = (last as usize + 1) % loaded.period();
        self.hand_over(count, bytes);
        count
    }

    fn poll(&mut self) {
        if self.is_running() {
            self.look(usize::MAX);
            let engine = &self.engine;
            self.notifier.remind(|| engine.wants_notification());
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

impl<E: TxEngine, const CSUM: bool> Drop for Tx<E, CSUM> {
    fn drop(&mut self) {
        let sets = [self.set.take(), self.pending.take()];
        let sets = sets.into_iter().flatten().map(|loaded| loaded.set);
        self.follower.leave(self.engine.lane_mut().drain(), sets);
    }
}
