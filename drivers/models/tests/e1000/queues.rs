//! Several queues, and how frames spread over them.

use hw::Bar;
use models::e1000::Kind;

use crate::guest::{Guest, MAC_A, MAC_B, Wish, assert_clean, frame, rig};

/// An IPv4 UDP frame; what decides its queue is the source port.
pub(crate) fn datagram(port: u16) -> Vec<u8> {
    let [a, b] = port.to_be_bytes();
    [
        &MAC_B[..],
        &MAC_A,
        &[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0],
        &[16, 0, 0, 1, 48, 0, 0, 1, a, b, 0, 12, 0, 26, 0, 0],
        &[7; 18],
    ]
    .concat()
}

/// The key of the published examples of the hash.
const KEY: [u32; 10] = [
    0xda56_5a6d,
    0xc20e_5b25,
    0x3d25_6741,
    0xb08f_a343,
    0xcb2b_cad0,
    0xb430_7bae,
    0xa32d_cb77,
    0x0cf2_3080,
    0x3bb7_426a,
    0xfa01_acbe,
];

/// A sum of the key's windows, as the definition has it: bit by bit.
pub(crate) fn toeplitz(input: &[u8]) -> u32 {
    let key: Vec<u8> = KEY.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bit = |bytes: &[u8], n: usize| bytes[n / 8] >> (7 - n % 8) & 1 == 1;
    let window = |from: usize| (0..32).fold(0, |w, n| w << 1 | u32::from(bit(&key, from + n)));
    (0..input.len() * 8)
        .filter(|&n| bit(input, n))
        .fold(0, |hash, n| hash ^ window(n))
}

pub(crate) fn spread(guest: &Guest, mrqc: u32, entry: impl Fn(u32) -> u32) {
    for (n, word) in (0..).zip(KEY) {
        guest.bar.store32(0x5c80 + 4 * n, word);
    }
    for n in 0..32 {
        let word = (0..4).fold(0, |word, k| word | entry(4 * n + k) << (8 * k));
        guest.bar.store32(0x5c00 + 4 * n, word);
    }
    guest.bar.store32(0x5000, 1 << 13 | 3 << 8);
    guest.bar.store32(0x5818, mrqc);
}

#[test]
fn every_queue_sends_in_its_own_order() {
    for (kind, queues) in [(Kind::E1000e, 2), (Kind::Igb, 16)] {
        let wish = Wish {
            queues,
            slots: 16,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(kind, &wish);
        let mut next = vec![0; queues as usize];
        for round in 0..60u64 {
            for n in 0..queues as usize {
                let number = (n as u64) << 32 | round;
                let mut bytes = frame(0, 64);
                bytes[14..22].copy_from_slice(&number.to_be_bytes());
                assert!(a.send_on(n, &bytes));
                if n % 4 == 3 || n + 1 == queues as usize {
                    sim.settle();
                    for bytes in b.receive() {
                        let number = u64::from_be_bytes(bytes[14..22].try_into().unwrap());
                        let queue = usize::try_from(number >> 32).unwrap();
                        assert_eq!(number & 0xffff_ffff, next[queue]);
                        next[queue] += 1;
                    }
                }
            }
        }
        assert!(next.iter().all(|&count| count == 60), "{kind:?} {next:?}");
        assert_clean(&sim);
    }
}

#[test]
fn the_hash_leads_through_the_table_and_is_reported() {
    for kind in [Kind::E1000e, Kind::Igb] {
        let queues: u32 = if kind == Kind::Igb { 8 } else { 2 };
        let wish = Wish {
            queues,
            extended: true,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(kind, &wish);
        let udp = kind == Kind::Igb;
        if udp {
            // RSS, UDP over IPv4.
            spread(&b, 2 | 1 << 22, |n| n % 8);
        } else {
            // RSS, IPv4: the 82574 hashes no UDP ports.
            spread(&b, 1 | 1 << 17, |n| (n % 2) << 7);
        }
        let mut reached = 0;
        for port in 0..64 {
            let sent = datagram(port);
            assert!(a.send(&sent));
            sim.settle();
            let hash = toeplitz(if udp { &sent[26..38] } else { &sent[26..34] });
            let queue = hash % 128 % queues;
            let got = b.receive_on(queue as usize);
            assert_eq!(got.len(), 1, "{kind:?} port {port}: not on queue {queue}");
            assert_eq!(got[0].bytes, sent);
            let word = got[0].first;
            assert_eq!(word >> 32, u64::from(hash));
            if udp {
                assert_eq!(word & 0xffff, 0x210 | 7, "UDP over IPv4");
            } else {
                assert_eq!(word & 0xffff, u64::from(queue) << 8 | 2);
            }
            reached |= 1 << queue;
        }
        if udp {
            assert_eq!(reached, 0xff, "all queues");
        }
        assert!(a.send(&frame(1, 60)));
        sim.settle();
        let got = b.receive_on(0);
        assert_eq!(got[0].first, 0, "no IP, no hash, the first queue");
        assert_clean(&sim);
    }
}

#[test]
fn a_queue_of_the_82576_shows_that_it_runs_only_after_a_while() {
    let (sim, _a, b) = rig(Kind::Igb, &Wish::default());
    b.bar.store32(0xc068, 0);
    b.bar.store32(0xc048, 128);
    b.bar.store32(0xc068, 1 << 25);
    let shown: Vec<bool> = (0..3)
        .map(|_| b.bar.load32(0xc068) >> 25 & 1 == 1)
        .collect();
    assert_eq!(shown, [false, true, true]);
    // The same register at its old place.
    assert_eq!(b.bar.load32(0x2928) >> 25 & 1, 1);
    assert_clean(&sim);
}

#[test]
fn a_queue_can_be_stopped_and_started_while_others_run() {
    let wish = Wish {
        queues: 2,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(Kind::Igb, &wish);
    for round in 0..5 {
        assert!(a.send_on(1, &frame(round, 60)));
        assert!(a.send_on(0, &frame(100 + round, 60)));
        sim.settle();
        assert_eq!(b.receive().len(), 2);
        assert_eq!((a.reap(0), a.reap(1)), (1, 1));
        a.start_queue(1);
        (a.tx[1].post, a.tx[1].look) = (0, 0);
    }
    assert_clean(&sim);
}
