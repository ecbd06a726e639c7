//! Values for the kernels that know how many there are: counters and dice of 32 bits.

use super::plan::Plan;
use super::rng::Rng;
use super::source::{Chain, Dice, Map, Source};

/// A counter of 32 bits that steps once a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counter {
    pub(super) at: u32,
    pub(super) start: u32,
    pub(super) places: u32,
    pub(super) jump: u32,
    pub(super) first: u32,
    pub(super) step: u32,
}

/// Most places of a [`Counter`]: `at + jump` stays below 2^32.
const MOST_PLACES: u64 = 1 << 31;

impl Counter {
    /// The only digit of a chain, in 32 bits, `add` added.
    pub(super) fn of(chain: &Chain, add: u32) -> Option<Self> {
        let ([digit], None) = (&*chain.digits, chain.limit) else {
            return None;
        };
        let Map::Linear { first, step } = digit.map else {
            return None;
        };
        if digit.last >= MOST_PLACES {
            return None;
        }
        let places = digit.last + 1;
        Some(Self {
            at: low(digit.at),
            start: low(digit.at),
            places: low(places),
            jump: low(chain.jump % places),
            first: low(first).wrapping_add(add),
            step: low(step),
        })
    }

    #[inline]
    pub(super) fn value(&self) -> u32 {
        self.first.wrapping_add(self.at.wrapping_mul(self.step))
    }

    /// Steps; whether it came round.
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        let at = self.at + self.jump;
        let round = at >= self.places;
        self.at = if round { at - self.places } else { at };
        round
    }

    #[inline]
    fn next(&mut self) -> u32 {
        let value = self.value();
        self.advance();
        value
    }
}

/// The low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "arithmetic modulo 2^32")]
pub(super) const fn low(value: u64) -> u32 {
    value as u32
}

/// A random value of 32 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Throw {
    rng: Rng,
    start: Rng,
    range: u64,
    pub(super) first: u32,
}

impl Throw {
    fn of(dice: &Dice, add: u32) -> Option<Self> {
        let Map::Linear { first, .. } = dice.map else {
            return None;
        };
        if dice.range == 0 {
            return None;
        }
        let first = low(first).wrapping_add(add);
        Some(Self {
            rng: dice.rng,
            start: dice.start,
            range: dice.range,
            first,
        })
    }
}

/// Where a kernel's values come from: `N` of them a frame.
pub(super) trait Feed: Sized {
    /// How many.
    const FIELDS: usize;
    /// Them.
    type Values: AsRef<[u32]>;

    /// The feed of a plan's writes, in their order, if it is of this kind.
    fn of(plan: &Plan) -> Option<Self>;
    /// The next values.
    fn next(&mut self) -> Self::Values;
    /// Back to the first.
    fn restart(&mut self);
}

/// The source of a put's slot, and what the put adds.
fn source(plan: &Plan, put: usize) -> Option<(&Source, u32)> {
    let put = plan.puts.get(put)?;
    let mut sources = plan.sources.iter();
    let source = sources.find(|source| match source {
        Source::Chain(chain) => chain.digits.iter().any(|digit| digit.slot == put.slot),
        Source::Dice(dice) => dice.slot == put.slot,
    })?;
    Some((source, low(put.add)))
}

impl Feed for Counter {
    const FIELDS: usize = 1;
    type Values = [u32; 1];

    fn of(plan: &Plan) -> Option<Self> {
        match source(plan, 0)? {
            (Source::Chain(chain), add) => Self::of(chain, add),
            (Source::Dice(_), _) => None,
        }
    }

    #[inline]
    fn next(&mut self) -> [u32; 1] {
        [self.next()]
    }

    fn restart(&mut self) {
        self.at = self.start;
    }
}

impl Feed for Throw {
    const FIELDS: usize = 1;
    type Values = [u32; 1];

    fn of(plan: &Plan) -> Option<Self> {
        match source(plan, 0)? {
            (Source::Dice(dice), add) => Self::of(dice, add),
            (Source::Chain(_), _) => None,
        }
    }

    #[inline]
    fn next(&mut self) -> [u32; 1] {
        [self.first.wrapping_add(low(self.rng.below(self.range)))]
    }

    fn restart(&mut self) {
        self.rng = self.start;
    }
}

impl Feed for (Counter, Counter) {
    const FIELDS: usize = 2;
    type Values = [u32; 2];

    fn of(plan: &Plan) -> Option<Self> {
        let counter = |put| match source(plan, put)? {
            (Source::Chain(chain), add) => Counter::of(chain, add),
            (Source::Dice(_), _) => None,
        };
        Some((counter(0)?, counter(1)?))
    }

    #[inline]
    fn next(&mut self) -> [u32; 2] {
        [self.0.next(), self.1.next()]
    }

    fn restart(&mut self) {
        self.0.restart();
        self.1.restart();
    }
}

impl Feed for (Throw, Throw) {
    const FIELDS: usize = 2;
    type Values = [u32; 2];

    fn of(plan: &Plan) -> Option<Self> {
        let throw = |put| match source(plan, put)? {
            (Source::Dice(dice), add) => Throw::of(dice, add),
            (Source::Chain(_), _) => None,
        };
        // One variable written twice is thrown once.
        let apart = plan.puts.first()?.slot != plan.puts.get(1)?.slot;
        apart.then_some((throw(0)?, throw(1)?))
    }

    #[inline]
    fn next(&mut self) -> [u32; 2] {
        let ([a], [b]) = (Feed::next(&mut self.0), Feed::next(&mut self.1));
        [a, b]
    }

    fn restart(&mut self) {
        self.0.restart();
        self.1.restart();
    }
}
