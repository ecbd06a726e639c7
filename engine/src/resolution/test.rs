//! Questions and answers, byte for byte; checksums by a library's reckoning.

use std::net::{IpAddr, Ipv6Addr};

use etherparse::{Icmpv6Slice, PacketBuilder};
use hugemem::{Frame, Memory, MemoryRequest, NoDevice, PageSize, Pages, Pool};
use port::Mac;

use super::reply::Message;
use super::request::{announcement, request, told};
use super::{Addresses, Vlans, is_question};

const OWN: Mac = [2, 0, 0, 0, 0, 0xaa];
const ASKER: Mac = [2, 0, 0, 0, 0, 0xbb];

const UNTAGGED: Vlans = Vlans::NONE;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn frame(bytes: &[u8]) -> Frame {
    let memory = Memory::new(&MemoryRequest {
        bytes: Pool::footprint(1, 256),
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: vec![std::sync::Arc::new(NoDevice)],
    });
    let pool = Pool::new(&memory.unwrap(), 1, 256).unwrap();
    let mut frame = pool.take().unwrap();
    frame.fill(bytes);
    frame
}

/// The answer to `bytes` of who has `own` and nothing else.
fn answered(bytes: &[u8], own: &str) -> Option<Vec<u8>> {
    let mut frame = frame(bytes);
    let own = Addresses::new(vec![ip(own)..=ip(own)]);
    let is_answered = own.answer(&mut frame, OWN);
    if is_answered {
        assert!(is_question(bytes), "it would not have been looked at");
        return Some(frame.bytes().to_vec());
    }
    assert_eq!(frame.bytes(), bytes, "nothing is changed");
    None
}

/// Addresses and the ICMPv6 message of an untagged frame, whose checksum must be right.
fn icmpv6(bytes: &[u8]) -> (Ipv6Addr, Ipv6Addr, &[u8]) {
    let header = etherparse::Ipv6HeaderSlice::from_slice(&bytes[14..]).unwrap();
    let len = usize::from(header.payload_length());
    let message = Icmpv6Slice::from_slice(&bytes[54..54 + len]).unwrap();
    assert!(message.is_checksum_valid(header.source(), header.destination()));
    (
        header.source_addr(),
        header.destination_addr(),
        &bytes[54..54 + len],
    )
}

#[test]
fn what_one_asks_the_other_answers_and_the_first_understands() {
    for (asker, whom) in [("16.0.0.2", "16.0.0.1"), ("fd00::2", "fd00::1:2:3")] {
        let question = request(ASKER, UNTAGGED, ip(asker), ip(whom)).unwrap();
        let reply = answered(&question, whom).unwrap();
        assert_eq!((&reply[..6], &reply[6..12]), (&ASKER[..], &OWN[..]));
        assert_eq!(told(&reply, ip(whom)), Some(OWN));
        assert_eq!(told(&reply, ip(asker)), None);
        assert_eq!(answered(&question, asker), None, "asked for somebody else");
        assert_eq!(answered(&reply, whom), None, "an answer is no question");
    }
    assert_eq!(
        request(ASKER, UNTAGGED, ip("16.0.0.2"), ip("fd00::1")),
        None
    );
}

#[test]
fn a_solicitation_goes_to_the_group_of_the_address_and_its_answer_names_the_station() {
    let question = request(ASKER, UNTAGGED, ip("fd00::2"), ip("fd00::1:2a:b3c4")).unwrap();
    assert_eq!(question[..6], [0x33, 0x33, 0xff, 0x2a, 0xb3, 0xc4]);
    let (from, to, message) = icmpv6(&question);
    assert_eq!((from, to), (v6("fd00::2"), v6("ff02::1:ff2a:b3c4")));
    assert_eq!(
        (message[0], &message[24..]),
        (135, &[1, 1, 2, 0, 0, 0, 0, 0xbb][..])
    );
    let reply = answered(&question, "fd00::1:2a:b3c4").unwrap();
    let (from, to, message) = icmpv6(&reply);
    assert_eq!((from, to), (v6("fd00::1:2a:b3c4"), v6("fd00::2")));
    // Solicited, and to override what was known.
    assert_eq!((message[0], message[4]), (136, 0x60));
    assert_eq!(message[24..], [2, 1, 2, 0, 0, 0, 0, 0xaa]);
}

/// A solicitation as `change` makes it.
fn solicitation(from: &str, change: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = Message {
        from: v6(from),
        to: v6("ff02::1:ff00:1"),
        kind: 135,
        flags: 0,
        target: v6("fd00::1"),
        station: Some((1, ASKER)),
    };
    change(&mut message);
    let mut bytes = vec![0; 54 + message.len()];
    bytes[..6].copy_from_slice(&[0x33, 0x33, 0xff, 0, 0, 1]);
    bytes[6..12].copy_from_slice(&ASKER);
    bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
    message.write(&mut bytes[14..]);
    bytes
}

#[test]
fn solicitations_without_a_station_or_an_address_are_answered_as_the_standard_says() {
    let bare = solicitation("fd00::2", |message| message.station = None);
    let reply = answered(&bare, "fd00::1").unwrap();
    assert_eq!((bare.len(), reply.len()), (78, 86));
    assert_eq!(icmpv6(&reply).2.len(), 32);
    // Is it free? Everybody is told that it is not.
    let free = solicitation("::", |message| message.station = None);
    let reply = answered(&free, "fd00::1").unwrap();
    let (_, to, message) = icmpv6(&reply);
    assert_eq!((to, message[4]), (v6("ff02::1"), 0x20));
    assert_eq!(reply[..6], [0x33, 0x33, 0, 0, 0, 1]);
}

#[test]
fn a_solicitation_from_beyond_a_router_or_cut_short_is_not_answered() {
    let good = solicitation("fd00::2", |_| ());
    assert!(answered(&good, "fd00::1").is_some());
    let mut routed = good.clone();
    routed[14 + 7] = 254;
    assert_eq!(answered(&routed, "fd00::1"), None);
    for len in 0..54 + 24 {
        assert_eq!(answered(&good[..len], "fd00::1"), None, "{len} bytes");
    }
}

#[test]
fn echo_of_both_kinds_is_sent_back_with_a_checksum_that_is_right() {
    for sequence in [0_u16, 1, 0xfffe, 0xffff, 0x7fff] {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        let to_v4 = PacketBuilder::ethernet2(ASKER, OWN).ipv4([16, 0, 0, 9], [16, 0, 0, 1], 64);
        let to_v4 = to_v4.icmpv4_echo_request(7, sequence);
        to_v4.write(&mut v4, b"payload").unwrap();
        let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        let to_v6 = PacketBuilder::ethernet2(ASKER, OWN);
        let to_v6 = to_v6.ipv6(octets("fd00::9"), octets("fd00::1"), 64);
        let to_v6 = to_v6.icmpv6_echo_request(7, sequence);
        to_v6.write(&mut v6, b"payload").unwrap();
        let reply = answered(&v4, "16.0.0.1").unwrap();
        assert_eq!(reply[26..34], [16, 0, 0, 1, 16, 0, 0, 9]);
        let sum = etherparse::checksum::Sum16BitWords::new().add_slice(&reply[34..]);
        assert_eq!((reply[34], sum.ones_complement()), (0, 0));
        let reply = answered(&v6, "fd00::1").unwrap();
        let (_, to, message) = icmpv6(&reply);
        assert_eq!((to, message[0]), (octets("fd00::9").into(), 129));
        assert_eq!(answered(&v6, "fd00::9"), None);
    }
}

#[test]
fn a_tag_stays_in_the_answer() {
    for (ids, tags) in [
        (&[7][..], &[0x81, 0, 0, 7, 8, 6][..]),
        (&[9, 7], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7, 8, 6]),
    ] {
        let vlans = Vlans::new(ids).unwrap();
        let question = request(ASKER, vlans, ip("16.0.0.2"), ip("16.0.0.1")).unwrap();
        let reply = answered(&question, "16.0.0.1").unwrap();
        assert_eq!(&reply[12..12 + tags.len()], tags);
        assert_eq!(told(&reply, ip("16.0.0.1")), Some(OWN));
        assert_eq!(
            announcement(ASKER, vlans, ip("fd00::1"))[12..12 + tags.len() - 2],
            tags[..tags.len() - 2]
        );
    }
}

#[test]
fn announcements_tell_everybody_and_are_not_answered() {
    for own in ["16.0.0.1", "fd00::1"] {
        let told_all = announcement(ASKER, UNTAGGED, ip(own));
        assert_eq!(told_all[0] & 1, 1, "to a group");
        assert_eq!(told(&told_all, ip(own)), Some(ASKER));
        assert_eq!(answered(&told_all, own), None);
    }
}

#[test]
fn a_station_that_cannot_be_one_is_not_believed() {
    let question = request(ASKER, UNTAGGED, ip("16.0.0.2"), ip("16.0.0.1")).unwrap();
    let mut reply = answered(&question, "16.0.0.1").unwrap();
    for station in [[0; 6], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        reply[22..28].copy_from_slice(&station);
        assert_eq!(told(&reply, ip("16.0.0.1")), None);
    }
    // An option that says it has no length, and one that ends beyond the frame.
    for (units, len) in [(0, 86), (1, 80)] {
        let question = request(ASKER, UNTAGGED, ip("fd00::2"), ip("fd00::1")).unwrap();
        let mut reply = answered(&question, "fd00::1").unwrap();
        reply[78] = 9;
        reply[79] = units;
        assert_eq!(told(&reply[..len], ip("fd00::1")), None);
    }
}
