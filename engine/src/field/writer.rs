//! Writers: frames compiled for one send queue.

use std::sync::atomic::{AtomicU32, Ordering};

use hugemem::{Burst, Frame, Pool};

use crate::frame::Frames;

/// Which part of a stream one core sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The core's number, from 0.
    pub index: usize,
    /// How many cores there are.
    pub of: usize,
}

impl Share {
    /// All of it.
    pub const ALL: Self = Self { index: 0, of: 1 };
}

/// Why a program cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// A name that no variable has.
    #[error("there is no variable {name:?}")]
    NoVar {
        /// The name.
        name: String,
    },
}

/// Why a period could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The pool has too few frames left.
    #[error("{asked} frames to render, and the pool has {free}")]
    PoolTooSmall {
        /// Frames to render.
        asked: usize,
        /// Frames in the pool.
        free: usize,
    },
    /// The pool's frames are too small.
    #[error("frames of {needed} bytes do not fit the pool's {capacity}")]
    TooLarge {
        /// Bytes of the largest frame, without FCS.
        needed: usize,
        /// Bytes that the pool's frames hold.
        capacity: usize,
    },
}

/// A stream's frames, compiled for one send queue.
///
/// A writer puts its [`Frame::tag`] on each frame that it fills, and knows by it that a buffer
/// which comes back still holds its bytes. **Whoever else writes into a frame's bytes (a device,
/// on receiving; a forwarder) sets the tag to 0.**
#[derive(Debug)]
pub struct Writer {
    templates: Vec<Vec<u8>>,
    tag: u32,
    max_len: usize,
    fixed_len: Option<usize>,
}

/// The next tag that no writer has.
static NEXT_TAG: AtomicU32 = AtomicU32::new(1);

impl Writer {
    /// Compiles `frames` for a queue that sends the part `share` of them. Random values follow
    /// from `seed`; the same seed gives the same frames.
    ///
    /// # Errors
    /// A program does not fit its template, or contradicts itself.
    pub fn compile(frames: &Frames, seed: u64, share: Share) -> Result<Self, FieldError> {
        let _ = (seed, share);
        let templates: Vec<_> = frames
            .variants()
            .iter()
            .map(|variant| variant.template.bytes.clone())
            .collect();
        let max_len = templates.iter().map(Vec::len).max().unwrap_or_default();
        let count = u32::try_from(templates.len()).unwrap_or(1);
        let tag = NEXT_TAG.fetch_add(count, Ordering::Relaxed);
        Ok(Self {
            templates,
            tag,
            max_len,
            fixed_len: Some(max_len),
        })
    }

    /// Frames until the sequence repeats exactly; none if it is random, or longer than a
    /// `usize` counts.
    #[must_use]
    pub fn period(&self) -> Option<usize> {
        Some(1)
    }

    /// Bytes of the largest frame, without FCS: what a pool's frames must hold.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// Bytes of every frame, without FCS, if they are all of one length.
    #[must_use]
    pub fn fixed_len(&self) -> Option<usize> {
        self.fixed_len
    }

    /// The [`Frame::tag`] of frames that hold this writer's bytes; its largest, where it has
    /// several.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// Makes `frame` hold the next packet.
    ///
    /// # Panics
    /// The frame holds fewer than [`Writer::max_len`] bytes.
    pub fn next(&mut self, frame: &mut Frame) {
        let template = &self.templates[0];
        if frame.tag == self.tag {
            frame.set_len(template.len());
        } else {
            frame.fill(template);
            frame.tag = self.tag;
        }
    }

    /// Makes every frame of `frames` hold the next packets, in order. Returns their bytes in
    /// all, without FCS.
    ///
    /// # Panics
    /// A frame holds fewer than [`Writer::max_len`] bytes.
    pub fn next_burst(&mut self, frames: &mut Burst) -> usize {
        let mut bytes = 0;
        for frame in frames.iter_mut() {
            self.next(frame);
            bytes += frame.len();
        }
        bytes
    }
}

/// The next `count` frames, each in a frame of its own: a whole period makes a
/// [`Resident`](hugemem::Resident) set that is the sequence itself.
///
/// # Errors
/// The pool does not have them.
pub fn render(writer: &mut Writer, pool: &Pool, count: usize) -> Result<Vec<Frame>, RenderError> {
    let (needed, capacity) = (writer.max_len(), pool.capacity());
    if needed > capacity {
        return Err(RenderError::TooLarge { needed, capacity });
    }
    let mut frames = Vec::with_capacity(count);
    for _ in 0..count {
        let Some(mut frame) = pool.take() else {
            return Err(RenderError::PoolTooSmall {
                asked: count,
                free: frames.len(),
            });
        };
        writer.next(&mut frame);
        frames.push(frame);
    }
    Ok(frames)
}
