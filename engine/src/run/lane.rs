//! A lane: the part of a stream that one send queue sends.

use std::sync::Arc;

use hugemem::{Burst, Frame};

use super::counters::LaneSent;
use super::pace::Pacer;
use super::stamp::{Key, sum_of_end};
use crate::field::{Share, Writer};
use crate::stream::FCS;

/// Which part of which stream a lane is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The stream's number in the run.
    pub(super) stream: usize,
    pub(super) share: Share,
    /// Its number in stamps, if it is measured.
    pub(super) stamp: Option<u32>,
}

/// The part of a stream that one send queue sends: where its frames come from, when they are due,
/// and what became of them.
pub(super) struct Lane {
    pub(super) part: Part,
    pub(super) pacer: Pacer,
    pub(super) supply: Supply,
    pub(super) counts: Arc<LaneSent>,
    /// Sent as fast as the port takes it, in proportion to the others: its time is virtual, and
    /// what is not sent was not asked for.
    pub(super) unlimited: bool,
}

/// Where a lane's frames come from.
pub(super) enum Supply {
    /// A part of the queue's resident set.
    Resident(Cycle),
    /// Written when they are sent.
    Written(Box<Pen>),
}

impl Supply {
    /// From here on, measured frames are those of a new trial: another key, numbers from 0.
    pub(super) fn begin_trial(&mut self, key: Key) {
        if let Self::Written(pen) = self
            && let Some(stamper) = &mut pen.stamper
        {
            (stamper.key, stamper.sequence) = (key, 0);
        }
    }
}

/// A stretch of a resident set that is sent again and again.
pub(super) struct Cycle {
    first: u32,
    len: u32,
    at: u32,
    sizes: Sizes,
}

/// Bytes of a stretch's frames, with FCS.
enum Sizes {
    /// All are of this size.
    Same(u64),
    /// Those of the first n frames, for each n.
    Sums(Box<[u64]>),
}

impl Cycle {
    /// The frames `frames` of a set, of which the first is number `first` of the set.
    pub(super) fn new(first: usize, frames: &[Frame]) -> Self {
        let number = |count| u32::try_from(count).expect("a set is limited to fewer frames");
        let sizes = || frames.iter().map(|frame| (frame.len() + FCS) as u64);
        let mut sums = vec![0];
        sums.extend(sizes().scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        }));
        let size = sizes().next().unwrap_or_default();
        let same = sizes().all(|other| other == size);
        Self {
            first: number(first),
            len: number(frames.len()),
            at: 0,
            sizes: if same {
                Sizes::Same(size)
            } else {
                Sizes::Sums(sums.into())
            },
        }
    }

    /// The number in the set of the next frame, and how many of `count` come before the stretch
    /// ends. A stretch that is the whole set does not end: the queue goes on at its start.
    #[inline]
    pub(super) fn next(&self, count: usize, whole: bool) -> (usize, usize) {
        let left = (self.len - self.at) as usize;
        let count = if whole { count } else { count.min(left) };
        ((self.first + self.at) as usize, count)
    }

    /// Goes past one frame: its number in the set, and its bytes.
    #[inline]
    pub(super) fn step(&mut self) -> (u32, u64) {
        let number = self.first + self.at;
        (number, self.advance(1))
    }

    /// Goes past `count` frames; their bytes.
    #[inline]
    pub(super) fn advance(&mut self, count: usize) -> u64 {
        let before = self.at as usize;
        let len = self.len as usize;
        let (laps, end) = match before + count {
            end if end < len => (0, end),
            end => (end / len, end % len),
        };
        // Below `len`, which is 32 bits wide.
        self.at = u32::try_from(end).unwrap_or_default();
        match &self.sizes {
            Sizes::Same(size) => size * count as u64,
            Sizes::Sums(sums) => laps as u64 * sums[len] + sums[end] - sums[before],
        }
    }
}

/// Writes frames, and stamps them if the lane is measured.
pub(super) struct Pen {
    pub(super) writer: Writer,
    pub(super) stamper: Option<Stamper>,
}

/// What stamps a lane's frames.
pub(super) struct Stamper {
    pub(super) key: Key,
    /// The lane's number in stamps.
    pub(super) lane: u32,
    pub(super) sequence: u32,
    /// The sum of the bytes that stamps replace, where it is always the same. Otherwise frames
    /// are written afresh each time, and it is taken from each.
    pub(super) sum: Option<u16>,
}

impl Pen {
    /// Makes every frame of `frames` hold the lane's next one; their bytes with FCS.
    #[inline]
    pub(super) fn write(&mut self, frames: &mut Burst, now_ns: u64) -> u64 {
        if let Some(Stamper { sum: None, .. }) = self.stamper {
            // The buffers hold old stamps at places that differ: nothing in them can be kept.
            for frame in frames.iter_mut() {
                frame.tag = 0;
            }
        }
        let bytes = self.writer.next_burst(frames) + frames.len() * FCS;
        if let Some(stamper) = &mut self.stamper {
            for frame in frames.iter_mut() {
                stamper.stamp(frame.bytes_mut(), now_ns);
            }
        }
        bytes as u64
    }
}

impl Stamper {
    #[inline]
    fn stamp(&mut self, bytes: &mut [u8], now_ns: u64) {
        let sum = self.sum.unwrap_or_else(|| sum_of_end(bytes));
        self.key.write(bytes, self.lane, self.sequence, now_ns, sum);
        self.sequence = self.sequence.wrapping_add(1);
    }
}
