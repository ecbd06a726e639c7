//! Frames to the driver.

use hugemem::Translator;

use super::bits::{desc, error, event, feature, limit, queue, rx_stat};
use super::block::Block;
use super::doorbells::Bell;
use super::filter::{self, Addressee};
use super::findings::Findings;
use super::queue::{Opener, Stop};
use super::reception::{Reception, Verdict};
use super::ring::Ring;
use super::rss::Hash;
use super::{Active, Vmxnet3};
use crate::counters::DeviceCounts;
use crate::frames::{Carrier, HEAD, WireFrame};
use crate::objections::Objections;
use crate::{FCS, Mac};

/// Bytes at the start of a frame that are hashed: Ethernet, two tags, the longest IPv4 header or
/// IPv6 with some extensions, ports.
const HASHED: usize = 128;
/// Where a tag follows the addresses.
const TAG: std::ops::Range<usize> = 12..16;

/// The ring whose entries small frames are written to, instead of buffers.
pub(super) struct DataRing {
    pub(super) at: u64,
    pub(super) size: u32,
}

/// A receive queue of an active device.
pub(super) struct RxQueue {
    /// Where its descriptor is, which it writes status and counters to.
    pub(super) at: u64,
    pub(super) vector: u8,
    pub(super) stats: [u64; rx_stat::COUNT],
    /// Why it stands still.
    pub(super) error: Option<u32>,
    /// Heads of frames with bodies behind, and bodies alone.
    rings: [Option<Ring>; 2],
    pub(super) completions: Ring,
    pub(super) data: Option<DataRing>,
    /// The slots that `RXPROD` and `RXPROD2` name.
    prods: [u32; 2],
    /// Something was completed since the last interrupt.
    pub(super) touched: bool,
}

impl RxQueue {
    /// A queue as the driver has set it up; the rule that it breaks, otherwise.
    pub(super) fn open(
        at: u64,
        conf: &Block<{ queue::BYTES }>,
        opener: &mut Opener<'_>,
    ) -> Result<Self, String> {
        let mut ring = |n: usize, what: &str| {
            let size = conf.u32(queue::RX_RING_SIZE + 4 * n);
            let ring = opener.ring(what, conf.u64(queue::RX_RING_PA + 8 * n), size)?;
            // Linux says why: an index that has gone all the way round says "empty".
            if ring.marked(desc::RX_GEN) == size as usize {
                let name = &opener.name;
                return Err(format!("{name}: all slots of its {what} are armed"));
            }
            Ok(ring)
        };
        let first = ring(0, "first ring")?;
        let second = if conf.u32(queue::RX_RING_SIZE + 4) == 0 {
            None
        } else {
            Some(ring(1, "second ring")?)
        };
        let size = first.size();
        let slots = size + second.as_ref().map_or(0, Ring::size);
        let completions = opener.completions(
            conf.u64(queue::RX_COMP_PA),
            conf.u32(queue::RX_COMP_SIZE),
            slots,
            limit::RX_COMP,
        )?;
        let entry = match opener.revision {
            ..3 => 0,
            _ => conf.u16(queue::DATA_DESC_SIZE),
        };
        let data = if entry == 0 {
            None
        } else {
            let at = conf.u64(queue::RX_DATA_PA);
            opener.data(at, size, entry, limit::DATA_STEP)?;
            let size = u32::from(entry);
            Some(DataRing { at, size })
        };
        Ok(Self {
            at,
            vector: conf.u8(queue::INTERRUPT),
            stats: [0; rx_stat::COUNT],
            error: None,
            rings: [Some(first), second],
            completions,
            data,
            prods: [0; 2],
            touched: false,
        })
    }

    /// Slots of the first ring, and of the second.
    pub(super) fn sizes(&self) -> [u32; 2] {
        self.rings
            .each_ref()
            .map(|ring| ring.as_ref().map_or(0, Ring::size))
    }

    fn is_mapped(&self, memory: &mut Translator) -> bool {
        self.rings
            .iter()
            .flatten()
            .all(|ring| ring.is_mapped(memory))
            && self.completions.is_mapped(memory)
    }

    /// The next slot of ring `which`, if the driver has armed it.
    #[inline]
    pub(super) fn armed(
        &self,
        which: usize,
        bounded: bool,
        objections: &Objections,
    ) -> Option<[u64; 2]> {
        let ring = self.rings[which].as_ref()?;
        let slot = ring.next();
        if bounded && slot == self.prods[which] {
            return None;
        }
        let found = ring.peek(desc::RX_GEN);
        if bounded && found.is_none() {
            objections.raise(format!(
                "slot {slot} of receive ring {which} lies before RXPROD {}, and is not armed",
                self.prods[which]
            ));
        }
        found
    }

    pub(super) fn advance(&mut self, which: usize) {
        if let Some(ring) = &mut self.rings[which] {
            ring.advance();
        }
    }

    pub(super) fn slot(&self, which: usize) -> u32 {
        self.rings[which].as_ref().map_or(0, Ring::next)
    }

    fn count(&mut self, addressee: Addressee, bytes: u32) {
        let at = match addressee {
            Addressee::One => rx_stat::UCAST_PACKETS,
            Addressee::Group => rx_stat::MCAST_PACKETS,
            Addressee::Everyone => rx_stat::BCAST_PACKETS,
        };
        self.stats[at] += 1;
        self.stats[at + 1] += u64::from(bytes);
    }
}

impl Vmxnet3 {
    /// Frames arrive.
    pub(super) fn receive(&mut self, frames: &[WireFrame], carrier: &mut Carrier<'_>) {
        let mut tally = DeviceCounts::default();
        self.look_at_receivers();
        let is_master = self.pci.is_master();
        let mut stopped = false;
        for frame in frames {
            match &mut self.active {
                Some(active) if is_master && frame.fcs_good => {
                    let mac = self.mac;
                    stopped |= !self.receive_one(frame, mac, carrier, &mut tally);
                }
                Some(active) if is_master => {
                    tally.rx_bad_fcs += 1;
                    active.rx[0].stats[rx_stat::ERROR] += 1;
                }
                _ => tally.rx_not_ready += 1,
            }
        }
        self.counters.add(&tally);
        if stopped {
            self.raise_event(event::RQERR);
        }
        let Some(active) = &mut self.active else {
            return;
        };
        let mut vectors = std::mem::take(&mut self.vectors);
        for queue in &mut active.rx {
            if std::mem::take(&mut queue.touched) {
                vectors.push(queue.vector);
            }
        }
        self.interrupt(&mut vectors);
        self.vectors = vectors;
    }

    /// Looks at doorbells, and whether the rings are still mapped.
    fn look_at_receivers(&mut self) {
        let Some(active) = &mut self.active else {
            return;
        };
        let mut lost = false;
        for (index, queue) in active.rx.iter_mut().enumerate() {
            for (n, bell) in [Bell::Rx, Bell::Rx2].into_iter().enumerate() {
                if let Some(prod) = self.bells.take(bell, index) {
                    queue.prods[n] = prod;
                }
            }
            if queue.error.is_none() && !queue.is_mapped(&mut self.memory) {
                self.objections.raise(format!(
                    "receive queue {index}: a ring was unmapped while the device is active"
                ));
                queue.error = Some(error::DESC_NOT_SPT);
                lost = true;
            }
        }
        if lost {
            self.raise_event(event::RQERR);
        }
    }

    /// False if the queue stands still from now on.
    fn receive_one(
        &mut self,
        frame: &WireFrame,
        mac: Mac,
        carrier: &mut Carrier<'_>,
        tally: &mut DeviceCounts,
    ) -> bool {
        let Some(active) = &mut self.active else {
            return true;
        };
        let mut scratch = [0; HEAD];
        let Ok(head) = carrier.head(frame, &mut scratch) else {
            tally.rx_bad_fcs += 1;
            return true;
        };
        if !self.filter.passes(head, mac) {
            tally.rx_filtered += 1;
            return true;
        }
        let addressee = Addressee::of(head);
        let is_tagged = filter::tag(head).is_some();
        let hash = active.hash(frame, carrier, self.rss_fields);
        let index = active.rss.as_ref().map_or(0, |rss| rss.queue(hash));
        let strips = is_tagged && active.features & feature::RXVLAN != 0;
        let judges = self.options.rx_checksum && active.features & feature::RXCSUM != 0;
        let parts = active.parts;
        let queues = u16::try_from(active.rx.len()).expect("32 queues at most");
        let queue = &mut active.rx[index];
        if queue.error.is_some() {
            tally.rx_not_ready += 1;
            return true;
        }
        let mut reception = Reception {
            queue,
            index: u16::try_from(index).expect("32 queues at most"),
            queues,
            bounded: self.options.update_rx_prod,
            parts,
            memory: &mut self.memory,
            segments: &mut self.segments,
            used: &mut self.used,
            faults: &self.faults,
            objections: &self.objections,
        };
        let bytes = &mut self.bytes;
        let result = if strips || judges {
            bytes.clear();
            bytes.resize(frame.len() as usize, 0);
            match carrier.read(frame, bytes) {
                Ok(()) => put_looked_at(&mut reception, bytes, strips, judges, hash),
                Err(_) => {
                    tally.rx_bad_fcs += 1;
                    return true;
                }
            }
        } else {
            let findings = Findings::none(hash);
            let put = reception.put(frame.len(), &findings, |sink| carrier.copy(frame, sink));
            put.map(|verdict| (verdict, frame.len()))
        };
        match result {
            Ok((Verdict::Received, len)) => {
                queue_count(&mut active.rx[index], addressee, len, frame, tally);
            }
            Ok((Verdict::NoBuffer, _)) => tally.rx_no_buffer += 1,
            Ok((Verdict::TooLong, _)) => tally.rx_too_long += 1,
            Ok((Verdict::Fault, _)) => tally.rx_dma_fault += 1,
            Err(stop) => {
                self.objections
                    .raise(format!("receive queue {index}: {}", stop.sentence));
                active.rx[index].error = Some(stop.error);
                tally.rx_not_ready += 1;
                return false;
            }
        }
        true
    }
}

impl Active {
    /// The hash of a frame, where the driver wants frames hashed.
    fn hash(&self, frame: &WireFrame, carrier: &mut Carrier<'_>, fields: u32) -> Option<Hash> {
        let rss = self.rss.as_ref()?;
        let mut head = [0; HASHED];
        let len = (frame.len() as usize).min(HASHED);
        carrier.read(frame, &mut head[..len]).ok()?;
        rss.hash(&head[..len], fields)
    }
}

/// Puts a frame whose bytes the device has before it: with its tag taken off, its checksums
/// judged.
fn put_looked_at(
    reception: &mut Reception<'_>,
    bytes: &[u8],
    strips: bool,
    judges: bool,
    hash: Option<Hash>,
) -> Result<(Verdict, u32), Stop> {
    let mut findings = Findings::none(hash);
    if judges {
        findings.judge(bytes);
    }
    let (before, after) = if strips {
        findings.stripped([bytes[14], bytes[15]]);
        (&bytes[..TAG.start], &bytes[TAG.end..])
    } else {
        bytes.split_at(0)
    };
    let len = u32::try_from(before.len() + after.len()).expect("a frame");
    let verdict = reception.put(len, &findings, |sink| {
        sink.write(before)?;
        sink.write(after)
    })?;
    Ok((verdict, len))
}

fn queue_count(
    queue: &mut RxQueue,
    addressee: Addressee,
    len: u32,
    frame: &WireFrame,
    tally: &mut DeviceCounts,
) {
    queue.count(addressee, len);
    tally.rx_frames += 1;
    tally.rx_bytes += u64::from(frame.len()) + FCS;
    match addressee {
        Addressee::One => tally.rx_unicast += 1,
        Addressee::Group => tally.rx_multicast += 1,
        Addressee::Everyone => tally.rx_broadcast += 1,
    }
}
