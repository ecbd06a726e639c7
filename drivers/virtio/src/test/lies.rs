//! Devices that lie: the queue fails, says why, and loses no frame.

use hugemem::{Burst, Resident};
use port::{QueueId, QueueState, RxBurst, RxFlags};
use std::sync::Arc;

use super::device::End;
use super::{Rig, content, kinds};
use crate::features::Features;

/// Sends five frames, lets the device lie, and sees the queue fail with `words`.
fn sending(features: Features, words: &str, lie: impl Fn(&mut End)) {
    let rig = Rig::new(features, 16, 32, 64);
    let (mut tx, mut end) = (rig.tx(), rig.end(1));
    let mut burst = Burst::new();
    for n in 0..5 {
        burst.push(rig.frame(n, 60)).unwrap();
    }
    assert_eq!(tx.burst(&mut burst), 5);
    lie(&mut end);
    let mut out = Burst::new();
    for _ in 0..3 {
        tx.reap(&mut out);
        tx.poll();
    }
    assert_eq!(tx.state(), QueueState::Failed, "{features:?}: {words}");
    let why = rig.shared.failure().unwrap();
    assert!(why.contains(words), "{why}");
    burst.push(rig.frame(9, 60)).unwrap();
    assert_eq!(tx.burst(&mut burst), 0, "a failed queue takes nothing");
    let counts = tx.counts();
    assert_eq!(counts.posted, 5);
    assert_eq!(counts.in_flight(), 0, "what became of them cannot be known");
    let bytes = rig.shared.counts(QueueId::Tx(0)).bytes.get();
    assert_eq!(bytes, counts.completed * 64, "bytes of frames that left");
    drop((burst, out, tx));
    rig.shared.halt();
    assert_eq!(rig.pool.free(), 32);
}

#[test]
fn a_number_that_no_buffer_has_fails_the_queue() {
    for (features, _) in kinds() {
        if features == Features::IN_ORDER {
            continue; // It reads the index alone.
        }
        for id in [5, 15, 16, 0x7fff, 0xffff] {
            sending(features, "which it does not have", |end| {
                end.write_used(id, 0);
            });
        }
    }
    sending(Features::empty(), "which it does not have", |end| {
        end.write_used(0xffff_0000, 0);
    });
}

#[test]
fn a_buffer_that_is_used_twice_fails_the_queue() {
    for (features, _) in kinds() {
        if features.contains(Features::IN_ORDER) {
            continue; // Its second notice would tell of the next lap.
        }
        sending(features, "which it does not have", |end| {
            let chains = end.take_all();
            end.give(&chains[2], 0);
            end.write_used(2, 0);
        });
    }
}

#[test]
fn an_index_that_jumps_fails_the_queue() {
    for features in [Features::empty(), Features::IN_ORDER] {
        for index in [6, 100, 0x8000, 0xffff] {
            sending(features, "more than it has", |end| {
                end.set_used_index(index);
            });
        }
    }
}

#[test]
fn an_index_that_jumps_over_resident_frames_fails_the_queue() {
    let rig = Rig::new(Features::empty(), 16, 8, 64);
    let (mut tx, mut end) = (rig.tx(), rig.end(1));
    tx.load(Arc::new(Resident::new(
        (0..4).map(|n| rig.frame(n, 60)).collect(),
    )));
    assert_eq!(tx.burst_resident(0, 6), 6);
    assert_eq!(end.take_all().len(), 6);
    end.set_used_index(7);
    tx.poll();
    assert_eq!(tx.state(), QueueState::Failed);
    assert!(rig.shared.failure().unwrap().starts_with("send queue 0: "));
    let bytes = rig.shared.counts(QueueId::Tx(0)).bytes.get();
    assert_eq!(bytes, tx.counts().completed * 64);
}

/// Arms five frames, lets the device lie, and sees the queue fail with `words`.
fn receiving(features: Features, words: &str, lie: impl Fn(&mut End)) {
    let rig = Rig::new(features, 16, 32, 256);
    let (mut rx, mut end) = (rig.rx(), rig.end(0));
    let mut empties = Burst::new();
    rig.pool.take_burst(&mut empties, 5);
    assert_eq!(rx.arm(&mut empties), 5);
    lie(&mut end);
    let mut out = RxBurst::default();
    for _ in 0..8 {
        rx.burst(&mut out);
    }
    assert_eq!(rx.state(), QueueState::Failed, "{features:?}: {words}");
    let why = rig.shared.failure().unwrap();
    assert!(why.contains(words), "{why}");
    assert_eq!(rx.burst(&mut out), 0);
    let metas = &out.meta[..out.frames.len()];
    let good = metas
        .iter()
        .filter(|meta| !meta.flags.contains(RxFlags::ERROR));
    let counted = rig.shared.counts(QueueId::Rx(0)).frames.get();
    assert_eq!(counted, good.count() as u64, "{features:?}: {words}");
    drop((rx, out));
    rig.shared.halt();
    assert_eq!(rig.pool.free(), 32);
}

#[test]
fn a_received_buffer_that_nobody_armed_fails_the_queue() {
    for (features, _) in kinds() {
        for id in [5, 15, 16, 0xffff] {
            receiving(features, "which it does not have", |end| {
                end.write_used(id, 72);
            });
        }
    }
}

#[test]
fn a_length_beyond_the_buffer_fails_the_queue() {
    for (features, _) in kinds() {
        for len in [269, 0x1_0000, 0xffff_ffff] {
            receiving(features, "holds fewer", |end| end.write_used(0, len));
        }
        let merge = features | Features::MRG_RXBUF;
        receiving(merge, "holds fewer", |end| end.write_used(0, 257));
    }
}

#[test]
fn a_receive_index_that_jumps_fails_the_queue() {
    for features in [Features::empty(), Features::IN_ORDER] {
        receiving(features, "more than it has", |end| end.set_used_index(6));
        receiving(features, "more than it has", |end| {
            end.set_used_index(0xffff);
        });
    }
}

#[test]
fn a_frame_in_no_buffer_or_too_many_fails_the_queue() {
    for (features, _) in kinds() {
        for buffers in [0u16, 0x8001, 0xffff] {
            receiving(features | Features::MRG_RXBUF, "put a frame into", |end| {
                let chain = end.take().unwrap();
                let [low, high] = buffers.to_le_bytes();
                let header = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, low, high];
                let len = end.write(&chain, &[&header[..], &content(1, 60)].concat());
                end.give(&chain, len);
            });
        }
    }
}
