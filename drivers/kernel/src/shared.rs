//! What the port shares with its queues (`port::Shared`), in this driver's words.

use std::fmt;

use port::{Count, Turn};

/// What ends a queue's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// The kernel will not send a frame of that many bytes.
    Refused(usize),
    /// The kernel answers the wish to send with this error.
    Send(i32),
    /// The kernel says that a frame lies outside its slot: offset and length.
    Outside(usize, usize),
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(len) => write!(
                f,
                "the kernel refuses a frame of {len} bytes: was the interface's MTU lowered?"
            ),
            Self::Send(libc::ENXIO | libc::ENODEV) => f.write_str("the interface is gone"),
            Self::Send(errno) => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(f, "the kernel sends no more: {error}")
            }
            Self::Outside(offset, len) => {
                write!(
                    f,
                    "a frame of {len} bytes at {offset} lies outside its slot"
                )
            }
        }
    }
}

/// What one queue counts.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Frames that the kernel is done with, or that arrived.
    pub(crate) frames: Count,
    /// Their bytes, with FCS.
    pub(crate) bytes: Count,
    /// Frames that could not be sent, or that arrived cut off.
    pub(crate) errors: Count,
    /// System calls that told the kernel of frames.
    pub(crate) kicks: Count,
}

/// What the port and all its queues share.
pub(crate) type Shared = port::Shared<Ledger, Lie>;

/// A queue's side of it.
pub(crate) type Follower = port::Follower<Ledger, Lie>;

/// True if the queue may work. When the link goes nothing is given up: what a ring holds is sent,
/// and what the kernel's slots hold is received, when it is back.
#[inline]
pub(crate) fn may_work(follower: &mut Follower) -> bool {
    match follower.turn() {
        Turn::Work | Turn::Resume => true,
        Turn::Rest => false,
        Turn::Clear => {
            follower.cleared();
            false
        }
    }
}

/// Bytes of the FCS, which the kernel does not show.
pub(crate) const FCS: usize = 4;
/// Bytes of an Ethernet header.
pub(crate) const HEADER: usize = 14;
/// Bytes of the two addresses, after which a VLAN tag stands.
pub(crate) const ADDRESSES: usize = 12;
/// Bytes of a VLAN tag.
pub(crate) const TAG: usize = 4;
