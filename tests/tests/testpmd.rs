//! rgen against DPDK's testpmd: a device that others wrote, and that people use.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use peers::{Forward, Lab, Setup, Testpmd, lab_or_skip};
use port::{Config, Mac};
use rig::conformance::{End, PATIENCE, Watch, frame};
use rig::rgen::{self, adds_up, number};
use serde_json::Value;
use virtio::{Choice, Options, VhostOptions};

const LONG: Duration = Duration::from_secs(20);

/// A layout of the rings, a number of queues, and whether buffers merge.
#[derive(Debug, Clone, Copy)]
struct Way {
    packed: bool,
    queues: u16,
    mergeable: bool,
}

/// Every way to use `queues` queue pairs.
fn ways(queues: u16) -> impl Iterator<Item = Way> {
    let all = [(false, false), (false, true), (true, false), (true, true)];
    all.into_iter().map(move |(packed, mergeable)| Way {
        packed,
        queues,
        mergeable,
    })
}

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl Way {
    /// rgen's port string.
    fn port(self, socket: &Path) -> String {
        format!(
            "vhost-user:{},queues={},packed={},mergeable={}",
            socket.display(),
            self.queues,
            switch(self.packed),
            switch(self.mergeable)
        )
    }

    /// The driver's options.
    fn options(self) -> VhostOptions {
        let choice = |on: bool| if on { Choice::On } else { Choice::Off };
        VhostOptions {
            device: Options {
                packed: choice(self.packed),
                mergeable: choice(self.mergeable),
                pairs: Some(usize::from(self.queues)),
                ..Options::default()
            },
            ..VhostOptions::default()
        }
    }
}

/// A folder for sockets.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vhost.sock");
    (folder, socket)
}

/// Runs a profile into testpmd's sink; both must have counted the same.
fn into_sink(sink: &mut Testpmd, socket: &Path, way: Way, knobs: &str, more: &[&str]) -> Value {
    let before = sink.counters().unwrap();
    let port = way.port(socket);
    let words = ["run", "bench", "-t", knobs, "-p", &port, "--json"];
    let words: Vec<&str> = words.iter().copied().chain(more.iter().copied()).collect();
    let ran = rgen::run(&words);
    let document = ran.json();
    assert!(matches!(ran.code, Some(0 | 6)), "{ran:#?}");
    adds_up(&document);
    let sent = number(&document, "/ports/0/tx_frames");
    let bytes = number(&document, "/ports/0/tx_bytes");
    let after = sink.received(before.rx_frames + sent, LONG).unwrap();
    assert_eq!(
        after.rx_frames - before.rx_frames,
        sent,
        "{way:?} {knobs}: testpmd's count and rgen's\n{document:#}"
    );
    // testpmd counts bytes without FCS, rgen with.
    assert_eq!(
        after.rx_bytes - before.rx_bytes,
        bytes - 4 * sent,
        "{way:?} {knobs}"
    );
    assert!(sent > 100, "{way:?} {knobs}: {document:#}");
    document
}

#[test]
fn testpmds_sink_receives_what_rgen_says_it_sent() {
    let Some(lab) = lab_or_skip("testpmds_sink_receives_what_rgen_says_it_sent") else {
        return;
    };
    let (_folder, socket) = folder();
    for queues in [1, 2] {
        // One testpmd for all: a device outlives its drivers.
        let mut sink = Testpmd::vhost_sink(&lab, &socket, queues).unwrap();
        for way in ways(queues) {
            for knobs in [
                "size=64,vm=var1",
                "size=64,vm=random",
                "size=imix",
                "size=1518,vm=tuple",
            ] {
                let rate = ["-m", "200kpps", "-d", "300ms"];
                into_sink(&mut sink, &socket, way, knobs, &rate);
            }
            // As fast as it takes them.
            let rate = ["-m", "max", "-d", "300ms"];
            into_sink(&mut sink, &socket, way, "size=64,vm=var1", &rate);
        }
        sink.stop().unwrap();
    }
}

/// A started driver on testpmd's socket.
fn driver(socket: &Path, way: Way) -> End {
    let port = virtio::open_vhost_user(socket, &way.options()).unwrap();
    let queues = usize::from(way.queues);
    let config = Config {
        rx_queues: queues,
        tx_queues: queues,
        ..Config::default()
    };
    End::alone(port, &config).unwrap()
}

#[test]
fn frames_of_every_size_reach_testpmds_sink() {
    let Some(lab) = lab_or_skip("frames_of_every_size_reach_testpmds_sink") else {
        return;
    };
    let (_folder, socket) = folder();
    for queues in [1, 2] {
        let mut sink = Testpmd::vhost_sink(&lab, &socket, queues).unwrap();
        for way in ways(queues) {
            every_size(&mut sink, &socket, way);
        }
        sink.stop().unwrap();
    }
}

/// Sends a frame of every size into testpmd's sink; both must have counted the same.
fn every_size(sink: &mut Testpmd, socket: &Path, way: Way) {
    let before = sink.counters().unwrap();
    let mut end = driver(socket, way);
    let mac = end.port.info().mac;
    let mut bytes = 0;
    let mut frames: VecDeque<_> = (60..=1514)
        .map(|len| {
            bytes += len as u64;
            frame([2; 6], mac, len, len as u64)
        })
        .collect();
    let count = frames.len() as u64;
    let mut watch = Watch::new();
    let mut turn = 0;
    while !frames.is_empty() || end.in_flight() > 0 {
        let left = (frames.len(), end.in_flight());
        turn += 1;
        end.post(turn % end.queues.tx.len(), &mut frames, 1 + turn % 33);
        end.reap();
        let moved = left != (frames.len(), end.in_flight());
        assert!(
            watch.is_patient(moved),
            "{way:?}: {left:?}\n{}",
            sink.said()
        );
    }
    let sent = end.port.counters().unwrap().tx_frames;
    let after = sink.received(before.rx_frames + count, LONG).unwrap();
    assert_eq!(
        (sent, after.rx_frames - before.rx_frames),
        (count, count),
        "{way:?}"
    );
    assert_eq!(after.rx_bytes - before.rx_bytes, bytes, "{way:?}");
    end.stop().unwrap();
}

#[test]
fn testpmds_reflector_sends_back_every_byte_with_the_addresses_swapped() {
    let test = "testpmds_reflector_sends_back_every_byte_with_the_addresses_swapped";
    let Some(lab) = lab_or_skip(test) else { return };
    let (_folder, socket) = folder();
    for queues in [1, 2] {
        let reflector = Testpmd::vhost_macswap(&lab, &socket, queues).unwrap();
        for way in ways(queues) {
            let mut end = driver(&socket, way);
            reflects(&mut end, way);
            end.stop().unwrap();
        }
        reflector.stop().unwrap();
    }
}

/// Sends frames of every size, not more at a time than testpmd's rings hold, and compares what
/// comes back.
fn reflects(end: &mut End, way: Way) {
    const OTHER: Mac = [0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee];
    let mac = end.port.info().mac;
    let mut sent: Vec<_> = (60..=1514)
        .chain((0..600).map(|_| 60))
        .enumerate()
        .map(|(number, len)| frame(OTHER, mac, len, number as u64))
        .collect();
    let mut arrived = Vec::new();
    let mut watch = Watch::new();
    let mut rest: VecDeque<_> = sent.clone().into();
    while arrived.len() < sent.len() {
        let before = (rest.len(), arrived.len());
        let on_their_way = sent.len() - rest.len() - arrived.len();
        if on_their_way < 128 {
            let queue = (rest.len() / 32) % end.queues.tx.len();
            end.post(queue, &mut rest, 32);
        }
        end.reap();
        for queue in 0..end.queues.rx.len() {
            end.receive(queue, &mut arrived);
        }
        let moved = before != (rest.len(), arrived.len());
        assert!(
            watch.is_patient(moved),
            "{way:?}: {} of {} came back",
            arrived.len(),
            sent.len()
        );
    }
    // Queues pass each other; frames of one do not.
    let swapped = |bytes: &[u8]| [&bytes[6..12], &bytes[..6], &bytes[12..]].concat();
    let mut back: Vec<_> = arrived.iter().map(|got| swapped(&got.bytes)).collect();
    if way.queues > 1 {
        sent.sort_unstable();
        back.sort_unstable();
    }
    for (sent, back) in sent.iter().zip(&back) {
        assert!(
            sent == back,
            "{way:?}: {} bytes sent, {} back",
            sent.len(),
            back.len()
        );
    }
    assert_eq!(sent.len(), back.len());
}

#[test]
fn rgen_counts_what_testpmds_reflector_sends_back_stream_by_stream() {
    let test = "rgen_counts_what_testpmds_reflector_sends_back_stream_by_stream";
    let Some(lab) = lab_or_skip(test) else { return };
    let (_folder, socket) = folder();
    for packed in [false, true] {
        let way = Way {
            packed,
            queues: 1,
            mergeable: true,
        };
        let reflector = Testpmd::vhost_macswap(&lab, &socket, 1).unwrap();
        let port = way.port(&socket);
        let ran = rgen::run(&["run", "latency", "-p", &port, "-d", "1s", "--json"]);
        let document = ran.ended(0).json();
        adds_up(&document);
        let sent = number(&document, "/ports/0/tx_frames");
        assert!(sent > 0, "{document:#}");
        assert_eq!(
            number(&document, "/ports/0/rx_frames"),
            sent,
            "{document:#}"
        );
        let streams = document["streams"].as_array().unwrap();
        let measured = |stream: &&Value| stream["measured"] == true;
        assert!(
            streams.iter().any(|stream| measured(&stream)),
            "{document:#}"
        );
        for stream in streams.iter().filter(measured) {
            assert_eq!(number(stream, "/rx_frames"), number(stream, "/tx_frames"));
            for none in ["/lost", "/duplicated", "/reordered"] {
                assert_eq!(number(stream, none), 0, "{stream:#}");
            }
            assert!(number(stream, "/latency_ns/min") > 0, "{stream:#}");
        }
        let counted = reflector.stop().unwrap();
        assert_eq!((counted.rx_frames, counted.tx_frames), (sent, sent));
    }
}

/// Waits until `done` or fails.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < LONG, "{what} never came");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A testpmd that is killed in mid-run and replaced: what each has received, and rgen's result.
fn killed_and_replaced(lab: &Lab, socket: &Path, port: &str, setup: &Setup) -> (u64, u64, Value) {
    let start = || Testpmd::vhost(lab, socket, setup).unwrap();
    let words = [
        "run",
        "bench",
        "-t",
        "size=64,vm=var1",
        "-m",
        "100kpps",
        "-d",
        "80s",
        "--json",
    ];
    let words: Vec<&str> = words.iter().copied().chain(["-p", port]).collect();
    // A testpmd that dials needs somebody who listens.
    let (mut first, running) = if setup.dial {
        let running = rgen::start(&words);
        wait_for("rgen's socket", || socket.exists());
        (start(), running)
    } else {
        (start(), rgen::start(&words))
    };
    wait_for("the first frames", || {
        first.counters().unwrap().rx_frames > 10_000
    });
    let seen = first.counters().unwrap().rx_frames;
    first.kill();
    let mut second = start();
    wait_for("frames after the restart", || {
        second.counters().unwrap().rx_frames > 10_000
    });
    running.interrupt();
    let ran = running.wait();
    let document = ran.ended(130).json();
    adds_up(&document);
    let still = Duration::from_millis(100);
    let received = second.settled(still, LONG).unwrap().rx_frames;
    (seen, received, document)
}

#[test]
fn a_testpmd_that_is_killed_and_restarted_in_mid_run_costs_no_frame_in_the_books() {
    let test = "a_testpmd_that_is_killed_and_restarted_in_mid_run_costs_no_frame_in_the_books";
    let Some(lab) = lab_or_skip(test) else { return };
    let (_folder, socket) = folder();
    for packed in [false, true] {
        let way = Way {
            packed,
            queues: 1,
            mergeable: true,
        };
        for server in [false, true] {
            let _ = std::fs::remove_file(&socket);
            let setup = Setup {
                dial: server,
                ..Setup::device(Forward::RxOnly)
            };
            let port = format!("{},server={}", way.port(&socket), switch(server));
            let (first, second, document) = killed_and_replaced(&lab, &socket, &port, &setup);
            let sent = number(&document, "/ports/0/tx_frames");
            let abandoned = sent.saturating_sub(second);
            // What the first took after it was last asked is known to rgen alone.
            assert!(
                abandoned >= first,
                "{sent} sent, {first} and {second} received"
            );
            assert!(
                sent >= first + second,
                "{sent} sent, {first} and {second} received"
            );
            assert!(number(&document, "/shortfall_frames") > 0, "{document:#}");
        }
    }
}

/// A visit of every queue, as workers make them: a queue that nobody visits keeps the port from
/// starting over.
fn turn(end: &mut End) {
    end.reap();
    end.receive(0, &mut Vec::new());
    end.port.service().unwrap();
}

#[test]
fn a_started_port_outlives_three_testpmds() {
    let Some(lab) = lab_or_skip("a_started_port_outlives_three_testpmds") else {
        return;
    };
    let (_folder, socket) = folder();
    let mut sink = Testpmd::vhost_sink(&lab, &socket, 1).unwrap();
    let way = Way {
        packed: true,
        queues: 1,
        mergeable: true,
    };
    let mut end = driver(&socket, way);
    let mut seen = 0;
    for _ in 0..3 {
        let started = Instant::now();
        while sink.counters().unwrap().rx_frames < 1000 {
            let mut frames = (0..32).map(|n| frame([2; 6], [2; 6], 64, n)).collect();
            end.post(0, &mut frames, 32);
            turn(&mut end);
            assert!(started.elapsed() < LONG);
        }
        seen += sink.counters().unwrap().rx_frames;
        sink.kill();
        wait_for("the pause", || {
            turn(&mut end);
            end.queues.tx[0].state() == port::QueueState::Paused
        });
        sink = Testpmd::vhost_sink(&lab, &socket, 1).unwrap();
    }
    let started = Instant::now();
    while end.in_flight() > 0 {
        turn(&mut end);
        assert!(started.elapsed() < PATIENCE);
    }
    let counts = end.queues.tx[0].counts();
    assert_eq!(counts.posted, counts.completed + counts.abandoned);
    assert!(counts.posted >= seen, "{counts:?}, and {seen} received");
    end.stop().unwrap();
}
