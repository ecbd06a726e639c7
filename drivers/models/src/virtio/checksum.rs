//! Internet checksums (RFC 1071), as a NIC computes them.

/// Ones'-complement sum of `bytes` as 16-bit words, an odd last byte padded with zero.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let odd = words
        .remainder()
        .first()
        .map_or(0, |&byte| u64::from(byte) << 8);
    words.fold(odd, |sum, word| {
        sum + u64::from(u16::from_be_bytes([word[0], word[1]]))
    })
}

pub(crate) fn fold(sum: u64) -> u16 {
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded into 16 bits")
}

/// Completes the checksum that covers `frame` from `start` on, at `offset` behind `start`, where
/// the sum of the pseudo-header already is. False if the places are not inside the frame.
pub(crate) fn complete(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = frame.get_mut(start..) else {
        return false;
    };
    if offset + 2 > covered.len() {
        return false;
    }
    let checksum = match !fold(sum(covered)) {
        // Zero would say "none" in UDP (RFC 768); the other zero means the same elsewhere.
        0 => 0xffff,
        checksum => checksum,
    };
    covered[offset..offset + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Whether the TCP or UDP checksum of `frame` is right. None where there is none to check: other
/// protocols, fragments, UDP without a checksum, what is cut short.
pub(super) fn is_good(frame: &[u8]) -> Option<bool> {
    const VLAN: [u8; 2] = [0x81, 0];
    const QINQ: [u8; 2] = [0x88, 0xa8];
    let mut at = 12;
    loop {
        let kind = *frame.get(at..)?.first_chunk::<2>()?;
        at += 2;
        match kind {
            VLAN | QINQ => at += 2,
            [0x08, 0x00] => return ipv4(frame.get(at..)?),
            [0x86, 0xdd] => return ipv6(frame.get(at..)?),
            _ => return None,
        }
    }
}

fn ipv4(packet: &[u8]) -> Option<bool> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes(*packet.get(2..)?.first_chunk()?));
    let fragment = u16::from_be_bytes(*packet.get(6..)?.first_chunk()?) & 0x3fff;
    let protocol = *packet.get(9)?;
    if fragment != 0 {
        return None;
    }
    transport(protocol, packet.get(12..20)?, packet.get(header..total)?)
}

fn ipv6(packet: &[u8]) -> Option<bool> {
    const HEADER: usize = 40;
    let payload = usize::from(u16::from_be_bytes(*packet.get(4..)?.first_chunk()?));
    let protocol = *packet.get(6)?;
    let segment = packet.get(HEADER..HEADER + payload)?;
    transport(protocol, packet.get(8..HEADER)?, segment)
}

fn transport(protocol: u8, addresses: &[u8], segment: &[u8]) -> Option<bool> {
    let field = match protocol {
        6 => 16,
        17 => 6,
        _ => return None,
    };
    let written = segment.get(field..field + 2)?;
    if protocol == 17 && written == [0, 0] {
        return None;
    }
    let pseudo = sum(addresses) + u64::from(protocol) + segment.len() as u64;
    Some(fold(pseudo + sum(segment)) == 0xffff)
}

#[cfg(test)]
mod test {
    use super::*;

    /// An IPv4 UDP frame with the pseudo-header's sum where the checksum goes.
    fn udp(payload: &[u8]) -> Vec<u8> {
        let len = u16::try_from(8 + payload.len()).unwrap();
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 16, 0, 0, 1, 48, 0, 0, 1]);
        frame.extend([4, 1, 0, 12]);
        frame.extend(len.to_be_bytes());
        let pseudo = fold(0x1000 + 1 + 0x3000 + 1 + 17 + u64::from(len));
        frame.extend(pseudo.to_be_bytes());
        frame.extend(payload);
        frame
    }

    #[test]
    fn a_completed_checksum_is_good_and_a_turned_bit_makes_it_bad() {
        for payload in [&b""[..], b"a", b"some odd payload.", &[0xff; 1000]] {
            let mut frame = udp(payload);
            assert_eq!(is_good(&frame), Some(false));
            assert!(complete(&mut frame, 34, 6));
            assert_eq!(is_good(&frame), Some(true));
            frame[35] ^= 4;
            assert_eq!(is_good(&frame), Some(false));
        }
    }

    #[test]
    fn a_checksum_of_zero_is_written_as_the_other_zero() {
        let mut frame = vec![0xff, 0xff, 0, 0];
        assert!(complete(&mut frame, 0, 2));
        assert_eq!(frame, [0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn places_outside_the_frame_are_refused() {
        assert!(!complete(&mut [0; 20], 21, 0));
        assert!(!complete(&mut [0; 20], 10, 9));
        assert!(complete(&mut [0; 20], 10, 8));
    }
}
