use std::sync::Arc;

use hugemem::{Burst, Resident, TxFlags};
use port::{QueueId, QueueState, Signal, TxQueue};

use super::{Registers, Rig};
use crate::desc::{DONE, REPORT, Writer};
use crate::tx::Tx;

const LARGEST: usize = 1514;

fn queue(rig: &Rig) -> Tx<Registers> {
    queue_of(rig, Writer::pf())
}

fn queue_of(rig: &Rig, writer: Writer) -> Tx<Registers> {
    let offloads = TxFlags::IPV4_CHECKSUM | TxFlags::L4_CHECKSUM | TxFlags::VLAN;
    Tx::new(rig.ring(), rig.follower(), writer, LARGEST, offloads)
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
    let mut burst = rig.burst([9]);
    burst.as_mut_slice()[0].room_mut()[9..80].fill(0xee);
    assert_eq!(tx.burst(&mut burst), 1);
    let [_, second] = rig.words(0);
    assert_eq!(
        (second & 0xffff, second >> 46),
        (17, 17),
        "length, and of the packet"
    );
    rig.send_all(&mut 0);
    let mut out = Burst::new();
    tx.reap(&mut out);
    let frame = &mut out.as_mut_slice()[0];
    assert_eq!((frame.len(), frame.bytes()), (9, &[0xa5; 9][..]));
    assert_eq!(frame.room_mut()[9..17], [0; 8]);
    assert_eq!(frame.room_mut()[17], 0xee);
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
fn a_context_says_where_headers_are_and_which_tag_to_insert_and_comes_when_it_changes() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue(&rig);
    let all = TxFlags::IPV4_CHECKSUM | TxFlags::L4_CHECKSUM | TxFlags::VLAN;
    tx.burst(&mut flagged(&rig, all, 0x6123));
    let [first, second] = rig.words(0);
    assert_eq!(
        first,
        0x6123_0000 | 14 << 9 | 20,
        "tag, bytes before IP, bytes of IP"
    );
    assert_eq!(second, 0x10_2020_0400, "place 1, DEXT, context, IPv4");
    // 80 bytes in all, IXSM and TXSM, place 1; EOP, IFCS, RS, DEXT, VLE; data descriptor.
    assert_eq!(rig.words(1)[1], 80 << 46 | 0x310 << 32 | 0x6b30_0050);
    tx.burst(&mut flagged(&rig, all, 0x6123));
    assert_eq!(rig.words(2)[1], rig.words(1)[1], "the same context serves");
    tx.burst(&mut flagged(&rig, TxFlags::VLAN, 0x6124));
    assert_eq!(
        rig.words(3)[0],
        0x6124_0000 | 14 << 9,
        "another tag takes another context"
    );
    assert_eq!(rig.tails(), [2, 3, 5]);
}

#[test]
fn a_virtual_function_tells_a_context_first_and_names_it_in_every_descriptor() {
    const CC: u64 = 1 << 39;
    let rig = Rig::new(64, 100, 2048);
    let mut tx = queue_of(&rig, Writer::vf());
    assert!(rig.tails().is_empty(), "it goes with the first packet");
    tx.burst(&mut rig.burst([60; 3]));
    assert_eq!(
        rig.words(0),
        [14 << 9, 0x2020_0000],
        "place 0, 14 bytes before IP"
    );
    for slot in 1..4 {
        let second = rig.words(slot)[1];
        assert_eq!((second & CC, second >> 36 & 7), (CC, 0));
    }
    tx.burst(&mut flagged(&rig, TxFlags::L4_CHECKSUM, 0));
    assert_eq!(rig.words(5)[1] >> 32 & 0xffff, 0x290, "TXSM, CC, place 1");
    let mut set = Vec::new();
    let mut frame = rig.take();
    frame.set_len(70);
    set.push(frame);
    tx.load(Arc::new(Resident::new(set)));
    tx.burst_resident(0, 1);
    let second = rig.words(6)[1];
    assert_eq!((second & CC, second >> 46), (CC, 70));
    assert_eq!(rig.tails(), [4, 6, 7]);

    rig.shared.set(Signal::pause(2));
    assert_eq!(tx.burst(&mut rig.burst([60; 1])), 0);
    assert!(rig.shared.all_clear(2));
    rig.shared.set(Signal::run(2));
    tx.burst(&mut rig.burst([60; 1]));
    assert_eq!(rig.words(0), [14 << 9, 0x2020_0000], "again after a reset");
    assert_eq!(rig.tails().last(), Some(&2));
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
    let mut tx = Tx::new(
        rig.ring(),
        rig.follower(),
        Writer::pf(),
        LARGEST,
        TxFlags::empty(),
    );
    tx.burst(&mut flagged(&rig, TxFlags::VLAN | TxFlags::L4_CHECKSUM, 1));
    assert_eq!(rig.words(0)[1], 80 << 46 | 0x2b30_0050);
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
    crate::ring::clear(&rig.slots);
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
