//! A receive queue as the engine sees it.

use hugemem::{BURST, Burst, Frame, HEADROOM, TxFlags};
use port::{QueueState, RxBurst, RxFlags, RxMeta, RxQueue, Turn};

use crate::desc::{HEADER_MAX, HeaderFlags, received, told_hash};
use crate::doorbell::Notifier;
use crate::ring::SLOTS_MAX;
use crate::rx::{Fit, RxEngine};
use crate::shared::Follower;
use crate::shared::Lie;
use crate::tx::lane::FCS;

/// What the device says of each frame in its header, besides how many buffers it fills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// What it knows of checksums.
    pub(crate) checksums: bool,
    /// The hash that picked the queue.
    pub(crate) hash: bool,
}

/// A receive queue over ring `E`; `MERGE` if a frame may fill several buffers, `TELLS` if the
/// device says anything else ([`Told`]).
pub(crate) struct Rx<E: RxEngine, const MERGE: bool, const TELLS: bool> {
    engine: E,
    fit: Fit,
    told: Told,
    follower: Follower,
    notifier: Notifier,
    /// Buffers of the frame under way that are still to come.
    rest: u16,
    frames: u64,
    bytes: u64,
    errors: u64,
    armed: u64,
}

impl<E: RxEngine, const MERGE: bool, const TELLS: bool> Rx<E, MERGE, TELLS> {
    /// A queue on a clear ring.
    pub(crate) fn new(
        engine: E,
        (fit, told): (Fit, Told),
        follower: Follower,
        notifier: Notifier,
    ) -> Self {
        Self {
            engine,
            fit,
            told,
            follower,
            notifier,
            rest: 0,
            frames: 0,
            bytes: 0,
            errors: 0,
            armed: 0,
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

    /// A ring that starts over has its frames armed at once: the device is let in only later,
    /// and told of them then.
    #[cold]
    fn take(&mut self, turn: Turn) -> bool {
        match turn {
            Turn::Work => true,
            Turn::Resume => {
                let engine = &self.engine;
                self.notifier.notify(|| engine.wants_notification());
                true
            }
            Turn::Clear => {
                self.rest = 0;
                self.engine.restart();
                self.follower.cleared();
                false
            }
            Turn::Rest => false,
        }
    }

    /// Takes what the device has filled; how many buffers.
    #[inline]
    fn collect(&mut self, out: &mut RxBurst) -> Result<usize, Lie> {
        self.engine.refresh()?;
        let before = out.frames.len();
        let mut at = before;
        while at < BURST {
            let Some(len) = self.engine.next(&mut out.frames)? else {
                break;
            };
            let frame = &mut out.frames.as_mut_slice()[at];
            match self.open(frame, len) {
                Ok(meta) => out.meta[at] = meta,
                Err(lie) => {
                    // The frame is in the burst already: nobody shall take it for a good one.
                    frame.set_len(0);
                    out.meta[at].flags = RxFlags::ERROR;
                    return Err(lie);
                }
            }
            at += 1;
        }
        Ok(at - before)
    }

    /// Makes a frame of a buffer that the device wrote `len` bytes to.
    #[inline]
    fn open(&mut self, frame: &mut Frame, len: u32) -> Result<RxMeta, Lie> {
        let (_, limit) = self.fit.buffer(frame);
        if len > limit {
            return Err(Lie::Length(len));
        }
        let mut meta = RxMeta::default();
        let len = len as usize;
        if MERGE && self.rest > 0 {
            self.rest -= 1;
            move_up(frame, len, self.fit.header);
            self.bytes += len as u64;
        } else if len < self.fit.header {
            frame.set_len(0);
            self.errors += 1;
            meta.flags = RxFlags::ERROR;
            return Ok(meta);
        } else {
            frame.set_len(len - self.fit.header);
            if MERGE || TELLS {
                self.read_header(frame, &mut meta)?;
            }
            // A frame about which the device lied is none.
            self.frames += 1;
            self.bytes += (len - self.fit.header) as u64 + FCS;
        }
        if MERGE && self.rest > 0 {
            meta.flags |= RxFlags::MORE;
        }
        Ok(meta)
    }

    #[inline]
    fn read_header(&mut self, frame: &Frame, meta: &mut RxMeta) -> Result<(), Lie> {
        let (flags, buffers) = received(frame.headroom(), self.fit.header);
        if MERGE {
            if buffers == 0 || usize::from(buffers) > SLOTS_MAX {
                return Err(Lie::Buffers(buffers));
            }
            self.rest = buffers - 1;
        }
        if TELLS && self.told.checksums {
            if flags.contains(HeaderFlags::NEEDS_CSUM) {
                meta.flags |= RxFlags::L4_PARTIAL;
            } else if flags.contains(HeaderFlags::DATA_VALID) {
                meta.flags |= RxFlags::L4_GOOD;
            }
        }
        if TELLS
            && self.told.hash
            && let Some(hash) = told_hash(frame.headroom())
        {
            meta.hash = hash;
            meta.flags |= RxFlags::HASH;
        }
        Ok(())
    }

    /// Tells the control thread what was counted.
    #[inline]
    fn note(&self) {
        let ledger = self.follower.counts();
        ledger.frames.set(self.frames);
        ledger.bytes.set(self.bytes);
        ledger.errors.set(self.errors);
    }
}

/// Moves the `len` bytes of a buffer without header to the frame's start.
fn move_up(frame: &mut Frame, len: usize, header: usize) {
    let mut first = [0; HEADER_MAX];
    first[..header].copy_from_slice(&frame.headroom()[HEADROOM - header..]);
    let room = frame.room_mut();
    room.copy_within(..len.saturating_sub(header), header.min(len));
    let head = header.min(len);
    room[..head].copy_from_slice(&first[..head]);
    frame.set_len(len);
}

impl<E: RxEngine, const MERGE: bool, const TELLS: bool> RxQueue for Rx<E, MERGE, TELLS> {
    fn burst(&mut self, out: &mut RxBurst) -> usize {
        if !self.is_running() {
            return 0;
        }
        let before = out.frames.len();
        match self.collect(out) {
            Ok(0) => 0,
            Ok(moved) => {
                self.note();
                moved
            }
            Err(lie) => {
                self.follower.fail(lie);
                self.note();
                out.frames.len() - before
            }
        }
    }

    fn arm(&mut self, empties: &mut Burst) -> usize {
        if !self.is_running() {
            return 0;
        }
        let count = self.engine.room().min(empties.len());
        // All are changed before the first is moved, for the reason that `RxEngine::next` gives.
        for frame in &mut empties.as_mut_slice()[..count] {
            frame.flags = TxFlags::empty();
            frame.lend_headroom();
        }
        for _ in 0..count {
            self.engine.put(empties);
        }
        if count > 0 {
            self.armed += count as u64;
            self.engine.publish();
            let engine = &self.engine;
            self.notifier.notify(|| engine.wants_notification());
            let ledger = self.follower.counts();
            ledger.posted.set(self.armed);
            ledger.kicks.set(self.notifier.kicks());
        }
        count
    }

    fn room(&self) -> usize {
        self.engine.room()
    }

    fn state(&self) -> QueueState {
        self.follower.state()
    }
}

impl<E: RxEngine, const MERGE: bool, const TELLS: bool> Drop for Rx<E, MERGE, TELLS> {
    fn drop(&mut self) {
        self.follower.leave(self.engine.drain(), std::iter::empty());
    }
}
