use std::sync::Arc;

use hugemem::{Burst, Resident, TxFlags};
use port::{QueueId, QueueState, Signal, TxQueue};

use super::{CONTEXT, GREETING, IPV4, L4, Registers, Rig, SIMPLE, Simple, TAGGED};
use crate::{DONE, REPORT, SendFormat, Tx, Words};

const LARGEST: usize = 1514;
/// What the port was started with.
const ASKED: TxFlags = TxFlags::IPV4_CHECKSUM
    .union(TxFlags::L4_CHECKSUM)
    .union(TxFlags::VLAN);
const SIZES: std::ops::RangeInclusive<usize> = 60..=LARGEST;

fn queue(rig: &Rig) -> Tx<Registers, Simple> {
    queue_of(rig, SIMPLE, ASKED)
}

fn queue_of(rig: &Rig, format: Simple, asked: TxFlags) -> Tx<Registers, Simple> {
    Tx::new(rig.ring(), rig.follower(), format, SIZES, asked)
}

fn reports(rig: &Rig, slots: std::ops::Range<usize>) -> Vec<usize> {
    slots
        .filter(|&slot| rig.words(slot)[1] & REPORT != 0)
        .collect()
}

#[test]
fn a_report_is_asked_for_once_in_32_packets_and_once_a_burst() {
    let rig = Rig::new(128, 128, 2048);
    let mut tx = queue(&rig);
    assert_eq!(tx.burst(&mut rig.burst([60; 64])), 64);
    assert_eq!(rig.tails(), [64], "the tail is written once");
    assert_eq!(reports(&rig, 0..64), [31, 63]);
    assert_eq!(tx.burst(&mut rig.burst([60; 5])), 5);
    assert_eq!(
        reports(&rig, 64..69),
        [68],
        "the last of a burst is reported"
    );

    let mut out = Burst::new();
    assert_eq!(tx.reap(&mut out), 0, "nothing is done");
    let [first, second] = rig.words(31);
    rig.set(31, [first, second | DONE]);
    assert_eq!(tx.reap(&mut out), 32, "one look completes 32");
    let [first, second] = rig.words(68);
    rig.set(68, [first, second | DONE]);
    out.clear();
    assert_eq!(
        tx.reap(&mut out),
        0,
        "the device works in order: slot 63 is not done"
    );
    let [first, second] = rig.words(63);
    rig.set(63, [first, second | DONE]);
    assert_eq!(tx.reap(&mut out), 37);
    assert_eq!(tx.counts().in_flight(), 0);
}

#[test]
fn frames_come_back_once_and_in_order_over_laps_of_the_ring() {
    let rig = Rig::new(32, 200, 2048);
    let mut tx = queue(&rig);
    let mut device = 0;
    let (mut posted, mut back) = (Vec::<u32>::new(), Vec::new());
    let mut number = 0;
    for round in 0..60 {
        let mut burst = Burst::new();
        for _ in 0..[1, 7, 13, 31, 5][round % 5] {
            let mut frame = rig.take();
            frame.set_len(60 + number % 1000);
            frame.tag = u32::try_from(number).unwrap();
            number += 1;
            burst.push(frame).unwrap();
        }
        let tags: Vec<u32> = burst.iter().map(|frame| frame.tag).collect();
        let taken = tx.burst(&mut burst);
        posted.extend(&tags[..taken]);
        number -= burst.len();
        if round % 3 != 0 {
            rig.send_all(&mut device);
        }
        let mut out = Burst::new();
        tx.reap(&mut out);
        back.extend(out.iter().map(|frame| frame.tag));
    }
    rig.send_all(&mut device);
    let mut out = Burst::new();
    while tx.reap(&mut out) > 0 {
        back.extend(out.iter().map(|frame| frame.tag));
        out.clear();
    }
    assert!(
        posted.len() > 32 * 4,
        "{} frames are no four laps",
        posted.len()
    );
    assert_eq!(posted, back);
    assert_eq!(
        (tx.counts().posted, tx.counts().in_flight()),
        (posted.len() as u64, 0)
    );
}

#[test]
fn one_slot_always_stays_with_the_driver() {
    let rig = Rig::new(32, 100, 2048);
    let mut tx = queue(&rig);
    assert_eq!(tx.burst(&mut rig.burst([60; 40])), 31);
    assert_eq!(tx.burst(&mut rig.burst([60; 1])), 0);
    assert_eq!(
        rig.tails(),
        [31],
        "a tail equal to the head would say that there is nothing"
    );
}

#[test]
fn resident_frames_are_posted_in_turn_and_never_handed_back() {
    let rig = Rig::new(64, 100, 2048);
    let mut tx = queue(&rig);
    let mut set = Vec::new();
    for len in [60, 70, 80] {
        let mut frame = rig.take();
        frame.set_len(len);
        set.push(frame);
    }
    let words: Vec<_> = set.iter().map(|frame| frame.iova().get()).collect();
    tx.load(Arc::new(Resident::new(set)));
    let mut device = 0;
    let mut cursor = 0;
    let (mut own, mut back, mut total) = (0, 0, 0);
    for round in 0..30 {
        let slot = device;
        let posted = tx.burst_resident(cursor, 7);
        assert_eq!(posted, 7);
        for n in 0..posted {
            let [address, second] = rig.words((slot + n) % 64);
            assert_eq!(address, words[(cursor + n) % 3], "round {round}");
            assert_eq!(second & 0xffff, 60 + 10 * ((cursor as u64 + n as u64) % 3));
        }
        cursor = (cursor + posted) % 3;
        own += tx.burst(&mut rig.burst([100; 2]));
        assert_eq!(tx.burst_resident_each(&[2, 0, 1]), 3);
        total += 12;
        assert_eq!(rig.send_all(&mut device).len(), 12);
        let mut out = Burst::new();
        back += tx.reap(&mut out);
        assert!(
            out.iter().all(|frame| frame.len() == 100),
            "only own frames come back"
        );
    }
    assert_eq!((own, back), (60, 60));
    let counts = tx.counts();
    assert_eq!((counts.posted, counts.completed), (total, total));
}

/// A set of frames of `lens` bytes, and the descriptors of its frames.
fn resident(rig: &Rig, lens: impl IntoIterator<Item = usize>) -> (Arc<Resident>, Vec<Words>) {
    let mut set = Vec::new();
    for len in lens {
        let mut frame = rig.take();
        frame.set_len(len);
        set.push(frame);
    }
    let words = set.iter().map(|frame| {
        let len = u32::try_from(frame.len()).unwrap();
        SIMPLE.plain(frame.iova().get(), len)
    });
    let words = words.collect();
    (Arc::new(Resident::new(set)), words)
}

#[test]
fn a_set_in_step_with_the_ring_keeps_its_descriptors_and_is_whole_whatever_comes_between() {
    for frames in [1, 4, 32, 64, 3] {
        let rig = Rig::new(32, 200, 2048);
        let mut tx = queue(&rig);
        let (first, others) = (
            resident(&rig, (60..).take(frames)),
            resident(&rig, (1000..).take(frames)),
        );
        let sets = [first, others];
        tx.load(Arc::clone(&sets[0].0));
        let (mut device, mut cursor, mut set) = (0, 0, 0);
        let serve = |tx: &mut Tx<_, _>, device: &mut usize| {
            rig.send_all(device);
            tx.reap(&mut Burst::new());
        };
        for round in 0..200 {
            serve(&mut tx, &mut device);
            match round % 50 {
                // Frames of the engine's, some that are not plain, single residents, another set.
                30 => assert_eq!(tx.burst(&mut rig.burst([100; 3])), 3),
                35 => assert_eq!(tx.burst(&mut rig.burst([20, 100])), 2),
                40 => assert_eq!(tx.burst_resident_each(&[0; 4]), 4),
                45 => {
                    set = 1 - set;
                    tx.load(Arc::clone(&sets[set].0));
                }
                49 => cursor = 0,
                _ => {}
            }
            serve(&mut tx, &mut device);
            let wanted = [1, 5, 9, 31, 2, 16][round % 6];
            let posted = tx.burst_resident(cursor, wanted);
            assert_eq!(posted, wanted, "{frames} frames, round {round}");
            for n in 0..posted {
                let [address, second] = rig.words((device + n) % 32);
                let has = [address, second & !REPORT];
                let number = (cursor + n) % frames;
                assert_eq!(
                    has, sets[set].1[number],
                    "{frames} frames, round {round}, the {n}th of {posted}"
                );
            }
            cursor = (cursor + posted) % frames;
        }
    }
}

#[test]
fn a_slot_that_holds_its_resident_frame_is_not_written() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue(&rig);
    let (set, words) = resident(&rig, [60, 70]);
    tx.load(set);
    let mut device = 0;
    for _ in 0..3 * 32 / 8 {
        assert_eq!(tx.burst_resident(0, 8), 8);
        rig.send_all(&mut device);
        tx.reap(&mut Burst::new());
    }
    let mark = [0xbeef, 60];
    rig.set(3, mark);
    assert_eq!(tx.burst_resident(0, 8), 8);
    assert_eq!(rig.words(3), mark, "nothing was written to it");
    assert_eq!(rig.words(4), words[0]);
    assert_eq!(rig.words(7)[1] & REPORT, REPORT, "the last is reported");
}

#[test]
fn a_frame_that_is_too_long_is_taken_counted_and_comes_back_in_its_place() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue(&rig);
    let mut burst = rig.burst([100, LARGEST + 1, LARGEST]);
    assert_eq!(tx.burst(&mut burst), 3);
    assert_eq!(rig.tails(), [2], "it takes no slot");
    let mut device = 0;
    rig.send_all(&mut device);
    let mut out = Burst::new();
    assert_eq!(tx.reap(&mut out), 3);
    let lens: Vec<_> = out.iter().map(hugemem::Frame::len).collect();
    assert_eq!(lens, [100, LARGEST + 1, LARGEST]);
    let mut alone = rig.burst([LARGEST + 1]);
    assert_eq!(tx.burst(&mut alone), 1);
    assert_eq!(tx.reap(&mut out), 1, "alone, it is done at once");
    assert_eq!(tx.counts().in_flight(), 0);
    assert_eq!(rig.shared.counts(QueueId::Rx(0)).errors.get(), 2);
}

#[test]
fn a_short_frame_is_posted_with_zeros_behind_it_and_does_not_change() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue(&rig);
    let mut burst = rig.burst([20]);
    burst.as_mut_slice()[0].room_mut()[20..80].fill(0xee);
    assert_eq!(tx.burst(&mut burst), 1);
    let [_, second] = rig.words(0);
    assert_eq!(
        (second & 0xffff, second >> 46),
        (60, 60),
        "length, and of the packet"
    );
    rig.send_all(&mut 0);
    let mut out = Burst::new();
    tx.reap(&mut out);
    let frame = &mut out.as_mut_slice()[0];
    assert_eq!((frame.len(), frame.bytes()), (20, &[0xa5; 20][..]));
    assert_eq!(frame.room_mut()[20..60], [0; 40]);
    assert_eq!(frame.room_mut()[60], 0xee);
}

/// A UDP datagram of IPv4 without checksums.
fn datagram() -> Vec<u8> {
    let mut bytes = vec![0; 80];
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    bytes[14] = 0x45;
    bytes[23] = 17;
    bytes[24..26].copy_from_slice(&[0xbe, 0xef]);
    bytes
}

fn flagged(rig: &Rig, flags: TxFlags, vlan: u16) -> Burst {
    let mut burst = Burst::new();
    let mut frame = rig.take();
    frame.fill(&datagram());
    (frame.flags, frame.vlan) = (flags, vlan);
    burst.push(frame).unwrap();
    burst
}

#[test]
fn a_context_comes_before_the_packet_and_only_when_it_changes() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue(&rig);
    tx.burst(&mut flagged(&rig, ASKED, 0x6123));
    assert_eq!(rig.words(0), [34 << 16 | 0x6123, CONTEXT]);
    let asked = IPV4 | L4 | TAGGED;
    assert_eq!(rig.words(1)[1] & asked, asked);
    tx.burst(&mut flagged(
        &rig,
        TxFlags::L4_CHECKSUM | TxFlags::VLAN,
        0x6123,
    ));
    assert_eq!(rig.words(2)[1] & asked, L4 | TAGGED, "the same serves");
    tx.burst(&mut flagged(&rig, TxFlags::VLAN, 0x6124));
    assert_eq!(rig.words(3), [0x6124, CONTEXT]);
    assert_eq!(rig.words(4)[1] & asked, TAGGED);
    tx.burst(&mut rig.burst([80]));
    assert_eq!(rig.words(5)[1] & (asked | CONTEXT), 0);
    assert_eq!(rig.tails(), [2, 3, 5, 6]);
}

#[test]
fn what_lies_too_far_behind_for_the_device_is_not_asked_of_it() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue(&rig);
    let mut far = rig.take();
    let mut bytes = vec![0; 12];
    for _ in 0..20 {
        bytes.extend([0x81, 0x00, 0, 1]);
    }
    bytes.extend(&datagram()[12..]);
    far.fill(&bytes);
    far.flags = TxFlags::L4_CHECKSUM;
    let mut burst = Burst::new();
    burst.push(far).unwrap();
    assert_eq!(tx.burst(&mut burst), 1);
    assert_eq!(rig.words(0)[1] & (L4 | CONTEXT), 0);
}

#[test]
fn a_greeting_goes_with_the_first_packet_of_each_life_of_the_ring() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue_of(&rig, Simple { greets: true }, ASKED);
    assert!(rig.tails().is_empty(), "it does not go alone");
    tx.burst(&mut rig.burst([60; 3]));
    assert_eq!((rig.words(0), rig.tails()), (GREETING, vec![4]));
    rig.shared.set(Signal::pause(2));
    assert_eq!(tx.burst(&mut rig.burst([60])), 0);
    rig.shared.set(Signal::run(2));
    tx.burst(&mut rig.burst([60]));
    assert_eq!((rig.words(0), rig.tails()), (GREETING, vec![4, 2]));
    rig.send_all(&mut 0);
    let mut out = Burst::new();
    assert_eq!(tx.reap(&mut out), 3, "those were given up");
    assert_eq!(tx.reap(&mut out), 1, "this one is done");
    assert_eq!(tx.counts().in_flight(), 0);
}

#[test]
fn the_ipv4_checksum_field_is_zero_when_the_device_sums_over_it() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue(&rig);
    tx.burst(&mut flagged(&rig, TxFlags::IPV4_CHECKSUM, 0));
    rig.send_all(&mut 0);
    let mut out = Burst::new();
    assert_eq!(tx.reap(&mut out), 1);
    assert_eq!(out.as_slice()[0].bytes()[24..26], [0, 0]);
}

#[test]
fn what_the_port_was_not_started_with_is_not_asked_of_the_device() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue_of(&rig, SIMPLE, TxFlags::empty());
    tx.burst(&mut flagged(&rig, TxFlags::VLAN | TxFlags::L4_CHECKSUM, 1));
    assert_eq!(rig.words(0)[1] & (TAGGED | L4 | CONTEXT), 0);
}

#[test]
fn a_packet_in_several_buffers_ends_with_the_last_and_gives_its_whole_length() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue(&rig);
    let mut burst = rig.burst([100, 200, 30]);
    for frame in &mut burst.as_mut_slice()[..2] {
        frame.flags = TxFlags::MORE;
    }
    assert_eq!(tx.burst(&mut burst), 3);
    let ends: Vec<_> = (0..3).map(|slot| rig.words(slot)[1] >> 24 & 1).collect();
    assert_eq!(ends, [0, 0, 1]);
    assert!((0..3).all(|slot| rig.words(slot)[1] >> 46 == 330));
    assert_eq!(reports(&rig, 0..3), [2]);
    assert_eq!(tx.counts().posted, 1, "packets are counted, not buffers");
    rig.send_all(&mut 0);
    assert_eq!(tx.reap(&mut Burst::new()), 3);
}

#[test]
fn a_device_that_is_lost_leaves_no_frame_and_the_ring_begins_anew() {
    let rig = Rig::new(32, 60, 2048);
    let mut tx = queue(&rig);
    tx.burst(&mut flagged(&rig, TxFlags::L4_CHECKSUM, 0));
    tx.burst(&mut rig.burst([60; 10]));
    rig.shared.set(Signal::pause(2));
    let mut more = rig.burst([60; 3]);
    assert_eq!((tx.burst(&mut more), tx.state()), (0, QueueState::Paused));
    assert!(rig.shared.all_clear(2));
    let mut out = Burst::new();
    assert_eq!(tx.reap(&mut out), 11);
    let counts = tx.counts();
    assert_eq!((counts.abandoned, counts.in_flight()), (11, 0));
    crate::clear(&rig.slots);
    rig.shared.set(Signal::run(2));
    assert_eq!(tx.burst(&mut more), 3);
    assert_eq!(rig.tails().last(), Some(&3), "from the first slot on");
    tx.burst(&mut flagged(&rig, TxFlags::L4_CHECKSUM, 0));
    assert_eq!(
        rig.tails().last(),
        Some(&5),
        "the device has forgotten the context"
    );
    let [first, second] = rig.words(2);
    rig.set(2, [first, second | DONE]);
    out.clear();
    assert_eq!(tx.reap(&mut out), 3);
    let counts = tx.counts();
    assert_eq!(
        (counts.completed, counts.abandoned, counts.in_flight()),
        (3, 11, 1),
        "what was abandoned is not done as well"
    );
    rig.send_all(&mut 3);
    assert_eq!(tx.reap(&mut out), 1);
    let counts = tx.counts();
    assert_eq!(
        (counts.completed, counts.abandoned, counts.in_flight()),
        (4, 11, 0)
    );
}

#[test]
fn frames_of_a_dropped_queue_stay_until_the_device_is_halted() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue(&rig);
    tx.burst(&mut rig.burst([60; 10]));
    drop(tx);
    assert_eq!(rig.pool.free(), 30);
    rig.shared.halt();
    assert_eq!(rig.pool.free(), 40);
}
