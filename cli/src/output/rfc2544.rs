//! The document of `rgen rfc2544`, and its tables (RFC 2544 §26). As for a run's, keys are stable.
//!
//! ```json
//! { "schema": "rgen/rfc2544/1", "version", "complete", "exit_code", "seed", "strict": false,
//!   "ports": [ … as in rgen/bench/1 … ], "trial_s", "step", "one_way",
//!   "rows": [ { "size", "sending_ports", "mean_size", "link_bps", "line_pps", "max_pps", "max_is",
//!               "throughput": { … a goal of rgen/ndr/1 … },
//!               "latency": { "load_pps", "seconds", "repeats", "tagged": false, "lost_frames",
//!                            "min_ns", "mean_ns", "max_ns" },
//!               "loss": [ { "share", "load_pps", "asked_frames", "lost_frames", "unsent_frames",
//!                           "loss_ratio" } ],
//!               "burst": { "frames", "seconds", "repeats", "whole": true, "by_generator" },
//!               "trials": [ … as in rgen/ndr/1 … ] } ],
//!   "duration_s", "failures", "warnings", "events", "config", "machine" }
//! ```
//!
//! `loss_ratio` is the share of the frames asked for that did not arrive; `unsent_frames` of them
//! were never sent, which is no loss of the device's. A burst is `whole` if the longest that the
//! test tries passed.

use serde::Serialize;

use super::bench::PortAbout;
use super::grid::{Grid, or_dash};
use super::ndr::{GoalRow, Shape, TrialRow};
use super::result::{Config, EventRow, Failure};
use super::schema::Schema;
use crate::host::Fingerprint;
use crate::units::{bps, grouped, nanoseconds, pps, size_name};

/// What the tests came to.
#[derive(Debug, Serialize)]
pub(crate) struct RfcDocument {
    pub(crate) schema: Schema,
    pub(crate) version: &'static str,
    /// False if it was interrupted or a port failed.
    pub(crate) complete: bool,
    pub(crate) exit_code: u8,
    pub(crate) seed: u64,
    /// Durations and repetitions were the RFC's.
    pub(crate) strict: bool,
    pub(crate) ports: Vec<PortAbout>,
    pub(crate) trial_s: f64,
    /// From one load to the next where loss is measured, as a share of the highest.
    pub(crate) step: f64,
    pub(crate) one_way: bool,
    /// By size.
    pub(crate) rows: Vec<SizeRow>,
    pub(crate) duration_s: f64,
    pub(crate) failures: Vec<Failure>,
    pub(crate) warnings: Vec<String>,
    pub(crate) events: Vec<EventRow>,
    pub(crate) config: Option<Config>,
    pub(crate) machine: Fingerprint,
}

/// What the tests came to with frames of one size.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SizeRow {
    pub(crate) size: String,
    #[serde(flatten)]
    pub(crate) shape: Option<Shape>,
    /// Frames a second that the line carries, where there is a line.
    pub(crate) line_pps: Option<f64>,
    /// The highest load, and what it is: line, generator.
    pub(crate) max_pps: f64,
    pub(crate) max_is: &'static str,
    pub(crate) throughput: Option<GoalRow>,
    pub(crate) latency: Option<RfcLatency>,
    pub(crate) loss: Vec<LossAt>,
    pub(crate) burst: Option<BurstRow>,
    pub(crate) trials: Vec<TrialRow>,
}

/// Latency at the throughput.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct RfcLatency {
    pub(crate) load_pps: f64,
    /// Of one repetition.
    pub(crate) seconds: f64,
    pub(crate) repeats: u32,
    /// One frame in the middle of each repetition was timed, not many.
    pub(crate) tagged: bool,
    pub(crate) lost_frames: u64,
    pub(crate) min_ns: u64,
    pub(crate) mean_ns: f64,
    pub(crate) max_ns: u64,
}

/// What was lost at a load.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct LossAt {
    /// Of the highest load.
    pub(crate) share: f64,
    pub(crate) load_pps: f64,
    pub(crate) asked_frames: u64,
    pub(crate) lost_frames: u64,
    pub(crate) unsent_frames: u64,
    pub(crate) loss_ratio: f64,
}

/// How many frames in a row passed.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct BurstRow {
    /// The mean over repetitions, of each sending port.
    pub(crate) frames: f64,
    /// How long such a burst is.
    pub(crate) seconds: f64,
    pub(crate) repeats: u32,
    /// The longest that is tried passed each time.
    pub(crate) whole: bool,
    /// Longer ones failed because they were not sent in time.
    pub(crate) by_generator: bool,
}

fn throughput(document: &RfcDocument) -> Grid {
    let with = |row: &&SizeRow| row.throughput.is_some();
    let row = |row: &SizeRow| {
        let goal = row.throughput.as_ref();
        vec![
            row.size.clone(),
            goal.map_or("-", |goal| match (goal.limit, row.max_is) {
                ("range", "line") => "line",
                ("range", _) => "generator",
                ("port", _) => "ring",
                (limit, _) => limit,
            })
            .to_owned(),
            or_dash(goal.and_then(|goal| goal.lower_pps), pps),
            or_dash(goal.and_then(|goal| goal.upper_pps), pps),
            or_dash(row.line_pps, pps),
            or_dash(goal.and_then(|goal| goal.line_percent), |share| {
                format!("{share:.1} %")
            }),
            or_dash(goal.and_then(|goal| goal.bps_l1), bps),
            or_dash(goal.and_then(|goal| goal.bps_l2), bps),
        ]
    };
    Grid {
        header: vec![
            "SIZE",
            "LIMIT",
            "THROUGHPUT",
            "BELOW",
            "LINE",
            "OF LINE",
            "L1",
            "L2",
        ],
        rows: document.rows.iter().filter(with).map(row).collect(),
        numbers: 2,
    }
}

fn latency(document: &RfcDocument) -> Grid {
    let rows = document.rows.iter();
    let rows = rows.filter_map(|row| Some((row, row.latency?)));
    let row = |(row, at): (&SizeRow, RfcLatency)| {
        vec![
            row.size.clone(),
            pps(at.load_pps),
            nanoseconds(at.min_ns as f64),
            nanoseconds(at.mean_ns),
            nanoseconds(at.max_ns as f64),
            grouped(at.repeats.into()),
            grouped(at.lost_frames),
        ]
    };
    Grid {
        header: vec!["SIZE", "LOAD", "MIN", "MEAN", "MAX", "REPEATS", "LOST"],
        rows: rows.map(row).collect(),
        numbers: 1,
    }
}

fn loss(document: &RfcDocument) -> Grid {
    let mut rows = Vec::new();
    for row in &document.rows {
        for at in &row.loss {
            rows.push(vec![
                row.size.clone(),
                format!("{:.0} %", at.share * 100.0),
                pps(at.load_pps),
                grouped(at.asked_frames),
                grouped(at.lost_frames),
                grouped(at.unsent_frames),
                format!("{:.4} %", at.loss_ratio * 100.0),
            ]);
        }
    }
    Grid {
        header: vec![
            "SIZE", "OF MAX", "LOAD", "ASKED", "LOST", "NOT SENT", "LOSS",
        ],
        rows,
        numbers: 1,
    }
}

fn burst(document: &RfcDocument) -> Grid {
    let rows = document.rows.iter();
    let rows = rows.filter_map(|row| Some((row, row.burst?)));
    let row = |(row, at): (&SizeRow, BurstRow)| {
        let limit = match (at.whole, at.by_generator) {
            (true, _) => "longest tried",
            (false, true) => "generator",
            (false, false) => "loss",
        };
        vec![
            row.size.clone(),
            limit.to_owned(),
            format!("{:.0}", at.frames),
            nanoseconds(at.seconds * 1e9),
            grouped(at.repeats.into()),
        ]
    };
    Grid {
        header: vec!["SIZE", "LIMIT", "FRAMES", "LASTING", "REPEATS"],
        rows: rows.map(row).collect(),
        numbers: 2,
    }
}

/// The tables that have rows, each with its title.
fn tables(document: &RfcDocument) -> impl Iterator<Item = (&'static str, Grid)> {
    let tables = [
        ("throughput (RFC 2544 §26.1)", throughput(document)),
        ("latency at the throughput (§26.2)", latency(document)),
        ("frame loss rate (§26.3)", loss(document)),
        ("back-to-back frames (§26.4)", burst(document)),
    ];
    tables.into_iter().filter(|(_, grid)| !grid.rows.is_empty())
}

/// What it was measured with, in lines.
fn conditions(document: &RfcDocument) -> Vec<String> {
    let manner = if document.strict {
        format!("strict: trials of {} s", document.trial_s)
    } else {
        format!(
            "quick: trials of {} s, where the RFC has 60 s (--strict)",
            document.trial_s
        )
    };
    let mut lines = vec![format!(
        "{manner}; {:.1} s in all; seed {}; {}, Linux {}",
        document.duration_s, document.seed, document.machine.cpu, document.machine.kernel
    )];
    for row in &document.rows {
        let limit = row
            .throughput
            .as_ref()
            .and_then(|goal| goal.limited_by.as_ref());
        if let Some(limit) = limit {
            lines.push(format!(
                "{}: not the limit of what is tested: {limit}",
                size_name(&row.size)
            ));
        }
    }
    lines
}

/// The result for people.
pub(crate) fn page(document: &RfcDocument) -> String {
    let mut page = String::new();
    for (title, grid) in tables(document) {
        page.push_str(&format!("{title}\n{}\n", grid.plain()));
    }
    for line in conditions(document) {
        page.push_str(&format!("{line}\n"));
    }
    for warning in &document.warnings {
        page.push_str(&format!("warning: {warning}\n"));
    }
    page
}

/// The same as Markdown.
pub(crate) fn markdown(document: &RfcDocument) -> String {
    let names: Vec<&str> = document.ports.iter().map(|port| &port.port[..]).collect();
    let mut page = format!("### rgen rfc2544: {}\n\n", names.join(", "));
    for (title, grid) in tables(document) {
        page.push_str(&format!("{title}:\n\n{}\n", grid.markdown()));
    }
    for line in conditions(document).iter().chain(&document.warnings) {
        page.push_str(&format!("- {line}\n"));
    }
    page
}

impl SizeRow {
    pub(crate) fn new(size: &str) -> Self {
        Self {
            size: size.to_owned(),
            shape: None,
            line_pps: None,
            max_pps: 0.0,
            max_is: "generator",
            throughput: None,
            latency: None,
            loss: Vec::new(),
            burst: None,
            trials: Vec::new(),
        }
    }

    /// How bits of its frames are, once links are up.
    pub(crate) fn set_shape(&mut self, shape: Shape) {
        self.line_pps = shape.line_pps();
        self.shape = Some(shape);
    }
}
