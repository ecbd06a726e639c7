//! A queue of frames: what a ring that works in order has with the device.
#![expect(
    unsafe_code,
    reason = "moves frames in blocks, without marking each place empty"
)]

use std::fmt;
use std::mem::MaybeUninit;

use crate::burst::Burst;
use crate::frame::Frame;

/// Frames, first in first out, up to a capacity fixed when it is made.
///
/// It is allocated once and never grows. Frames go in and out in blocks, at the cost of copying
/// the handles and nothing else.
pub struct Fifo {
    /// Invariant: the length is a power of two; the `len` places from `first` on, modulo the
    /// length, and no others, hold frames.
    places: Box<[MaybeUninit<Frame>]>,
    first: usize,
    len: usize,
}

impl Fifo {
    /// A queue for at least `capacity` frames; empty.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            places: Box::new_uninit_slice(capacity.next_power_of_two()),
            first: 0,
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

    /// Frames that still fit.
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.places.len() - self.len
    }

    /// The place of the `n`th frame.
    #[inline]
    fn place(&self, n: usize) -> usize {
        (self.first + n) & (self.places.len() - 1)
    }

    /// Moves up to `count` of the first frames of `burst` to the end, as many as there is room
    /// for; how many it moved.
    #[inline]
    pub fn put(&mut self, burst: &mut Burst, count: usize) -> usize {
        let count = count.min(self.room());
        let end = self.place(self.len);
        let moved = burst.move_out(&mut self.places[end..], count);
        self.len += moved;
        if moved == count || burst.is_empty() {
            return moved;
        }
        // The places up to the end of the slice are full: on from its start.
        let first = self.first;
        let rest = burst.move_out(&mut self.places[..first], count - moved);
        self.len += rest;
        moved + rest
    }

    /// Moves up to `count` of the first frames to the end of `burst`, as many as it has room for;
    /// how many it moved.
    #[inline]
    pub fn take(&mut self, burst: &mut Burst, count: usize) -> usize {
        let mut moved = 0;
        // Twice at most: up to the end of the slice, and on from its start.
        while moved < count && self.len > 0 && burst.room() > 0 {
            let straight = self.len.min(self.places.len() - self.first);
            let places = burst.places((count - moved).min(straight));
            let block = places.len();
            let from = self.places[self.first..][..block].as_ptr();
            // SAFETY: (1) `block` is at most `straight`, so the places from `first` on hold
            // frames; (2) `places` are as many that hold none, in another container; (3) the
            // lines below take the frames out of this one.
            unsafe { std::ptr::copy_nonoverlapping(from, places.as_mut_ptr(), block) };
            self.first = self.place(block);
            self.len -= block;
            // SAFETY: the copy filled `block` places.
            unsafe { burst.filled(block) };
            moved += block;
        }
        moved
    }

    /// Puts a frame at the end; gives it back if there is no room.
    ///
    /// # Errors
    /// There is no room.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.room() == 0 {
            return Err(frame);
        }
        let end = self.place(self.len);
        self.places[end].write(frame);
        self.len += 1;
        Ok(())
    }

    /// Takes the first frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: the queue is not empty, so its first place holds a frame; the lines below take
        // it out, so the frame moves and is not doubled.
        let frame = unsafe { self.places[self.first].assume_init_read() };
        self.first = self.place(1);
        self.len -= 1;
        Some(frame)
    }

    /// The `n`th frame, counted from the first.
    #[must_use]
    #[inline]
    pub fn get(&self, n: usize) -> Option<&Frame> {
        if n >= self.len {
            return None;
        }
        let place = &self.places[self.place(n)];
        // SAFETY: `n` is below `len`, so the place holds a frame.
        Some(unsafe { place.assume_init_ref() })
    }

    /// The frames, first to last.
    pub fn iter(&self) -> impl Iterator<Item = &Frame> {
        (0..self.len).filter_map(|n| self.get(n))
    }

    /// Sends every frame home to its pool.
    pub fn clear(&mut self) {
        while self.pop().is_some() {}
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        self.clear();
    }
}

impl fmt::Debug for Fifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fifo({} of {})", self.len, self.places.len())
    }
}
