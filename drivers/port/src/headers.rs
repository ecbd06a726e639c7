//! Where a frame's headers are: what a driver has to tell a device that is asked to fill checksums
//! in (`TxFlags::IPV4_CHECKSUM`, `TxFlags::L4_CHECKSUM`).

/// The outermost IP header of a frame, and what follows it. Places are in bytes from the frame's
/// first.
///
/// ```
/// use port::Headers;
///
/// let mut frame = [0; 60];
/// frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
/// frame[23] = 17;
/// let found = Headers::find(&frame).unwrap();
/// assert_eq!((found.ip, found.l4, found.l4_sum), (14, 34, Some(6)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// First byte of the IP header.
    pub ip: u16,
    /// First byte behind it, extension headers of IPv6 included.
    pub l4: u16,
    /// IPv4, not IPv6.
    pub is_ipv4: bool,
    /// TCP, not UDP.
    pub is_tcp: bool,
    /// Where from `l4` the TCP or UDP checksum goes; none for any other protocol, for a fragment
    /// that is not the first, and where the header is cut off.
    pub l4_sum: Option<u16>,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TCP: u8 = 6;
const UDP: u8 = 17;

impl Headers {
    /// The headers of an Ethernet frame, behind any VLAN tags. None if it is no IP packet, or the
    /// headers are cut off. Whether a device can be told of places so far behind is its driver's
    /// to know.
    #[must_use]
    pub fn find(frame: &[u8]) -> Option<Self> {
        let mut at = 12;
        let mut kind = half(frame, at)?;
        while TAGS.contains(&kind) {
            at += 4;
            kind = half(frame, at)?;
        }
        let ip = at + 2;
        let (protocol, l4, whole) = match kind {
            IPV4 => ipv4(frame, ip)?,
            IPV6 => ipv6(frame, ip)?,
            _ => return None,
        };
        let sum = match protocol {
            TCP => Some(16),
            UDP => Some(6),
            _ => None,
        };
        let sum = sum.filter(|&sum| whole && half(frame, l4 + sum).is_some());
        Some(Self {
            ip: u16::try_from(ip).ok()?,
            l4: u16::try_from(l4).ok()?,
            is_ipv4: kind == IPV4,
            is_tcp: protocol == TCP,
            l4_sum: sum.and_then(|sum| u16::try_from(sum).ok()),
        })
    }

    /// Where the IPv4 header checksum is.
    #[must_use]
    pub fn ipv4_sum(&self) -> usize {
        usize::from(self.ip) + 10
    }
}

/// Protocol, end of the header, and whether it is no later fragment (RFC 791).
fn ipv4(frame: &[u8], at: usize) -> Option<(u8, usize, bool)> {
    let words = usize::from(*frame.get(at)? & 0xf);
    let end = at + words * 4;
    let whole = half(frame, at + 6)? & 0x1fff == 0;
    (words >= 5 && end <= frame.len()).then_some((*frame.get(at + 9)?, end, whole))
}

/// The same behind extension headers (RFC 8200).
fn ipv6(frame: &[u8], at: usize) -> Option<(u8, usize, bool)> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let mut next = *frame.get(at + 6)?;
    let mut place = at + 40;
    if place > frame.len() {
        return None;
    }
    loop {
        let len = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => usize::from(*frame.get(place + 1)?) * 8 + 8,
            FRAGMENT if half(frame, place + 2)? >> 3 == 0 => 8,
            FRAGMENT => return (place <= frame.len()).then_some((next, place, false)),
            // An extension may say that it is longer than the frame.
            _ => return (place <= frame.len()).then_some((next, place, true)),
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

    fn packet(protocol: u8, words: u8, fragment: u16) -> Vec<u8> {
        let mut packet = vec![0; usize::from(words) * 4 + 20];
        packet[0] = 0x40 | words;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet
    }

    #[test]
    fn udp_and_tcp_are_found_behind_tags_and_options() {
        let udp = Headers::find(&frame(&[], 0x0800, &packet(17, 5, 0x4000))).unwrap();
        let place = (udp.ip, udp.l4, udp.l4_sum, udp.is_tcp, udp.is_ipv4);
        assert_eq!(place, (14, 34, Some(6), false, true));
        let tcp = frame(&[0x88a8, 0x8100], 0x0800, &packet(6, 7, 0));
        let tcp = Headers::find(&tcp).unwrap();
        let place = (tcp.ip, tcp.l4, tcp.l4_sum, tcp.is_tcp);
        assert_eq!(place, (22, 50, Some(16), true));
    }

    #[test]
    fn a_later_fragment_has_an_ip_header_and_no_udp_checksum() {
        let found = Headers::find(&frame(&[], 0x0800, &packet(17, 5, 7))).unwrap();
        assert_eq!((found.ip, found.l4_sum), (14, None));
    }

    #[test]
    fn ipv6_extension_headers_are_stepped_over() {
        let mut packet = vec![0; 40 + 8 + 20];
        (packet[0], packet[6], packet[40]) = (0x60, 0, 17);
        let found = Headers::find(&frame(&[], 0x86dd, &packet)).unwrap();
        assert_eq!(
            (found.l4, found.l4_sum, found.is_ipv4),
            (62, Some(6), false)
        );
    }

    proptest! {
        #[test]
        fn what_is_found_lies_inside_the_frame(
            kind in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8100]),
            rest in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let frame = frame(&[], kind, &rest);
            if let Some(found) = Headers::find(&frame) {
                prop_assert!(found.ip < found.l4 && usize::from(found.l4) <= frame.len());
                if let Some(sum) = found.l4_sum {
                    prop_assert!(usize::from(found.l4 + sum) + 2 <= frame.len());
                }
                if found.is_ipv4 {
                    prop_assert!(found.ipv4_sum() + 2 <= frame.len());
                }
            }
        }
    }
}
