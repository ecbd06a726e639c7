//! What the port shares with its queues (`port::Shared`), in this driver's words.

use std::fmt;

use port::Count;

/// A completion that cannot be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lie {
    /// The length that it gives.
    pub(crate) len: u16,
    /// Bytes of the buffer.
    pub(crate) buffer: u16,
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { len, buffer } = self;
        write!(
            f,
            "the device says that it wrote {len} bytes to a buffer of {buffer}"
        )
    }
}

/// What one queue counts.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Frames that the device is done with (sending), or buffers that it filled (receiving).
    pub(crate) done: Count,
    /// Frames posted (sending), or buffers armed (receiving).
    pub(crate) posted: Count,
    /// Frames that were refused as too long, or given up when the device was lost.
    pub(crate) errors: Count,
}

/// What the port and all its queues share.
pub(crate) type Shared = port::Shared<Ledger, Lie>;

/// A queue's side of it.
pub(crate) type Follower = port::Follower<Ledger, Lie>;
