//! What runs for each frame.
//!
//! Common programs have a kernel of their own, in which everything is known but the numbers:
//! one or two counters or dice written into an IPv4 header, and the tuple generator. Any other
//! program runs [`General`]: one write at a time over a whole burst.

use hugemem::{BURST, Frame};

use super::plan::{Plan, Put, Sum};
use super::source::{Chain, Dice, Digit, Map, Source};
use crate::frame::checksum::{finish, write_full};

/// A program that is ready to run.
#[derive(Debug)]
pub(super) enum Kernel {
    /// Nothing varies.
    Constant,
    /// One counter in the IPv4 header.
    Counter(Header<Counter>),
    /// One random field in the IPv4 header.
    Random(Header<Throw>),
    /// Two counters.
    Counters(Header<(Counter, Counter)>),
    /// Two random fields.
    Randoms(Header<(Throw, Throw)>),
    /// The tuple generator, with ports that no checksum covers.
    Tuple(Tuple),
    /// Anything else.
    General(Box<General>),
}

impl Kernel {
    /// The kernel for `plan`.
    pub(super) fn new(plan: Plan) -> Self {
        if plan.puts.is_empty() && plan.size.is_none() {
            // Checksums of a template that does not vary are right, or meant to be wrong.
            return Self::Constant;
        }
        Tuple::new(&plan)
            .map(Self::Tuple)
            .or_else(|| Header::new(&plan).map(Self::Counter))
            .or_else(|| Header::new(&plan).map(Self::Random))
            .or_else(|| Header::new(&plan).map(Self::Counters))
            .or_else(|| Header::new(&plan).map(Self::Randoms))
            .unwrap_or_else(|| Self::General(Box::new(General::new(plan))))
    }

    /// Writes what varies into each of `frames`, which hold the template in its full length.
    #[inline]
    pub(super) fn run(&mut self, frames: &mut [Frame], prepare: impl Fn(&mut Frame)) {
        match self {
            Self::Constant => frames.iter_mut().for_each(prepare),
            Self::Counter(kernel) => kernel.run(frames, prepare),
            Self::Random(kernel) => kernel.run(frames, prepare),
            Self::Counters(kernel) => kernel.run(frames, prepare),
            Self::Randoms(kernel) => kernel.run(frames, prepare),
            Self::Tuple(kernel) => kernel.run(frames, prepare),
            Self::General(kernel) => {
                for part in frames.chunks_mut(BURST) {
                    part.iter_mut().for_each(&prepare);
                    kernel.run(part);
                }
            }
        }
    }

    /// Back to the first frame.
    pub(super) fn restart(&mut self) {
        match self {
            Self::Constant => {}
            Self::Counter(kernel) => kernel.source.restart(),
            Self::Random(kernel) => kernel.source.restart(),
            Self::Counters(kernel) => kernel.source.restart(),
            Self::Randoms(kernel) => kernel.source.restart(),
            Self::Tuple(kernel) => kernel.restart(),
            Self::General(kernel) => kernel.restart(),
        }
    }
}

/// A counter of 32 bits that steps once a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counter {
    at: u32,
    start: u32,
    places: u32,
    jump: u32,
    first: u32,
    step: u32,
}

/// Most places of a [`Counter`]: `at + jump` stays below 2^32.
const MOST_PLACES: u64 = 1 << 31;

impl Counter {
    /// The only digit of a chain, in 32 bits, `add` added.
    fn of(chain: &Chain, add: u32) -> Option<Self> {
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
    fn value(&self) -> u32 {
        self.first.wrapping_add(self.at.wrapping_mul(self.step))
    }

    /// Steps; whether it came round.
    #[inline]
    fn advance(&mut self) -> bool {
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
const fn low(value: u64) -> u32 {
    value as u32
}

/// A random value of 32 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Throw {
    rng: super::rng::Rng,
    start: super::rng::Rng,
    range: u64,
    first: u32,
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

/// Four-byte fields in one IPv4 header, and its checksum.
#[derive(Debug)]
pub(super) struct Header<F> {
    source: F,
    at: [usize; 2],
    base: u64,
    checksum: usize,
}

impl<F: Feed> Header<F> {
    /// The kernel for `plan`, if this one can run it.
    fn new(plan: &Plan) -> Option<Self> {
        let header = HeaderSum::of(plan)?;
        if plan.puts.len() != F::FIELDS || plan.size.is_some() {
            return None;
        }
        let mut words = Vec::new();
        let mut at = [0; 2];
        for (put, at) in plan.puts.iter().zip(&mut at) {
            if !is_address(put) {
                return None;
            }
            words.extend([put.offset, put.offset + 2]);
            *at = put.offset;
        }
        header.covers_just(words).then_some(())?;
        Some(Self {
            source: F::of(plan)?,
            at,
            base: header.base,
            checksum: header.checksum,
        })
    }

    #[inline]
    fn run(&mut self, frames: &mut [Frame], prepare: impl Fn(&mut Frame)) {
        for frame in frames {
            prepare(frame);
            let values = self.source.next();
            let bytes = frame.bytes_mut();
            let mut total = self.base;
            for (value, at) in values.as_ref().iter().zip(self.at) {
                bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
                total += u64::from(*value);
            }
            let at = self.checksum;
            bytes[at..at + 2].copy_from_slice(&finish(total).to_be_bytes());
        }
    }
}

/// A whole write of four bytes in network order.
fn is_address(put: &Put) -> bool {
    put.width == 4 && put.is_whole() && !put.little_endian
}

/// The only checksum of a plan, if it is an incremental one that may be 0: an IPv4 header's.
struct HeaderSum<'a> {
    base: u64,
    words: &'a [usize],
    checksum: usize,
}

impl<'a> HeaderSum<'a> {
    fn of(plan: &'a Plan) -> Option<Self> {
        match &*plan.sums {
            [
                Sum::Incremental {
                    base,
                    words,
                    checksum,
                    never_zero: false,
                },
            ] => Some(Self {
                base: *base,
                words,
                checksum: *checksum,
            }),
            _ => None,
        }
    }

    /// Whether what varies under it is these words and no others. A field at an odd offset has
    /// other words than its own, and one written twice has them once.
    fn covers_just(&self, mut words: Vec<usize>) -> bool {
        words.sort_unstable();
        let mut mine = self.words.to_vec();
        mine.sort_unstable();
        words == mine
    }
}

/// The tuple generator: an address in an IPv4 header, and a port that no checksum covers.
#[derive(Debug)]
pub(super) struct Tuple {
    ip: Counter,
    port: Counter,
    /// Pairs until it starts again; a core takes every `ip.jump`-th of them.
    limit: u64,
    /// Frames until then, and the pair that the next round starts with.
    left: u64,
    next_round: u64,
    start: u64,
    ip_at: usize,
    port_at: usize,
    base: u64,
    checksum: usize,
}

impl Tuple {
    fn new(plan: &Plan) -> Option<Self> {
        let ([Source::Chain(chain)], [ip, port]) = (&*plan.sources, &*plan.puts) else {
            return None;
        };
        let [first, second] = &*chain.digits else {
            return None;
        };
        let header = HeaderSum::of(plan)?;
        let limit = chain.limit.unwrap_or(u64::MAX);
        let fits = is_address(ip)
            && (ip.slot, port.slot) == (first.slot, second.slot)
            && port.width == 2
            && port.is_whole()
            && !port.little_endian
            && plan.size.is_none()
            && header.covers_just(vec![ip.offset, ip.offset + 2])
            // The address comes round once a frame at most, and so does all of it.
            && chain.jump <= first.last
            && chain.jump <= limit
            && (first.first, second.first) == (0, 0);
        if !fits {
            return None;
        }
        let alone = |digit: &Digit, put: &Put, jump| {
            let digits = Box::from([digit.clone()]);
            Counter::of(
                &Chain {
                    digits,
                    limit: None,
                    jump,
                    start: 0,
                    at: 0,
                },
                low(put.add),
            )
        };
        let mut tuple = Self {
            ip: alone(first, ip, chain.jump)?,
            port: alone(second, port, 1)?,
            limit,
            left: 0,
            next_round: 0,
            start: chain.start % limit,
            ip_at: ip.offset,
            port_at: port.offset,
            base: header.base,
            checksum: header.checksum,
        };
        tuple.restart();
        Some(tuple)
    }

    #[inline]
    fn run(&mut self, frames: &mut [Frame], prepare: impl Fn(&mut Frame)) {
        for frame in frames {
            prepare(frame);
            let ip = self.ip.value();
            let [.., high, low] = self.port.value().to_be_bytes();
            let bytes = frame.bytes_mut();
            bytes[self.ip_at..self.ip_at + 4].copy_from_slice(&ip.to_be_bytes());
            bytes[self.port_at..self.port_at + 2].copy_from_slice(&[high, low]);
            let checksum = finish(self.base + u64::from(ip));
            bytes[self.checksum..self.checksum + 2].copy_from_slice(&checksum.to_be_bytes());
            self.advance();
        }
    }

    #[inline]
    fn advance(&mut self) {
        if self.ip.advance() {
            self.port.advance();
        }
        self.left -= 1;
        if self.left == 0 {
            self.begin(self.next_round);
        }
    }

    /// Starts a round with pair number `pair`.
    #[cold]
    fn begin(&mut self, pair: u64) {
        let places = u64::from(self.ip.places);
        self.ip.at = low(pair % places);
        self.port.at = low(pair / places % u64::from(self.port.places));
        let jump = u64::from(self.ip.jump);
        self.left = (self.limit - pair).div_ceil(jump);
        // Past the limit by less than a jump, which is at most the limit.
        self.next_round = jump - 1 - (self.limit - pair - 1) % jump;
    }

    fn restart(&mut self) {
        self.begin(self.start);
    }
}

/// Any program: values first, then one write after the other, then the checksums, each over the
/// whole burst.
#[derive(Debug)]
pub(super) struct General {
    plan: Plan,
    values: Box<[[u64; BURST]]>,
}

impl General {
    fn new(plan: Plan) -> Self {
        let values = vec![[0; BURST]; plan.slots].into();
        Self { plan, values }
    }

    fn restart(&mut self) {
        for source in &mut self.plan.sources {
            source.restart();
        }
    }

    /// At most [`BURST`] frames.
    fn run(&mut self, frames: &mut [Frame]) {
        for source in &mut self.plan.sources {
            source.fill(&mut self.values, frames.len());
        }
        if let Some(slot) = self.plan.size {
            for (frame, len) in frames.iter_mut().zip(&self.values[slot]) {
                // The plan checked that the template is as long.
                frame.set_len(usize::try_from(*len).unwrap_or_default());
            }
        }
        for put in &self.plan.puts {
            let values = &self.values[put.slot];
            if put.is_whole() && !put.little_endian {
                match put.width {
                    1 => write_whole::<1>(put, values, frames),
                    2 => write_whole::<2>(put, values, frames),
                    4 => write_whole::<4>(put, values, frames),
                    6 => write_whole::<6>(put, values, frames),
                    8 => write_whole::<8>(put, values, frames),
                    _ => write_masked(put, values, frames),
                }
            } else {
                write_masked(put, values, frames);
            }
        }
        for sum in &self.plan.sums {
            correct(sum, frames);
        }
    }
}

/// A write of `N` whole bytes.
#[inline]
fn write_whole<const N: usize>(put: &Put, values: &[u64], frames: &mut [Frame]) {
    for (frame, value) in frames.iter_mut().zip(values) {
        let bytes = value.wrapping_add(put.add).to_be_bytes();
        frame.bytes_mut()[put.offset..put.offset + N].copy_from_slice(&bytes[8 - N..]);
    }
}

/// A write of some bits, or of an odd number of bytes, or backwards.
fn write_masked(put: &Put, values: &[u64], frames: &mut [Frame]) {
    for (frame, value) in frames.iter_mut().zip(values) {
        let place = &mut frame.bytes_mut()[put.offset..put.offset + put.width];
        let mut held = [0; 8];
        let own = &mut held[8 - put.width..];
        own.copy_from_slice(place);
        if put.little_endian {
            own.reverse();
        }
        let mixed = u64::from_be_bytes(held) & !put.mask | put.shape(*value);
        place.copy_from_slice(&mixed.to_be_bytes()[8 - put.width..]);
        if put.little_endian {
            place.reverse();
        }
    }
}

fn correct(sum: &Sum, frames: &mut [Frame]) {
    match sum {
        Sum::Full(fix) => {
            for frame in frames {
                write_full(frame.bytes_mut(), fix);
            }
        }
        Sum::Incremental {
            base,
            words,
            checksum,
            never_zero,
        } => {
            for frame in frames {
                let bytes = frame.bytes_mut();
                let word = |at: &usize| u64::from(u16::from_be_bytes([bytes[*at], bytes[at + 1]]));
                let total = base + words.iter().map(word).sum::<u64>();
                let value = match finish(total) {
                    0 if *never_zero => 0xffff,
                    value => value,
                };
                bytes[*checksum..checksum + 2].copy_from_slice(&value.to_be_bytes());
            }
        }
    }
}
