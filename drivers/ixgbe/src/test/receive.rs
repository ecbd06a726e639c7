use hugemem::Burst;
use port::{QueueState, RxBurst, RxFlags, RxQueue, Signal};

use super::{Registers, Rig};
use crate::desc::{Everything, Lengths, Reading};
use crate::rx::{Reports, Rx};

const REPORTS: Reports = Reports {
    buffer: 256,
    flags: RxFlags::all(),
    doubts_udp: true,
};

fn queue<R: Reading>(rig: &Rig, reports: Reports) -> Rx<Registers, R> {
    Rx::new(rig.ring(), rig.follower(), reports)
}

fn arm<R: Reading>(rig: &Rig, rx: &mut Rx<Registers, R>, count: usize) -> usize {
    let mut empties = Burst::new();
    rig.pool.take_burst(&mut empties, count);
    rx.arm(&mut empties)
}

/// The first word of a completion: a hash, and the kind that it is of.
const FIRST: u64 = 0xdead_beef_0000_0001;
/// In the first word: the device took it for UDP.
const UDP: u64 = 1 << 9;

fn fill(rig: &Rig, slot: usize, len: u64, last: bool, more: u64) {
    fill_as(rig, slot, FIRST, (len, last), more);
}

fn fill_as(rig: &Rig, slot: usize, first: u64, (len, last): (u64, bool), more: u64) {
    let [_, second] = rig.words(slot);
    assert_eq!(second, 0, "slot {slot} is not armed");
    rig.set(slot, [first, len << 32 | 1 | u64::from(last) << 1 | more]);
}

fn laps<R: Reading>() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<R>(&rig, REPORTS);
    assert_eq!(arm(&rig, &mut rx, 40), 31, "one slot stays back");
    assert_eq!((rx.room(), rig.tails()), (0, vec![31]));
    let mut out = RxBurst::default();
    let (mut slot, mut number) = (0, 0);
    for round in 0..40 {
        let count = [1, 5, 17, 31][round % 4];
        let mut lens = Vec::new();
        for _ in 0..count {
            let len = 60 + number % 190;
            fill(&rig, slot, len, true, 0);
            lens.push(usize::try_from(len).unwrap());
            (slot, number) = ((slot + 1) % 32, number + 1);
        }
        assert_eq!(rx.burst(&mut out), count);
        assert_eq!(rx.burst(&mut out), 0, "nothing is handed up twice");
        let got: Vec<_> = out.frames.iter().map(hugemem::Frame::len).collect();
        assert_eq!(got, lens);
        assert_eq!(rx.room(), count);
        let mut empties = std::mem::take(&mut out).frames;
        assert_eq!(rx.arm(&mut empties), count);
        assert_eq!(
            rig.tails().last().copied(),
            Some((u32::try_from(slot).unwrap() + 31) % 32)
        );
    }
    assert!(number > 32 * 3);
}

#[test]
fn a_ring_is_drained_in_order_and_armed_again_lap_after_lap() {
    laps::<Lengths>();
    laps::<Everything>();
}

#[test]
fn a_length_that_no_buffer_has_fails_the_queue_with_a_sentence() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Everything>(&rig, REPORTS);
    arm(&rig, &mut rx, 31);
    fill(&rig, 0, 100, true, 0);
    fill(&rig, 1, 257, true, 0);
    let mut out = RxBurst::default();
    assert_eq!(rx.burst(&mut out), 0);
    assert_eq!(rx.state(), QueueState::Failed);
    let sentence = rig.shared.failure().unwrap();
    assert!(
        sentence.contains("257 bytes") && sentence.contains("256"),
        "{sentence}"
    );
    drop(rx);
    assert_eq!(rig.pool.free(), 9, "the device may still write");
    rig.shared.halt();
    assert_eq!(rig.pool.free(), 40);
}

#[test]
fn a_packet_in_several_buffers_waits_for_its_end_which_speaks_for_its_first() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Everything>(&rig, REPORTS);
    arm(&rig, &mut rx, 31);
    let mut out = RxBurst::default();
    fill(&rig, 0, 80, true, 0);
    fill(&rig, 1, 256, false, 0);
    fill(&rig, 2, 256, false, 0);
    assert_eq!(rx.burst(&mut out), 1, "what came before it does not wait");
    assert_eq!(rx.burst(&mut out), 0);
    // Tag 0x0123, its presence, and IPv4 looked at and wrong.
    fill(&rig, 3, 33, true, 0x0123 << 48 | 1 << 3 | 1 << 6 | 1 << 31);
    assert_eq!(rx.burst(&mut out), 3);
    let said: Vec<_> = out.meta[1..4].iter().map(|meta| meta.flags).collect();
    let first = RxFlags::MORE | RxFlags::VLAN | RxFlags::IPV4_BAD | RxFlags::HASH;
    assert_eq!(said, [first, RxFlags::MORE, RxFlags::empty()]);
    assert_eq!(out.meta[1].vlan, 0x0123);
}

#[test]
fn a_packet_longer_than_what_is_armed_is_given_out_in_parts() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Everything>(&rig, REPORTS);
    arm(&rig, &mut rx, 4);
    let mut out = RxBurst::default();
    for slot in 0..4 {
        assert_eq!(rx.burst(&mut out), 0, "the end may still come");
        fill(&rig, slot, 256, false, 0);
    }
    assert_eq!(
        rx.burst(&mut out),
        4,
        "or not: then the device needs buffers"
    );
    arm(&rig, &mut rx, 4);
    fill(&rig, 4, 10, true, 1 << 3);
    assert_eq!(rx.burst(&mut out), 1);
    let flags: Vec<_> = out.meta[..5].iter().map(|meta| meta.flags).collect();
    assert_eq!(flags[..4], [RxFlags::MORE; 4]);
    assert_eq!(
        flags[4],
        RxFlags::empty(),
        "a part that continues has no tag of its own"
    );
}

#[test]
fn hash_verdicts_and_tag_are_said_as_the_format_has_them() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Everything>(&rig, REPORTS);
    arm(&rig, &mut rx, 31);
    let looked = 1 << 5 | 1 << 6;
    fill(&rig, 0, 60, true, looked);
    fill(&rig, 1, 60, true, looked | 1 << 30);
    fill(&rig, 2, 60, true, looked | 1 << 31);
    fill(&rig, 3, 60, true, 1 << 29);
    fill(&rig, 4, 60, true, 0x2001 << 48 | 1 << 3);
    fill_as(&rig, 5, 0xdead_beef_0000_0000, (60, true), 0);
    let mut out = RxBurst::default();
    assert_eq!(rx.burst(&mut out), 6);
    let flags: Vec<_> = out.meta[..6].iter().map(|meta| meta.flags).collect();
    let hash = RxFlags::HASH;
    assert_eq!(
        flags,
        [
            hash | RxFlags::IPV4_GOOD | RxFlags::L4_GOOD,
            hash | RxFlags::IPV4_GOOD | RxFlags::L4_BAD,
            hash | RxFlags::IPV4_BAD | RxFlags::L4_GOOD,
            hash | RxFlags::ERROR,
            hash | RxFlags::VLAN,
            RxFlags::empty(),
        ]
    );
    assert_eq!((out.meta[0].hash, out.meta[4].vlan), (0xdead_beef, 0x2001));
}

#[test]
fn a_queue_that_was_asked_for_lengths_says_nothing_else_but_damage() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Lengths>(&rig, REPORTS);
    arm(&rig, &mut rx, 31);
    fill(&rig, 0, 60, true, 0x2001 << 48 | 1 << 3 | 1 << 5 | 1 << 30);
    fill(&rig, 1, 61, true, 1 << 29);
    let mut out = RxBurst::default();
    assert_eq!(rx.burst(&mut out), 2);
    assert_eq!(out.meta[0], port::RxMeta::default());
    assert_eq!(out.meta[1].flags, RxFlags::ERROR);
}

#[test]
fn what_was_not_asked_for_is_not_said() {
    let rig = Rig::new(32, 40, 256);
    let reports = Reports {
        flags: RxFlags::HASH | RxFlags::ERROR,
        ..REPORTS
    };
    let mut rx = queue::<Everything>(&rig, reports);
    arm(&rig, &mut rx, 31);
    fill(&rig, 0, 60, true, 0x2001 << 48 | 1 << 3 | 1 << 5 | 1 << 6);
    let mut out = RxBurst::default();
    assert_eq!(rx.burst(&mut out), 1);
    assert_eq!((out.meta[0].flags, out.meta[0].vlan), (RxFlags::HASH, 0));
}

/// A UDP datagram of IPv4 with checksum `sum`, as the device leaves it in the buffer that it fills
/// next.
fn datagram(rig: &Rig, sum: [u8; 2]) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    (bytes[14], bytes[23]) = (0x45, 17);
    bytes[40..42].copy_from_slice(&sum);
    assert!(rig.pool.free() > 0);
    bytes
}

#[test]
fn a_datagram_without_a_checksum_that_82599_takes_for_wrong_has_no_verdict() {
    for (doubts, sum, first, bad) in [
        (true, [0, 0], FIRST | UDP, false),
        (true, [0, 7], FIRST | UDP, true),
        (false, [0, 0], FIRST | UDP, true),
        (true, [0, 0], FIRST, true),
    ] {
        let rig = Rig::new(32, 40, 256);
        let reports = Reports {
            doubts_udp: doubts,
            ..REPORTS
        };
        let mut rx = queue::<Everything>(&rig, reports);
        let mut empties = Burst::new();
        let mut frame = rig.take();
        frame.fill(&datagram(&rig, sum));
        empties.push(frame).unwrap();
        assert_eq!(rx.arm(&mut empties), 1);
        fill_as(&rig, 0, first, (60, true), 1 << 5 | 1 << 30);
        let mut out = RxBurst::default();
        assert_eq!(rx.burst(&mut out), 1);
        let says = out.meta[0].flags.contains(RxFlags::L4_BAD);
        assert_eq!(says, bad, "{doubts} {sum:?} {first:#x}");
    }
}

#[test]
fn a_ring_that_starts_over_has_its_frames_armed_from_the_first_slot_on() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Everything>(&rig, REPORTS);
    arm(&rig, &mut rx, 20);
    for slot in 0..5 {
        fill(&rig, slot, 60, true, 0);
    }
    let mut out = RxBurst::default();
    rx.burst(&mut out);
    let armed: Vec<_> = (5..20).map(|slot| rig.words(slot)).collect();
    rig.shared.set(Signal::pause(2));
    assert_eq!(rx.burst(&mut out), 0);
    assert!(rig.shared.all_clear(2));
    assert_eq!(rig.tails(), [20], "a paused queue tells the device nothing");
    rig.shared.set(Signal::run(2));
    assert_eq!(rx.burst(&mut out), 0);
    assert_eq!(rig.tails(), [20, 15]);
    assert_eq!(
        (0..15).map(|slot| rig.words(slot)).collect::<Vec<_>>(),
        armed
    );
    assert_eq!(rx.room(), 16);
}

#[test]
#[should_panic(expected = "holds what the port was started for")]
fn a_frame_too_small_for_the_device_is_never_armed() {
    let rig = Rig::new(32, 40, 255);
    arm(&rig, &mut queue::<Everything>(&rig, REPORTS), 1);
}
