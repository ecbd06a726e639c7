//! The vmxnet3 model under a small driver that does what scripts tell it, right or wrong.
#![expect(
    clippy::unwrap_used,
    reason = "what goes wrong in a helper fails its test"
)]

mod commands;
mod faults;
mod guest;
mod jumbo;
mod objections;
mod offloads;
mod rings;
mod threaded;
