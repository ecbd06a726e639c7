//! When each frame is due: exact, without drift, at any rate.
//!
//! A rate is a fraction, frames per nanoseconds, and what is due after a time is one division of
//! whole numbers. Nothing is added up from burst to burst, so nothing drifts: after a week a
//! stream is where its rate says, to the frame.

use std::num::NonZeroU64;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// A rate: so many frames in so many nanoseconds, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRate {
    frames: NonZeroU64,
    per_ns: NonZeroU64,
}

impl FrameRate {
    /// `frames` in `per_ns` nanoseconds; none if either is 0.
    #[must_use]
    pub fn new(frames: u64, per_ns: u64) -> Option<Self> {
        let (frames, per_ns) = (NonZeroU64::new(frames)?, NonZeroU64::new(per_ns)?);
        let common = gcd(frames.get(), per_ns.get());
        let reduce = |value: NonZeroU64| NonZeroU64::new(value.get() / common);
        Some(Self {
            frames: reduce(frames)?,
            per_ns: reduce(per_ns)?,
        })
    }

    /// `frames` a second.
    #[must_use]
    pub fn per_second(frames: u64) -> Option<Self> {
        Self::new(frames, SECOND_NS)
    }

    /// The fraction nearest to `pps` frames a second, down to one in some weeks; none for zero,
    /// negative numbers and those that no link reaches (10^13 and above).
    #[must_use]
    pub fn from_pps(pps: f64) -> Option<Self> {
        if !(pps.is_finite() && pps > 0.0 && pps < 1e13) {
            return None;
        }
        // Whole numbers stay exact; others get as many digits as fit.
        let scale = if pps.fract() == 0.0 {
            1
        } else if pps >= 1e6 {
            100_000
        } else {
            1_000_000_000
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "positive, and below 10^18 after scaling"
        )]
        let frames = (pps * scale as f64).round() as u64;
        Self::new(frames, SECOND_NS * scale)
    }

    /// The rate at which frames of `frame_bits` fill `bits_per_second`.
    #[must_use]
    pub fn from_bits(bits_per_second: u64, frame_bits: u64) -> Option<Self> {
        Self::new(bits_per_second, frame_bits.checked_mul(SECOND_NS)?)
    }

    /// Frames a second, for people.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
    pub fn pps(&self) -> f64 {
        self.frames.get() as f64 * 1e9 / self.per_ns.get() as f64
    }

    /// One `count`th of the rate.
    pub(super) fn split(self, count: u64) -> Self {
        let count = count.max(1);
        let exact = self.per_ns.get().checked_mul(count);
        // Too fine a fraction, one in some years: as slow as can be said.
        let per_ns = exact.unwrap_or(u64::MAX);
        Self::new(self.frames.get(), per_ns).unwrap_or(self)
    }
}

/// How a stream sends in bursts: `frames` at the stream's rate, then nothing for `gap_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bursts {
    /// Frames of one burst.
    pub frames: NonZeroU64,
    /// From the last frame of a burst to the first of the next; at least the stream's own gap.
    pub gap_ns: u64,
}

impl Bursts {
    /// Bursts of `frames`, none if that is 0.
    #[must_use]
    pub fn new(frames: u64, gap_ns: u64) -> Option<Self> {
        let frames = NonZeroU64::new(frames)?;
        Some(Self { frames, gap_ns })
    }
}

/// How a stream is sent again and again: `frames` of it, and the same from the start `lap_ns` later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rounds {
    frames: NonZeroU64,
    lap_ns: NonZeroU64,
}

impl Rounds {
    /// Rounds of `frames`, one every `lap_ns`; none if either is 0.
    pub(super) fn new(frames: u64, lap_ns: u64) -> Option<Self> {
        let (frames, lap_ns) = (NonZeroU64::new(frames)?, NonZeroU64::new(lap_ns)?);
        Some(Self { frames, lap_ns })
    }

    /// Frames of a round, and nanoseconds from one to the next.
    pub(super) fn get(&self) -> (u64, u64) {
        (self.frames.get(), self.lap_ns.get())
    }
}

/// What is due when, counted from the start of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeline {
    /// Frames...
    frames: u64,
    /// ...in so many nanoseconds.
    per_ns: u64,
    /// How far into its first gap the stream begins, in units of a `frames`th of a nanosecond.
    phase: u64,
    /// Nothing is due before this.
    delay_ns: u64,
    bursts: Option<Bursts>,
    rounds: Option<Rounds>,
    /// Frames in all.
    limit: u64,
}

impl Timeline {
    pub(super) fn new(rate: FrameRate) -> Self {
        Self {
            frames: rate.frames.get(),
            per_ns: rate.per_ns.get(),
            phase: 0,
            delay_ns: 0,
            bursts: None,
            rounds: None,
            limit: u64::MAX,
        }
    }

    /// Begins `part` of `parts` of a gap early, so that several streams of one rate do not send
    /// all at once. The parts of one stream add up to the stream exactly: the sum of
    /// `floor(x / k + i / k)` over all `i < k` is `floor(x)` (Hermite's identity).
    pub(super) fn phased(mut self, part: u64, parts: u64) -> Self {
        let phase = u128::from(self.per_ns) * u128::from(part) / u128::from(parts.max(1));
        self.phase = u64::try_from(phase).unwrap_or(0);
        self
    }

    pub(super) fn delayed(mut self, delay_ns: u64) -> Self {
        self.delay_ns = delay_ns;
        self
    }

    pub(super) fn in_bursts(mut self, bursts: Option<Bursts>) -> Self {
        self.bursts = bursts;
        self
    }

    pub(super) fn in_rounds(mut self, rounds: Option<Rounds>) -> Self {
        self.rounds = rounds;
        self
    }

    pub(super) fn limited(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// Frames due up to and including `elapsed_ns`.
    #[inline]
    pub(super) fn due(&self, elapsed_ns: u64) -> u64 {
        let Some(elapsed) = elapsed_ns.checked_sub(self.delay_ns) else {
            return 0;
        };
        let due = match self.rounds {
            None => self.due_in_round(elapsed),
            Some(rounds) => {
                let (lap, elapsed) = (elapsed / rounds.lap_ns, elapsed % rounds.lap_ns);
                let due = self.due_in_round(elapsed).min(rounds.frames.get());
                lap.saturating_mul(rounds.frames.get()).saturating_add(due)
            }
        };
        due.min(self.limit)
    }

    /// Frames due `elapsed` nanoseconds after the start of a round.
    #[inline]
    fn due_in_round(&self, elapsed: u64) -> u64 {
        let Some(bursts) = self.bursts else {
            let small = elapsed.checked_mul(self.frames);
            return match small.and_then(|units| units.checked_add(self.phase)) {
                Some(units) => units / self.per_ns,
                None => self.due_wide(elapsed),
            };
        };
        self.due_in_bursts(elapsed, bursts)
    }

    /// As `due`, where the product takes more than 64 bits.
    #[cold]
    fn due_wide(&self, elapsed: u64) -> u64 {
        let units = u128::from(elapsed) * u128::from(self.frames) + u128::from(self.phase);
        clamp(units / u128::from(self.per_ns))
    }

    /// All in units of a `frames`th of a nanosecond, in which one frame takes `per_ns`.
    fn due_in_bursts(&self, elapsed: u64, bursts: Bursts) -> u64 {
        let units = u128::from(elapsed) * u128::from(self.frames);
        let lap = self.lap(bursts);
        let in_lap = (units % lap / u128::from(self.per_ns)).min(bursts.frames.get().into());
        clamp(units / lap * u128::from(bursts.frames.get()) + in_lap)
    }

    /// From the start of a burst to the start of the next.
    fn lap(&self, bursts: Bursts) -> u128 {
        let gap = u128::from(self.frames) * u128::from(bursts.gap_ns);
        let inside = u128::from(self.per_ns) * u128::from(bursts.frames.get() - 1);
        inside + gap.max(self.per_ns.into())
    }

    /// The first nanosecond at which more than `position` frames are due; the end of time if
    /// there never are.
    #[inline]
    pub(super) fn due_time(&self, position: u64) -> u64 {
        if position >= self.limit {
            return u64::MAX;
        }
        let after = match self.rounds {
            None => self.due_time_in_round(position),
            Some(rounds) => {
                let (lap, position) = (position / rounds.frames, position % rounds.frames);
                let begins = lap.saturating_mul(rounds.lap_ns.get());
                begins.saturating_add(self.due_time_in_round(position))
            }
        };
        after.saturating_add(self.delay_ns)
    }

    /// The first nanosecond after the start of a round at which more than `position` frames are
    /// due.
    #[inline]
    fn due_time_in_round(&self, position: u64) -> u64 {
        match self.bursts {
            None => {
                let small = (position + 1).checked_mul(self.per_ns);
                match small {
                    Some(units) => units.saturating_sub(self.phase).div_ceil(self.frames),
                    None => self.due_time_wide(position),
                }
            }
            Some(bursts) => {
                let size = bursts.frames.get();
                let units = u128::from(position / size) * self.lap(bursts)
                    + u128::from(position % size + 1) * u128::from(self.per_ns);
                clamp(units.div_ceil(u128::from(self.frames)))
            }
        }
    }

    #[cold]
    fn due_time_wide(&self, position: u64) -> u64 {
        let units = (u128::from(position) + 1) * u128::from(self.per_ns) - u128::from(self.phase);
        clamp(units.div_ceil(u128::from(self.frames)))
    }
}

/// Where a stream is on its timeline.
///
/// `position` frames are behind it: sent, about to be, or skipped. It never goes back.
#[derive(Debug, Clone)]
pub(super) struct Pacer {
    timeline: Timeline,
    position: u64,
    /// When the frame at `position` is due.
    next_ns: u64,
    catch_up_ns: u64,
}

impl Pacer {
    pub(super) fn new(timeline: Timeline, catch_up_ns: u64) -> Self {
        let next_ns = timeline.due_time(0);
        Self {
            timeline,
            position: 0,
            next_ns,
            catch_up_ns,
        }
    }

    pub(super) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// When the next frame is due.
    #[inline]
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Frames due by `elapsed_ns` that are not behind yet.
    #[inline]
    pub(super) fn backlog(&self, elapsed_ns: u64) -> u64 {
        if elapsed_ns < self.next_ns {
            return 0;
        }
        self.timeline.due(elapsed_ns).saturating_sub(self.position)
    }

    /// How many of the `backlog` at `elapsed_ns` are too late to be made up for: those due more
    /// than the catch-up bound ago, except the last one, so that a slow stream is not silenced by
    /// a short delay.
    #[inline]
    pub(super) fn too_late(&self, elapsed_ns: u64, backlog: u64) -> u64 {
        if elapsed_ns.saturating_sub(self.catch_up_ns) <= self.next_ns {
            return 0;
        }
        let old = self.timeline.due(elapsed_ns - self.catch_up_ns);
        old.saturating_sub(self.position)
            .min(backlog.saturating_sub(1))
    }

    /// Leaves `count` frames behind: taken or skipped.
    #[inline]
    pub(super) fn advance(&mut self, count: u64) {
        self.position += count;
        self.next_ns = self.timeline.due_time(self.position);
    }

    /// True when nothing will ever be due again.
    pub(super) fn is_over(&self) -> bool {
        self.position >= self.timeline.limit
    }
}

fn clamp(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
