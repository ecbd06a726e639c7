//! Frames over rings, lap after lap, in every size.

use hw::Bar;
use models::e1000::Kind;

use crate::guest::{EOP, Guest, IFCS, LONG, RECEIVE, RS, Wish, assert_clean, frame, low, rig};

/// Every device and descriptor format that two ends may have.
fn formats() -> [(Kind, bool); 4] {
    [
        (Kind::E1000, false),
        (Kind::E1000e, false),
        (Kind::E1000e, true),
        (Kind::Igb, true),
    ]
}

fn wish(extended: bool) -> Wish {
    Wish {
        extended,
        ..Wish::default()
    }
}

#[test]
fn frames_arrive_whole_and_in_order_for_many_laps() {
    for (kind, extended) in formats() {
        let (sim, mut a, mut b) = rig(kind, &wish(extended));
        let mut number = 0;
        for lap in 0..20u64 {
            let sent: Vec<Vec<u8>> = (0..lap % 7 + 1)
                .map(|n| frame(number + n, 60 + usize::try_from(number + n).unwrap()))
                .collect();
            number += sent.len() as u64;
            assert!(sent.iter().all(|frame| a.send(frame)));
            sim.settle();
            assert_eq!(b.receive(), sent, "{kind:?}");
        }
        assert!(number > 24, "three laps of eight slots");
        assert_eq!(a.reap(0), 6, "the last lap's");
        assert_clean(&sim);
        assert_eq!(sim.counters(0).tx_frames, number);
        assert_eq!(sim.counters(1).rx_frames, number);
    }
}

#[test]
fn one_slot_always_stays_back_and_what_finds_none_is_counted() {
    for (kind, extended) in formats() {
        let (sim, mut a, mut b) = rig(kind, &wish(extended));
        for round in 0..4 {
            let sent: Vec<_> = (0..7).map(|n| frame(round * 9 + n, 64)).collect();
            assert!(sent.iter().all(|frame| a.send(frame)));
            sim.settle();
            let more = [frame(100, 64), frame(101, 64)];
            assert!(more.iter().all(|frame| a.send(frame)));
            sim.settle();
            assert_eq!(b.receive(), sent, "{kind:?}: seven of eight");
        }
        assert_eq!(sim.counters(1).rx_no_buffer, 8);
        assert_clean(&sim);
        if kind == Kind::Igb {
            assert_eq!(b.bar.load32(0xc030), 8, "RQDPC, with DROP_EN");
            assert_eq!(b.bar.load32(0xc030), 0, "cleared by being read");
            assert_eq!(b.bar.load32(0x4010), 0, "MPC");
        } else {
            assert_eq!(b.bar.load32(0x4010), 8, "MPC");
            assert_eq!(b.bar.load32(0x40a0), 8, "RNBC");
            assert_eq!(b.bar.load32(0x4010), 0);
        }
    }
}

#[test]
fn without_drop_enable_missed_frames_are_the_whole_ports() {
    let wish = Wish {
        drop: false,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(Kind::Igb, &wish);
    for n in 0..7 {
        assert!(a.send(&frame(n, 64)));
    }
    sim.settle();
    assert!(a.send(&frame(7, 64)));
    sim.settle();
    assert_eq!((b.bar.load32(0xc030), b.bar.load32(0x4010)), (0, 1));
    assert_eq!(b.receive().len(), 7);
    assert_clean(&sim);
}

#[test]
fn long_frames_fill_several_buffers_of_every_size() {
    let sizes = [256, 512, 1024, 2048, 4096, 8192, 16_384];
    for (kind, extended) in formats() {
        for buffer in sizes {
            if kind == Kind::Igb && buffer < 1024 {
                continue;
            }
            let wish = Wish {
                slots: 64,
                buffer,
                extended,
                rctl: RECEIVE | LONG,
                ..Wish::default()
            };
            let (sim, mut a, mut b) = rig(kind, &wish);
            let size = buffer as usize;
            for len in [60, size - 1, size, size + 1, 2 * size, 9000] {
                let len = len.clamp(60, 9000);
                let sent = frame(len as u64, len);
                assert!(a.send(&sent));
                sim.settle();
                let got = b.receive_on(0);
                assert_eq!(got.len(), 1, "{kind:?} {buffer} {len}");
                assert_eq!(got[0].bytes, sent);
                assert_eq!(got[0].pieces as usize, len.div_ceil(size));
            }
            assert_clean(&sim);
        }
    }
}

#[test]
fn the_fcs_counts_in_the_length_unless_it_is_cut_off() {
    for (kind, extended) in formats() {
        let wish = Wish {
            rctl: RECEIVE & !(1 << 26),
            extended,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(kind, &wish);
        let sent = frame(1, 60);
        assert!(a.send(&sent));
        sim.settle();
        let got = b.receive();
        assert_eq!(got[0].len(), 64, "{kind:?}");
        assert_eq!(got[0][..60], sent);
        assert_ne!(got[0][60..], [0; 4], "a real one");
        assert_clean(&sim);
    }
}

/// Sends one frame as several descriptors, cut at `cuts`.
fn send_cut(guest: &mut Guest, bytes: &[u8], cuts: &[usize]) {
    let mut from = 0;
    for (n, &to) in cuts.iter().enumerate() {
        let last = n + 1 == cuts.len();
        let part = &bytes[from..to];
        let whole = guest.command(bytes.len());
        let command = whole & !0xffff & !(EOP | RS) | part.len() as u64;
        let command = if last { command | EOP | RS } else { command };
        assert!(guest.post(0, part, command));
        from = to;
    }
    guest.ring_bell(0);
}

#[test]
fn a_frame_may_lie_in_several_descriptors_and_a_part_of_it_waits() {
    for (kind, extended) in formats() {
        let (sim, mut a, mut b) = rig(kind, &wish(extended));
        for round in 0..12 {
            let sent = frame(round, 200);
            send_cut(&mut a, &sent, &[14, 60, 200]);
            sim.settle();
            assert_eq!(b.receive(), [&sent[..]], "{kind:?} {round}");
        }
        let sent = frame(99, 100);
        let command = a.command(100) & !0xffff & !(EOP | RS) | 50;
        assert!(a.post(0, &sent[..50], command));
        a.ring_bell(0);
        sim.settle();
        assert_eq!(b.receive(), [[0; 0]; 0], "only half of it is there");
        let command = a.command(100) & !0xffff | 50;
        assert!(a.post(0, &sent[50..], command));
        a.ring_bell(0);
        sim.settle();
        assert_eq!(b.receive(), [sent]);
        assert_clean(&sim);
    }
}

#[test]
fn only_descriptors_that_ask_for_it_are_marked_done() {
    for (kind, extended) in formats() {
        let (sim, mut a, mut b) = rig(kind, &wish(extended));
        for n in 0..4 {
            let command = a.command(60) & !RS;
            assert!(a.post(0, &frame(n, 60), command));
        }
        let command = a.command(60);
        assert!(a.post(0, &frame(4, 60), command));
        a.ring_bell(0);
        sim.settle();
        let done: Vec<bool> = (0..5).map(|n| a.tx[0].get(n)[1] >> 32 & 1 == 1).collect();
        assert_eq!(done, [false, false, false, false, true], "{kind:?}");
        assert_eq!(a.bar.load32(a.tx[0].base + 0x10), 5, "the head");
        assert_eq!(a.reap(0), 5);
        assert_eq!(b.receive().len(), 5);
        assert_clean(&sim);
    }
}

#[test]
fn the_head_is_written_to_memory_instead_where_that_is_asked_for() {
    let (sim, mut a, mut b) = rig(Kind::Igb, &Wish::default());
    let place = a.rx[0].bytes.iova().get();
    a.bar.store32(0xe038, low(place) | 1);
    a.bar.store32(0xe03c, low(place >> 32));
    for lap in 0..10u32 {
        let (before, sent) = (a.tx[0].post, frame(u64::from(lap), 60));
        let ring = &mut a.tx[0];
        ring.write(before, &sent);
        let command = 60 | EOP | IFCS | RS | 1 << 29 | 3 << 20 | 60 << 46;
        ring.set(before, [ring.buffer(before), command]);
        ring.post = ring.after(before);
        a.ring_bell(0);
        sim.settle();
        assert_eq!(a.tx[0].get(before)[1], command, "left alone");
        let head = u32::from(a.rx[0].bytes[0].load(std::sync::atomic::Ordering::Acquire));
        assert_eq!(head, a.tx[0].post);
        assert_eq!(b.receive(), [sent]);
    }
    assert_clean(&sim);
}

#[test]
fn short_frames_are_padded() {
    for (kind, extended) in formats() {
        let (sim, mut a, mut b) = rig(kind, &wish(extended));
        let sent = frame(1, 20);
        assert!(a.send(&sent));
        sim.settle();
        let mut padded = sent;
        padded.resize(60, 0);
        assert_eq!(b.receive(), [padded], "{kind:?}");
        assert_clean(&sim);
    }
}
