//! What the port shares with its queues (`port::Shared`), in these drivers' words.

use std::fmt;

use port::Count;

/// A completion that cannot be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lie {
    /// The length that it gives.
    pub len: u16,
    /// Bytes of the buffer.
    pub buffer: u16,
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
pub struct Ledger {
    /// Frames that the device is done with (sending), or buffers that it filled (receiving).
    pub done: Count,
    /// Frames posted (sending), or buffers armed (receiving).
    pub posted: Count,
    /// Packets that were refused as too long (sending).
    pub errors: Count,
}

/// What the port and all its queues share.
pub type Shared = port::Shared<Ledger, Lie>;

/// A queue's side of it.
pub type Follower = port::Follower<Ledger, Lie>;
