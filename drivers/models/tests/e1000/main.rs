//! The models of the e1000 family under a small driver that does what scripts tell it, right or
//! wrong.
#![expect(
    clippy::unwrap_used,
    reason = "what goes wrong in a helper fails its test"
)]

mod faults;
mod filters;
mod guest;
mod headers;
mod noise;
mod objections;
mod offloads;
mod queues;
mod registers;
mod rings;
mod spreading;
mod threaded;
mod vf;
