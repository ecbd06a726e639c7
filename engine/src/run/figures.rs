//! From counters to figures.

use std::mem;

use hdrhistogram::Histogram;
use port::TxCounts;

use super::answer::AnswerKit;
use super::control::Run;
use super::counters::LaneReceived;
use super::kit::{ReceiveKit, SendKit};
use super::outcome::{
    Bottleneck, Figures, Latency, Outcome, PortFigures, Quantile, Shortfall, Snapshot,
    StreamFigures,
};
use super::setup::Kits;
use super::site::Site;
use super::stage::{Stage, StreamState};
use super::worker::{Placed, Task};

const SECOND: f64 = 1e9;
/// Points of a distribution each time that the share above is halved.
const TICKS: u32 = 5;

/// What the counters say now.
pub(super) fn gather(run: &Run) -> Figures {
    let mut figures = Figures {
        ports: run.stage.sites.iter().map(port_figures).collect(),
        streams: run
            .streams
            .iter()
            .map(|stream| stream_figures(run, stream))
            .collect(),
        ..Figures::default()
    };
    for stream in &figures.streams {
        let port = &mut figures.ports[stream.port];
        port.asked += stream.asked;
        port.tx_frames += stream.tx_frames;
        port.tx_bytes += stream.tx_bytes;
        port.shortfall.add(&stream.shortfall);
        figures.asked_frames += stream.asked;
        figures.shortfall_frames += stream.shortfall.total();
    }
    figures
}

fn port_figures(site: &Site) -> PortFigures {
    let info = site.port.info();
    let mut figures = PortFigures {
        port: info.name.clone(),
        driver: info.driver,
        ..PortFigures::default()
    };
    for queue in &site.sent {
        // Forwarded ones; what streams send is counted by stream.
        figures.tx_frames += queue.frames.get().saturating_sub(queue.abandoned.get());
        figures.tx_bytes += queue.bytes.get();
        figures.tx_dropped += queue.dropped.get();
    }
    figures.answered = site.answered.get();
    for queue in &site.received {
        figures.rx_frames += queue.frames.get();
        figures.rx_bytes += queue.bytes.get();
        figures.rx_errors += queue.errors.get();
        figures.rx_unmatched += queue.unmatched.get();
    }
    figures
}

fn stream_figures(run: &Run, stream: &StreamState) -> StreamFigures {
    let mut figures = StreamFigures {
        name: stream.name.clone(),
        port: stream.port,
        measured: stream.measured,
        ..StreamFigures::default()
    };
    for lane in &stream.sent {
        let shortfall = lane.shortfall();
        figures.tx_frames += lane.sent();
        figures.tx_bytes += lane.bytes.get();
        figures.shortfall.add(&shortfall);
        // Until it is settled: what is known to have been asked.
        let known = lane.posted.get() + shortfall.total() - shortfall.abandoned;
        figures.asked += known.max(lane.asked.get());
    }
    for lane in &stream.received {
        figures.rx_frames += lane.frames.get();
        figures.rx_bytes += lane.bytes.get();
        figures.duplicated += lane.duplicated.get();
        figures.reordered += lane.reordered.get();
        figures.too_late += lane.too_late.get();
    }
    for queue in &run.misdirected {
        let at = |&stamp: &u32| queue[stamp as usize].get();
        figures.misdirected += stream.stamps.iter().map(at).sum::<u64>();
    }
    figures.latency = latency(&stream.received);
    figures
}

/// Latency as far as counters tell it, over all lanes and queues.
fn latency(lanes: &[std::sync::Arc<LaneReceived>]) -> Option<Latency> {
    let (mut all, mut sum, mut jitters) = (Latency::default(), 0, 0);
    all.min = u64::MAX;
    for lane in lanes {
        let count = lane.timed.get();
        if count == 0 {
            continue;
        }
        all.count += count;
        sum += lane.latency_sum_ns.get();
        all.min = all.min.min(!lane.latency_min_inverted.get());
        all.max = all.max.max(lane.latency_max_ns.get());
        // The mean over lanes, each weighing as many frames as it had.
        jitters += u128::from(lane.jitter_16ths.get()) * u128::from(count);
    }
    if all.count == 0 {
        return None;
    }
    all.mean = ratio(sum, all.count);
    all.jitter = u64::try_from(jitters / (16 * u128::from(all.count))).unwrap_or(u64::MAX);
    Some(all)
}

/// Fills in what depends on time: rates since `last`, or since the beginning; busy shares since the
/// beginning.
pub(super) fn set_rates(figures: &mut Figures, elapsed_ns: u64, last: Option<&Snapshot>) {
    let span_ns = elapsed_ns - last.map_or(0, |last| last.elapsed_ns.min(elapsed_ns));
    let seconds = span_ns.max(1) as f64 / SECOND;
    for (number, port) in figures.ports.iter_mut().enumerate() {
        let before = last.and_then(|last| last.figures.ports.get(number));
        let (tx, rx) = before.map_or((0, 0), |port| (port.tx_frames, port.rx_frames));
        port.tx_pps = port.tx_frames.saturating_sub(tx) as f64 / seconds;
        port.rx_pps = port.rx_frames.saturating_sub(rx) as f64 / seconds;
    }
}

/// Busy and blocked shares of `elapsed_ns`.
pub(super) fn set_shares(figures: &mut Figures, sites: &[Site], elapsed_ns: u64) {
    let share = |ns: u64| ratio(ns, elapsed_ns.max(1));
    for (port, site) in figures.ports.iter_mut().zip(sites) {
        port.tx_cpu = share(site.sent.iter().map(|queue| queue.busy_ns.get()).sum());
        port.rx_cpu = share(site.received.iter().map(|queue| queue.busy_ns.get()).sum());
        port.tx_blocked = share(site.sent.iter().map(|queue| queue.blocked_ns.get()).sum());
    }
}

/// What workers bring back.
#[derive(Default)]
struct Returned {
    kits: Kits,
    counts: Vec<Vec<TxCounts>>,
    histograms: Vec<Option<Histogram<u32>>>,
    panicked: usize,
}

/// Ends a run whose workers are done. Its ports are stopped if `stop` says so.
pub(super) fn finish(mut run: Run, stop: bool) -> (Outcome, Stage) {
    let mut returned = collect(&mut run);
    let mut figures = gather(&run);
    let sent_ns = run.gate.ended_ns().saturating_sub(run.start_ns);
    read_devices(&mut run, &mut figures);
    run.stage.kits = mem::take(&mut returned.kits);
    if stop {
        // Only now: nothing moves any more, and the devices have counted it.
        run.stage.stop();
    }
    set_rates(&mut figures, sent_ns, None);
    set_shares(&mut figures, &run.stage.sites, sent_ns);
    settle_streams(&mut figures, &returned.histograms);
    settle_ports(&mut figures, &run);
    let mut broken = count_queues(&figures, &returned.counts, &run);
    if returned.panicked > 0 {
        broken.push(format!("{} workers panicked", returned.panicked));
    }
    let bottleneck = bottleneck(&figures, &returned.counts, &run);
    let mut failures = Vec::new();
    for (number, site) in run.stage.sites.iter_mut().enumerate() {
        failures.extend(site.failure.take().map(|failure| (number, failure)));
    }
    let outcome = Outcome {
        figures,
        duration_s: sent_ns as f64 / SECOND,
        seed: run.stage.plan.seed,
        bottleneck,
        events: run.events,
        failures,
        leaked: 0,
        broken,
    };
    (outcome, run.stage)
}

fn collect(run: &mut Run) -> Returned {
    let mut returned = Returned::default();
    returned.histograms.resize_with(run.streams.len(), || None);
    let ports = run.stage.sites.len();
    let mut rx: Vec<Vec<(usize, ReceiveKit)>> = Vec::new();
    let mut tx: Vec<Vec<(usize, SendKit)>> = Vec::new();
    rx.resize_with(ports, Vec::new);
    tx.resize_with(ports, Vec::new);
    returned.counts.resize_with(ports, Vec::new);
    let mut answerers: Vec<Option<AnswerKit>> = Vec::new();
    answerers.resize_with(ports, || None);
    for worker in run.workers.drain(..) {
        let Ok(tasks) = worker.join() else {
            returned.panicked += 1;
            continue;
        };
        for Placed { port, queue, task } in tasks {
            match task {
                Task::Send(task) => {
                    let (kit, counts) = task.into_kit();
                    tx[port].push((queue, kit));
                    returned.counts[port].push(counts);
                }
                Task::Receive(task) => {
                    let (kit, histograms) = task.into_kit();
                    rx[port].push((queue, kit));
                    for (stream, histogram) in histograms {
                        merge(&mut returned.histograms[stream], histogram);
                    }
                }
                Task::Forward(task) => {
                    let (back, sender) = task.into_queues();
                    rx[port].push((queue, ReceiveKit::new(back)));
                    if let Some((port, queue, back, counts)) = sender {
                        tx[port].push((queue, SendKit::bare(back)));
                        returned.counts[port].push(counts);
                    }
                }
                Task::Answer(task) => answerers[port] = Some(task.into_kit()),
                Task::Idle(back) => tx[port].push((queue, SendKit::bare(back))),
            }
        }
    }
    returned.kits = Kits {
        senders: tx.into_iter().map(in_order).collect(),
        receivers: rx.into_iter().map(in_order).collect(),
        answerers,
    };
    returned
}

/// What belongs to queues, by their numbers.
fn in_order<T>(mut of_queues: Vec<(usize, T)>) -> Vec<T> {
    of_queues.sort_by_key(|(queue, _)| *queue);
    of_queues.into_iter().map(|(_, kit)| kit).collect()
}

fn merge(all: &mut Option<Histogram<u32>>, one: Histogram<u32>) {
    match all {
        Some(all) => {
            let same = all.add(one);
            debug_assert!(same.is_ok(), "all histograms of a run have the same bounds");
        }
        None => *all = Some(one),
    }
}

/// Reads what the devices counted.
fn read_devices(run: &mut Run, figures: &mut Figures) {
    for (site, port) in run.stage.sites.iter_mut().zip(&mut figures.ports) {
        match site.counted() {
            Ok(counted) => {
                port.device = counted;
                port.rx_missed = counted.rx_missed;
                port.rx_errors += counted.rx_errors;
                port.tx_errors = counted.tx_errors;
                if site.config.rx_queues == 0 {
                    port.rx_frames = counted.rx_frames;
                    port.rx_bytes = counted.rx_bytes;
                }
            }
            Err(error) => {
                site.failure.get_or_insert(error);
            }
        }
    }
}

/// Loss and percentiles, which only the end knows.
fn settle_streams(figures: &mut Figures, histograms: &[Option<Histogram<u32>>]) {
    for (stream, histogram) in figures.streams.iter_mut().zip(histograms) {
        if stream.measured {
            let arrived = stream.rx_frames - stream.duplicated - stream.too_late;
            stream.lost = Some(stream.tx_frames.saturating_sub(arrived));
            stream.surplus = arrived.saturating_sub(stream.tx_frames);
        }
        if let (Some(latency), Some(histogram)) = (&mut stream.latency, histogram) {
            // A bucket's upper end may lie beyond the largest value in it.
            let at = |share| {
                let value = histogram.value_at_quantile(share);
                value.clamp(latency.min, latency.max)
            };
            let (p50, p90, p99, p999) = (at(0.5), at(0.9), at(0.99), at(0.999));
            (latency.p50, latency.p90) = (p50, p90);
            (latency.p99, latency.p999) = (p99, p999);
            let (min, max) = (latency.min, latency.max);
            let points = histogram.iter_quantiles(TICKS).map(|point| Quantile {
                share: point.quantile_iterated_to(),
                ns: point.value_iterated_to().clamp(min, max),
            });
            stream.distribution = points.collect();
        }
    }
}

/// Loss between ports by their totals, for frames that nobody stamped.
fn settle_ports(figures: &mut Figures, run: &Run) {
    for number in 0..figures.ports.len() {
        let Some(peer) = run.stage.sending[number]
            .peer
            .filter(|&peer| peer < figures.ports.len())
        else {
            continue;
        };
        let only = run
            .stage
            .sending
            .iter()
            .filter(|other| other.peer == Some(peer))
            .count()
            == 1;
        if !only || figures.ports[number].asked == 0 {
            continue;
        }
        let arrived = figures.ports[peer].rx_frames;
        let port = &mut figures.ports[number];
        port.lost = Some(port.tx_frames.saturating_sub(arrived));
        port.extra = arrived.saturating_sub(port.tx_frames);
        let (lost, extra, bytes) = (port.lost, port.extra, figures.ports[peer].rx_bytes);
        let mut streams = figures
            .streams
            .iter_mut()
            .filter(|stream| stream.port == number);
        // The port's only stream: what is true of the one is true of the other.
        if let (Some(stream), None) = (streams.next(), streams.next())
            && !stream.measured
        {
            (stream.lost, stream.surplus) = (lost, extra);
            (stream.rx_frames, stream.rx_bytes) = (arrived, bytes);
        }
    }
}

/// What queues counted must be what workers counted.
fn count_queues(figures: &Figures, counts: &[Vec<TxCounts>], run: &Run) -> Vec<String> {
    let mut broken = Vec::new();
    for ((port, counts), site) in figures.ports.iter().zip(counts).zip(&run.stage.sites) {
        let given_up: u64 = site.sent.iter().map(|queue| queue.abandoned.get()).sum();
        let posted: u64 = counts.iter().map(|counts| counts.posted).sum();
        let sent = posted.saturating_sub(given_up);
        if sent != port.tx_frames {
            broken.push(format!(
                "{}: its queues say {sent} frames sent, workers {}",
                port.port, port.tx_frames
            ));
        }
    }
    broken
}

/// Ends the run's pools; how many of their frames did not come home.
pub(super) fn close_pools(sites: &mut [Site]) -> u64 {
    let pools = sites.iter_mut().flat_map(|site| site.pools.drain(..));
    pools
        .map(|pool| {
            pool.close()
                .map_or_else(|leaked| leaked.frames as u64, |()| 0)
        })
        .sum()
}

fn bottleneck(figures: &Figures, counts: &[Vec<TxCounts>], run: &Run) -> Bottleneck {
    let mut all = Shortfall::default();
    for port in &figures.ports {
        all.add(&port.shortfall);
    }
    // Frames that a device took along when it was reset, or has when it fails; others it had at
    // the end because it is slow.
    let failed = run.stage.sites.iter().any(|site| site.failure.is_some());
    let reset: u64 = counts.iter().flatten().map(|counts| counts.abandoned).sum();
    let taken_along = if failed {
        all.abandoned
    } else {
        reset.min(all.abandoned)
    };
    let away = all.paused + taken_along;
    let slow = all.ring_full + (all.abandoned - taken_along);
    let most = all.late.max(slow).max(away).max(all.ended);
    if most > 0 {
        return match most {
            most if most == slow => Bottleneck::Port,
            most if most == away => Bottleneck::Away,
            _ => Bottleneck::Generator,
        };
    }
    if run.streams.iter().any(|stream| stream.unlimited) {
        let blocked = figures
            .ports
            .iter()
            .any(|port| port.tx_blocked > port.tx_cpu / 2.0);
        return if blocked {
            Bottleneck::Port
        } else {
            Bottleneck::Generator
        };
    }
    Bottleneck::None
}

fn ratio(part: u64, of: u64) -> f64 {
    part as f64 / of as f64
}
