use std::sync::Arc;

use hugemem::Burst;
use port::{QueueState, RxBurst, RxFlags, RxQueue, Signal};

use super::{BAD_IPV4, BAD_L4, FILLED, LAST, Registers, Rig, STRIPPED, Simple, UDP};
use crate::vlans::Vlans;
use crate::{Reports, Rx};

const REPORTS: Reports = Reports {
    buffer: 256,
    flags: RxFlags::all(),
    put_tags_back: false,
    doubts_udp: false,
};

fn queue(rig: &Rig, reports: Reports) -> Rx<Registers, Simple> {
    Rx::new(rig.ring(), rig.follower(), reports)
}

fn arm(rig: &Rig, rx: &mut Rx<Registers, Simple>, count: usize) -> usize {
    let mut empties = Burst::new();
    rig.pool.take_burst(&mut empties, count);
    rx.arm(&mut empties)
}

/// Fills the armed slot `slot` with `len` bytes, and says `more` of them.
fn fill(rig: &Rig, slot: usize, len: u64, more: u64) {
    let [first, second] = rig.words(slot);
    assert_eq!(second, 0, "slot {slot} is not armed");
    rig.set(slot, [first & !UDP, len << 32 | FILLED | more]);
}

#[test]
fn a_ring_is_drained_in_order_and_armed_again_lap_after_lap() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue(&rig, REPORTS);
    assert_eq!(arm(&rig, &mut rx, 40), 31, "one slot stays back");
    assert_eq!((rx.room(), rig.tails()), (0, vec![31]));
    let mut out = RxBurst::default();
    let (mut slot, mut number) = (0, 0);
    for round in 0..40 {
        let count = [1, 5, 17, 31][round % 4];
        let mut lens = Vec::new();
        for _ in 0..count {
            let len = 60 + number % 190;
            fill(&rig, slot, len, LAST);
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
fn a_length_that_no_buffer_has_fails_the_queue_with_a_sentence() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue(&rig, REPORTS);
    arm(&rig, &mut rx, 31);
    fill(&rig, 0, 100, LAST);
    fill(&rig, 1, 257, LAST);
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
    let mut rx = queue(&rig, REPORTS);
    arm(&rig, &mut rx, 31);
    let mut out = RxBurst::default();
    fill(&rig, 0, 80, LAST);
    fill(&rig, 1, 256, 0);
    fill(&rig, 2, 256, 0);
    assert_eq!(rx.burst(&mut out), 1, "what came before it does not wait");
    assert_eq!(rx.burst(&mut out), 0);
    fill(&rig, 3, 33, LAST | 0x0123 << 48 | STRIPPED | BAD_IPV4);
    assert_eq!(rx.burst(&mut out), 3);
    let said: Vec<_> = out.meta[1..4].iter().map(|meta| meta.flags).collect();
    let first = RxFlags::MORE | RxFlags::VLAN | RxFlags::IPV4_BAD;
    assert_eq!(said, [first, RxFlags::MORE, RxFlags::empty()]);
    assert_eq!(out.meta[1].vlan, 0x0123);
}

#[test]
fn a_packet_longer_than_what_is_armed_is_given_out_in_parts() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue(&rig, REPORTS);
    arm(&rig, &mut rx, 4);
    let mut out = RxBurst::default();
    for slot in 0..4 {
        assert_eq!(rx.burst(&mut out), 0, "the end may still come");
        fill(&rig, slot, 256, 0);
    }
    assert_eq!(
        rx.burst(&mut out),
        4,
        "or not: then the device needs buffers"
    );
    arm(&rig, &mut rx, 4);
    fill(&rig, 4, 10, LAST | STRIPPED);
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
    let mut rx = queue(&rig, reports);
    arm(&rig, &mut rx, 31);
    fill(&rig, 0, 60, LAST | 0x2001 << 48 | STRIPPED);
    fill(&rig, 1, 254, LAST | 0x2002 << 48 | STRIPPED);
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
fn a_virtual_function_hears_nothing_of_the_vlan_that_its_host_put_it_into() {
    for put_tags_back in [false, true] {
        let rig = Rig::new(32, 40, 256);
        let own = Arc::new(Vlans::default());
        own.set(&[5, 4095]);
        let reports = Reports {
            put_tags_back,
            ..REPORTS
        };
        let mut rx = queue(&rig, reports).hiding_tags_but(Some(own));
        arm(&rig, &mut rx, 31);
        // The host's, its own two, and no VLAN but a priority.
        let tags = [0x2064_u16, 0x2005, 0x0fff, 0x6000];
        for (slot, tag) in tags.into_iter().enumerate() {
            fill(&rig, slot, 60, LAST | u64::from(tag) << 48 | STRIPPED);
        }
        let mut out = RxBurst::default();
        assert_eq!(rx.burst(&mut out), 4);
        let first = out.frames.get(0).unwrap();
        let seen = out.meta[0].flags.contains(RxFlags::VLAN);
        assert_eq!((first.len(), seen, out.meta[0].vlan), (60, false, 0));
        for (n, tag) in tags.into_iter().enumerate().skip(1) {
            let frame = out.frames.get(n).unwrap();
            if put_tags_back {
                assert_eq!(frame.bytes()[14..16], tag.to_be_bytes());
            } else {
                assert_eq!((frame.len(), out.meta[n].vlan), (60, tag));
            }
        }
    }
}

#[test]
fn a_datagram_without_a_checksum_is_no_bad_one_where_the_device_cannot_tell() {
    // UDP on IPv4, with and without a checksum.
    let mut datagram = [0; 60];
    datagram[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    datagram[23] = 17;
    let said = |doubts_udp, sum: [u8; 2], kind: u64| {
        let rig = Rig::new(32, 40, 256);
        let reports = Reports {
            doubts_udp,
            ..REPORTS
        };
        let mut rx = queue(&rig, reports);
        let mut empties = rig.burst([60]);
        datagram[40..42].copy_from_slice(&sum);
        empties.as_mut_slice()[0].fill(&datagram);
        rx.arm(&mut empties);
        fill(&rig, 0, 60, LAST | BAD_L4);
        let [first, second] = rig.words(0);
        rig.set(0, [first | kind, second]);
        let mut out = RxBurst::default();
        assert_eq!(rx.burst(&mut out), 1);
        out.meta[0].flags.contains(RxFlags::L4_BAD)
    };
    let mut said = said;
    assert!(!said(true, [0, 0], UDP));
    assert!(said(true, [0, 1], UDP), "a wrong one is wrong");
    assert!(said(true, [0, 0], 0), "as is TCP's");
    assert!(
        said(false, [0, 0], UDP),
        "a device that can tell is believed"
    );
}

#[test]
fn a_ring_that_starts_over_has_its_frames_armed_from_the_first_slot_on() {
    let rig = Rig::new(32, 40, 256);
    let mut rx = queue(&rig, REPORTS);
    arm(&rig, &mut rx, 20);
    for slot in 0..5 {
        fill(&rig, slot, 60, LAST);
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
    // And what comes then is looked for there.
    fill(&rig, 0, 77, LAST);
    assert_eq!(rx.burst(&mut out), 1);
    assert_eq!(out.frames.iter().last().map(hugemem::Frame::len), Some(77));
}

#[test]
#[should_panic(expected = "holds what the port was started for")]
fn a_frame_too_small_for_the_device_is_never_armed() {
    let rig = Rig::new(32, 40, 255);
    arm(&rig, &mut queue(&rig, REPORTS), 1);
}
