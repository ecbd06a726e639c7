//! Receiving: order, content, headers, several buffers.

use hugemem::{BURST, Burst};
use port::{QueueId, QueueState, RxBurst, RxFlags, RxQueue, Signal};
use proptest::prelude::*;

use super::device::{Chain, End};
use super::{Rig, content, kinds};
use crate::features::Features;

/// A receive queue and its device end.
struct Bench {
    rig: Rig,
    rx: Box<dyn RxQueue>,
    end: End,
    empties: Burst,
    held: Vec<Chain>,
}

impl Bench {
    fn new(features: Features, slots: usize) -> Self {
        let rig = Rig::new(features, slots, slots + BURST, 256);
        let (rx, end) = (rig.rx(), rig.end(0));
        Self {
            rig,
            rx,
            end,
            empties: Burst::new(),
            held: Vec::new(),
        }
    }

    fn arm(&mut self, count: usize) -> usize {
        let more = count.saturating_sub(self.empties.len());
        self.rig.pool.take_burst(&mut self.empties, more);
        let armed = self.rx.arm(&mut self.empties);
        self.held.extend(self.end.take_all());
        armed
    }

    /// A frame arrives, with `header`, in as many buffers as it takes.
    fn arrive(&mut self, mut header: [u8; 12], frame: &[u8], merge: bool) -> bool {
        let room = self.rig.pool.capacity();
        let buffers = if merge {
            (frame.len() + 12).div_ceil(room)
        } else {
            1
        };
        if self.held.len() < buffers {
            return false;
        }
        header[10..].copy_from_slice(&u16::try_from(buffers).unwrap().to_le_bytes());
        let all = [&header, frame].concat();
        let mut rest = &all[..];
        for chain in self.held.drain(..buffers).collect::<Vec<_>>() {
            let written = self.end.write(&chain, rest);
            rest = &rest[written as usize..];
            self.end.give(&chain, written);
        }
        assert!(rest.is_empty());
        true
    }

    fn receive(&mut self) -> Vec<(Vec<u8>, RxFlags)> {
        let mut out = RxBurst::default();
        let moved = self.rx.burst(&mut out);
        assert_eq!(moved, out.frames.len());
        let frames = out.frames.iter().zip(&out.meta);
        frames
            .map(|(frame, meta)| (frame.bytes().to_vec(), meta.flags))
            .collect()
    }
}

#[test]
fn frames_arrive_byte_for_byte_over_three_laps() {
    for (features, sizes) in kinds() {
        for slots in sizes {
            let mut bench = Bench::new(features, slots);
            assert_eq!(bench.rx.room(), slots);
            let (mut number, mut expected) = (0, 0);
            let mut bursts = [1, 5, 64, 13].into_iter().cycle();
            while expected < u32::try_from(slots * 3 + 5).unwrap() {
                bench.arm(bursts.next().unwrap());
                for _ in 0..bursts.next().unwrap() {
                    let len = 14 + number as usize % 240;
                    number += u32::from(bench.arrive([0; 12], &content(number, len), false));
                }
                for (bytes, flags) in bench.receive() {
                    assert_eq!(bytes, content(expected, bytes.len()));
                    assert_eq!(bytes.len(), 14 + expected as usize % 240);
                    assert_eq!(flags, RxFlags::empty());
                    expected += 1;
                }
            }
        }
    }
}

#[test]
fn frames_start_where_the_pool_put_them() {
    for (features, _) in kinds() {
        for merge in [Features::empty(), Features::MRG_RXBUF] {
            let mut bench = Bench::new(features | merge, 8);
            bench.arm(1);
            let [(address, len, true)] = bench.held[0].parts[..] else {
                panic!("one buffer")
            };
            assert_eq!((address + 12) % 64, 0, "a frame begins a cache line");
            assert_eq!(len, if merge.is_empty() { 268 } else { 256 });
        }
    }
}

#[test]
fn a_frame_in_several_buffers_is_one_frame() {
    for (features, _) in kinds() {
        let mut bench = Bench::new(features | Features::MRG_RXBUF, 16);
        for lap in 0..30 {
            bench.arm(16);
            let len = [60, 244, 245, 256, 500, 501, 700, 1000][lap % 8];
            let frame = content(u32::try_from(lap).unwrap(), len);
            assert!(bench.arrive([0; 12], &frame, true));
            let parts = bench.receive();
            let whole: Vec<u8> = parts.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
            assert_eq!(whole, frame);
            let (last, first) = parts.split_last().unwrap();
            assert!(first.iter().all(|(_, flags)| flags.contains(RxFlags::MORE)));
            assert!(!last.1.contains(RxFlags::MORE));
        }
        let ledger = bench.rig.shared.counts(QueueId::Rx(0));
        let frames = ledger.frames.get();
        assert_eq!(frames, 30, "frames are counted, not buffers");
    }
}

#[test]
fn a_frame_may_be_cut_by_the_end_of_a_burst() {
    let mut bench = Bench::new(Features::MRG_RXBUF, 128);
    while bench.arm(BURST) > 0 {}
    for number in (0..).take(BURST - 1) {
        assert!(bench.arrive([0; 12], &content(number, 60), true));
    }
    assert!(bench.arrive([0; 12], &content(99, 600), true));
    let first = bench.receive();
    assert_eq!(first.len(), BURST);
    assert_eq!(first[BURST - 1].1, RxFlags::MORE);
    let rest = bench.receive();
    assert_eq!(rest.len(), 2);
    assert_eq!((rest[0].1, rest[1].1), (RxFlags::MORE, RxFlags::empty()));
    let whole = [&first[BURST - 1].0[..], &rest[0].0, &rest[1].0].concat();
    assert_eq!(whole, content(99, 600));
}

#[test]
fn what_the_device_says_of_a_checksum_is_passed_on_if_it_was_asked() {
    for (features, _) in kinds() {
        for (csum, needs, valid) in [
            (Features::GUEST_CSUM, RxFlags::L4_PARTIAL, RxFlags::L4_GOOD),
            (Features::empty(), RxFlags::empty(), RxFlags::empty()),
        ] {
            let mut bench = Bench::new(features | csum, 8);
            bench.arm(3);
            for flags in [0, 1, 2] {
                let header = [flags, 0, 0, 0, 0, 0, 34, 0, 6, 0, 0, 0];
                assert!(bench.arrive(header, &content(7, 60), false));
            }
            let flags: Vec<RxFlags> = bench.receive().iter().map(|(_, flags)| *flags).collect();
            assert_eq!(flags, [RxFlags::empty(), needs, valid]);
        }
    }
}

#[test]
fn a_buffer_too_short_for_a_header_is_an_error_and_no_more() {
    for (features, _) in kinds() {
        let mut bench = Bench::new(features, 8);
        bench.arm(2);
        let chain = bench.held.remove(0);
        bench.end.give(&chain, 11);
        assert!(bench.arrive([0; 12], &content(1, 60), false));
        let frames = bench.receive();
        assert_eq!(frames[0], (vec![], RxFlags::ERROR));
        assert_eq!(frames[1].0, content(1, 60));
        assert_eq!(bench.rx.state(), QueueState::Running);
    }
}

#[test]
fn an_ordered_device_may_skip_notices_of_full_buffers() {
    for (features, _) in kinds() {
        if !features.contains(Features::IN_ORDER) {
            continue;
        }
        let mut bench = Bench::new(features, 8);
        for _ in 0..7 {
            bench.arm(5);
            let batch: Vec<Chain> = bench.held.drain(..3).collect();
            bench.end.give_batch(&batch, 72);
            let lens: Vec<usize> = bench
                .receive()
                .iter()
                .map(|(bytes, _)| bytes.len())
                .collect();
            assert_eq!(
                lens,
                [256, 256, 60],
                "those before the last are taken as full"
            );
        }
    }
}

#[test]
fn frames_are_armed_anew_when_the_device_comes_back() {
    for (features, _) in kinds() {
        let mut bench = Bench::new(features, 8);
        bench.arm(6);
        assert!(bench.arrive([0; 12], &content(1, 60), false));
        bench.rig.shared.set(Signal::pause(2));
        assert!(bench.receive().is_empty());
        assert!(bench.rig.shared.is_clear(QueueId::Rx(0), 2));
        assert_eq!(bench.rx.state(), QueueState::Paused);
        bench.empties.clear();
        let mut empties = Burst::new();
        bench.rig.pool.take_burst(&mut empties, 1);
        assert_eq!(bench.rx.arm(&mut empties), 0);
        // The new device finds the frames in the ring before the queue runs.
        bench.end = bench.rig.end(0);
        bench.held = bench.end.take_all();
        assert_eq!(bench.held.len(), 6);
        bench.rig.shared.set(Signal::run(2));
        for number in 0..20 {
            assert!(bench.arrive([0; 12], &content(number, 99), false));
            assert_eq!(bench.receive(), [(content(number, 99), RxFlags::empty())]);
            bench.arm(1);
        }
        bench.rig.shared.halt();
        bench.empties.clear();
        drop((bench.rx, empties));
        assert_eq!(bench.rig.pool.free(), bench.rig.pool.total());
    }
}

#[test]
fn a_received_frame_can_be_sent_with_a_header_of_zeros() {
    let rig = Rig::new(Features::MRG_RXBUF, 8, 8, 256);
    let (mut rx, mut tx) = (rig.rx(), rig.tx());
    let (mut from, mut to) = (rig.end(0), rig.end(1));
    let mut empties = Burst::new();
    rig.pool.take_burst(&mut empties, 1);
    assert_eq!(rx.arm(&mut empties), 1);
    let chain = from.take().unwrap();
    let header = [1, 1, 9, 9, 9, 9, 9, 9, 9, 9, 1, 0];
    let len = from.write(&chain, &[&header[..], &content(5, 60)].concat());
    from.give(&chain, len);
    let mut out = RxBurst::default();
    assert_eq!(rx.burst(&mut out), 1);
    assert_eq!(tx.burst(&mut out.frames), 1);
    let chain = to.take().unwrap();
    assert_eq!(to.read(&chain), [&[0; 12][..], &content(5, 60)].concat());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn frames_arrive_in_the_order_in_which_the_device_used_them(
        kind in 0..4usize,
        slots in prop::sample::select(vec![2usize, 8, 64]),
        steps in prop::collection::vec((1..70usize, 1..70usize, 0..64usize), 1..60),
    ) {
        let (features, _) = kinds()[kind].clone();
        let ordered = features.contains(Features::IN_ORDER);
        let mut bench = Bench::new(features, slots);
        let (mut number, mut expected) = (0, 0);
        for (arm, arrive, pick) in steps {
            let room = bench.rx.room();
            let armed = bench.arm(arm.min(BURST));
            prop_assert!(armed <= room);
            for _ in 0..arrive {
                if !ordered && !bench.held.is_empty() {
                    let at = pick % bench.held.len();
                    bench.held.swap(0, at);
                }
                number += u32::from(bench.arrive([0; 12], &content(number, 77), false));
            }
            for (bytes, _) in bench.receive() {
                prop_assert_eq!(bytes, content(expected, 77));
                expected += 1;
            }
        }
        while expected < number {
            for (bytes, _) in bench.receive() {
                prop_assert_eq!(bytes, content(expected, 77));
                expected += 1;
            }
        }
        bench.rig.shared.halt();
        bench.empties.clear();
        drop(bench.rx);
        prop_assert_eq!(bench.rig.pool.free(), bench.rig.pool.total());
    }
}

/// A frame can hold what the largest buffer of several brings.
#[test]
fn the_last_buffer_of_several_may_be_full() {
    let mut bench = Bench::new(Features::MRG_RXBUF, 8);
    bench.arm(8);
    let frame = content(3, 256 - 12 + 256 * 2);
    assert!(bench.arrive([0; 12], &frame, true));
    let lens: Vec<usize> = bench
        .receive()
        .iter()
        .map(|(bytes, _)| bytes.len())
        .collect();
    assert_eq!(lens, [244, 256, 256]);
}
