//! A profile's TOML, as serde reads it. Unknown keys are errors, with the known ones named.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// Ports, for when the command line names none.
    pub(super) ports: Option<Ports>,
    /// What is sent.
    #[serde(default)]
    pub(super) stream: Vec<Stream>,
    /// Criteria for exit code 0.
    #[serde(default)]
    pub(super) require: BTreeMap<Spanned<String>, Spanned<toml::Value>>,
}

/// `[ports]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ports {
    /// Sends.
    pub(super) tx: Spanned<String>,
    /// Receives; the sending one if left out.
    pub(super) rx: Option<Spanned<String>>,
}

/// `[[stream]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stream {
    /// What results call it.
    pub(super) name: Spanned<String>,
    /// `eth / ipv4(dst=48.0.0.1) / udp(dport=80)`
    pub(super) frame: Spanned<String>,
    /// `64`, `"64B"`, `"64..1518"`, `"imix"`, `[[64, 7], [594, 4], [1518, 1]]`
    pub(super) size: Option<Spanned<toml::Value>>,
    /// `"40%"`, `"1mpps"`, `"10gbps"`
    pub(super) rate: Option<Spanned<String>>,
    /// `{ "ipv4.src" = "16.0.0.0/24 each" }`
    #[serde(default)]
    pub(super) vary: BTreeMap<Spanned<String>, Spanned<String>>,
    /// `"none"`, `"count"` or `"latency"`
    pub(super) measure: Option<Spanned<String>>,
    /// Keeps its rate whatever `-m` says; latency streams do.
    pub(super) fixed_rate: Option<bool>,
    /// When it starts.
    pub(super) delay: Option<Spanned<String>>,
    /// Frames of a burst; then nothing, or a `gap`.
    pub(super) burst: Option<Spanned<u64>>,
    /// From one burst to the next.
    pub(super) gap: Option<Spanned<String>>,
    /// How many bursts; forever if left out.
    pub(super) bursts: Option<Spanned<u64>>,
    /// The stream that starts when this one has ended.
    pub(super) next: Option<Spanned<String>>,
    /// It starts only as another one's `next`.
    pub(super) waits: Option<bool>,
    /// How often it is sent before nothing follows it any more.
    pub(super) loops: Option<Spanned<u64>>,
    /// Only even ports (0) or odd ports (1) send it; all if left out.
    pub(super) direction: Option<Spanned<u8>>,
    /// Compute so many frames once, and send those again and again.
    pub(super) cached: Option<u32>,
}
