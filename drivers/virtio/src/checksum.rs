//! Where a sent frame's TCP or UDP checksum is, so that the device can complete it.

use port::Headers;

/// Where summing starts in the frame, and where from there the sum goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// First byte of the TCP or UDP header.
    pub(crate) start: u16,
    /// The checksum field, from there.
    pub(crate) offset: u16,
}

/// Where the outermost TCP or UDP checksum of an Ethernet frame is. None if there is none, or if it
/// is cut off, or in a fragment that is not the first.
pub(crate) fn place(frame: &[u8]) -> Option<Place> {
    let headers = Headers::find(frame)?;
    Some(Place {
        start: headers.l4,
        offset: headers.l4_sum?,
    })
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    fn frame(tags: &[u16], kind: u16, rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 1]);
        }
        frame.extend(kind.to_be_bytes());
        frame.extend(rest);
        frame
    }

    fn ipv4(protocol: u8, words: u8, fragment: u16) -> Vec<u8> {
        let mut packet = vec![0; usize::from(words) * 4 + 20];
        packet[0] = 0x40 | words;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet
    }

    #[test]
    fn udp_and_tcp_are_found_behind_tags_and_options() {
        let udp = frame(&[], 0x0800, &ipv4(17, 5, 0x4000));
        assert_eq!(
            place(&udp),
            Some(Place {
                start: 34,
                offset: 6
            })
        );
        let tcp = frame(&[0x88a8, 0x8100], 0x0800, &ipv4(6, 7, 0));
        assert_eq!(
            place(&tcp),
            Some(Place {
                start: 14 + 8 + 28,
                offset: 16
            })
        );
    }

    #[test]
    fn ipv6_extension_headers_are_stepped_over() {
        let mut packet = vec![0; 40 + 8 + 24 + 20];
        packet[0] = 0x60;
        packet[6] = 0;
        (packet[40], packet[41]) = (60, 0);
        (packet[48], packet[49]) = (17, 2);
        let frame = frame(&[], 0x86dd, &packet);
        assert_eq!(
            place(&frame),
            Some(Place {
                start: 14 + 72,
                offset: 6
            })
        );
    }

    #[test]
    fn fragments_other_protocols_and_stumps_have_none() {
        assert_eq!(place(&frame(&[], 0x0800, &ipv4(17, 5, 5))), None);
        assert_eq!(place(&frame(&[], 0x0800, &ipv4(1, 5, 0))), None);
        assert_eq!(place(&frame(&[], 0x0806, &[0; 28])), None);
        let udp = frame(&[], 0x0800, &ipv4(17, 5, 0));
        assert_eq!(place(&udp[..41]), None, "the field is cut off");
        assert!(place(&udp[..42]).is_some());
    }

    proptest! {
        #[test]
        fn a_place_is_always_inside_the_frame(
            kind in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8100]),
            rest in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let frame = frame(&[], kind, &rest);
            if let Some(place) = place(&frame) {
                prop_assert!(usize::from(place.start + place.offset) + 2 <= frame.len());
            }
        }
    }
}
