//! The document of `rgen ndr`, and its page. As for a run's, keys are stable.
//!
//! ```json
//! { "schema": "rgen/ndr/1", "version": "0.1.0", "complete": true, "exit_code": 0, "seed": 7,
//!   "goals": [ { "name": "NDR", "loss_ratio": 0.0, "end": "found", "regular": true,
//!                "lower_pps", "throughput_pps", "upper_pps", "width", "limit", "limited_by",
//!                "total_pps", "bps_l2", "bps_l1", "line_percent",
//!                "tx_cpu", "rx_cpu", "latency_ns": { … } } ],
//!   "sending_ports": 2, "mean_size": 64.0, "link_bps": 10000000000,
//!   "min_pps", "max_pps", "max_is": "line", "trial_count", "sending_s", "duration_s",
//!   "trials": [ { "number", "load_pps", "seconds", "is_warm_up", "asked_frames", "lost_frames",
//!                 "unsent_frames", "surplus", "loss_ratio", "bottleneck", "tx_cpu", "rx_cpu",
//!                 "tx_pps", "rx_pps", "lower_pps", "upper_pps", "latency_ns" } ],
//!   "failures", "warnings", "events", "search": { "method", … }, "config", "machine" }
//! ```
//!
//! `lower_pps`, `throughput_pps` and `upper_pps` are of each sending port; `total_pps` and the
//! rates in bits are of all of them together, at the lower bound. `end` is found, at_max (the
//! highest load is good), below_min (the lowest is bad), time_up, or searching (interrupted).

use engine::run::{Bottleneck, Latency};
use engine::search::{End, Found, Trial};
use engine::stream::WIRE_OVERHEAD;
use serde::Serialize;

use super::result::{Config, EventRow, Failure, LatencyRow, bottleneck};
use super::schema::Schema;
use super::summary::latency_line;
use crate::host::Fingerprint;
use crate::trials::Tried;
use crate::units::{bps, grouped, pps, scaled};

/// What a search came to.
#[derive(Debug, Serialize)]
pub(crate) struct NdrDocument {
    pub(crate) schema: Schema,
    pub(crate) version: &'static str,
    /// False if it was interrupted or a port failed.
    pub(crate) complete: bool,
    pub(crate) exit_code: u8,
    pub(crate) seed: u64,
    /// What was found, by goal.
    pub(crate) goals: Vec<GoalRow>,
    #[serde(flatten)]
    pub(crate) shape: Shape,
    pub(crate) min_pps: f64,
    pub(crate) max_pps: f64,
    /// Where the highest load comes from: line, given, generator.
    pub(crate) max_is: &'static str,
    pub(crate) trial_count: u32,
    /// Seconds of trials, and of everything.
    pub(crate) sending_s: f64,
    pub(crate) duration_s: f64,
    pub(crate) trials: Vec<TrialRow>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) warnings: Vec<String>,
    pub(crate) events: Vec<EventRow>,
    /// How it was searched.
    pub(crate) search: Option<SearchConfig>,
    /// All else that was asked, for doing it again.
    pub(crate) config: Option<Config>,
    /// Where it ran.
    pub(crate) machine: Option<Fingerprint>,
}

/// How loads turn into bits.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Shape {
    /// Ports that send, each at the load.
    pub(crate) sending_ports: u32,
    /// The mean frame in bytes, with FCS.
    pub(crate) mean_size: f64,
    /// Bits a second of the slowest of their links, where all say it.
    pub(crate) link_bps: Option<u64>,
}

impl Shape {
    /// The mean frame in bytes, as long as it takes on the wire.
    pub(crate) fn wire_size(&self) -> f64 {
        self.mean_size + WIRE_OVERHEAD as f64
    }

    /// Frames a second that the line carries, where there is a line.
    pub(crate) fn line_pps(&self) -> Option<f64> {
        let bits = self.wire_size() * 8.0;
        self.link_bps.map(|bps| bps as f64 / bits)
    }
}

/// How it was searched.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SearchConfig {
    pub(crate) method: &'static str,
    pub(crate) initial_trial_s: f64,
    pub(crate) trial_s: f64,
    pub(crate) sum_s: f64,
    pub(crate) exceed_ratio: f64,
    pub(crate) width: f64,
    pub(crate) limit_s: f64,
    pub(crate) warm_up_s: f64,
    pub(crate) rest_s: f64,
    /// What tells losses: totals, stamps.
    pub(crate) loss_by: &'static str,
}

/// A trial.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TrialRow {
    pub(crate) number: usize,
    /// Frames a second of each sending port's streams that scale.
    pub(crate) load_pps: f64,
    pub(crate) seconds: f64,
    pub(crate) is_warm_up: bool,
    /// Frames over all ports.
    pub(crate) asked_frames: u64,
    pub(crate) lost_frames: u64,
    /// Not sent: the generator's own.
    pub(crate) unsent_frames: u64,
    /// Received beyond what was sent.
    pub(crate) surplus: u64,
    /// Share of the frames asked for that did not arrive, sent or not.
    pub(crate) loss_ratio: f64,
    pub(crate) bottleneck: &'static str,
    /// The busiest port's.
    pub(crate) tx_cpu: f64,
    pub(crate) rx_cpu: f64,
    /// Frames a second over all ports, sent and received.
    pub(crate) tx_pps: f64,
    pub(crate) rx_pps: f64,
    /// Bounds of the first goal, as they were known after this trial.
    pub(crate) lower_pps: Option<f64>,
    pub(crate) upper_pps: Option<f64>,
    /// The worst stream's, where one is measured.
    pub(crate) latency_ns: Option<LatencyRow>,
}

impl TrialRow {
    /// The row of trial `number`.
    pub(crate) fn new(number: usize, trial: Trial, tried: &Tried) -> Self {
        let (finding, outcome) = (tried.finding, &tried.outcome);
        let ports = &outcome.figures.ports;
        let missing = finding.lost + finding.unsent;
        let latencies = outcome.figures.streams.iter().filter_map(|row| row.latency);
        let worst = latencies.max_by_key(|latency: &Latency| latency.p99);
        Self {
            number,
            load_pps: trial.load,
            seconds: outcome.duration_s,
            is_warm_up: trial.is_warm_up,
            asked_frames: finding.asked,
            lost_frames: finding.lost,
            unsent_frames: finding.unsent,
            surplus: tried.surplus,
            loss_ratio: missing as f64 / finding.asked.max(1) as f64,
            bottleneck: bottleneck(outcome.bottleneck),
            tx_cpu: ports.iter().map(|port| port.tx_cpu).fold(0.0, f64::max),
            rx_cpu: ports.iter().map(|port| port.rx_cpu).fold(0.0, f64::max),
            tx_pps: ports.iter().map(|port| port.tx_pps).sum(),
            rx_pps: ports.iter().map(|port| port.rx_pps).sum(),
            lower_pps: None,
            upper_pps: None,
            latency_ns: worst.map(LatencyRow::from),
        }
    }

    /// What kept the generator from sending more, in words.
    fn limit(&self) -> String {
        if self.bottleneck == bottleneck(Bottleneck::Port) {
            "the port or its peer takes no more: its ring was full".to_owned()
        } else if self.bottleneck == bottleneck(Bottleneck::Away) {
            "a link or peer was away".to_owned()
        } else {
            format!(
                "the generator's cores: frames were not sent in time (tx cpu {:.0} %). More cores \
                 (--cores), or a longer --catch-up where others use them too",
                self.tx_cpu * 100.0
            )
        }
    }
}

/// What was found for a goal.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GoalRow {
    /// NDR, or PDR with its loss.
    pub(crate) name: String,
    pub(crate) loss_ratio: f64,
    pub(crate) end: &'static str,
    /// Whether the lower bound is the result, as far as anybody could look.
    pub(crate) regular: bool,
    pub(crate) lower_pps: Option<f64>,
    /// What passed at the lower bound, in a trial as bad as the goal allows.
    pub(crate) throughput_pps: Option<f64>,
    pub(crate) upper_pps: Option<f64>,
    /// Distance of the bounds, as a share of the upper one.
    pub(crate) width: Option<f64>,
    /// What is at the upper bound: loss, range (the highest load is good), or what held the
    /// generator back (generator, port, away); unknown where there is none.
    pub(crate) limit: &'static str,
    /// Why the upper bound is the generator's own; none if it is not.
    pub(crate) limited_by: Option<String>,
    pub(crate) total_pps: Option<f64>,
    pub(crate) bps_l2: Option<f64>,
    pub(crate) bps_l1: Option<f64>,
    pub(crate) line_percent: Option<f64>,
    /// At the lower bound, in the last trial there.
    pub(crate) tx_cpu: Option<f64>,
    pub(crate) rx_cpu: Option<f64>,
    pub(crate) latency_ns: Option<LatencyRow>,
}

impl GoalRow {
    /// The row of `found`: `lower` is a trial at its lower bound, `culprit` one that shows what
    /// held the generator back, where that is what set the upper bound.
    pub(crate) fn new(
        found: &Found,
        shape: &Shape,
        lower: Option<&TrialRow>,
        culprit: Option<&TrialRow>,
    ) -> Self {
        let pps = found.lower.map(|lower| lower.load);
        let total = pps.map(|pps| pps * f64::from(shape.sending_ports));
        let wire = shape.wire_size();
        let both = pps.zip(found.upper.map(|upper| upper.load));
        Self {
            name: name(found),
            loss_ratio: found.goal.loss_ratio,
            end: match found.end {
                End::Found => "found",
                End::AtMax => "at_max",
                End::BelowMin => "below_min",
                End::TimeUp => "time_up",
                End::Searching => "searching",
            },
            regular: found.is_regular(),
            lower_pps: pps,
            throughput_pps: found.lower.map(|lower| lower.throughput),
            upper_pps: found.upper.map(|upper| upper.load),
            width: both.map(|(lower, upper)| 1.0 - lower / upper),
            limit: match (culprit.map(|row| row.bottleneck), found.end, found.upper) {
                (Some("none"), ..) => "generator",
                (Some(bottleneck), ..) => bottleneck,
                (None, End::AtMax, _) => "range",
                (None, _, Some(_)) => "loss",
                (None, _, None) => "unknown",
            },
            limited_by: culprit.map(TrialRow::limit),
            total_pps: total,
            bps_l2: total.map(|total| total * shape.mean_size * 8.0),
            bps_l1: total.map(|total| total * wire * 8.0),
            line_percent: pps
                .zip(shape.link_bps)
                .map(|(pps, bps)| pps * wire * 8.0 / bps as f64 * 100.0),
            tx_cpu: lower.map(|row| row.tx_cpu),
            rx_cpu: lower.map(|row| row.rx_cpu),
            latency_ns: lower.and_then(|row| row.latency_ns),
        }
    }
}

/// `NDR`, or `PDR 0.5 %`.
fn name(found: &Found) -> String {
    let percent = found.goal.loss_ratio * 100.0;
    if percent > 0.0 {
        // 0.5, and not 0.5000000000000001.
        format!("PDR {} %", (percent * 1e6).round() / 1e6)
    } else {
        "NDR".to_owned()
    }
}

/// `  12  4.961 Mpps  1.0 s  lost 0   NDR 4.950 M to 5.000 M   PDR 0.5 % …`
pub(crate) fn trial_line(row: Option<&TrialRow>, results: &[Found]) -> String {
    let Some(row) = row else { return String::new() };
    let mut line = format!(
        "  {:>3}  {}pps  {:.3} s  lost {}",
        row.number,
        scaled(row.load_pps),
        row.seconds,
        grouped(row.lost_frames)
    );
    if row.lost_frames > 0 {
        let share = row.lost_frames as f64 / row.asked_frames.max(1) as f64;
        line.push_str(&format!(" ({:.4} %)", share * 100.0));
    }
    if row.unsent_frames > 0 {
        line.push_str(&format!("  not sent {}", grouped(row.unsent_frames)));
    }
    if row.is_warm_up {
        line.push_str("  warm-up");
        return line;
    }
    for found in results {
        let bound = |load: Option<f64>| load.map_or("?".to_owned(), scaled);
        line.push_str(&format!(
            "   {} {} to {}",
            name(found),
            bound(found.lower.map(|lower| lower.load)).trim_end(),
            bound(found.upper.map(|upper| upper.load)).trim_end()
        ));
    }
    line
}

/// The result for people.
pub(crate) fn page(document: &NdrDocument) -> String {
    let mut page = String::new();
    for goal in &document.goals {
        page.push_str(&goal_lines(goal, document));
    }
    page.push_str(&format!(
        "{} trials, {:.1} s of sending, {:.1} s in all; {} B frames in the mean; seed {}\n",
        document.trial_count,
        document.sending_s,
        document.duration_s,
        document.shape.mean_size.round(),
        document.seed
    ));
    for warning in &document.warnings {
        page.push_str(&format!("warning: {warning}\n"));
    }
    page
}

fn goal_lines(goal: &GoalRow, document: &NdrDocument) -> String {
    let Some(lower) = goal.lower_pps else {
        return match (goal.end, &goal.limited_by) {
            ("below_min", None) => format!(
                "{}: none: frames are lost even at the lowest load, {} a port (--min)\n",
                goal.name,
                pps(document.min_pps)
            ),
            ("below_min", Some(limit)) => format!(
                "{}: none: even the lowest load, {} a port, was not sent: {limit}\n",
                goal.name,
                pps(document.min_pps)
            ),
            _ => format!("{}: not found{}\n", goal.name, time_up(goal)),
        };
    };
    let mut lines = format!("{}: {} a port", goal.name, pps(lower));
    match (goal.end, goal.upper_pps.zip(goal.width)) {
        ("at_max", _) => lines.push_str(match document.max_is {
            "line" => ", the line rate",
            "given" => ", the highest load that was asked for (--max)",
            _ => ", all that the generator sends",
        }),
        (_, Some((upper, width))) => {
            lines.push_str(&format!(
                " (below {}, width {:.2} %)",
                pps(upper),
                width * 100.0
            ));
        }
        _ => {}
    }
    lines.push_str(time_up(goal));
    if let Some(passed) = goal.throughput_pps.filter(|_| goal.loss_ratio > 0.0) {
        lines.push_str(&format!("; {} of them pass", pps(passed)));
    }
    lines.push_str(&in_all(goal, document.shape.sending_ports));
    if let Some(limit) = &goal.limited_by {
        lines.push_str(&format!("  not the limit of what is tested: {limit}\n"));
    }
    lines
}

/// Rates of all ports together, cores, latency.
fn in_all(goal: &GoalRow, sending_ports: u32) -> String {
    let mut lines = "\n".to_owned();
    if let (Some(total), Some(l1), Some(l2)) = (goal.total_pps, goal.bps_l1, goal.bps_l2) {
        let ports = match sending_ports {
            1 => "one port sends",
            _ => "all ports together",
        };
        lines.push_str(&format!(
            "  {ports}: {}   L2 {}   L1 {}",
            pps(total),
            bps(l2),
            bps(l1)
        ));
        if let Some(percent) = goal.line_percent {
            lines.push_str(&format!("   {percent:.1} % of the line"));
        }
        lines.push('\n');
    }
    if let (Some(tx), Some(rx)) = (goal.tx_cpu, goal.rx_cpu) {
        lines.push_str(&format!(
            "  tx cpu {:.0} %   rx cpu {:.0} %\n",
            tx * 100.0,
            rx * 100.0
        ));
    }
    if let Some(latency) = &goal.latency_ns {
        lines.push_str(&format!("  latency  {}\n", latency_line(latency)));
    }
    lines
}

fn time_up(goal: &GoalRow) -> &'static str {
    match goal.end {
        "time_up" => "; time was up (--limit) before the bounds were close enough",
        "searching" => "; interrupted before the bounds were close enough",
        _ => "",
    }
}
