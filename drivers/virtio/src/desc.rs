//! Descriptor words, as both rings have them, and the header before each frame.
//!
//! A descriptor is 16 bytes, seen as two words: an address, and length, flags and number. Split
//! rings (§2.7.5) have the flags before the number of the next descriptor, packed rings (§2.8.13)
//! have the buffer's number before the flags, which lie in the same half of the word.

use std::sync::atomic::AtomicU64;

/// One descriptor: address, and the rest.
pub(crate) type Words = [AtomicU64; 2];

bitflags::bitflags! {
    /// Flags of a descriptor (§2.7.5, §2.8.1, §2.8.13).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(crate) struct DescFlags: u16 {
        /// The buffer goes on in another descriptor.
        const NEXT = 1 << 0;
        /// The device writes the buffer, else it reads it.
        const WRITE = 1 << 1;
        /// The buffer is a table of descriptors.
        const INDIRECT = 1 << 2;
        /// Packed rings: the driver's mark, equal to its wrap counter.
        const AVAIL = 1 << 7;
        /// Packed rings: the device's mark.
        const USED = 1 << 15;
        const _ = !0;
    }
}

/// The second word of a split descriptor: length, flags, and the next descriptor of its chain.
#[inline]
pub(crate) fn split_word(len: u32, flags: DescFlags, next: u16) -> u64 {
    (u64::from(len) | u64::from(flags.bits()) << 32 | u64::from(next) << 48).to_le()
}

/// The second word of a packed descriptor: length, the buffer's number, and flags.
#[inline]
pub(crate) fn packed_word(len: u32, id: u16, flags: DescFlags) -> u64 {
    (u64::from(len) | u64::from(id) << 32 | u64::from(flags.bits()) << 48).to_le()
}

/// What a device says of a buffer in a packed ring: number, length, and its marks.
#[inline]
pub(crate) fn packed_used(word: u64) -> (u16, u32, DescFlags) {
    let word = u64::from_le(word);
    let [l0, l1, l2, l3, i0, i1, f0, f1] = word.to_le_bytes();
    (
        u16::from_le_bytes([i0, i1]),
        u32::from_le_bytes([l0, l1, l2, l3]),
        DescFlags::from_bits_retain(u16::from_le_bytes([f0, f1])),
    )
}

/// The marks of a packed descriptor that the driver makes available on a lap with wrap counter
/// `wrap` (§2.8.1).
#[inline]
pub(crate) const fn available(wrap: bool) -> DescFlags {
    if wrap {
        DescFlags::AVAIL
    } else {
        DescFlags::USED
    }
}

/// True if `flags` are those of a descriptor that the device has used on a lap with wrap counter
/// `wrap` (§2.8.1).
#[inline]
pub(crate) fn is_used(flags: DescFlags, wrap: bool) -> bool {
    flags.contains(DescFlags::AVAIL) == wrap && flags.contains(DescFlags::USED) == wrap
}

bitflags::bitflags! {
    /// Flags of the header before a frame (§5.1.6).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(crate) struct HeaderFlags: u8 {
        /// The checksum at `csum_start + csum_offset` holds the pseudo-header's sum only.
        const NEEDS_CSUM = 1 << 0;
        /// The device found the checksum right.
        const DATA_VALID = 1 << 1;
        const _ = !0;
    }
}

/// The longest header: that which tells a hash, behind the 12 bytes that the standard's has
/// without. The drafts' lacks the last two of those.
pub(crate) const HEADER_MAX: usize = 20;
/// Where a header says how many buffers a frame lies in, if it says so.
const BUFFERS: usize = 10;
/// Where one that tells a hash has it, and behind it its type.
const HASH: usize = 12;

/// The header of a sent frame whose checksum the device completes: `start` is where the summing
/// begins in the frame, `offset` where the sum goes from there (§5.1.6.2).
pub(crate) fn checksum_header(start: u16, offset: u16) -> [u8; HEADER_MAX] {
    let mut header = [0; HEADER_MAX];
    header[0] = HeaderFlags::NEEDS_CSUM.bits();
    header[6..8].copy_from_slice(&start.to_le_bytes());
    header[8..10].copy_from_slice(&offset.to_le_bytes());
    header
}

/// Flags, and the number of buffers where the header has it, of a received frame's header. The
/// header ends where `headroom` does.
#[inline]
pub(crate) fn received(headroom: &[u8; hugemem::HEADROOM], header: usize) -> (HeaderFlags, u16) {
    let start = headroom.len() - header;
    let flags = HeaderFlags::from_bits_retain(headroom[start]);
    // The shortest header has no such field; nobody asks then.
    let at = (start + BUFFERS).min(headroom.len() - 2);
    let buffers = u16::from_le_bytes([headroom[at], headroom[at + 1]]);
    (flags, buffers)
}

/// The hash that the longest header tells, if one was made (§5.1.6.4.4).
#[inline]
pub(crate) fn told_hash(headroom: &[u8; hugemem::HEADROOM]) -> Option<u32> {
    let [.., h0, h1, h2, h3, t0, t1, _, _] = *headroom;
    let kind = u16::from_le_bytes([t0, t1]);
    (kind != 0).then_some(u32::from_le_bytes([h0, h1, h2, h3]))
}

const _: () = assert!(size_of::<Words>() == 16, "a descriptor is 16 bytes");
const _: () = assert!(
    HASH + 8 == HEADER_MAX,
    "hash, type and padding end the header"
);

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn descriptor_words_have_their_bytes_where_the_standard_says() {
        let word = split_word(0x1122_3344, DescFlags::NEXT | DescFlags::WRITE, 0xabcd);
        assert_eq!(
            word.to_ne_bytes(),
            [0x44, 0x33, 0x22, 0x11, 3, 0, 0xcd, 0xab]
        );
        let word = packed_word(60, 0x1234, available(false) | DescFlags::INDIRECT);
        assert_eq!(word.to_ne_bytes(), [60, 0, 0, 0, 0x34, 0x12, 4, 0x80]);
        assert_eq!(
            packed_used(word),
            (0x1234, 60, DescFlags::USED | DescFlags::INDIRECT)
        );
    }

    #[test]
    fn a_packed_descriptor_is_used_when_both_marks_equal_the_wrap_counter() {
        for wrap in [false, true] {
            assert!(!is_used(available(wrap), wrap), "available, not used");
            assert!(!is_used(available(wrap), !wrap));
        }
        assert!(is_used(DescFlags::AVAIL | DescFlags::USED, true));
        assert!(is_used(DescFlags::empty(), false));
        assert!(
            !is_used(DescFlags::empty(), true),
            "a fresh ring has nothing used"
        );
    }

    #[test]
    fn a_checksum_header_says_where_to_sum_and_where_to_put_it() {
        let [used @ .., _, _, _, _, _, _, _, _] = checksum_header(34, 16);
        assert_eq!(used, [1, 0, 0, 0, 0, 0, 34, 0, 16, 0, 0, 0]);
        assert_eq!(checksum_header(34, 16)[12..], [0; 8]);
        let mut headroom = [0; hugemem::HEADROOM];
        headroom[52] = 3;
        headroom[62..].copy_from_slice(&[5, 1]);
        let (flags, buffers) = received(&headroom, 12);
        assert_eq!(
            (flags, buffers),
            (HeaderFlags::NEEDS_CSUM | HeaderFlags::DATA_VALID, 261)
        );
    }

    #[test]
    fn a_header_tells_its_hash_behind_all_else() {
        let mut headroom = [0; hugemem::HEADROOM];
        headroom[44..].copy_from_slice(&[
            2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 1, // what every header has
            0x44, 0x33, 0x22, 0x11, 0, 2, 0xee, 0xee,
        ]);
        assert_eq!(received(&headroom, 20), (HeaderFlags::DATA_VALID, 263));
        assert_eq!(told_hash(&headroom), Some(0x1122_3344));
        headroom[61] = 0;
        assert_eq!(told_hash(&headroom), None, "no hash was made");
    }
}
