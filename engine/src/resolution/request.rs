//! Questions that a port asks, and what answers them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use port::Mac;

use super::Vlans;
use super::reply::{HOPS, ICMP6, IPV6_HEADER, Message, NEIGHBOUR};
use crate::headers::{ARP, IPV6, ethertype};

/// Least bytes of a frame without FCS.
const LEAST: usize = 60;
/// Where what an untagged frame carries begins.
const PAYLOAD: usize = 14;
const EVERYBODY: Mac = [0xff; 6];

/// The frame by which `mac`, who has `own` in `vlans`, asks for the station of `whom`. None if they
/// are of two kinds.
pub(super) fn request(mac: Mac, vlans: Vlans, own: IpAddr, whom: IpAddr) -> Option<Vec<u8>> {
    let mut frame = match (own, whom) {
        (IpAddr::V4(own), IpAddr::V4(whom)) => arp(mac, own, whom),
        (IpAddr::V6(own), IpAddr::V6(whom)) => {
            // The group of the stations that may have it (RFC 4291 §2.7.1), and its Ethernet form
            // (RFC 2464 §7).
            let [.., a, b, c] = whom.octets();
            let [ab, bc] = [[0xff, a], [b, c]].map(u16::from_be_bytes);
            let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, ab, bc);
            let message = Message {
                from: own,
                to: group,
                kind: 135,
                flags: 0,
                target: whom,
                station: Some((1, mac)),
            };
            neighbour(mac, [0x33, 0x33, 0xff, a, b, c], &message)
        }
        _ => return None,
    };
    vlans.tag(&mut frame);
    Some(frame)
}

/// The frame by which `mac` tells everybody in `vlans` that it has `own`: a gratuitous ARP request
/// (RFC 5227 §3), or an unsolicited advertisement (RFC 4861 §7.2.6).
pub(super) fn announcement(mac: Mac, vlans: Vlans, own: IpAddr) -> Vec<u8> {
    const OVERRIDE: u8 = 0x20;
    let mut frame = match own {
        IpAddr::V4(own) => arp(mac, own, own),
        IpAddr::V6(own) => {
            let message = Message {
                from: own,
                to: Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
                kind: 136,
                flags: OVERRIDE,
                target: own,
                station: Some((2, mac)),
            };
            neighbour(mac, [0x33, 0x33, 0, 0, 0, 1], &message)
        }
    };
    vlans.tag(&mut frame);
    frame
}

fn frame(dst: Mac, src: Mac, kind: u16, payload: usize) -> Vec<u8> {
    let mut frame = vec![0; (PAYLOAD + payload).max(LEAST)];
    frame[..6].copy_from_slice(&dst);
    frame[6..12].copy_from_slice(&src);
    frame[12..PAYLOAD].copy_from_slice(&kind.to_be_bytes());
    frame
}

fn arp(mac: Mac, own: Ipv4Addr, whom: Ipv4Addr) -> Vec<u8> {
    let mut frame = frame(EVERYBODY, mac, ARP, 28);
    let arp = &mut frame[PAYLOAD..];
    arp[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    arp[8..14].copy_from_slice(&mac);
    arp[14..18].copy_from_slice(&own.octets());
    arp[24..28].copy_from_slice(&whom.octets());
    frame
}

fn neighbour(mac: Mac, to: Mac, message: &Message) -> Vec<u8> {
    let mut frame = frame(to, mac, IPV6, IPV6_HEADER + message.len());
    message.write(&mut frame[PAYLOAD..]);
    frame
}

/// The station of `whom`, if `frame` tells it: by an answer, or by a question of its own.
pub(super) fn told(frame: &[u8], whom: IpAddr) -> Option<Mac> {
    let (kind, at) = ethertype(frame)?;
    match (kind, whom) {
        (ARP, IpAddr::V4(whom)) => {
            let arp = frame.get(at..)?.first_chunk::<28>()?;
            let known = arp[..6] == [0, 1, 8, 0, 6, 4] && arp[14..18] == whom.octets();
            known.then(|| station(&arp[8..14])).flatten()
        }
        (IPV6, IpAddr::V6(whom)) => {
            let icmp = frame.get(at + IPV6_HEADER..)?;
            let header = frame.get(at..at + IPV6_HEADER)?;
            let advertises = header[6] == ICMP6
                && header[7] == HOPS
                && icmp.len() >= NEIGHBOUR
                && icmp[..2] == [136, 0]
                && icmp[8..NEIGHBOUR] == whom.octets();
            if !advertises {
                return None;
            }
            option(&icmp[NEIGHBOUR..], 2)
        }
        _ => None,
    }
}

/// The station that an option of type `wanted` names.
fn option(mut options: &[u8], wanted: u8) -> Option<Mac> {
    while let [kind, units, ..] = *options {
        let len = usize::from(units) * 8;
        if len == 0 {
            return None;
        }
        if kind == wanted {
            return station(options.get(2..8)?);
        }
        options = options.get(len..)?;
    }
    None
}

/// A station's address: no group's, and not zero.
fn station(bytes: &[u8]) -> Option<Mac> {
    let mac: Mac = bytes.try_into().ok()?;
    (mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
}
