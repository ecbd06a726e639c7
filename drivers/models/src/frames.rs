//! Frames on their way from one device's memory to another's.
//!
//! The wire does not hold frames: it holds places. A sending device puts into a [`Batch`] where
//! the bytes of each frame lie in *its* memory; the receiving device asks the [`Carrier`] to
//! copy them from there straight into its own. Only frames that are changed on the way (padded,
//! corrupted, a checksum filled in) or held back get a copy in between.

use hugemem::{IommuFault, Iova, Translator};

/// Frames that a device hands to the wire in one round, at most.
pub(crate) const ROUND: usize = 256;

/// A stretch of a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Bus address of the first byte.
    pub(crate) iova: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// True if the device may write it, and then not read it.
    pub(crate) writable: bool,
}

/// Where a frame's bytes are.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// One stretch of the sender's memory.
    One(u64),
    /// Several: segments of the batch.
    Many { first: usize, count: usize },
    /// The batch's own bytes.
    Arena(usize),
}

/// A frame on its way, without FCS.
#[derive(Debug, Clone, Copy)]
pub struct WireFrame {
    place: Place,
    len: u32,
    /// False if it was damaged in a way that its FCS shows.
    pub fcs_good: bool,
}

impl WireFrame {
    /// Bytes, without FCS.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True for a frame of no bytes, which no device sends.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The frames of one round, first to last.
#[derive(Debug)]
pub struct Batch {
    pub(crate) frames: Vec<WireFrame>,
    pub(crate) segments: Vec<Segment>,
    arena: Vec<u8>,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self {
            frames: Vec::with_capacity(ROUND),
            segments: Vec::with_capacity(ROUND * 2),
            arena: Vec::new(),
        }
    }

    /// Frames in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True when it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Frames that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        ROUND - self.frames.len().min(ROUND)
    }

    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.segments.clear();
        self.arena.clear();
    }

    /// Adds a frame of `len` bytes at `iova` of the sender's memory.
    #[inline]
    pub fn push(&mut self, iova: Iova, len: u32) {
        let place = Place::One(iova.get());
        self.put(place, len);
    }

    /// Adds a frame that lies in the segments from `first` on.
    #[inline]
    pub(crate) fn push_segments(&mut self, first: usize, len: u32) {
        match self.segments[first..] {
            [one] => self.push(Iova::from_device(one.iova), len),
            ref many => {
                let count = many.len();
                self.put(Place::Many { first, count }, len);
            }
        }
    }

    /// Adds a frame with these bytes.
    ///
    /// # Panics
    /// It has 4 GiB or more.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let frame = self.store(bytes);
        self.frames.push(frame);
    }

    #[inline]
    fn put(&mut self, place: Place, len: u32) {
        self.frames.push(WireFrame {
            place,
            len,
            fcs_good: true,
        });
    }

    /// Keeps `bytes` for the rest of the round, as a frame that is not yet in the batch.
    pub(crate) fn store(&mut self, bytes: &[u8]) -> WireFrame {
        let at = self.arena.len();
        self.arena.extend_from_slice(bytes);
        WireFrame {
            place: Place::Arena(at),
            len: u32::try_from(bytes.len()).expect("a frame is shorter than 4 GiB"),
            fcs_good: true,
        }
    }

    /// Gives `frame` bytes of its own, `len` of them: what it lacks is zero.
    ///
    /// # Errors
    /// Its bytes are not in the sender's memory any more.
    pub(crate) fn own(
        &mut self,
        frame: WireFrame,
        len: u32,
        memory: &mut Translator,
    ) -> Result<WireFrame, IommuFault> {
        let at = self.arena.len();
        self.arena.resize(at + len.max(frame.len) as usize, 0);
        let mut arena = std::mem::take(&mut self.arena);
        let (before, own) = arena.split_at_mut(at);
        let mut carrier = Carrier {
            memory,
            segments: &self.segments,
            arena: before,
        };
        let copied = carrier.read(&frame, own);
        arena.truncate(at + len as usize);
        self.arena = arena;
        copied?;
        Ok(WireFrame {
            place: Place::Arena(at),
            len,
            fcs_good: frame.fcs_good,
        })
    }

    /// The bytes of a frame that has its own.
    pub(crate) fn own_bytes_mut(&mut self, frame: &WireFrame) -> Option<&mut [u8]> {
        let Place::Arena(at) = frame.place else {
            return None;
        };
        self.arena.get_mut(at..at + frame.len as usize)
    }

    /// What copies this batch's frames out of the sender's memory.
    pub(crate) fn carrier<'a>(
        &'a self,
        memory: &'a mut Translator,
    ) -> (&'a [WireFrame], Carrier<'a>) {
        let carrier = Carrier {
            memory,
            segments: &self.segments,
            arena: &self.arena,
        };
        (&self.frames, carrier)
    }
}

/// What a receiving device reads frames with: the sender's memory and the batch's own bytes.
#[derive(Debug)]
pub struct Carrier<'a> {
    memory: &'a mut Translator,
    segments: &'a [Segment],
    arena: &'a [u8],
}

/// Bytes at the start of a frame that filters look at.
pub(crate) const HEAD: usize = 64;

impl Carrier<'_> {
    /// The first bytes of `frame`, up to 64; `scratch` is used where they lie apart.
    ///
    /// # Errors
    /// They are not in the sender's memory any more.
    #[inline]
    pub fn head<'b>(
        &'b mut self,
        frame: &WireFrame,
        scratch: &'b mut [u8; HEAD],
    ) -> Result<&'b [u8], IommuFault> {
        let len = (frame.len as usize).min(HEAD);
        match frame.place {
            Place::One(iova) => self.memory.peek(Iova::from_device(iova), len),
            Place::Arena(at) => Ok(&self.arena[at..at + len]),
            Place::Many { .. } => {
                self.read(frame, &mut scratch[..len])?;
                Ok(&scratch[..len])
            }
        }
    }

    /// Copies `frame` to where `sink` leads.
    ///
    /// # Errors
    /// The sender's memory or the receiver's is not mapped.
    #[inline]
    pub fn copy(&mut self, frame: &WireFrame, sink: &mut Scatter<'_>) -> Result<(), IommuFault> {
        match frame.place {
            Place::One(iova) => {
                let bytes = self
                    .memory
                    .peek(Iova::from_device(iova), frame.len as usize)?;
                sink.write(bytes)
            }
            Place::Arena(at) => sink.write(&self.arena[at..at + frame.len as usize]),
            Place::Many { first, count } => {
                let mut left = frame.len as usize;
                for segment in &self.segments[first..first + count] {
                    let len = left.min(segment.len as usize);
                    sink.write(self.memory.peek(Iova::from_device(segment.iova), len)?)?;
                    left -= len;
                }
                Ok(())
            }
        }
    }

    /// Copies the first bytes of `frame` to `out`, which may be longer than it.
    ///
    /// # Errors
    /// The sender's memory is not mapped.
    pub fn read(&mut self, frame: &WireFrame, out: &mut [u8]) -> Result<(), IommuFault> {
        let len = (frame.len as usize).min(out.len());
        let out = &mut out[..len];
        match frame.place {
            Place::One(iova) => self.memory.read(Iova::from_device(iova), out),
            Place::Arena(at) => {
                out.copy_from_slice(&self.arena[at..at + len]);
                Ok(())
            }
            Place::Many { first, count } => {
                let mut at = 0;
                for segment in &self.segments[first..first + count] {
                    let part = (len - at).min(segment.len as usize);
                    let iova = Iova::from_device(segment.iova);
                    self.memory.read(iova, &mut out[at..at + part])?;
                    at += part;
                }
                Ok(())
            }
        }
    }
}

/// Where a receiving device writes: buffers one after the other.
#[derive(Debug)]
pub struct Scatter<'a> {
    memory: &'a mut Translator,
    segments: &'a [Segment],
    /// Bytes of the first of `segments` that are full.
    filled: u32,
}

impl<'a> Scatter<'a> {
    pub(crate) fn new(memory: &'a mut Translator, segments: &'a [Segment]) -> Self {
        Self {
            memory,
            segments,
            filled: 0,
        }
    }

    /// Writes `bytes` behind what was written before. What does not fit is cut off: the device
    /// has checked that all fits.
    ///
    /// # Errors
    /// A buffer is not mapped.
    #[inline]
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), IommuFault> {
        while let [first, rest @ ..] = self.segments {
            let room = (first.len - self.filled) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            let to = Iova::from_device(first.iova + u64::from(self.filled));
            self.memory.write(to, now)?;
            if later.is_empty() && now.len() < room {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "less than a segment, whose length is a u32"
                )]
                let more = now.len() as u32;
                self.filled += more;
                return Ok(());
            }
            self.segments = rest;
            self.filled = 0;
            bytes = later;
            if bytes.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }
}
