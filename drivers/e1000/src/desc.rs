//! Descriptors: 16 bytes, two words, in two formats and a half.
//!
//! A *legacy* descriptor (developer's manual §3.2.3, §3.3.3) is what 8254x and 82574 have, with
//! *context* and *data* descriptors (§3.3.6, §3.3.7) beside it for checksums. An *advanced* one
//! (82576 §7.1.5, §7.2.2) is what 82576 and later have. In both, the driver writes an address and
//! a command; the device overwrites the second word's low half (receiving: all of it), where bit
//! 32 (sending) or a format's own bit (receiving) says *done*. So sending looks at one place for
//! either format.

use hw::mmio::Field;
use intel::{Asks, Completion, Piece, ReceiveFormat, SendFormat, Words};
use port::{Headers, RxFlags};

/// Most buffers of a packet.
pub(crate) const SEGMENTS: usize = 16;

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

impl SendFormat for Legacy {
    const SEGMENTS: usize = SEGMENTS;

    #[inline]
    fn plain(self, iova: u64, len: u32) -> Words {
        [iova, u64::from(len) | EOP | IFCS]
    }

    /// The legacy offsets have 8 bits (developer's manual §3.3.6).
    fn reaches(self, headers: &Headers) -> bool {
        headers.l4 + 16 <= 0xff
    }

    fn context(self, asks: &Asks) -> Option<Words> {
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

    fn piece(self, piece: &Piece, asks: &Asks) -> Words {
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
}

impl ReceiveFormat for Legacy {
    #[inline]
    fn is_filled(second: u64) -> bool {
        second & legacy::DD != 0
    }

    #[inline]
    fn completion(_first: impl FnOnce() -> u64, second: u64) -> Completion {
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
            flags,
            ..Completion::default()
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

impl SendFormat for Advanced {
    const SEGMENTS: usize = SEGMENTS;

    #[inline]
    fn plain(self, iova: u64, len: u32) -> Words {
        let len = u64::from(len);
        [iova, len | advanced::DATA | DEXT | EOP | IFCS | len << 46]
    }

    /// MACLEN has 7 bits, IPLEN 9 (82576 §7.2.2.2.1).
    fn reaches(self, headers: &Headers) -> bool {
        headers.ip <= 0x7f && headers.l4 - headers.ip <= 0x1ff
    }

    fn context(self, asks: &Asks) -> Option<Words> {
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

    fn piece(self, piece: &Piece, asks: &Asks) -> Words {
        use advanced as a;
        let mut second = u64::from(piece.len) | a::DATA | DEXT | IFCS;
        second |= if piece.last { EOP } else { 0 };
        second |= if asks.vlan.is_some() { VLE } else { 0 };
        second |= if asks.ipv4 { a::IXSM } else { 0 };
        second |= if asks.l4 { a::TXSM } else { 0 };
        second |= a::PAYLEN.put(u64::from(piece.total) & 0x3_ffff);
        [piece.iova, second]
    }
}

impl ReceiveFormat for Advanced {
    #[inline]
    fn is_filled(second: u64) -> bool {
        second & advanced::DD != 0
    }

    #[inline]
    fn completion(first: impl FnOnce() -> u64, second: u64) -> Completion {
        use advanced as a;
        let first = first();
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
            ..Completion::default()
        }
    }
}

/// Receive descriptors of 82574 with RSS: armed as legacy ones are, and written back as 82576's, but
/// for the checksum verdicts (82574 datasheet §7.1.6; Linux, `E1000_RXDEXT_STATERR_*`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extended;

mod extended {
    /// Status: checksums were not looked at.
    pub(super) const IXSM: u64 = 1 << 2;
    /// Errors: FCS, symbol, sequence, carrier extension, and other damage.
    pub(super) const DAMAGED: u64 = 0b1_0111 << 24 | 1 << 31;
}

impl ReceiveFormat for Extended {
    #[inline]
    fn is_filled(second: u64) -> bool {
        Advanced::is_filled(second)
    }

    #[inline]
    fn completion(first: impl FnOnce() -> u64, second: u64) -> Completion {
        let checks = RxFlags::IPV4_GOOD | RxFlags::IPV4_BAD | RxFlags::L4_GOOD | RxFlags::L4_BAD;
        let mut said = Advanced::completion(first, second);
        if second & extended::IXSM != 0 {
            said.flags -= checks;
        }
        said.flags
            .set(RxFlags::ERROR, second & extended::DAMAGED != 0);
        said
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

    #[test]
    fn a_legacy_context_says_where_checksums_go() {
        let [first, second] = Legacy.context(&asks(None)).unwrap();
        // tucso 40, tucss 34, ipcse 33, ipcso 24, ipcss 14 (§3.3.6).
        assert_eq!(first.to_le_bytes(), [14, 24, 33, 0, 34, 40, 0, 0]);
        assert_eq!(second, 0x2200_0000, "DEXT and IP, for UDP");
        let [address, second] = Legacy.piece(&WHOLE, &asks(None));
        // EOP, IFCS, DEXT; data descriptor; 80 bytes; IXSM and TXSM.
        assert_eq!((address, second), (0x1000, 0x0000_0300_2310_0050));
    }

    #[test]
    fn a_legacy_tag_needs_no_context_and_goes_with_the_last_buffer() {
        let asks = Asks {
            vlan: Some(0x6123),
            ..Asks::default()
        };
        assert_eq!(Legacy.context(&asks), None);
        let [_, second] = Legacy.piece(&WHOLE, &asks);
        assert_eq!(second, 0x6123_0000_4300_0050, "EOP, IFCS, VLE, and the tag");
        let first = Piece {
            last: false,
            ..WHOLE
        };
        assert_eq!(Legacy.piece(&first, &asks)[1], 0x0200_0050);
    }

    #[test]
    fn an_advanced_context_says_where_headers_are_and_which_tag_to_insert() {
        let [first, second] = Advanced.context(&asks(Some(0x6123))).unwrap();
        assert_eq!(
            first,
            0x6123_0000 | 14 << 9 | 20,
            "tag, bytes before IP, bytes of IP"
        );
        assert_eq!(second, 0x2020_0400, "DEXT, context, IPv4");
        // 80 bytes in all, IXSM and TXSM; EOP, IFCS, DEXT, VLE; data descriptor.
        let [_, second] = Advanced.piece(&WHOLE, &asks(Some(0x6123)));
        assert_eq!(second, 80 << 46 | 0x300 << 32 | 0x6330_0050);
    }

    #[test]
    fn a_packet_of_which_nothing_is_asked_gives_its_length_where_the_format_wants_it() {
        assert_eq!(Legacy.plain(0x1000, 60), [0x1000, 0x0300_003c]);
        assert_eq!(Advanced.plain(0x1000, 60), [0x1000, 60 << 46 | 0x2330_003c]);
    }

    #[test]
    fn places_beyond_their_fields_are_out_of_reach() {
        let mut headers = asks(None).headers.unwrap();
        assert!(Legacy.reaches(&headers) && Advanced.reaches(&headers));
        headers.l4 = 240;
        assert!(!Legacy.reaches(&headers) && Advanced.reaches(&headers));
        (headers.ip, headers.l4) = (128, 148);
        assert!(Legacy.reaches(&headers) && !Advanced.reaches(&headers));
    }

    #[test]
    fn hash_and_verdicts_are_said_as_the_formats_have_them() {
        let advanced = |second| Advanced::completion(|| 0xdead_beef_0000_0001, second);
        let good = RxFlags::HASH | RxFlags::IPV4_GOOD;
        // L4CS and IPCS; with L4E; RXE.
        assert_eq!(advanced(0x60).flags, good | RxFlags::L4_GOOD);
        assert_eq!(advanced(0x60 | 1 << 29).flags, good | RxFlags::L4_BAD);
        assert_eq!(advanced(1 << 31).flags, RxFlags::HASH | RxFlags::ERROR);
        let whole = advanced(0x2001 << 48 | 60 << 32 | 0b1011);
        assert_eq!((whole.len, whole.last, whole.vlan), (60, true, 0x2001));
        assert_eq!(
            (whole.hash, whole.flags),
            (0xdead_beef, RxFlags::HASH | RxFlags::VLAN)
        );

        let extended = |second| Extended::completion(|| 0xdead_beef_0000_0001, second);
        let good = RxFlags::HASH | RxFlags::IPV4_GOOD;
        assert_eq!(extended(0x60).flags, good | RxFlags::L4_GOOD);
        assert_eq!(extended(0x60 | 1 << 29).flags, good | RxFlags::L4_BAD);
        let unlooked = extended(0x64 | 1 << 29 | 1 << 30).flags;
        assert_eq!(unlooked, RxFlags::HASH, "IXSM: the rest means nothing");
        assert_eq!(extended(1 << 24).flags, RxFlags::HASH | RxFlags::ERROR);

        let legacy = |second| Legacy::completion(|| 0, second);
        // TCPCS and IPCS; with TCPE; with IXSM, under which the rest means nothing; with CE.
        let looked = 1 << 37 | 1 << 38;
        let good = RxFlags::IPV4_GOOD;
        assert_eq!(legacy(looked).flags, good | RxFlags::L4_GOOD);
        assert_eq!(legacy(looked | 1 << 45).flags, good | RxFlags::L4_BAD);
        assert_eq!(legacy(looked | 1 << 34 | 1 << 45).flags, RxFlags::empty());
        assert_eq!(legacy(1 << 40).flags, RxFlags::ERROR);
        let whole = legacy(0x0123 << 48 | 1 << 35 | 1 << 33 | 80);
        assert_eq!((whole.len, whole.last, whole.vlan), (80, true, 0x0123));
        assert_eq!(whole.flags, RxFlags::VLAN);
    }
}
