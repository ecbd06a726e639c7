//! The names of the documents that `--json` prints, and of their versions.
//!
//! A version changes only when a key goes or changes its meaning; new keys do not change it.

use serde::Serialize;

/// Which kind of document this is: its `schema` key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Schema {
    /// A run, whole or partial.
    #[serde(rename = "rgen/run/1")]
    Run,
    /// A search for the highest rate.
    #[serde(rename = "rgen/ndr/1")]
    Ndr,
    /// The benchmark's table for two ports.
    #[serde(rename = "rgen/bench/1")]
    Bench,
    /// The tests of RFC 2544.
    #[serde(rename = "rgen/rfc2544/1")]
    Rfc2544,
    /// A capture's counters.
    #[serde(rename = "rgen/capture/1")]
    Capture,
    /// One interval of a run (`--json-stream`).
    #[serde(rename = "rgen/interval/1")]
    Interval,
    /// A forwarder's counters.
    #[serde(rename = "rgen/fwd/1")]
    Forward,
    /// What a profile would send.
    #[serde(rename = "rgen/show/1")]
    Show,
    /// The ports of this machine.
    #[serde(rename = "rgen/ports/1")]
    Ports,
    /// What binding did, or would do.
    #[serde(rename = "rgen/bind/1")]
    Bind,
    /// Hugepages and their holders.
    #[serde(rename = "rgen/hugepages/1")]
    Hugepages,
    /// The doctor's findings.
    #[serde(rename = "rgen/doctor/1")]
    Doctor,
    /// An error in place of a result.
    #[serde(rename = "rgen/error/1")]
    Error,
}
