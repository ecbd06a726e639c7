//! A receive queue: frames are copied out of the slots of a ring that the kernel fills.
//!
//! The kernel's slots are what takes a burst when no frame is armed; what finds them all full is
//! counted as missed.

use hugemem::{BURST, Burst, Fifo};
use port::{QueueState, RxBurst, RxFlags, RxMeta, RxQueue};

use crate::ring::{Received, Ring};
use crate::shared::{ADDRESSES, FCS, Follower, HEADER, Lie, TAG, may_work};

/// What a queue is to do besides moving frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Duties {
    /// A frame may lie in several buffers.
    pub(crate) scatter: bool,
    /// A VLAN tag is told of, not put back into its frame.
    pub(crate) strip: bool,
}

/// A receive queue.
pub(crate) struct Rx {
    ring: Ring,
    duties: Duties,
    /// The next slot that the kernel fills.
    next: usize,
    /// Empty frames.
    armed: Fifo,
    follower: Follower,
    frames: u64,
    bytes: u64,
    errors: u64,
}

/// A frame in a slot, as it is to be handed up.
#[derive(Debug, Clone, Copy)]
struct Whole {
    slot: usize,
    offset: usize,
    len: usize,
    /// The tag to put back.
    tag: Option<[u8; TAG]>,
}

impl Whole {
    /// Copies the bytes from `from` on into `into`, which does not reach beyond the frame.
    fn copy(&self, ring: &Ring, mut from: usize, mut into: &mut [u8]) {
        let Some(tag) = self.tag else {
            ring.read(self.slot, self.offset + from, into);
            return;
        };
        while !into.is_empty() {
            let end = match from {
                ..ADDRESSES => ADDRESSES,
                ADDRESSES..HEADER_AND_TAG => HEADER_AND_TAG,
                _ => self.len,
            };
            let count = into.len().min(end - from);
            let (piece, rest) = into.split_at_mut(count);
            match from {
                ..ADDRESSES => ring.read(self.slot, self.offset + from, piece),
                ADDRESSES..HEADER_AND_TAG => {
                    let at = from - ADDRESSES;
                    piece.copy_from_slice(&tag[at..at + count]);
                }
                _ => ring.read(self.slot, self.offset + from - TAG, piece),
            }
            (from, into) = (from + count, rest);
        }
    }
}

/// Where a tag that was put back ends.
const HEADER_AND_TAG: usize = ADDRESSES + TAG;

impl Rx {
    /// A queue that can have `slots` frames armed.
    pub(crate) fn new(ring: Ring, slots: usize, duties: Duties, follower: Follower) -> Self {
        Self {
            ring,
            duties,
            next: 0,
            armed: Fifo::with_capacity(slots),
            follower,
            frames: 0,
            bytes: 0,
            errors: 0,
        }
    }

    /// Gives the next slot back to the kernel.
    fn release(&mut self) {
        self.ring.give(self.next, libc::TP_STATUS_KERNEL);
        self.next = (self.next + 1) % self.ring.len();
    }

    /// How many armed frames take `len` bytes; none if there are not enough.
    fn buffers(&self, len: usize) -> Option<usize> {
        let mut left = len;
        for (count, frame) in (1..).zip(self.armed.iter()) {
            left = left.saturating_sub(frame.capacity());
            if left == 0 {
                return Some(count);
            }
        }
        None
    }

    /// Takes the frame in the next slot, if there is one. True if the slot is done with.
    fn take(&mut self, out: &mut RxBurst) -> Result<bool, Lie> {
        let status = self.ring.status(self.next);
        if status & libc::TP_STATUS_USER == 0 || self.armed.is_empty() {
            return Ok(false);
        }
        let received = self.ring.received(self.next, status);
        let Received { kept, offset, .. } = received;
        if kept < HEADER || offset.saturating_add(kept) > self.ring.slot_bytes() {
            return Err(Lie::Outside(offset, kept));
        }
        let put_back = received.vlan.filter(|_| !self.duties.strip);
        let whole = Whole {
            slot: self.next,
            offset,
            len: kept + if put_back.is_some() { TAG } else { 0 },
            tag: put_back.map(|(kind, tag)| {
                let ([a, b], [c, d]) = (kind.to_be_bytes(), tag.to_be_bytes());
                [a, b, c, d]
            }),
        };
        let buffers = match self.buffers(whole.len) {
            Some(buffers) => buffers,
            // More may be armed; but no number of them is more than a burst.
            None if self.duties.scatter && self.armed.room() > 0 => return Ok(false),
            None => usize::MAX,
        };
        let most = if self.duties.scatter { BURST } else { 1 };
        if received.kept < received.len || buffers > most {
            // It was longer than a slot, or than a buffer.
            self.errors += 1;
        } else if buffers > out.frames.room() {
            return Ok(false);
        } else {
            self.hand_up(&whole, &received, buffers, out);
            self.frames += 1;
            self.bytes += (whole.len + FCS) as u64;
        }
        self.release();
        Ok(true)
    }

    /// Copies a frame into the next `buffers` armed ones, which go to `out`.
    fn hand_up(&mut self, whole: &Whole, received: &Received, buffers: usize, out: &mut RxBurst) {
        let at = out.frames.len();
        self.armed.take(&mut out.frames, buffers);
        let mut from = 0;
        let taken = out.frames.as_mut_slice()[at..].iter_mut();
        for (frame, meta) in taken.zip(&mut out.meta[at..]) {
            let len = frame.capacity().min(whole.len - from);
            frame.set_len(len);
            whole.copy(&self.ring, from, frame.bytes_mut());
            from += len;
            *meta = RxMeta::default();
            meta.flags.set(RxFlags::MORE, from < whole.len);
        }
        let first = &mut out.meta[at];
        if let Some((_, tag)) = received.vlan.filter(|_| self.duties.strip) {
            first.vlan = tag;
            first.flags |= RxFlags::VLAN;
        }
        first.flags.set(RxFlags::L4_PARTIAL, received.partial);
    }

    /// Tells the control thread what was counted.
    fn note(&self) {
        let ledger = self.follower.counts();
        ledger.frames.set(self.frames);
        ledger.bytes.set(self.bytes);
        ledger.errors.set(self.errors);
    }
}

impl RxQueue for Rx {
    fn burst(&mut self, out: &mut RxBurst) -> usize {
        if !may_work(&mut self.follower) {
            return 0;
        }
        let before = out.frames.len();
        // As many slots as there are, and no more, so that frames without end that nobody wants
        // do not keep the caller.
        for _ in 0..BURST {
            if out.frames.room() == 0 {
                break;
            }
            match self.take(out) {
                Ok(true) => {}
                Ok(false) => break,
                Err(lie) => {
                    self.follower.fail(lie);
                    break;
                }
            }
        }
        self.note();
        out.frames.len() - before
    }

    fn arm(&mut self, empties: &mut Burst) -> usize {
        if self.follower.has_failed() {
            return 0;
        }
        let count = empties.len().min(self.armed.room());
        self.armed.put(empties, count)
    }

    fn room(&self) -> usize {
        self.armed.room()
    }

    fn state(&self) -> QueueState {
        self.follower.state()
    }
}

impl Drop for Rx {
    fn drop(&mut self) {
        self.note();
        // The kernel never knew of the frames: they go home with the queue.
        self.follower.leave(std::iter::empty(), std::iter::empty());
    }
}
