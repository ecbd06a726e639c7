//! Frames in several buffers.

use models::vmxnet3::Vmxnet3Options;

use crate::guest::ring::Armed;
use crate::guest::{STATS, Wish, all_is_well, frame, rig};

const SPLIT: Wish = Wish {
    revision: 4,
    features: 0,
    mode: 0x1f,
    tx: 1,
    rx: 1,
    tx_size: 32,
    rx_size: 32,
    rx2_size: 64,
    head: 128,
    body: 512,
    bodies: 0,
    mtu: 9000,
    sg: 20,
    tx_data: 0,
    rx_data: 0,
    table: Vec::new(),
};

fn send(a: &mut crate::guest::Guest, whole: &[u8]) {
    let parts: Vec<&[u8]> = whole.chunks(4000).collect();
    assert!(a.send_as(0, &parts, 0));
}

#[test]
fn jumbo_frames_go_on_in_the_second_ring() {
    let wish = Wish {
        table: vec![0],
        ..SPLIT
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    for n in 0..200usize {
        let whole = frame(n as u64, 100 + n * 40);
        send(&mut a, &whole);
        sim.settle();
        let got = b.rx[0].receive();
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].bytes, whole);
        let bodies = whole.len().saturating_sub(128).div_ceil(512);
        let mut places = vec![0];
        places.extend(vec![1; bodies]);
        assert_eq!(got[0].places(1), places);
    }
    all_is_well(&sim);
}

#[test]
fn bodies_of_the_first_ring_are_taken_first_and_skipped_where_not_needed() {
    let wish = Wish {
        bodies: 3,
        table: vec![0],
        ..SPLIT
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    for n in 0..120u64 {
        let len = [100, 600, 1600, 1700, 3000][usize::try_from(n % 5).unwrap()];
        send(&mut a, &frame(n, len));
        sim.settle();
        let got = b.rx[0].receive();
        assert_eq!(got.len(), 1, "frame {n}");
        assert_eq!(got[0].bytes, frame(n, len));
        let expected: &[u64] = match len {
            100 => &[0],
            600 => &[0, 0],
            1600 => &[0, 0, 0, 0],
            1700 => &[0, 0, 0, 0, 1],
            _ => &[0, 0, 0, 0, 1, 1, 1],
        };
        assert_eq!(got[0].places(1), expected, "{len} bytes");
    }
    all_is_well(&sim);
}

#[test]
fn a_frame_of_more_parts_than_allowed_ends_in_an_error() {
    let wish = Wish {
        sg: 3,
        table: vec![0],
        ..SPLIT
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    for n in 0..100 {
        send(&mut a, &frame(n, 1152));
        send(&mut a, &frame(n, 1153));
        sim.settle();
        let got = b.rx[0].receive();
        let errors: Vec<bool> = got.iter().map(|frame| frame.is_error()).collect();
        assert_eq!(errors, [false, true]);
        let unlooked = got.iter().map(|frame| frame.last()[0] >> 30 & 1);
        assert!(unlooked.eq([1, 0]), "of what is cut off nothing is said");
        assert_eq!(got[0].bytes, frame(n, 1152));
        assert_eq!(got[1].bytes, frame(n, 1153)[..1152]);
    }
    b.command(STATS);
    assert_eq!(
        (b.stat(1, 2), b.stat(1, 9)),
        (100, 100),
        "good ones, errors"
    );
    assert_eq!(sim.counters(1).rx_too_long, 100);
    all_is_well(&sim);
}

#[test]
fn a_frame_that_runs_out_of_bodies_ends_in_an_error_and_the_next_is_whole() {
    let wish = Wish {
        rx2_size: 32,
        table: vec![0],
        ..SPLIT
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    b.rx[0].rearms = false;
    for n in 0..4 {
        send(&mut a, &frame(n, 128 + 512 * 10));
    }
    sim.settle();
    let got = b.rx[0].receive();
    let errors: Vec<bool> = got.iter().map(|frame| frame.is_error()).collect();
    assert_eq!(errors, [false, false, false, true]);
    assert_eq!(got[3].parts.len(), 2, "31 were armed");
    assert_eq!(sim.counters(1).rx_no_buffer, 1);
    b.rx[0].rings.iter_mut().for_each(Armed::arm);
    send(&mut a, &frame(9, 128 + 512 * 10));
    sim.settle();
    assert_eq!(b.receive(), [frame(9, 128 + 512 * 10)]);
    all_is_well(&sim);
}

#[test]
fn the_largest_mtu_of_revision_six_passes() {
    let wish = Wish {
        revision: 6,
        mtu: 9190,
        head: 2048,
        body: 4096,
        table: vec![0],
        ..SPLIT
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    for n in 0..100 {
        send(&mut a, &frame(n, 9204));
        sim.settle();
        assert_eq!(b.receive(), [frame(n, 9204)]);
    }
    all_is_well(&sim);
}
