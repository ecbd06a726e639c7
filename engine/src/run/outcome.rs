//! What a run has done: figures while it runs, and its outcome.

use std::fmt;

use port::{Counters, Port, PortError};

/// Frames that were asked for and are not known to have been sent, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// The worker came too late: the generator was too slow.
    pub late: u64,
    /// The send ring was full: the port or its peer was too slow.
    pub ring_full: u64,
    /// The link was down or the peer away.
    pub paused: u64,
    /// Due and not posted when sending ended, or when the port failed.
    pub ended: u64,
    /// Posted, and with the device when it was reset, went away or was stopped: whether they were
    /// sent cannot be known.
    pub abandoned: u64,
}

impl Shortfall {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.late + self.ring_full + self.paused + self.ended + self.abandoned
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.late += other.late;
        self.ring_full += other.ring_full;
        self.paused += other.paused;
        self.ended += other.ended;
        self.abandoned += other.abandoned;
    }
}

/// A port's figures. Bytes include the FCS.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PortFigures {
    /// The string that opened it.
    pub port: String,
    /// Its driver.
    pub driver: &'static str,
    /// Frames sent: confirmed by the device at the end, posted while running.
    pub tx_frames: u64,
    /// Frames that a worker took from it, whole ones; the device's own count where the run does
    /// not receive on it.
    pub rx_frames: u64,
    /// Bytes of frames sent.
    pub tx_bytes: u64,
    /// Bytes of frames received.
    pub rx_bytes: u64,
    /// Frames a second sent: over the time of sending at the end, since the snapshot before while
    /// running.
    pub tx_pps: f64,
    /// Frames a second received, likewise.
    pub rx_pps: f64,
    /// Share of the time in which sending kept a core busy, summed over its queues: 0.0..=1.0 for
    /// one queue.
    pub tx_cpu: f64,
    /// The same for receiving.
    pub rx_cpu: f64,
    /// Share of the time in which the send ring was full.
    pub tx_blocked: f64,
    /// Frames that arrived and found no empty buffer, counted by the device.
    pub rx_missed: u64,
    /// Damaged frames: counted by the device, and those that a worker took with an error mark.
    pub rx_errors: u64,
    /// Frames that the device could not send.
    pub tx_errors: u64,
    /// Frames received that are no measured stream's.
    pub rx_unmatched: u64,
    /// Questions for its own addresses that it answered. The answers are none of the frames sent.
    pub answered: u64,
    /// Frames that this port sent and its peer did not receive, by the two ports' totals, once the
    /// run is over: for streams that are not measured. None where another port sends there too.
    pub lost: Option<u64>,
    /// Frames that its peer received beyond those: somebody else's, or duplicates.
    pub extra: u64,
    /// Forwarding: frames taken that the other port's ring had no room for.
    pub tx_dropped: u64,
    /// What was asked of this port.
    pub asked: u64,
    /// What of it was not sent.
    pub shortfall: Shortfall,
    /// What the device counted during the run; zero while running.
    pub device: Counters,
}

/// A stream's figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamFigures {
    /// Its name.
    pub name: String,
    /// The port that sends it.
    pub port: usize,
    /// Frames asked for so far.
    pub asked: u64,
    /// Frames sent: posted, less those abandoned.
    pub tx_frames: u64,
    /// Bytes of frames posted, with FCS.
    pub tx_bytes: u64,
    /// What was not sent.
    pub shortfall: Shortfall,
    /// Whether the frames carry stamps. If not, the figures below say nothing.
    pub measured: bool,
    /// Frames received, duplicates included.
    pub rx_frames: u64,
    /// Bytes received, with FCS.
    pub rx_bytes: u64,
    /// Frames sent that never arrived, once the run is over.
    pub lost: Option<u64>,
    /// Frames that arrived more than once: how many times more.
    pub duplicated: u64,
    /// Frames that arrived after a later one (RFC 4737 §3.3), duplicates not counted.
    pub reordered: u64,
    /// Frames that came so long after later ones that nobody remembers whether they came before:
    /// they count as lost, as for a receiver whose buffer is as long.
    pub too_late: u64,
    /// Frames that arrived although they were abandoned: more came than are known to be sent.
    pub surplus: u64,
    /// Frames that arrived at another port than the one they were meant for.
    pub misdirected: u64,
    /// Its latency, where it is measured and something came.
    pub latency: Option<Latency>,
    /// How its latency is distributed, from the smallest on, once the run is over: some tens of
    /// points, closer to each other towards the largest.
    pub distribution: Vec<Quantile>,
}

/// A point of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Quantile {
    /// Share of the frames, 0.0..=1.0.
    pub share: f64,
    /// Nanoseconds that none of them exceeds, to the histogram's resolution.
    pub ns: u64,
}

/// The latency of a stream's frames, in nanoseconds: from the clock reading at the start of the
/// sending visit (a frame is posted within a microsecond of it) to the one right after the poll
/// that returned it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Latency {
    /// Frames measured.
    pub count: u64,
    /// Smallest.
    pub min: u64,
    /// Mean, exact.
    pub mean: f64,
    /// Median; 0 while running, as are the other percentiles.
    pub p50: u64,
    /// Ninth decile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
    /// Jitter by RFC 3550 §6.4.1, as at the last frame.
    pub jitter: u64,
}

/// Figures of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// By port, in the plan's order.
    pub ports: Vec<PortFigures>,
    /// By stream: the first port's, then the second's.
    pub streams: Vec<StreamFigures>,
    /// Frames asked for.
    pub asked_frames: u64,
    /// Frames asked for and not sent.
    pub shortfall_frames: u64,
}

/// Figures of a run that goes on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Nanoseconds since sending began.
    pub elapsed_ns: u64,
    /// The figures so far.
    pub figures: Figures,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds since sending began; 0 before.
    pub at_ns: u64,
    /// At which port.
    pub port: usize,
    /// What, in words.
    pub what: String,
}

/// What kept a run from sending what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// Nothing did.
    None,
    /// The generator: workers came too late, or their cores had no time left.
    Generator,
    /// The port or what is behind it: its ring was full.
    Port,
    /// The link or the peer was away, or the port failed.
    Away,
}

/// A run that is over.
pub struct Outcome {
    /// The figures.
    pub figures: Figures,
    /// For how long frames were sent, in seconds.
    pub duration_s: f64,
    /// What random fields followed from.
    pub seed: u64,
    /// What kept it from sending what was asked.
    pub bottleneck: Bottleneck,
    /// What happened.
    pub events: Vec<Event>,
    /// Ports that failed, by number, and why.
    pub failures: Vec<(usize, PortError)>,
    /// Frames of the run's pools that did not come home.
    pub leaked: u64,
    /// What was found inconsistent when the run was settled, for [`Outcome::check`].
    pub(super) broken: Vec<String>,
}

/// What [`Run::join`](super::Run::join) gives back.
pub struct Finished {
    /// What the run has done.
    pub outcome: Outcome,
    /// The ports, stopped: for the next run.
    pub ports: Vec<Box<dyn Port>>,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("figures", &self.figures)
            .field("duration_s", &self.duration_s)
            .field("bottleneck", &self.bottleneck)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl Outcome {
    /// The identities of the accounting that do not hold, in words: a bug, or a device that
    /// counts wrongly. Empty when every frame is accounted for.
    #[must_use]
    pub fn check(&self) -> Vec<String> {
        let mut broken = self.broken.clone();
        let mut equal = |what: &str, left: u64, right: u64| {
            if left != right {
                broken.push(format!("{what}: {left} is not {right}"));
            }
        };
        let figures = &self.figures;
        let sent: u64 = figures.ports.iter().map(|port| port.tx_frames).sum();
        if figures.asked_frames > 0 {
            let accounted = sent + figures.shortfall_frames;
            equal("asked = sent + shortfall", figures.asked_frames, accounted);
        }
        for (number, port) in figures.ports.iter().enumerate() {
            let of_port = |stream: &&StreamFigures| stream.port == number;
            let streams = figures.streams.iter().filter(of_port);
            let (mut asked, mut tx) = (0, 0);
            for stream in streams {
                asked += stream.asked;
                tx += stream.tx_frames;
            }
            let name = &port.port;
            if port.asked > 0 {
                equal(&format!("{name}: asked by streams"), asked, port.asked);
                equal(&format!("{name}: sent by streams"), tx, port.tx_frames);
                let accounted = port.tx_frames + port.shortfall.total();
                equal(
                    &format!("{name}: asked = sent + shortfall"),
                    port.asked,
                    accounted,
                );
            }
        }
        for stream in &figures.streams {
            let name = &stream.name;
            let accounted = stream.tx_frames + stream.shortfall.total();
            equal(
                &format!("{name}: asked = sent + shortfall"),
                stream.asked,
                accounted,
            );
            if let Some(lost) = stream.lost {
                let arrived = stream.rx_frames - stream.duplicated - stream.too_late;
                let sent = stream.tx_frames + stream.surplus;
                equal(
                    &format!("{name}: sent = received + lost"),
                    sent,
                    arrived + lost,
                );
            }
        }
        equal("frames that did not come home", self.leaked, 0);
        broken
    }
}
