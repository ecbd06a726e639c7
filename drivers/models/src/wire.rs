//! The wire between two devices.
//!
//! It pads frames to 60 bytes, takes time where it is paced, and damages traffic as told. What
//! happens to a frame depends on three things alone: the seed, the direction, and how many frames
//! went that way before it. Two runs that send the same frames lose the same ones.
//!
//! A wire without faults hands the sender's frames to the receiver as they lie; only one with
//! faults looks at them one by one.

mod fate;
mod knee;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hugemem::Translator;

use crate::SHORTEST;
use crate::counters::{DeviceCounters, DeviceCounts, WireCounters, WireCounts};
use crate::device::Device;
use crate::frames::{Batch, ROUND, WireFrame};

use fate::{Fate, Kind};
use knee::Gauge;
pub use knee::{Knee, KneeShape};

/// Frames that one direction holds back at most; then it takes no more from the sender.
const HELD: usize = 4096;
/// Rounds without traffic after which frames that wait for others to pass go on.
const PATIENCE: u32 = 1000;
/// Preamble, start delimiter and the gap between frames, in bytes (IEEE 802.3 §4.4.2).
const GAP: u64 = 20;
/// Frames that a paced wire takes at once.
const PACED: usize = 32;
/// How far behind its time a paced wire may fall and still catch up.
const SLACK_PS: u64 = 10_000_000;

/// What a wire is like. Shares are fractions of 1, each frame by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct WireOptions {
    /// Speed that both devices report, in bits a second.
    pub speed_bps: u64,
    /// Carries no more than the speed allows. Otherwise the wire is as fast as the model.
    pub paced: bool,
    /// What decides the fate of frames.
    pub seed: u64,
    /// Share of frames that is lost.
    pub loss: f64,
    /// Share of frames that arrives with one bit turned and a good FCS: as if damaged in a
    /// switch.
    pub corrupt: f64,
    /// Share of frames that arrives with a bad FCS: the receiving device drops and counts them.
    pub bad_fcs: f64,
    /// Share of frames that arrives twice.
    pub duplicate: f64,
    /// Share of frames that arrives late, behind the [`WireOptions::reorder_depth`] frames sent
    /// after it.
    pub reorder: f64,
    /// Frames that pass a reordered one.
    pub reorder_depth: u64,
    /// Share of frames that is held for [`WireOptions::delay`].
    pub delayed: f64,
    /// How long those are held.
    pub delay: Duration,
    /// Lets the link go down now and then.
    pub flap: Option<Flap>,
    /// Loses what comes faster than a rate, as a device under test would.
    pub knee: Option<Knee>,
}

/// A link that goes down and comes up again.
///
/// Which frames are lost depends on their number alone. The devices report the link as down
/// until those frames have been sent, or for `hold` where the sender stops meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flap {
    /// Frames from one flap to the next, each way.
    pub every: u64,
    /// The last of them, which are lost.
    pub frames: u64,
    /// Longest time that the link shows as down.
    pub hold: Duration,
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            speed_bps: 10_000_000_000,
            paced: false,
            seed: 1,
            loss: 0.0,
            corrupt: 0.0,
            bad_fcs: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_depth: 4,
            delayed: 1.0,
            delay: Duration::ZERO,
            flap: None,
            knee: None,
        }
    }
}

/// A wire: two directions and one link.
pub(crate) struct Wire {
    options: WireOptions,
    lanes: [Lane; 2],
    faulty: bool,
    /// Set by hand; a flap takes the link down beside it.
    plugged: bool,
}

/// One direction.
struct Lane {
    fate: Fate,
    gauge: Gauge,
    batch: Batch,
    out: Vec<WireFrame>,
    /// Frames taken so far.
    number: u64,
    /// How long a flap that was met shows, if the sender sends no more.
    flap_until_ps: Option<u64>,
    /// When the last bit of the last frame is through.
    free_at_ps: u64,
    /// Frames that wait for a time, first to last.
    delayed: VecDeque<Held>,
    /// Frames that wait for others to pass, first to last.
    passed: VecDeque<Held>,
    spare: Vec<Vec<u8>>,
    idle: u32,
    counters: Arc<WireCounters>,
}

struct Held {
    /// A time in picoseconds, or a frame's number.
    due: u64,
    bytes: Vec<u8>,
    fcs_good: bool,
}

/// The two ends of one direction, for one round.
pub(crate) struct Ends<'a> {
    pub(crate) sender: &'a mut dyn Device,
    pub(crate) receiver: &'a mut dyn Device,
    /// True for ends that were pulled out.
    pub(crate) sender_gone: bool,
    pub(crate) receiver_gone: bool,
    pub(crate) receiver_counters: &'a DeviceCounters,
}

impl Wire {
    pub(crate) fn new(options: WireOptions, counters: [Arc<WireCounters>; 2]) -> Self {
        let faulty = options.has_faults();
        let mut direction = 0;
        let lanes = counters.map(|counters| {
            let lane = Lane::new(Fate::new(options.seed, direction), counters);
            direction += 1;
            lane
        });
        Self {
            options,
            lanes,
            faulty,
            plugged: true,
        }
    }

    /// True while the link shows as up.
    pub(crate) fn is_up(&self) -> bool {
        self.plugged && self.lanes.iter().all(|lane| lane.flap_until_ps.is_none())
    }

    pub(crate) fn plug(&mut self, plugged: bool) {
        self.plugged = plugged;
    }

    /// True if rounds must know the time.
    pub(crate) fn needs_clock(&self) -> bool {
        let WireOptions {
            paced,
            delay,
            flap,
            knee,
            ..
        } = &self.options;
        *paced || !delay.is_zero() || flap.is_some() || knee.is_some()
    }

    /// One round of `direction`. True if anything moved.
    pub(crate) fn carry(&mut self, direction: usize, ends: Ends<'_>, now_ps: u64) -> bool {
        let lane = &mut self.lanes[direction];
        lane.batch.clear();
        let limit = lane.limit(&self.options, now_ps);
        if !ends.sender_gone && limit > 0 {
            ends.sender.transmit(&mut lane.batch, limit);
        }
        let taken = lane.batch.len();
        if taken == 0 {
            lane.gauge.note_silence(now_ps);
        }
        if taken == 0 && lane.delayed.is_empty() && lane.passed.is_empty() {
            // What could not be sent goes back too, and what is late.
            if !ends.sender_gone {
                ends.sender.sent();
            }
            return false;
        }
        let mut counts = WireCounts {
            taken: taken as u64,
            ..WireCounts::default()
        };
        let memory = ends.sender.memory();
        lane.pad(memory);
        if self.options.paced {
            lane.take_time(&self.options, now_ps);
        }
        let plain = !self.faulty && self.plugged;
        if !plain {
            lane.out.clear();
            let memory = ends.sender.memory();
            lane.suffer(&self.options, self.plugged, memory, now_ps, &mut counts);
        }
        lane.hand_over(plain, ends, &mut counts);
        lane.counters.add(&counts);
        taken > 0 || counts.handed > 0
    }

    /// Lets a flap end that has lasted long enough.
    pub(crate) fn tick(&mut self, now_ps: u64) {
        for lane in &mut self.lanes {
            lane.flap_until_ps = lane.flap_until_ps.filter(|&until| until > now_ps);
        }
    }
}

impl WireOptions {
    fn has_faults(&self) -> bool {
        let shares = [
            self.loss,
            self.corrupt,
            self.bad_fcs,
            self.duplicate,
            self.reorder,
        ];
        shares.iter().any(|&share| share > 0.0)
            || !self.delay.is_zero()
            || self.flap.is_some()
            || self.knee.is_some()
    }
}

impl Lane {
    fn new(fate: Fate, counters: Arc<WireCounters>) -> Self {
        Self {
            fate,
            gauge: Gauge::default(),
            batch: Batch::new(),
            out: Vec::with_capacity(ROUND * 2),
            number: 0,
            flap_until_ps: None,
            free_at_ps: 0,
            delayed: VecDeque::new(),
            passed: VecDeque::new(),
            spare: Vec::new(),
            idle: 0,
            counters,
        }
    }

    /// Frames that may be taken now.
    fn limit(&self, options: &WireOptions, now_ps: u64) -> usize {
        let room = HELD.saturating_sub(self.delayed.len() + self.passed.len());
        if !options.paced {
            return ROUND.min(room);
        }
        if self.free_at_ps > now_ps {
            return 0;
        }
        PACED.min(room)
    }

    /// Frames shorter than a wire allows get zeros behind them.
    fn pad(&mut self, memory: &mut Translator) {
        if self
            .batch
            .frames
            .iter()
            .all(|frame| frame.len() >= SHORTEST)
        {
            return;
        }
        for n in 0..self.batch.len() {
            let frame = self.batch.frames[n];
            if frame.len() < SHORTEST {
                match self.batch.own(frame, SHORTEST, memory) {
                    Ok(padded) => self.batch.frames[n] = padded,
                    // The sender has unmapped it since: nothing sensible can leave.
                    Err(_) => self.batch.frames[n].fcs_good = false,
                }
            }
        }
    }

    /// Moves the time at which the wire is free on by what the batch takes.
    fn take_time(&mut self, options: &WireOptions, now_ps: u64) {
        let bytes: u64 = self
            .batch
            .frames
            .iter()
            .map(|frame| u64::from(frame.len()) + crate::FCS + GAP)
            .sum();
        let ps = u128::from(bytes) * 8 * 1_000_000_000_000 / u128::from(options.speed_bps.max(1));
        let ps = u64::try_from(ps).unwrap_or(u64::MAX);
        let from = self.free_at_ps.max(now_ps.saturating_sub(SLACK_PS));
        self.free_at_ps = from.saturating_add(ps);
    }

    /// Decides about each frame of the batch; what arrives now is then in `out`.
    fn suffer(
        &mut self,
        options: &WireOptions,
        plugged: bool,
        memory: &mut Translator,
        now_ps: u64,
        counts: &mut WireCounts,
    ) {
        for n in 0..self.batch.len() {
            let number = self.number;
            self.number += 1;
            let flap = options.flap.filter(|flap| flap.every > 0);
            let flap = flap.filter(|flap| number % flap.every + flap.frames >= flap.every);
            self.flap_until_ps = flap.map(|flap| now_ps.saturating_add(as_ps(flap.hold)));
            if flap.is_some() || !plugged {
                counts.link_down += 1;
            } else {
                let frame = self.batch.frames[n];
                self.decide(frame, number, options, memory, now_ps, counts);
            }
            while self.passed.front().is_some_and(|held| held.due <= number) {
                self.release(|lane| lane.passed.pop_front());
            }
        }
        self.idle = if self.batch.is_empty() {
            self.idle.saturating_add(1)
        } else {
            0
        };
        while self.idle > PATIENCE && !self.passed.is_empty() {
            self.release(|lane| lane.passed.pop_front());
        }
        while self.delayed.front().is_some_and(|held| held.due <= now_ps) {
            self.release(|lane| lane.delayed.pop_front());
        }
    }

    fn decide(
        &mut self,
        mut frame: WireFrame,
        number: u64,
        options: &WireOptions,
        memory: &mut Translator,
        now_ps: u64,
        counts: &mut WireCounts,
    ) {
        let fate = self.fate;
        let gauge = &mut self.gauge;
        let too_fast = |knee: &Knee| !gauge.passes(knee, fate, number, now_ps);
        if fate.strikes(Kind::Loss, number, options.loss)
            || options.knee.as_ref().is_some_and(too_fast)
        {
            counts.lost += 1;
            return;
        }
        let corrupt = fate.strikes(Kind::Corrupt, number, options.corrupt);
        let bad_fcs = fate.strikes(Kind::BadFcs, number, options.bad_fcs);
        if (corrupt || bad_fcs)
            && let Ok(own) = self.batch.own(frame, frame.len(), memory)
        {
            frame = own;
            frame.fcs_good = !bad_fcs;
            if let Some(bytes) = self.batch.own_bytes_mut(&frame) {
                fate.turn_a_bit(number, bytes);
            }
            counts.corrupted += u64::from(!bad_fcs);
            counts.bad_fcs += u64::from(bad_fcs);
        }
        if fate.strikes(Kind::Duplicate, number, options.duplicate) {
            counts.duplicated += 1;
            self.out.push(frame);
        }
        if fate.strikes(Kind::Reorder, number, options.reorder) {
            counts.reordered += 1;
            let held = self.hold(frame, number + options.reorder_depth, memory);
            self.passed.push_back(held);
        } else if !options.delay.is_zero() && fate.strikes(Kind::Delay, number, options.delayed) {
            counts.delayed += 1;
            let held = self.hold(frame, now_ps + as_ps(options.delay), memory);
            self.delayed.push_back(held);
        } else {
            self.out.push(frame);
        }
    }

    /// Copies a frame, for later.
    fn hold(&mut self, frame: WireFrame, due: u64, memory: &mut Translator) -> Held {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(frame.len() as usize, 0);
        let (_, mut carrier) = self.batch.carrier(memory);
        let whole = carrier.read(&frame, &mut bytes).is_ok();
        Held {
            due,
            bytes,
            fcs_good: frame.fcs_good && whole,
        }
    }

    /// Lets a held frame go on.
    fn release(&mut self, take: impl FnOnce(&mut Self) -> Option<Held>) {
        let Some(held) = take(self) else { return };
        let mut frame = self.batch.store(&held.bytes);
        frame.fcs_good = held.fcs_good;
        self.out.push(frame);
        self.spare.push(held.bytes);
    }

    /// Gives the receiver what arrives, and the sender its memory back.
    fn hand_over(&mut self, plain: bool, ends: Ends<'_>, counts: &mut WireCounts) {
        let (whole, mut carrier) = self.batch.carrier(ends.sender.memory());
        let frames = if plain { whole } else { &self.out };
        counts.handed = frames.len() as u64;
        if ends.receiver_gone {
            ends.receiver_counters.add(&DeviceCounts {
                rx_not_ready: frames.len() as u64,
                ..DeviceCounts::default()
            });
        } else if !frames.is_empty() {
            ends.receiver.deliver(frames, &mut carrier);
        }
        if !ends.sender_gone {
            ends.sender.sent();
        }
    }
}

fn as_ps(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX)
}
