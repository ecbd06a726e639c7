//! The rig: what the end-to-end tests stand on.
//!
//! - [`peer`]: a vhost-user device in this process, made of parts that others wrote.
//! - [`liar`]: one that lies.
#![forbid(unsafe_code)]

pub mod liar;
pub mod peer;
