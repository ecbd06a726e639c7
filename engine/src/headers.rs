//! Where the headers of a frame are, and what is in them, for code that reads and changes frames in
//! passing.
//!
//! Layouts: Ethernet IEEE 802.3 §3.1.1, VLAN tags IEEE 802.1Q §9.3, IPv4 RFC 791 §3.1, IPv6 RFC 8200
//! §3.

use port::Mac;

pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
/// Tags: customer, service, and the pre-standard one that stacks use.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// More fragments, and the offset: a fragment, if any is set.
const FRAGMENT: u16 = 0x3fff;
/// The offset alone: not the first fragment.
const OFFSET: u16 = 0x1fff;

/// Sets both MAC addresses.
#[inline]
pub(crate) fn set_macs(frame: &mut [u8], dst: Mac, src: Mac) {
    if let Some(macs) = frame.first_chunk_mut::<12>() {
        macs[..6].copy_from_slice(&dst);
        macs[6..].copy_from_slice(&src);
    }
}

/// What matters of an IPv4 header.
pub(crate) struct Ipv4 {
    pub(crate) protocol: u8,
    /// Nonzero for a fragment.
    pub(crate) fragment: u16,
    /// Nonzero for one that is not the first.
    pub(crate) offset: u16,
    /// Where the header ends.
    pub(crate) end: usize,
}

/// The IPv4 header at `at`, if there is one.
pub(crate) fn ipv4(frame: &[u8], at: usize) -> Option<Ipv4> {
    let header = frame.get(at..)?.first_chunk::<20>()?;
    let words = usize::from(header[0] & 0xf);
    if header[0] >> 4 != 4 || words < 5 {
        return None;
    }
    let place = u16::from_be_bytes([header[6], header[7]]);
    Some(Ipv4 {
        protocol: header[9],
        fragment: place & FRAGMENT,
        offset: place & OFFSET,
        end: at + words * 4,
    })
}

/// The EtherType behind up to two tags, and where what it announces begins.
#[inline]
pub(crate) fn ethertype(frame: &[u8]) -> Option<(u16, usize)> {
    let kind = |at: usize| {
        let bytes = frame.get(at..)?.first_chunk::<2>()?;
        Some(u16::from_be_bytes(*bytes))
    };
    let mut at = 12;
    while at < 20 && TAGS.contains(&kind(at)?) {
        at += 4;
    }
    Some((kind(at)?, at + 2))
}

/// What the tags before the EtherType say (priority and VLAN): up to two, outermost first.
pub(crate) fn tags(frame: &[u8]) -> impl Iterator<Item = u16> {
    let tags = frame.get(12..).unwrap_or_default().chunks_exact(4).take(2);
    tags.map_while(|tag| {
        let halves = [[tag[0], tag[1]], [tag[2], tag[3]]].map(u16::from_be_bytes);
        TAGS.contains(&halves[0]).then_some(halves[1])
    })
}

/// Two neighbours of `len` bytes from `at` on change places, if they are there.
#[inline]
pub(crate) fn swap(frame: &mut [u8], at: usize, len: usize) {
    if let Some(pair) = frame.get_mut(at..at + 2 * len) {
        let (one, other) = pair.split_at_mut(len);
        one.swap_with_slice(other);
    }
}
