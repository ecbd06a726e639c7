//! What the port shares with its queues (`port::Shared`), in this driver's words.

use std::fmt;

use port::Count;

/// What a device did that no honest one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It completed a slot that it does not have.
    Slot(usize),
    /// It completed a frame in the middle.
    Middle(usize),
    /// It wrote more into a buffer than the buffer holds.
    Length(usize),
    /// It put a frame into more buffers than it may.
    Chain(usize),
    /// It named a ring that is not the queue's.
    Ring(u32),
    /// A frame began within another.
    Torn,
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the device ")?;
        match self {
            Self::Slot(slot) => write!(f, "completed slot {slot}, which it does not have"),
            Self::Middle(slot) => write!(f, "completed slot {slot}, in the middle of a frame"),
            Self::Length(len) => write!(f, "wrote {len} bytes into a buffer that holds fewer"),
            Self::Chain(buffers) => write!(f, "put a frame into more than {buffers} buffers"),
            Self::Ring(ring) => write!(f, "named ring {ring}, which the queue does not have"),
            Self::Torn => f.write_str("began a frame within another"),
        }
    }
}

/// What one queue counts.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Frames that the device is done with, or that arrived.
    pub(crate) frames: Count,
    /// Frames given up when the device was reset, or that arrived damaged.
    pub(crate) errors: Count,
    /// Times that the device was told of new slots.
    pub(crate) kicks: Count,
    /// Frames or buffers given to the device.
    pub(crate) posted: Count,
    /// Send: frames copied into the data ring. Receive: frames taken from it.
    pub(crate) copied: Count,
    /// Buffers that the device passed over.
    pub(crate) skipped: Count,
}

/// What the port and all its queues share.
pub(crate) type Shared = port::Shared<Ledger, Lie>;

/// A queue's side of it.
pub(crate) type Follower = port::Follower<Ledger, Lie>;
