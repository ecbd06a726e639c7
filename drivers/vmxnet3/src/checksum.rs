//! Where a frame that is sent has its TCP or UDP checksum: the device must be told.

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

/// Finds the TCP or UDP header of an Ethernet frame: behind VLAN tags, an IPv4 header with its
/// options, or an IPv6 header with its extensions. None if it has none, as later fragments, or it
/// lies too far behind.
pub(crate) fn place(frame: &[u8]) -> Option<Place> {
    let mut at = 12;
    while matches!(half(frame, at)?, 0x8100 | 0x88a8 | 0x9100) {
        at += 4;
    }
    let (protocol, header) = match half(frame, at)? {
        0x0800 => behind_ipv4(frame, at + 2)?,
        0x86dd => behind_ipv6(frame, at + 2)?,
        _ => return None,
    };
    let field = header
        + match protocol {
            6 => 16,
            17 => 6,
            _ => return None,
        };
    half(frame, field)?;
    let (header, field) = (header as u64, field as u64);
    (header < FAR && field < FAR).then_some(Place { header, field })
}

fn behind_ipv4(frame: &[u8], at: usize) -> Option<(u8, usize)> {
    let len = usize::from(*frame.get(at)? & 15) * 4;
    let is_first = half(frame, at + 6)? & 0x1fff == 0;
    (is_first && len >= 20).then_some((*frame.get(at + 9)?, at + len))
}

fn behind_ipv6(frame: &[u8], at: usize) -> Option<(u8, usize)> {
    let (mut kind, mut next) = (*frame.get(at + 6)?, at + 40);
    loop {
        let len = match kind {
            // Hop-by-hop, routing, destination options (RFC 8200 §4).
            0 | 43 | 60 => usize::from(*frame.get(next + 1)?) * 8 + 8,
            // A fragment's header; only the first fragment has what follows.
            44 if half(frame, next + 2)? >> 3 == 0 => 8,
            _ => return Some((kind, next)),
        };
        kind = *frame.get(next)?;
        next += len;
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
