//! What benches have in common: ports without a device's cost, runs over them, and the core's
//! own clock.
#![forbid(unsafe_code)]

mod consumed;
mod core_clock;
mod ixgbe;
mod rigs;
mod run;

pub use consumed::{Consumed, Rings};
pub use core_clock::core_ghz;
pub use ixgbe::{NicShare, ixgbe};
pub use rigs::{RxRig, TxRig};
pub use run::{Tsc, frames, ns_per_frame, null, paced, stream, unpaced};
