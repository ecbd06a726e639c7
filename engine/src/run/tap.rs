//! A tap: copies of received frames, for whoever writes them down.
//!
//! The data path fills copies that were made before, and waits for nobody: a frame that finds none
//! is counted as dropped. Whoever takes copies gives them back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::queue::ArrayQueue;
use crossbeam::utils::CachePadded;

/// A copy of a received frame.
#[derive(Debug, Default)]
pub struct Copied {
    /// The port that received it, by its number in the plan.
    pub port: usize,
    /// When, on the run's clock: the time of the poll that found it.
    pub at_ns: u64,
    /// Its length in bytes, without FCS.
    pub len: usize,
    /// Its first bytes, as many as the tap keeps.
    pub bytes: Vec<u8>,
}

/// Where copies come from and go to.
#[derive(Debug, Clone)]
pub struct Tap(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    full: ArrayQueue<Copied>,
    empty: ArrayQueue<Copied>,
    /// Bytes that are kept of a frame.
    keeps: usize,
    /// By port.
    dropped: Box<[CachePadded<AtomicU64>]>,
}

impl Tap {
    /// A tap of `ports` ports with so many `copies` that may be under way, of frames' first `keeps`
    /// bytes.
    #[must_use]
    pub fn new(ports: usize, copies: usize, keeps: usize) -> Self {
        let copies = copies.max(1);
        let inner = Inner {
            full: ArrayQueue::new(copies),
            empty: ArrayQueue::new(copies),
            keeps,
            dropped: (0..ports).map(|_| CachePadded::default()).collect(),
        };
        let tap = Self(Arc::new(inner));
        for _ in 0..copies {
            tap.give_back(Copied {
                bytes: Vec::with_capacity(keeps),
                ..Copied::default()
            });
        }
        tap
    }

    /// The oldest copy that nobody took yet.
    #[must_use]
    pub fn take(&self) -> Option<Copied> {
        self.0.full.pop()
    }

    /// Gives a copy back, for another frame.
    pub fn give_back(&self, copied: Copied) {
        // There is room for all that there are.
        let kept = self.0.empty.push(copied);
        debug_assert!(kept.is_ok());
    }

    /// Frames of a port that found no copy to be written into.
    #[must_use]
    pub fn dropped(&self, port: usize) -> u64 {
        let count = self.0.dropped.get(port);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// The end where the frames of `port` go in.
    pub(super) fn end(&self, port: usize) -> TapEnd {
        TapEnd {
            tap: Arc::clone(&self.0),
            port,
            open: None,
            skips: false,
        }
    }
}

/// Where one queue's frames go in.
#[derive(Debug)]
pub(super) struct TapEnd {
    tap: Arc<Inner>,
    port: usize,
    /// A frame of which only the first buffers have come.
    open: Option<Copied>,
    /// The rest of a frame that was dropped is yet to come.
    skips: bool,
}

impl TapEnd {
    /// Copies a buffer; `more` of its frame follow.
    pub(super) fn note(&mut self, bytes: &[u8], more: bool, now_ns: u64) {
        if self.skips {
            self.skips = more;
            return;
        }
        let Some(mut copied) = self.open.take().or_else(|| self.begin(now_ns)) else {
            if let Some(dropped) = self.tap.dropped.get(self.port) {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
            self.skips = more;
            return;
        };
        let room = self.tap.keeps.saturating_sub(copied.bytes.len());
        copied
            .bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        copied.len += bytes.len();
        if more {
            self.open = Some(copied);
        } else {
            let kept = self.tap.full.push(copied);
            debug_assert!(kept.is_ok());
        }
    }

    fn begin(&self, now_ns: u64) -> Option<Copied> {
        let mut copied = self.tap.empty.pop()?;
        copied.bytes.clear();
        (copied.port, copied.at_ns, copied.len) = (self.port, now_ns, 0);
        Some(copied)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn frames_are_copied_whole_or_in_part_and_those_without_a_copy_are_counted() {
        let tap = Tap::new(2, 2, 10);
        let mut end = tap.end(1);
        for lap in 0..5 {
            end.note(&[1; 4], true, lap);
            end.note(&[2; 4], true, lap + 100);
            end.note(&[3; 4], false, lap + 200);
            end.note(&[4; 3], false, lap);
            // Both copies are under way: a frame in two buffers is one that is dropped.
            end.note(&[5; 3], true, lap);
            end.note(&[6; 3], false, lap);
            let first = tap.take().unwrap();
            assert_eq!((first.port, first.at_ns, first.len), (1, lap, 12));
            assert_eq!(first.bytes, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3], "ten of twelve");
            let second = tap.take().unwrap();
            assert_eq!((&second.bytes[..], second.len), (&[4; 3][..], 3));
            assert!(tap.take().is_none());
            assert_eq!((tap.dropped(0), tap.dropped(1)), (0, lap + 1));
            tap.give_back(first);
            tap.give_back(second);
        }
    }
}
