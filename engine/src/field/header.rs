//! The kernel for addresses of an IPv4 header.

use hugemem::Frame;

use super::feed::Feed;
use super::plan::{Plan, Put, Sum};
use crate::frame::checksum::finish;

/// Four-byte fields in one IPv4 header, and its checksum.
#[derive(Debug)]
pub(super) struct Header<F> {
    pub(super) source: F,
    at: [usize; 2],
    base: u64,
    checksum: usize,
}

impl<F: Feed> Header<F> {
    /// The kernel for `plan`, if this one can run it.
    pub(super) fn new(plan: &Plan) -> Option<Self> {
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
    pub(super) fn run(&mut self, frames: &mut [Frame], prepare: impl Fn(&mut Frame)) {
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
pub(super) fn is_address(put: &Put) -> bool {
    put.width == 4 && put.is_whole() && !put.little_endian
}

/// The only checksum of a plan, if it is an incremental one that may be 0: an IPv4 header's.
pub(super) struct HeaderSum<'a> {
    pub(super) base: u64,
    pub(super) words: &'a [usize],
    pub(super) checksum: usize,
}

impl<'a> HeaderSum<'a> {
    pub(super) fn of(plan: &'a Plan) -> Option<Self> {
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
    pub(super) fn covers_just(&self, mut words: Vec<usize>) -> bool {
        words.sort_unstable();
        let mut mine = self.words.to_vec();
        mine.sort_unstable();
        words == mine
    }
}
