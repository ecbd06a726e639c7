//! Questions turned into their answers, in the frame that they came in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hugemem::Frame;
use port::Mac;

use super::{Addresses, Vlans};
use crate::headers::{ARP, IPV4, IPV6, ethertype, ipv4, set_macs, swap};

/// IP's number of ICMP.
const ICMP: u8 = 1;
/// IP's number of ICMPv6.
pub(super) const ICMP6: u8 = 58;
/// Bytes of an IPv6 header.
pub(super) const IPV6_HEADER: usize = 40;
/// Bytes of a neighbour solicitation or advertisement without options (RFC 4861 §4.3, §4.4).
pub(super) const NEIGHBOUR: usize = 24;
/// Bytes of the option that names a station (RFC 4861 §4.6.1).
pub(super) const STATION: usize = 8;
/// Solicitations and advertisements that crossed a router have less (RFC 4861 §7.1).
pub(super) const HOPS: u8 = 255;

/// True for a frame that may ask something that [`answer`] answers. Looks at little: for a path that
/// every frame goes.
#[inline]
pub(crate) fn is_question(frame: &[u8]) -> bool {
    match ethertype(frame) {
        Some((ARP, _)) => true,
        Some((IPV4, at)) => frame.get(at + 9) == Some(&ICMP),
        Some((IPV6, at)) => frame.get(at + 6) == Some(&ICMP6),
        _ => false,
    }
}

impl Addresses {
    /// Turns a question for one of them into its answer from `mac`, as [`answer`] does.
    pub(crate) fn answer(&self, frame: &mut Frame, mac: Mac) -> bool {
        let vlans = Vlans::of(frame.bytes());
        answer(frame, mac, |address| self.contains(vlans, address))
    }
}

/// Turns a question for an address that `is_own` into its answer from `mac`. False, and nothing
/// changed, if it is something else.
pub(crate) fn answer(frame: &mut Frame, mac: Mac, is_own: impl Fn(IpAddr) -> bool) -> bool {
    match ethertype(frame.bytes()) {
        Some((ARP, at)) => answer_arp(frame.bytes_mut(), at, mac, is_own),
        Some((IPV4, at)) => answer_echo(frame.bytes_mut(), at, mac, is_own),
        Some((IPV6, at)) => answer_ipv6(frame, at, mac, is_own),
        _ => false,
    }
}

fn answer_arp(frame: &mut [u8], at: usize, mac: Mac, is_own: impl Fn(IpAddr) -> bool) -> bool {
    // Ethernet, IPv4, addresses of 6 and 4 bytes, a request.
    const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
    let Some(arp) = frame.get(at..).and_then(|arp| arp.first_chunk::<28>()) else {
        return false;
    };
    let (sender, target) = (&arp[8..18], &arp[24..28]);
    let announcement = sender[6..] == *target;
    let target_is_own = is_own(v4(target));
    if arp[..8] != REQUEST || !target_is_own || announcement {
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

fn v4(bytes: &[u8]) -> IpAddr {
    let mut octets = [0; 4];
    octets.copy_from_slice(bytes);
    Ipv4Addr::from(octets).into()
}

fn v6(bytes: &[u8]) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(bytes);
    octets.into()
}

fn answer_echo(frame: &mut [u8], at: usize, mac: Mac, is_own: impl Fn(IpAddr) -> bool) -> bool {
    let Some(header) = ipv4(frame, at) else {
        return false;
    };
    let whole = header.fragment == 0 && header.protocol == ICMP;
    let asked = is_own(v4(&frame[at + 16..at + 20]));
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
    add_to_checksum(&mut icmp[2..4], 0x0800);
    swap(frame, at + 12, 4);
    turn_back(frame, mac);
    true
}

/// Adds to the complement of a sum, as ones' complements are added.
fn add_to_checksum(field: &mut [u8], value: u32) {
    let sum = u32::from(u16::from_be_bytes([field[0], field[1]])) + value;
    let folded = (sum & 0xffff) + (sum >> 16);
    field.copy_from_slice(&folded.to_be_bytes()[2..]);
}

/// The frame goes to whoever sent it.
fn turn_back(frame: &mut [u8], mac: Mac) {
    let mut asker = [0; 6];
    asker.copy_from_slice(&frame[6..12]);
    set_macs(frame, asker, mac);
}

fn answer_ipv6(frame: &mut Frame, at: usize, mac: Mac, is_own: impl Fn(IpAddr) -> bool) -> bool {
    let bytes = frame.bytes();
    let icmp = at + IPV6_HEADER;
    let is_whole = bytes.len() >= icmp + 8 && bytes[at] >> 4 == 6 && bytes[at + 6] == ICMP6;
    if !is_whole {
        return false;
    }
    match (bytes[icmp], bytes[icmp + 1]) {
        (128, 0) if is_own(v6(&bytes[at + 24..at + 40]).into()) => {
            let bytes = frame.bytes_mut();
            bytes[icmp] = 129;
            // The type gained one, in the upper byte; addresses that change places do not count.
            add_to_checksum(&mut bytes[icmp + 2..icmp + 4], 0xfeff);
            swap(bytes, at + 8, 16);
            turn_back(bytes, mac);
            true
        }
        (135, 0) => advertise(frame, at, mac, is_own),
        _ => false,
    }
}

/// Turns a solicitation into the advertisement that answers it (RFC 4861 §7.2.4).
fn advertise(frame: &mut Frame, at: usize, mac: Mac, is_own: impl Fn(IpAddr) -> bool) -> bool {
    const SOLICITED_AND_OVERRIDE: u8 = 0x60;
    const OVERRIDE: u8 = 0x20;
    let bytes = frame.bytes();
    let icmp = at + IPV6_HEADER;
    let end = icmp + NEIGHBOUR + STATION;
    let whole = bytes.len() >= icmp + NEIGHBOUR && bytes[at + 7] == HOPS;
    if !whole || frame.capacity() < end {
        return false;
    }
    let target = v6(&bytes[icmp + 8..icmp + NEIGHBOUR]);
    let asker = v6(&bytes[at + 8..at + 24]);
    if !is_own(target.into()) || target.is_multicast() {
        return false;
    }
    // Whoever has no address yet asks whether this one is free: everybody is told that it is not.
    let (to, flags) = match asker.is_unspecified() {
        true => (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), OVERRIDE),
        false => (asker, SOLICITED_AND_OVERRIDE),
    };
    frame.set_len(end);
    let bytes = frame.bytes_mut();
    let message = Message {
        from: target,
        to,
        kind: 136,
        flags,
        target,
        station: Some((2, mac)),
    };
    message.write(&mut bytes[at..]);
    turn_back(bytes, mac);
    if asker.is_unspecified() {
        bytes[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    }
    true
}

/// A solicitation or an advertisement.
pub(super) struct Message {
    pub(super) from: Ipv6Addr,
    pub(super) to: Ipv6Addr,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) target: Ipv6Addr,
    /// The option that names a station: its type, and the station.
    pub(super) station: Option<(u8, Mac)>,
}

impl Message {
    /// Bytes behind the IPv6 header.
    pub(super) fn len(&self) -> usize {
        NEIGHBOUR + if self.station.is_some() { STATION } else { 0 }
    }

    /// Writes it, IPv6 header and all, from the start of `bytes` on, which has room.
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let len = self.len();
        let (header, icmp) = bytes[..IPV6_HEADER + len].split_at_mut(IPV6_HEADER);
        let length = u16::try_from(len).expect("a message has few bytes");
        header[..4].copy_from_slice(&[0x60, 0, 0, 0]);
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6..8].copy_from_slice(&[ICMP6, HOPS]);
        header[8..24].copy_from_slice(&self.from.octets());
        header[24..40].copy_from_slice(&self.to.octets());
        icmp[..8].copy_from_slice(&[self.kind, 0, 0, 0, self.flags, 0, 0, 0]);
        icmp[8..NEIGHBOUR].copy_from_slice(&self.target.octets());
        if let Some((option, mac)) = self.station {
            icmp[NEIGHBOUR..][..2].copy_from_slice(&[option, 1]);
            icmp[NEIGHBOUR + 2..][..6].copy_from_slice(&mac);
        }
        let sum = etherparse::checksum::Sum16BitWords::new()
            .add_16bytes(self.from.octets())
            .add_16bytes(self.to.octets())
            .add_2bytes(length.to_be_bytes())
            .add_2bytes([0, ICMP6])
            .add_slice(icmp)
            .ones_complement();
        // The library adds words as they lie in memory.
        icmp[2..4].copy_from_slice(&sum.to_ne_bytes());
    }
}
