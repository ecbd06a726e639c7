//! The Internet checksum (RFC 1071) over frames.

use crate::field::Fix;

/// Where an IPv4 header's checksum is in it.
pub(crate) const IPV4_AT: usize = 10;
/// Bytes of an IPv6 header.
const IPV6_LEN: usize = 40;

/// The sum of big-endian 16-bit words, an odd last byte padded with zero; not folded. Good for
/// any frame: it would take 2^32 words of 0xffff to overflow.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let mut fours = bytes.chunks_exact(4);
    let mut total = 0;
    for four in &mut fours {
        let word = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
        total += u64::from(word);
    }
    total
        + match *fours.remainder() {
            [a] => u64::from(a) << 8,
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            [a, b, c] => u64::from(u16::from_be_bytes([a, b])) + (u64::from(c) << 8),
            _ => 0,
        }
}

/// The checksum of what sums to `total`: folded to 16 bits and inverted.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "three folds leave 16 bits")]
pub(crate) fn finish(total: u64) -> u16 {
    // 2^64 folds to at most 2^33, that to 2^17, that to 2^16 with the carry added in.
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16 & 0xffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    let total = (total & 0xffff) + (total >> 16);
    !(total as u16)
}

/// What a [`Fix`] covers in a certain frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Covered {
    /// First byte that is summed.
    pub(crate) first: usize,
    /// After the last byte that is summed.
    pub(crate) end: usize,
    /// Where the checksum goes.
    pub(crate) checksum: usize,
    /// Address bytes of the pseudo-header, if it has one: first, and after the last.
    pub(crate) addresses: Option<(usize, usize)>,
    /// The rest of the pseudo-header, summed: protocol and length.
    pub(crate) pseudo: u64,
    /// Whether 0 is sent as 0xffff.
    pub(crate) never_zero: bool,
}

impl Covered {
    /// What `fix` covers in `bytes`, by the lengths that are written there; none if the headers
    /// are not inside the frame.
    #[inline]
    pub(crate) fn find(bytes: &[u8], fix: &Fix) -> Option<Self> {
        let (ip, at, protocol, checksum) = match *fix {
            Fix::Ipv4 { at } => {
                let len = usize::from(bytes.get(at)? & 0x0f) * 4;
                return Some(Self {
                    first: at,
                    end: inside(bytes, at + len, at + IPV4_AT + 2)?,
                    checksum: at + IPV4_AT,
                    addresses: None,
                    pseudo: 0,
                    never_zero: false,
                });
            }
            Fix::Udp { ip, at } => (ip, at, 17, at + 6),
            Fix::Tcp { ip, at } => (ip, at, 6, at + 16),
            Fix::Icmp { ip, at } => (ip, at, 1, at + 2),
            Fix::Icmp6 { ip, at } => (ip, at, 58, at + 2),
        };
        let word = |at: usize| {
            let word = bytes.get(at..at + 2)?;
            Some(usize::from(u16::from_be_bytes([word[0], word[1]])))
        };
        let four = bytes.get(ip)? >> 4 == 4;
        let (end, addresses) = match four {
            true => (ip + word(ip + 2)?, (ip + 12, ip + 20)),
            false => (ip + IPV6_LEN + word(ip + 4)?, (ip + 8, ip + 40)),
        };
        let end = inside(bytes, end, checksum + 2)?;
        let pseudo = (end - at) as u64 + protocol;
        // ICMP over IPv4 has no pseudo-header.
        let plain = protocol == 1;
        Some(Self {
            first: at,
            end,
            checksum,
            addresses: (!plain).then_some(addresses),
            pseudo: if plain { 0 } else { pseudo },
            never_zero: protocol == 17,
        })
    }

    /// The sum of all that is covered, the checksum itself taken as zero.
    #[inline]
    pub(crate) fn sum(&self, bytes: &[u8]) -> u64 {
        // It lies on a word's boundary, so what is before and after it can be summed apart.
        let around =
            sum(&bytes[self.first..self.checksum]) + sum(&bytes[self.checksum + 2..self.end]);
        let addresses = self
            .addresses
            .map_or(0, |(first, end)| sum(&bytes[first..end]));
        around + addresses + self.pseudo
    }

    /// The checksum of what sums to `total`.
    #[inline]
    pub(crate) fn finish(&self, total: u64) -> u16 {
        match finish(total) {
            0 if self.never_zero => 0xffff,
            checksum => checksum,
        }
    }
}

/// `end`, clipped to the frame, if it leaves `least` bytes.
fn inside(bytes: &[u8], end: usize, least: usize) -> Option<usize> {
    let end = end.min(bytes.len());
    (end >= least).then_some(end)
}

/// Computes a checksum from all the bytes that it covers, and writes it. A header that is not
/// inside the frame is left alone.
#[inline]
pub(crate) fn write_full(bytes: &mut [u8], fix: &Fix) {
    if let Some(covered) = Covered::find(bytes, fix) {
        let checksum = covered.finish(covered.sum(bytes));
        bytes[covered.checksum..covered.checksum + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}
