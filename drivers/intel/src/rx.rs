//! Receiving.
//!
//! The driver *arms* a slot with the address of an empty frame; the device fills the frame,
//! overwrites the slot and sets *done*, in ring order. A packet larger than a buffer goes on in
//! the next slots, the last of which says so and carries what the device found out.

use std::sync::Arc;

use hugemem::{BURST, Burst, Fifo, Frame, TxFlags};
use hw::Bar;
use hw::ring::MaskedCursor;
use port::{Headers, QueueState, RxBurst, RxFlags, RxMeta, RxQueue, Turn};

use crate::format::{Completion, ReceiveFormat};
use crate::ring::Ring;
use crate::shared::{Follower, Lie};
use crate::vlans::Vlans;

/// Buffers of a packet that are waited for before the first is given out: so that the first
/// carries what the device says in the last.
const PATIENCE: usize = 32;

/// What a queue reports of what the device says.
#[derive(Debug, Clone, Copy)]
pub struct Reports {
    /// Bytes that the device may write to a buffer.
    pub buffer: u16,
    /// What was asked for; the rest is dropped. Where tags are put back, [`RxFlags::VLAN`] is
    /// among them, for a frame that has no room for its tag.
    pub flags: RxFlags,
    /// Puts a tag back that the device strips though nobody asked for it.
    pub put_tags_back: bool,
    /// The device takes UDP datagrams without a checksum for wrong ones (82599; DPDK, b9c366e029).
    pub doubts_udp: bool,
}

/// A receive queue with descriptors of format `R`.
pub struct Rx<B: Bar, R: ReceiveFormat> {
    ring: Ring<B>,
    follower: Follower,
    reports: Reports,
    /// The VLANs whose tags are the port's business, where not all are: tags of others that a
    /// virtual function sees are its host's, which put it into a VLAN without its knowledge.
    only: Option<Arc<Vlans>>,
    /// The frames that the device has, in ring order.
    held: Fifo,
    /// The slot to arm next.
    next: MaskedCursor,
    /// The slot that the device fills next.
    done: MaskedCursor,
    /// What the device said of the burst under way: kept, so that it is not made anew for each.
    found: Box<[Completion]>,
    /// True in the middle of a packet whose first buffer was given out.
    inside: bool,
    armed: u64,
    filled: u64,
    format: std::marker::PhantomData<R>,
}

impl<B: Bar, R: ReceiveFormat> Rx<B, R> {
    /// A queue on a clear ring.
    #[must_use]
    pub fn new(ring: Ring<B>, follower: Follower, reports: Reports) -> Self {
        let start = MaskedCursor::new(ring.len());
        Self {
            held: Fifo::with_capacity(ring.len()),
            ring,
            follower,
            reports,
            only: None,
            next: start,
            done: start,
            found: vec![Completion::default(); BURST].into_boxed_slice(),
            inside: false,
            armed: 0,
            filled: 0,
            format: std::marker::PhantomData,
        }
    }

    /// The same, saying nothing of tags of VLANs other than `own`.
    pub(crate) fn hiding_tags_but(mut self, own: Option<Arc<Vlans>>) -> Self {
        self.only = own;
        self
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
            Turn::Work => true,
            Turn::Resume => {
                self.ring.hand_over(self.next.index());
                true
            }
            Turn::Clear => {
                self.arm_again();
                self.follower.cleared();
                false
            }
            Turn::Rest => false,
        }
    }

    /// Makes the ring as new, with every frame that it holds armed from the first slot on.
    fn arm_again(&mut self) {
        let start = MaskedCursor::new(self.ring.len());
        for (index, frame) in self.held.iter().enumerate() {
            self.ring.write(index, R::arm(frame.iova().get()));
        }
        let held = u32::try_from(self.held.len()).unwrap_or(0);
        (self.done, self.next) = (start, start.ahead(held));
        self.inside = false;
    }

    /// The completions of up to `most` buffers, checked, in `found`; how many, and whether each is
    /// a packet of its own.
    #[inline]
    fn look(&self, found: &mut [Completion], most: usize) -> Result<(usize, bool), Lie> {
        let most = most.min(self.held.len());
        let mut at = self.done;
        let mut whole = !self.inside;
        for (number, completion) in found.iter_mut().enumerate().take(most) {
            match self.completion(at)? {
                Some(one) => *completion = one,
                None => return Ok((number, whole)),
            }
            whole &= completion.last;
            at.advance(1);
        }
        Ok((most, whole))
    }

    /// What the device says of slot `at`, if it is done with it.
    #[inline]
    fn completion(&self, at: MaskedCursor) -> Result<Option<Completion>, Lie> {
        let second = self.ring.second(at.index());
        if !R::is_filled(second) {
            return Ok(None);
        }
        let completion = R::completion(|| self.ring.first(at.index()), second);
        if completion.len > self.reports.buffer {
            return Err(Lie {
                len: completion.len,
                buffer: self.reports.buffer,
            });
        }
        Ok(Some(completion))
    }

    /// What the device says of the packet that begins at slot `first`, in a buffer that does not
    /// end it. None if the end may still come.
    #[cold]
    fn verdict(&self, first: MaskedCursor) -> Result<Option<Completion>, Lie> {
        let left = self.next.since(first) as usize;
        for ahead in 1..left.min(PATIENCE) {
            let at = first.ahead(u32::try_from(ahead).unwrap_or(0));
            match self.completion(at)? {
                None => return Ok(None),
                Some(last) if last.last => return Ok(Some(last)),
                Some(_) => {}
            }
        }
        // As long as that, or longer than the ring: given out without.
        Ok(Some(Completion::default()))
    }

    /// Gives the first buffer of each packet what the device says in its last. How many buffers
    /// can be given out: not those of a packet whose end may still come.
    #[inline]
    fn join(&mut self, found: &mut [Completion]) -> Result<usize, Lie> {
        let mut at = self.done;
        for (number, one) in found.iter_mut().enumerate() {
            if self.inside {
                // Said of the first already.
                one.flags &= RxFlags::ERROR;
            } else if !one.last {
                match self.verdict(at)? {
                    Some(verdict) => {
                        *one = Completion {
                            len: one.len,
                            last: false,
                            ..verdict
                        };
                    }
                    None => return Ok(number),
                }
            }
            self.inside = !one.last;
            at.advance(1);
        }
        Ok(found.len())
    }

    /// Takes what the device has filled; how many buffers.
    #[inline]
    fn collect(&mut self, out: &mut RxBurst) -> Result<usize, Lie> {
        let mut found = std::mem::take(&mut self.found);
        let moved = self.collect_into(&mut found, out);
        self.found = found;
        moved
    }

    #[inline]
    fn collect_into(&mut self, found: &mut [Completion], out: &mut RxBurst) -> Result<usize, Lie> {
        let before = out.frames.len();
        let (mut count, whole) = self.look(found, BURST - before)?;
        if !whole {
            count = self.join(&mut found[..count])?;
        }
        let moved = self.held.take(&mut out.frames, count);
        debug_assert_eq!(moved, count, "the burst has room, the ring has frames");
        self.done.advance(u32::try_from(moved).unwrap_or(0));
        self.filled += moved as u64;
        let frames = &mut out.frames.as_mut_slice()[before..];
        for ((frame, meta), one) in frames
            .iter_mut()
            .zip(&mut out.meta[before..])
            .zip(&found[..moved])
        {
            *meta = self.open(frame, one);
        }
        Ok(moved)
    }

    /// Makes a frame of a filled buffer.
    #[inline]
    fn open(&self, frame: &mut Frame, one: &Completion) -> RxMeta {
        frame.set_len(usize::from(one.len));
        let mut meta = RxMeta {
            flags: one.flags,
            ..RxMeta::default()
        };
        if R::ALL {
            meta.flags = self.judge(frame, one);
            meta.hash = one.hash;
            if meta.flags.contains(RxFlags::VLAN) {
                meta.vlan = one.vlan;
            }
        }
        if !one.last {
            meta.flags |= RxFlags::MORE;
        }
        meta
    }

    /// What is said of a frame: what was asked for, less what the device cannot know.
    #[inline]
    fn judge(&self, frame: &mut Frame, one: &Completion) -> RxFlags {
        let mut flags = one.flags & self.reports.flags;
        if flags.contains(RxFlags::VLAN)
            && let Some(own) = &self.only
            && !own.has(one.vlan)
        {
            flags -= RxFlags::VLAN;
        }
        if self.reports.put_tags_back
            && flags.contains(RxFlags::VLAN)
            && put_tag_back(frame, one.vlan)
        {
            flags -= RxFlags::VLAN;
        }
        if self.reports.doubts_udp && one.udp && flags.contains(RxFlags::L4_BAD) {
            flags = doubt(frame, flags);
        }
        flags
    }
}

/// Takes a verdict back that is about a UDP datagram without a checksum.
#[cold]
fn doubt(frame: &Frame, flags: RxFlags) -> RxFlags {
    let bytes = frame.bytes();
    let sum = Headers::find(bytes).and_then(|found| Some(found.l4 + found.l4_sum?));
    let sum = sum.and_then(|at| bytes.get(usize::from(at)..usize::from(at) + 2));
    if sum == Some(&[0, 0]) {
        flags - RxFlags::L4_BAD
    } else {
        flags
    }
}

/// Puts a stripped tag back behind the addresses. False if the frame has no room for it: then it
/// stays in what is said of the frame.
#[cold]
fn put_tag_back(frame: &mut Frame, tag: u16) -> bool {
    const ADDRESSES: usize = 12;
    let len = frame.len();
    if len < ADDRESSES || len + 4 > frame.capacity() {
        return false;
    }
    frame.set_len(len + 4);
    let bytes = frame.bytes_mut();
    bytes.copy_within(ADDRESSES..len, ADDRESSES + 4);
    let [high, low] = tag.to_be_bytes();
    bytes[ADDRESSES..ADDRESSES + 4].copy_from_slice(&[0x81, 0x00, high, low]);
    true
}

impl<B: Bar + Send, R: ReceiveFormat> RxQueue for Rx<B, R> {
    fn burst(&mut self, out: &mut RxBurst) -> usize {
        if !self.is_running() {
            return 0;
        }
        match self.collect(out) {
            Ok(0) => 0,
            Ok(moved) => {
                self.follower.counts().done.set(self.filled);
                moved
            }
            Err(lie) => {
                // Nothing was moved: what the device has stays until it is stopped.
                self.follower.fail(lie);
                0
            }
        }
    }

    fn arm(&mut self, empties: &mut Burst) -> usize {
        if !self.is_running() {
            return 0;
        }
        let count = self.room().min(empties.len());
        if count == 0 {
            return 0;
        }
        let (mut fits, least) = (true, usize::from(self.reports.buffer));
        let armed = &mut empties.as_mut_slice()[..count];
        for frame in armed.iter_mut() {
            fits &= frame.capacity() >= least;
            frame.flags = TxFlags::empty();
        }
        assert!(fits, "an armed frame holds what the port was started for");
        self.ring
            .write_each(self.next.index(), armed, |frame| R::arm(frame.iova().get()));
        self.next.advance(u32::try_from(count).unwrap_or(0));
        let held = self.held.put(empties, count);
        debug_assert_eq!(held, count, "a ring holds no more frames than it has slots");
        self.armed += count as u64;
        self.ring.hand_over(self.next.index());
        self.follower.counts().posted.set(self.armed);
        count
    }

    fn room(&self) -> usize {
        self.ring.len() - 1 - self.held.len()
    }

    fn state(&self) -> QueueState {
        self.follower.state()
    }
}

impl<B: Bar, R: ReceiveFormat> Drop for Rx<B, R> {
    fn drop(&mut self) {
        let held = &mut self.held;
        let frames = std::iter::from_fn(|| held.pop());
        self.follower.leave(frames, std::iter::empty());
    }
}
