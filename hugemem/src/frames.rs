//! A stock of frames at hand: what one worker keeps between its pool and its queues.
#![expect(
    unsafe_code,
    reason = "moves frames in blocks, without marking each place empty"
)]

use std::fmt;
use std::mem::MaybeUninit;

use crate::burst::Burst;
use crate::frame::Frame;

/// A stack of frames, last in first out, of a capacity fixed when it is made.
///
/// What was put down last is taken up first, as its bytes are likeliest still in the cache. It
/// is allocated once and never grows, so putting frames down and taking them up costs a copy of
/// the handles and nothing else.
pub struct Frames {
    /// Invariant: `len <= places.len()`, and the places `..len`, no others, hold frames.
    places: Box<[MaybeUninit<Frame>]>,
    len: usize,
}

impl Frames {
    /// A stack for up to `capacity` frames; empty.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            places: Box::new_uninit_slice(capacity),
            len: 0,
        }
    }

    /// Frames in it.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it has none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Frames that it can hold.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Frames that still fit.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.places.len() - self.len
    }

    /// Puts a frame on top; gives it back if the stack is full.
    ///
    /// # Errors
    /// There is no room.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        let Some(place) = self.places.get_mut(self.len) else {
            return Err(frame);
        };
        place.write(frame);
        self.len += 1;
        Ok(())
    }

    /// Takes the frame on top.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        let top = self.len.checked_sub(1)?;
        // SAFETY: the place is below `len`, so it holds a frame; the next line takes it out of
        // that range, so the frame moves and is not doubled.
        let frame = unsafe { self.places[top].assume_init_read() };
        self.len = top;
        Some(frame)
    }

    /// Takes up to `count` frames from the top into `burst`, as many as it has room for; how
    /// many it moved. They come as a block, the topmost last.
    #[inline]
    pub fn take(&mut self, burst: &mut Burst, count: usize) -> usize {
        let places = burst.places(count.min(self.len));
        let moved = places.len();
        let bottom = self.len - moved;
        let from = self.places[bottom..self.len].as_ptr();
        // SAFETY: (1) `from` has `moved` places that hold frames; (2) `places` are as many that
        // hold none, in another container; (3) the lines below take the frames out of this one.
        unsafe { std::ptr::copy_nonoverlapping(from, places.as_mut_ptr(), moved) };
        self.len = bottom;
        // SAFETY: the copy filled `moved` places.
        unsafe { burst.filled(moved) };
        moved
    }

    /// Puts up to `count` of the first frames of `burst` on top, as many as there is room for;
    /// how many it moved. They go as a block, the last of them on top.
    #[inline]
    pub fn put(&mut self, burst: &mut Burst, count: usize) -> usize {
        let places = &mut self.places[self.len..];
        let moved = burst.move_out(places, count);
        self.len += moved;
        moved
    }

    /// The frames, bottom to top.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[Frame] {
        // SAFETY: the places below `len` hold frames.
        unsafe { self.places[..self.len].assume_init_ref() }
    }

    /// The frames, bottom to top, to change: to render them once, before a run.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Frame] {
        // SAFETY: as for `as_slice`; the stack is borrowed for writing.
        unsafe { self.places[..self.len].assume_init_mut() }
    }

    /// Sends every frame home to its pool.
    pub fn clear(&mut self) {
        while self.pop().is_some() {}
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Extend<Frame> for Frames {
    /// Puts the frames on top. Those that do not fit go home to their pools.
    fn extend<I: IntoIterator<Item = Frame>>(&mut self, frames: I) {
        for frame in frames {
            if self.push(frame).is_err() {
                return;
            }
        }
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frames({} of {})", self.len, self.capacity())
    }
}
