//! Rendering: a sequence as frames that are sent again and again.

use hugemem::{Frame, Pool};

use super::writer::Writer;

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
        let Some(frame) = pool.take() else {
            return Err(RenderError::PoolTooSmall {
                asked: count,
                free: frames.len(),
            });
        };
        frames.push(frame);
    }
    for frame in &mut frames {
        writer.next(frame);
    }
    Ok(frames)
}
