//! Where a frame that is sent has its TCP or UDP checksum: the device must be told.

use port::Headers;

/// Places from the frame's start, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The TCP or UDP header.
    pub(crate) header: u64,
    /// The checksum in it.
    pub(crate) field: u64,
}

/// Largest `header` and `field` that a descriptor can name (defs: `hlen` has 10 bits;
/// `VMXNET3_MAX_CSUM_OFFSET`).
const FAR: u64 = 1 << 10;

/// Where the TCP or UDP header of an Ethernet frame is. None if it has none, as later fragments, or
/// it lies too far behind.
pub(crate) fn place(frame: &[u8]) -> Option<Place> {
    let headers = Headers::find(frame)?;
    let header = u64::from(headers.l4);
    let field = header + u64::from(headers.l4_sum?);
    (header < FAR && field < FAR).then_some(Place { header, field })
}

#[cfg(test)]
mod test {
    use super::*;

    fn frame(kinds: &[u8], packet: &[u8]) -> Vec<u8> {
        [&[0; 12][..], kinds, packet].concat()
    }

    fn ipv4(protocol: u8, words: u8, fragment: u16) -> Vec<u8> {
        let mut packet = vec![0; usize::from(words) * 4 + 20];
        packet[0] = 0x40 | words;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet
    }

    #[test]
    fn udp_and_tcp_are_found_behind_tags_options_and_extensions() {
        let plain = frame(&[8, 0], &ipv4(17, 5, 0x4000));
        let found = |frame: &[u8]| place(frame).map(|place| (place.header, place.field));
        assert_eq!(found(&plain), Some((34, 40)));
        let tagged = frame(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0], &ipv4(6, 7, 0));
        assert_eq!(found(&tagged), Some((14 + 8 + 28, 14 + 8 + 28 + 16)));
        let mut packet = vec![0; 40 + 8 + 24 + 20];
        (packet[6], packet[40], packet[48], packet[49]) = (0, 60, 17, 2);
        assert_eq!(found(&frame(&[0x86, 0xdd], &packet)), Some((86, 92)));
    }

    #[test]
    fn fragments_other_protocols_stumps_and_what_lies_too_far_behind_have_none() {
        assert_eq!(place(&frame(&[8, 0], &ipv4(17, 5, 5))), None);
        assert_eq!(place(&frame(&[8, 0], &ipv4(1, 5, 0))), None);
        assert_eq!(place(&frame(&[8, 6], &[0; 28])), None);
        let udp = frame(&[8, 0], &ipv4(17, 5, 0));
        assert_eq!(place(&udp[..41]), None, "the field is cut off");
        assert!(place(&udp[..42]).is_some());
        let mut packet = vec![0; 40 + 1024 + 20];
        (packet[6], packet[40], packet[41]) = (60, 17, 127);
        assert_eq!(place(&frame(&[0x86, 0xdd], &packet)), None);
    }
}
