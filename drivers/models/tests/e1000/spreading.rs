//! The 82574's second receive queue, in both descriptor formats (82574 §7.1).

use hw::Bar;
use models::Sim;
use models::e1000::Kind;

use crate::guest::{Guest, LINK_UP, MAC_A, MAC_B, STRIP, Wish, assert_clean, frame, rig, tagged};
use crate::offloads::packet;
use crate::queues::{datagram, spread, toeplitz};

/// MRQC: two queues, and what is hashed.
const TWO_QUEUES: u32 = 1;
const TCP_IPV4: u32 = 1 << 16;
const IPV4: u32 = 1 << 17;
const TCP_IPV6: u32 = 1 << 18;
const IPV6_EX: u32 = 1 << 19;
const IPV6: u32 = 1 << 20;
const SLOTS: u32 = 8;
/// Head of the second receive queue.
const RDH1: u32 = 0x2910;

fn two_queues(extended: bool, ctrl: u32) -> (Sim, Guest, Guest) {
    let wish = Wish {
        slots: SLOTS,
        queues: 2,
        extended,
        ctrl: LINK_UP | ctrl,
        ..Wish::default()
    };
    rig(Kind::E1000e, &wish)
}

/// An IPv6 frame with a TCP or UDP header and nothing else.
fn ipv6(tcp: bool) -> Vec<u8> {
    let (protocol, len) = if tcp { (6, 20) } else { (17, 8) };
    let mut segment = vec![0; usize::from(len)];
    segment[..4].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
    if tcp {
        segment[12] = 0x50;
    } else {
        segment[5] = len;
    }
    let ethernet = [&MAC_B[..], &MAC_A, &[0x86, 0xdd]].concat();
    let addresses: Vec<u8> = (0..32).map(|n| n * 7 + 1).collect();
    let header = [0x60, 0, 0, 0, 0, len, protocol, 64];
    [&ethernet[..], &header, &addresses, &segment].concat()
}

#[test]
fn the_second_queue_goes_round_in_either_format() {
    for extended in [true, false] {
        let (sim, mut a, mut b) = two_queues(extended, 0);
        spread(&b, TWO_QUEUES | IPV4, |_| 0x80);
        for n in 0..3 * SLOTS + 3 {
            let mut sent = datagram(u16::try_from(n).unwrap());
            sent.resize(60 + n as usize * 40, 0xaa);
            let slot = b.rx[1].look;
            assert!(a.send(&sent));
            sim.settle();
            assert!(b.receive_on(0).is_empty(), "nothing on the first queue");
            let got = b.receive_on(1);
            assert_eq!(got.len(), 1, "extended {extended}, frame {n}");
            assert_eq!(got[0].bytes, sent);
            assert_eq!(b.bar.load32(RDH1), (n + 1) % SLOTS);
            let first = if extended {
                u64::from(toeplitz(&sent[26..34])) << 32 | 1 << 8 | 2
            } else {
                // There is no place for a hash: the address stays.
                b.rx[1].buffer(slot)
            };
            assert_eq!(got[0].first, first, "extended {extended}, frame {n}");
        }
        assert_clean(&sim);
    }
}

#[test]
fn what_was_hashed_is_named() {
    let [[_, udp4], [_, tcp4]] = [packet(false, 20), packet(true, 20)];
    let (udp6, tcp6) = (ipv6(false), ipv6(true));
    let v6 = TCP_IPV6 | IPV6_EX | IPV6;
    // Fields, frame, RSS type, end of what is hashed.
    let cases = [
        (TCP_IPV4, &tcp4, 1, 38),
        (TCP_IPV4, &udp4, 0, 0),
        (IPV4, &tcp4, 2, 34),
        (IPV4, &udp4, 2, 34),
        (TCP_IPV4 | IPV4, &tcp4, 1, 38),
        (TCP_IPV4 | IPV4, &udp4, 2, 34),
        (v6, &tcp4, 0, 0),
        (TCP_IPV6, &tcp6, 3, 58),
        (TCP_IPV6, &udp6, 0, 0),
        (IPV6_EX, &tcp6, 4, 54),
        (IPV6, &tcp6, 5, 54),
        (IPV6_EX | IPV6, &udp6, 4, 54),
        (v6, &tcp6, 3, 58),
        (v6, &udp6, 4, 54),
        (TCP_IPV4 | IPV4, &tcp6, 0, 0),
        // Linux sets this one too; the device has no such field.
        (1 << 21, &tcp6, 0, 0),
    ];
    // Odd entries lead to the second queue, then even ones: every type reaches both.
    for turned in [0, 1] {
        let (sim, mut a, mut b) = two_queues(true, 0);
        for (fields, sent, kind, end) in cases {
            spread(&b, TWO_QUEUES | fields, |n| ((n + turned) % 2) << 7);
            let start = if sent[12] == 8 { 26 } else { 22 };
            let hash = if kind == 0 {
                0
            } else {
                toeplitz(&sent[start..end])
            };
            let queue = if kind == 0 { 0 } else { (hash + turned) % 2 };
            assert!(a.send(sent));
            sim.settle();
            let got = b.receive_on(queue as usize);
            assert_eq!(got.len(), 1, "{fields:#x}: not on queue {queue}");
            let first = u64::from(hash) << 32 | u64::from(queue << 8 | kind);
            assert_eq!(got[0].first, first, "{fields:#x}");
            assert_eq!(got[0].bytes[..54], sent[..54]);
        }
        assert_clean(&sim);
    }
}

#[test]
fn verdicts_and_tags_are_told_on_the_second_queue_too() {
    const TAGGED: u32 = 1 << 3;
    const UDP_CHECKED: u32 = 1 << 4;
    const CHECKED: u32 = 3 << 5;
    const TRANSPORT_BAD: u32 = 1 << 29;
    const IP_BAD: u32 = 1 << 30;
    for extended in [true, false] {
        let (sim, mut a, mut b) = two_queues(extended, STRIP);
        spread(&b, TWO_QUEUES | IPV4, |_| 0x80);
        let [[_, udp], [_, tcp]] = [packet(false, 40), packet(true, 40)];
        let [mut bad_payload, mut bad_header] = [udp.clone(), tcp.clone()];
        bad_payload[50] ^= 1;
        bad_header[22] ^= 1;
        let cases = [
            (&udp, CHECKED | UDP_CHECKED),
            (&tcp, CHECKED),
            (&bad_payload, CHECKED | UDP_CHECKED | TRANSPORT_BAD),
            (&bad_header, CHECKED | IP_BAD),
        ];
        for (sent, verdict) in cases {
            for tag in [None, Some(0x6123)] {
                let on_wire = tag.map_or_else(|| sent.clone(), |tag| tagged(sent, tag));
                assert!(a.send(&on_wire));
                sim.settle();
                let got = b.receive_on(1).remove(0);
                let cut = if tag.is_some() { TAGGED } else { 0 };
                // Done, end of packet; no IP identification beside a hash.
                assert_eq!(got.status, verdict | cut | 3, "extended {extended}");
                assert_eq!((&got.bytes, got.tag), (sent, tag.unwrap_or(0)));
            }
        }
        assert_clean(&sim);
    }
}

#[test]
fn a_full_second_queue_does_not_stop_the_first() {
    let (sim, mut a, mut b) = two_queues(true, 0);
    spread(&b, TWO_QUEUES | IPV4, |_| 0x80);
    for port in 0..10 {
        assert!(a.send(&datagram(port)));
        sim.settle();
    }
    assert_eq!(sim.counters(1).rx_no_buffer, 3);
    assert_eq!(b.bar.load32(0x4010), 3, "missed");
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    let got = b.receive_on(0);
    assert_eq!((got.len(), got[0].first), (1, 0), "no IP, no hash");
    let got = b.receive_on(1);
    let ports: Vec<u8> = got.iter().map(|got| got.bytes[35]).collect();
    assert_eq!(ports, [0, 1, 2, 3, 4, 5, 6]);
    assert_clean(&sim);
}
