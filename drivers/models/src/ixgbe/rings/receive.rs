//! Frames to the driver (82599 §7.1.5, §7.1.6).

use std::sync::atomic::Ordering;

use hugemem::{IommuFault, Iova};

use super::Rings;
use crate::e1000::packet::fcs;
use crate::faults::Fault;
use crate::frames::{Scatter, Segment};
use crate::ixgbe::bits::{ring, rxd};
use crate::ixgbe::queue::Side;

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ixgbe) enum Outcome {
    /// It is in memory.
    Received,
    /// No descriptor was left, or the queue is off.
    NoBuffer,
}

/// What is said of a frame in its last descriptor.
#[derive(Clone, Copy, Default)]
pub(in crate::ixgbe) struct Report {
    pub(in crate::ixgbe) status: u32,
    pub(in crate::ixgbe) tag: u16,
    /// What kind of packet, and what was hashed.
    pub(in crate::ixgbe) kind: u32,
    /// The hash, or checksum and IP identification.
    pub(in crate::ixgbe) value: u32,
}

impl Report {
    /// The words of a write-back (§7.1.5, §7.1.6.2). A legacy one leaves the first alone.
    #[inline]
    fn words(&self, legacy: bool, length: u32) -> (Option<u64>, u64) {
        let tag = u64::from(self.tag) << 48;
        let length = u64::from(length & 0xffff);
        if legacy {
            let status = u64::from(self.status & 0xff) << 32;
            let errors = u64::from(self.status >> 24 & 0xc0) << 40;
            return (None, length | status | errors | tag);
        }
        let first = u64::from(self.value) << 32 | u64::from(self.kind);
        (Some(first), tag | length << 32 | u64::from(self.status))
    }
}

impl Rings {
    /// Writes a frame into the next buffers of receive queue `index`, and its descriptors back.
    /// `strips`: without its tag; `keeps_fcs`: with its FCS behind it.
    #[inline]
    pub(in crate::ixgbe) fn put(
        &mut self,
        index: u32,
        bytes: &[u8],
        (strips, keeps_fcs): (bool, bool),
        report: &Report,
    ) -> Result<Outcome, String> {
        let tail = self.tails.get(Side::Rx, index);
        let Some(queue) = self.rx.get(index as usize) else {
            return Err("led to a queue that there is not".into());
        };
        if queue.broken || !queue.is_enabled() || queue.slots() == 0 {
            return Ok(Outcome::NoBuffer);
        }
        let kind = queue.srrctl & ring::TYPE;
        if kind != 0 && kind != ring::ONE_BUFFER {
            return Err(format!(
                "descriptor type {} in SRRCTL, which is not modelled",
                kind >> 25
            ));
        }
        let (slots, size) = (queue.slots(), queue.buffer_size());
        if tail >= slots || queue.head >= slots {
            let head = queue.head;
            return Err(format!(
                "tail {tail} and head {head} with {slots} descriptors"
            ));
        }
        if size == 0 {
            return Err("receive buffers of no size (SRRCTL.BSIZEPACKET)".into());
        }
        let len = u32::try_from(bytes.len()).map_err(|_| "a frame of 4 GiB")?;
        let total = len - if strips { 4 } else { 0 } + if keeps_fcs { 4 } else { 0 };
        let needed = total.div_ceil(size);
        // Head and tail at the same place: no descriptor at all.
        if (tail + slots - queue.head) % slots < needed {
            return Ok(Outcome::NoBuffer);
        }
        self.collect(index, needed, size, kind == 0)?;
        let end = if keeps_fcs { fcs(bytes) } else { [0; 4] };
        let end = if keeps_fcs { &end[..] } else { &[] };
        let mut sink = Scatter::new(&mut self.memory, &self.segments);
        let mut write = |part: &[u8]| sink.write(part).map_err(|fault| fault.to_string());
        if strips {
            write(&bytes[..12])?;
            write(&bytes[16..])?;
        } else {
            write(bytes)?;
        }
        if !end.is_empty() {
            write(end)?;
        }
        self.write_back(index, needed, total, kind == 0, report)?;
        Ok(Outcome::Received)
    }

    /// Looks at the next `count` descriptors, and keeps where their buffers are.
    #[inline]
    fn collect(&mut self, index: u32, count: u32, size: u32, legacy: bool) -> Result<(), String> {
        self.segments.clear();
        let queue = &mut self.rx[index as usize];
        let (mut at, slots) = (queue.head, queue.slots());
        let ring = queue.ring(&mut self.memory, self.call)?;
        let done: u64 = if legacy { 1 << 32 } else { 1 };
        for _ in 0..count {
            let slot = &ring[at as usize];
            let address = u64::from_le(slot[0].load(Ordering::Relaxed));
            let second = u64::from_le(slot[1].load(Ordering::Relaxed));
            // Linux's driver clears the length alone, and looks at nothing else.
            if second & done != 0 && (legacy || second >> 32 & 0xffff != 0) {
                return Err(format!("descriptor {at} handed over with DD still set"));
            }
            if address == 0 {
                return Err(format!("descriptor {at} has no buffer"));
            }
            let iova = Iova::from_device(address);
            if !self.memory.covers(iova, size as usize) {
                let len = size as usize;
                return Err(IommuFault { iova, len }.to_string());
            }
            self.segments.push(Segment {
                iova: address,
                len: size,
                writable: true,
            });
            at = if at + 1 == slots { 0 } else { at + 1 };
        }
        Ok(())
    }

    /// Writes the frame's descriptors back, first to last.
    #[inline]
    fn write_back(
        &mut self,
        index: u32,
        count: u32,
        total: u32,
        legacy: bool,
        report: &Report,
    ) -> Result<(), String> {
        let queue = &mut self.rx[index as usize];
        let (mut at, slots) = (queue.head, queue.slots());
        let size = queue.buffer_size();
        let ring = queue.ring(&mut self.memory, self.call)?;
        for n in 1..=count {
            let last = n == count;
            let filled = if last {
                total - (count - 1) * size
            } else {
                size
            };
            let length = if self.faults.strikes(Fault::WrongLength) {
                u32::from(u16::MAX)
            } else {
                filled
            };
            let middle = Report {
                status: rxd::DD,
                ..Report::default()
            };
            let (first, second) = if last { report } else { &middle }.words(legacy, length);
            let slot = &ring[at as usize];
            at = if at + 1 == slots { 0 } else { at + 1 };
            if self.faults.strikes(Fault::RxCompletionLost) {
                continue;
            }
            if let Some(first) = first {
                slot[0].store(first.to_le(), Ordering::Relaxed);
            }
            slot[1].store(second.to_le(), Ordering::Release);
        }
        queue.head = at;
        Ok(())
    }
}
