//! Frames from the driver (82599 §7.2).

use std::sync::atomic::Ordering;

use hugemem::{IommuFault, Iova, Translator};

use super::Rings;
use crate::SHORTEST;
use crate::e1000::packet::insert;
use crate::faults::Fault;
use crate::frames::{Batch, HEAD, Segment, WireFrame};
use crate::ixgbe::bits::txd;
use crate::ixgbe::descriptor::{
    Context, Draft, MOST, Slot, Sums, advanced_sums, check_advanced, decode, legacy_sum,
};
use crate::ixgbe::queue::Side;

/// Shortest frame that is one: two addresses and a type.
const ETHERNET: u32 = 14;
/// Longest frame without FCS (§8.2.3.22.13: 15.5 KiB with it).
const LONGEST: u32 = 15_872 - 4;

/// What holds for every frame of a function.
#[derive(Debug, Clone, Copy)]
pub(in crate::ixgbe) struct SendRules {
    /// Short frames are filled up (`HLREG0.TXPADEN`).
    pub(in crate::ixgbe) pads: bool,
    /// What marks a tag (`DMATXCTL.VT`).
    pub(in crate::ixgbe) vlan_type: u16,
    /// The tag that a pool's frames get, whatever their descriptors say (`VMVIR`).
    pub(in crate::ixgbe) port_vlan: Option<u16>,
}

/// The first bytes of a frame, with its tag.
pub(in crate::ixgbe) type Head = [u8; 18];

/// What came out of a queue.
pub(in crate::ixgbe) enum Taken {
    /// Nothing was posted, or only part of a frame.
    Nothing,
    /// Frames: several if one was cut into segments. They are in the batch.
    Frames(Head),
    /// A frame that cannot be sent, and why.
    Refused(String),
}

impl Rings {
    /// Takes the next frame of transmit queue `index` into `batch`. An error stops the queue.
    #[inline]
    pub(in crate::ixgbe) fn take(
        &mut self,
        index: u32,
        batch: &mut Batch,
        rules: SendRules,
    ) -> Result<Taken, String> {
        let tail = self.tails.get(Side::Tx, index);
        let Some(queue) = self.tx.get(index as usize) else {
            return Ok(Taken::Nothing);
        };
        if queue.next == tail || queue.broken || !queue.is_enabled() {
            return Ok(Taken::Nothing);
        }
        let first = batch.segments.len();
        let Some(draft) = self.read_frame(index, tail, batch)? else {
            // The driver has posted only part of it so far.
            batch.segments.truncate(first);
            return Ok(Taken::Nothing);
        };
        let sent = batch.frames.len();
        match self.finish(index, &draft, first, batch, rules) {
            Ok(head) => Ok(Taken::Frames(head)),
            Err(flaw) => {
                batch.frames.truncate(sent);
                Ok(Taken::Refused(flaw))
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
        let at_index = index as usize;
        let (queue, sender) = (&mut self.tx[at_index], &mut self.senders[at_index]);
        let slots = queue.slots();
        if tail >= slots || queue.next >= slots {
            let next = queue.next;
            return Err(format!(
                "tail {tail} and head {next} with {slots} descriptors"
            ));
        }
        let mut at = queue.next;
        let mut start = at;
        let ring = queue.ring(&mut self.memory, self.call)?;
        let mut draft = Draft::default();
        let mut found = None;
        while at != tail && found.is_none() {
            let slot = &ring[at as usize];
            let words = [
                u64::from_le(slot[0].load(Ordering::Relaxed)),
                u64::from_le(slot[1].load(Ordering::Relaxed)),
            ];
            at = if at + 1 == slots { 0 } else { at + 1 };
            match decode(words)? {
                Slot::Context(..) if draft.count > 0 => {
                    return Err("context descriptor in the middle of a frame".into());
                }
                Slot::Context(number, context) => {
                    sender.contexts[number] = Some(context);
                    start = at;
                }
                Slot::Data(len) => {
                    draft.push(words[1], len)?;
                    add_segment(words[0], len, &mut self.memory, batch)?;
                    if words[1] & txd::EOP != 0 {
                        found = Some(draft);
                        start = at;
                    }
                }
            }
        }
        self.tx[at_index].next = start;
        Ok(found)
    }

    /// Makes a frame of its descriptors, or several.
    fn finish(
        &mut self,
        index: u32,
        draft: &Draft,
        first: usize,
        batch: &mut Batch,
        rules: SendRules,
    ) -> Result<Head, String> {
        let legacy = draft.is_legacy();
        if !legacy {
            check_advanced(draft)?;
        }
        if draft.last & txd::IFCS == 0 {
            return Err("frame without IFCS: its last bytes would be its FCS".into());
        }
        let contexts = &self.senders[index as usize].contexts;
        let context = contexts[draft.context() as usize & 1].filter(|_| !legacy);
        let tag = tag_of(draft, context, rules)?;
        if !legacy && draft.first & txd::TSE != 0 {
            let context = context.ok_or("segmentation asked for without a context")?;
            return self.segment(draft, &context, tag, first, batch, rules);
        }
        let len = u32::try_from(draft.len).unwrap_or(u32::MAX);
        if len > LONGEST {
            return Err(format!("frame of {len} bytes, of at most {LONGEST}"));
        }
        if len < SHORTEST && !rules.pads {
            return Err(format!(
                "frame of {len} bytes, and HLREG0.TXPADEN is off: a runt"
            ));
        }
        let sums = if legacy {
            legacy_sum(draft)
        } else {
            advanced_sums(draft.first, context)?
        };
        batch.push_segments(first, len);
        if sums != [None, None] || tag.is_some() {
            let frame = batch.frames.pop().ok_or("no frame")?;
            let frame = self.change(frame, sums, tag, batch, rules)?;
            batch.frames.push(frame);
        }
        self.head_of(batch)
    }

    /// The first bytes of the frame that `batch` ends with.
    pub(super) fn head_of(&mut self, batch: &Batch) -> Result<Head, String> {
        let frame = *batch.frames.last().ok_or("no frame")?;
        let (_, mut carrier) = batch.carrier(&mut self.memory);
        let mut scratch = [0; HEAD];
        let bytes = carrier
            .head(&frame, &mut scratch)
            .map_err(|fault| fault.to_string())?;
        let mut head = [0; 18];
        let len = bytes.len().min(head.len());
        head[..len].copy_from_slice(&bytes[..len]);
        Ok(head)
    }

    /// Inserts what the descriptors ask for: checksums, then a tag.
    fn change(
        &mut self,
        frame: WireFrame,
        sums: Sums,
        tag: Option<u16>,
        batch: &mut Batch,
        rules: SendRules,
    ) -> Result<WireFrame, String> {
        let len = frame.len();
        let longer = len + if tag.is_some() { 4 } else { 0 };
        let own = batch
            .own(frame, longer, &mut self.memory)
            .map_err(|fault| fault.to_string())?;
        let whole = batch.own_bytes_mut(&own).ok_or("no bytes")?;
        let end = len as usize;
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
            whole[12..14].copy_from_slice(&rules.vlan_type.to_be_bytes());
            whole[14..16].copy_from_slice(&tag.to_be_bytes());
        }
        Ok(own)
    }

    /// Marks the descriptors from the head to where frames were taken as done. True if the
    /// driver is told so: a cause for an interrupt.
    pub(in crate::ixgbe) fn put_back(&mut self, index: u32) -> Result<bool, String> {
        let Some(queue) = self.tx.get_mut(index as usize) else {
            return Ok(false);
        };
        if queue.written == queue.next || queue.broken {
            return Ok(false);
        }
        let (mut at, end, slots) = (queue.written, queue.next, queue.slots());
        if at >= slots || end >= slots {
            return Err(format!("head {at} with {slots} descriptors"));
        }
        let threshold = queue.threshold();
        // Those that wait for others are written back at last when nothing comes any more, as
        // the interrupt timer does (§7.2.3.4.1).
        let waits = threshold > 0 && queue.head != end && (end + slots - at) % slots < threshold;
        queue.head = end;
        if waits {
            return Ok(false);
        }
        let head_place = queue.head_write_back();
        let ring = queue.ring(&mut self.memory, self.call)?;
        let mut told = false;
        while at != end {
            let word = &ring[at as usize][1];
            let value = u64::from_le(word.load(Ordering::Relaxed));
            at = if at + 1 == slots { 0 } else { at + 1 };
            // With a threshold every descriptor is written back, without one those with RS.
            if threshold == 0 && value & txd::RS == 0 {
                continue;
            }
            if self.faults.strikes(Fault::TxCompletionLost) {
                continue;
            }
            told = true;
            if head_place.is_none() {
                word.store((value | txd::DD).to_le(), Ordering::Release);
            }
        }
        queue.written = end;
        if let Some(place) = head_place.filter(|_| told) {
            let written = self.memory.write(place, &end.to_le_bytes());
            written.map_err(|fault| fault.to_string())?;
        }
        Ok(told)
    }
}

impl Draft {
    /// Adds a descriptor with data.
    #[inline]
    fn push(&mut self, second: u64, len: u32) -> Result<(), String> {
        if self.count == 0 {
            self.first = second;
        }
        self.count += 1;
        self.len += u64::from(len);
        self.last = second;
        if second & txd::RS != 0 && second & txd::EOP == 0 {
            return Err("RS on another than the last descriptor of a frame".into());
        }
        if self.count > MOST {
            return Err(format!("a frame of more than {MOST} descriptors"));
        }
        if second & txd::EOP != 0 && self.len < u64::from(ETHERNET) {
            let len = self.len;
            return Err(format!("frame of {len} bytes, which hangs the queue"));
        }
        Ok(())
    }
}

/// The tag that the frame gets.
fn tag_of(
    draft: &Draft,
    context: Option<Context>,
    rules: SendRules,
) -> Result<Option<u16>, String> {
    if rules.port_vlan.is_some() {
        return Ok(rules.port_vlan);
    }
    if draft.first & txd::VLE == 0 && draft.last & txd::VLE == 0 {
        return Ok(None);
    }
    if draft.is_legacy() {
        return Ok(Some(u16::try_from(draft.last >> 48).expect("16 bits")));
    }
    match context {
        Some(context) => Ok(Some(context.vlan)),
        None => Err("VLE with a context that was never set".into()),
    }
}

#[inline]
fn add_segment(
    address: u64,
    len: u32,
    memory: &mut Translator,
    batch: &mut Batch,
) -> Result<(), String> {
    let iova = Iova::from_device(address);
    if !memory.covers(iova, len as usize) {
        let len = len as usize;
        return Err(IommuFault { iova, len }.to_string());
    }
    batch.segments.push(Segment {
        iova: address,
        len,
        writable: false,
    });
    Ok(())
}
