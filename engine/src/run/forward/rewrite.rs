//! What forwarding does to a frame's bytes.
//!
//! Layouts: Ethernet IEEE 802.3 §3.1.1, VLAN tags IEEE 802.1Q §9.3, ARP RFC 826, IPv4 RFC 791
//! §3.1, IPv6 RFC 8200 §3, ICMP echo RFC 792. A frame that is too short for what its headers say
//! is left as it is.

use port::Mac;

const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Tags: customer, service, and the pre-standard one that stacks use.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Protocols with ports in their first four bytes: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// More fragments, and the offset: a fragment, if any is set.
const FRAGMENT: u16 = 0x3fff;
/// The offset alone: not the first fragment.
const OFFSET: u16 = 0x1fff;

/// Sets both MAC addresses.
#[inline]
pub(super) fn set_macs(frame: &mut [u8], dst: Mac, src: Mac) {
    if let Some(macs) = frame.first_chunk_mut::<12>() {
        macs[..6].copy_from_slice(&dst);
        macs[6..].copy_from_slice(&src);
    }
}

/// Source and destination MAC address change places.
#[inline]
pub(super) fn swap_macs(frame: &mut [u8]) {
    if let Some(macs) = frame.first_chunk_mut::<12>() {
        let (dst, src) = macs.split_at_mut(6);
        dst.swap_with_slice(src);
    }
}

/// Source and destination change places on every layer that there is.
#[inline]
pub(super) fn swap_all(frame: &mut [u8]) {
    swap_macs(frame);
    let Some((kind, at)) = ethertype(frame) else {
        return;
    };
    let ports = match kind {
        IPV4 => {
            let header = ipv4(frame, at);
            swap(frame, at + 12, 4);
            header
                .filter(|header| header.offset == 0)
                .map(|header| (header.protocol, header.end))
        }
        IPV6 => {
            swap(frame, at + 8, 16);
            frame.get(at + 6).map(|&next| (next, at + 40))
        }
        _ => None,
    };
    if let Some((protocol, at)) = ports
        && WITH_PORTS.contains(&protocol)
    {
        swap(frame, at, 2);
    }
}

/// Turns an ARP request or an ICMP echo request for `own` (for anybody, if none) into its answer
/// from `mac`. False, and nothing changed, if it is something else.
pub(super) fn answer(frame: &mut [u8], mac: Mac, own: Option<[u8; 4]>) -> bool {
    match ethertype(frame) {
        Some((ARP, at)) => answer_arp(frame, at, mac, own),
        Some((IPV4, at)) => answer_echo(frame, at, mac, own),
        _ => false,
    }
}

fn answer_arp(frame: &mut [u8], at: usize, mac: Mac, own: Option<[u8; 4]>) -> bool {
    // Ethernet, IPv4, addresses of 6 and 4 bytes, a request.
    const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
    let Some(arp) = frame.get(at..).and_then(|arp| arp.first_chunk::<28>()) else {
        return false;
    };
    let (sender, target) = (&arp[8..18], &arp[24..28]);
    let probe = sender[6..] == *target;
    if arp[..8] != REQUEST || own.is_some_and(|own| own != *target) || probe {
        return false;
    }
    let mut reply = [0; 28];
    reply[..8].copy_from_slice(&REQUEST);
    reply[7] = 2;
    reply[8..14].copy_from_slice(&mac);
    reply[14..18].copy_from_slice(target);
    reply[18..].copy_from_slice(sender);
    frame[at..at + 28].copy_from_slice(&reply);
    let mut asker = [0; 6];
    asker.copy_from_slice(&reply[18..24]);
    set_macs(frame, asker, mac);
    true
}

fn answer_echo(frame: &mut [u8], at: usize, mac: Mac, own: Option<[u8; 4]>) -> bool {
    let Some(header) = ipv4(frame, at) else {
        return false;
    };
    let whole = header.fragment == 0 && header.protocol == 1;
    let asked = own.is_none_or(|own| frame[at + 16..at + 20] == own);
    let unicast = frame[at + 16] < 224;
    let Some(icmp) = frame
        .get_mut(header.end..)
        .and_then(|icmp| icmp.first_chunk_mut::<8>())
    else {
        return false;
    };
    if !(whole && asked && unicast && icmp[0] == 8 && icmp[1] == 0) {
        return false;
    }
    icmp[0] = 0;
    // The type went from 8 to 0, so the sum lost 0x0800 and its complement gains it (RFC 1624).
    let sum = u32::from(u16::from_be_bytes([icmp[2], icmp[3]])) + 0x0800;
    let folded = (sum & 0xffff) + (sum >> 16);
    icmp[2..4].copy_from_slice(&folded.to_be_bytes()[2..]);
    swap(frame, at + 12, 4);
    let mut asker = [0; 6];
    asker.copy_from_slice(&frame[6..12]);
    set_macs(frame, asker, mac);
    true
}

/// What matters of an IPv4 header.
struct Ipv4 {
    protocol: u8,
    /// Nonzero for a fragment.
    fragment: u16,
    /// Nonzero for one that is not the first.
    offset: u16,
    /// Where the header ends.
    end: usize,
}

fn ipv4(frame: &[u8], at: usize) -> Option<Ipv4> {
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
fn ethertype(frame: &[u8]) -> Option<(u16, usize)> {
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

/// Two neighbours of `len` bytes from `at` on change places, if they are there.
#[inline]
fn swap(frame: &mut [u8], at: usize, len: usize) {
    if let Some(pair) = frame.get_mut(at..at + 2 * len) {
        let (one, other) = pair.split_at_mut(len);
        one.swap_with_slice(other);
    }
}
