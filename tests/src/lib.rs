//! The rig: what the end-to-end tests stand on.
//!
//! - [`peer`]: a vhost-user device in this process, made of parts that others wrote.
//! - [`liar`]: one that lies.
//! - [`conformance`]: what every port must do, as named checks.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod liar;
pub mod peer;
