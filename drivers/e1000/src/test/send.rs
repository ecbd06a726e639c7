use std::sync::Arc;

use hugemem::{Burst, Resident, TxFlags};
use port::{QueueId, QueueState, Signal, TxQueue};

use super::{Registers, Rig};
use crate::desc::{Advanced, DONE, Format, Legacy, REPORT};
use crate::tx::Tx;

const LARGEST: usize = 1514;
const SIZES: std::ops::RangeInclusive<usize> = 60..=LARGEST;

fn queue<D: Format>(rig: &Rig) -> Tx<Registers, D> {
    let offloads = TxFlags::IPV4_CHECKSUM | TxFlags::L4_CHECKSUM | TxFlags::VLAN;
    Tx::new(rig.ring(), rig.follower(), SIZES, offloads)
}

fn reports(rig: &Rig, slots: std::ops::Range<usize>) -> Vec<usize> {
    slots
        .filter(|&slot| rig.words(slot)[1] & REPORT != 0)
        .collect()
}

fn one_report_for_many<D: Format>() {
    let rig = Rig::new(128, 128, 2048);
    let mut tx = queue::<D>(&rig);
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
fn a_report_is_asked_for_once_in_32_packets_and_once_a_burst() {
    one_report_for_many::<Legacy>();
    one_report_for_many::<Advanced>();
}

fn laps<D: Format>() {
    let rig = Rig::new(32, 200, 2048);
    let mut tx = queue::<D>(&rig);
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
fn frames_come_back_once_and_in_order_over_laps_of_the_ring() {
    laps::<Legacy>();
    laps::<Advanced>();
}

#[test]
fn one_slot_always_stays_with_the_driver() {
    let rig = Rig::new(32, 100, 2048);
    let mut tx = queue::<Legacy>(&rig);
    assert_eq!(tx.burst(&mut rig.burst([60; 40])), 31);
    assert_eq!(tx.burst(&mut rig.burst([60; 1])), 0);
    assert_eq!(
        rig.tails(),
        [31],
        "a tail equal to the head would say that there is nothing"
    );
}

fn resident_between<D: Format>() {
    let rig = Rig::new(64, 100, 2048);
    let mut tx = queue::<D>(&rig);
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
fn resident_frames_are_posted_in_turn_and_never_handed_back() {
    resident_between::<Legacy>();
    resident_between::<Advanced>();
}

#[test]
fn a_frame_that_is_too_long_is_taken_counted_and_comes_back_in_its_place() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue::<Legacy>(&rig);
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
    let mut tx = queue::<Advanced>(&rig);
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
fn a_legacy_context_says_where_checksums_go_and_is_written_when_it_changes() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue::<Legacy>(&rig);
    let both = TxFlags::IPV4_CHECKSUM | TxFlags::L4_CHECKSUM;
    tx.burst(&mut flagged(&rig, both, 0));
    let [first, second] = rig.words(0);
    // tucso 40, tucss 34, ipcse 33, ipcso 24, ipcss 14 (§3.3.6).
    assert_eq!(first.to_le_bytes(), [14, 24, 33, 0, 34, 40, 0, 0]);
    assert_eq!(second, 0x2200_0000, "DEXT and IP, for UDP");
    let [_, second] = rig.words(1);
    // EOP, IFCS, RS, DEXT; data descriptor; 80 bytes; IXSM and TXSM.
    assert_eq!(second, 0x0000_0300_2b10_0050);
    tx.burst(&mut flagged(&rig, TxFlags::L4_CHECKSUM, 0));
    assert_eq!(
        rig.words(2)[1],
        0x0000_0200_2b10_0050,
        "the same context serves"
    );
    tx.burst(&mut flagged(&rig, TxFlags::VLAN, 0x6123));
    assert_eq!(
        rig.words(3)[1],
        0x6123_0000_4b00_0050,
        "EOP, IFCS, RS, VLE, and the tag"
    );
    assert_eq!(rig.tails(), [2, 3, 4]);
}

#[test]
fn an_advanced_context_says_where_headers_are_and_which_tag_to_insert() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue::<Advanced>(&rig);
    let all = TxFlags::IPV4_CHECKSUM | TxFlags::L4_CHECKSUM | TxFlags::VLAN;
    tx.burst(&mut flagged(&rig, all, 0x6123));
    let [first, second] = rig.words(0);
    assert_eq!(
        first,
        0x6123_0000 | 14 << 9 | 20,
        "tag, bytes before IP, bytes of IP"
    );
    assert_eq!(second, 0x2020_0400, "DEXT, context, IPv4");
    // 80 bytes in all, IXSM and TXSM; EOP, IFCS, RS, DEXT, VLE; data descriptor.
    assert_eq!(rig.words(1)[1], 80 << 46 | 0x300 << 32 | 0x6b30_0050);
    tx.burst(&mut flagged(&rig, TxFlags::VLAN, 0x6124));
    assert_eq!(
        rig.words(2)[0] >> 16,
        0x6124,
        "another tag takes another context"
    );
    assert_eq!(rig.tails(), [2, 4]);
}

#[test]
fn the_ipv4_checksum_field_is_zero_when_the_device_sums_over_it() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue::<Legacy>(&rig);
    tx.burst(&mut flagged(&rig, TxFlags::IPV4_CHECKSUM, 0));
    rig.send_all(&mut 0);
    let mut out = Burst::new();
    assert_eq!(tx.reap(&mut out), 1);
    assert_eq!(out.as_slice()[0].bytes()[24..26], [0, 0]);
}

#[test]
fn what_the_port_was_not_started_with_is_not_asked_of_the_device() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = Tx::<_, Legacy>::new(rig.ring(), rig.follower(), SIZES, TxFlags::empty());
    tx.burst(&mut flagged(&rig, TxFlags::VLAN | TxFlags::L4_CHECKSUM, 1));
    assert_eq!(rig.words(0)[1], 0x0b00_0050);
}

#[test]
fn a_packet_in_several_buffers_ends_with_the_last_and_gives_its_whole_length() {
    let rig = Rig::new(32, 40, 2048);
    let mut tx = queue::<Advanced>(&rig);
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
    let mut tx = queue::<Legacy>(&rig);
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
    let mut tx = queue::<Legacy>(&rig);
    tx.burst(&mut rig.burst([60; 10]));
    drop(tx);
    assert_eq!(rig.pool.free(), 30);
    rig.shared.halt();
    assert_eq!(rig.pool.free(), 40);
}
