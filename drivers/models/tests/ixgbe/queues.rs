//! Several queues, and what spreads frames over them.

use hw::Bar;
use models::ixgbe::Kind;

use crate::guest::{Guest, MRQC, Wish, assert_clean, low, rig};

/// The key and the examples of the specification that every vendor repeats.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A frame with an IPv4 packet of `protocol` and these ends.
pub(crate) fn ipv4(protocol: u8, from: [u8; 4], to: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
    let mut frame = crate::guest::frame(1, 74);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..26].copy_from_slice(&[0x45, 0, 0, 60, 0, 1, 0, 0, 64, protocol, 0, 0]);
    frame[26..30].copy_from_slice(&from);
    frame[30..34].copy_from_slice(&to);
    frame[34..36].copy_from_slice(&ports[0].to_be_bytes());
    frame[36..38].copy_from_slice(&ports[1].to_be_bytes());
    frame
}

/// The published examples: a frame, and its hashes with and without ports.
fn examples() -> [(Vec<u8>, u32, u32); 2] {
    [
        (
            ipv4(6, [66, 9, 149, 187], [161, 142, 100, 80], [2794, 1766]),
            0x51cc_c178,
            0x323e_8fc2,
        ),
        (
            ipv4(6, [199, 92, 111, 2], [65, 69, 140, 83], [14230, 4739]),
            0xc626_b0ea,
            0xd718_262a,
        ),
    ]
}

fn spread(guest: &Guest, mode: u32) {
    for (n, bytes) in (0..).zip(KEY.chunks_exact(4)) {
        let word = u32::from_le_bytes(bytes.try_into().unwrap());
        guest.bar.store32(0x5c80 + 4 * n, word);
    }
    guest.bar.store32(0x5000, 1 << 13);
    guest.bar.store32(MRQC, mode);
}

/// Fills the table so that entry `n` leads to `queue(n)`.
fn fill(guest: &Guest, entries: u32, queue: impl Fn(u32) -> u32) {
    for n in (0..entries).step_by(4) {
        let word = (0..4).fold(0, |word, at| word | queue(n + at) << (8 * at));
        let at = if n < 128 {
            0x5c00 + n
        } else {
            0xee80 + n - 128
        };
        guest.bar.store32(at, word);
    }
}

fn wish() -> Wish {
    Wish {
        queues: 4,
        ..Wish::default()
    }
}

#[test]
fn the_hash_chooses_the_queue_and_is_reported_with_its_kind() {
    for (kind, entries) in [(Kind::I82599, 128u32), (Kind::X540, 128), (Kind::X550, 512)] {
        let (sim, mut a, mut b) = rig(kind, &wish());
        spread(&b, 1 | 1 << 16);
        // The upper entries lead elsewhere, so that a table of another length shows.
        fill(&b, entries, |n| (n + n / 128) % 4);
        for lap in 0..13 {
            for (frame, hash, _) in examples() {
                assert!(a.send(&frame));
                sim.settle();
                let slot = hash % entries;
                let queue = (slot + slot / 128) % 4;
                let received = b.receive_on(queue as usize);
                assert_eq!(received.len(), 1, "{kind:?} lap {lap}");
                assert_eq!(low(received[0].first >> 32), hash);
                assert_eq!(received[0].first & 0xf, 1, "TCP over IPv4");
                assert_eq!(received[0].first & 0xfff0, 0x110, "IPv4 with TCP");
            }
        }
        assert_clean(&sim);
    }
}

#[test]
fn what_is_not_to_be_hashed_goes_to_queue_0() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish());
    fill(&b, 128, |_| 3);
    spread(&b, 1 | 1 << 17);
    let [(tcp, _, address_hash), _] = examples();
    assert!(a.send(&tcp));
    sim.settle();
    let received = b.receive_on(3).remove(0);
    assert_eq!(
        (received.first & 0xf, low(received.first >> 32)),
        (2, address_hash)
    );
    spread(&b, 1 | 1 << 22);
    assert!(a.send(&tcp));
    let udp = ipv4(17, [1, 2, 3, 4], [5, 6, 7, 8], [1, 2]);
    assert!(a.send(&udp));
    sim.settle();
    assert_eq!(b.receive_on(0).len(), 1, "TCP is not asked for");
    assert_eq!(b.receive_on(3).remove(0).first & 0xf, 7, "UDP over IPv4");
    assert_clean(&sim);
}

#[test]
fn every_queue_of_the_table_can_be_reached() {
    let wish = Wish {
        queues: 16,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish);
    spread(&b, 1 | 1 << 17);
    fill(&b, 128, |n| n % 16);
    let mut seen = [0; 16];
    for n in 0..200u8 {
        let sent = ipv4(6, [10, 0, 0, n], [10, 1, 1, 1], [1, 2]);
        assert!(a.send_on(usize::from(n % 16), &sent));
        sim.settle();
        for (queue, count) in seen.iter_mut().enumerate() {
            *count += b.receive_on(queue).len();
        }
    }
    assert_eq!(seen.iter().sum::<usize>(), 200);
    assert!(seen.iter().all(|&count| count > 7), "{seen:?}");
    assert_clean(&sim);
}
