//! A burst: up to 64 frames on their way.
#![expect(
    unsafe_code,
    reason = "moves frames in blocks, without marking each place empty"
)]

use std::fmt;
use std::mem::MaybeUninit;

use crate::frame::Frame;

/// Most frames in a burst.
pub const BURST: usize = 64;

/// Up to [`BURST`] frames, first in first out, in a fixed place: moving frames through it
/// neither allocates nor frees.
pub struct Burst {
    /// Invariant: `first <= end <= BURST`, and the places `first..end`, no others, hold frames.
    frames: [MaybeUninit<Frame>; BURST],
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
            frames: [const { MaybeUninit::uninit() }; BURST],
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
        let Some(place) = self.frames.get_mut(self.end) else {
            return Err(frame);
        };
        place.write(frame);
        self.end += 1;
        Ok(())
    }

    /// Takes the first frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        if self.is_empty() {
            return None;
        }
        let place = &self.frames[self.first];
        // SAFETY: the place is in `first..end`, so it holds a frame; the next line takes it out
        // of that range, so the frame moves and is not doubled.
        let frame = unsafe { place.assume_init_read() };
        self.first += 1;
        self.rewind();
        Some(frame)
    }

    /// Takes the last frame.
    #[inline]
    pub fn pop_last(&mut self) -> Option<Frame> {
        if self.is_empty() {
            return None;
        }
        let last = self.end - 1;
        // SAFETY: as for `pop`, at the other end.
        let frame = unsafe { self.frames[last].assume_init_read() };
        self.end = last;
        self.rewind();
        Some(frame)
    }

    /// Moves up to `count` of the first frames to the end of `other`, in order; how many it
    /// moved.
    #[inline]
    pub fn move_to(&mut self, other: &mut Self, count: usize) -> usize {
        let moved = self.move_out(other.places(count), count);
        // SAFETY: `move_out` filled the first `moved` of the places.
        unsafe { other.filled(moved) };
        moved
    }

    /// Moves up to `count` of the first frames into `places`, which hold none; how many it moved.
    /// Whoever owns the places counts them in.
    #[inline]
    pub(crate) fn move_out(&mut self, places: &mut [MaybeUninit<Frame>], count: usize) -> usize {
        let moved = count.min(self.len()).min(places.len());
        let from = self.frames[self.first..self.end][..moved].as_ptr();
        // SAFETY: (1) `from` has `moved` places that hold frames; (2) `places` has as many, and
        // is borrowed from elsewhere, so they do not overlap; (3) the next line takes the frames
        // out of `first..end`, so that none is doubled.
        unsafe { std::ptr::copy_nonoverlapping(from, places.as_mut_ptr(), moved) };
        self.first += moved;
        self.rewind();
        moved
    }

    /// [`Burst::move_out`] for one frame: copied in place, without a call. False if there is none.
    #[inline]
    pub(crate) fn move_first(&mut self, place: &mut MaybeUninit<Frame>) -> bool {
        if self.is_empty() {
            return false;
        }
        let from = &raw const self.frames[self.first];
        // SAFETY: (1) `first..end` is not empty, so `from` holds a frame; (2) `place` is borrowed
        // from elsewhere; (3) the next line takes the frame out of `first..end`, so that it is
        // not doubled.
        unsafe { std::ptr::copy_nonoverlapping(from, place, 1) };
        self.first += 1;
        self.rewind();
        true
    }

    /// One empty place at the end, as of [`Burst::places`].
    #[inline]
    pub(crate) fn place(&mut self) -> Option<&mut MaybeUninit<Frame>> {
        if self.end == BURST {
            self.close_up();
        }
        self.frames.get_mut(self.end)
    }

    /// Up to `count` empty places at the end, for frames that are moved there as a block; then
    /// [`Burst::filled`] counts them in.
    #[inline]
    pub(crate) fn places(&mut self, count: usize) -> &mut [MaybeUninit<Frame>] {
        let count = count.min(self.room());
        if self.end + count > BURST {
            self.close_up();
        }
        &mut self.frames[self.end..][..count]
    }

    /// Counts in `count` frames.
    ///
    /// # Safety
    /// That many of the first places that [`Burst::places`] gave hold frames now.
    #[inline]
    pub(crate) unsafe fn filled(&mut self, count: usize) {
        debug_assert!(self.end + count <= BURST, "places are inside the burst");
        self.end += count;
    }

    /// The frames, first to last.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[Frame] {
        // SAFETY: the places `first..end` hold frames.
        unsafe { self.frames[self.first..self.end].assume_init_ref() }
    }

    /// The frames, first to last, to change.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Frame] {
        // SAFETY: as for `as_slice`; the burst is borrowed for writing.
        unsafe { self.frames[self.first..self.end].assume_init_mut() }
    }

    /// The frames, first to last.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Frame> {
        self.as_slice().iter()
    }

    /// The frames, first to last, to change.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Frame> {
        self.as_mut_slice().iter_mut()
    }

    /// The frame at `index`, counted from the first.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Frame> {
        self.as_slice().get(index)
    }

    /// Sends every frame home to its pool.
    pub fn clear(&mut self) {
        while self.pop().is_some() {}
    }

    /// An empty burst begins at the front again, so that `push` rarely has to close up.
    #[inline]
    fn rewind(&mut self) {
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
        }
    }

    /// Moves all frames to the front, so that all the room is at the end.
    #[cold]
    fn close_up(&mut self) {
        let len = self.len();
        self.frames.rotate_left(self.first);
        (self.first, self.end) = (0, len);
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<'a> IntoIterator for &'a Burst {
    type Item = &'a Frame;
    type IntoIter = std::slice::Iter<'a, Frame>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Burst {
    type Item = &'a mut Frame;
    type IntoIter = std::slice::IterMut<'a, Frame>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl fmt::Debug for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}
