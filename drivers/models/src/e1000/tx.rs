//! Frames from the driver (82540 §3.3, 82576 §7.2).

mod descriptor;

use std::sync::atomic::Ordering;

use hugemem::{Iova, Translator};

use descriptor::{
    CONTEXTS, Context, Draft, Slot, advanced_sums, bits, check_advanced, check_data, decode,
    legacy_sum, places,
};

use super::E1000;
use super::bits::{cause, ctrl, rctl, reg, tctl, txd};
use super::options::Kind;
use super::packet::{Packet, insert};
use super::queue::Side;
use super::stats::counter;
use crate::counters::DeviceCounts;
use crate::faults::Fault;
use crate::frames::{Batch, ROUND, Segment, WireFrame};
use crate::{FCS, SHORTEST};

/// Shortest frame that is one: two addresses and a type.
const ETHERNET: u32 = 14;
/// What a queue knows while it sends.
#[derive(Default)]
pub(super) struct Sender {
    contexts: [Option<Context>; CONTEXTS],
}

impl E1000 {
    /// Takes posted frames from all queues in turn.
    pub(super) fn take_frames(&mut self, batch: &mut Batch, limit: usize) {
        let can = match &self.vf {
            Some(side) => side.enabled && side.is_up(),
            None => {
                self.registers.has(reg::TCTL, tctl::EN) && self.registers.has(reg::CTRL, ctrl::SLU)
            }
        };
        if !can || !self.is_alive() {
            return;
        }
        if self.is_looped() {
            self.loop_back(limit);
            return;
        }
        let mut tally = DeviceCounts::default();
        self.take_all(batch, limit, &mut tally);
        self.counters.add(&tally);
    }

    fn take_all(&mut self, batch: &mut Batch, limit: usize, tally: &mut DeviceCounts) {
        let limit = limit.min(ROUND);
        let queues = self.queue_count();
        for n in 0..queues {
            let index = (n + self.turn) % queues;
            if let Err(sentence) = self.take_from(index, batch, limit, tally) {
                self.break_queue(Side::Tx, index, &sentence);
            }
        }
        self.turn = (self.turn + 1) % queues;
    }

    /// True while frames go from the device back to itself: in the MAC (`RCTL.LBM`), or in the PHY
    /// (82540 §11.6, 82576 §3.5.6).
    pub(super) fn is_looped(&self) -> bool {
        self.vf.is_none() && (self.registers.has(reg::RCTL, rctl::LBM) || self.phy.is_looped())
    }

    /// Frames go back to where they came from, and to no wire: nobody else counts them.
    fn loop_back(&mut self, limit: usize) {
        let mut batch = std::mem::take(&mut self.looped);
        batch.clear();
        let mut unseen = DeviceCounts::default();
        self.take_all(&mut batch, limit, &mut unseen);
        if !batch.frames.is_empty() {
            let mut memory = self.space.translator();
            let (frames, mut carrier) = batch.carrier(&mut memory);
            self.receive(frames, &mut carrier, &mut unseen);
        }
        self.looped = batch;
    }

    fn take_from(
        &mut self,
        index: u32,
        batch: &mut Batch,
        limit: usize,
        tally: &mut DeviceCounts,
    ) -> Result<(), String> {
        let tail = self.tails.get(Side::Tx, index);
        let kind = self.kind;
        loop {
            let Some(queue) = self.tx.get_mut(index as usize) else {
                return Ok(());
            };
            let stands = queue.broken || kind.is_advanced() && !queue.is_enabled();
            if stands || queue.next == tail || batch.frames.len() >= limit {
                return Ok(());
            }
            let first = batch.segments.len();
            let draft = self.read_frame(index, tail, batch)?;
            let Some(draft) = draft else {
                // The driver has posted only part of it so far.
                batch.segments.truncate(first);
                return Ok(());
            };
            match self.finish(index, &draft, first, batch) {
                Ok(Some(frame)) => self.count_sent(frame, tally),
                Ok(None) => tally.tx_errors += 1,
                Err(sentence) => {
                    tally.tx_errors += 1;
                    self.object(format!("transmit queue {index}: {sentence}"));
                }
            }
        }
    }

    /// Reads the descriptors of the next frame, if all of them are there.
    fn read_frame(
        &mut self,
        index: u32,
        tail: u32,
        batch: &mut Batch,
    ) -> Result<Option<Draft>, String> {
        let kind = self.kind;
        let at_index = index as usize;
        let (queue, sender) = (&mut self.tx[at_index], &mut self.senders[at_index]);
        let slots = queue.slots();
        if tail >= slots || queue.next >= slots {
            return Err(format!(
                "tail {tail} and head {} with {slots} descriptors",
                queue.next
            ));
        }
        let mut at = queue.next;
        let mut start = at;
        let ring = queue.ring(&mut self.memory)?;
        let mut draft: Option<Draft> = None;
        let mut found = None;
        while at != tail && found.is_none() {
            let slot = &ring[at as usize];
            let words = [
                u64::from_le(slot[0].load(Ordering::Relaxed)),
                u64::from_le(slot[1].load(Ordering::Relaxed)),
            ];
            at = if at + 1 == slots { 0 } else { at + 1 };
            match decode(kind, words)? {
                Slot::Context(..) if draft.is_some() => {
                    return Err("context descriptor in the middle of a frame".into());
                }
                Slot::Context(number, context) => {
                    sender.contexts[number] = Some(context);
                    start = at;
                }
                Slot::Data(len) => {
                    check_data(kind, words[1])?;
                    let draft = draft.get_or_insert(Draft {
                        first: words[1],
                        ..Draft::default()
                    });
                    draft.len += u64::from(len);
                    draft.last = words[1];
                    add_segment(words[0], len, &mut self.memory, batch)?;
                    if words[1] & txd::EOP != 0 {
                        found = Some(*draft);
                        start = at;
                    }
                }
            }
        }
        self.tx[at_index].next = start;
        Ok(found)
    }

    /// Makes a frame of its descriptors. None: it is not sent, and nobody is to blame.
    fn finish(
        &mut self,
        index: u32,
        draft: &Draft,
        first: usize,
        batch: &mut Batch,
    ) -> Result<Option<WireFrame>, String> {
        let longest = self.kind.longest() - 4;
        let len = u32::try_from(draft.len).unwrap_or(u32::MAX);
        let pads = self.vf.is_some() || self.registers.has(reg::TCTL, tctl::PSP);
        let flaw = if !(ETHERNET..=longest).contains(&len) {
            Some(format!("frame of {len} bytes, of at most {longest}"))
        } else if draft.last & txd::IFCS == 0 {
            Some("frame without IFCS: its last bytes would be its FCS".to_owned())
        } else if len < SHORTEST && !pads {
            Some(format!("frame of {len} bytes, and TCTL.PSP is off: a runt"))
        } else {
            None
        };
        if let Some(flaw) = flaw {
            batch.segments.truncate(first);
            return Err(flaw);
        }
        batch.push_segments(first, len);
        let frame = batch.frames.pop().ok_or("no frame")?;
        let frame = self.offload(index, draft, frame, batch)?;
        // A tag's end is the last byte that anyone looks at.
        let mut head = [0; 18];
        let (_, mut carrier) = batch.carrier(&mut self.memory);
        carrier
            .read(&frame, &mut head)
            .map_err(|fault| fault.to_string())?;
        if !self.may_leave(&head) {
            return Ok(None);
        }
        self.count_kind(&head);
        batch.frames.push(frame);
        Ok(Some(frame))
    }

    /// The spoof check of a virtual function's frames.
    fn may_leave(&self, head: &[u8]) -> bool {
        let Some(side) = &self.vf else { return true };
        let vlan = Packet::parse(head, self.vlan_type()).vlan;
        let from = head.get(6..).and_then(|rest| rest.first_chunk::<6>());
        let may = from.is_some_and(|from| side.may_send(*from, vlan));
        if !may {
            side.pf.count_spoofed();
        }
        may
    }

    /// Inserts what the descriptors ask for: checksums, then a tag.
    fn offload(
        &mut self,
        index: u32,
        draft: &Draft,
        frame: WireFrame,
        batch: &mut Batch,
    ) -> Result<WireFrame, String> {
        let context = |slot: u32| self.senders[index as usize].contexts[slot as usize & 1];
        let legacy = draft.first & txd::DEXT == 0;
        let sums = if legacy {
            legacy_sum(draft)
        } else if self.kind.is_advanced() {
            check_advanced(draft)?;
            advanced_sums(draft.first, context(bits(draft.first, 36, 3)))?
        } else {
            places(draft.first, context(0))?
        };
        let tag = self.tag(draft, context(bits(draft.first, 36, 3)))?;
        if sums == [None, None] && tag.is_none() {
            return Ok(frame);
        }
        let len = frame.len();
        let longer = len + if tag.is_some() { 4 } else { 0 };
        let own = batch
            .own(frame, longer, &mut self.memory)
            .map_err(|fault| fault.to_string())?;
        let bytes = batch.own_bytes_mut(&own).ok_or("no bytes")?;
        let (whole, end) = (bytes, len as usize);
        for (start, last, at) in sums.into_iter().flatten() {
            let last = last.min(end);
            if !insert(&mut whole[..end], start, last, at) {
                return Err(format!(
                    "checksum of {start}..{last} at {at} of a frame of {len} bytes"
                ));
            }
        }
        if let Some(tag) = tag {
            whole.copy_within(12..end, 16);
            let kind = self.vlan_type();
            whole[12..14].copy_from_slice(&kind.to_be_bytes());
            whole[14..16].copy_from_slice(&tag.to_be_bytes());
        }
        Ok(own)
    }

    /// The tag that the frame gets.
    fn tag(&self, draft: &Draft, context: Option<Context>) -> Result<Option<u16>, String> {
        if let Some(tag) = self.vf.as_ref().and_then(|side| side.port_vlan()) {
            return Ok(Some(tag));
        }
        let special = u16::try_from(draft.last >> 48).expect("16 bits");
        let asked = draft.first & txd::VLE != 0 || draft.last & txd::VLE != 0;
        if !asked {
            return Ok(None);
        }
        if !self.kind.is_advanced() {
            if draft.last & txd::VLE == 0 {
                return Err("VLE in another than the last descriptor of the frame".into());
            }
            if !self.registers.has(reg::CTRL, ctrl::VME) {
                return Err("VLE while CTRL.VME is off: no tag would be inserted".into());
            }
            return Ok(Some(special));
        }
        match context {
            _ if draft.first & txd::DEXT == 0 => Ok(Some(special)),
            Some(Context::Lengths { vlan, .. }) => Ok(Some(vlan)),
            _ => Err("VLE with a context that was never set".into()),
        }
    }

    fn count_kind(&mut self, head: &[u8]) {
        match head {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => self.stats.count(counter::BPTC),
            [first, ..] if first & 1 == 1 => self.stats.count(counter::MPTC),
            _ => {}
        }
    }

    fn count_sent(&mut self, frame: WireFrame, tally: &mut DeviceCounts) {
        let bytes = u64::from(frame.len().max(SHORTEST)) + FCS;
        tally.tx_frames += 1;
        tally.tx_bytes += bytes;
        if self.vf.is_some() {
            self.add_vf(0xf14, 1);
            self.add_vf(0xf34, bytes);
            return;
        }
        self.stats.count(counter::GPTC);
        self.stats.count(counter::TPT);
        self.stats.add(counter::GOTC, bytes);
        self.stats.add(counter::TOT, bytes);
        self.stats.count_size(counter::PTC64, bytes);
    }

    /// A virtual function's counters run free, over 32 bits.
    pub(super) fn add_vf(&mut self, register: u32, more: u64) {
        let old = self.registers.get(register);
        let more = super::stats::low(more);
        self.registers.set(register, old.wrapping_add(more));
    }

    /// The frames of the last round have left: their descriptors go back.
    pub(super) fn put_sent(&mut self) {
        if !self.is_alive() || self.faults.strikes(Fault::LateCompletions) {
            return;
        }
        for index in 0..self.queue_count() {
            match self.put_back(index) {
                Ok(0) => {}
                Ok(causes) => {
                    self.raise(causes);
                    self.raise_queue(Side::Tx, index);
                }
                Err(sentence) => self.break_queue(Side::Tx, index, &sentence),
            }
        }
    }

    /// Marks the descriptors from the head to where frames were taken as done. What causes of
    /// interrupts that is.
    fn put_back(&mut self, index: u32) -> Result<u32, String> {
        let tail = self.tails.get(Side::Tx, index);
        let report = match self.kind {
            Kind::E1000 => txd::RS | txd::RPS,
            _ => txd::RS,
        };
        let Some(queue) = self.tx.get_mut(index as usize) else {
            return Ok(0);
        };
        if queue.head == queue.next || queue.broken {
            return Ok(0);
        }
        let (mut at, end, slots) = (queue.head, queue.next, queue.slots());
        if at >= slots || end >= slots {
            return Err(format!("head {at} with {slots} descriptors"));
        }
        let head_place = queue.head_write_back();
        let ring = queue.ring(&mut self.memory)?;
        let mut causes = 0;
        while at != end {
            let word = &ring[at as usize][1];
            let value = u64::from_le(word.load(Ordering::Relaxed));
            at = if at + 1 == slots { 0 } else { at + 1 };
            if value & report == 0 || self.faults.strikes(Fault::TxCompletionLost) {
                continue;
            }
            causes |= cause::TXDW;
            if head_place.is_none() {
                word.store((value | txd::DD).to_le(), Ordering::Release);
            }
        }
        queue.head = end;
        if let Some(place) = head_place.filter(|_| causes != 0) {
            let written = self.memory.write(place, &end.to_le_bytes());
            written.map_err(|fault| fault.to_string())?;
        }
        // The 82576 has no such cause.
        if end == tail && !self.kind.is_advanced() {
            causes |= cause::TXQE;
        }
        Ok(causes)
    }
}

#[inline]
fn add_segment(
    address: u64,
    len: u32,
    memory: &mut Translator,
    batch: &mut Batch,
) -> Result<(), String> {
    if len == 0 {
        return Ok(());
    }
    let iova = Iova::from_device(address);
    if !memory.covers(iova, len as usize) {
        let len = len as usize;
        return Err(hugemem::IommuFault { iova, len }.to_string());
    }
    batch.segments.push(Segment {
        iova: address,
        len,
        writable: false,
    });
    Ok(())
}
