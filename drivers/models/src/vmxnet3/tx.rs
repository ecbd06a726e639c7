//! Frames from the driver.

use hugemem::{Iova, Translator};

use super::bits::{desc, error, event, limit, queue, tx_stat};
use super::block::Block;
use super::doorbells::Bell;
use super::filter::Addressee;
use super::options::{NEWEST, Notify};
use super::queue::{Opener, Stop};
use super::ring::Ring;
use super::{Vmxnet3, offload};
use crate::counters::DeviceCounts;
use crate::faults::{DeviceFaults, Fault};
use crate::frames::{Batch, ROUND, Segment};
use crate::objections::Objections;
use crate::{FCS, SHORTEST};

/// Shortest frame that is one: two addresses and a type.
pub(super) const ETHERNET: u32 = 14;
/// Longest: the largest MTU there is, with a VLAN tag.
const LONGEST: u32 = limit::mtu(NEWEST) + ETHERNET + 4;
/// Longest that is cut into segments: what an IP packet can be, and its Ethernet header.
const LONGEST_TSO: u32 = 0xffff + ETHERNET + 4;

/// The ring from which drivers may send what they have copied there.
struct DataRing {
    at: u64,
    count: u32,
    size: u32,
}

/// A frame whose slots go back when it has left.
struct Sent {
    /// Its last slot.
    last: u32,
    slots: u32,
    /// The driver wants to know (`cq`).
    wanted: bool,
}

/// A transmit queue of an active device.
pub(super) struct TxQueue {
    /// Where its descriptor is, which it writes status and counters to.
    pub(super) at: u64,
    pub(super) vector: u8,
    pub(super) stats: [u64; tx_stat::COUNT],
    /// Why it stands still.
    pub(super) error: Option<u32>,
    ring: Ring,
    completions: Ring,
    data: Option<DataRing>,
    /// The slot that `TXPROD` names.
    prod: u32,
    sent: Vec<Sent>,
    /// Slots taken and not given back.
    held: u32,
}

/// A frame as its first slot describes it.
pub(super) struct Head {
    pub(super) word: u64,
    last: u32,
    slots: u32,
    wanted: bool,
}

/// What a queue needs to take frames.
struct Terms<'a> {
    polls: bool,
    memory: &'a mut Translator,
    scratch: &'a mut Vec<u8>,
    objections: &'a Objections,
}

impl TxQueue {
    /// A queue as the driver has set it up; the rule that it breaks, otherwise.
    pub(super) fn open(
        at: u64,
        conf: &Block<{ queue::BYTES }>,
        opener: &mut Opener<'_>,
    ) -> Result<Self, String> {
        let size = conf.u32(queue::TX_RING_SIZE);
        let ring = opener.ring("ring", conf.u64(queue::TX_RING_PA), size)?;
        if ring.marked(desc::TX_GEN) > 0 {
            return Err(format!(
                "{}: slots handed over before ACTIVATE_DEV",
                opener.name
            ));
        }
        let completions = opener.completions(
            conf.u64(queue::TX_COMP_PA),
            conf.u32(queue::TX_COMP_SIZE),
            size,
            limit::RING,
        )?;
        let count = conf.u32(queue::TX_DATA_SIZE);
        let data = if count == 0 {
            None
        } else {
            let at = conf.u64(queue::TX_DATA_PA);
            // Before revision 3 there was one size, and nothing said so.
            let entry = match opener.revision {
                ..3 => limit::TX_DATA_MIN,
                _ => conf.u16(queue::DATA_DESC_SIZE),
            };
            if count != size {
                return Err(format!(
                    "{}: {count} entries in the data ring of a ring of {size}",
                    opener.name
                ));
            }
            opener.data(at, count, entry, limit::TX_DATA_MIN)?;
            let size = u32::from(entry);
            Some(DataRing { at, count, size })
        };
        Ok(Self {
            at,
            vector: conf.u8(queue::INTERRUPT),
            stats: [0; tx_stat::COUNT],
            error: None,
            sent: Vec::with_capacity(size as usize),
            ring,
            completions,
            data,
            prod: 0,
            held: 0,
        })
    }

    pub(super) fn size(&self) -> u32 {
        self.ring.size()
    }

    /// Whether its rings can still be reached.
    fn is_mapped(&self, memory: &mut Translator) -> bool {
        self.ring.is_mapped(memory) && self.completions.is_mapped(memory)
    }

    /// Takes posted frames until the batch is full.
    fn take(
        &mut self,
        batch: &mut Batch,
        limit: usize,
        terms: &mut Terms<'_>,
        tally: &mut DeviceCounts,
    ) -> Result<(), Stop> {
        while batch.frames.len() < limit {
            let first = batch.segments.len();
            let found = self.next_frame(terms, &mut batch.segments);
            let Some(head) = found.inspect_err(|_| batch.segments.truncate(first))? else {
                break;
            };
            self.held += head.slots;
            self.sent.push(Sent {
                last: head.last,
                slots: head.slots,
                wanted: head.wanted,
            });
            let before = batch.frames.len();
            if let Err(flaw) = add(&head, first, batch, terms) {
                terms.objections.raise(flaw);
                batch.segments.truncate(first);
                batch.frames.truncate(before);
                self.stats[tx_stat::ERROR] += 1;
                tally.tx_errors += 1;
                continue;
            }
            self.count(&head, before, batch, terms, tally);
        }
        Ok(())
    }

    /// The next frame that was handed over; its parts go to `segments`.
    #[inline]
    fn next_frame(
        &mut self,
        terms: &Terms<'_>,
        segments: &mut Vec<Segment>,
    ) -> Result<Option<Head>, Stop> {
        let start = self.ring.next();
        let mut head: Option<Head> = None;
        loop {
            let slot = self.ring.next();
            let is_end = !terms.polls && slot == self.prod;
            if is_end && head.is_none() {
                return Ok(None);
            }
            if is_end {
                let sentence = format!("TXPROD {slot} lies in the frame that begins at {start}");
                return Err(Stop::new(error::NOEOP, sentence));
            }
            let Some([address, word]) = self.ring.peek(desc::TX_GEN) else {
                if head.is_some() {
                    return Err(Stop::new(
                        error::TXD_INVALID,
                        format!(
                            "slot {slot} was not handed over with the first of its frame, {start}"
                        ),
                    ));
                }
                if !terms.polls {
                    terms.objections.raise(format!(
                        "TXPROD {}, and slot {slot} was not handed over",
                        self.prod
                    ));
                    self.prod = slot;
                }
                return Ok(None);
            };
            let slots = head.as_ref().map_or(0, |head| head.slots) + 1;
            self.check(
                slot,
                word,
                head.as_ref().map_or(word, |head| head.word),
                slots,
            )?;
            self.check_data(slot, address, word, terms.objections);
            if head.is_some() && word >> desc::TX_MSSCOF & desc::LEN != 0 {
                terms.objections.raise(format!(
                    "slot {slot} asks for an offload, and its frame begins at {start}"
                ));
            }
            segments.push(Segment {
                iova: address,
                len: len_of(word),
                writable: false,
            });
            self.ring.advance();
            head = Some(Head {
                word: head.map_or(word, |head| head.word),
                last: slot,
                slots,
                wanted: word & desc::TX_CQ != 0,
            });
            if word & desc::TX_EOP != 0 {
                return Ok(head);
            }
        }
    }

    /// The rules for slot number `slots` of a frame that begins with `first`.
    #[inline]
    fn check(&self, slot: u32, word: u64, first: u64, slots: u32) -> Result<(), Stop> {
        let odd = desc::TX_DTYPE | desc::TX_EXT1 | desc::TX_EXT2 | desc::TX_OCO;
        if word & odd != 0 {
            let sentence = format!("slot {slot}: type or reserved bits {:#x}", word & odd);
            return Err(Stop::new(error::DESC_NOT_SPT, sentence));
        }
        if self.held + slots > self.ring.size() {
            let sentence = format!("slot {slot} was handed over before it came back");
            return Err(Stop::new(error::TXD_REUSE, sentence));
        }
        let most = if om_of(first) == desc::OM_TSO {
            limit::SLOTS_PER_TSO
        } else {
            limit::SLOTS_PER_FRAME
        };
        if slots > most {
            let sentence = format!("a frame in more than {most} slots, up to slot {slot}");
            return Err(Stop::new(error::BIG_PKT, sentence));
        }
        Ok(())
    }

    /// What is sent from the data ring lies in the entry of its slot.
    #[inline]
    fn check_data(&self, slot: u32, address: u64, word: u64, objections: &Objections) {
        let Some(data) = &self.data else { return };
        let Some(behind) = address.checked_sub(data.at) else {
            return;
        };
        let size = u64::from(data.size);
        if behind >= u64::from(data.count) * size {
            return;
        }
        if behind != u64::from(slot) * size || len_of(word) > data.size {
            objections.raise(format!(
                "slot {slot}: {} bytes at byte {behind} of the data ring, whose entries have {size}",
                len_of(word)
            ));
        }
    }

    /// Counts the frames of the batch from `before` on.
    fn count(
        &mut self,
        head: &Head,
        before: usize,
        batch: &Batch,
        terms: &mut Terms<'_>,
        tally: &mut DeviceCounts,
    ) {
        let (frames, mut carrier) = batch.carrier(terms.memory);
        let tso = om_of(head.word) == desc::OM_TSO;
        for frame in &frames[before..] {
            let mut scratch = [0; crate::frames::HEAD];
            let addressee = carrier.head(frame, &mut scratch);
            let at = match addressee.map_or(Addressee::One, Addressee::of) {
                Addressee::One => tx_stat::UCAST_PACKETS,
                Addressee::Group => tx_stat::MCAST_PACKETS,
                Addressee::Everyone => tx_stat::BCAST_PACKETS,
            };
            let bytes = u64::from(frame.len());
            for at in [Some(at), tso.then_some(tx_stat::TSO_PACKETS)]
                .into_iter()
                .flatten()
            {
                self.stats[at] += 1;
                self.stats[at + 1] += bytes;
            }
            tally.tx_frames += 1;
            tally.tx_bytes += u64::from(frame.len().max(SHORTEST)) + FCS;
        }
    }

    /// Gives back what has left. True if the driver is told of any.
    fn complete(&mut self, faults: &DeviceFaults) -> bool {
        let mut told = false;
        for sent in self.sent.drain(..) {
            self.held -= sent.slots;
            if !sent.wanted || faults.strikes(Fault::TxCompletionLost) {
                continue;
            }
            let last = if faults.strikes(Fault::IdOutOfRange) {
                0xfff
            } else {
                u64::from(sent.last)
            };
            self.completions.put([last, 0]);
            told = true;
        }
        told
    }
}

impl Vmxnet3 {
    /// Takes posted frames from all queues in turn.
    pub(super) fn take_frames(&mut self, batch: &mut Batch, limit: usize) {
        if self.active.is_none() || !self.pci.is_master() {
            return;
        }
        if self.faults.strikes(Fault::NeedsReset) {
            self.stop_all();
            return;
        }
        let Some(active) = &mut self.active else {
            return;
        };
        let limit = limit.min(ROUND);
        let mut tally = DeviceCounts::default();
        let mut stopped = false;
        let queues = active.tx.len();
        for n in 0..queues {
            let index = (n + self.turn) % queues;
            let queue = &mut active.tx[index];
            if let Some(prod) = self.bells.take(Bell::Tx, index) {
                queue.prod = prod;
            }
            if queue.error.is_some() {
                continue;
            }
            let mut terms = Terms {
                polls: self.options.notify == Notify::Polls,
                memory: &mut self.memory,
                scratch: &mut self.scratch,
                objections: &self.objections,
            };
            let result = if queue.is_mapped(terms.memory) {
                queue.take(batch, limit, &mut terms, &mut tally)
            } else {
                let sentence = "a ring was unmapped while the device is active";
                Err(Stop::new(error::TXD_INVALID, sentence))
            };
            if let Err(stop) = result {
                self.objections
                    .raise(format!("transmit queue {index}: {}", stop.sentence));
                queue.error = Some(stop.error);
                stopped = true;
            }
        }
        self.turn = (self.turn + 1) % queues;
        self.counters.add(&tally);
        if stopped {
            self.raise_event(event::TQERR);
        }
    }

    /// The frames of the last round have left: their slots go back.
    pub(super) fn put_sent(&mut self) {
        if self.faults.strikes(Fault::LateCompletions) {
            return;
        }
        let Some(active) = &mut self.active else {
            return;
        };
        let mut vectors = std::mem::take(&mut self.vectors);
        for queue in &mut active.tx {
            let is_idle = queue.sent.is_empty();
            if !is_idle && queue.is_mapped(&mut self.memory) && queue.complete(&self.faults) {
                vectors.push(queue.vector);
            }
        }
        self.interrupt(&mut vectors);
        self.vectors = vectors;
    }
}

/// Adds the frame that lies in the segments from `first` on; what is wrong with it, otherwise.
#[inline]
fn add(head: &Head, first: usize, batch: &mut Batch, terms: &mut Terms<'_>) -> Result<(), String> {
    let mut len = 0u32;
    for segment in &batch.segments[first..] {
        len += segment.len;
        let (iova, bytes) = (Iova::from_device(segment.iova), segment.len as usize);
        if !terms.memory.covers(iova, bytes) {
            let fault = hugemem::IommuFault { iova, len: bytes };
            return Err(format!("frame in slots up to {}: {fault}", head.last));
        }
    }
    let om = om_of(head.word);
    let longest = if om == desc::OM_TSO {
        LONGEST_TSO
    } else {
        LONGEST
    };
    if !(ETHERNET..=longest).contains(&len) {
        return Err(format!("frame of {len} bytes, of {ETHERNET} to {longest}"));
    }
    if om == desc::OM_NONE && head.word & desc::TX_TI == 0 {
        if let [one] = batch.segments[first..] {
            batch.segments.truncate(first);
            batch.push(Iova::from_device(one.iova), len);
        } else {
            batch.push_segments(first, len);
        }
        return Ok(());
    }
    gather(first, len, batch, terms)?;
    batch.segments.truncate(first);
    offload::send(head.word, terms.scratch, batch)
}

/// Copies the frame in the segments from `first` on to the scratch bytes.
fn gather(first: usize, len: u32, batch: &Batch, terms: &mut Terms<'_>) -> Result<(), String> {
    terms.scratch.clear();
    terms.scratch.resize(len as usize, 0);
    let mut at = 0;
    for segment in &batch.segments[first..] {
        let end = at + segment.len as usize;
        let iova = Iova::from_device(segment.iova);
        let read = terms.memory.read(iova, &mut terms.scratch[at..end]);
        read.map_err(|fault| fault.to_string())?;
        at = end;
    }
    Ok(())
}

/// Bytes of a slot: 14 bits hold them all but the most.
#[inline]
fn len_of(word: u64) -> u32 {
    match u32::try_from(word & desc::LEN).expect("14 bits") {
        0 => desc::TX_WHOLE,
        len => len,
    }
}

/// The offload that a first slot asks for.
#[inline]
pub(super) fn om_of(word: u64) -> u64 {
    word >> desc::TX_OM & 3
}
