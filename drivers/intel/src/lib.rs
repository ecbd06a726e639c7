//! What the drivers of Intel's NICs have in common: queues over rings of 16-byte descriptors, and
//! the port around them.
//!
//! Driver and device own the slots of a ring in turn: the *tail* register says how far the device
//! may go, a *done* bit in the descriptor says how far it went ([`Ring`]). Sending asks for that
//! bit once in 32 packets and once a burst, so that one look completes many ([`Tx`]); receiving
//! gets it for each buffer ([`Rx`]). Queues run by themselves once started; what they share with
//! the port is a word that says whether to run ([`Shared`]).
//!
//! How a descriptor's bits are laid out is the driver's: it gives a [`SendFormat`] and a
//! [`ReceiveFormat`], and everything below its registers is monomorphic. What registers there are is
//! the driver's too: a physical or virtual function is a [`Control`], which is reset, configured and
//! asked for its link and counters. The port ([`Nic`]) is the same over all of them, and so is what
//! happens when the device loses its settings in mid-run: queues pause and clear their rings, the
//! device is started over, queues go on. What else it has to know of a device is its [`Design`].
#![forbid(unsafe_code)]

mod control;
mod counter;
mod design;
mod format;
mod host;
pub mod mailbox;
pub mod message;
mod nic;
mod options;
mod ring;
mod rx;
mod shape;
mod shared;
#[cfg(test)]
mod test;
mod totals;
mod tx;
mod vlans;
pub mod wait;
mod wanted;

pub use control::{Change, Control, Counted, Health, Setup};
pub use design::{AROUND, Design, FCS, Layout, Start, TAG, Tail};
pub use format::{Asks, Completion, DONE, Piece, REPORT, ReceiveFormat, SendFormat, Words};
pub use host::{Host, HostMtu, InTheWay, PfMtu};
pub use nic::{INTEL, Nic};
pub use options::{Options, refuse_pf_mtu};
pub use ring::{ALIGN, Ring, Slot, clear};
pub use rx::{Reports, Rx};
pub use shape::{Fit, KEY, Rings, Shape, Spread};
pub use shared::{Follower, Ledger, Lie, Shared};
pub use totals::{Row, Totals};
pub use tx::Tx;
pub use vlans::Vlans;
pub use wanted::{Wanted, is_group};
