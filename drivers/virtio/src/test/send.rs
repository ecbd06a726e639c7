//! Sending: order, content, accounts.

use std::sync::Arc;

use hugemem::{BURST, Burst, Resident, TxFlags};
use port::{QueueId, QueueState, Signal, TxQueue};
use proptest::prelude::*;

use super::device::{Chain, End};
use super::{Rig, content, kinds};
use crate::features::Features;

/// A send queue, its device end, and what should come out of it.
struct Bench {
    rig: Rig,
    tx: Box<dyn TxQueue>,
    end: End,
    burst: Burst,
    done: Burst,
    held: Vec<Chain>,
    /// Numbers of the frames sent, in order, and of those the device saw.
    sent: Vec<u32>,
    seen: Vec<u32>,
    back: Vec<u32>,
    number: u32,
}

impl Bench {
    fn new(features: Features, slots: usize) -> Self {
        let rig = Rig::new(features, slots, slots * 2 + 400, 256);
        let (tx, end) = (rig.tx(), rig.end(1));
        Self {
            rig,
            tx,
            end,
            burst: Burst::new(),
            done: Burst::new(),
            held: Vec::new(),
            sent: Vec::new(),
            seen: Vec::new(),
            back: Vec::new(),
            number: 1000,
        }
    }

    /// Sends up to `count` numbered frames of their own; how many the queue took.
    fn send(&mut self, count: usize) -> usize {
        while self.burst.len() < count {
            let len = 60 + self.number as usize % 100;
            let mut frame = self.rig.frame(self.number, len);
            frame.tag = self.number;
            self.number += 1;
            self.burst.push(frame).unwrap();
        }
        let tags: Vec<u32> = self.burst.iter().map(|frame| frame.tag).collect();
        let taken = self.tx.burst(&mut self.burst);
        self.sent.extend(&tags[..taken]);
        assert_eq!(self.burst.len(), tags.len() - taken);
        self.check();
        taken
    }

    fn send_residents(&mut self, period: usize, first: usize, count: usize) -> usize {
        let taken = self.tx.burst_resident(first, count);
        let numbers = (first..)
            .take(taken)
            .map(|n| u32::try_from(n % period).unwrap());
        self.sent.extend(numbers);
        self.check();
        taken
    }

    fn load(&mut self, period: usize) {
        let frame = |n: usize| self.rig.frame(u32::try_from(n).unwrap(), 60 + n % 70);
        let set = (0..period).map(frame).collect();
        self.tx.load(Arc::new(Resident::new(set)));
    }

    /// The device takes what there is and checks it.
    fn take(&mut self) {
        for chain in self.end.take_all() {
            let bytes = self.end.read(&chain);
            let (header, frame) = bytes.split_at(12);
            assert_eq!(header, [0; 12], "nothing is asked of the device");
            let number = u32::from_le_bytes(frame[..4].try_into().unwrap());
            assert_eq!(frame, content(number, frame.len()));
            self.seen.push(number);
            self.held.push(chain);
        }
    }

    /// The device uses `count` of the chains it has; `pick` says which comes next.
    fn give(&mut self, count: usize, mut pick: impl FnMut(usize) -> usize) {
        for _ in 0..count.min(self.held.len()) {
            let chain = self.held.remove(pick(self.held.len()));
            self.end.give(&chain, 0);
        }
    }

    fn reap(&mut self) {
        while self.tx.reap(&mut self.done) > 0 {
            while let Some(frame) = self.done.pop() {
                self.back.push(frame.tag);
            }
        }
        self.check();
    }

    fn check(&self) {
        let counts = self.tx.counts();
        assert_eq!(counts.posted, self.sent.len() as u64);
        assert_eq!(self.tx.state(), QueueState::Running);
    }

    /// Everything comes back: the accounts close.
    fn finish(mut self) {
        self.take();
        self.give(usize::MAX, |_| 0);
        self.reap();
        self.tx.poll();
        assert_eq!(self.seen, self.sent, "frames leave in the order posted");
        let owned: Vec<u32> = self
            .sent
            .iter()
            .copied()
            .filter(|&number| number >= 1000)
            .collect();
        assert_eq!(self.back, owned, "every frame comes back, once, in order");
        let counts = self.tx.counts();
        assert_eq!((counts.completed, counts.abandoned), (counts.posted, 0));
        self.burst.clear();
        self.rig.shared.halt();
        drop(self.tx);
        assert_eq!(
            self.rig.pool.free(),
            self.rig.pool.total(),
            "no frame is lost"
        );
    }
}

#[test]
fn frames_go_round_every_ring_three_times_at_odd_bursts() {
    for (features, sizes) in kinds() {
        for slots in sizes {
            let mut bench = Bench::new(features, slots);
            let mut bursts = [1, 3, 7, 13, 31, 64].into_iter().cycle();
            while bench.sent.len() < slots * 3 + 7 {
                bench.send(bursts.next().unwrap());
                bench.take();
                bench.give(bursts.next().unwrap(), |_| 0);
                bench.reap();
            }
            bench.finish();
        }
    }
}

#[test]
fn a_full_ring_takes_no_more_until_frames_are_reaped() {
    for (features, sizes) in kinds() {
        for slots in sizes {
            let mut bench = Bench::new(features, slots);
            while bench.send(BURST.min(slots)) > 0 {}
            assert_eq!(bench.sent.len(), slots, "every slot is used");
            bench.take();
            bench.give(1, |_| 0);
            assert_eq!(bench.tx.reap(&mut bench.done), 1);
            bench.back.push(bench.done.pop().unwrap().tag);
            assert_eq!(bench.send(1), 1);
            assert_eq!(bench.send(1), 0);
            bench.finish();
        }
    }
}

#[test]
fn resident_frames_leave_in_order_at_every_period() {
    for (features, sizes) in kinds() {
        for slots in sizes {
            for period in [
                1,
                2,
                3,
                5,
                8,
                31,
                slots / 2,
                slots - 1,
                slots,
                slots + 3,
                251,
            ] {
                let mut bench = Bench::new(features, slots);
                bench.load(period.max(1));
                let period = period.max(1);
                let mut first = 0;
                let mut bursts = [1, 64, 7, 64, 64, 13].into_iter().cycle();
                while bench.sent.len() < slots.max(period) * 4 {
                    let taken = bench.send_residents(period, first, bursts.next().unwrap());
                    first = (first + taken) % period;
                    bench.take();
                    bench.give(bursts.next().unwrap(), |_| 0);
                }
                bench.finish();
            }
        }
    }
}

#[test]
fn an_ordered_device_may_use_a_batch_with_one_notice() {
    for (features, sizes) in kinds() {
        if !features.contains(Features::IN_ORDER) {
            continue;
        }
        for slots in sizes {
            let mut bench = Bench::new(features, slots);
            bench.load(3);
            let mut first = 0;
            while bench.sent.len() < slots * 5 {
                bench.send(5.min(slots));
                first = (first + bench.send_residents(3, first, 4)) % 3;
                bench.take();
                let count = bench.held.len().min(6);
                if count > 0 {
                    let batch: Vec<Chain> = bench.held.drain(..count).collect();
                    bench.end.give_batch(&batch, 0);
                }
                bench.reap();
            }
            bench.finish();
        }
    }
}

#[test]
fn packets_of_several_buffers_arrive_whole() {
    for (features, _) in kinds() {
        for extra in [Features::empty(), Features::INDIRECT_DESC] {
            for slots in [16, 64] {
                let mut bench = Bench::new(features | extra, slots);
                let mut number = 0;
                let mut packets = 0;
                while packets < slots * 4 {
                    for segments in [1, 3, 1, 1, 5, 2] {
                        for n in 0..segments {
                            let mut frame = bench.rig.frame(number, 60 + n);
                            frame.tag = number;
                            frame.flags.set(TxFlags::MORE, n + 1 < segments);
                            bench.burst.push(frame).unwrap();
                            number += 1;
                        }
                    }
                    while !bench.burst.is_empty() {
                        bench.tx.burst(&mut bench.burst);
                        for chain in bench.end.take_all() {
                            let mut bytes = &bench.end.read(&chain)[12..];
                            while let Some(head) = bytes.first_chunk() {
                                let number = u32::from_le_bytes(*head);
                                let len = if bytes.len() > 60 {
                                    tail(bytes, number)
                                } else {
                                    60
                                };
                                assert_eq!(&bytes[..len], content(number, len));
                                bench.seen.push(number);
                                bytes = &bytes[len..];
                            }
                            bench.held.push(chain);
                        }
                        bench.give(7, |_| 0);
                        while bench.tx.reap(&mut bench.done) > 0 {
                            while let Some(frame) = bench.done.pop() {
                                bench.back.push(frame.tag);
                            }
                        }
                    }
                    packets += 6;
                }
                bench.give(usize::MAX, |_| 0);
                while bench.tx.reap(&mut bench.done) > 0 {
                    while let Some(frame) = bench.done.pop() {
                        bench.back.push(frame.tag);
                    }
                }
                let all: Vec<u32> = (0..number).collect();
                assert_eq!(bench.seen, all);
                assert_eq!(bench.back, all);
                let counts = bench.tx.counts();
                assert_eq!(
                    counts.posted, packets as u64,
                    "packets are counted, not buffers"
                );
                assert_eq!(counts.completed, counts.posted);
            }
        }
    }
}

/// Bytes of the buffer at the start of `bytes`, whose filler ends where the next begins.
fn tail(bytes: &[u8], number: u32) -> usize {
    let filler = content(number, 5)[4];
    4 + bytes[4..]
        .iter()
        .take_while(|&&byte| byte == filler)
        .count()
}

#[test]
fn a_checksum_is_asked_for_in_the_header_and_not_for_the_next_frame() {
    for (features, _) in kinds() {
        let rig = Rig::new(features | Features::CSUM, 8, 8, 256);
        let (mut tx, mut end) = (rig.tx(), rig.end(1));
        let mut udp = vec![0u8; 60];
        udp[12..14].copy_from_slice(&[8, 0]);
        (udp[14], udp[23]) = (0x45, 17);
        let mut burst = Burst::new();
        for asked in [false, true, false] {
            let mut frame = rig.pool.take().unwrap();
            frame.fill(&udp);
            frame.flags.set(TxFlags::L4_CHECKSUM, asked);
            burst.push(frame).unwrap();
        }
        for lap in 0..5 {
            assert_eq!(tx.burst(&mut burst), 3);
            for (n, chain) in end.take_all().into_iter().enumerate() {
                let header = end.read(&chain)[..12].to_vec();
                // The frame that asked before asks no more on the second lap, and so on.
                let expected = if n == (lap + 1) % 3 {
                    vec![1, 0, 0, 0, 0, 0, 34, 0, 6, 0, 0, 0]
                } else {
                    vec![0; 12]
                };
                assert_eq!(header, expected, "lap {lap}, frame {n}");
                end.give(&chain, 0);
            }
            assert_eq!(tx.reap(&mut burst), 3);
            for (n, frame) in burst.iter_mut().enumerate() {
                frame.flags.set(TxFlags::L4_CHECKSUM, n == (lap + 2) % 3);
            }
        }
    }
}

#[test]
fn the_device_is_told_when_it_wants_to_know_and_the_driver_never_does() {
    for (features, _) in kinds() {
        let mut bench = Bench::new(features, 8);
        assert!(bench.end.driver_is_silent());
        bench.send(3);
        assert_eq!(bench.rig.bell.rung(), 1, "once a burst");
        bench.end.want_notifications(false);
        for _ in 0..200 {
            bench.send(1);
            bench.take();
            bench.give(8, |_| 0);
            bench.reap();
        }
        assert_eq!(bench.rig.bell.rung(), 1);
        bench.send(1);
        bench.end.want_notifications(true);
        bench.tx.poll();
        assert_eq!(
            bench.rig.bell.rung(),
            2,
            "a device that fell asleep unseen is woken"
        );
        bench.send(1);
        assert_eq!(bench.rig.bell.rung(), 3);
        bench.finish();
    }
}

#[test]
fn what_was_in_flight_when_the_device_was_lost_is_abandoned_and_handed_back() {
    for (features, _) in kinds() {
        let mut bench = Bench::new(features, 32);
        bench.load(3);
        bench.send(5);
        bench.send_residents(3, 0, 4);
        bench.take();
        bench.give(2, |_| 0);
        bench.rig.shared.set(Signal::pause(2));
        assert_eq!(bench.tx.state(), QueueState::Paused);
        assert!(
            !bench.rig.shared.is_clear(QueueId::Tx(0), 2),
            "not before the queue has seen it"
        );
        let mut frames = Burst::new();
        frames.push(bench.rig.frame(1, 60)).unwrap();
        assert_eq!(bench.tx.burst(&mut frames), 0);
        assert!(bench.rig.shared.is_clear(QueueId::Tx(0), 2));
        assert_eq!(bench.tx.burst_resident(0, 5), 0);
        let counts = bench.tx.counts();
        assert_eq!((counts.posted, counts.in_flight()), (9, 0));
        assert_eq!(counts.abandoned + counts.completed, 9);
        while bench.tx.reap(&mut bench.done) > 0 {}
        assert_eq!(bench.done.len(), 5, "the engine's frames come back");
        bench.done.clear();
        let bytes = bench.rig.shared.counts(QueueId::Tx(0)).bytes.get();
        assert!(bytes < 64 * 9);

        // Another device end, on the same ring: it begins anew.
        bench.rig.shared.set(Signal::run(2));
        bench.end = bench.rig.end(1);
        bench.held.clear();
        let before = bench.tx.counts();
        for lap in 0..10 {
            assert_eq!(bench.tx.burst(&mut frames), usize::from(lap == 0));
            let posted = bench.tx.burst_resident(lap % 3, 7);
            assert!(posted > 0);
            for chain in bench.end.take_all() {
                bench.end.give(&chain, 0);
            }
            while bench.tx.reap(&mut bench.done) > 0 {}
            bench.tx.poll();
        }
        let counts = bench.tx.counts();
        assert_eq!(counts.abandoned, before.abandoned);
        assert_eq!(counts.in_flight(), 0);
        assert_eq!(bench.done.len(), 1);
    }
}

#[test]
fn frames_of_a_dropped_queue_stay_out_until_the_device_is_halted() {
    for (features, _) in kinds() {
        let rig = Rig::new(features, 8, 8, 64);
        let mut tx = rig.tx();
        let mut burst = Burst::new();
        for n in 0..5 {
            burst.push(rig.frame(n, 60)).unwrap();
        }
        assert_eq!(tx.burst(&mut burst), 5);
        drop(tx);
        assert_eq!(rig.pool.free(), 3, "the device may still read them");
        assert!(
            rig.shared.is_clear(QueueId::Tx(0), 7),
            "nobody waits for a queue that is gone"
        );
        rig.shared.halt();
        assert_eq!(rig.pool.free(), 8);
    }
}

#[test]
fn a_new_set_waits_for_the_last_one() {
    for (features, _) in kinds() {
        let mut bench = Bench::new(features, 16);
        bench.load(4);
        assert_eq!(bench.send_residents(4, 0, 4), 4);
        bench.load(7);
        assert_eq!(
            bench.send_residents(7, 0, 4),
            0,
            "frames of the old set are in flight"
        );
        bench.take();
        bench.give(4, |_| 0);
        assert_eq!(bench.send_residents(7, 5, 4), 4);
        bench.finish();
    }
}

#[test]
fn resident_frames_leave_in_the_order_in_which_they_are_named() {
    for (features, sizes) in kinds() {
        for slots in sizes {
            let mut bench = Bench::new(features, slots);
            bench.load(11);
            let mut number = 0;
            while bench.sent.len() < slots * 4 {
                let numbers: Vec<u32> = (0..40).map(|n| (number + n * 7) % 11).collect();
                let posted = bench.tx.burst_resident_each(&numbers);
                bench.sent.extend(&numbers[..posted]);
                bench.check();
                number = (number + 5) % 11;
                bench.send(3);
                bench.take();
                bench.give(25, |_| 0);
                bench.reap();
            }
            bench.finish();
        }
    }
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn a_number_that_is_not_in_the_set_is_refused() {
    let mut bench = Bench::new(Features::empty(), 64);
    bench.load(3);
    bench.tx.burst_resident_each(&[0, 3]);
}

#[derive(Debug, Clone)]
enum Step {
    Each(usize),
    Send(usize),
    Residents(usize, Option<usize>),
    Take,
    Give(usize, Vec<usize>),
    Reap,
    Poll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..=64usize).prop_map(Step::Send),
        4 => (1..=64usize, prop::option::of(0..40usize)).prop_map(|(n, at)| Step::Residents(n, at)),
        1 => (1..=64usize).prop_map(Step::Each),
        3 => Just(Step::Take),
        3 => (1..70usize, prop::collection::vec(0..64usize, 1..9))
            .prop_map(|(count, order)| Step::Give(count, order)),
        3 => Just(Step::Reap),
        1 => Just(Step::Poll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_mix_of_frames_and_completions_closes_its_accounts(
        kind in 0..4usize,
        slots in prop::sample::select(vec![2usize, 8, 16, 64, 128]),
        odd in 0..3usize,
        period in 1..40usize,
        steps in prop::collection::vec(step(), 20..300),
    ) {
        let (features, _) = kinds()[kind].clone();
        let ordered = features.contains(Features::IN_ORDER);
        let packed = features.contains(Features::RING_PACKED);
        let mut bench = Bench::new(features, if packed { slots + odd } else { slots });
        bench.load(period);
        let mut next = 0;
        for step in steps {
            match step {
                Step::Send(count) => { bench.send(count); }
                Step::Residents(count, at) => {
                    let first = at.map_or(next, |at| at % period);
                    next = (first + bench.send_residents(period, first, count)) % period;
                }
                Step::Each(count) => {
                    let number = |n| u32::try_from(n * 13 % period).unwrap();
                    let numbers: Vec<u32> = (0..count).map(number).collect();
                    let posted = bench.tx.burst_resident_each(&numbers);
                    bench.sent.extend(&numbers[..posted]);
                }
                Step::Take => bench.take(),
                Step::Give(count, order) => {
                    let mut order = order.into_iter().cycle();
                    bench.give(count, |len| if ordered { 0 } else { order.next().unwrap() % len });
                }
                Step::Reap => bench.reap(),
                Step::Poll => {
                    bench.tx.poll();
                    let flying = bench.tx.counts().in_flight();
                    let held = bench.held.len() as u64;
                    let untaken = (bench.sent.len() - bench.seen.len()) as u64;
                    prop_assert_eq!(flying, held + untaken, "a poll tells all");
                }
            }
        }
        bench.finish();
    }
}
