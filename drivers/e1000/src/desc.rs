//! Descriptors: 16 bytes, two words, in two formats.
//!
//! A *legacy* descriptor (developer's manual §3.2.3, §3.3.3) is what 8254x and 82574 have, with
//! *context* and *data* descriptors (§3.3.6, §3.3.7) beside it for checksums. An *advanced* one
//! (82576 §7.1.5, §7.2.2) is what 82576 and later have. In both, the driver writes an address and
//! a command; the device overwrites the second word's low half (receiving: all of it), where bit
//! 32 (sending) or a format's own bit (receiving) says *done*. So sending looks at one place for
//! either format.

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

/// What a device says of a buffer that it filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Bytes in it.
    pub(crate) len: u16,
    /// The packet ends with it.
    pub(crate) last: bool,
    /// The tag that was stripped, if the flags say so.
    pub(crate) vlan: u16,
    /// The RSS hash, if the flags say so.
    pub(crate) hash: u32,
    /// What was found.
    pub(crate) flags: RxFlags,
}

/// A format of descriptors.
pub(crate) trait Format: Send + Copy + 'static {
    /// A packet in one buffer of which nothing is asked.
    fn plain(iova: u64, len: u32) -> Words;
    /// The context descriptor that comes before a packet of which `asks` is asked, if any.
    fn context(asks: &Asks) -> Option<Words>;
    /// One buffer of a packet of which `asks` is asked.
    fn piece(piece: &Piece, asks: &Asks) -> Words;
    /// An empty buffer.
    fn arm(iova: u64) -> Words {
        [iova, 0]
    }
    /// True if the second word says that the buffer is filled.
    fn is_filled(second: u64) -> bool;
    /// What it says.
    fn completion(words: Words) -> Completion;
}

/// Sending, second word: *descriptor done*.
pub(crate) const DONE: u64 = 1 << 32;
/// Sending, second word: *report status*, so that the device sets [`DONE`].
pub(crate) const REPORT: u64 = 0x08 << 24;

/// The packet ends here (DCMD.EOP).
const EOP: u64 = 0x01 << 24;
/// The device adds the FCS (DCMD.IFCS).
const IFCS: u64 = 0x02 << 24;
/// Not a legacy descriptor (DCMD.DEXT).
const DEXT: u64 = 0x20 << 24;
/// Inserts a VLAN tag (DCMD.VLE).
const VLE: u64 = 0x40 << 24;

/// Descriptors of 8254x and 82574.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Legacy;

mod legacy {
    use super::Field;

    /// DTYP of a data descriptor (§3.3.7.1).
    pub(super) const DATA: u64 = 1 << 20;
    /// POPTS.IXSM: fill the IPv4 checksum in.
    pub(super) const IXSM: u64 = 1 << 40;
    /// POPTS.TXSM: fill the TCP or UDP checksum in.
    pub(super) const TXSM: u64 = 1 << 41;
    /// The VLAN tag.
    pub(super) const SPECIAL: Field = Field::bits(63, 48);
    /// TUCMD.TCP of a context descriptor (§3.3.6.1).
    pub(super) const TCP: u64 = 0x01 << 24;
    /// TUCMD.IP.
    pub(super) const IP: u64 = 0x02 << 24;

    /// Context: first byte that the IPv4 checksum covers.
    pub(super) const IPCSS: Field = Field::bits(7, 0);
    /// Context: where the IPv4 checksum goes.
    pub(super) const IPCSO: Field = Field::bits(15, 8);
    /// Context: last byte that it covers.
    pub(super) const IPCSE: Field = Field::bits(31, 16);
    /// Context: first byte that the TCP or UDP checksum covers.
    pub(super) const TUCSS: Field = Field::bits(39, 32);
    /// Context: where it goes. Its end, in the bits above, is 0: that of the packet.
    pub(super) const TUCSO: Field = Field::bits(47, 40);

    /// Receiving (§3.2.3): bytes in the buffer.
    pub(super) const LENGTH: Field = Field::bits(15, 0);
    /// Status: done.
    pub(super) const DD: u64 = 1 << 32;
    /// Status: end of packet.
    pub(super) const EOP: u64 = 1 << 33;
    /// Status: checksums were not looked at.
    pub(super) const IXSM_RX: u64 = 1 << 34;
    /// Status: a tag was stripped.
    pub(super) const VP: u64 = 1 << 35;
    /// Status: the UDP checksum was looked at (82574).
    pub(super) const UDPCS: u64 = 1 << 36;
    /// Status: the TCP (8254x: or UDP) checksum was looked at.
    pub(super) const TCPCS: u64 = 1 << 37;
    /// Status: the IPv4 checksum was looked at.
    pub(super) const IPCS: u64 = 1 << 38;
    /// Errors: FCS, symbol, sequence, carrier extension.
    pub(super) const DAMAGED: u64 = 0b1_0111 << 40 | 1 << 47;
    /// Errors: TCP or UDP checksum.
    pub(super) const TCPE: u64 = 1 << 45;
    /// Errors: IPv4 checksum.
    pub(super) const IPE: u64 = 1 << 46;
}

impl Format for Legacy {
    #[inline]
    fn plain(iova: u64, len: u32) -> Words {
        [iova, u64::from(len) | EOP | IFCS]
    }

    fn context(asks: &Asks) -> Option<Words> {
        use legacy as l;
        let headers = asks.headers?;
        let ip = u64::from(headers.ip);
        let mut first = 0;
        let mut second = DEXT;
        if headers.is_ipv4 {
            first |= l::IPCSS.put(ip & 0xff)
                | l::IPCSO.put((ip + 10) & 0xff)
                | l::IPCSE.put(u64::from(headers.l4 - 1));
            second |= l::IP;
        }
        if let Some(sum) = headers.l4_sum {
            let start = u64::from(headers.l4);
            first |= l::TUCSS.put(start & 0xff) | l::TUCSO.put((start + u64::from(sum)) & 0xff);
            second |= if headers.is_tcp { l::TCP } else { 0 };
        }
        Some([first, second])
    }

    fn piece(piece: &Piece, asks: &Asks) -> Words {
        let mut second = u64::from(piece.len) | IFCS;
        if piece.last {
            second |= EOP;
        }
        if asks.headers.is_some() {
            second |= DEXT | legacy::DATA;
            second |= if asks.ipv4 { legacy::IXSM } else { 0 };
            second |= if asks.l4 { legacy::TXSM } else { 0 };
        }
        if let (Some(vlan), true) = (asks.vlan, piece.last) {
            second |= VLE | legacy::SPECIAL.put(u64::from(vlan));
        }
        [piece.iova, second]
    }

    #[inline]
    fn is_filled(second: u64) -> bool {
        second & legacy::DD != 0
    }

    #[inline]
    fn completion([_, second]: Words) -> Completion {
        use legacy as l;
        let is = |bits: u64| second & bits != 0;
        let mut flags = RxFlags::empty();
        if !is(l::IXSM_RX) {
            if is(l::IPCS) {
                flags |= verdict(is(l::IPE), RxFlags::IPV4_BAD, RxFlags::IPV4_GOOD);
            }
            if is(l::TCPCS | l::UDPCS) {
                flags |= verdict(is(l::TCPE), RxFlags::L4_BAD, RxFlags::L4_GOOD);
            }
        }
        flags.set(RxFlags::VLAN, is(l::VP));
        flags.set(RxFlags::ERROR, is(l::DAMAGED));
        Completion {
            len: half(l::LENGTH.get(second)),
            last: is(l::EOP),
            vlan: half(l::SPECIAL.get(second)),
            hash: 0,
            flags,
        }
    }
}

/// Descriptors of 82576 and later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Advanced;

mod advanced {
    use super::Field;

    /// DTYP of a data descriptor (§7.2.2.3.4).
    pub(super) const DATA: u64 = 3 << 20;
    /// DTYP of a context descriptor (§7.2.2.2.6).
    pub(super) const CONTEXT: u64 = 2 << 20;
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

    /// Receiving (§7.1.5.2): kind of RSS hash, in the first word.
    pub(super) const RSS_TYPE: u64 = 0xf;
    /// Status: done.
    pub(super) const DD: u64 = 1 << 0;
    /// Status: end of packet.
    pub(super) const EOP: u64 = 1 << 1;
    /// Status: a tag was stripped.
    pub(super) const VP: u64 = 1 << 3;
    /// Status: the UDP checksum was looked at.
    pub(super) const UDPCS: u64 = 1 << 4;
    /// Status: the TCP or UDP checksum was looked at.
    pub(super) const L4CS: u64 = 1 << 5;
    /// Status: the IPv4 checksum was looked at.
    pub(super) const IPCS: u64 = 1 << 6;
    /// Errors: TCP or UDP checksum.
    pub(super) const L4E: u64 = 1 << 29;
    /// Errors: IPv4 checksum.
    pub(super) const IPE: u64 = 1 << 30;
    /// Errors: damaged.
    pub(super) const RXE: u64 = 1 << 31;
    /// Bytes in the buffer.
    pub(super) const LENGTH: Field = Field::bits(47, 32);
    /// The tag that was stripped.
    pub(super) const TAG: Field = Field::bits(63, 48);
}

impl Format for Advanced {
    #[inline]
    fn plain(iova: u64, len: u32) -> Words {
        let len = u64::from(len);
        [iova, len | advanced::DATA | DEXT | EOP | IFCS | len << 46]
    }

    fn context(asks: &Asks) -> Option<Words> {
        use advanced as a;
        if asks.headers.is_none() && asks.vlan.is_none() {
            return None;
        }
        let mut first = a::VLAN.put(u64::from(asks.vlan.unwrap_or(0)));
        let mut second = DEXT | a::CONTEXT;
        if let Some(headers) = asks.headers {
            let ip_len = u64::from(headers.l4.saturating_sub(headers.ip));
            first |= a::IPLEN.put(ip_len & 0x1ff) | a::MACLEN.put(u64::from(headers.ip) & 0x7f);
            second |= if headers.is_ipv4 { a::IPV4 } else { 0 };
            second |= if headers.is_tcp { a::TCP } else { 0 };
        } else {
            // Behind the addresses and the type.
            first |= a::MACLEN.put(14);
        }
        Some([first, second])
    }

    fn piece(piece: &Piece, asks: &Asks) -> Words {
        use advanced as a;
        let mut second = u64::from(piece.len) | a::DATA | DEXT | IFCS;
        second |= if piece.last { EOP } else { 0 };
        second |= if asks.vlan.is_some() { VLE } else { 0 };
        second |= if asks.ipv4 { a::IXSM } else { 0 };
        second |= if asks.l4 { a::TXSM } else { 0 };
        second |= a::PAYLEN.put(u64::from(piece.total) & 0x3_ffff);
        [piece.iova, second]
    }

    #[inline]
    fn is_filled(second: u64) -> bool {
        second & advanced::DD != 0
    }

    #[inline]
    fn completion([first, second]: Words) -> Completion {
        use advanced as a;
        let is = |bits: u64| second & bits != 0;
        let mut flags = RxFlags::empty();
        if is(a::IPCS) {
            flags |= verdict(is(a::IPE), RxFlags::IPV4_BAD, RxFlags::IPV4_GOOD);
        }
        if is(a::L4CS | a::UDPCS) {
            flags |= verdict(is(a::L4E), RxFlags::L4_BAD, RxFlags::L4_GOOD);
        }
        flags.set(RxFlags::VLAN, is(a::VP));
        flags.set(RxFlags::ERROR, is(a::RXE));
        flags.set(RxFlags::HASH, first & a::RSS_TYPE != 0);
        let [_, _, _, _, b0, b1, b2, b3] = first.to_le_bytes();
        Completion {
            len: half(a::LENGTH.get(second)),
            last: is(a::EOP),
            vlan: half(a::TAG.get(second)),
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
