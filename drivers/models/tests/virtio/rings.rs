//! Frames through every kind of ring, three laps and more, byte for byte.

use crate::driver::{
    BASE, EVENT_IDX, GUEST_CSUM, IN_ORDER, INDIRECT, MRG, PACKED, VERSION_1, Wish, frame, rig,
};
use models::virtio::{Identity, Notify, VirtioOptions};
use models::{Sim, WireOptions};

use crate::driver::Driver;

/// Every kind of frame length, padding included; bursts that do not divide the ring.
fn lengths() -> impl Iterator<Item = usize> {
    (14..120).chain((120..1514).step_by(97)).chain([1513, 1514])
}

/// Sends every length both ways in odd bursts, and checks each frame on the other side.
fn laps(sim: &Sim, a: &mut Driver, b: &mut Driver) {
    for (from, to) in [(0, 1), (1, 0)] {
        let (sender, receiver) = if from == 0 {
            (&mut *a, &mut *b)
        } else {
            (&mut *b, &mut *a)
        };
        let all: Vec<Vec<u8>> = (0..).zip(lengths()).map(|(n, len)| frame(n, len)).collect();
        let mut sent = 0;
        let mut received = Vec::new();
        // As many frames at once as a ring of small buffers can hold.
        let most = if sender.wish.buffer < 1526 { 1 } else { 7 };
        for (round, burst) in [1, 3, 5, 2, 7].into_iter().cycle().enumerate() {
            assert!(round < 10_000, "{} of {sent} arrived", received.len());
            for _ in 0..burst.min(most) {
                if sent < all.len() && sender.send(&all[sent]) {
                    sent += 1;
                }
            }
            sim.settle();
            received.extend(receiver.receive());
            if sent == all.len() && received.len() == sent {
                break;
            }
            assert!(sim.objections().is_empty(), "{:?}", sim.objections());
        }
        for (sent, received) in all.iter().zip(&received) {
            let mut padded = sent.clone();
            padded.resize(sent.len().max(60), 0);
            assert_eq!(*received, padded);
        }
        sender.reap();
        assert_eq!(sender.completed, all.len() as u64, "all buffers came back");
        let (tx, rx) = (sim.counters(from), sim.counters(to));
        let bytes: usize = all.iter().map(|frame| frame.len().max(60) + 4).sum();
        assert_eq!(
            (tx.tx_frames, rx.rx_frames),
            (all.len() as u64, all.len() as u64)
        );
        assert_eq!((tx.tx_bytes, rx.rx_bytes), (bytes as u64, bytes as u64));
        assert_eq!(
            (rx.rx_unicast, rx.rx_dropped(), tx.tx_errors),
            (all.len() as u64, 0, 0)
        );
        assert_eq!(sim.unaccounted(from), 0);
    }
    assert_eq!(sim.objections(), [""; 0]);
}

/// Every combination of what a ring can be.
fn every_ring(check: impl Fn(&VirtioOptions, &Wish)) {
    for bits in 0..64u32 {
        let on = |n: u32| bits >> n & 1 == 1;
        let mut wish = Wish {
            apart: on(4),
            ..Wish::default()
        };
        for (n, feature) in [(0, PACKED), (1, IN_ORDER), (2, INDIRECT), (3, EVENT_IDX)] {
            if on(n) {
                wish.features |= feature;
            }
        }
        wish.indirect = on(2);
        if on(5) {
            // Frames that need up to eight buffers.
            wish.buffer = 200;
            wish.size = 16;
        }
        let options = VirtioOptions {
            packed: true,
            in_order: true,
            ..VirtioOptions::default()
        };
        check(&options, &wish);
    }
}

#[test]
fn frames_pass_through_every_kind_of_ring() {
    every_ring(|options, wish| {
        let (sim, mut a, mut b) = rig(options, wish, WireOptions::default());
        laps(&sim, &mut a, &mut b);
    });
}

#[test]
fn frames_pass_where_the_device_sleeps_until_its_doorbell_rings() {
    every_ring(|options, wish| {
        let options = VirtioOptions {
            notify: Notify::Sleeps,
            ..options.clone()
        };
        let wish = Wish {
            kicks: true,
            ..wish.clone()
        };
        let (sim, mut a, mut b) = rig(&options, &wish, WireOptions::default());
        laps(&sim, &mut a, &mut b);
        assert!(sim.counters(0).kicks > 0);
    });
}

#[test]
fn a_device_that_sleeps_does_not_look_without_its_doorbell() {
    let options = VirtioOptions {
        notify: Notify::Sleeps,
        ..VirtioOptions::default()
    };
    let (sim, mut a, mut b) = rig(&options, &Wish::default(), WireOptions::default());
    assert!(a.send(&frame(1, 100)));
    for _ in 0..100 {
        sim.step();
    }
    assert_eq!(b.receive().len(), 0);
    a.kick(1);
    sim.settle();
    assert_eq!(b.receive().len(), 1);
    for _ in 0..10 {
        sim.step();
    }
    assert!(a.send(&frame(2, 100)));
    for _ in 0..100 {
        sim.step();
    }
    assert_eq!(b.receive().len(), 0, "it has fallen asleep again");
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn odd_sizes_of_packed_rings_go_round() {
    for size in [3, 5, 7, 100] {
        let wish = Wish {
            features: BASE | MRG | PACKED,
            apart: true,
            size,
            ..Wish::default()
        };
        let options = VirtioOptions {
            packed: true,
            ..VirtioOptions::default()
        };
        let (sim, mut a, mut b) = rig(&options, &wish, WireOptions::default());
        laps(&sim, &mut a, &mut b);
    }
}

#[test]
fn whole_frame_buffers_do_without_merging() {
    let wish = Wish {
        features: BASE,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish, WireOptions::default());
    laps(&sim, &mut a, &mut b);
}

#[test]
fn legacy_drivers_get_short_headers_and_rings_by_page() {
    for features in [0, MRG] {
        for identity in [Identity::Legacy, Identity::Transitional] {
            let options = VirtioOptions {
                identity,
                queue_size: 16,
                ..VirtioOptions::default()
            };
            let wish = Wish {
                features,
                legacy: true,
                apart: true,
                ..Wish::default()
            };
            let (sim, mut a, mut b) = rig(&options, &wish, WireOptions::default());
            laps(&sim, &mut a, &mut b);
        }
    }
}

#[test]
fn a_transitional_device_serves_modern_drivers_too() {
    let options = VirtioOptions {
        identity: Identity::Transitional,
        ..VirtioOptions::default()
    };
    let (sim, mut a, mut b) = rig(&options, &Wish::default(), WireOptions::default());
    laps(&sim, &mut a, &mut b);
}

#[test]
fn in_order_devices_put_a_batch_back_with_one_entry() {
    for packed in [0, PACKED] {
        let options = VirtioOptions {
            packed: true,
            in_order: true,
            ..VirtioOptions::default()
        };
        let wish = Wish {
            features: BASE | MRG | IN_ORDER | packed,
            ..Wish::default()
        };
        let (sim, mut a, _b) = rig(&options, &wish, WireOptions::default());
        for n in 0..5 {
            assert!(a.send(&frame(n, 64)));
        }
        sim.settle();
        let (id, _) = a.tx[0].ring.next_used().expect("something was used");
        assert_eq!(id, 4, "the last of the batch");
        a.reap();
        assert_eq!(a.completed, 5);
    }
}

#[test]
fn jumbo_frames_are_sent_in_chains_and_received_in_merged_buffers() {
    use crate::driver::ring::Part;
    for packed in [0, PACKED] {
        let options = VirtioOptions {
            packed: true,
            ..VirtioOptions::default()
        };
        let wish = Wish {
            features: BASE | MRG | packed,
            size: 16,
            ..Wish::default()
        };
        let (sim, mut a, mut b) = rig(&options, &wish, WireOptions::default());
        for lap in 0..20 {
            let jumbo = frame(lap, 9000);
            let bytes = [vec![0; 12], jumbo.clone()].concat();
            let parts: Vec<Part> = bytes
                .chunks(1777)
                .enumerate()
                .map(|(n, chunk)| {
                    let queue = &a.tx[0];
                    queue.buffers.write(n, 0, chunk);
                    Part::read(queue.buffers.iova(n), u32::try_from(chunk.len()).unwrap())
                })
                .collect();
            a.tx[0].ring.post(&parts, 0);
            sim.settle();
            a.reap();
            assert_eq!(b.receive(), [jumbo]);
        }
        assert_eq!(sim.objections(), [""; 0]);
        assert_eq!(sim.unaccounted(0), 0);
    }
}

#[test]
fn an_empty_ring_drops_and_counts_and_the_next_frame_gets_the_next_buffer() {
    let wish = Wish::default();
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish, WireOptions::default());
    let mut sent = 0;
    for _ in 0..5 {
        for _ in 0..8 {
            assert!(a.send(&frame(sent, 60)));
            sent += 1;
        }
        sim.settle();
    }
    let counts = sim.counters(1);
    assert_eq!((counts.rx_frames, counts.rx_no_buffer), (8, 32));
    assert_eq!(b.receive().len(), 8);
    assert!(a.send(&frame(99, 60)));
    sim.settle();
    assert_eq!(b.receive(), [frame(99, 60)]);
    assert_eq!(sim.unaccounted(0), 0);
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn a_frame_that_needs_more_merged_buffers_than_there_are_takes_none() {
    let wish = Wish {
        buffer: 200,
        size: 4,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish, WireOptions::default());
    assert!(a.send(&frame(1, 1000)));
    assert!(a.send(&frame(2, 700)));
    sim.settle();
    assert_eq!(b.receive(), [frame(2, 700)]);
    assert_eq!(sim.counters(1).rx_no_buffer, 1);
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn checksums_are_completed_on_the_way_and_found_good_on_arrival() {
    let wish = Wish {
        features: BASE | MRG | crate::driver::CSUM | GUEST_CSUM,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish, WireOptions::default());
    let udp = udp_with_pseudo_header_sum();
    let header = [1, 0, 0, 0, 0, 0, 34, 0, 6, 0, 0, 0];
    assert!(a.send_on(0, &header, &udp));
    assert!(a.send_on(0, &[0; 12], &udp));
    sim.settle();
    let received = b.receive_on(0);
    assert_eq!(received[0].0[0], 2, "DATA_VALID");
    assert_ne!(received[0].1[40..42], udp[40..42], "filled in");
    assert_eq!(received[1].0[0], 0, "left alone, and not good");
    assert_eq!(received[1].1, udp);
    assert_eq!(sim.objections(), [""; 0]);
}

fn udp_with_pseudo_header_sum() -> Vec<u8> {
    let mut frame = frame(7, 78);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..34].copy_from_slice(&[
        0x45, 0, 0, 64, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame[34..42].copy_from_slice(&[0, 1, 0, 2, 0, 44, 0, 0]);
    // 0x0a00 + 1 + 0x0a00 + 2 + 17 + 44
    frame[40..42].copy_from_slice(&(0x1400u16 + 64).to_be_bytes());
    frame
}

#[test]
fn version_1_is_what_makes_headers_long() {
    let wish = Wish {
        features: BASE,
        ..Wish::default()
    };
    assert_ne!(wish.features & VERSION_1, 0);
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish, WireOptions::default());
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    let received = b.receive_on(0);
    assert_eq!(received[0].0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
}
