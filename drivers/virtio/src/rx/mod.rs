//! Receive queues.
//!
//! An armed frame's descriptor begins a header's length before the frame, in its headroom, so
//! that the device's header lies there and the frame's bytes begin on their cache line. Where
//! frames may be merged, the buffers after the first carry no header: their bytes begin where
//! the descriptor does, and are moved to the frame's start; so a descriptor then is no longer
//! than what the frame holds.

pub(crate) mod packed;
pub(crate) mod queue;
pub(crate) mod split;

pub(crate) use queue::{Rx, Told};

use hugemem::{Burst, Frame, Slots};

use crate::shared::Lie;

/// A ring on the receiving side: empty frames out, full ones in.
pub(crate) trait RxEngine: Send {
    /// Empty frames that fit.
    fn room(&self) -> usize;

    /// Arms a slot with the first frame of `empties`; the caller saw that there is room, and a
    /// frame.
    fn put(&mut self, empties: &mut Burst);

    /// Hands the armed slots over.
    fn publish(&mut self);

    /// Looks at the device's side, where one look tells of all.
    fn refresh(&mut self) -> Result<(), Lie>;

    /// Moves the next frame that the device has filled to the end of `out`, which has room, and
    /// says how many bytes of the buffer it wrote. The frame goes straight from its slot to its
    /// place in the burst: a handle that is changed and then moved at once stalls the core, as
    /// the move reads in one piece what was just written in small ones.
    fn next(&mut self, out: &mut Burst) -> Result<Option<u32>, Lie>;

    /// Whether the device wants to be told of what was published.
    fn wants_notification(&self) -> bool;

    /// Makes the ring as new, with every frame that it holds armed and handed over.
    fn restart(&mut self);

    /// Takes out every frame, for the end.
    fn drain(&mut self) -> impl Iterator<Item = Frame>;
}

/// Where the buffers of armed frames begin and end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit {
    /// Bytes of the header.
    pub(crate) header: usize,
    /// Whether a frame may fill several buffers.
    pub(crate) mergeable: bool,
}

impl Fit {
    /// Address and length of a frame's buffer, header included.
    #[inline]
    pub(crate) fn buffer(self, frame: &Frame) -> (u64, u32) {
        let len = frame.capacity() + if self.mergeable { 0 } else { self.header };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a frame's capacity is 16 bits"
        )]
        let len = len as u32;
        (frame.iova().back(self.header as u64).get(), len)
    }
}

/// Arms `engine` with `frames`, which it held before.
fn arm_again<E: RxEngine>(engine: &mut E, frames: Vec<Frame>) {
    let mut burst = Burst::new();
    for frame in frames {
        let full = burst.push(frame);
        debug_assert!(full.is_ok(), "the frame before it is armed");
        engine.put(&mut burst);
    }
    engine.publish();
}

/// Bytes that the device is taken to have written to the last frame of `out`: all of it.
#[inline]
fn full(fit: Fit, out: &Burst) -> u32 {
    out.as_slice().last().map_or(0, |frame| fit.buffer(frame).1)
}

/// The frames that the device has, by number, and the numbers that are free.
pub(crate) struct Held {
    frames: Slots,
    /// Free numbers, a queue: `free` of them from `first` on.
    ids: Box<[u16]>,
    first: usize,
    free: usize,
}

impl Held {
    /// For a ring of `slots`.
    pub(crate) fn new(slots: usize) -> Self {
        let mut held = Self {
            frames: Slots::new(slots),
            ids: vec![0; slots.next_power_of_two()].into_boxed_slice(),
            first: 0,
            free: 0,
        };
        held.renumber();
        held
    }

    /// Free numbers.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.free
    }

    /// Frames that are held.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.frames.len() - self.free
    }

    /// Keeps the first frame of `empties`, if there is one, under the number that has been free
    /// the longest.
    #[inline(always)]
    pub(crate) fn keep(&mut self, empties: &mut Burst) -> Option<(u16, &Frame)> {
        let id = self.ids[self.first & (self.ids.len() - 1)];
        let frame = self.frames.put(usize::from(id), empties)?;
        self.first += 1;
        self.free -= 1;
        Some((id, frame))
    }

    /// Moves the frame under `id`, if there is one, to the end of `out`.
    #[inline(always)]
    pub(crate) fn release(&mut self, id: u16, out: &mut Burst) -> Result<(), Lie> {
        if !self.frames.take(usize::from(id), out) {
            return Err(Lie::Id(id));
        }
        let end = self.first + self.free;
        let mask = self.ids.len() - 1;
        self.ids[end & mask] = id;
        self.free += 1;
        Ok(())
    }

    /// Takes every frame out, and makes every number free, in order.
    pub(crate) fn drain(&mut self) -> Vec<Frame> {
        let frames = self.frames.drain();
        self.renumber();
        frames
    }

    fn renumber(&mut self) {
        (self.first, self.free) = (0, self.frames.len());
        for (id, number) in self.ids.iter_mut().zip(0..) {
            *id = number;
        }
    }
}

/// A batch of buffers that an ordered device used with one notice: those before the last are
/// taken as full (§2.7.9.1, §2.8.9.1).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Skipped {
    /// Buffers before the last that are still to be given out.
    pub(crate) left: usize,
    /// Bytes in the last one.
    pub(crate) last: Option<u32>,
}
