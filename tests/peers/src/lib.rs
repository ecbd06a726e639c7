//! The peers: programs that others wrote, started for a test or a comparison and gone after it.
//!
//! `cargo xtask lab` puts them into a Debian root outside the checkout; [`lab::Lab`] finds that
//! root and runs a program in it; [`testpmd::Testpmd`] is DPDK's test application as a sink, a
//! reflector or a sender, with its counters read while it runs; [`guest::Guest`] is a machine
//! that QEMU emulates, with real VFIO, a virtual IOMMU and NICs that others wrote.
//!
//! Nothing here knows rgen: both the rig and `cargo xtask bench --against dpdk` stand on it.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;

pub mod guest;
pub mod lab;
pub mod setup;
pub mod tcpdump;
pub mod telemetry;
pub mod testpmd;
pub mod tshark;

pub use guest::{Guest, GuestError, Job, Machine, System, Taps};
pub use lab::{Lab, LabError};
pub use setup::{Forward, Memory, Rings, Setup};
pub use testpmd::{Counters, PeerError, Testpmd};

/// The lab, or a note that `test` was skipped for want of it.
#[must_use]
pub fn lab_or_skip(test: &str) -> Option<Lab> {
    Lab::find().map_err(|missing| skip(test, &missing)).ok()
}

/// QEMU and a kernel for its guests, or a note that `test` was skipped for want of them.
#[must_use]
pub fn guest_or_skip(test: &str) -> Option<Guest> {
    Guest::find().map_err(|missing| skip(test, &missing)).ok()
}

/// As [`guest_or_skip`], and the kernel of our own ([`guest::own`]) to boot there.
#[must_use]
pub fn own_guest_or_skip(test: &str) -> Option<(Guest, System)> {
    let guest = guest_or_skip(test)?;
    let system = guest::own::own_system_in(&Lab::home());
    let system = system.map_err(|missing| {
        let words = missing.to_string();
        skip(test, &words.replace("xtask lab", "xtask lab --own-kernel"));
    });
    Some((guest, system.ok()?))
}

/// Notes that `test` was skipped, and why: on standard error, and for `cargo xtask test`, which
/// counts it, in the file that `$RGEN_SKIPS` names.
pub fn skip(test: &str, reason: &dyn Display) {
    let line = format!("{test}: {reason}\n");
    eprint!("skipped {line}");
    let Some(path) = std::env::var_os("RGEN_SKIPS") else {
        return;
    };
    let file = OpenOptions::new().append(true).create(true).open(path);
    // One write, so that lines of tests that run side by side don't mix.
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("the skip was not noted: {error}");
    }
}
