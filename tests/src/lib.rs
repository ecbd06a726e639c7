//! The rig: what the end-to-end tests stand on.
//!
//! - [`peer`]: a vhost-user device in this process, made of parts that others wrote.
#![forbid(unsafe_code)]

pub mod peer;
