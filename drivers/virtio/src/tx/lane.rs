//! What a send queue has with the device, in the order in which it was posted.
//!
//! Slots are taken in ring order, and given back in ring order. A frame that the device completes
//! early waits for those before it; one that it completes in order costs nothing but its share
//! of a block copy. Frames of the engine lie in a [`Fifo`]; what the slots between them hold is
//! told by runs, of which a queue that sends one kind of frame has one.

use hugemem::{Burst, Fifo, Frame};

/// Neighbouring slots with one kind of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// Frames of the engine, one slot each.
    Owned(usize),
    /// Resident frames, one slot each.
    Resident(usize),
    /// One packet of several buffers.
    Chain {
        /// Its buffers.
        segments: usize,
        /// The slots it takes: as many, or one that refers to a table.
        slots: usize,
    },
}

/// See the module.
pub(crate) struct Lane {
    frames: Fifo,
    runs: Runs,
    slots: usize,
    busy: usize,
    flying: usize,
    done: usize,
    residents: usize,
    tables_busy: usize,
}

impl Lane {
    /// A lane of `slots` slots whose frames have up to `buffers` buffers in all.
    pub(crate) fn new(slots: usize, buffers: usize) -> Self {
        Self {
            frames: Fifo::with_capacity(buffers),
            runs: Runs::with_capacity(slots),
            slots,
            busy: 0,
            flying: 0,
            done: 0,
            residents: 0,
            tables_busy: 0,
        }
    }

    /// Slots that can be written.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.slots - self.busy
    }

    /// Frames that the device has.
    #[inline]
    pub(crate) fn flying(&self) -> usize {
        self.flying
    }

    /// Resident frames among the slots.
    #[inline]
    pub(crate) fn residents(&self) -> usize {
        self.residents
    }

    /// True if no slot is taken.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// Tables of descriptors in use.
    #[inline]
    pub(crate) fn tables_busy(&self) -> usize {
        self.tables_busy
    }

    /// Changes how many slots there are. Only while none is taken.
    pub(crate) fn resize(&mut self, slots: usize) {
        assert!(self.is_empty(), "a lane in use keeps its size");
        self.slots = slots;
    }

    /// The first `count` frames of `burst`, one slot each, are with the device now.
    #[inline]
    pub(crate) fn take(&mut self, burst: &mut Burst, count: usize) {
        let moved = self.frames.put(burst, count);
        debug_assert_eq!(moved, count, "there is room for a frame a slot");
        self.runs.add(Run::Owned(moved));
        self.busy += moved;
        self.flying += moved;
    }

    /// The first `segments` frames of `burst` are one packet in `slots` slots.
    pub(crate) fn take_chain(&mut self, burst: &mut Burst, segments: usize, slots: usize) {
        let moved = self.frames.put(burst, segments);
        debug_assert_eq!(moved, segments, "there is room for every table's buffers");
        self.runs.add(Run::Chain { segments, slots });
        self.tables_busy += usize::from(slots < segments);
        self.busy += slots;
        self.flying += 1;
    }

    /// `count` resident frames are with the device now.
    #[inline]
    pub(crate) fn take_residents(&mut self, count: usize) {
        self.runs.add(Run::Resident(count));
        self.residents += count;
        self.busy += count;
        self.flying += count;
    }

    /// The device gave `frames` frames back.
    #[inline]
    pub(crate) fn landed(&mut self, frames: usize) {
        self.flying -= frames;
    }

    /// `frames` more frames at the front are done.
    #[inline]
    pub(crate) fn settle(&mut self, frames: usize) {
        self.done += frames;
    }

    /// Frees the slots of resident frames at the front that are done.
    #[inline]
    pub(crate) fn free_residents(&mut self) {
        while let Some(Run::Resident(count)) = self.runs.first()
            && self.done > 0
        {
            self.drop_residents(*count);
        }
    }

    #[inline]
    fn drop_residents(&mut self, run: usize) {
        let freed = run.min(self.done);
        self.runs.shorten(freed);
        self.residents -= freed;
        self.busy -= freed;
        self.done -= freed;
    }

    /// Moves what is done at the front into `out` while there is room, and frees its slots; how
    /// many buffers it moved.
    #[inline]
    pub(crate) fn reap(&mut self, out: &mut Burst) -> usize {
        let mut moved = 0;
        while self.done > 0
            && let Some(run) = self.runs.first().copied()
        {
            match run {
                Run::Resident(count) => self.drop_residents(count),
                Run::Owned(count) => {
                    let freed = self.frames.take(out, count.min(self.done));
                    self.runs.shorten(freed);
                    self.busy -= freed;
                    self.done -= freed;
                    moved += freed;
                    if out.room() == 0 {
                        break;
                    }
                }
                Run::Chain { segments, slots } => {
                    if out.room() < segments {
                        break;
                    }
                    moved += self.frames.take(out, segments);
                    self.runs.shorten(1);
                    self.tables_busy -= usize::from(slots < segments);
                    self.busy -= slots;
                    self.done -= 1;
                }
            }
        }
        moved
    }

    /// The device is lost: whatever it had counts as done. How many frames that were.
    pub(crate) fn abandon(&mut self) -> usize {
        let lost = self.flying;
        self.flying = 0;
        self.done = self.runs.frames();
        lost
    }

    /// Lengths of the engine's frames that the device has, and how many resident ones it has, if
    /// it completes in order.
    pub(crate) fn flying_bytes(&self) -> (u64, usize) {
        let mut skip = self.done;
        let (mut buffer, mut bytes, mut residents) = (0, 0, 0);
        for run in self.runs.iter() {
            let (frames, buffers) = match run {
                Run::Owned(count) => (count, count),
                Run::Resident(count) => (count, 0),
                Run::Chain { segments, .. } => (1, segments),
            };
            let skipped = skip.min(frames);
            skip -= skipped;
            let first = if frames == skipped { buffers } else { skipped };
            for n in buffer + first..buffer + buffers {
                bytes += self.frames.get(n).map_or(0, |frame| frame.len() as u64);
            }
            bytes += FCS * if buffers > 0 { frames - skipped } else { 0 } as u64;
            if buffers == 0 {
                residents += frames - skipped;
            }
            buffer += buffers;
        }
        (bytes, residents)
    }

    /// Takes out every frame, for the end.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Frame> {
        self.busy = 0;
        self.flying = 0;
        self.done = 0;
        self.residents = 0;
        self.tables_busy = 0;
        self.runs.clear();
        std::iter::from_fn(|| self.frames.pop())
    }
}

/// Bytes of the frame check sequence, which counters include.
pub(crate) const FCS: u64 = 4;

/// A queue of runs in a place fixed when it is made: each run has at least one slot.
struct Runs {
    runs: Box<[Run]>,
    first: usize,
    len: usize,
}

impl Runs {
    fn with_capacity(slots: usize) -> Self {
        let capacity = slots.next_power_of_two();
        Self {
            runs: vec![Run::Owned(0); capacity].into_boxed_slice(),
            first: 0,
            len: 0,
        }
    }

    #[inline]
    fn place(&self, n: usize) -> usize {
        (self.first + n) & (self.runs.len() - 1)
    }

    #[inline]
    fn first(&self) -> Option<&Run> {
        (self.len > 0).then(|| &self.runs[self.first])
    }

    fn iter(&self) -> impl Iterator<Item = Run> {
        (0..self.len).map(|n| self.runs[self.place(n)])
    }

    /// Frames in all runs.
    fn frames(&self) -> usize {
        let count = |run| match run {
            Run::Owned(count) | Run::Resident(count) => count,
            Run::Chain { .. } => 1,
        };
        self.iter().map(count).sum()
    }

    /// Adds a run at the end, to the last one if they are of a kind.
    #[inline]
    fn add(&mut self, run: Run) {
        if self.len > 0 {
            let last = self.place(self.len - 1);
            match (&mut self.runs[last], run) {
                (Run::Owned(count), Run::Owned(more))
                | (Run::Resident(count), Run::Resident(more)) => {
                    *count += more;
                    return;
                }
                _ => {}
            }
        }
        let end = self.place(self.len);
        assert!(
            self.len < self.runs.len(),
            "every run has a slot of its own"
        );
        self.runs[end] = run;
        self.len += 1;
    }

    /// Takes `count` frames off the first run, and the run away if it is empty then.
    #[inline]
    fn shorten(&mut self, count: usize) {
        let left = match &mut self.runs[self.first] {
            Run::Owned(left) | Run::Resident(left) => {
                *left -= count;
                *left
            }
            Run::Chain { .. } => 0,
        };
        if left == 0 {
            self.first = self.place(1);
            self.len -= 1;
        }
    }

    fn clear(&mut self) {
        (self.first, self.len) = (0, 0);
    }
}
