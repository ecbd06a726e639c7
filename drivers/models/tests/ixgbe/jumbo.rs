//! How long a frame may be.

use hw::Bar;
use models::ixgbe::Kind;

use crate::guest::{DCTL, ENABLE, KINDS, Wish, arriving, assert_clean, frame, rig, tagged};

#[test]
fn the_limit_is_the_usual_one_or_the_one_that_was_set() {
    for kind in KINDS {
        for (longest, most) in [(None, 1514), (Some(9018), 9014), (Some(1600), 1596)] {
            let wish = Wish {
                longest,
                buffer: 4096,
                ..Wish::default()
            };
            let (sim, mut a, mut b) = rig(kind, &wish);
            for lap in 0..5 {
                let frames = [
                    frame(lap, most),
                    frame(lap, most + 1),
                    tagged(&frame(lap, most), 5),
                    tagged(&frame(lap, most + 1), 5),
                ];
                let arrived = arriving(&sim, &mut a, &mut b, &frames);
                assert_eq!(arrived, [true, false, true, false], "{kind:?} {most}");
            }
            assert_eq!(sim.counters(1).rx_too_long, 10);
            assert_eq!(b.bar.load32(0x40ac), 10, "ROC");
            assert_eq!(b.bar.load32(0x4074), 10, "GPRC without them");
            assert_clean(&sim);
        }
    }
}

#[test]
fn a_queues_own_limit_counts_from_x540_on() {
    for (kind, arrives) in [(Kind::I82599, true), (Kind::X540, false)] {
        let (sim, mut a, mut b) = rig(kind, &Wish::default());
        b.bar.store32(0x1000 + DCTL, ENABLE | 1 << 15 | 1000);
        let frames = [frame(1, 996), frame(1, 997)];
        assert_eq!(arriving(&sim, &mut a, &mut b, &frames), [true, arrives]);
    }
}

#[test]
fn a_frame_fills_many_small_buffers_lap_after_lap() {
    let wish = Wish {
        slots: 16,
        buffer: 1024,
        longest: Some(9018),
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(Kind::X550, &wish);
    for lap in 0..8 {
        let sent = frame(lap, 9000 + usize::try_from(lap).unwrap());
        assert!(a.send(&sent));
        sim.settle();
        let received = b.receive_on(0).remove(0);
        assert_eq!((received.bytes == sent, received.pieces), (true, 9));
    }
    assert_clean(&sim);
}
