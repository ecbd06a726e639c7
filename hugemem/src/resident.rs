//! Frames that are rendered once and sent again and again.

use crate::frame::Frame;
use crate::iova::Iova;

/// A rendered set of frames that stays in memory: while a queue holds it, nobody can write it,
/// so the queue may post the same frame many times at once and need not hand any back.
///
/// The set is a cycle: after its last frame comes its first.
#[derive(Debug)]
pub struct Resident {
    frames: Box<[Frame]>,
    slots: Box<[ResidentSlot]>,
}

/// What a descriptor says of a resident frame.
#[derive(Debug, Clone, Copy)]
pub struct ResidentSlot {
    /// Bus address of the first byte.
    pub iova: Iova,
    /// Bytes, without FCS.
    pub len: u32,
}

impl Resident {
    /// The set of `frames`, in the order in which they are sent.
    ///
    /// They are sent as they are: what their flags ask of the device is not asked. Their headroom
    /// is made zero, for devices that look for a header there.
    ///
    /// # Panics
    /// There are none.
    #[must_use]
    pub fn new(mut frames: Vec<Frame>) -> Self {
        frames.iter_mut().for_each(Frame::clean_headroom);
        assert!(!frames.is_empty(), "a resident set has at least one frame");
        let slot = |frame: &Frame| ResidentSlot {
            iova: frame.iova(),
            len: u32::try_from(frame.len()).expect("a frame's length is 16 bits"),
        };
        let slots = frames.iter().map(slot).collect();
        Self {
            frames: frames.into_boxed_slice(),
            slots,
        }
    }

    /// The frames, in the order in which they are sent.
    #[must_use]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Address and length of each.
    #[must_use]
    #[inline]
    pub fn slots(&self) -> &[ResidentSlot] {
        &self.slots
    }

    /// Ends the set: its frames can be written again. For when no queue holds it any more.
    #[must_use]
    pub fn into_frames(self) -> Vec<Frame> {
        self.frames.into_vec()
    }
}
