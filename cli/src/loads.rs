//! Loads in frames a second: where a search looks, and what loads are in bits.

use engine::frame::Macs;
use engine::load::Load;
use engine::run::RunPlan;
use engine::stream::{Rate, Stream, WIRE_OVERHEAD};

use crate::error::Error;
use crate::output::ndr::Shape;
use crate::session::{Session, quantity};
use crate::traffic::{Traffic, no_load};
use crate::units;

/// The loads to search in, in frames a second of each sending port.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    pub(crate) min: f64,
    /// None for what the generator can do.
    pub(crate) max: Option<f64>,
}

impl Range {
    /// From `min` to `max`, none for what the generator can do.
    pub(crate) fn new(
        min: Load,
        max: Option<Load>,
        plan: &RunPlan,
        session: &Session,
    ) -> Result<Self, Error> {
        let of = |option, load| lowest(option, load, senders(plan), &session.link_bps);
        Ok(Self {
            min: of("--min", min)?,
            max: max.map(|load| of("--max", load)).transpose()?,
        })
    }

    /// Refuses a range that is none, as far as that can be known before a port is open: shares of
    /// a line are compared with each other only.
    pub(crate) fn check(min: Load, max: Load, traffic: &Traffic) -> Result<(), Error> {
        if let (Load::Rate(Rate::LinePercent(low)), Load::Rate(Rate::LinePercent(high))) =
            (min, max)
        {
            return in_order(low, high, "% of the line");
        }
        // No rate depends on an address.
        let nobody = Macs {
            src: [0x02, 0, 0, 0, 0, 0],
            dst: [0x02, 0, 0, 0, 0, 1],
        };
        for n in (0..traffic.ports.len()).filter(|&n| traffic.sends(n)) {
            let streams = traffic.profile.streams(n, nobody)?;
            let of = |load: Load| {
                let port = std::iter::once((0, &streams[..]));
                lowest("--max", load, port, &[None]).ok()
            };
            if let (Some(low), Some(high)) = (of(min), of(max)) {
                in_order(low, high, "frames a second")?;
            }
        }
        Ok(())
    }
}

fn in_order(low: f64, high: f64, unit: &str) -> Result<(), Error> {
    if low <= high {
        return Ok(());
    }
    Err(Error::Usage {
        found: format!("loads from {low} to {high} {unit} are no range"),
        cure: "give a --min below --max".to_owned(),
    })
}

/// What `--min` says.
pub(crate) fn min(text: &str) -> Result<Load, Error> {
    let min = quantity("--min", units::multiplier(text))?.load();
    min.ok_or_else(|| Error::Usage {
        found: "--min max: that is the other end".to_owned(),
        cure: "--min 10kpps".to_owned(),
    })
}

/// Whether every port that sends knows the speed of its line.
pub(crate) fn knows_speed(plan: &RunPlan, session: &Session) -> bool {
    senders(plan).all(|(n, _)| session.link_bps[n].is_some())
}

/// Sending ports by number, with their streams.
fn senders(plan: &RunPlan) -> impl Iterator<Item = (usize, &[Stream])> {
    let ports = plan.ports.iter().enumerate();
    let ports = ports.map(|(n, port)| (n, &port.streams[..]));
    ports.filter(|(_, streams)| !streams.is_empty())
}

/// A load in frames a second of the streams that scale: the lowest of all sending ports.
fn lowest<'a>(
    option: &str,
    load: Load,
    senders: impl Iterator<Item = (usize, &'a [Stream])>,
    link_bps: &[Option<u64>],
) -> Result<f64, Error> {
    let mut lowest = f64::INFINITY;
    for (n, streams) in senders {
        let link_bps = link_bps[n];
        let load = match load {
            // What streams of a fixed rate take of the line is not there for the others.
            Load::Rate(Rate::LinePercent(share)) => {
                let fixed = fixed_percent(streams, link_bps);
                Load::Rate(Rate::LinePercent((share - fixed).max(0.001)))
            }
            load => load,
        };
        let rates = load.rates(streams, link_bps);
        let rates = rates.map_err(|error| no_load(option, &error))?;
        let scaled = streams
            .iter()
            .zip(rates)
            .filter(|(stream, _)| stream.scaled);
        lowest = lowest.min(scaled.map(|(_, pps)| pps).sum());
    }
    Ok(lowest)
}

/// Per cent of the line that streams of a fixed rate take.
fn fixed_percent(streams: &[Stream], link_bps: Option<u64>) -> f64 {
    let Some(line) = link_bps else { return 0.0 };
    let fixed = streams.iter().filter(|stream| !stream.scaled);
    let bits = fixed.map(|stream| {
        let wire = stream.frames.mean_size() + WIRE_OVERHEAD as f64;
        stream.pps(link_bps).unwrap_or(0.0) * wire * 8.0
    });
    bits.sum::<f64>() / line as f64 * 100.0
}

/// How loads turn into bits.
pub(crate) fn shape(plan: &RunPlan, session: &Session) -> Shape {
    let (mut pps, mut bytes) = (0.0, 0.0);
    let (mut links, mut count) = (Vec::new(), 0);
    for (n, streams) in senders(plan) {
        links.push(session.link_bps[n]);
        count += 1;
        for stream in streams.iter().filter(|stream| stream.scaled) {
            let rate = stream.pps(session.link_bps[n]).unwrap_or(1.0);
            pps += rate;
            bytes += rate * stream.frames.mean_size();
        }
    }
    Shape {
        sending_ports: count,
        mean_size: if pps > 0.0 { bytes / pps } else { 64.0 },
        // The slowest, where all say theirs.
        link_bps: links
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .and_then(|links| links.into_iter().min()),
    }
}
