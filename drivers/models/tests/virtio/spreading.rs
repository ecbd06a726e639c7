//! Hashes and the table of queues (§5.1.6.5.7).

use hw::Bar;
use models::virtio::VirtioOptions;
use models::{Sim, WireOptions};

use crate::driver::{BASE, CTRL, Driver, HASH_REPORT, MQ, MRG, RSS, Wish, frame, stepped};

const PAIRS: u16 = 4;

/// A key whose windows are counted easily: bit 31 alone, then zeros.
const KEY: [u8; 40] = {
    let mut key = [0; 40];
    key[3] = 1;
    key
};

fn options() -> VirtioOptions {
    VirtioOptions {
        pairs: PAIRS,
        queue_size: 32,
        ..VirtioOptions::default()
    }
}

/// Both ends, with the further features, and four pairs set up.
fn pair(options: &VirtioOptions, features: u64) -> (Sim, Driver, Driver) {
    let sim = stepped(options, WireOptions::default());
    let wish = Wish {
        features: BASE | MRG | CTRL | features,
        pairs: PAIRS,
        ..Wish::default()
    };
    let mut a = Driver::open(sim.function(0), wish.clone());
    let mut b = Driver::open(sim.function(1), wish);
    a.arm();
    b.arm();
    (sim, a, b)
}

/// A command's data.
fn data(types: u32, unclassified: u16, table: &[u16], senders: u16, key: &[u8]) -> Vec<u8> {
    let mask = u16::try_from(table.len()).unwrap().wrapping_sub(1);
    let mut data = types.to_le_bytes().to_vec();
    let halves = [mask, unclassified];
    let halves = halves.iter().chain(table).chain([&senders]);
    data.extend(halves.flat_map(|half| half.to_le_bytes()));
    data.push(u8::try_from(key.len()).unwrap());
    data.extend(key);
    data
}

/// A packet of IPv4 whose hash under [`KEY`] follows from the last address byte of its source: the
/// window has its bit where bit `n` of the input is, shifted up by `n`.
fn packet(protocol: u8, source: [u8; 4]) -> Vec<u8> {
    let mut bytes = frame(9, 60);
    bytes[..6].fill(0xff);
    bytes[12..34].copy_from_slice(&[
        8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    bytes[26..30].copy_from_slice(&source);
    bytes[34..38].fill(0);
    bytes
}

/// What arrived on each pair: header and frame.
fn arrived(driver: &mut Driver) -> Vec<(usize, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    for pair in 0..usize::from(PAIRS) {
        let frames = driver.receive_on(pair).into_iter();
        all.extend(frames.map(|(header, frame)| (pair, header, frame)));
    }
    all
}

/// Sends a frame from one end; the pair it came in on at the other, its hash and what that is of.
fn told(sim: &Sim, a: &mut Driver, b: &mut Driver, bytes: &[u8]) -> (usize, u32, u16) {
    assert!(a.send(bytes));
    sim.settle();
    let got = arrived(b);
    let [(pair, header, got)] = &got[..] else {
        panic!("{} frames arrived", got.len());
    };
    assert_eq!(got, bytes);
    assert_eq!(header.len(), 20);
    assert_eq!(header[10..12], [1, 0], "one buffer");
    let hash = u32::from_le_bytes(header[12..16].try_into().unwrap());
    assert_eq!(header[18..], [0, 0], "padding");
    (*pair, hash, u16::from_le_bytes([header[16], header[17]]))
}

#[test]
fn a_frames_hash_picks_its_queue_and_is_told() {
    for (types, with_ports) in [(0x3f, true), (1, false)] {
        let (sim, mut a, mut b) = pair(&options(), MQ | RSS | HASH_REPORT);
        let broadcast = frame(1, 60);
        let broadcast = [&[0xff; 6], &broadcast[6..]].concat();
        // Nobody has asked for anything yet.
        let (pair, hash, kind) = told(&sim, &mut a, &mut b, &packet(17, [0; 4]));
        assert_eq!((pair, hash, kind), (0, 0, 0));
        let config = data(types, 2, &[0, 1, 2, 3], 4, &KEY);
        assert_eq!(b.command(4, 1, &config, &|| sim.settle()), Some(0));
        for lap in 0..40 {
            for last in 0..4 {
                // Bits 0 and 1 of the input are those of the window shifted by 0 and 1.
                let source = [[0; 4], [0x80, 0, 0, 0], [0x40, 0, 0, 0], [0xc0, 0, 0, 0]][last];
                let hash = [0, 1, 2, 3][last];
                let wanted = (usize::try_from(hash).unwrap(), hash);
                let (pair, hash, kind) = told(&sim, &mut a, &mut b, &packet(17, source));
                assert_eq!((pair, hash), wanted, "lap {lap}");
                assert_eq!(kind, if with_ports { 3 } else { 1 });
                let (_, _, kind) = told(&sim, &mut a, &mut b, &packet(6, source));
                assert_eq!(kind, if with_ports { 2 } else { 1 });
                let (_, _, kind) = told(&sim, &mut a, &mut b, &packet(1, source));
                assert_eq!(kind, 1, "neither TCP nor UDP");
            }
            let (pair, hash, kind) = told(&sim, &mut a, &mut b, &broadcast);
            assert_eq!((pair, hash, kind), (2, 0, 0), "unclassified");
        }
        assert_eq!((sim.unaccounted(0), sim.unaccounted(1)), (0, 0));
        assert_eq!(sim.objections(), [""; 0]);
    }
}

#[test]
fn the_last_command_says_how_frames_spread() {
    let (sim, mut a, mut b) = pair(&options(), MQ | RSS | HASH_REPORT);
    let config = data(1, 3, &[3], 4, &KEY);
    assert_eq!(b.command(4, 1, &config, &|| sim.settle()), Some(0));
    let bytes = packet(17, [0x80, 0, 0, 0]);
    assert_eq!(told(&sim, &mut a, &mut b, &bytes), (3, 1, 1));
    assert_eq!(b.command(4, 0, &[1, 0], &|| sim.settle()), Some(0));
    assert_eq!(told(&sim, &mut a, &mut b, &bytes), (0, 0, 0));
    assert_eq!(b.command(4, 1, &config, &|| sim.settle()), Some(0));
    assert_eq!(told(&sim, &mut a, &mut b, &bytes), (3, 1, 1));
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn hashes_may_be_asked_for_without_a_table() {
    let (sim, mut a, mut b) = pair(&options(), MQ | HASH_REPORT);
    let bytes = packet(17, [0x80, 0, 0, 0]);
    let mut config = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40];
    config.extend(KEY);
    assert_eq!(b.command(4, 2, &config, &|| sim.settle()), Some(0));
    assert_eq!(told(&sim, &mut a, &mut b, &bytes), (0, 1, 1));
    assert_eq!(b.command(4, 0, &[4, 0], &|| sim.settle()), Some(0));
    let (_, hash, kind) = told(&sim, &mut a, &mut b, &bytes);
    assert_eq!((hash, kind), (1, 1), "and the table is the device's own");
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn the_configuration_says_what_can_be_hashed() {
    let (sim, a, _b) = pair(&options(), MQ | RSS);
    assert_eq!(a.bar.load8(0x2000 + 17), 40);
    assert_eq!(a.bar.load16(0x2000 + 18), 128);
    assert_eq!(a.bar.load32(0x2000 + 20), 0x3f);
    assert_eq!(sim.objections(), [""; 0]);
    let none = VirtioOptions {
        rss: false,
        ..options()
    };
    let (sim, a, _b) = pair(&none, MQ);
    a.bar.load16(0x2000 + 18);
    assert!(sim.objections()[0].contains("that no offered feature brings"));
}

/// One end sends a command that it must not: the answer says so, and so does the device.
#[track_caller]
fn refused(features: u64, number: u8, data: &[u8], part: &str) {
    let (sim, _a, mut b) = pair(&options(), features);
    assert_eq!(
        b.command(4, number, data, &|| sim.settle()),
        Some(1),
        "{part}"
    );
    let all = sim.objections();
    assert!(
        all.iter().any(|one| one.contains(part)),
        "wanted an objection about {part:?}, got {all:?}"
    );
}

#[test]
fn untrue_commands_are_refused() {
    let good = data(1, 0, &[0, 1], 4, &KEY);
    refused(MQ, 1, &good, "not negotiated");
    refused(MQ | RSS | HASH_REPORT, 2, &good, "not negotiated");
    let all = MQ | RSS | HASH_REPORT;
    for (data, part) in [
        (data(1 << 6, 0, &[0], 4, &KEY), "hash types 0x40"),
        (data(1, 0, &[0, 1, 2], 4, &KEY), "a mask of 0x2"),
        (data(1, 0, &[0; 256], 4, &KEY), "a mask of 0xff"),
        (data(1, 4, &[0], 4, &KEY), "receive queue 4"),
        (data(1, 0, &[0, 9], 4, &KEY), "receive queue 9"),
        (data(1, 0, &[0], 0, &KEY), "0 send queues"),
        (data(1, 0, &[0], 5, &KEY), "5 send queues"),
        (data(1, 0, &[0], 4, &[1; 41]), "a key of 41 bytes"),
        (data(1, 0, &[0], 4, &[]), "a key of 0 bytes"),
        (
            good[..good.len() - 1].to_vec(),
            "39 bytes where a key of 40 is",
        ),
        (good[..9].to_vec(), "ends too early"),
    ] {
        refused(all, 1, &data, part);
    }
    let mut reserved = vec![1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 40];
    reserved.extend(KEY);
    refused(MQ | HASH_REPORT, 2, &reserved, "reserved fields");
}

#[test]
fn a_table_names_no_queue_that_is_not_enabled() {
    let sim = stepped(&options(), WireOptions::default());
    let wish = Wish {
        features: BASE | MRG | CTRL | MQ | RSS,
        pairs: 2,
        ..Wish::default()
    };
    let mut driver = Driver::open(sim.function(0), wish);
    let wrong = data(1, 0, &[0, 2], 2, &KEY);
    assert_eq!(driver.command(4, 1, &wrong, &|| sim.settle()), Some(1));
    assert!(sim.objections()[0].contains("receive queue 2, which is not enabled"));
    let right = data(1, 0, &[0, 1], 2, &KEY);
    assert_eq!(driver.command(4, 1, &right, &|| sim.settle()), Some(0));
}

#[test]
fn what_follows_a_key_is_not_read() {
    let (sim, _a, mut b) = pair(&options(), MQ | RSS);
    let mut padded = data(1, 0, &[0, 1], 4, &KEY);
    padded.push(0xff);
    assert_eq!(b.command(4, 1, &padded, &|| sim.settle()), Some(0));
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn hashes_need_a_control_queue() {
    for feature in [RSS, HASH_REPORT] {
        let sim = stepped(&options(), WireOptions::default());
        let wish = Wish {
            features: BASE | feature,
            ..Wish::default()
        };
        let driver = Driver::negotiate(sim.function(0), wish);
        assert_eq!(driver.status() & 8, 0, "FEATURES_OK does not stick");
        assert!(sim.objections()[0].contains("without one that it needs"));
    }
}
