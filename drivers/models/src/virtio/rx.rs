//! Frames to the driver (§5.1.6.3, §5.1.6.4).

use hugemem::Translator;

use super::VirtioNet;
use super::bits::{feature, header};
use super::checksum;
use super::filter::Addressee;
use super::queue::either;
use super::ring::{Broken, Ring, Used};
use super::rss::{Hash, Spread};
use super::steer::flow_hash;
use crate::counters::DeviceCounts;
use crate::faults::{DeviceFaults, Fault};
use crate::frames::{Carrier, HEAD, Scatter, Segment, WireFrame};
use crate::{FCS, Objections};

/// Buffers must hold this where a frame may not be continued in the next: header, Ethernet
/// header, 1500 bytes (§5.1.6.3.1 counts the long header).
const WHOLE_FRAME: u64 = 1514;

/// What became of a frame.
enum Verdict {
    Received,
    NoBuffer,
    TooLong,
}

/// What a queue needs to take a frame.
struct Reception<'a> {
    memory: &'a mut Translator,
    segments: &'a mut Vec<Segment>,
    used: &'a mut Vec<Used>,
    header_len: usize,
    mergeable: bool,
    /// Legacy drivers that did not accept `ANY_LAYOUT` have the header in a buffer of its own.
    header_apart: bool,
    flags: u8,
    /// What the header tells, where it tells hashes.
    hash: Option<Hash>,
    faults: &'a DeviceFaults,
    objections: &'a Objections,
}

impl VirtioNet {
    /// Frames arrive.
    pub(super) fn receive(&mut self, frames: &[WireFrame], carrier: &mut Carrier<'_>) {
        let mut tally = DeviceCounts::default();
        if let Err((queue, broken)) = self.check_receivers() {
            self.break_down(queue, broken);
        }
        for frame in frames {
            if !self.is_running() {
                tally.rx_not_ready += 1;
            } else if !frame.fcs_good {
                tally.rx_bad_fcs += 1;
            } else {
                self.receive_one(frame, carrier, &mut tally);
            }
        }
        self.counters.add(&tally);
        for index in (0..self.receivers() * 2).step_by(2) {
            self.publish(index);
        }
    }

    /// How many pairs may get frames.
    fn receivers(&self) -> usize {
        let by_table = self.spread.as_ref().filter(|spread| spread.has_table());
        usize::from(by_table.map_or(self.active_pairs, Spread::receivers))
    }

    /// Checks that the rings that frames go to are still mapped.
    fn check_receivers(&mut self) -> Result<(), (u16, Broken)> {
        if !self.is_running() {
            return Ok(());
        }
        let receivers = self.queues.iter().step_by(2);
        for queue in receivers.take(self.receivers()) {
            if let Some(ring) = &queue.ring {
                either!(ring, ring => ring.check(&mut self.memory))
                    .map_err(|broken| (queue.index, broken))?;
            }
        }
        Ok(())
    }

    fn receive_one(
        &mut self,
        frame: &WireFrame,
        carrier: &mut Carrier<'_>,
        tally: &mut DeviceCounts,
    ) {
        let mut scratch = [0; HEAD];
        let Ok(head) = carrier.head(frame, &mut scratch) else {
            tally.rx_bad_fcs += 1;
            return;
        };
        if !self.filter.passes(head, self.config.mac) {
            tally.rx_filtered += 1;
            return;
        }
        let addressee = Addressee::of(head);
        let hash = self.spread.as_ref().and_then(|spread| spread.hash(head));
        let pair = match &self.spread {
            Some(spread) if spread.has_table() => spread.pair(hash),
            _ => self.own_choice(head),
        };
        let index = pair * 2;
        match self.put_frame(index, frame, hash, carrier) {
            Ok(Verdict::Received) => {
                tally.rx_frames += 1;
                tally.rx_bytes += u64::from(frame.len()) + FCS;
                match addressee {
                    Addressee::One => tally.rx_unicast += 1,
                    Addressee::Group => tally.rx_multicast += 1,
                    Addressee::Everyone => tally.rx_broadcast += 1,
                }
            }
            Ok(Verdict::NoBuffer) => tally.rx_no_buffer += 1,
            Ok(Verdict::TooLong) => tally.rx_too_long += 1,
            Err(broken) => {
                tally.rx_dma_fault += 1;
                self.break_down(index, broken);
            }
        }
    }

    /// The pair of a frame where no table says it.
    fn own_choice(&self, head: &[u8]) -> u16 {
        match self.active_pairs {
            1 => 0,
            pairs => u16::try_from(flow_hash(head) % u32::from(pairs)).expect("less than a u16"),
        }
    }

    fn put_frame(
        &mut self,
        index: u16,
        frame: &WireFrame,
        hash: Option<Hash>,
        carrier: &mut Carrier<'_>,
    ) -> Result<Verdict, Broken> {
        let mut flags = 0;
        if self.has(feature::GUEST_CSUM) {
            // Only what was looked at may be called good (§5.1.6.4.1).
            self.scratch.resize(frame.len() as usize, 0);
            carrier.read(frame, &mut self.scratch)?;
            if checksum::is_good(&self.scratch) == Some(true) {
                flags = header::DATA_VALID;
            }
        }
        let header_len = self.header_len();
        let mergeable = self.has(feature::MRG_RXBUF);
        let header_apart = !self.has(feature::VERSION_1) && !self.has(feature::ANY_LAYOUT);
        let Some(queue) = self.queues.get_mut(usize::from(index)) else {
            return Ok(Verdict::NoBuffer);
        };
        let Some(ring) = &mut queue.ring else {
            return Ok(Verdict::NoBuffer);
        };
        queue.touched = true;
        let reception = Reception {
            memory: &mut self.memory,
            segments: &mut self.segments,
            used: &mut self.used,
            header_len,
            mergeable,
            header_apart,
            flags,
            hash,
            faults: &self.faults,
            objections: &self.objections,
        };
        either!(ring, ring => reception.put(ring, frame, carrier))
    }
}

impl Reception<'_> {
    /// Writes the frame into the next buffers of `ring` and puts those back.
    #[inline]
    fn put<R: Ring>(
        mut self,
        ring: &mut R,
        frame: &WireFrame,
        carrier: &mut Carrier<'_>,
    ) -> Result<Verdict, Broken> {
        let mark = ring.mark();
        let needed = self.header_len as u64 + u64::from(frame.len());
        let mut room = 0;
        self.segments.clear();
        self.used.clear();
        while room < needed {
            if !self.used.is_empty() && !self.mergeable {
                ring.rewind(mark);
                return Ok(Verdict::TooLong);
            }
            let first = self.segments.len();
            let Some(chain) = ring.next(self.memory, self.segments)? else {
                ring.rewind(mark);
                return Ok(Verdict::NoBuffer);
            };
            let bytes = self.check_chain(first)?;
            let written = (needed - room).min(bytes);
            let written = u32::try_from(written).expect("no more than a frame");
            room += bytes;
            self.used.push(Used { chain, written });
        }
        let buffers = u16::try_from(self.used.len()).expect("no more than the ring has");
        let mut header = [0; header::HASHED];
        header[0] = self.flags;
        header[header::SHORT..header::LONG].copy_from_slice(&buffers.to_le_bytes());
        if let Some(hash) = self.hash {
            header[12..16].copy_from_slice(&hash.value.to_le_bytes());
            header[16..18].copy_from_slice(&hash.report.to_le_bytes());
        }
        let mut sink = Scatter::new(self.memory, self.segments);
        sink.write(&header[..self.header_len])?;
        carrier.copy(frame, &mut sink)?;
        if self.faults.any() {
            self.put_badly(ring);
        } else {
            ring.put(self.used);
        }
        Ok(Verdict::Received)
    }

    /// Checks the buffers of a chain; how many bytes they hold.
    #[inline]
    fn check_chain(&self, first: usize) -> Result<u64, Broken> {
        let segments = &self.segments[first..];
        if segments.iter().any(|segment| !segment.writable) {
            return Err(Broken::new("readable buffer on a receive queue (§5.1.6.3)"));
        }
        let bytes: u64 = segments.iter().map(|segment| u64::from(segment.len)).sum();
        let least = self.header_len as u64 + if self.mergeable { 0 } else { WHOLE_FRAME };
        if bytes < least {
            self.objections.raise(format!(
                "receive buffer of {bytes} bytes, of at least {least} (§5.1.6.3.1)"
            ));
        }
        if self.header_apart && !self.mergeable && segments[0].len as usize != self.header_len {
            self.objections.raise(
                "header not in a buffer of its own, and ANY_LAYOUT was not negotiated (§5.1.6.6)",
            );
        }
        Ok(bytes)
    }

    /// As [`Ring::put`], with the faults that tests want.
    #[cold]
    fn put_badly<R: Ring>(&mut self, ring: &mut R) {
        let faults = self.faults;
        if faults.strikes(Fault::RxCompletionLost) {
            return;
        }
        if faults.strikes(Fault::WrongLength)
            && let Some(used) = self.used.first_mut()
        {
            used.written = u32::MAX / 2;
        }
        if faults.strikes(Fault::IdOutOfRange)
            && let Some(&used) = self.used.first()
        {
            ring.put_stranger(used);
            return;
        }
        ring.put(self.used);
    }
}
