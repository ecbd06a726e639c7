//! Where values come from, one a frame.

use super::rng::Rng;

/// A place among values that is stepped like a digit of a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digit {
    /// Number of its last place, from 0.
    pub(super) last: u64,
    /// What is at each place.
    pub(super) map: Map,
    /// Its place in the first frame.
    pub(super) first: u64,
    /// Where its value goes.
    pub(super) slot: usize,
    /// How many places further the next value is; less than there are. It wraps whenever it
    /// passes the last one.
    pub(super) stride: u64,
    /// Its place now.
    pub(super) at: u64,
}

/// Values by place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Map {
    /// `first`, and `step` further each place, modulo 2^64.
    Linear { first: u64, step: u64 },
    /// One after the other.
    Table(Box<[u64]>),
}

impl Digit {
    pub(super) fn new(slot: usize, last: u64, first: u64, map: Map) -> Self {
        Self {
            last,
            map,
            first,
            slot,
            stride: 1,
            at: first,
        }
    }

    #[inline]
    fn value(&self) -> u64 {
        match &self.map {
            Map::Linear { first, step } => first.wrapping_add(self.at.wrapping_mul(*step)),
            Map::Table(values) => {
                // A place is at most `last`, a `usize` since the table has that many.
                usize::try_from(self.at).map_or(0, |at| values[at])
            }
        }
    }

    /// Steps `steps` times; how often it came round.
    #[inline]
    fn advance(&mut self, steps: u64) -> u64 {
        if self.stride == 1 {
            let left = self.last - self.at;
            if steps <= left {
                self.at += steps;
                return 0;
            }
            let past = steps - left - 1;
            if past <= self.last {
                self.at = past;
                return 1;
            }
        }
        self.advance_far(steps)
    }

    #[cold]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a place is at most `last`; it comes \
        round less often than it steps, since the stride is less than a round"
    )]
    fn advance_far(&mut self, steps: u64) -> u64 {
        let places = u128::from(self.last) + 1;
        let at = u128::from(self.at) + u128::from(steps) * u128::from(self.stride);
        self.at = (at % places) as u64;
        (at / places) as u64
    }
}

/// Digits that step together: the first each frame, each further one when the one before it
/// comes round. Several cores share it by taking every n-th state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) digits: Box<[Digit]>,
    /// States until it starts again, if that is before its digits come round.
    pub(super) limit: Option<u64>,
    /// States from one frame to the next.
    pub(super) jump: u64,
    /// The state of the first frame, counted from the digits' own.
    pub(super) start: u64,
    /// The state now, modulo the limit; not kept without one.
    pub(super) at: u64,
}

impl Chain {
    /// The part of `digits`' states that begins at `start` and goes on by `jump`.
    pub(super) fn new(digits: Vec<Digit>, limit: Option<u64>, start: u64, jump: u64) -> Self {
        let mut chain = Self {
            digits: digits.into(),
            limit,
            jump,
            start,
            at: 0,
        };
        chain.restart();
        chain
    }

    /// Back to the first frame.
    pub(super) fn restart(&mut self) {
        self.go_to(self.limit.map_or(self.start, |limit| self.start % limit));
    }

    fn go_to(&mut self, state: u64) {
        self.at = state;
        for digit in &mut self.digits {
            digit.at = digit.first;
        }
        self.carry(state);
    }

    #[inline]
    fn carry(&mut self, mut places: u64) {
        for digit in &mut self.digits {
            if places == 0 {
                break;
            }
            places = digit.advance(places);
        }
    }

    #[inline]
    fn advance(&mut self) {
        match self.limit {
            None => self.carry(self.jump),
            // Written so that it cannot overflow: `at` is below the limit.
            Some(limit) if self.jump % limit >= limit - self.at => {
                self.go_to(self.jump % limit - (limit - self.at));
            }
            Some(limit) => {
                self.at += self.jump % limit;
                self.carry(self.jump % limit);
            }
        }
    }

    /// Frames until it is where it began; none if a `u128` does not count them.
    pub(super) fn period(&self) -> Option<u128> {
        let jump = u128::from(self.jump);
        if let Some(limit) = self.limit.map(u128::from) {
            return Some(limit / gcd(limit, jump));
        }
        // Frames after which the digits so far are where they began, and how often the next one
        // steps in that time.
        let (mut frames, mut steps) = (1_u128, jump);
        for digit in &self.digits {
            let places = u128::from(digit.last) + 1;
            let moved = steps.checked_mul(digit.stride.into())?;
            let rounds = places / gcd(places, moved);
            frames = frames.checked_mul(rounds)?;
            steps = moved.checked_mul(rounds)? / places;
        }
        Some(frames)
    }
}

/// Greatest common divisor; `gcd(a, 0)` is `a`.
pub(super) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Values that are drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dice {
    pub(super) rng: Rng,
    pub(super) start: Rng,
    /// How many values there are; 0 for 2^64.
    pub(super) range: u64,
    pub(super) map: Map,
    pub(super) slot: usize,
}

impl Dice {
    #[inline]
    fn next(&mut self) -> u64 {
        let place = self.rng.below(self.range);
        match &self.map {
            Map::Linear { first, .. } => first.wrapping_add(place),
            Map::Table(values) => usize::try_from(place).map_or(0, |place| values[place]),
        }
    }
}

/// Values for one or more slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Chain(Chain),
    Dice(Dice),
}

impl Source {
    /// The next `count` values for each of its slots.
    #[inline]
    #[expect(clippy::needless_range_loop, reason = "a column of several rows")]
    pub(super) fn fill<const N: usize>(&mut self, slots: &mut [[u64; N]], count: usize) {
        match self {
            Self::Chain(chain) => {
                for n in 0..count {
                    for digit in &chain.digits {
                        slots[digit.slot][n] = digit.value();
                    }
                    chain.advance();
                }
            }
            Self::Dice(dice) => {
                let slot = dice.slot;
                for value in &mut slots[slot][..count] {
                    *value = dice.next();
                }
            }
        }
    }

    /// Back to the first frame.
    pub(super) fn restart(&mut self) {
        match self {
            Self::Chain(chain) => chain.restart(),
            Self::Dice(dice) => dice.rng = dice.start,
        }
    }

    /// Frames until it is where it began; none if it is random, or too many.
    pub(super) fn period(&self) -> Option<u128> {
        match self {
            Self::Chain(chain) => chain.period(),
            Self::Dice(dice) => (dice.range == 1).then_some(1),
        }
    }
}
