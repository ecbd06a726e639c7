//! Frames to the driver (82540 §3.2, 82574 §7.1, 82576 §7.1).

mod filter;
mod header;
mod report;
mod split;

use std::sync::atomic::Ordering;

use hugemem::Iova;

use super::E1000;
use super::bits::{RFCTL_EXTEN, cause, ctrl, rctl, reg, ring, rxcsum, rxd};
use super::options::Kind;
use super::packet::{Packet, fcs};
use super::queue::Side;
use super::rss::Hash;
use super::stats::counter;
use crate::counters::DeviceCounts;
use crate::faults::Fault;
use crate::frames::{Carrier, Segment, WireFrame};
use crate::{FCS, Mac};
use header::Header;
use report::{Format, Report, is_done, packet_type};

/// Longest frame that any of the devices takes, and some room.
pub(super) const SCRATCH: usize = 16_384 + 64;
const EVERYONE: Mac = [0xff; 6];
/// Descriptor type in `SRRCTL`.
const DESCRIPTOR_TYPE: u32 = 7 << 25;

/// What became of a frame.
enum Verdict {
    Received,
    Filtered,
    NoBuffer,
    TooLong,
}

/// How a frame lies in its descriptors' buffers.
#[derive(Clone, Copy)]
struct Layout {
    /// Descriptors.
    count: u32,
    /// Bytes in their buffers, but for the header's.
    total: u32,
    /// Bytes of a buffer.
    size: u32,
    format: Format,
    /// What the first one's header buffer takes.
    header: Header,
}

impl E1000 {
    /// Frames arrive.
    pub(super) fn receive(
        &mut self,
        frames: &[WireFrame],
        carrier: &mut Carrier<'_>,
        tally: &mut DeviceCounts,
    ) {
        let ready = self.is_ready();
        let mut scratch = std::mem::take(&mut self.scratch);
        for frame in frames {
            if !ready || self.stalled {
                tally.rx_not_ready += 1;
            } else if !frame.fcs_good {
                tally.rx_bad_fcs += 1;
                self.stats.count(counter::CRCERRS);
            } else {
                self.receive_one(frame, carrier, &mut scratch, tally);
            }
        }
        self.scratch = scratch;
    }

    fn is_ready(&self) -> bool {
        let on = match &self.vf {
            Some(side) => side.enabled,
            None => self.registers.has(reg::RCTL, rctl::EN),
        };
        on && (self.link_shown || self.is_looped()) && self.is_alive()
    }

    fn receive_one(
        &mut self,
        frame: &WireFrame,
        carrier: &mut Carrier<'_>,
        scratch: &mut [u8],
        tally: &mut DeviceCounts,
    ) {
        let len = frame.len() as usize;
        let Some(bytes) = scratch.get_mut(..len).filter(|_| len <= SCRATCH - 64) else {
            tally.rx_too_long += 1;
            self.stats.count(counter::ROC);
            return;
        };
        if carrier.read(frame, bytes).is_err() {
            tally.rx_bad_fcs += 1;
            return;
        }
        match self.take_in(bytes) {
            Ok(Verdict::Received) => self.count_received(bytes, tally),
            Ok(Verdict::Filtered) => tally.rx_filtered += 1,
            Ok(Verdict::NoBuffer) => tally.rx_no_buffer += 1,
            Ok(Verdict::TooLong) => {
                tally.rx_too_long += 1;
                self.stats.count(counter::ROC);
            }
            Err((queue, sentence)) => {
                tally.rx_dma_fault += 1;
                self.break_queue(Side::Rx, queue, &sentence);
            }
        }
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<Verdict, (u32, String)> {
        let Some(&to) = bytes.first_chunk::<6>() else {
            return Ok(Verdict::Filtered);
        };
        let packet = Packet::parse(bytes, self.vlan_type());
        let len = u32::try_from(bytes.len()).expect("shorter than the scratch");
        if self.vf.is_none() && self.is_too_long(len, packet.vlan.is_some()) {
            return Ok(Verdict::TooLong);
        }
        let accepted = match &self.vf {
            Some(side) => side.accepts(to, packet.vlan),
            None => self.accepts(to, packet.vlan),
        };
        if !accepted {
            return Ok(Verdict::Filtered);
        }
        let side = self.vf.as_ref();
        if side.is_some_and(|side| side.is_too_long(len, packet.vlan.is_some())) {
            return Ok(Verdict::TooLong);
        }
        let (hash, queue) = self.spread(&packet);
        let format = self.format(queue);
        let strips = match &self.vf {
            Some(side) => side.strips(),
            None => self.registers.has(reg::CTRL, ctrl::VME),
        };
        let tag = packet.vlan.filter(|_| strips);
        let report = self.report(&packet, tag, hash, format, queue);
        self.put(queue, bytes, format, &report)
            .map_err(|sentence| (queue, sentence))
    }

    fn format(&self, queue: u32) -> Format {
        let extended = match self.kind {
            Kind::E1000 => false,
            Kind::E1000e => self.registers.has(reg::RFCTL, RFCTL_EXTEN),
            Kind::Igb | Kind::IgbVf => {
                let queue = self.rx.get(queue as usize);
                queue.is_some_and(|queue| queue.srrctl & DESCRIPTOR_TYPE != 0)
            }
        };
        if extended {
            Format::Extended
        } else {
            Format::Legacy
        }
    }

    /// What the last descriptor says.
    fn report(
        &self,
        packet: &Packet<'_>,
        tag: Option<u16>,
        hash: Hash,
        format: Format,
        queue: u32,
    ) -> Report {
        let mut report = Report {
            status: rxd::DD | rxd::EOP | self.checksums(packet),
            tag: tag.unwrap_or(0),
            ..Report::default()
        };
        if tag.is_some() {
            report.status |= rxd::VP;
        }
        if format == Format::Legacy {
            return report;
        }
        // In place of the hash, where that is off, the IP identification.
        if self.registers.has(reg::RXCSUM, rxcsum::PCSD) {
            report.value = hash.value;
        } else if let Some(ip) = packet.ip.filter(|ip| !ip.v6 && self.vf.is_none()) {
            report.value = u32::from(ip.id);
            report.status |= rxd::IPIDV;
        }
        report.kind = u32::from(hash.kind);
        report.header = packet.headers();
        if self.kind == Kind::E1000e {
            report.kind |= queue << 8;
        } else {
            report.kind |= packet_type(packet);
        }
        report
    }

    /// Status and errors of the checksums that were looked at.
    fn checksums(&self, packet: &Packet<'_>) -> u32 {
        // A virtual function's frames are always looked at.
        let control = if self.kind == Kind::IgbVf {
            rxcsum::IPOFLD | rxcsum::TUOFLD
        } else {
            self.registers.get(reg::RXCSUM)
        };
        // Only the first device says so.
        let unchecked = if self.kind == Kind::E1000 {
            rxd::IXSM
        } else {
            0
        };
        if control & (rxcsum::IPOFLD | rxcsum::TUOFLD) == 0 {
            return unchecked;
        }
        let Some(ip) = packet.ip else {
            return unchecked;
        };
        let mut status = 0;
        if let Some(good) = ip.header_good.filter(|_| control & rxcsum::IPOFLD != 0) {
            status |= rxd::IPCS | if good { 0 } else { rxd::IPE };
        }
        let checked = ip.transport.filter(|_| control & rxcsum::TUOFLD != 0);
        if let Some(transport) = checked
            && let Some(good) = transport.good
        {
            status |= rxd::L4CS | if good { 0 } else { rxd::L4E };
            // Reserved in the first device's descriptors (developer's manual §3.2.3.1).
            if !transport.tcp && self.kind != Kind::E1000 {
                status |= rxd::UDPCS;
            }
        }
        status
    }

    /// Bytes of a receive buffer; 0 if no sensible size was set.
    fn buffer_size(&self, queue: u32) -> u32 {
        let srrctl = self.rx.get(queue as usize).map_or(0, |queue| queue.srrctl);
        if self.kind.is_advanced() && srrctl & 0x7f != 0 {
            return (srrctl & 0x7f) * 1024;
        }
        let control = self.registers.get(reg::RCTL);
        let size = 2048 >> (control >> rctl::BSIZE_SHIFT & 3);
        if control & rctl::BSEX != 0 {
            size * 16
        } else {
            size
        }
    }

    /// Writes a frame into the next buffers of `queue`, and its descriptors back.
    fn put(
        &mut self,
        index: u32,
        bytes: &[u8],
        format: Format,
        report: &Report,
    ) -> Result<Verdict, String> {
        if self
            .rx
            .get(index as usize)
            .is_some_and(|queue| queue.splits)
        {
            return self.put_split(index, bytes, report);
        }
        let strips = report.status & rxd::VP != 0;
        let keeps_fcs = self.vf.is_none() && !self.registers.has(reg::RCTL, rctl::SECRC);
        let size = self.buffer_size(index);
        let len = u32::try_from(bytes.len()).expect("shorter than the scratch");
        let cut = if strips { 4 } else { 0 };
        let total = len - cut + if keeps_fcs { 4 } else { 0 };
        let header = self.header_of(index, total, report.header.saturating_sub(cut));
        let total = total - header.bytes;
        let Some(count) = self.find_buffers(index, total.div_ceil(size).max(1))? else {
            return Ok(Verdict::NoBuffer);
        };
        let layout = Layout {
            count,
            total,
            size,
            format,
            header,
        };
        self.collect(index, &layout)?;
        let end = if keeps_fcs { fcs(bytes) } else { [0; 4] };
        let parts: [&[u8]; 3] = if strips {
            [&bytes[..12], &bytes[16..], &end]
        } else {
            [bytes, &[], &end]
        };
        let parts = if keeps_fcs { &parts[..] } else { &parts[..2] };
        let mut sink = crate::frames::Scatter::new(&mut self.memory, &self.segments);
        for part in parts {
            sink.write(part).map_err(|fault| fault.to_string())?;
        }
        self.write_back(index, &layout, report)?;
        self.raise_received(index);
        Ok(Verdict::Received)
    }

    /// A frame is in memory: the causes of interrupts that this is.
    fn raise_received(&mut self, index: u32) {
        let mut causes = cause::RXT0;
        if self.tails.get(Side::Rx, index) == self.rx[index as usize].head {
            causes |= 1 << 4;
        }
        self.raise(causes);
        self.raise_queue(Side::Rx, index);
    }

    /// How many descriptors the frame takes, if `queue` has them; otherwise counts it as missed.
    fn find_buffers(&mut self, index: u32, needed: u32) -> Result<Option<u32>, String> {
        let tail = self.tails.get(Side::Rx, index);
        let advanced = self.kind.is_advanced();
        let is_vf = self.vf.is_some();
        let Some(queue) = self.rx.get_mut(index as usize) else {
            return Err("spread to a queue that there is not".into());
        };
        let slots = queue.slots();
        let usable = !queue.broken && (!advanced || queue.is_enabled());
        let kind = queue.srrctl & DESCRIPTOR_TYPE;
        if advanced && usable && slots > 0 && !header::is_known(kind >> 25) {
            return Err(format!("descriptor type {} in SRRCTL", kind >> 25));
        }
        if usable && slots > 0 && (tail >= slots || queue.head >= slots) {
            return Err(format!(
                "tail {tail} and head {} with {slots} descriptors",
                queue.head
            ));
        }
        let free = if !usable || slots == 0 {
            0
        } else {
            (tail + slots - queue.head) % slots
        };
        if free >= needed {
            return Ok(Some(needed));
        }
        if advanced && (is_vf || queue.srrctl & ring::DROP_EN != 0) {
            // Twelve bits, which stay full.
            queue.dropped = (queue.dropped + 1).min(0xfff);
        } else {
            self.stats.count(counter::MPC);
            self.stats.count(counter::RNBC);
        }
        self.raise(cause::RXO);
        Ok(None)
    }

    /// Looks at the next descriptors, and keeps where their buffers are.
    fn collect(&mut self, index: u32, layout: &Layout) -> Result<(), String> {
        let &Layout { size, format, .. } = layout;
        self.segments.clear();
        let queue = &mut self.rx[index as usize];
        let (mut at, slots) = (queue.head, queue.slots());
        let ring = queue.ring(&mut self.memory)?;
        for n in 0..layout.count {
            let slot = &ring[at as usize];
            let address = u64::from_le(slot[0].load(Ordering::Relaxed));
            let second = u64::from_le(slot[1].load(Ordering::Relaxed));
            if is_done(format, second) {
                return Err(format!("descriptor {at} handed over with DD still set"));
            }
            let header = if n == 0 { layout.header.bytes } else { 0 };
            for (address, len) in [(second, header), (address, size)] {
                if len == 0 {
                    continue;
                }
                if address == 0 {
                    return Err(format!("descriptor {at} has no buffer"));
                }
                let (iova, bytes) = (Iova::from_device(address), len as usize);
                if !self.memory.covers(iova, bytes) {
                    return Err(hugemem::IommuFault { iova, len: bytes }.to_string());
                }
                self.segments.push(Segment {
                    iova: address,
                    len,
                    writable: true,
                });
            }
            at = if at + 1 == slots { 0 } else { at + 1 };
        }
        Ok(())
    }

    /// Writes the frame's descriptors back, first to last.
    fn write_back(&mut self, index: u32, layout: &Layout, report: &Report) -> Result<(), String> {
        let &Layout {
            count, total, size, ..
        } = layout;
        let queue = &mut self.rx[index as usize];
        let (mut at, slots) = (queue.head, queue.slots());
        let ring = queue.ring(&mut self.memory)?;
        let middle = Report {
            status: rxd::DD,
            ..Report::default()
        };
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
            let (first, second) = if last { report } else { &middle }.words(layout.format, length);
            let info = if n == 1 { layout.header.info } else { 0 };
            let first = first.map(|first| first | u64::from(info));
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

    fn count_received(&mut self, bytes: &[u8], tally: &mut DeviceCounts) {
        let size = bytes.len() as u64 + FCS;
        let to = bytes.first_chunk::<6>().copied().unwrap_or_default();
        tally.rx_frames += 1;
        tally.rx_bytes += size;
        let group = to[0] & 1 == 1;
        if to == EVERYONE {
            tally.rx_broadcast += 1;
            self.stats.count(counter::BPRC);
        } else if group {
            tally.rx_multicast += 1;
            self.stats.count(counter::MPRC);
        } else {
            tally.rx_unicast += 1;
        }
        if self.vf.is_some() {
            self.add_vf(0xf10, 1);
            self.add_vf(0xf18, size);
            if group && to != EVERYONE {
                self.add_vf(0xf3c, 1);
            }
            return;
        }
        self.stats.count(counter::GPRC);
        self.stats.count(counter::TPR);
        self.stats.add(counter::GORC, size);
        self.stats.add(counter::TOR, size);
        self.stats.count_size(counter::PRC64, size);
    }
}
