//! Receiving: what a worker does when it visits a receive queue.

use std::sync::Arc;

use hdrhistogram::Histogram;
use hugemem::{BURST, Burst, Pool};
use port::{QueueState, RxBurst, RxFlags, RxQueue};

use super::Clock;
use super::answer::Asked;
use super::counters::{Counter, Gate, LaneReceived, QueueReceived};
use super::kit::ReceiveKit;
use super::latency::Recorder;
use super::send::Visit;
use super::sequence::{Arrival, Window};
use super::stamp::{Key, STAMP, Stamp};
use crate::stream::FCS;

/// Most bursts that one visit takes.
const BURSTS: usize = 8;

/// A receive queue, and what it knows of measured lanes.
pub(super) struct ReceiveTask {
    queue: Box<dyn RxQueue>,
    burst: RxBurst,
    /// Empty frames that the ring had no room for.
    empties: Burst,
    /// The last bytes of the buffers before, of a frame in several.
    carried: Option<Carried>,
    measured: Option<Measured>,
    asked: Option<Asked>,
    counts: Arc<QueueReceived>,
    gate: Arc<Gate>,
    times: ReceiveTimes,
    phase: Phase,
    /// Frames that the gate knows of.
    told: u64,
}

/// Histograms of lanes, each with its stream's number.
pub(super) type Histograms = Vec<(usize, Histogram<u32>)>;

/// When receiving ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceiveTimes {
    /// When a run without senders ends by itself.
    pub(super) end_ns: u64,
    pub(super) quiet_ns: u64,
    pub(super) drain_ns: u64,
    /// Whether anything is sent in this run.
    pub(super) has_senders: bool,
    /// Whether a port sends to this one.
    pub(super) is_peer: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Receiving,
    /// Nothing is sent any more, since this time; the last frame came then.
    Draining {
        since_ns: u64,
        last_ns: u64,
    },
    Done,
}

/// A frame in several buffers, so far.
pub(super) struct Carried {
    end: [u8; STAMP],
    bytes: u64,
    bad: bool,
}

/// Measured lanes, as one receive queue sees them.
pub(super) struct Measured {
    pub(super) key: Key,
    /// Where in `seen` each lane is; none for those that are meant for another port.
    pub(super) places: Box<[Option<u32>]>,
    pub(super) seen: Box<[Seen]>,
    /// Frames of lanes that were meant for another port, by lane.
    pub(super) misdirected: Arc<[Counter]>,
}

/// What one receive queue has seen of a lane.
pub(super) struct Seen {
    /// The lane's stream, by its number in the run.
    pub(super) stream: usize,
    pub(super) window: Window,
    pub(super) counts: Arc<LaneReceived>,
    pub(super) recorder: Option<Recorder>,
}

impl ReceiveTask {
    pub(super) fn new(
        kit: ReceiveKit,
        measured: Option<Measured>,
        times: ReceiveTimes,
        counts: Arc<QueueReceived>,
        gate: Arc<Gate>,
    ) -> Self {
        gate.receiver();
        Self {
            queue: kit.queue,
            burst: RxBurst::default(),
            empties: kit.empties,
            carried: kit.carried,
            asked: kit.asked,
            measured,
            counts,
            gate,
            times,
            phase: Phase::Receiving,
            told: 0,
        }
    }

    /// Sets when a run without senders ends by itself.
    pub(super) fn begin(&mut self, end_ns: u64) {
        self.times.end_ns = end_ns;
    }

    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    pub(super) fn counts(&self) -> &QueueReceived {
        &self.counts
    }

    /// What the next trial goes on with, and the histogram of each lane whose latency it took, with
    /// the lane's stream.
    pub(super) fn into_kit(self) -> (ReceiveKit, Histograms) {
        let seen = self
            .measured
            .map(|measured| measured.seen)
            .unwrap_or_default();
        let histogram = |seen: Seen| Some((seen.stream, seen.recorder?.into_histogram()));
        let histograms = seen.into_iter().filter_map(histogram).collect();
        let kit = ReceiveKit {
            queue: self.queue,
            empties: self.empties,
            carried: self.carried,
            asked: self.asked,
        };
        (kit, histograms)
    }

    /// Takes and counts what is there, up to some bursts of it, so that a ring which filled up
    /// while the worker was away is emptied before more is sent.
    #[inline]
    pub(super) fn visit(&mut self, now_ns: u64, clock: impl Clock) -> Visit {
        if self.phase == Phase::Done {
            return Visit::default();
        }
        let mut worked = false;
        for _ in 0..BURSTS {
            let received = self.take(now_ns, clock);
            worked |= received > 0;
            if received < BURST {
                break;
            }
        }
        Visit {
            worked,
            blocked: false,
        }
    }

    /// Takes and counts a burst; of how many buffers.
    #[inline]
    fn take(&mut self, now_ns: u64, clock: impl Clock) -> usize {
        let received = self.queue.burst(&mut self.burst);
        if received == 0 {
            if self.queue.state() == QueueState::Failed {
                self.gate.stop();
            }
            self.look_for_end(now_ns);
            return 0;
        }
        match &mut self.measured {
            // Latency ends here: right after the poll.
            Some(measured) => {
                let now_ns = clock.now_ns();
                let asked = self.asked.as_ref();
                measured.count(&self.burst, &mut self.carried, &self.counts, asked, now_ns);
            }
            None => {
                if let Some(asked) = &self.asked
                    && self.carried.is_none()
                {
                    look_at_all(&self.burst, asked);
                }
                count_all(&self.burst, &mut self.carried, &self.counts);
            }
        }
        self.rearm();
        if let Phase::Draining { last_ns, .. } = &mut self.phase {
            *last_ns = now_ns;
        }
        self.look_for_end(now_ns);
        received
    }

    /// Hands the buffers back, empty.
    #[inline]
    fn rearm(&mut self) {
        if !self.empties.is_empty() {
            self.queue.arm(&mut self.empties);
        }
        self.queue.arm(&mut self.burst.frames);
        if !self.burst.frames.is_empty() {
            // The ring has no room, which it had when they were in it; keep them for later.
            let count = self.burst.frames.len();
            self.burst.frames.move_to(&mut self.empties, count);
            self.burst.frames.clear();
        }
    }

    /// Tells the gate what came since it was told.
    fn tell_arrived(&mut self) {
        let frames = self.counts.frames.get();
        if self.times.is_peer && frames > self.told {
            self.gate.note_arrived(frames - self.told);
            self.told = frames;
        }
    }

    /// Looks whether receiving is over.
    #[inline]
    fn look_for_end(&mut self, now_ns: u64) {
        match self.phase {
            Phase::Receiving if self.gate.has_sent() => {
                let over =
                    self.times.has_senders || self.gate.is_stopped() || now_ns >= self.times.end_ns;
                if over {
                    if !self.times.has_senders {
                        self.gate.note_end(now_ns.min(self.times.end_ns));
                    }
                    self.phase = Phase::Draining {
                        since_ns: now_ns,
                        last_ns: now_ns,
                    };
                }
            }
            Phase::Draining { since_ns, last_ns } => {
                self.tell_arrived();
                // Silence says nothing while frames are on a long way.
                let quiet = now_ns.saturating_sub(last_ns) >= self.times.quiet_ns
                    && !self.gate.is_outstanding();
                let long = now_ns.saturating_sub(since_ns) >= self.times.drain_ns;
                if quiet || long {
                    self.gate.receiver_done();
                    self.phase = Phase::Done;
                }
            }
            _ => {}
        }
    }
}

/// Arms every slot that `queue` has room for with frames of `pool`.
pub(super) fn arm_all(queue: &mut dyn RxQueue, pool: &Pool) {
    let mut burst = Burst::new();
    while queue.room() > 0 && pool.take_burst(&mut burst, queue.room().min(BURST)) > 0 {
        if queue.arm(&mut burst) == 0 {
            break;
        }
    }
    while let Some(frame) = burst.pop() {
        pool.give(frame);
    }
}

/// Looks for questions among frames.
#[inline]
fn look_at_all(burst: &RxBurst, asked: &Asked) {
    let part = RxFlags::MORE | RxFlags::ERROR;
    let mut inside = false;
    for (frame, meta) in burst.frames.iter().zip(&burst.meta) {
        if !inside && !meta.flags.intersects(part) {
            asked.look(frame.bytes());
        }
        inside = meta.flags.contains(RxFlags::MORE);
    }
}

/// Counts frames that nobody looks into.
#[inline]
fn count_all(burst: &RxBurst, carried: &mut Option<Carried>, counts: &QueueReceived) {
    let (mut frames, mut bytes, mut errors) = (0, 0, 0);
    for (frame, meta) in burst.frames.iter().zip(&burst.meta) {
        bytes += frame.len() as u64;
        if carried.is_some() || meta.flags.intersects(RxFlags::MORE | RxFlags::ERROR) {
            let (last, bad) = (!meta.flags.contains(RxFlags::MORE), meta.flags);
            let before = carried.take();
            let bad = bad.contains(RxFlags::ERROR) || before.is_some_and(|carried| carried.bad);
            if !last {
                *carried = Some(Carried {
                    end: [0; STAMP],
                    bytes: 0,
                    bad,
                });
                continue;
            }
            errors += u64::from(bad);
        }
        frames += 1;
    }
    counts.frames.add(frames);
    counts.bytes.add(bytes + frames * FCS as u64);
    if errors > 0 {
        counts.errors.add(errors);
    }
}

impl Measured {
    /// Counts frames, and finds out which are measured ones.
    #[inline]
    fn count(
        &mut self,
        burst: &RxBurst,
        carried: &mut Option<Carried>,
        counts: &QueueReceived,
        asked: Option<&Asked>,
        now_ns: u64,
    ) {
        let (mut frames, mut bytes, mut unmatched) = (0, 0, 0);
        for (frame, meta) in burst.frames.iter().zip(&burst.meta) {
            let part = frame.bytes();
            bytes += part.len() as u64;
            let whole = carried.is_none() && !meta.flags.intersects(RxFlags::MORE | RxFlags::ERROR);
            let (size, stamp) = if whole {
                frames += 1;
                (part.len() as u64, self.read(part, now_ns))
            } else {
                let Some(joined) = join(carried, part, meta.flags) else {
                    continue;
                };
                frames += 1;
                if joined.bad {
                    counts.errors.add(1);
                }
                let stamp = (!joined.bad).then(|| self.read(&joined.end, now_ns));
                (joined.bytes, stamp.flatten())
            };
            match stamp {
                Some(stamp) => self.note(stamp, size + FCS as u64),
                None => {
                    unmatched += 1;
                    if let Some(asked) = asked.filter(|_| whole) {
                        asked.look(part);
                    }
                }
            }
        }
        counts.frames.add(frames);
        counts.bytes.add(bytes + frames * FCS as u64);
        counts.unmatched.add(unmatched);
    }

    #[inline]
    fn read(&self, bytes: &[u8], now_ns: u64) -> Option<Stamp> {
        // At most 2^18 lanes.
        let lanes = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.key.read(bytes, now_ns, lanes)
    }

    /// Counts a frame of `size` bytes with FCS for its lane.
    #[inline]
    fn note(&mut self, stamp: Stamp, size: u64) {
        let Some(place) = self.places[stamp.lane as usize] else {
            self.misdirected[stamp.lane as usize].add(1);
            return;
        };
        let seen = &mut self.seen[place as usize];
        let counts = &seen.counts;
        counts.frames.add(1);
        counts.bytes.add(size);
        match seen.window.note(stamp.sequence) {
            Arrival::New => {}
            Arrival::Reordered => counts.reordered.add(1),
            Arrival::Duplicate => {
                counts.duplicated.add(1);
                return;
            }
            Arrival::TooLate => {
                counts.too_late.add(1);
                return;
            }
        }
        if let Some(recorder) = &mut seen.recorder {
            recorder.record(stamp.age_ns, counts);
        }
    }
}

/// Adds a buffer to a frame in several; the whole, once it is there: its last bytes alone.
#[cold]
fn join(carried: &mut Option<Carried>, part: &[u8], flags: RxFlags) -> Option<Carried> {
    let mut joined = carried.take().unwrap_or(Carried {
        end: [0; STAMP],
        bytes: 0,
        bad: false,
    });
    joined.bytes += part.len() as u64;
    joined.bad |= flags.contains(RxFlags::ERROR);
    let new = part.len().min(STAMP);
    joined.end.copy_within(new.., 0);
    joined.end[STAMP - new..].copy_from_slice(&part[part.len() - new..]);
    if flags.contains(RxFlags::MORE) {
        *carried = Some(joined);
        return None;
    }
    Some(joined)
}
