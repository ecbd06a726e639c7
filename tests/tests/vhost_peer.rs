//! The vhost-user driver against a device in this process that others' crates are made of.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use port::{Config, LinkState, Mac, Port, QueueState};
use rig::conformance::{End, PATIENCE, Received, Watch, frame};
use rig::peer::{Counts, Peer, Role, Setup, digest, feature};
use virtio::{Options, VhostOptions};

const LONG: Duration = Duration::from_secs(20);
const STATION: Mac = [0x02, 0x11, 0x11, 0x11, 0x11, 0x11];

fn options(pairs: usize) -> VhostOptions {
    VhostOptions {
        device: Options {
            pairs: Some(pairs),
            ..Options::default()
        },
        ..VhostOptions::default()
    }
}

fn connect(path: &Path, pairs: usize) -> Box<dyn Port> {
    virtio::open_vhost_user(path, &options(pairs)).unwrap()
}

fn config(queues: usize) -> Config {
    Config {
        rx_queues: queues,
        tx_queues: queues,
        ..Config::default()
    }
}

/// Features to offer, by what is special about them.
fn choices() -> Vec<(&'static str, u64)> {
    let base = feature::VERSION_1 | feature::PROTOCOL | feature::MQ;
    vec![
        ("nothing optional", base),
        ("in order", base | feature::IN_ORDER),
        ("mergeable", base | feature::MRG_RXBUF),
        ("indirect", base | feature::INDIRECT),
        ("event index", base | feature::EVENT_IDX),
        (
            "everything",
            base | feature::IN_ORDER | feature::MRG_RXBUF | feature::INDIRECT,
        ),
        (
            "no protocol features",
            feature::VERSION_1 | feature::MRG_RXBUF,
        ),
    ]
}

/// Sends all of `frames` on the queues in turn, and collects what comes until `done`.
fn exchange(
    end: &mut End,
    frames: &[Vec<u8>],
    done: impl Fn(&[Received], u64) -> bool,
) -> Vec<Received> {
    let mut rest: VecDeque<_> = frames.to_vec().into();
    let mut arrived = Vec::new();
    let mut watch = Watch::new();
    let queues = end.queues.tx.len();
    let mut turn = 0;
    loop {
        let before = (rest.len(), arrived.len(), end.in_flight());
        turn += 1;
        end.post(turn % queues, &mut rest, 1 + turn % 61);
        end.reap();
        for queue in 0..end.queues.rx.len() {
            end.receive(queue, &mut arrived);
        }
        if rest.is_empty() && end.in_flight() == 0 && done(&arrived, end.in_flight()) {
            return arrived;
        }
        let now = (rest.len(), arrived.len(), end.in_flight());
        assert!(
            watch.is_patient(before != now),
            "{} frames not posted, {} in flight, {} arrived",
            now.0,
            now.2,
            now.1
        );
        if before == now {
            end.service().unwrap();
        }
    }
}

fn every_size(mac: Mac) -> Vec<Vec<u8>> {
    (60..=1514)
        .map(|len| frame(STATION, mac, len, len as u64))
        .collect()
}

#[test]
fn a_sink_counts_and_reads_exactly_what_was_sent_whatever_it_offers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sink.sock");
    for (what, features) in choices() {
        for pairs in [1, 2] {
            if features & feature::PROTOCOL == 0 && pairs > 1 {
                continue;
            }
            let setup = Setup {
                features,
                pairs,
                ..Setup::default()
            };
            let peer = Peer::start(&path, &setup).unwrap();
            let mut end = End::alone(connect(&path, pairs), &config(pairs)).unwrap();
            let frames = every_size(end.port.info().mac);
            for _ in 0..3 {
                exchange(&mut end, &frames, |_, _| true);
            }
            let sent = end.port.counters().unwrap();
            end.stop().unwrap();
            let expected = Counts {
                taken: 3 * frames.len() as u64,
                taken_bytes: 3 * frames.iter().map(|frame| frame.len() as u64).sum::<u64>(),
                taken_digest: frames
                    .iter()
                    .fold(0, |sum: u64, frame| sum.wrapping_add(digest(frame)))
                    .wrapping_mul(3),
                connections: 1,
                ..Counts::default()
            };
            assert_eq!(peer.counts(), expected, "{what}, {pairs} pairs");
            assert_eq!(sent.tx_frames, expected.taken, "{what}");
            assert_eq!(sent.tx_bytes, expected.taken_bytes + 4 * expected.taken);
            assert_eq!(peer.objections(), [""; 0], "{what}, {pairs} pairs");
        }
    }
}

#[test]
fn a_reflector_sends_back_every_byte_with_the_addresses_swapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reflector.sock");
    for (what, features) in choices() {
        let setup = Setup {
            role: Role::Reflector,
            features,
            ..Setup::default()
        };
        let peer = Peer::start(&path, &setup).unwrap();
        let mut end = End::alone(connect(&path, 1), &config(1)).unwrap();
        let frames = every_size(end.port.info().mac);
        let total = frames.len();
        let arrived = exchange(&mut end, &frames, |arrived, _| arrived.len() == total);
        for (sent, got) in frames.iter().zip(&arrived) {
            let swapped = [&sent[6..12], &sent[..6], &sent[12..]].concat();
            assert!(got.bytes == swapped, "{what}: {} bytes", sent.len());
        }
        let counted = end.port.counters().unwrap();
        assert_eq!(counted.rx_frames, total as u64);
        assert_eq!(counted.rx_bytes, counted.tx_bytes);
        end.stop().unwrap();
        assert_eq!(peer.objections(), [""; 0], "{what}");
    }
}

#[test]
fn what_a_source_gives_is_received_whole_in_small_buffers_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("source.sock");
    const TOTAL: u64 = 5000;
    let frames: Vec<_> = (0..40_usize)
        .map(|n| frame(STATION, [0x02; 6], 60 + (n * 37) % 1455, n as u64))
        .collect();
    for (capacity, offloads) in [
        (2048, port::Offloads::empty()),
        (512, port::Offloads::RX_SCATTER),
    ] {
        let setup = Setup {
            role: Role::Source {
                frames: frames.clone().into(),
                total: TOTAL,
            },
            ..Setup::default()
        };
        let peer = Peer::start(&path, &setup).unwrap();
        let config = Config {
            rx_capacity: capacity,
            offloads,
            ..config(1)
        };
        let mut end = End::alone(connect(&path, 1), &config).unwrap();
        let arrived = exchange(&mut end, &[], |arrived, _| arrived.len() as u64 == TOTAL);
        for (number, got) in arrived.iter().enumerate() {
            assert!(
                got.bytes == frames[number % frames.len()],
                "frame {number} in buffers of {capacity}: {} bytes",
                got.bytes.len()
            );
        }
        end.stop().unwrap();
        assert_eq!(peer.objections(), [""; 0]);
    }
}

/// Moves frames until `done`; fails after a while.
fn drive(end: &mut End, mut done: impl FnMut(&mut End, usize) -> bool) -> usize {
    let started = Instant::now();
    let (mut number, mut arrived) = (0, Vec::new());
    let mac = end.port.info().mac;
    while !done(end, arrived.len()) {
        assert!(started.elapsed() < LONG, "it never came to that");
        let mut frames = (0..16)
            .map(|n| frame(STATION, mac, 64, number + n))
            .collect();
        number += end.post(0, &mut frames, 16) as u64;
        end.reap();
        end.receive(0, &mut arrived);
        end.port.service().unwrap();
    }
    arrived.len()
}

#[test]
fn a_peer_that_vanishes_in_mid_run_and_comes_back_costs_no_frame_in_the_books() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer.sock");
    let setup = Setup {
        role: Role::Reflector,
        ..Setup::default()
    };
    let mut peer = Peer::start(&path, &setup).unwrap();
    let mut end = End::alone(connect(&path, 1), &config(1)).unwrap();
    let (mut taken, mut given) = (0, 0);
    let mut arrived = 0;
    for _ in 0..4 {
        arrived += drive(&mut end, |_, arrived| arrived > 2000);
        let last = peer.vanish();
        (taken, given) = (taken + last.taken, given + last.given);
        let away = |end: &mut End| end.queues.tx[0].state() == QueueState::Paused;
        arrived += drive(&mut end, |end, _| away(end));
        assert_eq!(end.port.link().unwrap().state, LinkState::Down);
        peer = Peer::start(&path, &setup).unwrap();
        arrived += drive(&mut end, |end, _| !away(end));
        assert_eq!(end.port.link().unwrap().state, LinkState::Up);
    }
    arrived += drive(&mut end, |_, arrived| arrived > 2000);
    // Sending ends, and what is under way is waited for.
    let mut rest = Vec::new();
    let started = Instant::now();
    while end.in_flight() > 0 || arrived + rest.len() < 2000 {
        end.reap();
        end.receive(0, &mut rest);
        assert!(started.elapsed() < PATIENCE);
    }
    let counts = end.queues.tx[0].counts();
    let last = peer.wait(PATIENCE, |counts| counts.given == counts.taken);
    (taken, given) = (taken + last.taken, given + last.given);
    assert_eq!(peer.objections(), [""; 0]);
    let started = Instant::now();
    let mut quiet = Instant::now();
    while quiet.elapsed() < Duration::from_millis(50) && started.elapsed() < PATIENCE {
        let before = rest.len();
        end.receive(0, &mut rest);
        if rest.len() > before {
            quiet = Instant::now();
        }
    }
    let received = (arrived + rest.len()) as u64;

    assert_eq!(counts.posted, counts.completed + counts.abandoned);
    assert!(
        counts.completed <= taken && taken <= counts.posted,
        "{taken} taken of {counts:?}"
    );
    assert!(received <= given, "{received} received, {given} given");
    assert_eq!(end.port.counters().unwrap().rx_frames, received);
    end.stop().unwrap();
}

#[test]
fn a_peer_that_comes_back_with_other_features_is_taken_as_it_is_or_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer.sock");
    let peer = Peer::start(&path, &Setup::default()).unwrap();
    let mut end = End::alone(connect(&path, 1), &config(1)).unwrap();
    drive(&mut end, |end, _| {
        end.queues.tx[0].counts().completed > 1000
    });
    let _ = peer.vanish();
    drive(&mut end, |end, _| {
        end.queues.tx[0].state() == QueueState::Paused
    });
    let less = Setup {
        features: feature::VERSION_1 | feature::PROTOCOL,
        ..Setup::default()
    };
    let peer = Peer::start(&path, &less).unwrap();
    let started = Instant::now();
    let words = loop {
        assert!(started.elapsed() < LONG, "neither taken nor refused");
        let mut frames = VecDeque::from([frame(STATION, [2; 6], 64, 1)]);
        end.post(0, &mut frames, 1);
        end.reap();
        end.receive(0, &mut Vec::new());
        match end.port.service() {
            Err(refused) => break refused.to_string(),
            Ok(_) if peer.counts().taken > 100 => break String::new(),
            Ok(_) => {}
        }
    };
    if !words.is_empty() {
        assert!(words.contains("came back without"), "{words}");
    }
    assert_eq!(peer.objections(), [""; 0]);
    let End {
        mut port,
        queues,
        to_send,
        to_arm,
        ..
    } = end;
    let _ = port.stop(queues);
    to_send.close().unwrap();
    to_arm.close().unwrap();
}

#[test]
fn ten_starts_on_one_connection_and_ten_connections_leak_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer.sock");
    let open_files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let peer = Peer::start(&path, &Setup::default()).unwrap();
    let mut taken = 0;
    let mut files = Vec::new();
    for _ in 0..10 {
        let mut port = connect(&path, 1);
        for _ in 0..3 {
            let mut end = End::alone(port, &config(1)).unwrap();
            let frames: Vec<_> = (0..300).map(|n| frame(STATION, [2; 6], 70, n)).collect();
            exchange(&mut end, &frames, |_, _| true);
            taken += frames.len() as u64;
            port = end.stop().unwrap();
        }
        drop(port);
        files.push(open_files());
    }
    let counts = peer.wait(PATIENCE, |counts| counts.taken == taken);
    assert_eq!(counts.taken, taken);
    assert_eq!(peer.objections(), [""; 0]);
    // The other tests of this file open files too, but none that stay.
    let (first, last) = (files[0], files[9]);
    assert!(last < first + 20, "open files: {files:?}");
}
