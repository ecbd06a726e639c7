//! A send queue: frames are copied into slots of a ring, in order, and the kernel is told once a
//! burst.
//!
//! The kernel gives a slot back when it is done with the frame. Frames are handed back, and
//! counted, in the order in which they were posted.

use std::sync::Arc;

use hugemem::{Burst, Fifo, Frame, Resident, TxFlags};
use port::{QueueState, TxCounts, TxQueue};

use crate::ring::{DATA, Ring};
use crate::shared::{ADDRESSES, FCS, Follower, HEADER, Lie, TAG, may_work};

/// Least bytes of a frame without FCS: what is shorter is padded, as hardware does.
const LEAST: usize = 60;
/// Type field of a VLAN tag that is inserted.
const VLAN: [u8; 2] = [0x81, 0];

/// A frame on its way.
#[derive(Debug, Clone, Copy, Default)]
struct Posted {
    /// Buffers that come back with it: none for a resident one.
    buffers: u8,
    /// It has a slot. One that cannot be sent has none.
    sent: bool,
    /// Its bytes, with FCS.
    bytes: u32,
}

/// What frames may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed {
    /// Largest payload.
    pub(crate) mtu: usize,
    /// Tags may be inserted.
    pub(crate) vlan: bool,
}

/// A send queue.
pub(crate) struct Tx {
    ring: Ring,
    allowed: Allowed,
    /// The next slot to fill.
    fill: usize,
    /// The oldest slot that the kernel has.
    oldest: usize,
    /// Every frame that the kernel has, the oldest at `first`; a ring of its own.
    posted: Box<[Posted]>,
    first: usize,
    in_flight: usize,
    /// Frames of the engine, with the kernel or waiting to be reaped.
    frames: Fifo,
    /// How many of the first of them are done.
    done: usize,
    set: Option<Arc<Resident>>,
    follower: Follower,
    counts: TxCounts,
    bytes: u64,
    errors: u64,
    kicks: u64,
}

impl Tx {
    /// A queue of `slots` slots on a ring that has as many or more.
    pub(crate) fn new(ring: Ring, slots: usize, allowed: Allowed, follower: Follower) -> Self {
        Self {
            ring,
            allowed,
            fill: 0,
            oldest: 0,
            posted: vec![Posted::default(); slots].into_boxed_slice(),
            first: 0,
            in_flight: 0,
            frames: Fifo::with_capacity(slots),
            done: 0,
            set: None,
            follower,
            counts: TxCounts::default(),
            bytes: 0,
            errors: 0,
            kicks: 0,
        }
    }

    fn free(&self) -> usize {
        self.posted.len() - self.in_flight
    }

    /// Fills a slot with the frame that lies in `parts`, with `tag` inserted. Returns its bytes
    /// without FCS, or none if no interface could send it.
    fn put<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
        tag: Option<u16>,
    ) -> Option<usize> {
        let bytes: usize = parts.clone().map(<[u8]>::len).sum();
        let len = bytes + if tag.is_some() { TAG } else { 0 };
        if bytes < HEADER || len > self.allowed.mtu + HEADER + TAG {
            return None;
        }
        let slot = self.fill;
        let mut at = DATA;
        let mut tag = tag;
        for mut part in parts {
            if let Some(value) = tag.filter(|_| at - DATA + part.len() >= ADDRESSES) {
                let (before, after) = part.split_at(ADDRESSES - (at - DATA));
                self.ring.write(slot, at, before);
                at += before.len();
                self.ring.write(slot, at, &VLAN);
                self.ring.write(slot, at + 2, &value.to_be_bytes());
                at += TAG;
                (part, tag) = (after, None);
            }
            self.ring.write(slot, at, part);
            at += part.len();
        }
        // The kernel takes a longer frame than the MTU allows for its tag only.
        let mut kind = [0; 2];
        self.ring.read(slot, DATA + ADDRESSES, &mut kind);
        if len > self.allowed.mtu + HEADER && kind != VLAN {
            return None;
        }
        if len < LEAST {
            self.ring.write(slot, at, &[0; LEAST][..LEAST - len]);
        }
        Some(len.max(LEAST))
    }

    /// Posts the frame that lies in `parts`, of `buffers` buffers that come back; there is room.
    #[inline]
    fn post<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
        tag: Option<u16>,
        buffers: u8,
    ) {
        let len = self.put(parts, tag);
        if let Some(len) = len {
            self.ring
                .write_len(self.fill, u32::try_from(len).unwrap_or(u32::MAX));
            self.ring.give(self.fill, libc::TP_STATUS_SEND_REQUEST);
            self.fill = (self.fill + 1) % self.ring.len();
        }
        let at = (self.first + self.in_flight) % self.posted.len();
        self.posted[at] = Posted {
            buffers,
            sent: len.is_some(),
            bytes: len.map_or(0, |len| u32::try_from(len + FCS).unwrap_or(u32::MAX)),
        };
        self.in_flight += 1;
        self.counts.posted += 1;
    }

    /// Tells the kernel what the ring holds.
    fn kick(&mut self) {
        self.kicks += 1;
        let Err(error) = self.ring.socket.kick() else {
            return;
        };
        match error.raw_os_error() {
            // It is busy, or the interface is down: what is left in the ring is sent later.
            Some(
                libc::EAGAIN | libc::ENOBUFS | libc::EINTR | libc::ENOMEM | libc::ENETDOWN
                // The slot says what it does not like, and `look` reads that.
                | libc::EMSGSIZE | libc::EINVAL,
            ) => {}
            errno => self.fail(Lie::Send(errno.unwrap_or(0))),
        }
    }

    /// Looks what the kernel is done with; how many frames.
    #[inline]
    fn look(&mut self) -> usize {
        let mut frames = 0;
        while self.in_flight > 0 {
            let posted = self.posted[self.first];
            if posted.sent {
                match self.ring.status(self.oldest) {
                    libc::TP_STATUS_AVAILABLE => {}
                    libc::TP_STATUS_WRONG_FORMAT => {
                        self.fail(Lie::Refused(posted.bytes as usize));
                        break;
                    }
                    _ => break,
                }
                self.oldest = (self.oldest + 1) % self.ring.len();
                self.bytes += u64::from(posted.bytes);
            } else {
                self.errors += 1;
            }
            self.first = (self.first + 1) % self.posted.len();
            self.in_flight -= 1;
            self.done += usize::from(posted.buffers);
            self.counts.completed += 1;
            frames += 1;
        }
        if frames > 0 {
            self.note();
        }
        frames
    }

    /// Looks, and tells the kernel again if it left something in the ring.
    fn push(&mut self) -> usize {
        let frames = self.look();
        let waits = self.in_flight > 0
            && self.posted[self.first].sent
            && self.ring.status(self.oldest) == libc::TP_STATUS_SEND_REQUEST;
        if waits && !self.follower.has_failed() {
            self.kick();
            return frames + self.look();
        }
        frames
    }

    /// Tells the control thread what was counted.
    fn note(&self) {
        let ledger = self.follower.counts();
        ledger.frames.set(self.counts.completed - self.errors);
        ledger.bytes.set(self.bytes);
        ledger.errors.set(self.errors + self.counts.abandoned);
        ledger.kicks.set(self.kicks);
    }

    #[cold]
    fn fail(&mut self, lie: Lie) {
        self.follower.fail(lie);
        self.counts.abandoned += self.counts.in_flight();
        self.note();
    }

    /// Posts the resident frames that `numbers` names, as many as fit; how many.
    fn post_residents(&mut self, numbers: impl Iterator<Item = usize>) -> usize {
        if !may_work(&mut self.follower) {
            return 0;
        }
        self.push();
        let set = self
            .set
            .take()
            .expect("a set is loaded before its frames are sent");
        let mut count = 0;
        for number in numbers.take(self.free()) {
            let bytes = set.frames()[number].bytes();
            self.post(std::iter::once(bytes), None, 0);
            count += 1;
        }
        self.set = Some(set);
        self.hand_over(count);
        count
    }

    fn hand_over(&mut self, count: usize) {
        if count > 0 && !self.follower.has_failed() {
            self.kick();
            self.note();
        }
    }
}

/// True if the next frame continues this one.
fn goes_on(frame: &Frame) -> bool {
    frame.flags.contains(TxFlags::MORE)
}

impl TxQueue for Tx {
    fn burst(&mut self, frames: &mut Burst) -> usize {
        if frames.is_empty() || !may_work(&mut self.follower) {
            return 0;
        }
        self.push();
        let (mut buffers, mut packets) = (0, 0);
        while !frames.is_empty() && self.free() > 0 {
            let more = frames.iter().take_while(|frame| goes_on(frame)).count();
            let segments = (more + 1).min(frames.len());
            if segments > self.frames.room() {
                break;
            }
            let parts = &frames.as_slice()[..segments];
            let inserts = self.allowed.vlan && parts[0].flags.contains(TxFlags::VLAN);
            let tag = inserts.then_some(parts[0].vlan);
            let count = u8::try_from(segments).expect("a burst has few frames");
            self.post(parts.iter().map(Frame::bytes), tag, count);
            self.frames.put(frames, segments);
            (buffers, packets) = (buffers + segments, packets + 1);
        }
        self.hand_over(packets);
        buffers
    }

    fn reap(&mut self, out: &mut Burst) -> usize {
        let running = may_work(&mut self.follower);
        if self.follower.has_failed() {
            return 0;
        }
        if running && self.done < out.room() {
            self.push();
        }
        let moved = self.frames.take(out, self.done);
        self.done -= moved;
        moved
    }

    fn load(&mut self, set: Arc<Resident>) {
        // What is in the ring is a copy.
        self.set = Some(set);
    }

    fn burst_resident(&mut self, first: usize, count: usize) -> usize {
        let period = self.set.as_ref().map_or(0, |set| set.slots().len());
        assert!(first < period, "frame {first} is not in the set");
        self.post_residents((first..first + count).map(|number| number % period))
    }

    fn burst_resident_each(&mut self, numbers: &[u32]) -> usize {
        self.post_residents(numbers.iter().map(|&number| number as usize))
    }

    fn poll(&mut self) {
        if may_work(&mut self.follower) {
            self.push();
        }
    }

    fn counts(&self) -> TxCounts {
        self.counts
    }

    fn state(&self) -> QueueState {
        self.follower.state()
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if !self.follower.has_failed() {
            self.look();
            self.counts.abandoned += self.counts.in_flight();
            self.note();
        }
        // The kernel has copies: the frames go home with the queue.
        self.follower.leave(std::iter::empty(), std::iter::empty());
    }
}
