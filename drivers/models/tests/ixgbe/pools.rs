//! Pools: who gets a frame, and who may send one.

use hw::Bar;
use models::ixgbe::Kind;

use crate::guest::{EVERYONE, Guest, MAC_B, MRQC, Wish, assert_clean, frame, rig, tagged, to};

const SECOND: [u8; 6] = [0x02, 0, 0, 0, 0, 2];
const GROUP: [u8; 6] = [0x01, 0, 0x5e, 0x11, 0x22, 0x33];
/// `VMOLR`.
const AUPE: u32 = 1 << 24;
const ROMPE: u32 = 1 << 25;
const BAM: u32 = 1 << 27;

/// Pools of two queues: 0 has B's address, 1 the second one, 2 is where the rest goes.
fn pools(guest: &Guest) {
    let bar = &guest.bar;
    bar.store32(0x4900, 1 << 6);
    bar.store32(0x8120, 2 | 3 << 2);
    bar.store32(0x4900, 0);
    bar.store32(MRQC, 8);
    bar.store32(0x51b0, 1 | 2 << 7 | 1 << 30);
    bar.store32(0x1_1050, 3);
    let [a, b, c, d, e, f] = SECOND;
    bar.store32(0x5408, u32::from_le_bytes([a, b, c, d]));
    bar.store32(0x540c, u32::from_le_bytes([e, f, 0, 0x80]));
    bar.store32(0xa608, 1 << 1);
    bar.store32(0x51e0, 7);
    bar.store32(0x8110, 7);
    for pool in 0..3 {
        bar.store32(
            0xf000 + 4 * pool,
            AUPE | BAM | if pool == 1 { ROMPE } else { 0 },
        );
    }
}

fn wish() -> Wish {
    Wish {
        queues: 6,
        fctrl: crate::guest::BAM | crate::guest::UPE,
        ..Wish::default()
    }
}

/// How many frames each pool has got.
fn got(guest: &mut Guest) -> [usize; 3] {
    [0, 2, 4].map(|queue| guest.receive_on(queue).len())
}

#[test]
fn a_frame_goes_to_the_pools_that_want_it() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish());
    pools(&b);
    let (at, one) = {
        let hash = u32::from(GROUP[5]) << 4 | u32::from(GROUP[4]) >> 4;
        (hash / 32 * 4, 1 << (hash % 32))
    };
    b.bar.store32(0x5090, 1 << 2);
    b.bar.store32(0x5200 + at, one);
    for _ in 0..10 {
        for (mac, expected) in [
            (MAC_B, [1, 0, 0]),
            (SECOND, [0, 1, 0]),
            ([2, 7, 7, 7, 7, 7], [0, 0, 1]),
            (EVERYONE, [1, 1, 1]),
            (GROUP, [0, 1, 0]),
        ] {
            assert!(a.send(&to(mac)));
            sim.settle();
            assert_eq!(got(&mut b), expected, "{mac:x?}");
        }
    }
    assert_clean(&sim);
    // Without the default pool strangers are nobody's; without replication one gets it.
    b.bar.store32(0x51b0, 1 | 2 << 7 | 1 << 29);
    for (mac, expected) in [([2, 7, 7, 7, 7, 7], [0, 0, 0]), (EVERYONE, [1, 0, 0])] {
        assert!(a.send(&to(mac)));
        sim.settle();
        assert_eq!(got(&mut b), expected);
    }
    // A pool that may not receive does not.
    b.bar.store32(0x51e0, 6);
    assert!(a.send(&to(MAC_B)));
    sim.settle();
    assert_eq!(got(&mut b), [0, 0, 0]);
    assert_clean(&sim);
}

#[test]
fn a_pools_vlans_are_its_own() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish());
    pools(&b);
    b.bar.store32(0x5088, 0x8100 | 1 << 30);
    b.bar.store32(0xa000, 1 << 5 | 1 << 6);
    b.bar.store32(0xf100, 1 << 31 | 5);
    b.bar.store32(0xf200, 1 << 0 | 1 << 1);
    b.bar.store32(0xf104, 1 << 31 | 6);
    b.bar.store32(0xf208, 1 << 1);
    for (tag, expected) in [(5, [1, 1, 0]), (6, [0, 1, 0]), (7, [0, 0, 0])] {
        assert!(a.send(&tagged(&to(EVERYONE), tag)));
        sim.settle();
        assert_eq!(got(&mut b), expected, "VLAN {tag}");
    }
    b.bar.store32(0xf000, BAM);
    assert!(a.send(&to(EVERYONE)));
    sim.settle();
    assert_eq!(got(&mut b), [0, 1, 1], "no untagged frames for the first");
    assert_clean(&sim);
}

#[test]
fn what_a_pool_sends_is_looked_at_and_tagged() {
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish());
    pools(&b);
    b.bar.store32(0x8200, 1 << 0 | 1 << 1);
    let own = |from: [u8; 6]| {
        let mut sent = frame(1, 80);
        sent[..6].copy_from_slice(&crate::guest::MAC_A);
        sent[6..12].copy_from_slice(&from);
        sent
    };
    for (queue, from, arrives) in [
        (0, MAC_B, true),
        (0, SECOND, false),
        (2, SECOND, true),
        (2, MAC_B, false),
        (4, MAC_B, true),
    ] {
        assert!(b.send_on(queue, &own(from)));
        sim.settle();
        assert_eq!(a.receive_on(0).len(), usize::from(arrives), "queue {queue}");
    }
    assert_eq!(b.bar.load32(0x8780), 2, "SSVPC");
    b.bar.store32(0x8004, 1 << 30 | 0x6009);
    assert!(b.send_on(2, &own(SECOND)));
    sim.settle();
    assert_eq!(a.receive(), [tagged(&own(SECOND), 0x6009)]);
    b.bar.store32(0x8110, 5);
    assert!(b.send_on(2, &own(SECOND)));
    sim.settle();
    assert_eq!(a.receive().len(), 0, "VFTE");
    assert_clean(&sim);
}

#[test]
fn a_pools_frames_are_spread_over_as_many_queues_as_it_says() {
    let wish = Wish {
        queues: 8,
        ..wish()
    };
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish);
    pools(&b);
    b.bar.store32(0x5000, 1 << 13);
    b.bar.store32(0x5c80, 0x1234_5678);
    b.bar.store32(0x5c84, 0x9abc_def0);
    b.bar.store32(0x5c88, 0x0f1e_2d3c);
    for n in 0..32 {
        b.bar.store32(0x5c00 + 4 * n, 0x0302_0100);
    }
    b.bar.store32(MRQC, 0xa | 1 << 17);
    for (bits, used) in [(0u32, 1usize), (1, 2), (2, 4)] {
        b.bar.store32(0x5484, bits << 29);
        let mut seen = [0; 8];
        for n in 0..40 {
            let mut sent = crate::queues::ipv4(6, [10, 0, n, 1], [10, 1, 1, 1], [1, 2]);
            sent[..6].copy_from_slice(&SECOND);
            assert!(a.send(&sent));
            sim.settle();
            for (queue, count) in seen.iter_mut().enumerate() {
                *count += b.receive_on(queue).len();
            }
        }
        assert_eq!(seen.iter().sum::<usize>(), 40);
        assert_eq!(seen[..4], [0; 4], "the second pool begins with queue 4");
        assert_eq!(seen.iter().filter(|&&count| count > 0).count(), used);
    }
    assert_clean(&sim);
}
