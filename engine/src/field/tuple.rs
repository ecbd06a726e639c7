//! The kernel for the tuple generator.

use hugemem::Frame;

use super::feed::{Counter, low};
use super::header::{HeaderSum, is_address};
use super::plan::{Plan, Put};
use super::source::{Chain, Digit, Source};
use crate::frame::checksum::finish;

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
    pub(super) fn new(plan: &Plan) -> Option<Self> {
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
    pub(super) fn run(&mut self, frames: &mut [Frame], prepare: impl Fn(&mut Frame)) {
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

    pub(super) fn restart(&mut self) {
        self.begin(self.start);
    }
}
