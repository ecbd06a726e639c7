//! From streams' rates to timelines.

use super::RunError;
use super::chain;
use super::lane::Part;
use super::pace::{Bursts, FrameRate, Rounds, Timeline};
use super::setup::Sending;
use super::site::Site;
use super::standby::{Offer, Pace};
use crate::load::LoadError;
use crate::stream::{Mode, Stream};

/// A speed to take shares of where only proportions matter.
const ANY_SPEED_BPS: u64 = 10_000_000_000;
/// Parts that the unlimited lanes of a queue share.
const PARTS: u64 = 1 << 32;

/// How a stream is sent.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) port: usize,
    /// As fast as the port takes it: the rate is a proportion.
    pub(super) unlimited: bool,
    rate: FrameRate,
    mode: Mode,
    delay_ns: u64,
    /// Part of a chain.
    is_chained: bool,
    /// In a chain that comes round.
    rounds: Option<Rounds>,
    /// Frames in all.
    limit: u64,
}

impl Planned {
    /// When its frames are due, from its start on, if one queue sends all of them.
    fn pace(&self) -> Timeline {
        Timeline::new(self.rate).in_bursts(bursts(self.mode))
    }
}

/// How every stream of a run is sent, as `offer` says.
pub(super) fn planned(
    sites: &mut [Site],
    sending: &[Sending],
    offer: &Offer,
) -> Result<Vec<Planned>, RunError> {
    let mut all = Vec::new();
    for (port, (site, sending)) in sites.iter_mut().zip(sending).enumerate() {
        if sending.streams.is_empty() {
            continue;
        }
        let unlimited = match offer.pace {
            Pace::AsPlanned => sending.unlimited,
            Pace::Load(_) => false,
            Pace::Unlimited => true,
        };
        let speed = site.port.link()?.speed_bps;
        let speed = speed.or(unlimited.then_some(ANY_SPEED_BPS));
        let rates = rates(sending, offer.pace, speed, site)?;
        let first = all.len();
        for (stream, pps) in sending.streams.iter().zip(rates) {
            all.push(plan_stream(stream, port, unlimited, pps)?);
        }
        chained(&sending.streams, &mut all[first..])?;
    }
    if let Some(limit) = offer.frames_limit {
        share_limit(&mut all, limit);
    }
    Ok(all)
}

/// Frames a second of each stream of a port.
fn rates(
    sending: &Sending,
    pace: Pace,
    speed: Option<u64>,
    site: &Site,
) -> Result<Vec<f64>, RunError> {
    if let Pace::Load(load) = pace {
        let wrong = |source: LoadError| RunError::Load {
            port: site.name().to_owned(),
            source,
        };
        return load.rates(&sending.streams, speed).map_err(wrong);
    }
    let rate = |stream: &Stream| {
        stream.pps(speed).map_err(|unknown| RunError::Rate {
            stream: stream.name.clone(),
            what: unknown.to_string(),
        })
    };
    sending.streams.iter().map(rate).collect()
}

fn plan_stream(
    stream: &Stream,
    port: usize,
    unlimited: bool,
    pps: f64,
) -> Result<Planned, RunError> {
    let wrong = |what: String| RunError::Rate {
        stream: stream.name.clone(),
        what,
    };
    let rate = FrameRate::from_pps(pps);
    let rate = rate.ok_or_else(|| wrong(format!("{pps} frames a second are not possible")))?;
    if let Mode::MultiBurst { frames: 0, .. } = stream.mode {
        return Err(wrong("a burst has at least one frame".into()));
    }
    let limit = chain::round(stream.mode).unwrap_or(u64::MAX);
    let in_bursts = matches!(stream.mode, Mode::MultiBurst { .. });
    Ok(Planned {
        port,
        unlimited: unlimited && stream.scaled && !in_bursts && !stream.is_chained(),
        rate,
        mode: stream.mode,
        delay_ns: stream.start_delay_ns,
        is_chained: stream.is_chained(),
        rounds: None,
        limit,
    })
}

/// Works out when the streams of a port send that are parts of chains.
fn chained(streams: &[Stream], planned: &mut [Planned]) -> Result<(), RunError> {
    if !streams.iter().any(Stream::is_chained) {
        return Ok(());
    }
    let paces: Vec<Timeline> = planned.iter().map(Planned::pace).collect();
    let turns = chain::turns(streams, &paces).map_err(|(number, source)| RunError::Chain {
        stream: streams[number].name.clone(),
        source,
    })?;
    for (planned, turn) in planned.iter_mut().zip(turns) {
        if let Some(turn) = turn {
            (planned.delay_ns, planned.rounds) = (turn.start_ns, turn.rounds);
            planned.limit = turn.limit;
        }
    }
    Ok(())
}

/// Divides `limit` frames among streams in proportion to their rates, to the frame.
fn share_limit(all: &mut [Planned], limit: u64) {
    let total: f64 = all.iter().map(|planned| planned.rate.pps()).sum();
    let (mut sum, mut given) = (0.0, 0);
    let last = all.len().saturating_sub(1);
    for (number, planned) in all.iter_mut().enumerate() {
        sum += planned.rate.pps();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "positive; only which stream a rounded frame goes to depends on it"
        )]
        let until = if number == last {
            limit
        } else {
            ((sum / total * limit as f64) as u64).clamp(given, limit)
        };
        planned.limit = planned.limit.min(until - given);
        given = until;
    }
}

/// The timeline of each lane of a queue.
pub(super) fn timelines(lanes: &[Part], planned: &[Planned]) -> Vec<Timeline> {
    let free = lanes.iter().filter(|lane| planned[lane.stream].unlimited);
    let weight = |lane: &Part| planned[lane.stream].rate.pps() / lane.share.of as f64;
    let free_weight: f64 = free.clone().map(weight).sum();
    let alone = free.count() == 1;
    let of = lanes.len() as u64;
    (0..)
        .zip(lanes)
        .map(|(index, lane)| {
            let planned = &planned[lane.stream];
            let (part, parts) = (lane.share.index as u64, lane.share.of as u64);
            let limit = match planned.limit {
                u64::MAX => u64::MAX,
                limit => limit / parts + (limit % parts + part) / parts,
            };
            if planned.unlimited {
                let share = if alone {
                    1.0
                } else {
                    weight(lane) / free_weight
                };
                return Timeline::new(part_of_one(share))
                    .phased(index, of)
                    .limited(limit);
            }
            // The parts of one stream must add up to it; streams need not, but spread.
            let (phase, phases) = if parts > 1 {
                (part, parts)
            } else {
                (index, of)
            };
            if planned.is_chained {
                // Never split, and one after the other: nothing to spread.
                return planned
                    .pace()
                    .in_rounds(planned.rounds)
                    .delayed(planned.delay_ns)
                    .limited(limit);
            }
            Timeline::new(planned.rate.split(parts))
                .phased(phase, phases)
                .delayed(planned.delay_ns)
                .in_bursts(bursts(planned.mode))
                .limited(limit)
        })
        .collect()
}

/// `share` of a frame a nanosecond.
fn part_of_one(share: f64) -> FrameRate {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "0.0..=1.0 of 2^32"
    )]
    let parts = (share * PARTS as f64).round() as u64;
    let rate = FrameRate::new(parts.max(1), PARTS);
    rate.expect("neither is zero")
}

/// The bursts of a stream in several of them.
pub(super) fn bursts(mode: Mode) -> Option<Bursts> {
    match mode {
        Mode::MultiBurst { frames, gap_ns, .. } => Bursts::new(frames, gap_ns),
        Mode::Continuous | Mode::Burst { .. } => None,
    }
}

/// Mean nanoseconds between frames of the lanes that are due by the clock.
pub(super) fn mean_gap_ns(lanes: &[Part], planned: &[Planned]) -> u64 {
    let timed = lanes.iter().filter(|lane| !planned[lane.stream].unlimited);
    let pps: f64 = timed
        .map(|lane| planned[lane.stream].rate.pps() / lane.share.of as f64)
        .sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 0, and clamped by whoever uses it"
    )]
    let gap_ns = (1e9 / pps.max(1e-9)) as u64;
    gap_ns
}
