use hugemem::Burst;
use port::{QueueState, RxBurst, RxFlags, RxQueue, Signal};

use super::{Registers, Rig};
use crate::desc::{Advanced, Format, Legacy};
use crate::rx::{Reports, Rx};

const REPORTS: Reports = Reports {
    buffer: 256,
    flags: RxFlags::all(),
    put_tags_back: false,
};

fn queue<D: Format>(rig: &Rig, reports: Reports) -> Rx<Registers, D> {
    Rx::new(rig.ring(), rig.follower(), reports)
}

fn arm<D: Format>(rig: &Rig, rx: &mut Rx<Registers, D>, count: usize) -> usize {
    let mut empties = Burst::new();
    rig.pool.take_burst(&mut empties, count);
    rx.arm(&mut empties)
}

/// A completion in the format `D`, with status bits as the format has them.
trait Fills: Format {
    fn fill(rig: &Rig, slot: usize, len: u64, last: bool, more: u64);
}

impl Fills for Legacy {
    fn fill(rig: &Rig, slot: usize, len: u64, last: bool, more: u64) {
        let [first, second] = rig.words(slot);
        assert_eq!(second, 0, "slot {slot} is not armed");
        rig.set(slot, [first, len | 1 << 32 | u64::from(last) << 33 | more]);
    }
}

impl Fills for Advanced {
    fn fill(rig: &Rig, slot: usize, len: u64, last: bool, more: u64) {
        let [_, second] = rig.words(slot);
        assert_eq!(second, 0, "slot {slot} is not armed");
        rig.set(
            slot,
            [
                0xdead_beef_0000_0001,
                len << 32 | 1 | u64::from(last) << 1 | more,
            ],
        );
    }
}

fn laps<D: Fills>() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<D>(&rig, REPORTS);
    assert_eq!(arm(&rig, &mut rx, 40), 31, "one slot stays back");
    assert_eq!((rx.room(), rig.tails()), (0, vec![31]));
    let mut out = RxBurst::default();
    let (mut slot, mut number) = (0, 0);
    for round in 0..40 {
        let count = [1, 5, 17, 31][round % 4];
        let mut lens = Vec::new();
        for _ in 0..count {
            let len = 60 + number % 190;
            D::fill(&rig, slot, len, true, 0);
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
    laps::<Legacy>();
    laps::<Advanced>();
}

#[test]
fn a_length_that_no_buffer_has_fails_the_queue_with_a_sentence() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Advanced>(&rig, REPORTS);
    arm(&rig, &mut rx, 31);
    Advanced::fill(&rig, 0, 100, true, 0);
    Advanced::fill(&rig, 1, 257, true, 0);
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
    let mut rx = queue::<Legacy>(&rig, REPORTS);
    arm(&rig, &mut rx, 31);
    let mut out = RxBurst::default();
    Legacy::fill(&rig, 0, 80, true, 0);
    Legacy::fill(&rig, 1, 256, false, 0);
    Legacy::fill(&rig, 2, 256, false, 0);
    assert_eq!(rx.burst(&mut out), 1, "what came before it does not wait");
    assert_eq!(rx.burst(&mut out), 0);
    // Tag 0x0123, its presence, and IPv4 looked at and wrong.
    Legacy::fill(
        &rig,
        3,
        33,
        true,
        0x0123 << 48 | 1 << 35 | 1 << 38 | 1 << 46,
    );
    assert_eq!(rx.burst(&mut out), 3);
    let said: Vec<_> = out.meta[1..4].iter().map(|meta| meta.flags).collect();
    let first = RxFlags::MORE | RxFlags::VLAN | RxFlags::IPV4_BAD;
    assert_eq!(said, [first, RxFlags::MORE, RxFlags::empty()]);
    assert_eq!(out.meta[1].vlan, 0x0123);
}

#[test]
fn a_packet_longer_than_what_is_armed_is_given_out_in_parts() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Legacy>(&rig, REPORTS);
    arm(&rig, &mut rx, 4);
    let mut out = RxBurst::default();
    for slot in 0..4 {
        assert_eq!(rx.burst(&mut out), 0, "the end may still come");
        Legacy::fill(&rig, slot, 256, false, 0);
    }
    assert_eq!(
        rx.burst(&mut out),
        4,
        "or not: then the device needs buffers"
    );
    arm(&rig, &mut rx, 4);
    Legacy::fill(&rig, 4, 10, true, 1 << 35);
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
fn a_tag_that_nobody_asked_to_strip_is_put_back() {
    let rig = Rig::new(32, 40, 256);
    let reports = Reports {
        put_tags_back: true,
        ..REPORTS
    };
    let mut rx = queue::<Advanced>(&rig, reports);
    arm(&rig, &mut rx, 31);
    Advanced::fill(&rig, 0, 60, true, 0x2001 << 48 | 1 << 3);
    Advanced::fill(&rig, 1, 254, true, 0x2002 << 48 | 1 << 3);
    let mut out = RxBurst::default();
    assert_eq!(rx.burst(&mut out), 2);
    let frame = out.frames.get(0).unwrap();
    assert_eq!(
        (frame.len(), &frame.bytes()[12..16]),
        (64, &[0x81, 0, 0x20, 1][..])
    );
    assert!(!out.meta[0].flags.contains(RxFlags::VLAN));
    assert_eq!(out.frames.get(1).unwrap().len(), 254, "there is no room");
    assert_eq!(
        (out.meta[1].vlan, out.meta[1].flags.contains(RxFlags::VLAN)),
        (0x2002, true)
    );
}

#[test]
fn hash_and_verdicts_are_said_as_the_formats_have_them() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Advanced>(&rig, REPORTS);
    arm(&rig, &mut rx, 31);
    // L4CS and IPCS; the second with L4E.
    Advanced::fill(&rig, 0, 60, true, 0x60);
    Advanced::fill(&rig, 1, 60, true, 0x60 | 1 << 29);
    Advanced::fill(&rig, 2, 60, true, 1 << 31);
    let mut out = RxBurst::default();
    rx.burst(&mut out);
    let good = RxFlags::HASH | RxFlags::IPV4_GOOD;
    assert_eq!(out.meta[0].flags, good | RxFlags::L4_GOOD);
    assert_eq!(out.meta[0].hash, 0xdead_beef);
    assert_eq!(out.meta[1].flags, good | RxFlags::L4_BAD);
    assert_eq!(out.meta[2].flags, RxFlags::HASH | RxFlags::ERROR);

    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Legacy>(&rig, REPORTS);
    arm(&rig, &mut rx, 31);
    // TCPCS and IPCS; with TCPE; with IXSM, under which the rest means nothing; with CE.
    let looked = 1 << 37 | 1 << 38;
    Legacy::fill(&rig, 0, 60, true, looked);
    Legacy::fill(&rig, 1, 60, true, looked | 1 << 45);
    Legacy::fill(&rig, 2, 60, true, looked | 1 << 34 | 1 << 45);
    Legacy::fill(&rig, 3, 60, true, 1 << 40);
    let mut out = RxBurst::default();
    rx.burst(&mut out);
    let flags: Vec<_> = out.meta[..4].iter().map(|meta| meta.flags).collect();
    let good = RxFlags::IPV4_GOOD;
    assert_eq!(
        flags,
        [
            good | RxFlags::L4_GOOD,
            good | RxFlags::L4_BAD,
            RxFlags::empty(),
            RxFlags::ERROR
        ]
    );
}

#[test]
fn a_ring_that_starts_over_has_its_frames_armed_from_the_first_slot_on() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue::<Legacy>(&rig, REPORTS);
    arm(&rig, &mut rx, 20);
    for slot in 0..5 {
        Legacy::fill(&rig, slot, 60, true, 0);
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
    arm(&rig, &mut queue::<Legacy>(&rig, REPORTS), 1);
}
