//! Frames that arrive at a physical function.

use super::Ixgbe;
use super::bits::{hlreg, reg, ring, rxd};
use super::options::Kind;
use super::queue::Side;
use super::rings::{Outcome, Report};
use super::rss::Hash;
use super::stats::counter;
use crate::counters::DeviceCounts;
use crate::e1000::packet::Packet;
use crate::frames::{Carrier, HEAD, WireFrame};
use crate::{FCS, Mac};

/// Longest frame that any of the devices takes, and some room.
pub(super) const SCRATCH: usize = 16_384 + 64;
const EVERYONE: Mac = [0xff; 6];
/// A packet's type in the first word of a write-back (§7.1.6.2).
const IPV4: u32 = 1 << 4;
const IPV6: u32 = 1 << 6;
const TCP: u32 = 1 << 8;
const UDP: u32 = 1 << 9;
/// Cause of an interrupt: a frame was missed.
const RX_MISS: u32 = 1 << 17;

/// What became of a frame.
enum Verdict {
    Received,
    Filtered,
    NoBuffer,
    TooLong,
}

impl Ixgbe {
    /// Frames arrive.
    pub(super) fn receive(
        &mut self,
        frames: &[WireFrame],
        carrier: &mut Carrier<'_>,
        tally: &mut DeviceCounts,
    ) {
        self.refresh_addresses();
        self.refresh_key();
        let before = *tally;
        let ready = self.is_ready();
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut touched = 0u128;
        for frame in frames {
            if !ready || self.stalled {
                tally.rx_not_ready += 1;
            } else if !frame.fcs_good {
                tally.rx_bad_fcs += 1;
                self.stats.count(counter::CRCERRS);
            } else {
                self.receive_one(frame, carrier, &mut scratch, &mut touched, tally);
            }
        }
        self.scratch = scratch;
        self.count_round(&before, tally);
        while touched != 0 {
            let queue = touched.trailing_zeros();
            touched &= touched - 1;
            self.raise_queue(Side::Rx, queue);
        }
    }

    fn is_ready(&self) -> bool {
        let looped = self.registers.has(reg::HLREG0, hlreg::LPBK);
        self.registers.has(reg::RXCTRL, 1)
            && !self.registers.has(reg::SECRXCTRL, 2)
            && (self.link_shown || looped)
            && self.is_alive()
    }

    fn receive_one(
        &mut self,
        frame: &WireFrame,
        carrier: &mut Carrier<'_>,
        scratch: &mut [u8],
        touched: &mut u128,
        tally: &mut DeviceCounts,
    ) {
        let len = frame.len() as usize;
        let mut small = [0; HEAD];
        let read = if len <= HEAD {
            carrier.head(frame, &mut small).ok()
        } else if len <= SCRATCH - 64 {
            let bytes = &mut scratch[..len];
            carrier.read(frame, bytes).ok().map(|()| &*bytes)
        } else {
            tally.rx_too_long += 1;
            self.stats.count(counter::ROC);
            return;
        };
        let Some(bytes) = read else {
            tally.rx_bad_fcs += 1;
            return;
        };
        match self.take_in(bytes, touched) {
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

    #[inline]
    fn take_in(&mut self, bytes: &[u8], touched: &mut u128) -> Result<Verdict, (u32, String)> {
        let Some(&to) = bytes.first_chunk::<6>() else {
            return Ok(Verdict::Filtered);
        };
        let [a, b, ..] = self.registers.get(reg::VLNCTRL).to_le_bytes();
        let packet = Packet::parse(bytes, u16::from_le_bytes([a, b]));
        let len = u32::try_from(bytes.len()).expect("shorter than the scratch");
        if self.is_too_long(len, packet.vlan.is_some()) {
            return Ok(Verdict::TooLong);
        }
        let Some(route) = self.route(to, packet.vlan) else {
            return Ok(Verdict::Filtered);
        };
        let hash = self.hash(&packet);
        let report = report(self.kind, &packet, hash, self.reports_hash(), route.exact);
        let mut verdict = Verdict::NoBuffer;
        let mut pools = route.pools;
        while pools != 0 {
            let pool = pools.trailing_zeros();
            pools &= pools - 1;
            let queue = self.queue_in(pool, hash);
            let done = self.put(queue, bytes, packet.vlan, report);
            if done.map_err(|sentence| (queue, sentence))? {
                *touched |= 1 << queue;
                verdict = Verdict::Received;
            }
        }
        Ok(verdict)
    }

    /// Puts a frame into a queue. False if it has no room.
    #[inline]
    fn put(
        &mut self,
        index: u32,
        bytes: &[u8],
        vlan: Option<u16>,
        mut report: Report,
    ) -> Result<bool, String> {
        let Some(queue) = self.rings.rx.get(index as usize) else {
            return Err("led to a queue that there is not".into());
        };
        let (control, srrctl) = (queue.control, queue.srrctl);
        let limited = self.kind != Kind::I82599 && control & ring::RLPML_EN != 0;
        let length = bytes.len() as u64 + FCS;
        let strips = control & ring::VME != 0 && vlan.is_some();
        let too_long = limited && length > u64::from(control & ring::RLPML);
        if let Some(tag) = vlan.filter(|_| strips) {
            report.status |= rxd::VP;
            report.tag = tag;
        }
        let keeps = !self.registers.has(reg::HLREG0, hlreg::RXCRCSTRP);
        let outcome = if too_long {
            Outcome::NoBuffer
        } else {
            self.rings.put(index, bytes, (strips, keeps), &report)?
        };
        let set = self.statistics_of(reg::RQSMR, index);
        if outcome == Outcome::Received {
            let size = bytes.len() as u64 + if keeps { FCS } else { 0 };
            self.stats.count(counter::QPRC + 0x40 * set);
            self.stats.add(counter::QBRC + 0x40 * set, size);
            return Ok(true);
        }
        if srrctl & ring::DROP_EN != 0 || self.drops >> index & 1 == 1 {
            self.stats.count(counter::QPRDC + 0x40 * set);
        } else {
            self.stats.count(counter::MPC);
            self.interrupts.raise(RX_MISS);
        }
        Ok(false)
    }

    /// The set of counters that a queue counts in (`RQSMR`, `TQSM`).
    #[inline]
    pub(super) fn statistics_of(&self, map: u32, queue: u32) -> u32 {
        let sets = self.registers.get(map + queue / 4 * 4).to_le_bytes();
        u32::from(sets[(queue % 4) as usize] & 0xf)
    }

    #[inline]
    fn count_received(&mut self, bytes: &[u8], tally: &mut DeviceCounts) {
        let size = bytes.len() as u64 + FCS;
        let to = bytes.first_chunk::<6>().copied().unwrap_or_default();
        tally.rx_frames += 1;
        tally.rx_bytes += size;
        if to == EVERYONE {
            tally.rx_broadcast += 1;
            self.stats.count(counter::BPRC);
        } else if to[0] & 1 == 1 {
            tally.rx_multicast += 1;
            self.stats.count(counter::MPRC);
        } else {
            tally.rx_unicast += 1;
        }
        self.stats.count_size(counter::PRC64, size);
    }

    /// Adds what came in since `before` to the statistics, once a round.
    fn count_round(&mut self, before: &DeviceCounts, after: &DeviceCounts) {
        let frames = after.rx_frames - before.rx_frames;
        let bytes = after.rx_bytes - before.rx_bytes;
        for packets in [counter::GPRC, counter::TPR, counter::RXDGPC] {
            self.stats.add(packets, frames);
        }
        for octets in [counter::GORC, counter::TOR, counter::RXDGBC] {
            self.stats.add(octets, bytes);
        }
    }
}

/// What the last descriptor says of a frame, but for its tag.
#[inline]
pub(super) fn report(
    kind: Kind,
    packet: &Packet<'_>,
    hash: Hash,
    reports_hash: bool,
    exact: bool,
) -> Report {
    let mut report = Report {
        status: rxd::DD | rxd::EOP | if exact { 0 } else { rxd::PIF },
        kind: hash.kind,
        ..Report::default()
    };
    if reports_hash {
        report.value = hash.value;
    }
    let Some(ip) = packet.ip else {
        return report;
    };
    report.kind |= if ip.v6 { IPV6 } else { IPV4 };
    if let Some(good) = ip.header_good {
        report.status |= rxd::IPCS | if good { 0 } else { rxd::IPE };
    }
    if !reports_hash && !ip.v6 {
        report.value = u32::from(ip.id) << 16;
    }
    if let Some(transport) = ip.transport {
        report.kind |= if transport.tcp { TCP } else { UDP };
        // A UDP checksum of zero says that there is none; the 82599 calls it a bad one.
        let good = transport.good.or((kind == Kind::I82599).then_some(false));
        if let Some(good) = good {
            report.status |= rxd::L4CS | if good { 0 } else { rxd::L4E };
            report.status |= if transport.tcp { 0 } else { rxd::UDPCS };
        }
    }
    report
}
