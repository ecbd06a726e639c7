//! What a frame is, as the device's parser sees it: one VLAN tag, IPv4 or IPv6, TCP or UDP; and
//! the checksums of those (RFC 1071).

/// A parsed frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Packet<'a> {
    /// The tag behind the addresses: priority and id.
    pub(crate) vlan: Option<u16>,
    pub(crate) ip: Option<Ip<'a>>,
}

/// An IP packet in a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ip<'a> {
    pub(crate) v6: bool,
    /// Whether the header's own checksum is right; IPv6 has none.
    pub(crate) header_good: Option<bool>,
    pub(crate) id: u16,
    /// Source and destination.
    pub(crate) addresses: &'a [u8],
    /// Bytes of its own header.
    pub(crate) header: usize,
    /// TCP or UDP, whole or at least its first fragment's ports.
    pub(crate) transport: Option<Transport<'a>>,
}

/// A TCP or UDP segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transport<'a> {
    pub(crate) tcp: bool,
    pub(crate) ports: &'a [u8],
    /// Bytes of its header.
    pub(crate) header: usize,
    /// Whether its checksum is right; none where there is none to check.
    pub(crate) good: Option<bool>,
}

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

/// Folds a sum into 16 bits.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("folded into 16 bits")
}

/// Inserts the checksum over `frame[start..end]` at `at`. What stands there already is part of
/// the sum: the pseudo-header's, or zero. False if the places are not inside.
pub(crate) fn insert(frame: &mut [u8], start: usize, end: usize, at: usize) -> bool {
    let Some(covered) = frame.get(start..end) else {
        return false;
    };
    let checksum = match !fold(sum(covered)) {
        // Zero would say "none" in UDP (RFC 768); the other zero means the same elsewhere.
        0 => 0xffff,
        checksum => checksum,
    };
    let Some(field) = frame.get_mut(at..at + 2) else {
        return false;
    };
    field.copy_from_slice(&checksum.to_be_bytes());
    true
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> Packet<'a> {
    /// Parses `frame`, in which `vlan_type` marks a tag.
    #[inline]
    pub(crate) fn parse(frame: &'a [u8], vlan_type: u16) -> Self {
        let Some(mut kind) = word(frame, 12) else {
            return Self::default();
        };
        let (mut at, mut vlan) = (14, None);
        if kind == vlan_type {
            vlan = word(frame, 14);
            kind = word(frame, 16).unwrap_or(0);
            at = 18;
        }
        let packet = frame.get(at..).unwrap_or_default();
        let ip = match kind {
            0x0800 => ipv4(packet),
            0x86dd => ipv6(packet),
            _ => None,
        };
        Self { vlan, ip }
    }

    /// Bytes of the frame up to the end of the headers that the device knows; 0 without IP.
    pub(super) fn headers(&self) -> u32 {
        let Some(ip) = self.ip else { return 0 };
        let link = if self.vlan.is_some() { 18 } else { 14 };
        let transport = ip.transport.map_or(0, |transport| transport.header);
        u32::try_from(link + ip.header + transport).unwrap_or(0)
    }
}

fn ipv4(packet: &[u8]) -> Option<Ip<'_>> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let total = usize::from(word(packet, 2)?);
    let fragment = word(packet, 6)?;
    let addresses = packet.get(12..20)?;
    let header_good = (header >= 20)
        .then(|| packet.get(..header))
        .flatten()
        .map(|bytes| fold(sum(bytes)) == 0xffff);
    // Only what is no fragment has a checksum that can be looked at.
    let segment = packet.get(header..total).filter(|_| fragment & 0x3fff == 0);
    let transport = segment.and_then(|segment| transport(*packet.get(9)?, addresses, segment));
    Some(Ip {
        v6: false,
        header_good,
        id: word(packet, 4)?,
        addresses,
        header,
        transport,
    })
}

fn ipv6(packet: &[u8]) -> Option<Ip<'_>> {
    const HEADER: usize = 40;
    let payload = usize::from(word(packet, 4)?);
    let addresses = packet.get(8..HEADER)?;
    let segment = packet.get(HEADER..HEADER + payload);
    let transport = segment.and_then(|segment| transport(*packet.get(6)?, addresses, segment));
    Some(Ip {
        v6: true,
        header_good: None,
        id: 0,
        addresses,
        header: HEADER,
        transport,
    })
}

fn transport<'a>(protocol: u8, addresses: &[u8], segment: &'a [u8]) -> Option<Transport<'a>> {
    let (tcp, field) = match protocol {
        6 => (true, 16),
        17 => (false, 6),
        _ => return None,
    };
    let ports = segment.get(..4)?;
    let written = segment.get(field..field + 2)?;
    let none = !tcp && written == [0, 0];
    let good = (!none).then(|| {
        let pseudo = sum(addresses) + u64::from(protocol) + segment.len() as u64;
        fold(pseudo + sum(segment)) == 0xffff
    });
    let header = if tcp {
        usize::from(segment.get(12)? >> 4) * 4
    } else {
        8
    };
    Some(Transport {
        tcp,
        ports,
        header,
        good,
    })
}

/// The FCS of `frame` (IEEE 802.3 §3.2.9), as it follows on the wire and in memory.
pub(crate) fn fcs(frame: &[u8]) -> [u8; 4] {
    let crc = frame.iter().fold(u32::MAX, |crc, &byte| {
        let [low, ..] = crc.to_le_bytes();
        crc >> 8 ^ CRC[usize::from(low ^ byte)]
    });
    (!crc).to_le_bytes()
}

static CRC: [u32; 256] = crc_table();

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    let mut seed = 0u32;
    while n < 256 {
        let mut crc = seed;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
        seed += 1;
    }
    table
}

#[cfg(test)]
mod test {
    use super::*;

    /// A tagged IPv4 frame with a UDP datagram, its checksums right.
    fn udp() -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x81, 0, 0x60, 7, 8, 0]);
        frame.extend([0x45, 0, 0, 31, 1, 2, 0, 0, 64, 17, 0, 0]);
        frame.extend([16, 0, 0, 1, 48, 0, 0, 1]);
        frame.extend([4, 1, 0, 12, 0, 11, 0, 0, b'a', b'b', b'c']);
        assert!(insert(&mut frame, 18, 38, 28));
        let pseudo = fold(sum(&frame[30..38]) + 17 + 11);
        frame[44..46].copy_from_slice(&pseudo.to_be_bytes());
        assert!(insert(&mut frame, 38, 49, 44));
        frame.resize(60, 0xee);
        frame
    }

    #[test]
    fn a_tag_an_address_and_the_verdicts_are_found() {
        let mut frame = udp();
        let packet = Packet::parse(&frame, 0x8100);
        assert_eq!(packet.vlan, Some(0x6007));
        let ip = packet.ip.unwrap();
        assert_eq!((ip.v6, ip.header_good, ip.id), (false, Some(true), 0x102));
        let udp = ip.transport.unwrap();
        assert_eq!((udp.tcp, udp.good), (false, Some(true)));
        assert_eq!(udp.ports, [4, 1, 0, 12]);
        frame[48] ^= 1;
        frame[20] ^= 1;
        let ip = Packet::parse(&frame, 0x8100).ip.unwrap();
        assert_eq!(ip.header_good, Some(false));
        assert_eq!(Packet::parse(&frame, 0x88a8).vlan, None);
    }

    #[test]
    fn the_fcs_is_that_of_the_standard() {
        assert_eq!(fcs(b"123456789"), 0xcbf4_3926_u32.to_le_bytes());
    }
}
