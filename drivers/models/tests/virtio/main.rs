//! The virtio-net model under a small driver that does what scripts tell it, right or wrong.
#![expect(
    clippy::unwrap_used,
    reason = "what goes wrong in a helper fails its test"
)]

mod driver;
mod faults;
mod filters;
mod negotiation;
mod objections;
mod queues;
mod rings;
mod spreading;
mod threaded;
mod wire;
