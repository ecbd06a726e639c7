//! Sending.

use std::collections::VecDeque;
use std::sync::Arc;

use hugemem::{Burst, Dma, Resident, TxFlags};
use port::{QueueId, QueueState, Signal, TxQueue};

use super::{Rig, Writes, generation, load, store};
use crate::desc::Words;
use crate::tx::Tx;

/// The device's end of a send queue.
struct Far {
    ring: Dma<Words>,
    completions: Dma<Words>,
    /// Slots taken, ever.
    taken: usize,
    /// Completions written, ever.
    written: usize,
}

/// A buffer as the device finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Buffer {
    slot: usize,
    address: u64,
    len: usize,
    /// Dword 3.
    orders: u64,
    msscof: u64,
}

impl Far {
    fn new(rig: &Rig) -> Self {
        let memory = &rig.parts.tx[0];
        Self {
            ring: memory.ring.clone(),
            completions: memory.completions.clone(),
            taken: 0,
            written: 0,
        }
    }

    fn slots(&self) -> usize {
        self.ring.len()
    }

    /// The next frame's buffers, if there is a frame: all of them must be there then.
    fn take(&mut self) -> Option<Vec<Buffer>> {
        let mut buffers = Vec::new();
        loop {
            let slot = self.taken % self.slots();
            let (address, rest) = load(&self.ring[slot]);
            if rest >> 14 & 1 != generation(self.taken, self.slots()) {
                assert!(buffers.is_empty(), "a frame ends in the middle");
                return None;
            }
            let orders = rest >> 32;
            buffers.push(Buffer {
                slot,
                address,
                len: usize::try_from(rest & 0x3fff).unwrap(),
                orders,
                msscof: rest >> 18 & 0x3fff,
            });
            self.taken += 1;
            if orders >> 12 & 1 == 1 {
                assert_eq!(orders >> 13 & 1, 1, "no completion is asked for");
                return Some(buffers);
            }
        }
    }

    /// Says that the frame that ends in `slot` is done.
    fn complete(&mut self, slot: usize) {
        let place = self.written % self.slots();
        let last = generation(self.written, self.slots()) << 63;
        store(&self.completions[place], slot as u64, last);
        self.written += 1;
    }

    /// Takes and completes a frame; its bytes.
    fn carry(&mut self, rig: &Rig) -> Option<Vec<u8>> {
        let buffers = self.take()?;
        self.complete(buffers.last()?.slot);
        let parts = buffers.iter().map(|b| rig.read(b.address, b.len));
        Some(parts.collect::<Vec<_>>().concat())
    }
}

fn queue(rig: &Rig) -> Tx<Writes> {
    let allowed = TxFlags::VLAN | TxFlags::L4_CHECKSUM;
    let memory = rig.parts.tx[0].clone();
    Tx::new(
        rig.bar.clone(),
        0,
        memory,
        allowed,
        rig.follower(QueueId::Tx(0)),
    )
}

fn content(number: usize) -> Vec<u8> {
    (0..60 + number * 7 % 200)
        .map(|n| (n * 3 + number).to_le_bytes()[0])
        .collect()
}

/// A burst of frames with the contents `numbers`.
fn burst(rig: &Rig, numbers: impl IntoIterator<Item = usize>) -> Burst {
    let mut burst = Burst::new();
    for number in numbers {
        let mut frame = rig.pool.take().expect("the pool is large enough");
        frame.flags = TxFlags::empty();
        frame.fill(&content(number));
        burst.push(frame).expect("a burst holds so many");
    }
    burst
}

/// A frame in buffers of the given lengths; its bytes.
fn pieces(rig: &Rig, lens: &[usize], seed: u8) -> (Burst, Vec<u8>) {
    let (mut burst, mut whole) = (Burst::new(), Vec::new());
    for (number, &len) in lens.iter().enumerate() {
        let bytes: Vec<u8> = (0..len)
            .map(|n| seed ^ n.to_le_bytes()[0] ^ number.to_le_bytes()[0] << 4)
            .collect();
        let mut frame = rig.pool.take().expect("the pool is large enough");
        frame.fill(&bytes);
        let more = number + 1 < lens.len();
        frame.flags = if more {
            TxFlags::MORE
        } else {
            TxFlags::empty()
        };
        whole.extend(bytes);
        burst.push(frame).expect("a burst holds so many");
    }
    (burst, whole)
}

#[test]
fn frames_leave_in_order_over_laps_at_odd_burst_sizes_and_all_come_back() {
    for data in [false, true] {
        let rig = Rig::new(32, 200, 512, data);
        let (mut tx, mut far) = (queue(&rig), Far::new(&rig));
        let (mut posted, mut arrived, mut back) = (0, 0, Burst::new());
        for size in [1, 5, 31, 7, 13, 64].into_iter().cycle().take(60) {
            let mut frames = burst(&rig, posted..posted + size);
            posted += tx.burst(&mut frames);
            frames.clear();
            for _ in 0..size.div_ceil(2) {
                let Some(bytes) = far.carry(&rig) else { break };
                assert_eq!(bytes, content(arrived), "frame {arrived}");
                arrived += 1;
            }
            tx.reap(&mut back);
            back.clear();
        }
        while far.carry(&rig).is_some() {
            arrived += 1;
        }
        while tx.reap(&mut back) > 0 {
            back.clear();
        }
        assert!(
            posted > 3 * 32 && arrived == posted,
            "{arrived} of {posted}"
        );
        assert_eq!(tx.counts().completed, posted as u64);
        assert_eq!(rig.pool.free(), rig.pool.total());
    }
}

#[test]
fn a_full_ring_keeps_one_slot_and_takes_more_only_when_frames_are_reaped() {
    let rig = Rig::new(32, 200, 512, false);
    let (mut tx, mut far) = (queue(&rig), Far::new(&rig));
    let mut frames = burst(&rig, 0..64);
    assert_eq!(tx.burst(&mut frames), 31);
    assert_eq!(tx.burst(&mut frames), 0);
    for _ in 0..31 {
        far.carry(&rig).expect("31 frames were posted");
    }
    assert_eq!(tx.burst(&mut frames), 0, "what is not reaped has a place");
    let mut back = Burst::new();
    assert_eq!(tx.reap(&mut back), 31);
    assert_eq!(tx.burst(&mut frames), 31);
    for _ in 0..31 {
        far.carry(&rig).expect("31 frames were posted");
    }
    let mut frame = rig.pool.take().expect("the pool is large enough");
    frame.fill(&content(1));
    tx.load(Arc::new(Resident::new(vec![frame])));
    assert_eq!(tx.burst_resident(0, 100), 31, "resident frames too");
}

#[test]
fn frames_in_several_buffers_leave_whole_over_the_rings_end() {
    let rig = Rig::new(32, 200, 512, true);
    let (mut tx, mut far) = (queue(&rig), Far::new(&rig));
    let mut back = Burst::new();
    for round in 0..60_u8 {
        let lens: Vec<usize> = (0..1 + usize::from(round) % 9)
            .map(|n| 20 + n * 17)
            .collect();
        let (mut frames, whole) = pieces(&rig, &lens, round);
        assert_eq!(tx.burst(&mut frames), lens.len());
        let buffers = far.take().expect("the frame is there");
        assert_eq!(buffers.len(), lens.len());
        let bytes: Vec<_> = buffers
            .iter()
            .flat_map(|b| rig.read(b.address, b.len))
            .collect();
        assert_eq!(bytes, whole);
        assert_eq!(tx.reap(&mut back), 0, "nothing is complete");
        far.complete(buffers[buffers.len() - 1].slot);
        assert_eq!(tx.reap(&mut back), lens.len());
        back.clear();
    }
    assert_eq!((tx.counts().posted, tx.counts().completed), (60, 60));
}

#[test]
fn a_buffer_of_no_bytes_gets_no_slot_and_comes_back_with_its_frame() {
    let rig = Rig::new(32, 200, 512, false);
    let (mut tx, mut far) = (queue(&rig), Far::new(&rig));
    let mut back = Burst::new();
    for lens in [&[0, 30, 0, 40, 0][..], &[70, 0], &[0, 70]] {
        let (mut frames, whole) = pieces(&rig, lens, 1);
        assert_eq!(tx.burst(&mut frames), lens.len());
        assert_eq!(far.carry(&rig), Some(whole));
        assert_eq!(tx.reap(&mut back), lens.len());
        back.clear();
    }
    let (mut frames, _) = pieces(&rig, &[0], 1);
    assert_eq!(tx.burst(&mut frames), 1);
    let buffers = far.take().expect("the frame is there");
    assert_eq!(buffers[0].len, 1, "a length of 0 would mean 16384");
}

#[test]
fn tags_and_checksums_are_asked_for_in_the_first_descriptor() {
    let rig = Rig::new(32, 200, 512, false);
    let (mut tx, mut far) = (queue(&rig), Far::new(&rig));
    let mut frame = vec![0; 60];
    (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
    let (mut frames, _) = pieces(&rig, &[60, 20], 0);
    let first = &mut frames.as_mut_slice()[0];
    first.fill(&frame);
    first.flags |= TxFlags::VLAN | TxFlags::L4_CHECKSUM | TxFlags::IPV4_CHECKSUM;
    first.vlan = 0xa123;
    tx.burst(&mut frames);
    let buffers = far.take().expect("the frame is there");
    // Header length 34 in bits 9:0, checksum in 11:10, tag inserted in 15, tag in 31:16.
    assert_eq!(buffers[0].orders, 34 | 2 << 10 | 1 << 15 | 0xa123 << 16);
    assert_eq!(buffers[0].msscof, 40);
    assert_eq!(buffers[1].orders, 1 << 12 | 1 << 13);
}

#[test]
fn the_device_is_told_as_it_wants_to_be_and_of_the_rest_when_nothing_moves() {
    let rig = Rig::new(32, 200, 512, false);
    let (mut tx, mut far) = (queue(&rig), Far::new(&rig));
    let area = &rig.parts.tx[0].area;
    area.put(4, 10);
    tx.burst(&mut burst(&rig, 0..4));
    assert_eq!((rig.bar.take(), area.get(0)), (vec![], 4));
    tx.burst(&mut burst(&rig, 0..6));
    assert_eq!((rig.bar.take(), area.get(0)), (vec![(0x600, 10)], 0));
    tx.burst(&mut burst(&rig, 0..3));
    for _ in 0..10 {
        far.carry(&rig).expect("the first ten are there");
    }
    tx.poll();
    assert_eq!(rig.bar.take(), [], "the device is at work");
    tx.poll();
    assert_eq!((rig.bar.take(), area.get(0)), (vec![(0x600, 13)], 0));
}

#[test]
fn resident_frames_leave_in_order_mixed_with_others_and_between_sets() {
    let rig = Rig::new(32, 300, 512, false);
    let (mut tx, mut far) = (queue(&rig), Far::new(&rig));
    let mut back = Burst::new();
    for period in [1, 7, 40] {
        let set = (0..period).map(|number| {
            let mut frame = rig.pool.take().expect("the pool is large enough");
            frame.fill(&content(1000 * period + number));
            frame
        });
        tx.load(Arc::new(Resident::new(set.collect())));
        let (mut cursor, mut expected) = (0, VecDeque::new());
        for round in 0..50 {
            let posted = tx.burst_resident(cursor, 1 + round % 13);
            expected.extend((0..posted).map(|n| content(1000 * period + (cursor + n) % period)));
            cursor = (cursor + posted) % period;
            let mut frames = burst(&rig, [round]);
            if tx.burst(&mut frames) == 1 {
                expected.push_back(content(round));
            }
            let each = [0, u32::try_from(period - 1).unwrap()];
            let posted = tx.burst_resident_each(&each);
            expected.extend(
                each[..posted]
                    .iter()
                    .map(|&n| content(1000 * period + n as usize)),
            );
            for _ in 0..(1 + round % 17) {
                let Some(bytes) = far.carry(&rig) else { break };
                assert_eq!(Some(bytes), expected.pop_front());
            }
            tx.reap(&mut back);
            back.clear();
        }
        while let Some(bytes) = far.carry(&rig) {
            assert_eq!(Some(bytes), expected.pop_front());
        }
        assert!(expected.is_empty());
        tx.poll();
        assert_eq!(tx.counts().in_flight(), 0);
    }
}

#[test]
fn a_completion_of_what_the_device_does_not_have_fails_the_port_in_words() {
    type Wrong = fn(&mut Far, &[Buffer]);
    let cases: [(Wrong, &str); 5] = [
        (|far, _| far.complete(7), "slot 7, which it does not have"),
        (|far, _| far.complete(40), "slot 40, which it does not have"),
        (|far, _| far.complete(4095), "slot 4095, which"),
        (
            |far, frame| far.complete(frame[1].slot),
            "slot 1, in the middle",
        ),
        (
            |far, frame| {
                far.complete(frame[2].slot);
                far.complete(frame[2].slot);
            },
            "slot 2, which it does not have",
        ),
    ];
    for (wrong, words) in cases {
        let rig = Rig::new(32, 200, 512, false);
        let (mut tx, mut far) = (queue(&rig), Far::new(&rig));
        tx.burst(&mut pieces(&rig, &[20, 20, 20], 1).0);
        let frame = far.take().expect("the frame is there");
        wrong(&mut far, &frame);
        tx.poll();
        assert_eq!(tx.state(), QueueState::Failed, "{words}");
        let failure = rig.shared.failure().expect("it has failed");
        assert!(
            failure.contains(words) && failure.contains("send queue 0"),
            "{failure}"
        );
        assert_eq!(tx.burst(&mut burst(&rig, 0..1)), 0);
        assert_eq!(tx.counts().in_flight(), 0);
        drop(tx);
        assert!(
            rig.pool.free() < rig.pool.total(),
            "the device may still read them"
        );
        rig.shared.halt();
        assert_eq!(rig.pool.free(), rig.pool.total());
    }
}

#[test]
fn after_a_reset_the_ring_is_as_new_and_what_was_in_flight_is_given_up() {
    let rig = Rig::new(32, 200, 512, false);
    let (mut tx, mut far) = (queue(&rig), Far::new(&rig));
    tx.burst(&mut burst(&rig, 0..31));
    for _ in 0..20 {
        far.carry(&rig).expect("31 frames were posted");
    }
    tx.poll();
    rig.shared.set(Signal::pause(2));
    assert_eq!(tx.burst(&mut burst(&rig, 0..5)), 0);
    assert_eq!(tx.state(), QueueState::Paused);
    assert!(!rig.shared.all_clear(2), "the other queue is not clear");
    let counts = tx.counts();
    assert_eq!(
        (counts.posted, counts.completed, counts.abandoned),
        (31, 20, 11)
    );
    rig.shared.set(Signal::run(2));
    let mut back = Burst::new();
    assert_eq!(tx.reap(&mut back), 31);
    back.clear();
    let mut far = Far::new(&rig);
    for size in [5, 30, 30, 30, 30] {
        assert_eq!(tx.burst(&mut burst(&rig, 0..size)), size);
        for number in 0..size {
            assert_eq!(far.carry(&rig), Some(content(number)));
        }
        assert_eq!(tx.reap(&mut back), size);
        back.clear();
    }
}
