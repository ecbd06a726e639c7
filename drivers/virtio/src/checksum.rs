//! Where a sent frame's TCP or UDP checksum is, so that the device can complete it.

/// Where summing starts in the frame, and where from there the sum goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// First byte of the TCP or UDP header.
    pub(crate) start: u16,
    /// The checksum field, from there.
    pub(crate) offset: u16,
}

/// Finds the outermost TCP or UDP header of an Ethernet frame behind any VLAN tags and IPv6
/// extension headers. None if there is none, or if it is cut off, or in a fragment that is not
/// the first.
pub(crate) fn place(frame: &[u8]) -> Option<Place> {
    const IPV4: u16 = 0x0800;
    const IPV6: u16 = 0x86dd;
    const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
    let mut at = 12;
    let mut kind = half(frame, at)?;
    while TAGS.contains(&kind) {
        at += 4;
        kind = half(frame, at)?;
    }
    let (protocol, start) = match kind {
        IPV4 => ipv4(frame, at + 2)?,
        IPV6 => ipv6(frame, at + 2)?,
        _ => return None,
    };
    let offset = match protocol {
        6 => 16,
        17 => 6,
        _ => return None,
    };
    // The field itself must be in the frame.
    half(frame, start + offset)?;
    Some(Place {
        start: u16::try_from(start).ok()?,
        offset: u16::try_from(offset).ok()?,
    })
}

/// Protocol and place of what an IPv4 header at `at` carries (RFC 791).
fn ipv4(frame: &[u8], at: usize) -> Option<(u8, usize)> {
    let words = usize::from(*frame.get(at)? & 0xf);
    let fragment = half(frame, at + 6)? & 0x1fff;
    let whole = words >= 5 && fragment == 0;
    whole.then_some((*frame.get(at + 9)?, at + words * 4))
}

/// Protocol and place of what an IPv6 header at `at` carries (RFC 8200), behind extension headers.
fn ipv6(frame: &[u8], at: usize) -> Option<(u8, usize)> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let mut next = *frame.get(at + 6)?;
    let mut place = at + 40;
    loop {
        let len = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => usize::from(*frame.get(place + 1)?) * 8 + 8,
            FRAGMENT if half(frame, place + 2)? >> 3 == 0 => 8,
            _ => return Some((next, place)),
        };
        next = *frame.get(place)?;
        place += len;
    }
}

/// Two bytes in network order.
fn half(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
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
