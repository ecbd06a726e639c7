//! What runs for each frame.
//!
//! Common programs have a kernel of their own, in which everything is known but the numbers:
//! one or two counters or dice written into an IPv4 header, and the tuple generator. Any other
//! program runs [`General`]: one write at a time over a whole burst.

use hugemem::{BURST, Frame};

use super::feed::{Counter, Feed, Throw};
use super::general::General;
use super::header::Header;
use super::plan::Plan;
use super::tuple::Tuple;

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
