//! A burst: up to 64 frames on their way.

use crate::frame::Frame;

/// Most frames in a burst.
pub const BURST: usize = 64;

/// Up to [`BURST`] frames, first in first out, in a fixed place: moving frames through it
/// neither allocates nor frees.
pub struct Burst {
    frames: [Option<Frame>; BURST],
    first: usize,
    end: usize,
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Burst {
    /// An empty burst.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            frames: [const { None }; BURST],
            first: 0,
            end: 0,
        }
    }

    /// Frames in it.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.first
    }

    /// True when it has none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Frames that still fit.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        BURST - self.len()
    }

    /// Adds a frame at the end; gives it back if the burst is full.
    ///
    /// # Errors
    /// There is no room.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.end == BURST {
            self.close_up();
        }
        let Some(slot) = self.frames.get_mut(self.end) else {
            return Err(frame);
        };
        *slot = Some(frame);
        self.end += 1;
        Ok(())
    }

    /// Takes the first frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.get_mut(self.first)?.take()?;
        self.first += 1;
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
        }
        Some(frame)
    }

    /// Takes the last frame.
    #[inline]
    pub fn pop_last(&mut self) -> Option<Frame> {
        let last = self.end.checked_sub(1)?;
        let frame = self.frames[last].take()?;
        self.end = last;
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
        }
        Some(frame)
    }

    /// Moves up to `count` of the first frames to the end of `other`; how many it moved.
    pub fn move_to(&mut self, other: &mut Self, count: usize) -> usize {
        let count = count.min(self.len()).min(other.room());
        for _ in 0..count {
            let Some(frame) = self.pop() else { break };
            other
                .push(frame)
                .unwrap_or_else(|_| unreachable!("there is room for `count`"));
        }
        count
    }

    /// The frames, first to last.
    pub fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.frames[self.first..self.end].iter().flatten()
    }

    /// The frames, first to last, to change.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Frame> {
        self.frames[self.first..self.end].iter_mut().flatten()
    }

    /// The frame at `index`, counted from the first.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Frame> {
        self.frames[self.first..self.end].get(index)?.as_ref()
    }

    /// Sends every frame home to its pool.
    pub fn clear(&mut self) {
        while self.pop().is_some() {}
    }

    fn close_up(&mut self) {
        self.frames.rotate_left(self.first);
        self.end -= self.first;
        self.first = 0;
    }
}
