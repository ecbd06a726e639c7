//! The models of the ixgbe family under a small driver that does what scripts tell it, right or
//! wrong.
#![expect(
    clippy::unwrap_used,
    reason = "what goes wrong in a helper fails its test"
)]

mod faults;
mod filters;
mod guest;
mod jumbo;
mod mailbox;
mod objections;
mod offloads;
mod pools;
mod queues;
mod registers;
mod rings;
mod segments;
mod threaded;
mod vf;
