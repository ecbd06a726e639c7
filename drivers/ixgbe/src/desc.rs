//! Descriptors: 16 bytes, two words, in the *advanced* format (82599 datasheet §7.1.6, §7.2.3).
//!
//! The driver writes an address and a command; the device overwrites the second word's low half
//! (sending) or both words (receiving), where bit 32 (sending) or bit 0 (receiving) of the second
//! says *done*.

use hw::mmio::Field;
use port::RxFlags;

use crate::headers::Headers;

/// The two words of a descriptor, in the host's order.
pub(crate) type Words = [u64; 2];

/// What is asked of the device for one packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Asks {
    /// Where the headers are, if a checksum is asked for.
    pub(crate) headers: Option<Headers>,
    /// Fills the IPv4 header checksum in.
    pub(crate) ipv4: bool,
    /// Fills the TCP or UDP checksum in.
    pub(crate) l4: bool,
    /// Inserts this tag.
    pub(crate) vlan: Option<u16>,
}

/// Where a buffer is in its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Bus address.
    pub(crate) iova: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// The packet ends with it.
    pub(crate) last: bool,
    /// Bytes of the whole packet.
    pub(crate) total: u32,
}

/// Sending, second word: *descriptor done*.
pub(crate) const DONE: u64 = 1 << 32;
/// Sending, second word: *report status*, so that the device sets [`DONE`].
pub(crate) const REPORT: u64 = 1 << 27;

mod send {
    use super::Field;

    /// DCMD.EOP: the packet ends here.
    pub(super) const EOP: u64 = 1 << 24;
    /// DCMD.IFCS: the device adds the FCS.
    pub(super) const IFCS: u64 = 1 << 25;
    /// DCMD.DEXT: an advanced descriptor.
    pub(super) const DEXT: u64 = 1 << 29;
    /// DCMD.VLE: inserts a VLAN tag.
    pub(super) const VLE: u64 = 1 << 30;
    /// DTYP of a data descriptor.
    pub(super) const DATA: u64 = 3 << 20;
    /// DTYP of a context descriptor.
    pub(super) const CONTEXT: u64 = 2 << 20;
    /// The context that a descriptor is about: one of two that a queue remembers.
    pub(super) const IDX: Field = Field::bits(38, 36);
    /// CC: the context is looked at, though it asks for nothing.
    pub(super) const CC: u64 = 1 << 39;
    /// POPTS.IXSM: fill the IPv4 checksum in.
    pub(super) const IXSM: u64 = 1 << 40;
    /// POPTS.TXSM: fill the TCP or UDP checksum in.
    pub(super) const TXSM: u64 = 1 << 41;
    /// Bytes of the packet, over all its buffers.
    pub(super) const PAYLEN: Field = Field::bits(63, 46);

    /// Context: bytes of the IP header.
    pub(super) const IPLEN: Field = Field::bits(8, 0);
    /// Context: bytes before the IP header.
    pub(super) const MACLEN: Field = Field::bits(15, 9);
    /// Context: the VLAN tag.
    pub(super) const VLAN: Field = Field::bits(31, 16);
    /// Context, TUCMD: IPv4.
    pub(super) const IPV4: u64 = 1 << 10;
    /// Context, TUCMD.L4T: TCP; UDP is 0.
    pub(super) const TCP: u64 = 1 << 11;
}

/// Bytes of addresses and type, with no tag.
const ETHERNET: u64 = 14;
/// The place of contexts that come before a packet.
const ASKED: u64 = 1;

/// How send descriptors are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Writer {
    /// What every data descriptor says.
    always: u64,
}

impl Writer {
    /// For a physical function.
    pub(crate) const fn pf() -> Self {
        Self {
            always: send::DATA | send::DEXT | send::IFCS,
        }
    }

    /// For a virtual function. With others behind the same switch, each packet needs a context
    /// (82599 datasheet §7.2.3.2.4, *CC*): [`Writer::first`].
    pub(crate) const fn vf() -> Self {
        Self {
            always: Self::pf().always | send::CC,
        }
    }

    /// What has to be told before the first packet: the context of those that ask for nothing.
    pub(crate) const fn first(self) -> Option<Words> {
        if self.always & send::CC == 0 {
            return None;
        }
        Some([send::MACLEN.put(ETHERNET), send::DEXT | send::CONTEXT])
    }

    /// A packet in one buffer of which nothing is asked.
    #[inline]
    pub(crate) fn plain(self, iova: u64, len: u32) -> Words {
        let len = u64::from(len);
        [iova, len | self.always | send::EOP | len << 46]
    }

    /// The context descriptor that comes before a packet of which `asks` is asked, if any.
    pub(crate) fn context(asks: &Asks) -> Option<Words> {
        if asks.headers.is_none() && asks.vlan.is_none() {
            return None;
        }
        let mut first = send::VLAN.put(u64::from(asks.vlan.unwrap_or(0)));
        let mut second = send::DEXT | send::CONTEXT | send::IDX.put(ASKED);
        if let Some(headers) = asks.headers {
            let ip_len = u64::from(headers.l4.saturating_sub(headers.ip));
            first |= send::IPLEN.put(ip_len & 0x1ff);
            first |= send::MACLEN.put(u64::from(headers.ip) & 0x7f);
            second |= if headers.is_ipv4 { send::IPV4 } else { 0 };
            second |= if headers.is_tcp { send::TCP } else { 0 };
        } else {
            first |= send::MACLEN.put(ETHERNET);
        }
        Some([first, second])
    }

    /// One buffer of a packet of which `asks` is asked.
    pub(crate) fn piece(self, piece: &Piece, asks: &Asks) -> Words {
        let mut second = u64::from(piece.len) | self.always;
        second |= if piece.last { send::EOP } else { 0 };
        if asks.headers.is_some() || asks.vlan.is_some() {
            second |= send::IDX.put(ASKED);
        }
        second |= if asks.vlan.is_some() { send::VLE } else { 0 };
        second |= if asks.ipv4 { send::IXSM } else { 0 };
        second |= if asks.l4 { send::TXSM } else { 0 };
        second |= send::PAYLEN.put(u64::from(piece.total) & 0x3_ffff);
        [piece.iova, second]
    }
}

mod receive {
    use super::Field;

    /// First word: kind of RSS hash.
    pub(super) const RSS_TYPE: u64 = 0xf;
    /// First word, packet type: UDP.
    pub(super) const UDP: u64 = 1 << 9;
    /// Status: done.
    pub(super) const DD: u64 = 1 << 0;
    /// Status: end of packet.
    pub(super) const EOP: u64 = 1 << 1;
    /// Status: a tag was stripped.
    pub(super) const VP: u64 = 1 << 3;
    /// Status: the TCP or UDP checksum was looked at.
    pub(super) const L4CS: u64 = 1 << 5;
    /// Status: the IPv4 checksum was looked at.
    pub(super) const IPCS: u64 = 1 << 6;
    /// Errors: damaged (RXE: CRC, symbol, length).
    pub(super) const RXE: u64 = 1 << 29;
    /// Errors: TCP or UDP checksum.
    pub(super) const L4E: u64 = 1 << 30;
    /// Errors: IPv4 checksum.
    pub(super) const IPE: u64 = 1 << 31;
    /// Bytes in the buffer.
    pub(super) const LENGTH: Field = Field::bits(47, 32);
    /// The tag that was stripped.
    pub(super) const TAG: Field = Field::bits(63, 48);
}

/// What a device says of a buffer that it filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Bytes in it.
    pub(crate) len: u16,
    /// The packet ends with it.
    pub(crate) last: bool,
    /// The device took it for UDP.
    pub(crate) udp: bool,
    /// The tag that was stripped, if the flags say so.
    pub(crate) vlan: u16,
    /// The RSS hash, if the flags say so.
    pub(crate) hash: u32,
    /// What was found.
    pub(crate) flags: RxFlags,
}

/// An empty buffer at `iova`.
#[inline]
pub(crate) const fn arm(iova: u64) -> Words {
    [iova, 0]
}

/// True if the second word says that the buffer is filled.
#[inline]
pub(crate) const fn is_filled(second: u64) -> bool {
    second & receive::DD != 0
}

/// How much of a completion is read: a queue reads what its port was started for, and nothing
/// else.
pub(crate) trait Reading: Send + Copy + 'static {
    /// More than lengths.
    const ALL: bool;

    /// What the two words say; the first is read only if it has to be.
    fn completion(first: impl FnOnce() -> u64, second: u64) -> Completion;
}

/// Lengths and damage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths;

impl Reading for Lengths {
    const ALL: bool = false;

    #[inline]
    fn completion(_first: impl FnOnce() -> u64, second: u64) -> Completion {
        let mut flags = RxFlags::empty();
        flags.set(RxFlags::ERROR, second & receive::RXE != 0);
        Completion {
            len: half(receive::LENGTH.get(second)),
            last: second & receive::EOP != 0,
            flags,
            ..Completion::default()
        }
    }
}

/// Everything: checksums, hash, tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Everything;

impl Reading for Everything {
    const ALL: bool = true;

    #[inline]
    fn completion(first: impl FnOnce() -> u64, second: u64) -> Completion {
        use receive as r;
        let first = first();
        let is = |bits: u64| second & bits != 0;
        let mut flags = RxFlags::empty();
        if is(r::IPCS) {
            flags |= verdict(is(r::IPE), RxFlags::IPV4_BAD, RxFlags::IPV4_GOOD);
        }
        if is(r::L4CS) {
            flags |= verdict(is(r::L4E), RxFlags::L4_BAD, RxFlags::L4_GOOD);
        }
        flags.set(RxFlags::VLAN, is(r::VP));
        flags.set(RxFlags::ERROR, is(r::RXE));
        flags.set(RxFlags::HASH, first & r::RSS_TYPE != 0);
        let [_, _, _, _, b0, b1, b2, b3] = first.to_le_bytes();
        Completion {
            len: half(r::LENGTH.get(second)),
            last: is(r::EOP),
            udp: first & r::UDP != 0,
            vlan: half(r::TAG.get(second)),
            hash: u32::from_le_bytes([b0, b1, b2, b3]),
            flags,
        }
    }
}

#[inline]
fn verdict(bad: bool, if_bad: RxFlags, if_good: RxFlags) -> RxFlags {
    if bad { if_bad } else { if_good }
}

/// A value of 16 bits at most, as its field guarantees.
#[inline]
fn half(value: u64) -> u16 {
    let [a, b, ..] = value.to_le_bytes();
    u16::from_le_bytes([a, b])
}
