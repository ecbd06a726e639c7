//! The vhost-user front end against a scripted peer, which may leave, lie, or say nothing.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hugemem::{Burst, Memory, MemoryRequest, PageSize, Pages, Pool};
use port::{Config, LinkState, Port, PortError, QueueState, Queues, StartError};
use tempfile::TempDir;
use virtio::{Choice, OpenError, Options, VhostOptions, open_vhost_user};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

const VERSION_1: u64 = 1 << 32;
const PACKED: u64 = 1 << 34;
const IN_ORDER: u64 = 1 << 35;
const PROTOCOL: u64 = 1 << 30;
/// The device's own, beside the protocol's: several pairs of queues.
const DEVICE_MQ: u64 = 1 << 22;
const MQ: u64 = 1;
const REPLY_ACK: u64 = 1 << 3;
const STATUS: u64 = 1 << 16;

/// What the peer offers, and what it does wrong.
#[derive(Clone)]
struct Script {
    features: u64,
    protocol: u64,
    pairs: u64,
    /// The request at which it does this, counted from the first.
    wrong: Option<(usize, Wrong)>,
}

#[derive(Clone)]
enum Wrong {
    Close,
    Silence,
    Answer(Vec<u8>),
}

impl Default for Script {
    fn default() -> Self {
        Self {
            features: VERSION_1 | PACKED | IN_ORDER | PROTOCOL | DEVICE_MQ,
            protocol: MQ | REPLY_ACK | STATUS,
            pairs: 2,
            wrong: None,
        }
    }
}

/// A request as the peer got it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    code: u32,
    body: Vec<u8>,
    with_file: bool,
}

impl Seen {
    fn number(&self) -> u64 {
        u64::from_le_bytes(self.body[..8].try_into().expect("the rig works"))
    }
    /// The ring that it is about.
    fn ring(&self) -> u8 {
        self.body[0]
    }
}

/// Answers requests until the front end leaves or the script says otherwise.
fn converse(mut socket: UnixStream, script: &Script, seen: &Sender<Seen>) {
    let mut silent = false;
    for turn in 0.. {
        let mut header = [0; 12];
        let Ok((first @ 1.., file)) = socket.recv_with_fd(&mut header) else {
            return;
        };
        if socket.read_exact(&mut header[first..]).is_err() {
            return;
        }
        let word =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("the rig works"));
        let (code, flags, size) = (word(0), word(4), word(8));
        let mut body = vec![0; size as usize];
        socket.read_exact(&mut body).expect("the rig works");
        let _ = seen.send(Seen {
            code,
            body: body.clone(),
            with_file: file.is_some(),
        });
        match &script.wrong {
            Some((at, Wrong::Close)) if *at == turn => {
                let _ = socket.shutdown(std::net::Shutdown::Both);
                return;
            }
            Some((at, Wrong::Silence)) if *at == turn => silent = true,
            Some((at, Wrong::Answer(bytes))) if *at == turn => {
                let _ = socket.write_all(bytes);
                silent = true;
            }
            _ => {}
        }
        let answer = match code {
            1 => Some(script.features),
            15 => Some(script.protocol),
            17 => Some(script.pairs),
            11 => Some(u64::from(body[0])),
            _ if flags & 8 != 0 => Some(0),
            _ => None,
        };
        if let Some(answer) = answer.filter(|_| !silent) {
            let _ = socket.write_all(&reply(code, 5, 8, answer));
        }
    }
}

fn reply(code: u32, flags: u32, size: u32, value: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = [code, flags, size]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    bytes.extend(value.to_le_bytes());
    bytes
}

/// A peer that listens, once.
struct Peer {
    path: PathBuf,
    seen: Receiver<Seen>,
    thread: JoinHandle<()>,
    /// Closes the connection.
    socket: Receiver<UnixStream>,
}

fn peer(path: &Path, script: Script) -> Peer {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).expect("the rig works");
    let (sender, seen) = channel();
    let (hand_out, socket) = channel();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the rig works");
        drop(listener);
        let _ = hand_out.send(stream.try_clone().expect("the rig works"));
        converse(stream, &script, &sender);
    });
    Peer {
        path: path.to_owned(),
        seen,
        thread,
        socket,
    }
}

/// A peer that answers has all the time that a busy machine may take.
fn options() -> VhostOptions {
    let patience = Duration::from_secs(60);
    VhostOptions {
        connect_timeout: patience,
        reply_timeout: patience,
        ..VhostOptions::default()
    }
}

/// A peer that will not answer is not waited for long.
fn impatient() -> VhostOptions {
    let patience = Duration::from_millis(1500);
    VhostOptions {
        connect_timeout: patience,
        reply_timeout: patience,
        ..VhostOptions::default()
    }
}

fn open_with(
    script: Script,
    options: &VhostOptions,
) -> (TempDir, Peer, Result<Box<dyn Port>, OpenError>) {
    let dir = TempDir::new().expect("the rig works");
    let peer = peer(&dir.path().join("s"), script);
    let port = open_vhost_user(&peer.path, options);
    (dir, peer, port)
}

fn open(script: Script) -> (TempDir, Peer, Result<Box<dyn Port>, OpenError>) {
    open_with(script, &options())
}

fn refused(script: Script) -> OpenError {
    refused_with(script, &options())
}

fn refused_with(script: Script, options: &VhostOptions) -> OpenError {
    let (_dir, peer, port) = open_with(script, options);
    let error = port.err().expect("the port does not open");
    peer.thread.join().expect("the rig works");
    error
}

fn memory(port: &dyn Port, config: &Config) -> Memory {
    Memory::new(&MemoryRequest {
        bytes: port.ring_bytes(config) + Pool::footprint(64, 256),
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: vec![port.space()],
    })
    .expect("the rig works")
}

/// Calls `service` until `done`, or fails after a while.
fn serve(port: &mut dyn Port, mut done: impl FnMut(&[String]) -> bool) -> Vec<String> {
    let start = Instant::now();
    let mut all = Vec::new();
    while !done(&all) {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "it never happened: {all:?}"
        );
        all.extend(port.service().expect("the rig works"));
        std::thread::yield_now();
    }
    all
}

#[test]
fn the_handshake_keeps_the_order_that_back_ends_need() {
    let (_dir, peer, port) = open(Script::default());
    let mut port = port.unwrap();
    assert_eq!(port.info().mac[0], 2);
    assert_eq!(port.link().unwrap().state, LinkState::Up);
    let config = Config {
        rx_slots: Some(256),
        tx_slots: Some(100),
        ..Config::default()
    };
    let memory = memory(port.as_ref(), &config);
    let queues = port.start(&config, &memory).unwrap();
    port.stop(queues).unwrap();
    drop(port);
    peer.thread.join().unwrap();
    let seen: Vec<Seen> = peer.seen.iter().collect();
    let codes: Vec<u32> = seen.iter().map(|seen| seen.code).collect();
    let ring = [8, 10, 9, 12];
    let expected = [
        &[3, 1, 15, 16, 17][..], // owner, features, protocol features, queues
        &[13, 13, 2, 5],         // both calls, features, memory
        &[8, 10, 9, 12],         // size, base, addresses, kick
        &ring,
        &[18, 18, 39, 1],      // enable, status, and an answer to end with
        &[18, 18, 11, 11, 39], // disable, stop, status
    ]
    .concat();
    assert_eq!(codes, expected);
    assert_eq!(seen[3].number(), MQ | REPLY_ACK | STATUS);
    assert_eq!(seen[7].number(), VERSION_1 | PACKED | IN_ORDER | PROTOCOL);
    assert!(
        seen.iter()
            .all(|seen| seen.with_file == [5, 12, 13].contains(&seen.code))
    );
    assert_eq!((seen[5].ring(), seen[6].ring()), (0, 1));
    assert_eq!(seen[9].number() >> 32, 256);
    assert_eq!(seen[13].number(), 100 << 32 | 1);
    // A packed ring begins with its wrap counter at 1.
    assert_eq!(seen[10].number() >> 32 & 0xffff, 0x8000);
    // One row: count, padding, guest address, size, our address, offset.
    assert_eq!((seen[8].body.len(), seen[8].body[0]), (40, 1));
}

#[test]
fn nobody_there_is_an_error_with_a_cure() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("s");
    let error = open_vhost_user(&path, &options()).err().unwrap();
    assert!(matches!(error, OpenError::NoPeer { .. }), "{error}");
    assert!(error.remedy().unwrap().contains("server=on"));
    drop(UnixListener::bind(&path).unwrap());
    let error = open_vhost_user(&path, &options()).err().unwrap();
    assert!(
        matches!(error, OpenError::NoPeer { .. }),
        "nobody listens any more: {error}"
    );
}

#[test]
fn a_peer_that_closes_in_mid_handshake_is_named_with_the_step() {
    for (turn, step) in [
        (0, "GET_FEATURES"),
        (1, "GET_FEATURES"),
        (4, "GET_QUEUE_NUM"),
    ] {
        let script = Script {
            wrong: Some((turn, Wrong::Close)),
            ..Script::default()
        };
        match refused(script) {
            OpenError::Closed { step: at, .. } => assert!(turn == 0 || at == step, "{at}"),
            error => panic!("{error}"),
        }
    }
}

#[test]
fn a_peer_that_never_answers_is_given_up() {
    for turn in [1, 2, 4] {
        let script = Script {
            wrong: Some((turn, Wrong::Silence)),
            ..Script::default()
        };
        let error = refused_with(script, &impatient());
        assert!(
            matches!(
                error,
                OpenError::Silent {
                    waited_ms: 1500..,
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.remedy().is_some());
    }
}

#[test]
fn nonsense_is_told_from_an_answer() {
    let answers = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        vec![0xff; 64],
        reply(2, 5, 8, VERSION_1),
        reply(1, 1, 8, VERSION_1),
        reply(1, 5, 4, VERSION_1),
        reply(1, 5, 0x7fff_ffff, VERSION_1),
        reply(1, 4, 8, VERSION_1),
    ];
    for answer in answers {
        let wrong = Some((1, Wrong::Answer(answer.clone())));
        let error = refused(Script {
            wrong,
            ..Script::default()
        });
        assert!(
            matches!(error, OpenError::Nonsense { .. }),
            "{answer:?}: {error}"
        );
    }
    // Half an answer is none.
    let wrong = Some((1, Wrong::Answer(reply(1, 5, 8, VERSION_1)[..15].to_vec())));
    let error = refused_with(
        Script {
            wrong,
            ..Script::default()
        },
        &impatient(),
    );
    assert!(matches!(error, OpenError::Silent { .. }), "{error}");
    for pairs in [0, 1 << 40] {
        let error = refused(Script {
            pairs,
            ..Script::default()
        });
        assert!(
            matches!(error, OpenError::Nonsense { .. }),
            "{pairs}: {error}"
        );
    }
}

#[test]
fn what_is_not_offered_is_said() {
    let error = refused(Script {
        features: PROTOCOL | PACKED,
        ..Script::default()
    });
    assert!(matches!(&error, OpenError::Broken { what, .. } if what.contains("VERSION_1")));
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("s");
    let device = Options {
        packed: Choice::On,
        ..Options::default()
    };
    let offers = Script {
        features: VERSION_1 | PROTOCOL,
        ..Script::default()
    };
    let split = peer(&path, offers);
    let error = open_vhost_user(
        &path,
        &VhostOptions {
            device,
            ..options()
        },
    )
    .err()
    .unwrap();
    assert!(
        matches!(&error, OpenError::NotOffered { what, .. } if what == "packed=on"),
        "{error}"
    );
    split.thread.join().unwrap();
}

#[test]
fn too_few_queues_are_counted() {
    let all = Script::default().features;
    for (features, protocol, asked, offered) in [
        (all, MQ, 3, 2),
        (all, 0, 2, 1),
        (all & !DEVICE_MQ, MQ, 2, 1),
    ] {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("s");
        let peer = peer(
            &path,
            Script {
                features,
                protocol,
                ..Script::default()
            },
        );
        let device = Options {
            pairs: Some(asked),
            ..Options::default()
        };
        let error = open_vhost_user(
            &path,
            &VhostOptions {
                device,
                ..options()
            },
        )
        .err()
        .unwrap();
        let OpenError::TooFewQueues {
            asked: a,
            offered: o,
            ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!((a, o), (asked, offered));
        peer.thread.join().unwrap();
    }
}

#[test]
fn every_queue_pair_is_set_up() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("s");
    let peer = peer(&path, Script::default());
    let device = Options {
        pairs: Some(2),
        ..Options::default()
    };
    let mut port = open_vhost_user(
        &path,
        &VhostOptions {
            device,
            ..options()
        },
    )
    .unwrap();
    let config = Config {
        rx_queues: 1,
        tx_queues: 2,
        ..Config::default()
    };
    let memory = memory(port.as_ref(), &config);
    let queues = port.start(&config, &memory).unwrap();
    assert_eq!((queues.rx.len(), queues.tx.len()), (1, 2));
    port.stop(queues).unwrap();
    drop(port);
    peer.thread.join().unwrap();
    let seen: Vec<Seen> = peer.seen.iter().collect();
    let taken = seen.iter().find(|seen| seen.code == 2).unwrap().number();
    assert!(
        taken & DEVICE_MQ != 0,
        "DPDK forgets the second pair without it"
    );
    let kicked: Vec<u8> = seen
        .iter()
        .filter(|seen| seen.code == 12)
        .map(|seen| seen.ring())
        .collect();
    assert_eq!(kicked, [0, 1, 2, 3], "both rings of each pair");
}

#[test]
fn a_peer_without_protocol_features_is_not_asked_for_them() {
    let (_dir, peer, port) = open(Script {
        features: VERSION_1,
        ..Script::default()
    });
    let mut port = port.unwrap();
    let config = Config::default();
    let memory = memory(port.as_ref(), &config);
    let queues = port.start(&config, &memory).unwrap();
    port.stop(queues).unwrap();
    drop(port);
    peer.thread.join().unwrap();
    let codes: Vec<u32> = peer.seen.iter().map(|seen| seen.code).collect();
    assert_eq!(codes[..4], [3, 1, 13, 13]);
    assert!(![15, 16, 17, 18, 39].iter().any(|code| codes.contains(code)));
}

#[test]
fn a_peer_that_fails_at_the_start_is_an_error_and_nothing_is_left_behind() {
    for wrong in [
        Wrong::Silence,
        Wrong::Close,
        Wrong::Answer(reply(5, 5, 8, 1)),
    ] {
        // The memory table's acknowledgement.
        let (_dir, peer, port) = open_with(
            Script {
                wrong: Some((8, wrong)),
                ..Script::default()
            },
            &impatient(),
        );
        let mut port = port.unwrap();
        let config = Config::default();
        let memory = memory(port.as_ref(), &config);
        let error = port.start(&config, &memory).err().unwrap();
        assert!(
            matches!(
                error,
                StartError::Port(PortError::Stuck { .. } | PortError::Broken { .. })
            ),
            "{error}"
        );
        drop(port);
        peer.thread.join().unwrap();
    }
}

#[test]
fn a_peer_that_does_not_stop_loses_its_socket_and_the_frames_come_home() {
    // The answer to GET_VRING_BASE.
    let (_dir, peer, port) = open_with(
        Script {
            wrong: Some((23, Wrong::Silence)),
            ..Script::default()
        },
        &impatient(),
    );
    let mut port = port.unwrap();
    let (pool, mut queues) = start(port.as_mut());
    post(&pool, &mut queues, 5);
    let error = port.stop(queues).err().unwrap();
    assert!(matches!(error, PortError::Stuck { .. }), "{error}");
    assert_eq!(pool.free(), 64);
    peer.thread.join().unwrap();
}

fn start(port: &mut dyn Port) -> (Pool, Queues) {
    let config = Config::default();
    let memory = memory(port, &config);
    let queues = port.start(&config, &memory).expect("the rig works");
    (Pool::new(&memory, 64, 256).expect("the rig works"), queues)
}

fn post(pool: &Pool, queues: &mut Queues, count: usize) {
    let mut burst = Burst::new();
    assert_eq!(pool.take_burst(&mut burst, count), count);
    burst.iter_mut().for_each(|frame| frame.set_len(60));
    assert_eq!(queues.tx[0].burst(&mut burst), count);
}

#[test]
fn a_peer_that_comes_back_is_met_again_and_the_accounts_close() {
    let (_dir, first, port) = open(Script::default());
    let mut port = port.unwrap();
    let (pool, mut queues) = start(port.as_mut());
    let mut empties = Burst::new();
    pool.take_burst(&mut empties, 10);
    assert_eq!(queues.rx[0].arm(&mut empties), 10);
    post(&pool, &mut queues, 7);

    first
        .socket
        .recv()
        .unwrap()
        .shutdown(std::net::Shutdown::Both)
        .unwrap();
    first.thread.join().unwrap();
    let events = serve(port.as_mut(), |events| !events.is_empty());
    assert!(events[0].contains("closed the connection"), "{events:?}");
    assert_eq!(queues.tx[0].state(), QueueState::Paused);
    assert_eq!(port.link().unwrap().state, LinkState::Down);
    let mut back = Burst::new();
    assert_eq!(
        queues.tx[0].reap(&mut back),
        7,
        "what was in flight is handed back"
    );
    back.clear();
    let counts = queues.tx[0].counts();
    assert_eq!(
        (counts.posted, counts.completed, counts.abandoned),
        (7, 0, 7)
    );

    // Nobody is let in before every queue has cleared its ring.
    let second = peer(&first.path, Script::default());
    for _ in 0..100 {
        port.service().unwrap();
    }
    assert!(second.seen.try_recv().is_err());
    assert_eq!(queues.rx[0].burst(&mut port::RxBurst::default()), 0);
    let events = serve(port.as_mut(), |events| {
        events.iter().any(|e| e.contains("is back"))
    });
    assert!(!events.is_empty());
    assert_eq!(queues.tx[0].state(), QueueState::Running);
    post(&pool, &mut queues, 3);
    assert_eq!(queues.tx[0].counts().in_flight(), 3);
    let extended = port.extended().unwrap();
    let value = |name: &str| extended.iter().find(|e| e.name == name).unwrap().value;
    assert_eq!((value("recoveries"), value("tx0_abandoned")), (1, 7));
    port.stop(queues).unwrap();
    assert_eq!(pool.free(), 64);
    drop(port);
    second.thread.join().unwrap();
    let codes: Vec<u32> = second.seen.iter().map(|seen| seen.code).collect();
    assert_eq!(
        codes[..6],
        [3, 1, 15, 16, 17, 13],
        "the whole handshake again"
    );
}

#[test]
fn a_returning_peer_that_fails_its_handshake_gets_another_try() {
    let (_dir, first, port) = open(Script::default());
    let mut port = port.unwrap();
    let (_pool, mut queues) = start(port.as_mut());
    first
        .socket
        .recv()
        .unwrap()
        .shutdown(std::net::Shutdown::Both)
        .unwrap();
    first.thread.join().unwrap();
    serve(port.as_mut(), |events| !events.is_empty());
    queues.tx[0].poll();
    queues.rx[0].burst(&mut port::RxBurst::default());
    let wrong = Some((1, Wrong::Answer(vec![7; 20])));
    let second = peer(
        &first.path,
        Script {
            wrong,
            ..Script::default()
        },
    );
    let told = |events: &[String]| events.iter().any(|event| event.contains("nonsense"));
    serve(port.as_mut(), told);
    second.thread.join().unwrap();
    let third = peer(&first.path, Script::default());
    serve(port.as_mut(), |events| {
        events.iter().any(|event| event.contains("is back"))
    });
    port.stop(queues).unwrap();
    drop(port);
    third.thread.join().unwrap();
}

#[test]
fn a_peer_that_comes_back_as_another_is_refused_for_good() {
    let (_dir, first, port) = open(Script::default());
    let mut port = port.unwrap();
    let (pool, mut queues) = start(port.as_mut());
    post(&pool, &mut queues, 2);
    first
        .socket
        .recv()
        .unwrap()
        .shutdown(std::net::Shutdown::Both)
        .unwrap();
    first.thread.join().unwrap();
    serve(port.as_mut(), |events| !events.is_empty());
    queues.tx[0].poll();
    queues.rx[0].burst(&mut port::RxBurst::default());
    let second = peer(
        &first.path,
        Script {
            features: VERSION_1 | PROTOCOL,
            ..Script::default()
        },
    );
    let start = Instant::now();
    let error = loop {
        match port.service() {
            Ok(_) => assert!(start.elapsed() < Duration::from_secs(20)),
            Err(error) => break error,
        }
    };
    assert!(
        error.to_string().contains("came back without RING_PACKED"),
        "{error}"
    );
    assert_eq!(queues.tx[0].state(), QueueState::Failed);
    let _ = port.stop(queues);
    assert_eq!(pool.free(), 64);
    second.thread.join().unwrap();
}

#[test]
fn a_message_that_nobody_asked_for_ends_the_connection() {
    let (_dir, first, port) = open(Script::default());
    let mut port = port.unwrap();
    let mut socket = first.socket.recv().unwrap();
    socket.write_all(&[1, 2, 3]).unwrap();
    let events = serve(port.as_mut(), |events| !events.is_empty());
    assert!(events[0].contains("nobody asked"), "{events:?}");
    drop(socket);
    first.thread.join().unwrap();
}

#[test]
fn a_server_waits_for_its_peer_and_leaves_no_socket_behind() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("s");
    // What a dead process left there is no obstacle.
    drop(UnixListener::bind(&path).unwrap());
    let server = VhostOptions {
        server: true,
        connect_timeout: Duration::from_secs(20),
        ..options()
    };
    let (sender, seen) = channel();
    let client = std::thread::spawn({
        let path = path.clone();
        move || {
            let socket = loop {
                match UnixStream::connect(&path) {
                    Ok(socket) => break socket,
                    Err(_) => std::thread::yield_now(),
                }
            };
            converse(socket, &Script::default(), &sender);
        }
    });
    let port = open_vhost_user(&path, &server).unwrap();
    let living = open_vhost_user(&path, &server).err().unwrap();
    assert!(matches!(living, OpenError::Listen { .. }), "{living}");
    drop(port);
    client.join().unwrap();
    assert!(!seen.iter().collect::<Vec<_>>().is_empty());
    assert!(!path.exists());

    let error = open_vhost_user(
        &path,
        &VhostOptions {
            server: true,
            ..impatient()
        },
    )
    .err()
    .unwrap();
    assert!(matches!(error, OpenError::Nobody { .. }), "{error}");
    assert!(!path.exists());
    std::fs::write(&path, "a file").unwrap();
    let error = open_vhost_user(&path, &server).err().unwrap();
    assert!(
        matches!(error, OpenError::NoSocket { .. }),
        "a file is nobody's to remove: {error}"
    );
    assert!(path.exists());
}

#[test]
fn a_port_starts_and_stops_many_times_on_the_same_memory() {
    let (_dir, peer, port) = open(Script::default());
    let mut port = port.unwrap();
    let config = Config::default();
    let memory = memory(port.as_ref(), &config);
    let pool = Pool::new(&memory, 64, 256).unwrap();
    for round in 1..=10 {
        let mut queues = port.start(&config, &memory).unwrap();
        let mut empties = Burst::new();
        pool.take_burst(&mut empties, 10);
        queues.rx[0].arm(&mut empties);
        post(&pool, &mut queues, 9);
        port.stop(queues).unwrap();
        drop(empties);
        assert_eq!(pool.free(), 64, "round {round}");
    }
    drop(port);
    peer.thread.join().unwrap();
}

#[test]
fn what_can_never_be_a_socket_is_named_at_either_end() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "not a socket").unwrap();
    let long = dir.path().join("x".repeat(120));
    for server in [false, true] {
        let options = VhostOptions {
            server,
            ..impatient()
        };
        for (path, words) in [
            (file.as_path(), "a file of another kind"),
            (dir.path(), "a directory"),
            (long.as_path(), "longer than 107"),
        ] {
            let error = open_vhost_user(path, &options).err().unwrap();
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.remedy().is_some());
        }
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"not a socket");
    let error = open_vhost_user(
        &dir.path().join("no/such/folder/s"),
        &VhostOptions {
            server: true,
            ..impatient()
        },
    );
    let cure = error.err().unwrap().remedy().unwrap();
    assert!(cure.contains("mkdir -p"), "{cure}");
}

#[test]
fn waiting_for_a_peer_ends_when_it_is_told_to() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("s");
    let options = VhostOptions {
        server: true,
        connect_timeout: Duration::from_secs(3600),
        ..options()
    };
    let stop = std::sync::Arc::clone(&options.stop);
    let waiting = std::thread::spawn({
        let path = path.clone();
        move || open_vhost_user(&path, &options).err().unwrap()
    });
    while !path.exists() {
        std::thread::yield_now();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = waiting.join().unwrap();
    assert!(matches!(error, OpenError::Interrupted { .. }), "{error}");
    assert!(!path.exists());
}
