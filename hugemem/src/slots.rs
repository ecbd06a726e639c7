//! Numbered places for frames: what a ring keeps while a device has them, in any order.
#![expect(
    unsafe_code,
    reason = "moves each frame as a block, from a burst to its place and back"
)]

use std::fmt;
use std::mem::MaybeUninit;

use crate::burst::Burst;
use crate::frame::Frame;

/// Places for frames, by number.
///
/// It is what `[Option<Frame>]` would be, but a frame goes in and out as one block: an `Option`
/// is taken apart and put together again, and a core that writes a frame in small pieces and then
/// reads it in one waits until the pieces have reached its cache.
pub struct Slots {
    places: Box<[MaybeUninit<Frame>]>,
    /// Invariant: the places that are marked, no others, hold frames.
    full: Box<[bool]>,
}

impl Slots {
    /// `count` empty places.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            places: Box::new_uninit_slice(count),
            full: vec![false; count].into_boxed_slice(),
        }
    }

    /// Places, empty or not.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True when there are no places at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Moves the first frame of `burst` to place `number`. None if the burst is empty.
    ///
    /// # Panics
    /// The place is not there, or not empty.
    #[inline]
    pub fn put(&mut self, number: usize, burst: &mut Burst) -> Option<&Frame> {
        let full = &mut self.full[number];
        assert!(!*full, "a place holds one frame");
        let place = &mut self.places[number];
        if !burst.move_first(place) {
            return None;
        }
        *full = true;
        // SAFETY: the burst's frame was moved there.
        Some(unsafe { place.assume_init_ref() })
    }

    /// Moves the frame at place `number` to the end of `burst`. False if there is none, no such
    /// place, or no room.
    #[inline]
    pub fn take(&mut self, number: usize, burst: &mut Burst) -> bool {
        let Some(full) = self.full.get_mut(number).filter(|full| **full) else {
            return false;
        };
        let Some(place) = burst.place() else {
            return false;
        };
        // SAFETY: (1) the place is marked, so it holds a frame; (2) `place` is an empty one in
        // the burst; (3) the mark goes now, so that the frame is not doubled.
        unsafe { std::ptr::copy_nonoverlapping(&raw const self.places[number], place, 1) };
        *full = false;
        // SAFETY: the copy filled the one place.
        unsafe { burst.filled(1) };
        true
    }

    /// Takes every frame out, by number.
    pub fn drain(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (place, full) in self.places.iter().zip(&mut self.full) {
            if std::mem::take(full) {
                // SAFETY: the place was marked, so it holds a frame; now it is not.
                frames.push(unsafe { place.assume_init_read() });
            }
        }
        frames
    }
}

impl Drop for Slots {
    /// Sends every frame home to its pool.
    fn drop(&mut self) {
        drop(self.drain());
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = self.full.iter().filter(|full| **full).count();
        write!(f, "Slots({full} of {})", self.len())
    }
}
