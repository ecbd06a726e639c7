//! Frames of a virtual function.

use super::IxgbeVf;
use crate::counters::DeviceCounts;
use crate::e1000::packet::Packet;
use crate::faults::Fault;
use crate::frames::{Batch, Carrier, HEAD, ROUND, WireFrame};
use crate::ixgbe::bits::{ring, rxd};
use crate::ixgbe::options::Kind;
use crate::ixgbe::queue::Side;
use crate::ixgbe::receive::{SCRATCH, report};
use crate::ixgbe::rings::{Head, Outcome, SendRules, Taken};
use crate::ixgbe::rss::{Hash, Key};
use crate::{FCS, Mac, SHORTEST};

const VLAN: u16 = 0x8100;
/// `VFPSRTYPE`, `VFMRQC`, `VFRSSRK`, `VFRETA`.
const PSRTYPE: u32 = 0x300;
const MRQC: u32 = 0x3000;
const RSSRK: u32 = 0x3100;
const RETA: u32 = 0x3200;
/// What the physical function hashes: TCP over both, and both alone.
const HASHED: u32 = 1 << 16 | 1 << 17 | 1 << 20 | 1 << 21;

/// What became of a frame.
enum Verdict {
    Received,
    Filtered,
    NoBuffer,
    TooLong,
}

impl IxgbeVf {
    /// Frames arrive.
    pub(super) fn receive(&mut self, frames: &[WireFrame], carrier: &mut Carrier<'_>) {
        let mut tally = DeviceCounts::default();
        self.refresh_key();
        let ready = self.side.pool.receives && self.has_link() && self.pci.is_master();
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut touched = 0u32;
        for frame in frames {
            if !ready {
                tally.rx_not_ready += 1;
            } else if !frame.fcs_good {
                tally.rx_bad_fcs += 1;
            } else {
                self.receive_one(frame, carrier, &mut scratch, &mut touched, &mut tally);
            }
        }
        self.scratch = scratch;
        self.counters.add(&tally);
        while touched != 0 {
            let queue = touched.trailing_zeros();
            touched &= touched - 1;
            self.raise_queue(Side::Rx, queue);
        }
    }

    fn refresh_key(&mut self) {
        if self.kind == Kind::X550 && std::mem::take(&mut self.key_stale) {
            let mut key = [0; 40];
            for (n, bytes) in (0..).zip(key.chunks_exact_mut(4)) {
                bytes.copy_from_slice(&self.registers.get(RSSRK + 4 * n).to_le_bytes());
            }
            self.key = Key::new(&key);
        }
    }

    fn receive_one(
        &mut self,
        frame: &WireFrame,
        carrier: &mut Carrier<'_>,
        scratch: &mut [u8],
        touched: &mut u32,
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
            Ok(Verdict::TooLong) => tally.rx_too_long += 1,
            Err((queue, sentence)) => {
                tally.rx_dma_fault += 1;
                self.break_queue(Side::Rx, queue, &sentence);
            }
        }
    }

    #[inline]
    fn take_in(&mut self, bytes: &[u8], touched: &mut u32) -> Result<Verdict, (u32, String)> {
        let Some(&to) = bytes.first_chunk::<6>() else {
            return Ok(Verdict::Filtered);
        };
        let packet = Packet::parse(bytes, VLAN);
        let len = u32::try_from(bytes.len()).expect("shorter than the scratch");
        if self.side.pool.is_too_long(len, packet.vlan.is_some()) {
            return Ok(Verdict::TooLong);
        }
        if !self.side.pool.accepts(to, packet.vlan) {
            return Ok(Verdict::Filtered);
        }
        let (hash, queue) = self.spread(&packet);
        let exact = to == [0xff; 6] || self.side.pool.is_own(to);
        let mut report = report(self.kind, &packet, hash, true, exact);
        let control = self
            .rings
            .rx
            .get(queue as usize)
            .map_or(0, |queue| queue.control);
        let limited = self.kind != Kind::I82599 && control & ring::RLPML_EN != 0;
        if limited && bytes.len() as u64 + FCS > u64::from(control & ring::RLPML) {
            return Ok(Verdict::TooLong);
        }
        let strips = control & ring::VME != 0 && packet.vlan.is_some();
        // A port VLAN's tag is the physical function's business (`QDE.HIDE_VLAN`).
        if let Some(tag) = packet
            .vlan
            .filter(|_| strips && self.side.options.vlan == 0)
        {
            report.status |= rxd::VP;
            report.tag = tag;
        }
        let outcome = self.rings.put(queue, bytes, (strips, false), &report);
        Ok(match outcome.map_err(|sentence| (queue, sentence))? {
            Outcome::Received => {
                *touched |= 1 << queue;
                Verdict::Received
            }
            Outcome::NoBuffer => Verdict::NoBuffer,
        })
    }

    /// The hash, and the queue that it leads to: by the physical function's key and table, or
    /// its own on X550.
    #[inline]
    fn spread(&self, packet: &Packet<'_>) -> (Hash, u32) {
        let own = self.kind == Kind::X550;
        let fields = if own {
            let control = self.registers.get(MRQC);
            if control & 1 == 0 {
                return (Hash::default(), 0);
            }
            control
        } else {
            HASHED
        };
        let hash = self.key.hash(packet, fields);
        if hash.kind == 0 {
            return (hash, 0);
        }
        let entry = if own {
            let slot = hash.value & 0x3f;
            let entries = self.registers.get(RETA + slot / 4 * 4).to_le_bytes();
            u32::from(entries[(slot % 4) as usize])
        } else {
            self.side.entry(hash.value & 0x7f)
        };
        let bits = self.registers.get(PSRTYPE) >> 29;
        let most = u32::from(self.side.options.queues.max(1)) - 1;
        (hash, entry & ((1 << bits) - 1) & most)
    }

    fn count_received(&mut self, bytes: &[u8], tally: &mut DeviceCounts) {
        let size = bytes.len() as u64 + FCS;
        let to = bytes.first_chunk::<6>().copied().unwrap_or_default();
        tally.rx_frames += 1;
        tally.rx_bytes += size;
        self.totals.rx_frames += 1;
        self.totals.rx_bytes += size;
        if to == [0xff; 6] {
            tally.rx_broadcast += 1;
        } else if to[0] & 1 == 1 {
            tally.rx_multicast += 1;
            self.totals.rx_multicast += 1;
        } else {
            tally.rx_unicast += 1;
        }
    }

    /// Takes posted frames from all queues in turn.
    pub(super) fn take_frames(&mut self, batch: &mut Batch, limit: usize) {
        if !self.side.pool.sends || !self.has_link() || !self.pci.is_master() {
            return;
        }
        let limit = limit.min(ROUND);
        let mut tally = DeviceCounts::default();
        let queues = self.rings.senders_on.len();
        for n in 0..queues {
            let index = self.rings.senders_on[(n + self.turn) % queues];
            self.take_from(index, batch, limit, &mut tally);
        }
        self.turn = self.turn.wrapping_add(1) % queues.max(1);
        self.counters.add(&tally);
    }

    fn take_from(&mut self, index: u32, batch: &mut Batch, limit: usize, tally: &mut DeviceCounts) {
        let options = self.side.options;
        let tag = options.vlan | u16::from(options.qos) << 13;
        let rules = SendRules {
            pads: true,
            vlan_type: VLAN,
            port_vlan: (tag != 0).then_some(tag),
        };
        while batch.frames.len() < limit {
            let before = batch.frames.len();
            match self.rings.take(index, batch, rules) {
                Ok(Taken::Nothing) => return,
                Ok(Taken::Frames(head)) => {
                    if !self.may_leave(&head) {
                        batch.frames.truncate(before);
                        self.side.pf.count_spoofed();
                        continue;
                    }
                    for frame in &batch.frames[before..] {
                        let bytes = u64::from(frame.len().max(SHORTEST)) + FCS;
                        tally.tx_frames += 1;
                        tally.tx_bytes += bytes;
                        self.totals.tx_frames += 1;
                        self.totals.tx_bytes += bytes;
                    }
                }
                Ok(Taken::Refused(flaw)) => {
                    tally.tx_errors += 1;
                    self.object(format!("transmit queue {index}: {flaw}"));
                }
                Err(sentence) => {
                    self.break_queue(Side::Tx, index, &sentence);
                    return;
                }
            }
        }
    }

    fn may_leave(&self, head: &Head) -> bool {
        let from: Mac = std::array::from_fn(|n| head[6 + n]);
        self.side
            .pool
            .may_send(from, Packet::parse(head, VLAN).vlan)
    }

    /// The frames of the last round have left: their descriptors go back.
    pub(super) fn put_sent(&mut self) {
        if !self.side.is_up()
            || !self.pci.is_master()
            || self.faults.strikes(Fault::LateCompletions)
        {
            return;
        }
        for n in 0..self.rings.senders_on.len() {
            let index = self.rings.senders_on[n];
            match self.rings.put_back(index) {
                Ok(false) => {}
                Ok(true) => self.raise_queue(Side::Tx, index),
                Err(sentence) => self.break_queue(Side::Tx, index, &sentence),
            }
        }
    }
}
