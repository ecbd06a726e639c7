//! The rig: what the end-to-end tests stand on.
//!
//! - [`beside_linux`]: our ixgbe driver and Linux's on the same models, compared step by step.
//! - [`peer`]: a vhost-user device in this process, made of parts that others wrote.
//! - [`differential`]: one driver on two devices, of which one is a model, compared step by step.
//! - [`liar`]: one that lies.
//! - [`conformance`]: what every port must do, as named checks.
//! - [`cable`]: two ports that are queues in memory, to try the checks on.
//! - [`mutate`]: input that nobody meant, for fuzzing.
//! - [`referee`]: Linux's own drivers as judges of our models.
//! - [`rgen`]: the command, as a user runs it.
//! - [`runner`]: the checks as a command, on models, in a guest, on real devices.
//! - [`sims`]: drivers on models, in every combination.
//! - [`veth`]: interfaces of Linux, in a namespace that the test makes.
#![forbid(unsafe_code)]

pub mod beside_linux;
pub mod cable;
pub mod conformance;
pub mod differential;
pub mod liar;
pub mod mutate;
pub mod peer;
pub mod referee;
pub mod rgen;
pub mod runner;
pub mod sims;
pub mod veth;
