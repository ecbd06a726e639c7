//! The document of `rgen bench`, and its tables. As for a run's, keys are stable.
//!
//! ```json
//! { "schema": "rgen/bench/1", "version": "0.1.0", "complete": true, "exit_code": 0, "seed": 7,
//!   "ports": [ { "port", "driver", "device", "link_bps" } ], "one_way": true,
//!   "rows": [ { "size", "vm", "driver", "sending_ports", "mean_size", "link_bps", "line_pps",
//!               "ndr": { … a goal of rgen/ndr/1 … }, "no_ndr", "max_is", "rx_pps",
//!               "tx_ns", "rx_ns", "max_tx_pps", "unpaced_pps", "limit",
//!               "latency": [ { "of_ndr", "load_pps", "probe_pps", "seconds", "asked_frames",
//!                              "lost_frames", "unsent_frames", "latency_ns": { … },
//!                              "distribution": [ [ share, ns ] ] } ],
//!               "trial_count", "sending_s", "trials": [ … as in rgen/ndr/1 … ], "config" } ],
//!   "search": { … }, "latency_s", "duration_s", "failures", "warnings", "events", "machine" }
//! ```
//!
//! Rates in frames are of each sending port; `ndr.total_pps`, `ndr.bps_l1`, `ndr.bps_l2` and
//! `rx_pps` of all together. `max_tx_pps` is NDR / TX CPU, of one queue of one port. `limit` is
//! line, loss, ring, cpu, away, or unknown where a search did not come to its end.

use engine::run::Quantile;
use serde::{Serialize, Serializer};

use super::grid::{Grid, or_dash};
use super::ndr::{GoalRow, SearchConfig, Shape, TrialRow};
use super::result::{Config, EventRow, Failure, LatencyRow};
use super::schema::Schema;
use crate::error::Exit;
use crate::host::Fingerprint;
use crate::session::Session;
use crate::units::{bps, grouped, nanoseconds, pps};

/// What a benchmark came to.
#[derive(Debug, Serialize)]
pub(crate) struct BenchDocument {
    pub(crate) schema: Schema,
    pub(crate) version: &'static str,
    /// False if it was interrupted or a port failed.
    pub(crate) complete: bool,
    #[serde(skip)]
    pub(crate) exit: Exit,
    pub(crate) exit_code: u8,
    pub(crate) seed: u64,
    pub(crate) ports: Vec<PortAbout>,
    /// Only the first port sends.
    pub(crate) one_way: bool,
    /// One for each kind of frames.
    pub(crate) rows: Vec<BenchRow>,
    /// How NDR was searched.
    pub(crate) search: SearchConfig,
    /// Length of each measurement of latency, in seconds.
    pub(crate) latency_s: f64,
    pub(crate) duration_s: f64,
    pub(crate) failures: Vec<Failure>,
    pub(crate) warnings: Vec<String>,
    pub(crate) events: Vec<EventRow>,
    pub(crate) machine: Fingerprint,
}

/// A port, before anything was sent.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PortAbout {
    pub(crate) port: String,
    pub(crate) driver: &'static str,
    pub(crate) device: String,
    pub(crate) link_bps: Option<u64>,
}

impl PortAbout {
    /// Those of `session`, before anything is sent.
    pub(crate) fn all(session: &Session) -> Vec<Self> {
        let ports = session.ports.iter().zip(&session.link_bps);
        let about = ports.map(|(port, link_bps)| Self {
            port: port.info().name.clone(),
            driver: port.info().driver,
            device: port.info().device.clone(),
            link_bps: *link_bps,
        });
        about.collect()
    }
}

/// What was measured with one kind of frames.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BenchRow {
    /// As the profile's knobs have it.
    pub(crate) size: String,
    pub(crate) vm: String,
    /// The sending port's.
    pub(crate) driver: &'static str,
    #[serde(flatten)]
    pub(crate) shape: Option<Shape>,
    /// Frames a second of such frames that the line carries, where there is a line.
    pub(crate) line_pps: Option<f64>,
    /// None if nobody searched.
    pub(crate) ndr: Option<GoalRow>,
    /// Why nobody searched.
    pub(crate) no_ndr: Option<&'static str>,
    pub(crate) max_is: &'static str,
    /// Frames a second received at NDR, over all ports.
    pub(crate) rx_pps: Option<f64>,
    /// Nanoseconds of a core for each frame sent, and received, at NDR.
    pub(crate) tx_ns: Option<f64>,
    pub(crate) rx_ns: Option<f64>,
    /// NDR / TX CPU.
    pub(crate) max_tx_pps: Option<f64>,
    /// What the port took when it was offered all that there was.
    pub(crate) unpaced_pps: Option<f64>,
    pub(crate) limit: &'static str,
    pub(crate) latency: Vec<LatencyAt>,
    pub(crate) trial_count: u32,
    pub(crate) sending_s: f64,
    pub(crate) trials: Vec<TrialRow>,
    pub(crate) config: Option<Config>,
}

/// Latency at a load.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LatencyAt {
    /// The load as a share of NDR, the probes included.
    pub(crate) of_ndr: f64,
    pub(crate) load_pps: f64,
    /// Frames a second that measure.
    pub(crate) probe_pps: f64,
    pub(crate) seconds: f64,
    pub(crate) asked_frames: u64,
    pub(crate) lost_frames: u64,
    pub(crate) unsent_frames: u64,
    /// None if no probe arrived.
    pub(crate) latency_ns: Option<LatencyRow>,
    /// Shares of the probes, and what none of them exceeds.
    #[serde(serialize_with = "as_pairs")]
    pub(crate) distribution: Vec<Quantile>,
}

fn as_pairs<S: Serializer>(points: &[Quantile], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(points.iter().map(|point| (point.share, point.ns)))
}

impl BenchRow {
    /// A row in which nothing was measured yet.
    pub(crate) fn new(size: &str, vm: &str, driver: &'static str) -> Self {
        Self {
            size: size.to_owned(),
            vm: vm.to_owned(),
            driver,
            shape: None,
            line_pps: None,
            ndr: None,
            no_ndr: None,
            max_is: "generator",
            rx_pps: None,
            tx_ns: None,
            rx_ns: None,
            max_tx_pps: None,
            unpaced_pps: None,
            limit: "unknown",
            latency: Vec::new(),
            trial_count: 0,
            sending_s: 0.0,
            trials: Vec::new(),
            config: None,
        }
    }

    /// What the search found, and what follows from it.
    pub(crate) fn set_ndr(&mut self, goal: GoalRow) {
        let at = |load: f64| {
            let mut trials = self.trials.iter().rev();
            trials.find(|row| row.load_pps == load && !row.is_warm_up)
        };
        self.rx_pps = goal.lower_pps.and_then(at).map(|row| row.rx_pps);
        let ports = self.shape.map_or(1.0, |shape| shape.sending_ports.into());
        let a_frame = |cpu: Option<f64>, pps: Option<f64>| {
            let (cpu, pps) = cpu.zip(pps)?;
            (cpu > 0.0 && pps > 0.0).then(|| cpu / pps * 1e9)
        };
        self.tx_ns = a_frame(goal.tx_cpu, goal.lower_pps);
        self.rx_ns = a_frame(goal.rx_cpu, self.rx_pps.map(|pps| pps / ports));
        self.max_tx_pps = self.tx_ns.map(|ns| 1e9 / ns);
        self.limit = match (goal.limit, self.max_is) {
            ("range", "line") => "line",
            ("range" | "generator", _) => "cpu",
            ("port", _) => "ring",
            (limit, _) => limit,
        };
        self.ndr = Some(goal);
    }

    fn ndr_pps(&self) -> Option<f64> {
        self.ndr.as_ref().and_then(|goal| goal.lower_pps)
    }

    fn line_percent(&self) -> Option<f64> {
        self.ndr.as_ref().and_then(|goal| goal.line_percent)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The seeds' table: rates and cores, and latency at the highest load of which it is known.
pub(crate) fn rates(document: &BenchDocument) -> Grid {
    let row = |row: &BenchRow| {
        let goal = row.ndr.as_ref();
        let latency = row.latency.last().and_then(|at| at.latency_ns);
        vec![
            row.size.clone(),
            row.vm.clone(),
            row.driver.to_owned(),
            row.limit.to_owned(),
            or_dash(row.ndr_pps(), pps),
            or_dash(row.line_percent(), |share| format!("{share:.1} %")),
            or_dash(goal.and_then(|goal| goal.tx_cpu), percent),
            or_dash(goal.and_then(|goal| goal.rx_cpu), percent),
            or_dash(row.max_tx_pps, pps),
            or_dash(row.unpaced_pps, pps),
            or_dash(latency, |latency| nanoseconds(latency.mean)),
        ]
    };
    Grid {
        header: vec![
            "SIZE", "VM", "DRIVER", "LIMIT", "NDR", "LINE", "TX CPU", "RX CPU", "MAX TX",
            "UNPACED", "LATENCY",
        ],
        rows: document.rows.iter().map(row).collect(),
        numbers: 4,
    }
}

/// The table of bits, and of a core's time for a frame, at NDR.
fn bits(document: &BenchDocument) -> Grid {
    let found = document.rows.iter().filter(|row| row.ndr_pps().is_some());
    let row = |row: &BenchRow| {
        let goal = row.ndr.as_ref();
        let bits = |rate: Option<f64>| or_dash(rate, bps);
        let wire = row.shape.map(|shape| (shape.mean_size, shape.wire_size()));
        let received = |size: Option<f64>| size.zip(row.rx_pps).map(|(size, pps)| size * 8.0 * pps);
        vec![
            row.size.clone(),
            row.vm.clone(),
            or_dash(goal.and_then(|goal| goal.total_pps), pps),
            bits(goal.and_then(|goal| goal.bps_l1)),
            bits(goal.and_then(|goal| goal.bps_l2)),
            or_dash(row.rx_pps, pps),
            bits(received(wire.map(|(_, l1)| l1))),
            bits(received(wire.map(|(l2, _)| l2))),
            or_dash(row.tx_ns, |ns| format!("{ns:.1} ns")),
            or_dash(row.rx_ns, |ns| format!("{ns:.1} ns")),
        ]
    };
    Grid {
        header: vec![
            "SIZE", "VM", "SENT", "L1", "L2", "RECEIVED", "L1", "L2", "TX CORE", "RX CORE",
        ],
        rows: found.map(row).collect(),
        numbers: 2,
    }
}

/// The table of latencies.
fn latencies(document: &BenchDocument) -> Grid {
    let mut rows = Vec::new();
    for row in &document.rows {
        for at in &row.latency {
            let ns = |pick: fn(&LatencyRow) -> f64| {
                or_dash(at.latency_ns.as_ref(), |latency| nanoseconds(pick(latency)))
            };
            rows.push(vec![
                row.size.clone(),
                row.vm.clone(),
                percent(at.of_ndr),
                pps(at.load_pps),
                ns(|latency| latency.min as f64),
                ns(|latency| latency.mean),
                ns(|latency| latency.p50 as f64),
                ns(|latency| latency.p99 as f64),
                ns(|latency| latency.p999 as f64),
                ns(|latency| latency.max as f64),
                or_dash(at.latency_ns.as_ref(), |latency| grouped(latency.count)),
                grouped(at.lost_frames),
            ]);
        }
    }
    Grid {
        header: vec![
            "SIZE", "VM", "OF NDR", "LOAD", "MIN", "MEAN", "P50", "P99", "P99.9", "MAX", "PROBES",
            "LOST",
        ],
        rows,
        numbers: 2,
    }
}

/// `  latency at 90.0 %  4.590 Mpps  mean 3.1 µs  p99 5.8 µs  lost 0`
pub(crate) fn latency_remark(at: &LatencyAt) -> String {
    let latency = or_dash(at.latency_ns, |latency| {
        format!(
            "mean {}  p99 {}",
            nanoseconds(latency.mean),
            nanoseconds(latency.p99 as f64)
        )
    });
    format!(
        "  latency at {}  {}  {latency}  lost {}",
        percent(at.of_ndr),
        pps(at.load_pps),
        grouped(at.lost_frames)
    )
}

/// What the first table leaves out, with what it is called; tables that have rows only.
pub(crate) fn details(document: &BenchDocument) -> impl Iterator<Item = (&'static str, Grid)> {
    let tables = [
        ("at NDR, all ports together", bits(document)),
        ("latency", latencies(document)),
    ];
    tables.into_iter().filter(|(_, grid)| !grid.rows.is_empty())
}

/// Between which ports, in a sentence.
pub(crate) fn heading(document: &BenchDocument) -> String {
    let names: Vec<&str> = document.ports.iter().map(|port| &port.port[..]).collect();
    let shape = document.rows.first().and_then(|row| row.shape);
    let line = match shape.and_then(|shape| shape.link_bps) {
        Some(speed) => format!("a line of {}", bps(speed as f64)),
        None => "a link that does not say its speed".to_owned(),
    };
    let (arrow, way) = if document.one_way {
        (" → ", "one way")
    } else {
        (" ⇄ ", "both ways, rates of each port")
    };
    format!("{}, {line}, {way}", names.join(arrow))
}

/// What it was measured with, in lines.
pub(crate) fn conditions(document: &BenchDocument) -> Vec<String> {
    let search = &document.search;
    let spent: f64 = document.rows.iter().map(|row| row.sending_s).sum();
    let trials: u32 = document.rows.iter().map(|row| row.trial_count).sum();
    let mut lines = vec![
        format!(
            "NDR by MLRsearch: trials of {} s, a load is looked at for {} s and may be disturbed \
             for {:.0} % of it, width {} %, losses by {}; {trials} trials, {spent:.1} s of sending",
            rounded(search.trial_s),
            rounded(search.sum_s),
            search.exceed_ratio * 100.0,
            rounded(search.width * 100.0),
            search.loss_by,
        ),
        format!(
            "latency for {} s at each load; {:.1} s in all; seed {}; {}, Linux {}",
            rounded(document.latency_s),
            document.duration_s,
            document.seed,
            document.machine.cpu,
            document.machine.kernel,
        ),
    ];
    lines.extend(remarks(document));
    lines
}

/// What is to be said of single rows.
fn remarks(document: &BenchDocument) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &document.rows {
        let kind = format!("{} {}", row.size, row.vm);
        if let Some(why) = row.no_ndr {
            lines.push(format!("{kind}: no NDR: {why}"));
        }
        let Some(goal) = &row.ndr else {
            if row.no_ndr.is_none() {
                lines.push(format!("{kind}: no NDR: it was not searched to its end"));
            }
            continue;
        };
        match goal.end {
            "below_min" => lines.push(format!(
                "{kind}: no NDR: frames are lost, or not sent, even at the lowest load (--min)"
            )),
            "time_up" => lines.push(format!(
                "{kind}: time was up (--limit) before the bounds were close enough"
            )),
            "searching" => lines.push(format!("{kind}: the search did not come to its end")),
            _ => {}
        }
        if let Some(limit) = &goal.limited_by {
            lines.push(format!("{kind}: {limit}"));
        }
    }
    lines
}

/// 0.5, and not 0.5000000000000001.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// The result for people.
pub(crate) fn page(document: &BenchDocument) -> String {
    let mut page = format!("{}\n\n{}\n", heading(document), rates(document).plain());
    for (title, grid) in details(document) {
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
pub(crate) fn markdown(document: &BenchDocument) -> String {
    let mut page = format!(
        "### rgen bench: {}\n\n{}\n",
        heading(document),
        rates(document).markdown()
    );
    for (title, grid) in details(document) {
        page.push_str(&format!("{title}:\n\n{}\n", grid.markdown()));
    }
    for line in conditions(document) {
        page.push_str(&format!("- {line}\n"));
    }
    for warning in &document.warnings {
        page.push_str(&format!("- warning: {warning}\n"));
    }
    page
}

/// One line a kind of frames, numbers in full: rates in frames or bits a second, times in
/// nanoseconds, shares from 0 to 1. What was not measured is empty.
pub(crate) fn csv(document: &BenchDocument) -> Result<String, csv::Error> {
    let mut header: Vec<String> = [
        "size",
        "vm",
        "driver",
        "limit",
        "ndr_pps",
        "upper_pps",
        "line_pps",
        "line_share",
        "bps_l1",
        "bps_l2",
        "rx_pps",
        "tx_cpu",
        "rx_cpu",
        "tx_ns",
        "rx_ns",
        "max_tx_pps",
        "unpaced_pps",
    ]
    .map(str::to_owned)
    .into();
    // A row that was cut short has fewer loads: those of the longest are the columns.
    let most = document.rows.iter().max_by_key(|row| row.latency.len());
    let loads = most.map_or(&[][..], |row| &row.latency);
    for at in loads {
        for key in [
            "pps", "lost", "min_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns",
        ] {
            header.push(format!("at_{:.0}_{key}", at.of_ndr * 100.0));
        }
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&header)?;
    for row in &document.rows {
        let mut record = fields(row);
        for n in 0..loads.len() {
            record.extend(latency_fields(row.latency.get(n)));
        }
        writer.write_record(&record)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn fields(row: &BenchRow) -> Vec<String> {
    let of = |pick: fn(&GoalRow) -> Option<f64>| number(row.ndr.as_ref().and_then(pick));
    vec![
        row.size.clone(),
        row.vm.clone(),
        row.driver.to_owned(),
        row.limit.to_owned(),
        of(|goal| goal.lower_pps),
        of(|goal| goal.upper_pps),
        number(row.line_pps),
        of(|goal| goal.line_percent.map(|percent| percent / 100.0)),
        of(|goal| goal.bps_l1),
        of(|goal| goal.bps_l2),
        number(row.rx_pps),
        of(|goal| goal.tx_cpu),
        of(|goal| goal.rx_cpu),
        number(row.tx_ns),
        number(row.rx_ns),
        number(row.max_tx_pps),
        number(row.unpaced_pps),
    ]
}

fn latency_fields(at: Option<&LatencyAt>) -> Vec<String> {
    let latency = at.and_then(|at| at.latency_ns);
    let ns = |pick: fn(LatencyRow) -> u64| latency.map_or(String::new(), |l| pick(l).to_string());
    vec![
        number(at.map(|at| at.load_pps)),
        at.map_or(String::new(), |at| at.lost_frames.to_string()),
        ns(|latency| latency.min),
        number(latency.map(|latency| latency.mean)),
        ns(|latency| latency.p50),
        ns(|latency| latency.p99),
        ns(|latency| latency.max),
    ]
}
