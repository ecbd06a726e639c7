//! The kernel for any program.

use hugemem::{BURST, Frame};

use super::plan::{Plan, Put, Sum};
use crate::frame::checksum::{finish, write_full};

/// Any program: values first, then one write after the other, then the checksums, each over the
/// whole burst.
#[derive(Debug)]
pub(super) struct General {
    plan: Plan,
    values: Box<[[u64; BURST]]>,
}

impl General {
    pub(super) fn new(plan: Plan) -> Self {
        let values = vec![[0; BURST]; plan.slots].into();
        Self { plan, values }
    }

    pub(super) fn restart(&mut self) {
        for source in &mut self.plan.sources {
            source.restart();
        }
    }

    /// At most [`BURST`] frames.
    pub(super) fn run(&mut self, frames: &mut [Frame]) {
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
