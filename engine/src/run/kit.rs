//! What outlasts a trial: queues, and all that belongs to them.

use hugemem::{BURST, Burst, Frame};
use port::{RxBurst, RxQueue, TxQueue};

use super::answer::Asked;
use super::lane::{Part, Supply};
use super::receive::Carried;

/// A send queue with what it sends.
pub(super) struct SendKit {
    pub(super) queue: Box<dyn TxQueue>,
    /// In the order in which their resident frames lie in the queue's set.
    pub(super) lanes: Vec<LaneKit>,
    /// Frames to write into; the others are with the device.
    pub(super) spare: Vec<Frame>,
}

/// Which part of a stream a lane is, and where its frames come from.
pub(super) struct LaneKit {
    pub(super) part: Part,
    pub(super) supply: Supply,
}

/// A receive queue, and what it has not given back.
pub(super) struct ReceiveKit {
    pub(super) queue: Box<dyn RxQueue>,
    /// Empty frames that the ring had no room for.
    pub(super) empties: Burst,
    /// The buffers so far of a frame in several.
    pub(super) carried: Option<Carried>,
    /// Where questions go, if the port answers any.
    pub(super) asked: Option<Asked>,
}

impl SendKit {
    /// A queue that sends nothing of its own.
    pub(super) fn bare(queue: Box<dyn TxQueue>) -> Self {
        Self {
            queue,
            lanes: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Looks what has left since the last trial; whether the device still has frames.
    pub(super) fn settle(&mut self) -> bool {
        let mut reaped = Burst::new();
        while self.queue.reap(&mut reaped) > 0 {
            while let Some(frame) = reaped.pop() {
                self.spare.push(frame);
            }
        }
        self.queue.poll();
        self.queue.counts().in_flight() == 0
    }
}

impl ReceiveKit {
    pub(super) fn new(queue: Box<dyn RxQueue>) -> Self {
        Self {
            queue,
            empties: Burst::new(),
            carried: None,
            asked: None,
        }
    }

    /// Throws away what came since the last trial, at most `limit` buffers: it is nobody's, and
    /// would be taken for the next one's.
    pub(super) fn discard(&mut self, limit: usize) {
        let mut burst = RxBurst::default();
        let mut left = limit.div_ceil(BURST);
        while left > 0 && self.queue.burst(&mut burst) > 0 {
            left -= 1;
            self.carried = None;
            self.queue.arm(&mut self.empties);
            self.queue.arm(&mut burst.frames);
            let kept = burst.frames.len();
            burst.frames.move_to(&mut self.empties, kept);
            burst.frames.clear();
        }
    }
}
