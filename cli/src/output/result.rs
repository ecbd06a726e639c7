//! The document of a run: everything that it was, had and did. Its keys are stable: a key may be
//! added, none is renamed, and one that goes makes a new version of the schema.
//!
//! ```json
//! { "schema": "rgen/run/1", "version": "0.1.0", "complete": true, "exit_code": 0,
//!   "duration_s": 10.0, "seed": 7, "asked_frames": 0, "shortfall_frames": 0, "lost_frames": 0,
//!   "surplus": 0, "bottleneck": "none",
//!   "ports": [ { "port", "driver", "tx_frames", "rx_frames", "tx_bytes", "rx_bytes", "tx_pps",
//!                "rx_pps", "tx_bps_l1", "tx_bps_l2", "rx_bps_l1", "rx_bps_l2", "tx_line_percent",
//!                "tx_cpu", "rx_cpu", "tx_blocked", "rx_missed", "rx_errors", "tx_errors",
//!                "answered", "rx_unmatched", "tx_dropped", "asked_frames", "shortfall_frames", "shortfall":
//!                { "late", "ring_full", "paused", "ended", "abandoned" },
//!                "extended": { "NAME": 0 } } ],
//!   "streams": [ { "name", "port", "asked_frames", "shortfall_frames", "tx_frames", "tx_bytes",
//!                  "measured", "rx_frames", "rx_bytes", "lost", "duplicated", "reordered",
//!                  "too_late", "surplus", "misdirected", "latency_ns": { "count", "min", "mean",
//!                  "p50", "p90", "p99", "p999", "max", "jitter" } } ],
//!   "requirements": [ { "criterion", "met", "found" } ],
//!   "failures": [ { "port", "error" } ],
//!   "warnings": [ "…" ], "events": [ { "at_s", "port", "what" } ],
//!   "config": { … }, "machine": { "cpu", "cores", … } }
//! ```
//!
//! Bytes and L2 rates are of frames with FCS; L1 rates add 20 bytes a frame. Figures of a stream
//! that carries no stamps (`measured: false`) are null from `rx_frames` on. `lost_frames` is
//! what was sent and not received where all ports are ends of simulated wires, and of measured
//! streams otherwise; null where neither says, or where `surplus` frames (more than were sent:
//! duplicates, or somebody else's) may hide losses of streams that are not measured.

use std::collections::BTreeMap;

use engine::run::{Bottleneck, Event, Latency, PortFigures, Shortfall, StreamFigures};
use engine::stream::WIRE_OVERHEAD;
use port::Port;
use serde::Serialize;

use super::schema::Schema;
use crate::host::Fingerprint;

/// What a run came to.
#[derive(Debug, Serialize)]
pub(crate) struct RunDocument {
    /// Which kind of document this is.
    pub(crate) schema: Schema,
    /// rgen's own version.
    pub(crate) version: &'static str,
    /// False if it was interrupted or a port failed.
    pub(crate) complete: bool,
    /// The command's exit code.
    pub(crate) exit_code: u8,
    /// How long frames were sent, in seconds.
    pub(crate) duration_s: f64,
    /// What random fields follow from.
    pub(crate) seed: u64,
    /// Frames that the rates asked for.
    pub(crate) asked_frames: u64,
    /// Those that were not sent.
    pub(crate) shortfall_frames: u64,
    /// Those that were sent and lost, where that can be known.
    pub(crate) lost_frames: Option<u64>,
    /// Frames that ports received beyond those that their peers sent.
    pub(crate) surplus: u64,
    /// What kept the run from sending what was asked: none, generator, port, away.
    pub(crate) bottleneck: &'static str,
    /// By port.
    pub(crate) ports: Vec<PortRow>,
    /// By stream.
    pub(crate) streams: Vec<StreamRow>,
    /// Criteria, and whether they were met.
    pub(crate) requirements: Vec<Requirement>,
    /// Ports that failed.
    pub(crate) failures: Vec<Failure>,
    /// What makes the figures doubtful.
    pub(crate) warnings: Vec<String>,
    /// What happened.
    pub(crate) events: Vec<EventRow>,
    /// All that was asked, for doing it again.
    pub(crate) config: Config,
    /// Where it ran.
    pub(crate) machine: Fingerprint,
}

/// One line of `--json-stream`.
#[derive(Debug, Serialize)]
pub(crate) struct IntervalDocument {
    /// Which kind of document this is.
    pub(crate) schema: Schema,
    /// Seconds since sending began.
    pub(crate) elapsed_s: f64,
    /// Frames asked for so far.
    pub(crate) asked_frames: u64,
    /// Those not sent so far.
    pub(crate) shortfall_frames: u64,
    /// By port; rates are since the line before.
    pub(crate) ports: Vec<PortRow>,
}

/// A port's figures.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PortRow {
    pub(crate) port: String,
    pub(crate) driver: &'static str,
    pub(crate) tx_frames: u64,
    pub(crate) rx_frames: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_pps: f64,
    pub(crate) rx_pps: f64,
    pub(crate) tx_bps_l2: f64,
    pub(crate) rx_bps_l2: f64,
    pub(crate) tx_bps_l1: f64,
    pub(crate) rx_bps_l1: f64,
    /// Per cent of the link, where its speed is known.
    pub(crate) tx_line_percent: Option<f64>,
    /// Share of the time in which sending kept its cores busy, 0 to 1 a queue.
    pub(crate) tx_cpu: f64,
    pub(crate) rx_cpu: f64,
    /// Share of the time in which the send ring was full.
    pub(crate) tx_blocked: f64,
    pub(crate) rx_missed: u64,
    pub(crate) rx_errors: u64,
    pub(crate) tx_errors: u64,
    /// Questions for the port's own addresses that it answered.
    pub(crate) answered: u64,
    /// Frames received that belong to no measured stream.
    pub(crate) rx_unmatched: u64,
    pub(crate) tx_dropped: u64,
    pub(crate) asked_frames: u64,
    pub(crate) shortfall_frames: u64,
    pub(crate) shortfall: ShortfallRow,
    /// What else the device counted, by datasheet name; what is zero is left out.
    pub(crate) extended: BTreeMap<String, u64>,
}

impl PortRow {
    /// Why a port that was asked to send and sent nothing counts as failed: its device or its peer
    /// took none of the frames, or none is known to have left. None if it sent, or could not for
    /// want of time.
    pub(crate) fn muteness(&self) -> Option<Failure> {
        let ShortfallRow {
            ring_full,
            paused,
            abandoned,
            ..
        } = self.shortfall;
        let is_mute = self.tx_frames == 0 && ring_full + paused + abandoned > 0;
        is_mute.then(|| Failure {
            port: self.port.clone(),
            error: format!(
                "{}: no frame left it: the device or its peer takes none (does anything receive \
                 there?)",
                self.port
            ),
        })
    }
}

/// Frames not sent, by cause.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct ShortfallRow {
    late: u64,
    ring_full: u64,
    paused: u64,
    ended: u64,
    abandoned: u64,
}

impl From<&Shortfall> for ShortfallRow {
    fn from(shortfall: &Shortfall) -> Self {
        Self {
            late: shortfall.late,
            ring_full: shortfall.ring_full,
            paused: shortfall.paused,
            ended: shortfall.ended,
            abandoned: shortfall.abandoned,
        }
    }
}

impl PortRow {
    /// The same, with what else `port` counted. A device that is gone counts nothing any more.
    pub(crate) fn with_extended(mut self, port: &mut dyn Port) -> Self {
        let all = port.extended().unwrap_or_default();
        let counted = all.into_iter().filter(|counter| counter.value > 0);
        self.extended = counted
            .map(|counter| (counter.name, counter.value))
            .collect();
        self
    }

    /// The row of `figures`, whose link has `link_bps`. Byte rates follow from the mean frame.
    pub(crate) fn new(figures: &PortFigures, link_bps: Option<u64>) -> Self {
        let l2 = |pps: f64, bytes: u64, frames: u64| {
            if frames == 0 {
                0.0
            } else {
                pps * (bytes as f64 / frames as f64) * 8.0
            }
        };
        let overhead = (WIRE_OVERHEAD * 8) as f64;
        let tx_bps_l2 = l2(figures.tx_pps, figures.tx_bytes, figures.tx_frames);
        let rx_bps_l2 = l2(figures.rx_pps, figures.rx_bytes, figures.rx_frames);
        let tx_bps_l1 = tx_bps_l2 + figures.tx_pps * overhead;
        Self {
            port: figures.port.clone(),
            driver: figures.driver,
            tx_frames: figures.tx_frames,
            rx_frames: figures.rx_frames,
            tx_bytes: figures.tx_bytes,
            rx_bytes: figures.rx_bytes,
            tx_pps: figures.tx_pps,
            rx_pps: figures.rx_pps,
            tx_bps_l2,
            rx_bps_l2,
            tx_bps_l1,
            rx_bps_l1: rx_bps_l2 + figures.rx_pps * overhead,
            tx_line_percent: link_bps.map(|bps| tx_bps_l1 / bps as f64 * 100.0),
            // A sum of nothing is -0.0.
            tx_cpu: figures.tx_cpu.max(0.0),
            rx_cpu: figures.rx_cpu.max(0.0),
            tx_blocked: figures.tx_blocked.max(0.0),
            rx_missed: figures.rx_missed,
            rx_errors: figures.rx_errors,
            tx_errors: figures.tx_errors,
            answered: figures.answered,
            rx_unmatched: figures.rx_unmatched,
            tx_dropped: figures.tx_dropped,
            asked_frames: figures.asked,
            shortfall_frames: figures.shortfall.total(),
            shortfall: (&figures.shortfall).into(),
            extended: BTreeMap::new(),
        }
    }
}

/// A stream's figures.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StreamRow {
    pub(crate) name: String,
    /// The port that sends it.
    pub(crate) port: String,
    pub(crate) asked_frames: u64,
    pub(crate) shortfall_frames: u64,
    pub(crate) tx_frames: u64,
    pub(crate) tx_bytes: u64,
    /// Whether its frames carry stamps.
    pub(crate) measured: bool,
    pub(crate) rx_frames: Option<u64>,
    pub(crate) rx_bytes: Option<u64>,
    pub(crate) lost: Option<u64>,
    pub(crate) duplicated: Option<u64>,
    pub(crate) reordered: Option<u64>,
    pub(crate) too_late: Option<u64>,
    pub(crate) surplus: Option<u64>,
    pub(crate) misdirected: Option<u64>,
    pub(crate) latency_ns: Option<LatencyRow>,
}

/// Latency in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct LatencyRow {
    pub(crate) count: u64,
    pub(crate) min: u64,
    pub(crate) mean: f64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
    pub(crate) jitter: u64,
}

impl From<Latency> for LatencyRow {
    fn from(latency: Latency) -> Self {
        Self {
            count: latency.count,
            min: latency.min,
            mean: latency.mean,
            p50: latency.p50,
            p90: latency.p90,
            p99: latency.p99,
            p999: latency.p999,
            max: latency.max,
            jitter: latency.jitter,
        }
    }
}

impl StreamRow {
    /// The row of `figures`, whose sending port is one of `ports`.
    pub(crate) fn new(figures: &StreamFigures, ports: &[PortFigures]) -> Self {
        let measured = |value: u64| figures.measured.then_some(value);
        Self {
            name: figures.name.clone(),
            port: ports
                .get(figures.port)
                .map_or(String::new(), |port| port.port.clone()),
            asked_frames: figures.asked,
            shortfall_frames: figures.shortfall.total(),
            tx_frames: figures.tx_frames,
            tx_bytes: figures.tx_bytes,
            measured: figures.measured,
            rx_frames: measured(figures.rx_frames),
            rx_bytes: measured(figures.rx_bytes),
            lost: figures.lost.filter(|_| figures.measured),
            duplicated: measured(figures.duplicated),
            reordered: measured(figures.reordered),
            too_late: measured(figures.too_late),
            surplus: measured(figures.surplus),
            misdirected: measured(figures.misdirected),
            latency_ns: figures.latency.map(LatencyRow::from),
        }
    }
}

/// A port that failed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Failure {
    pub(crate) port: String,
    pub(crate) error: String,
}

/// A criterion and what became of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Requirement {
    pub(crate) criterion: String,
    pub(crate) met: bool,
    /// What was found instead.
    pub(crate) found: Option<String>,
}

/// Something that happened.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EventRow {
    /// Seconds since sending began.
    pub(crate) at_s: f64,
    pub(crate) port: String,
    pub(crate) what: String,
}

impl EventRow {
    /// The row of `event`, at one of `ports`.
    pub(crate) fn new(event: &Event, ports: &[PortFigures]) -> Self {
        Self {
            at_s: event.at_ns as f64 / 1e9,
            port: ports
                .get(event.port)
                .map_or(String::new(), |port| port.port.clone()),
            what: event.what.clone(),
        }
    }
}

/// What was asked.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Config {
    /// `run`, `demo`, `fwd`
    pub(crate) command: &'static str,
    /// The profile's name or file; the mode of `fwd`.
    pub(crate) profile: String,
    /// Its knobs, set or not.
    pub(crate) knobs: BTreeMap<String, String>,
    /// The TOML itself, of a profile from a file.
    pub(crate) profile_source: Option<String>,
    /// The multiplier, as it was typed.
    pub(crate) multiplier: Option<String>,
    /// Port strings, in order.
    pub(crate) ports: Vec<String>,
    /// Only the first port sends.
    pub(crate) one_way: bool,
    /// What `--ip` says of each port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ips: Vec<String>,
    /// How long to send; none until stopped.
    pub(crate) duration_s: Option<f64>,
    /// Cores of workers; empty for one worker that the system moves about.
    pub(crate) cores: Vec<usize>,
    /// The core of the models.
    pub(crate) model_core: Option<usize>,
    /// Whether hugepages may be used.
    pub(crate) hugepages: bool,
    /// How late a frame may be, in seconds.
    pub(crate) catch_up_s: Option<f64>,
    /// How long to wait for the last frames, in seconds.
    pub(crate) drain_s: f64,
    /// What each stream was planned to do.
    pub(crate) streams: Vec<StreamPlan>,
}

/// A stream as it was planned.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StreamPlan {
    pub(crate) name: String,
    /// The port that sends it.
    pub(crate) port: String,
    /// Frames a second; none for as fast as the port takes them.
    pub(crate) pps: Option<f64>,
    /// The mean frame in bytes, with FCS.
    pub(crate) mean_size: f64,
    /// none, count, latency
    pub(crate) measure: &'static str,
}

/// The word for what kept a run back.
pub(crate) fn bottleneck(bottleneck: Bottleneck) -> &'static str {
    match bottleneck {
        Bottleneck::None => "none",
        Bottleneck::Generator => "generator",
        Bottleneck::Port => "port",
        Bottleneck::Away => "away",
    }
}
