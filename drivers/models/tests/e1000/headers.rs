//! Header split of the 82576 and its virtual functions.

use hw::Bar;
use models::e1000::{Kind, PfOptions};

use crate::guest::{ENABLE, Guest, MAC_B, Wish, assert_clean, frame, options, vf_rig};

/// `SRRCTL`: always use the header buffer, of 128 bytes; packet buffers of 1 KiB.
const ALWAYS: u32 = 5 << 25 | 2 << 8 | 1;
const SPLIT: u32 = 2 << 25 | 2 << 8 | 1;
/// Where the packet buffer lies behind the header buffer.
const APART: usize = 4096;
const ROOM: usize = 1024;

/// An IPv4 frame with a UDP header and `len` bytes in all.
fn udp(len: usize) -> Vec<u8> {
    let mut bytes = frame(3, len);
    let total = u16::try_from(len - 14).unwrap().to_be_bytes();
    let size = u16::try_from(len - 34).unwrap().to_be_bytes();
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..20].copy_from_slice(&[0x45, 0, total[0], total[1], 0, 1]);
    bytes[20..26].copy_from_slice(&[0x40, 0, 64, 17, 0, 0]);
    bytes[38..42].copy_from_slice(&[size[0], size[1], 0, 0]);
    bytes
}

fn restart(b: &mut Guest, srrctl: u32, kinds: u32) {
    let base = b.rx[0].base;
    b.bar.store32(base + 0x28, 0);
    b.bar.store32(base + 0xc, srrctl | 1 << 31);
    b.bar.store32(0xf0c, kinds);
    b.bar.store32(base + 0x10, 0);
    b.bar.store32(base + 0x18, 0);
    b.bar.store32(base + 0x28, ENABLE);
    assert!((0..10).any(|_| b.bar.load32(base + 0x28) & ENABLE != 0));
    let ring = &mut b.rx[0];
    (ring.post, ring.look) = (0, 0);
    rearm(b);
}

/// Hands every free slot over, with both its buffers.
fn rearm(b: &mut Guest) {
    let ring = &mut b.rx[0];
    for _ in 0..ring.free() {
        let buffer = ring.buffer(ring.post);
        ring.set(ring.post, [buffer + APART as u64, buffer]);
        ring.post = ring.after(ring.post);
    }
    b.bar.store32(ring.base + 0x18, ring.post);
}

/// The next frame: its bytes, what its first descriptor says of the header, and how many there are.
fn take(b: &mut Guest) -> (Vec<u8>, u64, u32) {
    let ring = &mut b.rx[0];
    let info = ring.get(ring.look)[0] >> 16 & 0xffff;
    let header = usize::try_from(info >> 5 & 0x3ff).unwrap().min(128);
    let mut bytes = ring.read(ring.look, header);
    let mut count = 0;
    loop {
        let [_, second] = ring.get(ring.look);
        assert_eq!(second & 1, 1, "not written back");
        let len = usize::try_from(second >> 32 & 0xffff).unwrap();
        assert!(len <= ROOM);
        bytes.extend_from_slice(&ring.read(ring.look, APART + len)[APART..]);
        ring.look = ring.after(ring.look);
        count += 1;
        if second & 2 != 0 {
            return (bytes, info, count);
        }
    }
}

#[test]
fn headers_go_to_a_buffer_of_their_own_for_many_laps() {
    let device = models::e1000::E1000Options {
        pf: PfOptions::default(),
        ..options(Kind::IgbVf, MAC_B)
    };
    let (sim, mut a, mut b, _pf) = vf_rig(&device, &Wish::default());
    b.ask(&[5, 9000], &|| {
        sim.step();
    })
    .unwrap();
    let sph = |len: u64| 1 << 15 | len << 5;
    let other = |len| frame(9, len);
    for (srrctl, kinds, frame, info, count) in [
        (ALWAYS, 0, udp(60), 60 << 5, 1),
        (ALWAYS, 0, udp(1152), 128 << 5, 1),
        (ALWAYS, 0, udp(1153), 128 << 5, 2),
        (ALWAYS, 0, other(4000), 128 << 5, 4),
        (ALWAYS, 0x1fff, udp(60), sph(42), 1),
        (ALWAYS, 0x1fff, udp(4000), sph(42), 4),
        (ALWAYS, 0x1fff, other(100), 100 << 5, 1),
        (SPLIT, 0x1fff, udp(4000), sph(42), 4),
        (SPLIT, 0x1fff, other(4000), 0, 4),
        (SPLIT, 0, udp(4000), 0, 4),
    ] {
        restart(&mut b, srrctl, kinds);
        for _ in 0..30 {
            assert!(a.send(&frame));
            sim.settle();
            a.reap(0);
            let what = (srrctl >> 25, kinds, frame.len());
            assert_eq!(take(&mut b), (frame.clone(), info, count), "{what:x?}");
            rearm(&mut b);
        }
    }
    assert_clean(&sim);
}
