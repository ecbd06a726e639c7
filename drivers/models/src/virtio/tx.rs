//! Frames from the driver (§5.1.6.2).

use hugemem::{Iova, Translator};

use super::VirtioNet;
use super::bits::{feature, header};
use super::checksum;
use super::header::{HASHED, LONG};
use super::queue::either;
use super::ring::{Broken, Chain, Ring};
use crate::counters::DeviceCounts;
use crate::faults::Fault;
use crate::frames::{Batch, ROUND, Segment};
use crate::{FCS, SHORTEST};

/// Shortest frame that is one: two addresses and a type.
const ETHERNET: u32 = 14;
const VLAN: u32 = 4;

/// What holds for every frame of a round.
struct Terms<'a> {
    header_len: usize,
    csum: bool,
    /// Largest frame.
    longest: u32,
    /// Legacy drivers that did not accept `ANY_LAYOUT` have the header in a buffer of its own
    /// (§5.1.6.6).
    header_apart: bool,
    objections: &'a crate::Objections,
}

/// A sent frame's header, without what only tells hashes of received ones (§5.1.6).
struct Header([u8; LONG]);

impl VirtioNet {
    /// Takes posted frames from all queues in turn.
    pub(super) fn take_frames(&mut self, batch: &mut Batch, limit: usize) {
        if !self.is_running() {
            return;
        }
        if self.faults.strikes(Fault::NeedsReset) {
            self.need_reset();
            return;
        }
        let limit = limit.min(ROUND);
        let pairs = self.pairs();
        let mut tally = DeviceCounts::default();
        for n in 0..pairs {
            let pair = (n + self.turn) % pairs;
            let index = pair * 2 + 1;
            let result = if pair < self.active_pairs {
                self.take_from(index, batch, limit, &mut tally)
            } else {
                self.check_idle(index)
            };
            if let Err(broken) = result {
                self.break_down(index, broken);
                break;
            }
        }
        self.turn = (self.turn + 1) % pairs;
        self.counters.add(&tally);
    }

    fn take_from(
        &mut self,
        index: u16,
        batch: &mut Batch,
        limit: usize,
        tally: &mut DeviceCounts,
    ) -> Result<(), Broken> {
        let sleeps = self.sleeps();
        let terms = Terms {
            header_len: self.header_len(),
            csum: self.has(feature::CSUM),
            longest: match self.options.mtu {
                Some(mtu) if self.has(feature::MTU) => u32::from(mtu) + ETHERNET + VLAN,
                _ => self.options.max_frame,
            },
            header_apart: !self.has(feature::VERSION_1) && !self.has(feature::ANY_LAYOUT),
            objections: &self.objections,
        };
        let Some(queue) = self.queues.get_mut(usize::from(index)) else {
            return Ok(());
        };
        if queue.ring.is_none() || !queue.wakes(sleeps, &self.bells) {
            return Ok(());
        }
        let Some(ring) = &mut queue.ring else {
            return Ok(());
        };
        let memory = &mut self.memory;
        let pending = &mut queue.pending;
        let before = pending.len();
        let empty = either!(ring, ring => {
            ring.check(memory)?;
            take(ring, pending, memory, batch, limit, &terms, tally)?
        });
        let found = queue.pending.len() > before;
        queue.looked(sleeps, found, empty);
        Ok(())
    }

    /// Frames may only be posted on pairs that were switched on (§5.1.6.5.5).
    fn check_idle(&mut self, index: u16) -> Result<(), Broken> {
        let queue = self.queues.get_mut(usize::from(index));
        let Some(ring) = queue.and_then(|queue| queue.ring.as_mut()) else {
            return Ok(());
        };
        let memory = &mut self.memory;
        self.segments.clear();
        let posted = either!(ring, ring => {
            ring.check(memory)?;
            let mark = ring.mark();
            let posted = ring.next(memory, &mut self.segments)?.is_some();
            ring.rewind(mark);
            posted
        });
        if posted {
            let pairs = self.active_pairs;
            self.object(format!(
                "frame posted on queue {index} while {pairs} pairs are in use (§5.1.6.5.5)"
            ));
        }
        Ok(())
    }

    /// The frames of the last round have left: their buffers go back.
    pub(super) fn put_sent(&mut self) {
        if !self.is_running() || self.faults.strikes(Fault::LateCompletions) {
            return;
        }
        let in_order = self.has(feature::IN_ORDER);
        for index in (1..self.queues.len()).step_by(2) {
            self.queues[index].put_pending(in_order, &self.faults);
            self.publish(index);
        }
    }
}

/// Takes chains off `ring` until the batch is full; true if the ring is empty then.
fn take<R: Ring>(
    ring: &mut R,
    pending: &mut Vec<Chain>,
    memory: &mut Translator,
    batch: &mut Batch,
    limit: usize,
    terms: &Terms<'_>,
    tally: &mut DeviceCounts,
) -> Result<bool, Broken> {
    while batch.frames.len() < limit {
        let first = batch.segments.len();
        let Some(chain) = ring.next(memory, &mut batch.segments)? else {
            return Ok(true);
        };
        pending.push(chain);
        let frame = match batch.segments[first..] {
            [one] if !terms.header_apart => {
                batch.segments.truncate(first);
                take_one(one, memory, batch, terms)?
            }
            _ => take_many(first, memory, batch, terms)?,
        };
        match frame {
            Some(len) => {
                tally.tx_frames += 1;
                tally.tx_bytes += u64::from(len.max(SHORTEST)) + FCS;
            }
            None => tally.tx_errors += 1,
        }
    }
    Ok(false)
}

/// A frame that lies behind its header in one buffer, as most do.
#[inline]
fn take_one(
    segment: Segment,
    memory: &mut Translator,
    batch: &mut Batch,
    terms: &Terms<'_>,
) -> Result<Option<u32>, Broken> {
    let header_len = terms.header_len;
    if segment.writable {
        return Err(writable());
    }
    let bytes = memory.peek(Iova::from_device(segment.iova), segment.len as usize)?;
    let Some((header, frame)) = bytes.split_at_checked(header_len) else {
        return Err(Broken::new("frame shorter than its header"));
    };
    let header = Header::of(header);
    let len = u32::try_from(frame.len()).expect("part of a segment");
    if !header.is_plain() || len < ETHERNET || len > terms.longest {
        let first = batch.segments.len();
        let iova = segment.iova + header_len as u64;
        batch.segments.push(Segment {
            iova,
            len,
            ..segment
        });
        return Ok(add_special(&header, first, len, memory, batch, terms));
    }
    batch.push(Iova::from_device(segment.iova + header_len as u64), len);
    Ok(Some(len))
}

/// A frame in several buffers: the segments of the batch from `first` on.
fn take_many(
    first: usize,
    memory: &mut Translator,
    batch: &mut Batch,
    terms: &Terms<'_>,
) -> Result<Option<u32>, Broken> {
    let segments = &mut batch.segments[first..];
    if segments.iter().any(|segment| segment.writable) {
        return Err(writable());
    }
    if terms.header_apart && segments[0].len as usize != terms.header_len {
        terms.objections.raise(
            "header not in a buffer of its own, and ANY_LAYOUT was not negotiated (§5.1.6.6)",
        );
    }
    let mut bytes = [0; HASHED];
    let mut have = 0;
    let mut skipped = 0;
    for segment in segments.iter_mut() {
        let part = (terms.header_len - have).min(segment.len as usize);
        let iova = Iova::from_device(segment.iova);
        memory.read(iova, &mut bytes[have..have + part])?;
        have += part;
        segment.iova += part as u64;
        segment.len -= u32::try_from(part).expect("at most 20");
        if segment.len > 0 {
            break;
        }
        skipped += 1;
    }
    if have < terms.header_len {
        return Err(Broken::new("frame shorter than its header"));
    }
    let mut len = 0u64;
    for segment in &segments[skipped..] {
        len += u64::from(segment.len);
        let (iova, len) = (Iova::from_device(segment.iova), segment.len as usize);
        if !memory.covers(iova, len) {
            return Err(hugemem::IommuFault { iova, len }.into());
        }
    }
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let header = Header::of(&bytes);
    let first = first + skipped;
    if !header.is_plain() || len < ETHERNET || len > terms.longest {
        return Ok(add_special(&header, first, len, memory, batch, terms));
    }
    batch.push_segments(first, len);
    Ok(Some(len))
}

/// A frame that wants something of the device, or is wrong. None: it is not sent.
#[cold]
fn add_special(
    header: &Header,
    first: usize,
    len: u32,
    memory: &mut Translator,
    batch: &mut Batch,
    terms: &Terms<'_>,
) -> Option<u32> {
    let flaw = header.flaw(terms).or_else(|| {
        let fits = (ETHERNET..=terms.longest).contains(&len);
        (!fits).then(|| format!("frame of {len} bytes, of at most {}", terms.longest))
    });
    if let Some(flaw) = flaw {
        terms.objections.raise(flaw);
        batch.segments.truncate(first);
        return None;
    }
    batch.push_segments(first, len);
    if !header.needs_csum() {
        return Some(len);
    }
    let frame = batch.frames.pop()?;
    let own = batch.own(frame, len, memory).ok()?;
    let (start, offset) = header.checksum();
    let bytes = batch.own_bytes_mut(&own)?;
    if !checksum::complete(bytes, start, offset) {
        terms.objections.raise(format!(
            "checksum at {start}+{offset} of a frame of {len} bytes (§5.1.6.2.1)"
        ));
        return None;
    }
    batch.frames.push(own);
    Some(len)
}

#[cold]
fn writable() -> Broken {
    Broken::new("writable buffer on a transmit queue (§5.1.6.2)")
}

impl Header {
    #[inline]
    fn of(bytes: &[u8]) -> Self {
        let mut header = [0; LONG];
        let used = bytes.len().min(LONG);
        header[..used].copy_from_slice(&bytes[..used]);
        Self(header)
    }

    /// True if it asks for nothing: all zero where anything is looked at.
    #[inline]
    fn is_plain(&self) -> bool {
        let [flags, gso, .., low, high] = self.0;
        flags | gso | low | high == 0
    }

    fn needs_csum(&self) -> bool {
        self.0[0] & header::NEEDS_CSUM != 0
    }

    /// Where the checksum begins, and where it goes behind that.
    fn checksum(&self) -> (usize, usize) {
        let [_, _, _, _, _, _, a, b, c, d, ..] = self.0;
        (
            usize::from(u16::from_le_bytes([a, b])),
            usize::from(u16::from_le_bytes([c, d])),
        )
    }

    /// What is wrong with it, as a sentence. (§5.1.6.2.1)
    fn flaw(&self, terms: &Terms<'_>) -> Option<String> {
        let [flags, gso, .., low, high] = self.0;
        let buffers = u16::from_le_bytes([low, high]);
        if flags & !header::NEEDS_CSUM != 0 {
            return Some(format!("flags {flags:#x} in the header of a sent frame"));
        }
        if self.needs_csum() && !terms.csum {
            return Some("NEEDS_CSUM without CSUM having been negotiated".into());
        }
        if gso != header::GSO_NONE {
            return Some(format!("gso_type {gso:#x}, and none was negotiated"));
        }
        (buffers != 0).then(|| format!("num_buffers {buffers} in the header of a sent frame"))
    }
}
