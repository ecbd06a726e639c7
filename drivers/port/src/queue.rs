//! Queues: the data path.

use std::sync::Arc;

use hugemem::{BURST, Burst, Resident};

/// Whether a queue works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    /// It does.
    Running,
    /// For now it moves nothing: the link is down, or the peer is away and may come back. Its
    /// owner goes on calling it: a queue gives up what was in flight, and gets ready for the
    /// peer's return, in such a call.
    Paused,
    /// It never will again: the device is gone or broke its protocol; `Port::service` says how.
    Failed,
}

/// What a send queue did with the frames it was given. Frames, not buffers.
///
/// `posted = completed + abandoned + in flight`, always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxCounts {
    /// Frames given to the device.
    pub posted: u64,
    /// Frames that the device is done with.
    pub completed: u64,
    /// Frames that were with the device when it was reset or the peer went away: whether they
    /// were sent cannot be known.
    pub abandoned: u64,
}

impl TxCounts {
    /// Frames that the device still has.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.posted - self.completed - self.abandoned
    }
}

/// A send queue, owned by one worker.
pub trait TxQueue: Send {
    /// Posts frames from the front of `frames` until the ring is full, and tells the device
    /// once. What did not fit stays in `frames`. Returns how many frames it took.
    fn burst(&mut self, frames: &mut Burst) -> usize;

    /// Moves frames that the device is done with into `out`, until that is full. Resident frames
    /// are not handed back, only counted. Returns how many frames it moved.
    fn reap(&mut self, out: &mut Burst) -> usize;

    /// Loads a rendered set for [`TxQueue::burst_resident`]. The set before it, if any, is kept
    /// until the device is done with it.
    fn load(&mut self, set: Arc<Resident>);

    /// Posts `count` frames of the loaded set, from frame number `first` on and from the start
    /// again after its end, until the ring is full. Returns how many it posted.
    ///
    /// Resident and other frames may be mixed on a queue; they leave in the order posted.
    ///
    /// # Panics
    /// No set is loaded, or `first` is not in it.
    fn burst_resident(&mut self, first: usize, count: usize) -> usize;

    /// Posts the frames of the loaded set that `numbers` names, in this order, until the ring is
    /// full, and tells the device once. Returns how many it posted.
    ///
    /// For many streams that each have a frame or a few. What is provided here posts them one by
    /// one, and tells the device each time: a queue for which that is dear has its own.
    ///
    /// # Panics
    /// No set is loaded, or a number is not in it.
    fn burst_resident_each(&mut self, numbers: &[u32]) -> usize {
        let mut posted = 0;
        for &number in numbers {
            if self.burst_resident(number as usize, 1) == 0 {
                break;
            }
            posted += 1;
        }
        posted
    }

    /// Collects completions without handing frames back, so that [`TxQueue::counts`] is up to
    /// date: for draining.
    fn poll(&mut self);

    /// What became of the frames so far, as of the last `reap`, `poll` or burst.
    fn counts(&self) -> TxCounts;

    /// Whether it works.
    fn state(&self) -> QueueState;
}

/// A receive queue, owned by one worker.
pub trait RxQueue: Send {
    /// Moves received frames into `out` until it is full or there are no more. Returns how many
    /// buffers it moved.
    fn burst(&mut self, out: &mut RxBurst) -> usize;

    /// Takes empty frames from `empties` until the ring is full, and gives them to the device.
    /// Returns how many it took. Their lengths do not matter.
    fn arm(&mut self, empties: &mut Burst) -> usize;

    /// Empty frames that the ring could take now.
    fn room(&self) -> usize;

    /// Whether it works.
    fn state(&self) -> QueueState;
}

bitflags::bitflags! {
    /// What the device found in a received frame.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct RxFlags: u16 {
        /// The next frame of the burst continues this one.
        const MORE = 1 << 0;
        /// The hash is valid.
        const HASH = 1 << 1;
        /// A VLAN tag was stripped and is valid.
        const VLAN = 1 << 2;
        /// The IPv4 header checksum is right.
        const IPV4_GOOD = 1 << 3;
        /// The IPv4 header checksum is wrong.
        const IPV4_BAD = 1 << 4;
        /// The TCP or UDP checksum is right.
        const L4_GOOD = 1 << 5;
        /// The TCP or UDP checksum is wrong.
        const L4_BAD = 1 << 6;
        /// The timestamp is valid.
        const TIMESTAMP = 1 << 7;
        /// The frame is damaged.
        const ERROR = 1 << 8;
        /// The TCP or UDP checksum is still to be filled in by whoever sends the frame on (a
        /// guest's frame that never crossed a wire).
        const L4_PARTIAL = 1 << 9;
    }
}

/// What a device says of a received frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RxMeta {
    /// The device's clock in nanoseconds ([`RxFlags::TIMESTAMP`]).
    pub timestamp_ns: u64,
    /// The RSS hash ([`RxFlags::HASH`]).
    pub hash: u32,
    /// The tag that was stripped ([`RxFlags::VLAN`]).
    pub vlan: u16,
    /// What is valid, what is wrong.
    pub flags: RxFlags,
}

/// Received frames, and what the device says of each.
pub struct RxBurst {
    /// The frames.
    pub frames: Burst,
    /// What is said of frame *i*, counted from the first of `frames` as the queue left it.
    pub meta: [RxMeta; BURST],
}

impl Default for RxBurst {
    fn default() -> Self {
        Self {
            frames: Burst::new(),
            meta: [RxMeta::default(); BURST],
        }
    }
}
