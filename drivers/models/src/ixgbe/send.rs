//! Frames that a physical function sends.

use super::Ixgbe;
use super::bits::{hlreg, reg};
use super::queue::Side;
use super::rings::{Head, SendRules, Taken};
use super::stats::counter;
use crate::counters::DeviceCounts;
use crate::e1000::packet::Packet;
use crate::faults::Fault;
use crate::frames::{Batch, ROUND};
use crate::{FCS, Mac, SHORTEST};

/// `DMATXCTL.TE`.
const ENABLE: u32 = 1;
/// `VMVIR`: always insert the tag.
const ALWAYS: u32 = 1 << 30;

impl Ixgbe {
    /// Takes posted frames from all queues in turn.
    pub(super) fn take_frames(&mut self, batch: &mut Batch, limit: usize) {
        if !self.registers.has(reg::DMATXCTL, ENABLE) || !self.is_alive() {
            return;
        }
        let limit = limit.min(ROUND);
        let mut tally = DeviceCounts::default();
        if self.registers.has(reg::HLREG0, hlreg::LPBK) {
            self.loop_back(limit);
        } else if self.link_shown {
            self.take_all(batch, limit, &mut tally);
        }
        self.counters.add(&tally);
    }

    fn take_all(&mut self, batch: &mut Batch, limit: usize, tally: &mut DeviceCounts) {
        let queues = self.rings.senders_on.len();
        let before = *tally;
        for n in 0..queues {
            let index = self.rings.senders_on[(n + self.turn) % queues];
            self.take_from(index, batch, limit, tally);
        }
        // The totals once a round.
        let frames = tally.tx_frames - before.tx_frames;
        for packets in [counter::GPTC, counter::TPT, counter::TXDGPC] {
            self.stats.add(packets, frames);
        }
        for octets in [counter::GOTC, counter::TXDGBC] {
            self.stats.add(octets, tally.tx_bytes - before.tx_bytes);
        }
        self.turn = self.turn.wrapping_add(1) % queues.max(1);
    }

    fn take_from(&mut self, index: u32, batch: &mut Batch, limit: usize, tally: &mut DeviceCounts) {
        let pool = self.pool_of(index);
        if pool.is_some_and(|pool| !self.registers.bit(reg::VFTE, pool)) {
            return;
        }
        let rules = self.rules(pool);
        while batch.frames.len() < limit {
            let before = batch.frames.len();
            match self.rings.take(index, batch, rules) {
                Ok(Taken::Nothing) => return,
                Ok(Taken::Frames(head)) => {
                    if pool.is_some_and(|pool| self.is_spoofed(pool, &head)) {
                        batch.frames.truncate(before);
                        self.stats.count(counter::SSVPC);
                        continue;
                    }
                    for frame in &batch.frames[before..] {
                        count_sent(&mut self.stats, frame.len(), &head, tally);
                    }
                    let frames = (batch.frames.len() - before) as u64;
                    let bytes = batch.frames[before..]
                        .iter()
                        .map(|frame| u64::from(frame.len()));
                    let bytes = bytes.sum();
                    let set = self.statistics_of(reg::TQSM, index);
                    self.stats.add(counter::QPTC + 4 * set, frames);
                    self.stats.add(counter::QBTC + 8 * set, bytes);
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

    fn rules(&self, pool: Option<u32>) -> SendRules {
        let control = self.registers.get(reg::HLREG0);
        if control & hlreg::TXCRCEN == 0 {
            self.object("frames sent while HLREG0.TXCRCEN is clear: without an FCS");
        }
        let [_, _, a, b] = self.registers.get(reg::DMATXCTL).to_le_bytes();
        let port_vlan = pool
            .map(|pool| self.registers.get(reg::VMVIR + 4 * pool))
            .filter(|vlan| vlan & ALWAYS != 0)
            .map(|vlan| u16::try_from(vlan & 0xffff).expect("16 bits"));
        SendRules {
            pads: control & hlreg::TXPADEN != 0,
            vlan_type: u16::from_le_bytes([a, b]),
            port_vlan,
        }
    }

    /// True if a pool's frame has an address or a VLAN that is not the pool's, and that is looked
    /// at (`PFVFSPOOF`: eight pools a register, addresses low, VLANs behind; §8.2.3.27.19).
    fn is_spoofed(&mut self, pool: u32, head: &Head) -> bool {
        let checks = self.registers.get(reg::PFVFSPOOF + pool / 8 * 4);
        let (address, vlan) = (checks >> (pool % 8) & 1, checks >> (8 + pool % 8) & 1);
        if address == 0 && vlan == 0 {
            return false;
        }
        self.refresh_addresses();
        let from: Mac = std::array::from_fn(|n| head[6 + n]);
        let own = |&(known, pools): &(Mac, u64)| known == from && pools >> pool & 1 == 1;
        if address == 1 && !self.addresses.iter().any(own) {
            return true;
        }
        let [a, b, ..] = self.registers.get(reg::VLNCTRL).to_le_bytes();
        let tag = Packet::parse(head, u16::from_le_bytes([a, b])).vlan;
        vlan == 1 && tag.is_some_and(|tag| !self.is_member(pool, u32::from(tag & 0xfff)))
    }

    fn is_member(&self, pool: u32, id: u32) -> bool {
        (0..64).any(|n| {
            self.registers.get(reg::VLVF + 4 * n) == 1 << 31 | id
                && self.registers.pair(reg::VLVFB + 8 * n) >> pool & 1 == 1
        })
    }

    /// Frames go from the MAC back to itself (`HLREG0.LPBK`), and to no wire.
    fn loop_back(&mut self, limit: usize) {
        let mut batch = std::mem::take(&mut self.looped);
        batch.clear();
        let mut unseen = DeviceCounts::default();
        self.take_all(&mut batch, limit, &mut unseen);
        if !batch.frames.is_empty() {
            let mut memory = std::mem::replace(&mut self.loop_memory, self.space.translator());
            let (frames, mut carrier) = batch.carrier(&mut memory);
            self.receive(frames, &mut carrier, &mut unseen);
            self.loop_memory = memory;
        }
        self.looped = batch;
    }

    /// The frames of the last round have left: their descriptors go back.
    pub(super) fn put_sent(&mut self) {
        if !self.is_alive() || self.faults.strikes(Fault::LateCompletions) {
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

#[inline]
fn count_sent(stats: &mut super::Stats, len: u32, head: &Head, tally: &mut DeviceCounts) {
    let bytes = u64::from(len.max(SHORTEST)) + FCS;
    tally.tx_frames += 1;
    tally.tx_bytes += bytes;
    match head {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => stats.count(counter::BPTC),
        [first, ..] if first & 1 == 1 => stats.count(counter::MPTC),
        _ => {}
    }
    stats.count_size(counter::PTC64, bytes);
}
