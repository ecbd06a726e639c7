//! The least a device can do: completions without a look at the frames.
//!
//! A bench of engine and driver wants to know what *they* cost. So it opens a driver on a
//! [`Sim::stepped`](crate::Sim::stepped) device, asks the function where its rings are
//! ([`SimFunction::rings`](crate::SimFunction::rings)), and from then on plays the device itself,
//! in the same thread: [`TxConsumer::drain`] completes all that was posted on a ring,
//! [`RxProducer::fill`] completes armed buffers as if frames of one length had come in. What that
//! costs is measured too ([`Share`]), to be taken off.
//!
//! Nothing that a driver writes is checked here but what keeps the consumer inside its rings.
//! The `Sim` must not be stepped meanwhile.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hugemem::{IommuFault, Iova, SimWords, Translator};

use crate::device::RingPlace;

/// Flags of a packed descriptor (virtio 1.2 §2.8.1).
const NEXT: u64 = 1 << 48;
const AVAIL: u64 = 1 << (48 + 7);
const USED: u64 = 1 << (48 + 15);
const WRITE: u64 = 2 << 48;
/// The buffer id in a packed descriptor.
const ID: u64 = 0xffff << 32;

/// What the consumer's own work cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Frames it completed while it was timed.
    pub frames: u64,
    /// The time that took, with the cost of reading the clock taken off.
    pub time: Duration,
}

impl Share {
    /// Nanoseconds a frame; 0 if nothing was timed.
    #[must_use]
    pub fn ns_per_frame(&self) -> f64 {
        if self.frames == 0 {
            return 0.0;
        }
        self.time.as_secs_f64() * 1e9 / self.frames as f64
    }
}

/// Times the consumer's calls.
#[derive(Debug, Clone, Copy)]
struct Stopwatch {
    share: Share,
    /// What two readings of the clock cost.
    overhead: Duration,
}

impl Stopwatch {
    fn new() -> Self {
        let mut gaps: Vec<Duration> = (0..101)
            .map(|_| {
                let start = Instant::now();
                start.elapsed()
            })
            .collect();
        gaps.sort_unstable();
        Self {
            share: Share::default(),
            overhead: gaps[gaps.len() / 2],
        }
    }

    fn time(&mut self, work: impl FnOnce() -> u32) -> u32 {
        let start = Instant::now();
        let frames = work();
        self.share.time += start.elapsed().saturating_sub(self.overhead);
        self.share.frames += u64::from(frames);
        frames
    }
}

/// A ring of either kind, and how far the consumer is.
enum Ring {
    Split {
        avail: SimWords<AtomicU16>,
        used_head: SimWords<AtomicU16>,
        used: SimWords<AtomicU32>,
        table: SimWords<[AtomicU64; 2]>,
        taken: u16,
    },
    Packed {
        ring: SimWords<[AtomicU64; 2]>,
        at: usize,
        /// The lap's wrap counter.
        wrap: bool,
    },
}

impl Ring {
    fn open(place: &RingPlace, memory: &mut Translator) -> Result<Self, IommuFault> {
        let size = usize::from(place.size);
        let table = memory.words(Iova::from_device(place.descriptors), size)?;
        if place.packed {
            return Ok(Self::Packed {
                ring: table,
                at: 0,
                wrap: true,
            });
        }
        Ok(Self::Split {
            table,
            avail: memory.words(Iova::from_device(place.driver), 2 + size)?,
            used_head: memory.words(Iova::from_device(place.device), 2)?,
            used: memory.words(Iova::from_device(place.device + 4), 2 * size)?,
            taken: 0,
        })
    }
}

/// Takes everything posted on a transmit ring, and completes it unread.
pub struct TxConsumer {
    ring: Ring,
    in_order: bool,
    stopwatch: Stopwatch,
}

impl TxConsumer {
    /// A consumer of a ring that nobody has posted on yet.
    ///
    /// # Errors
    /// The ring is not mapped.
    pub fn new(place: &RingPlace) -> Result<Self, IommuFault> {
        Ok(Self {
            ring: Ring::open(place, &mut place.space.translator())?,
            in_order: place.in_order,
            stopwatch: Stopwatch::new(),
        })
    }

    /// Completes all that was posted; how many chains that were.
    #[inline]
    pub fn drain(&mut self) -> u32 {
        match &mut self.ring {
            Ring::Split {
                avail,
                used_head,
                used,
                taken,
                ..
            } => drain_split(avail, used_head, used, taken, self.in_order),
            Ring::Packed { ring, at, wrap } => drain_packed(ring, at, wrap, self.in_order),
        }
    }

    /// As [`TxConsumer::drain`], and adds what it cost to [`TxConsumer::share`].
    pub fn drain_timed(&mut self) -> u32 {
        let mut stopwatch = self.stopwatch;
        let drained = stopwatch.time(|| self.drain());
        self.stopwatch = stopwatch;
        drained
    }

    /// What the timed calls cost.
    #[must_use]
    pub fn share(&self) -> Share {
        self.stopwatch.share
    }
}

fn drain_split(
    avail: &[AtomicU16],
    used_head: &[AtomicU16],
    used: &[AtomicU32],
    taken: &mut u16,
    in_order: bool,
) -> u32 {
    let mask = avail.len() - 3;
    let index = u16::from_le(avail[1].load(Ordering::Acquire));
    let posted = index.wrapping_sub(*taken);
    if posted == 0 {
        return 0;
    }
    let put = |at: u16, from: u16| {
        let id = u16::from_le(avail[2 + (usize::from(from) & mask)].load(Ordering::Relaxed));
        let slot = (usize::from(at) & mask) * 2;
        used[slot].store(u32::from(id).to_le(), Ordering::Relaxed);
        used[slot + 1].store(0, Ordering::Relaxed);
    };
    if in_order {
        put(*taken, index.wrapping_sub(1));
    } else {
        for n in 0..posted {
            let at = taken.wrapping_add(n);
            put(at, at);
        }
    }
    *taken = index;
    used_head[1].store(index.to_le(), Ordering::Release);
    u32::from(posted)
}

fn drain_packed(ring: &[[AtomicU64; 2]], next: &mut usize, wrap: &mut bool, in_order: bool) -> u32 {
    let flags = |wrap: bool| if wrap { AVAIL | USED } else { 0 };
    let first = (*next, *wrap);
    let mut drained = 0;
    let mut last = 0;
    loop {
        let head = (*next, *wrap);
        let mut word = u64::from_le(ring[*next][1].load(Ordering::Acquire));
        let available = if *wrap { AVAIL } else { USED };
        if word & (AVAIL | USED) != available {
            break;
        }
        // A chain cannot be longer than the ring: whatever the driver wrote, this ends.
        for _ in 0..ring.len() {
            *next += 1;
            if *next == ring.len() {
                *next = 0;
                *wrap = !*wrap;
            }
            if word & NEXT == 0 {
                break;
            }
            word = u64::from_le(ring[*next][1].load(Ordering::Relaxed));
        }
        drained += 1;
        last = word & ID;
        if !in_order {
            let (at, wrap) = head;
            ring[at][1].store((last | flags(wrap)).to_le(), Ordering::Release);
        }
    }
    if in_order && drained > 0 {
        let (at, wrap) = first;
        ring[at][1].store((last | flags(wrap)).to_le(), Ordering::Release);
    }
    drained
}

/// Completes buffers of a receive ring as if frames had come in.
pub struct RxProducer {
    ring: Ring,
    memory: Translator,
    /// Bytes that each completion reports: header and frame.
    written: u32,
    header: Option<u32>,
    stopwatch: Stopwatch,
}

impl RxProducer {
    /// A producer of frames of `len` bytes, on a ring whose first lap has not begun. It writes
    /// each frame's header and nothing else: the frame is what the buffer last held.
    ///
    /// # Errors
    /// The ring is not mapped.
    pub fn new(place: &RingPlace, len: u32) -> Result<Self, IommuFault> {
        let mut memory = place.space.translator();
        Ok(Self {
            ring: Ring::open(place, &mut memory)?,
            memory,
            written: place.header + len,
            header: Some(place.header),
            stopwatch: Stopwatch::new(),
        })
    }

    /// Leaves headers alone too: for buffers that hold good ones from an earlier lap.
    #[must_use]
    pub fn without_headers(mut self) -> Self {
        self.header = None;
        self
    }

    /// Completes up to `limit` armed buffers; how many there were. Each is one descriptor.
    #[inline]
    pub fn fill(&mut self, limit: u32) -> u32 {
        let (header, written, memory) = (self.header, self.written, &mut self.memory);
        match &mut self.ring {
            Ring::Split {
                avail,
                used_head,
                used,
                table,
                taken,
            } => {
                let mask = table.len() - 1;
                let index = u16::from_le(avail[1].load(Ordering::Acquire));
                let mut done = 0;
                while *taken != index && done < limit {
                    let slot = usize::from(*taken) & mask;
                    let id = u16::from_le(avail[2 + slot].load(Ordering::Relaxed));
                    let descriptor = &table[usize::from(id) & mask];
                    put_header(header, &descriptor[0], memory);
                    used[slot * 2].store(u32::from(id).to_le(), Ordering::Relaxed);
                    used[slot * 2 + 1].store(written.to_le(), Ordering::Relaxed);
                    *taken = taken.wrapping_add(1);
                    done += 1;
                }
                if done > 0 {
                    used_head[1].store(taken.to_le(), Ordering::Release);
                }
                done
            }
            Ring::Packed { ring, at, wrap } => {
                let mut done = 0;
                while done < limit {
                    let [address, word] = &ring[*at];
                    let seen = u64::from_le(word.load(Ordering::Acquire));
                    let available = if *wrap { AVAIL } else { USED };
                    if seen & (AVAIL | USED) != available {
                        break;
                    }
                    put_header(header, address, memory);
                    let flags = WRITE | if *wrap { AVAIL | USED } else { 0 };
                    let used = u64::from(written) | seen & ID | flags;
                    word.store(used.to_le(), Ordering::Release);
                    *at += 1;
                    if *at == ring.len() {
                        *at = 0;
                        *wrap = !*wrap;
                    }
                    done += 1;
                }
                done
            }
        }
    }

    /// As [`RxProducer::fill`], and adds what it cost to [`RxProducer::share`].
    pub fn fill_timed(&mut self, limit: u32) -> u32 {
        let mut stopwatch = self.stopwatch;
        let filled = stopwatch.time(|| self.fill(limit));
        self.stopwatch = stopwatch;
        filled
    }

    /// What the timed calls cost.
    #[must_use]
    pub fn share(&self) -> Share {
        self.stopwatch.share
    }
}

/// A header that says "one buffer, nothing special". A buffer that is not mapped is left alone:
/// the driver under test reads what it likes there.
#[inline]
fn put_header(header: Option<u32>, address: &AtomicU64, memory: &mut Translator) {
    const PLAIN: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let Some(len) = header else { return };
    let to = Iova::from_device(u64::from_le(address.load(Ordering::Relaxed)));
    let _ = memory.write(to, &PLAIN[..PLAIN.len().min(len as usize)]);
}
