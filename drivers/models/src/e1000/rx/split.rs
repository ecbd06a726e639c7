//! Packet split: descriptors with four buffers, the first for headers (82574 §7.1.5.3, §7.1.10,
//! §10.2.5.3).
//!
//! Where headers of IP are found that fit the first buffer, they go there, and what follows goes
//! into the others; anything else fills one buffer after the other. A frame that is longer than
//! the four is not continued in the next descriptor here: that is objected to.

use std::sync::atomic::Ordering;

use hugemem::Iova;

use super::super::E1000;
use super::super::bits::{rctl, reg, rxd};
use super::super::options::Kind;
use super::super::packet::fcs;
use super::{Report, Verdict};
use crate::faults::Fault;
use crate::frames::{Scatter, Segment};

const PSRCTL: u32 = 0x2170;
/// `RCTL.DTYP`: packet split.
const SPLIT: u32 = 1 << 10;
/// In the header's status: it was split off.
const HDRSP: u64 = 1 << 15;
const BUFFERS: usize = 4;
/// Slots of 16 bytes that a descriptor takes: head and tail count those.
const SLOTS: u32 = 2;

/// Bytes of the four buffers: the first in units of 128, the others of 1 KiB.
fn sizes(control: u32) -> [u32; BUFFERS] {
    [
        (control & 0x7f) * 128,
        (control >> 8 & 0x3f) * 1024,
        (control >> 16 & 0x3f) * 1024,
        (control >> 24 & 0x3f) * 1024,
    ]
}

/// How much goes into each buffer: of `total` bytes, whose first `header` are split off (0: none
/// are). None if it is more than they hold.
fn portions(total: u32, header: u32, sizes: [u32; BUFFERS]) -> Option<[u32; BUFFERS]> {
    let mut lens = [0; BUFFERS];
    let splits = header > 0 && header <= sizes[0];
    let mut left = total;
    for (n, (len, size)) in lens.iter_mut().zip(sizes).enumerate() {
        let room = if splits && n == 0 { header } else { size };
        *len = left.min(room);
        left -= *len;
    }
    (left == 0).then_some(lens)
}

impl E1000 {
    /// The receive control is written: from now on descriptors are split, or not.
    pub(in crate::e1000) fn set_split(&mut self, control: u32) {
        let splits = self.kind == Kind::E1000e && control & rctl::DTYP == SPLIT;
        for queue in &mut self.rx {
            queue.splits = splits;
        }
    }

    /// Writes a frame into the four buffers of the next descriptor, and that back.
    pub(super) fn put_split(
        &mut self,
        index: u32,
        bytes: &[u8],
        report: &Report,
    ) -> Result<Verdict, String> {
        let strips = report.status & rxd::VP != 0;
        let keeps_fcs = !self.registers.has(reg::RCTL, rctl::SECRC);
        let end = fcs(bytes);
        let parts: [&[u8]; 3] = [
            if strips { &bytes[..12] } else { bytes },
            if strips { &bytes[16..] } else { &[] },
            if keeps_fcs { &end } else { &[] },
        ];
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let total = u32::try_from(total).expect("shorter than the scratch");
        let header = report.header.saturating_sub(if strips { 4 } else { 0 });
        let sizes = sizes(self.registers.get(PSRCTL));
        if self.find_buffers(index, SLOTS)?.is_none() {
            return Ok(Verdict::NoBuffer);
        }
        let lens = portions(total, header, sizes).ok_or_else(|| {
            format!("a frame of {total} bytes in buffers of {sizes:?}: going on is not modelled")
        })?;
        self.collect_split(index, lens, sizes)?;
        let mut sink = Scatter::new(&mut self.memory, &self.segments);
        for part in parts {
            sink.write(part).map_err(|fault| fault.to_string())?;
        }
        let is_split = header > 0 && header <= sizes[0];
        self.write_back_split(index, lens, if is_split { header } else { 0 }, report)?;
        self.raise_received(index);
        Ok(Verdict::Received)
    }

    /// Looks at the next descriptor, and keeps where its buffers are.
    fn collect_split(
        &mut self,
        index: u32,
        lens: [u32; BUFFERS],
        sizes: [u32; BUFFERS],
    ) -> Result<(), String> {
        self.segments.clear();
        let queue = &mut self.rx[index as usize];
        let at = queue.head as usize;
        let ring = queue.ring(&mut self.memory)?;
        let slots = ring.get(at..at + 2).ok_or("a descriptor beyond the ring")?;
        let words = slots.iter().flatten();
        let mut addresses = [0; BUFFERS];
        for (address, word) in addresses.iter_mut().zip(words) {
            *address = u64::from_le(word.load(Ordering::Relaxed));
        }
        if sizes[1] > 0 && addresses[1] & 1 == 1 {
            return Err(format!("descriptor {at} handed over with DD still set"));
        }
        for n in 0..BUFFERS {
            if lens[n] == 0 {
                continue;
            }
            if addresses[n] == 0 {
                return Err(format!("descriptor {at} has no buffer {n}"));
            }
            // All of it is the device's, however little it writes.
            let (iova, len) = (Iova::from_device(addresses[n]), sizes[n] as usize);
            if !self.memory.covers(iova, len) {
                return Err(hugemem::IommuFault { iova, len }.to_string());
            }
            self.segments.push(Segment {
                iova: addresses[n],
                len: lens[n],
                writable: true,
            });
        }
        Ok(())
    }

    fn write_back_split(
        &mut self,
        index: u32,
        lens: [u32; BUFFERS],
        header: u32,
        report: &Report,
    ) -> Result<(), String> {
        let lost = self.faults.strikes(Fault::RxCompletionLost);
        let first = if self.faults.strikes(Fault::WrongLength) {
            u32::from(u16::MAX)
        } else {
            lens[0]
        };
        let queue = &mut self.rx[index as usize];
        let (at, slots) = (queue.head as usize, queue.slots());
        let ring = queue.ring(&mut self.memory)?;
        let slot = ring.get(at..at + 2).ok_or("a descriptor beyond the ring")?;
        if !lost {
            let [_, b, c, d] = lens.map(u64::from);
            let status = if header > 0 {
                HDRSP | u64::from(header)
            } else {
                0
            };
            let upper = status | b << 16 | c << 32 | d << 48;
            let (kind, value) = (u64::from(report.kind), u64::from(report.value));
            let (length, tag) = (u64::from(first), u64::from(report.tag));
            let done = u64::from(report.status) | length << 32 | tag << 48;
            slot[0][0].store((kind | value << 32).to_le(), Ordering::Relaxed);
            slot[1][0].store(upper.to_le(), Ordering::Relaxed);
            slot[1][1].store(0, Ordering::Relaxed);
            slot[0][1].store(done.to_le(), Ordering::Release);
        }
        queue.head = (queue.head + SLOTS) % slots;
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn headers_that_fit_go_first_and_anything_else_fills_one_after_the_other() {
        let control = 2 | 4 << 8 | 4 << 16 | 1 << 24;
        let sizes = sizes(control);
        assert_eq!(sizes, [256, 4096, 4096, 1024]);
        assert_eq!(portions(1000, 54, sizes), Some([54, 946, 0, 0]));
        assert_eq!(portions(1000, 0, sizes), Some([256, 744, 0, 0]));
        assert_eq!(portions(1000, 300, sizes), Some([256, 744, 0, 0]));
        assert_eq!(portions(9018, 54, sizes), Some([54, 4096, 4096, 772]));
        assert_eq!(portions(9473, 0, sizes), None);
    }
}
