//! Slots of rings: 16 bytes, seen as two little-endian words (defs: `Vmxnet3_TxDesc`,
//! `Vmxnet3_TxCompDesc`, `Vmxnet3_RxDesc`, `Vmxnet3_RxCompDesc`).
//!
//! The generation bit is in the second word, with all but the address: one store of that word
//! hands a slot over.

use std::sync::atomic::{AtomicU64, Ordering};

use hw::mmio::Field;
use hw::ring::MaskedCursor;

/// A slot.
pub(crate) type Words = [AtomicU64; 2];

/// Bytes of a slot.
pub(crate) const SLOT: usize = 16;

/// Bytes of a data ring's slot (defs: `VMXNET3_HDR_COPY_SIZE`).
pub(crate) const DATA: usize = 128;

/// A data ring's slot, in words.
pub(crate) type DataWords = [AtomicU64; DATA / 8];

/// Most slots of a ring of buffers (defs: `VMXNET3_{TX,RX}_RING_MAX_SIZE`).
pub(crate) const SLOTS_MAX: usize = 4096;
/// Fewest: sizes are multiples of it (defs: `VMXNET3_RING_SIZE_ALIGN`).
pub(crate) const SLOTS_MIN: usize = 32;
/// Most bytes that a buffer is said to have: what 14 bits hold. (A length of 0 would stand for
/// 16384 on the sending side, and for nothing on the other; it is never used.)
pub(crate) const BUFFER_MAX: usize = 16_383;
/// Fewest bytes of a head (defs: `VMXNET3_MIN_T0_BUF_SIZE`).
pub(crate) const HEAD_MIN: usize = 128;

/// True where the generation bit is 1 on the lap that a ring's owner is in.
#[inline]
fn generation(at: MaskedCursor) -> u64 {
    u64::from(at.lap() & 1 == 0)
}

/// The second word of a send descriptor: length, generation and checksum's place in its low half
/// ("dword 2"), what to do in its high half ("dword 3").
pub(crate) mod tx {
    use super::Field;

    /// Bytes in the buffer.
    pub(crate) const LEN: Field = Field::bits(13, 0);
    /// Generation.
    pub(crate) const GEN: Field = Field::bits(14, 14);
    /// Where the checksum field is, for [`OM_CHECKSUM`]: from the frame's start.
    pub(crate) const MSSCOF: Field = Field::bits(31, 18);
    /// Where the TCP or UDP header is, for [`OM_CHECKSUM`].
    pub(crate) const HLEN: Field = Field::bits(32 + 9, 32);
    /// What to offload.
    pub(crate) const OM: Field = Field::bits(32 + 11, 32 + 10);
    /// The last buffer of a frame.
    pub(crate) const EOP: u64 = 1 << (32 + 12);
    /// A completion is wanted.
    pub(crate) const CQ: u64 = 1 << (32 + 13);
    /// A tag is to be inserted.
    pub(crate) const TI: u64 = 1 << (32 + 15);
    /// The tag.
    pub(crate) const TCI: Field = Field::bits(63, 48);
    /// Value of [`OM`]: a TCP or UDP checksum.
    pub(crate) const OM_CHECKSUM: u64 = 2;
}

/// The second word of a receive descriptor.
pub(crate) mod rx {
    use super::Field;

    /// Bytes of the buffer.
    pub(crate) const LEN: Field = Field::bits(13, 0);
    /// 0: a head; 1: a body.
    pub(crate) const BTYPE: Field = Field::bits(14, 14);
    /// Generation.
    pub(crate) const GEN: Field = Field::bits(31, 31);
}

/// A completion of either kind.
mod done {
    use super::Field;

    /// First word: the slot.
    pub(super) const INDEX: Field = Field::bits(11, 0);
    /// First word: last buffer of a frame.
    pub(super) const EOP: Field = Field::bits(14, 14);
    /// First word: first buffer of a frame.
    pub(super) const SOP: Field = Field::bits(15, 15);
    /// First word: queue and ring.
    pub(super) const RQID: Field = Field::bits(25, 16);
    /// First word: what was hashed; 0 if nothing.
    pub(super) const RSS_TYPE: Field = Field::bits(29, 26);
    /// First word: no checksum was looked at.
    pub(super) const CNC: Field = Field::bits(30, 30);
    /// First word: the hash.
    pub(super) const HASH: Field = Field::bits(63, 32);
    /// Second word: bytes in the buffer.
    pub(super) const LEN: Field = Field::bits(13, 0);
    /// Second word: the frame is damaged, or did not fit.
    pub(super) const ERR: Field = Field::bits(14, 14);
    /// Second word: a tag was stripped.
    pub(super) const TS: Field = Field::bits(15, 15);
    /// Second word: the tag.
    pub(super) const TCI: Field = Field::bits(31, 16);
    /// Second word: the TCP or UDP checksum is right.
    pub(super) const TUC: Field = Field::bits(32 + 16, 32 + 16);
    /// Second word: it is UDP, or TCP.
    pub(super) const UDP_TCP: Field = Field::bits(32 + 18, 32 + 17);
    /// Second word: the IPv4 header's checksum is right.
    pub(super) const IPC: Field = Field::bits(32 + 19, 32 + 19);
    /// Second word: it is IPv4.
    pub(super) const V4: Field = Field::bits(32 + 21, 32 + 21);
    /// Second word: it is a fragment.
    pub(super) const FRG: Field = Field::bits(32 + 22, 32 + 22);
    /// Second word: generation.
    pub(super) const GEN: Field = Field::bits(63, 63);
}

/// Hands a send slot over: a buffer at `address`, and `rest` of its second word.
#[inline]
pub(crate) fn post(slot: &Words, at: MaskedCursor, address: u64, rest: u64) {
    let rest = rest | tx::GEN.put(generation(at));
    slot[0].store(address.to_le(), Ordering::Relaxed);
    slot[1].store(rest.to_le(), Ordering::Release);
}

/// Hands a receive slot over: an empty buffer of `len` bytes at `address`.
#[inline]
pub(crate) fn arm(slot: &Words, at: MaskedCursor, address: u64, len: u64, body: bool) {
    let rest = rx::LEN.put(len) | rx::BTYPE.put(u64::from(body)) | rx::GEN.put(generation(at));
    slot[0].store(address.to_le(), Ordering::Relaxed);
    slot[1].store(rest.to_le(), Ordering::Release);
}

/// What the device says of a slot that it is done with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done(u64, u64);

/// Reads the completion at `at`, if the device has written it.
#[inline]
pub(crate) fn completion(slot: &Words, at: MaskedCursor) -> Option<Done> {
    let last = u64::from_le(slot[1].load(Ordering::Acquire));
    if done::GEN.get(last) != generation(at) {
        return None;
    }
    hw::ring::observe();
    let first = u64::from_le(slot[0].load(Ordering::Relaxed));
    Some(Done(first, last))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "each field is narrower than what it becomes"
)]
impl Done {
    /// The slot: of a sent frame, that of its last buffer.
    #[inline]
    pub(crate) fn index(self) -> usize {
        done::INDEX.get(self.0) as usize
    }

    /// Queue and ring.
    #[inline]
    pub(crate) fn ring(self) -> u32 {
        done::RQID.get(self.0) as u32
    }

    /// Bytes in the buffer.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len16().into()
    }

    /// The same, as narrow as it is.
    #[inline]
    pub(crate) fn len16(self) -> u16 {
        done::LEN.get(self.1) as u16
    }

    /// The first buffer of a frame.
    #[inline]
    pub(crate) fn is_first(self) -> bool {
        done::SOP.get(self.0) == 1
    }

    /// The last buffer of a frame.
    #[inline]
    pub(crate) fn is_last(self) -> bool {
        done::EOP.get(self.0) == 1
    }

    /// The frame is damaged, or did not fit into its buffers.
    #[inline]
    pub(crate) fn is_bad(self) -> bool {
        done::ERR.get(self.1) == 1
    }

    /// The hash, if one was computed.
    #[inline]
    pub(crate) fn hash(self) -> Option<u32> {
        (done::RSS_TYPE.get(self.0) != 0).then(|| done::HASH.get(self.0) as u32)
    }

    /// The tag that was stripped, if one was.
    #[inline]
    pub(crate) fn tag(self) -> Option<u16> {
        (done::TS.get(self.1) == 1).then(|| done::TCI.get(self.1) as u16)
    }

    /// Whether the IPv4 header's checksum is right, if the device looked at one.
    #[inline]
    pub(crate) fn ipv4(self) -> Option<bool> {
        let looked = done::CNC.get(self.0) == 0 && done::V4.get(self.1) == 1;
        looked.then(|| done::IPC.get(self.1) == 1)
    }

    /// Whether the TCP or UDP checksum is right, if the device looked at one. A fragment has
    /// none that could be checked.
    #[inline]
    pub(crate) fn l4(self) -> Option<bool> {
        let looked = done::CNC.get(self.0) == 0
            && done::UDP_TCP.get(self.1) != 0
            && done::FRG.get(self.1) == 0;
        looked.then(|| done::TUC.get(self.1) == 1)
    }
}
