//! What the drivers of Intel's NICs have in common: queues over rings of 16-byte descriptors.
//!
//! Driver and device own the slots of a ring in turn: the *tail* register says how far the device
//! may go, a *done* bit in the descriptor says how far it went ([`Ring`]). Sending asks for that
//! bit once in 32 packets and once a burst, so that one look completes many ([`Tx`]); receiving
//! gets it for each buffer ([`Rx`]). Queues run by themselves once started; what they share with
//! the port is a word that says whether to run ([`Shared`]).
//!
//! How a descriptor's bits are laid out is the driver's: it gives a [`SendFormat`] and a
//! [`ReceiveFormat`], and everything below its registers is monomorphic.
#![forbid(unsafe_code)]

mod format;
mod ring;
mod rx;
mod shared;
#[cfg(test)]
mod test;
mod tx;
pub mod wait;

pub use format::{Asks, Completion, DONE, Piece, REPORT, ReceiveFormat, SendFormat, Words};
pub use ring::{ALIGN, Ring, Slot, clear};
pub use rx::{Reports, Rx};
pub use shared::{Follower, Ledger, Lie, Shared};
pub use tx::Tx;
