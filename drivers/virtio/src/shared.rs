//! What the port shares with its queues (`port::Shared`), in this driver's words.

use std::fmt;

use port::Count;

/// What a device did that no honest one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It used a buffer that it does not have.
    Id(u16),
    /// It used more buffers than it has.
    Count(u16),
    /// It wrote more into a buffer than the buffer holds.
    Length(u32),
    /// It put a frame into this many buffers.
    Buffers(u16),
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the device ")?;
        match self {
            Self::Id(id) => write!(f, "used buffer {id}, which it does not have"),
            Self::Count(count) => write!(f, "used {count} buffers, more than it has"),
            Self::Length(len) => write!(f, "wrote {len} bytes into a buffer that holds fewer"),
            Self::Buffers(count) => write!(f, "put a frame into {count} buffers"),
        }
    }
}

/// What one queue counts.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Frames that the device is done with, or that arrived.
    pub(crate) frames: Count,
    /// Their bytes, FCS included.
    pub(crate) bytes: Count,
    /// Frames given up when the device was lost, or that arrived with a bad length.
    pub(crate) errors: Count,
    /// Times that the device was told.
    pub(crate) kicks: Count,
    /// Buffers given to the device.
    pub(crate) posted: Count,
}

/// What the port and all its queues share.
pub(crate) type Shared = port::Shared<Ledger, Lie>;

/// A queue's side of it.
pub(crate) type Follower = port::Follower<Ledger, Lie>;
