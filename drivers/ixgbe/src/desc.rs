//! Descriptors: 16 bytes, two words, in the *advanced* format (82599 datasheet §7.1.6, §7.2.3).
//!
//! The driver writes an address and a command; the device overwrites the second word (sending) or
//! both words (receiving), where bit 32 (sending) or bit 0 (receiving) of the second says *done*.

use hw::mmio::Field;
use intel::{Asks, Completion, Piece, ReceiveFormat, SendFormat, Words};
use port::{Headers, RxFlags};

/// Most buffers of a packet. The device takes 40 descriptors (DPDK, `IXGBE_TX_MAX_SEG`).
pub(crate) const SEGMENTS: usize = 32;
/// Shortest frame that is posted, in bytes without FCS; the driver pads shorter ones up to here,
/// and the device from here to 60. A queue hangs on less than 14 bytes (DPDK, fc6f59a0d6), and
/// PAYLEN wants 17 (Linux, `ixgbe_xmit_frame`).
pub(crate) const SHORTEST: usize = 17;

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
}

impl SendFormat for Writer {
    const SEGMENTS: usize = SEGMENTS;

    /// The context of packets that ask for nothing.
    fn first(self) -> Option<Words> {
        if self.always & send::CC == 0 {
            return None;
        }
        Some([send::MACLEN.put(ETHERNET), send::DEXT | send::CONTEXT])
    }

    #[inline]
    fn plain(self, iova: u64, len: u32) -> Words {
        let len = u64::from(len);
        [iova, len | self.always | send::EOP | len << 46]
    }

    /// MACLEN has 7 bits, IPLEN 9 (82599 datasheet §7.2.3.2.3).
    fn reaches(self, headers: &Headers) -> bool {
        headers.ip <= 0x7f && headers.l4 - headers.ip <= 0x1ff
    }

    fn context(self, asks: &Asks) -> Option<Words> {
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

    fn piece(self, piece: &Piece, asks: &Asks) -> Words {
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

/// Lengths and damage: a queue reads what its port was started for, and nothing else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths;

impl ReceiveFormat for Lengths {
    const ALL: bool = false;

    #[inline]
    fn is_filled(second: u64) -> bool {
        second & receive::DD != 0
    }

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

impl ReceiveFormat for Everything {
    #[inline]
    fn is_filled(second: u64) -> bool {
        second & receive::DD != 0
    }

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

#[cfg(test)]
mod test {
    use super::*;

    /// UDP on IPv4 behind an Ethernet header.
    fn asks(vlan: Option<u16>) -> Asks {
        let mut frame = [0; 80];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[23] = 17;
        Asks {
            headers: Headers::find(&frame),
            ipv4: true,
            l4: true,
            vlan,
        }
    }

    const WHOLE: Piece = Piece {
        iova: 0x1000,
        len: 80,
        last: true,
        total: 80,
    };
    /// CC: every packet of a virtual function names a context.
    const CC: u64 = 1 << 39;

    #[test]
    fn a_context_says_where_headers_are_and_which_tag_to_insert() {
        let writer = Writer::pf();
        let [first, second] = writer.context(&asks(Some(0x6123))).unwrap();
        assert_eq!(
            first,
            0x6123_0000 | 14 << 9 | 20,
            "tag, bytes before IP, bytes of IP"
        );
        assert_eq!(second, 0x10_2020_0400, "place 1, DEXT, context, IPv4");
        // 80 bytes in all, IXSM and TXSM, place 1; EOP, IFCS, DEXT, VLE; data descriptor.
        let [address, second] = writer.piece(&WHOLE, &asks(Some(0x6123)));
        assert_eq!(address, 0x1000);
        assert_eq!(second, 80 << 46 | 0x310 << 32 | 0x6330_0050);
        let tag_only = Asks {
            vlan: Some(0x6124),
            ..Asks::default()
        };
        let [first, _] = writer.context(&tag_only).unwrap();
        assert_eq!(first, 0x6124_0000 | 14 << 9);
        assert_eq!(writer.context(&Asks::default()), None);
    }

    #[test]
    fn a_virtual_function_tells_a_context_first_and_names_it_in_every_descriptor() {
        assert_eq!(Writer::pf().first(), None);
        let vf = Writer::vf();
        let first = vf.first();
        assert_eq!(first, Some([14 << 9, 0x2020_0000]), "14 bytes before IP");
        let [_, plain] = vf.plain(0x1000, 60);
        assert_eq!(plain, 60 << 46 | CC | 0x2330_003c, "place 0");
        assert_eq!(Writer::pf().plain(0x1000, 60)[1] & CC, 0);
        let l4 = Asks {
            ipv4: false,
            ..asks(None)
        };
        let [_, second] = vf.piece(&WHOLE, &l4);
        assert_eq!(second >> 32 & 0xffff, 0x290, "TXSM, CC, place 1");
    }

    #[test]
    fn a_buffer_that_goes_on_does_not_end_its_packet() {
        let part = Piece {
            last: false,
            total: 330,
            ..WHOLE
        };
        let [_, second] = Writer::pf().piece(&part, &Asks::default());
        assert_eq!(second, 330 << 46 | 0x2230_0050, "IFCS, DEXT, and no EOP");
    }

    #[test]
    fn hash_verdicts_and_tag_are_said_as_the_format_has_them() {
        let said = |second| Everything::completion(|| 0xdead_beef_0000_0001, second);
        let looked = 1 << 5 | 1 << 6;
        let hash = RxFlags::HASH;
        assert_eq!(
            said(looked).flags,
            hash | RxFlags::IPV4_GOOD | RxFlags::L4_GOOD
        );
        assert_eq!(
            said(looked | 1 << 30).flags,
            hash | RxFlags::IPV4_GOOD | RxFlags::L4_BAD
        );
        assert_eq!(
            said(looked | 1 << 31).flags,
            hash | RxFlags::IPV4_BAD | RxFlags::L4_GOOD
        );
        assert_eq!(said(1 << 29).flags, hash | RxFlags::ERROR);
        let whole = said(0x2001 << 48 | 60 << 32 | 0b1011);
        assert_eq!((whole.len, whole.last, whole.vlan), (60, true, 0x2001));
        assert_eq!(
            (whole.hash, whole.flags),
            (0xdead_beef, hash | RxFlags::VLAN)
        );
        let first = |word| Everything::completion(|| word, 3);
        assert!(first(1 << 9).udp && !first(0).udp);
        assert_eq!(first(0).flags, RxFlags::empty(), "no hash");
    }

    #[test]
    fn lengths_alone_do_not_look_at_the_first_word() {
        let unseen = || panic!("it is a read from memory");
        let damaged = Lengths::completion(unseen, 0x2001 << 48 | 61 << 32 | 1 << 29 | 0b1001);
        assert_eq!((damaged.len, damaged.last), (61, false));
        assert_eq!(damaged.flags, RxFlags::ERROR);
        assert!(Lengths::is_filled(1) && !Lengths::is_filled(2));
    }
}
