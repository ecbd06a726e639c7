//! VLAN tags, checksums, segments, spreading over queues.

use models::vmxnet3::Vmxnet3Options;

use crate::guest::{Guest, RSS, RXCSUM, RXVLAN, STATS, Wish, all_is_well, frame, rig};

const TI: u64 = 1 << 47;

fn csum(start: u64, at: u64) -> u64 {
    2 << 42 | start << 32 | at << 18
}

fn tso(headers: u64, mss: u64) -> u64 {
    3 << 42 | headers << 32 | mss << 18
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2);
    words
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// An IPv4 frame from one of many hosts, with good checksums.
pub(crate) fn v4(protocol: u8, host: u8, payload: usize) -> Vec<u8> {
    let header = if protocol == 6 { 20 } else { 8 };
    let mut frame = frame(u64::from(host), 14);
    frame[12..14].copy_from_slice(&[8, 0]);
    let total = u16::try_from(20 + header + payload).unwrap();
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, host, 10, 0, 1, 1]);
    let checksum = !folded(sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    let mut segment = vec![4, host, 0, 80];
    segment.resize(header, 0);
    if protocol == 6 {
        segment[12] = 0x50;
    } else {
        let len = u16::try_from(header + payload).unwrap();
        segment[4..6].copy_from_slice(&len.to_be_bytes());
    }
    segment.extend((0..payload).map(|n| u8::try_from(n % 251).unwrap()));
    let at = if protocol == 6 { 16 } else { 6 };
    let checksum = !folded(pseudo(&frame, protocol, segment.len()) + sum(&segment));
    segment[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(segment);
    frame
}

fn pseudo(frame: &[u8], protocol: u8, len: usize) -> u32 {
    sum(&frame[26..34]) + u32::from(protocol) + u32::try_from(len).unwrap()
}

/// The frame with the pseudo-header's sum alone where the checksum goes.
fn unfinished(frame: &[u8], at: usize) -> Vec<u8> {
    let mut unfinished = frame.to_vec();
    let pseudo = folded(pseudo(frame, frame[23], frame.len() - 34));
    unfinished[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
    unfinished
}

/// What the last completion of the one frame that came in says: its second word's high half.
fn verdict(b: &mut Guest) -> (bool, u64) {
    let got = b.rx[0].receive();
    assert_eq!(got.len(), 1);
    let [first, second] = got[0].last();
    (first & 1 << 30 != 0, second >> 48 & 0xff)
}

#[test]
fn checksums_that_are_left_to_the_device_are_those_that_were_there() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    for n in 0..100u8 {
        let (protocol, at) = if n % 2 == 0 { (6, 50) } else { (17, 40) };
        let good = v4(protocol, n, 20 + usize::from(n) * 3);
        let sent = unfinished(&good, at);
        assert_ne!(sent, good);
        let parts: Vec<&[u8]> = sent.chunks(100).collect();
        assert!(a.send_as(0, &parts, csum(34, at as u64)));
        sim.settle();
        assert_eq!(b.receive(), [good]);
    }
    all_is_well(&sim);
}

#[test]
fn received_checksums_are_judged_where_the_driver_asks_for_it() {
    const TUC: u64 = 1;
    const UDP: u64 = 2;
    const TCP: u64 = 4;
    const IPC: u64 = 8;
    const V4: u64 = 32;
    const FRG: u64 = 64;
    const FCS: u64 = 128;
    let wish = Wish {
        features: RXCSUM,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    let changed = |at: usize, mut frame: Vec<u8>| {
        frame[at] ^= 1;
        frame
    };
    let mut none = v4(17, 1, 40);
    none[40..42].fill(0);
    let mut fragment = v4(17, 1, 40);
    fragment[20] = 0x20;
    fragment[24..26].fill(0);
    let checksum = !folded(sum(&fragment[14..34]));
    fragment[24..26].copy_from_slice(&checksum.to_be_bytes());
    let cases = [
        (v4(6, 1, 40), false, V4 | TCP | IPC | TUC),
        (v4(17, 1, 40), false, V4 | UDP | IPC | TUC),
        (v4(6, 1, 3), false, V4 | TCP | IPC | TUC),
        (changed(60, v4(6, 1, 40)), false, V4 | TCP | IPC),
        (changed(18, v4(17, 1, 40)), false, V4 | UDP | TUC),
        (none, false, V4 | UDP | IPC | TUC),
        (fragment, false, V4 | IPC | FRG),
        (v4(99, 1, 40), false, V4 | IPC),
        (frame(1, 70), true, 0),
    ];
    for lap in 0..12 {
        for (n, (frame, unknown, flags)) in cases.iter().enumerate() {
            assert!(a.send(frame));
            sim.settle();
            assert_eq!(verdict(&mut b), (*unknown, flags | FCS), "case {n}, {lap}");
        }
    }
    all_is_well(&sim);
}

#[test]
fn nothing_is_judged_unless_asked_for_nor_on_a_device_like_qemus() {
    let asked = Wish {
        features: RXCSUM,
        revision: 1,
        ..Wish::default()
    };
    for (options, wish) in [
        (Vmxnet3Options::default(), Wish::default()),
        (Vmxnet3Options::qemu(), asked),
    ] {
        let (sim, mut a, mut b) = rig(&options, &wish);
        assert!(a.send(&v4(6, 1, 40)));
        sim.settle();
        assert_eq!(verdict(&mut b), (true, 128));
        all_is_well(&sim);
    }
}

#[test]
fn tags_are_put_in_and_taken_off() {
    let wish = Wish {
        features: RXVLAN | RXCSUM,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    let good = v4(17, 3, 50);
    for n in 0..100u64 {
        let tci = 0x6000 | n;
        assert!(a.send_as(0, &[&unfinished(&good, 40)], csum(34, 40) | TI | tci << 48));
        sim.settle();
        let got = b.rx[0].receive();
        assert_eq!(got[0].bytes, good, "without its tag");
        let second = got[0].last()[1];
        assert_eq!((second >> 15 & 1, second >> 16 & 0xffff), (1, tci));
        assert_eq!(second >> 48 & 1, 1, "its checksum is good");
    }
    assert!(a.send(&good));
    sim.settle();
    assert_eq!(b.rx[0].receive()[0].last()[1] >> 15 & 0x1_ffff, 0, "no tag");
    all_is_well(&sim);
}

#[test]
fn a_provider_s_tag_is_taken_off_like_any_other() {
    let wish = Wish {
        features: RXVLAN,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    let plain = frame(1, 60);
    let inner = [&plain[..12], &[0x81, 0, 0, 6], &plain[12..]].concat();
    for outer in [[0x88, 0xa8, 0x60, 7], [0x81, 0, 0x60, 7]] {
        assert!(a.send(&[&inner[..12], &outer, &inner[12..]].concat()));
        sim.settle();
        let got = b.rx[0].receive();
        assert_eq!(got[0].bytes, inner, "only the first tag goes");
        let second = got[0].last()[1];
        assert_eq!((second >> 15 & 1, second >> 16 & 0xffff), (1, 0x6007));
    }
    all_is_well(&sim);
}

#[test]
fn tags_stay_where_the_driver_does_not_want_them_off() {
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &Wish::default());
    let plain = frame(1, 60);
    assert!(a.send_as(0, &[&plain], TI | 5 << 48));
    sim.settle();
    let tagged = [&plain[..12], &[0x81, 0, 0, 5], &plain[12..]].concat();
    assert_eq!(b.receive(), [tagged]);
    a.command(STATS);
    assert_eq!(a.stat(0, 3), 64, "bytes with the tag");
    all_is_well(&sim);
}

#[test]
fn large_tcp_frames_are_cut_into_good_segments() {
    let wish = Wish {
        features: RXCSUM,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    let whole = v4(6, 9, 10_000);
    let parts: Vec<&[u8]> = whole.chunks(4000).collect();
    for _ in 0..30 {
        assert!(a.send_as(0, &parts, tso(54, 1400)));
        sim.settle();
        let got = b.rx[0].receive();
        let lens: Vec<usize> = got.iter().map(|frame| frame.bytes.len()).collect();
        assert_eq!(lens, [1454, 1454, 1454, 1454, 1454, 1454, 1454, 254]);
        let payload: Vec<u8> = got.iter().flat_map(|f| f.bytes[54..].to_vec()).collect();
        assert_eq!(payload, whole[54..]);
        assert!(got.iter().all(|f| f.last()[1] >> 48 & 0xf == 0b1101));
    }
    a.command(STATS);
    assert_eq!((a.stat(0, 0), a.stat(0, 2)), (240, 240));
    all_is_well(&sim);
}

#[test]
fn frames_are_spread_by_the_table_and_carry_their_hash() {
    let wish = Wish {
        features: RSS,
        rx: 4,
        table: (0..128).map(|n| n % 4).collect(),
        head: 128,
        body: 512,
        sg: 4,
        rx_data: 64,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&Vmxnet3Options::default(), &wish);
    let mut counts = [0; 4];
    for n in 0..200u8 {
        // In the data ring, in a head, in a head and bodies.
        let (payload, places): (_, &[u64]) =
            [(10, &[2][..]), (30, &[0]), (700, &[0, 1, 1])][usize::from(n % 3)];
        assert!(a.send(&v4(6, n, payload)));
        sim.settle();
        for (queue, count) in counts.iter_mut().enumerate() {
            for frame in b.rx[queue].receive() {
                let first = frame.last()[0];
                let hash = usize::try_from(first >> 32).unwrap();
                assert_eq!(first >> 26 & 0xf, 2, "of TCP over IPv4");
                assert_eq!(hash % 4, queue);
                assert_eq!(frame.bytes, v4(6, n, payload));
                assert_eq!(frame.places(4), places);
                *count += 1;
            }
        }
    }
    assert_eq!(counts.iter().sum::<i32>(), 200);
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    let got = b.rx[0].receive();
    assert_eq!(got[0].last()[0] >> 26 & 0xf, 0, "no hash without IP");
    b.command(STATS);
    let stats: u64 = (1..5).map(|queue| b.stat(queue, 2)).sum();
    assert_eq!(stats, 201);
    all_is_well(&sim);
}
