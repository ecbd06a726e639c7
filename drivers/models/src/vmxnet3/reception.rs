//! Where a received frame goes: buffers of a queue, and the completions that say so.

use hugemem::Translator;

use super::bits::{desc, error, limit, rx_stat};
use super::findings::Findings;
use super::queue::Stop;
use super::rx::RxQueue;
use crate::faults::{DeviceFaults, Fault};
use crate::frames::{Scatter, Segment};
use crate::objections::Objections;

/// Where a part of a frame went.
#[derive(Clone, Copy)]
pub(super) struct Used {
    /// 0 and 1: the rings; 2: the data ring.
    place: u16,
    slot: u32,
    len: u32,
}

/// Whether a frame found room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Enough,
    NoBuffer,
    TooManyParts,
}

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Received,
    NoBuffer,
    TooLong,
    Fault,
}

/// What a queue needs to take a frame.
pub(super) struct Reception<'a> {
    pub(super) queue: &'a mut RxQueue,
    pub(super) index: u16,
    pub(super) queues: u16,
    /// The device goes by `RXPROD`.
    pub(super) bounded: bool,
    pub(super) parts: usize,
    pub(super) memory: &'a mut Translator,
    pub(super) segments: &'a mut Vec<Segment>,
    pub(super) used: &'a mut Vec<Used>,
    pub(super) faults: &'a DeviceFaults,
    pub(super) objections: &'a Objections,
}

impl Reception<'_> {
    /// Writes the frame of `len` bytes that `copy` writes, and completes it.
    pub(super) fn put(
        &mut self,
        len: u32,
        findings: &Findings,
        copy: impl FnOnce(&mut Scatter<'_>) -> Result<(), hugemem::IommuFault>,
    ) -> Result<Verdict, Stop> {
        self.segments.clear();
        self.used.clear();
        let room = self.find_room(len)?;
        if self.used.is_empty() {
            self.queue.stats[rx_stat::OUT_OF_BUF] += 1;
            return Ok(Verdict::NoBuffer);
        }
        let copied = copy(&mut Scatter::new(self.memory, self.segments));
        if let Err(fault) = &copied {
            let index = self.index;
            self.objections
                .raise(format!("receive queue {index}: {fault}"));
        }
        let is_whole = room == Room::Enough && copied.is_ok();
        self.complete(len, findings, is_whole);
        self.queue.touched = true;
        // As QEMU does: what does not fit ends in a completion with an error.
        let (verdict, at) = match (room, copied) {
            (_, Err(_)) => (Verdict::Fault, Some(rx_stat::ERROR)),
            (Room::NoBuffer, _) => (Verdict::NoBuffer, Some(rx_stat::OUT_OF_BUF)),
            (Room::TooManyParts, _) => (Verdict::TooLong, Some(rx_stat::ERROR)),
            (Room::Enough, _) => (Verdict::Received, None),
        };
        if let Some(at) = at {
            self.queue.stats[at] += 1;
        }
        Ok(verdict)
    }

    /// Takes buffers until the frame fits.
    #[inline]
    fn find_room(&mut self, len: u32) -> Result<Room, Stop> {
        let Some((slot, head)) = self.take_head()? else {
            return Ok(Room::NoBuffer);
        };
        if let Some(data) = self.queue.data.as_ref().filter(|data| len <= data.size) {
            let iova = data.at + u64::from(slot) * u64::from(data.size);
            self.segments.push(Segment {
                iova,
                len: data.size,
                writable: true,
            });
            self.used.push(Used {
                place: 2,
                slot,
                len,
            });
            return Ok(Room::Enough);
        }
        self.add(0, slot, head);
        let mut room = head.len;
        while room < len {
            if self.used.len() >= self.parts {
                return Ok(Room::TooManyParts);
            }
            let Some((which, slot, body)) = self.take_body()? else {
                return Ok(Room::NoBuffer);
            };
            self.add(which, slot, body);
            room += body.len;
        }
        Ok(Room::Enough)
    }

    fn add(&mut self, place: u16, slot: u32, buffer: Segment) {
        self.segments.push(buffer);
        self.used.push(Used {
            place,
            slot,
            len: buffer.len,
        });
    }

    /// The next head of the first ring; bodies before it are skipped, without a word.
    #[inline]
    fn take_head(&mut self) -> Result<Option<(u32, Segment)>, Stop> {
        // Once round at most, whatever the driver wrote.
        for _ in 0..self.queue.sizes()[0] {
            let Some([address, word]) = self.queue.armed(0, self.bounded, self.objections) else {
                return Ok(None);
            };
            let slot = self.queue.slot(0);
            self.check(0, slot, word)?;
            self.queue.advance(0);
            if word & desc::RX_BODY == 0 {
                return Ok(Some((slot, buffer(address, word))));
            }
        }
        Ok(None)
    }

    /// The next body: of the first ring if one comes there, else of the second.
    fn take_body(&mut self) -> Result<Option<(u16, u32, Segment)>, Stop> {
        for which in 0..2u16 {
            let n = usize::from(which);
            let Some([address, word]) = self.queue.armed(n, self.bounded, self.objections) else {
                continue;
            };
            let slot = self.queue.slot(n);
            let is_head = word & desc::RX_BODY == 0;
            if which == 0 && is_head {
                continue;
            }
            self.check(n, slot, word)?;
            self.queue.advance(n);
            return Ok(Some((which, slot, buffer(address, word))));
        }
        Ok(None)
    }

    /// The rules for an armed slot.
    #[inline]
    fn check(&self, which: usize, slot: u32, word: u64) -> Result<(), Stop> {
        let len = word & desc::LEN;
        let is_head = word & desc::RX_BODY == 0;
        let place = || format!("slot {slot} of ring {which}");
        if word & (desc::RX_DTYPE | desc::RX_RESERVED) != 0 {
            let sentence = format!("{}: type or reserved bits, {word:#x}", place());
            return Err(Stop::new(error::DESC_NOT_SPT, sentence));
        }
        if which == 1 && is_head {
            let sentence = format!("{}: a head, where there are bodies alone", place());
            return Err(Stop::new(error::DESC_NOT_SPT, sentence));
        }
        let least = if is_head { limit::HEAD_BUFFER } else { 1 };
        if len < u64::from(least) {
            let sentence = format!("{}: buffer of {len} bytes, of at least {least}", place());
            return Err(Stop::new(error::SMALL_BUF, sentence));
        }
        Ok(())
    }

    /// Writes a completion for each part.
    fn complete(&mut self, len: u32, findings: &Findings, is_whole: bool) {
        if self.faults.strikes(Fault::RxCompletionLost) {
            return;
        }
        let lie_len = self.faults.strikes(Fault::WrongLength);
        let lie_slot = self.faults.strikes(Fault::IdOutOfRange);
        let mut left = len;
        let last = self.used.len() - 1;
        for (n, used) in self.used.iter().enumerate() {
            let written = left.min(used.len);
            left -= written;
            let queue = u64::from(self.index + used.place * self.queues);
            let mut first = findings.each | u64::from(used.slot) | queue << desc::COMP_QUEUE;
            let mut second = u64::from(written) | desc::TYPE_RX << desc::COMP_TYPE;
            if n == 0 {
                first |= desc::COMP_SOP;
                first |= if lie_slot { 0xfff } else { 0 };
                second |= if lie_len { desc::LEN } else { 0 };
            }
            if n == last {
                // Of a frame that was cut off nothing else is said (QEMU, `vmxnet3_indicate_packet`).
                let said = if is_whole {
                    findings.last
                } else {
                    [0, desc::COMP_FCS | desc::COMP_ERR]
                };
                first |= said[0] | desc::COMP_EOP;
                second |= said[1];
            }
            self.queue.completions.put([first, second]);
        }
    }
}

fn buffer(address: u64, word: u64) -> Segment {
    Segment {
        iova: address,
        len: u32::try_from(word & desc::LEN).expect("14 bits"),
        writable: true,
    }
}
