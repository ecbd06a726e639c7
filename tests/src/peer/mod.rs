//! A vhost-user device in this process, made of parts that others wrote.
//!
//! Protocol, rings and memory are the `vhost-user-backend`, `virtio-queue` and `vm-memory`
//! crates'; ours is only what the device does with frames ([`Role`]) and what it counts. It
//! polls, so it needs no kick. `virtio-queue` has split rings only: for packed ones the peer is
//! DPDK's testpmd (`peers::Testpmd`).
//!
//! [`Peer::vanish`] ends it in mid-run as a crash would, and leaves its socket behind;
//! [`Peer::start`] on the same path takes its place.

mod device;
mod ring;

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vhost::vhost_user::{Error as Failure, Listener};
use vhost_user_backend::{Error, VhostUserDaemon};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventFlag, new_event_consumer_and_notifier};

use device::Device;

/// Features of virtio 1.2 §5.1.3 and §6 by their bit numbers, and vhost-user's own bit 30.
pub mod feature {
    /// A frame may be received into several buffers.
    pub const MRG_RXBUF: u64 = 1 << 15;
    /// Several pairs of queues.
    pub const MQ: u64 = 1 << 22;
    /// Tables of descriptors outside the ring.
    pub const INDIRECT: u64 = 1 << 28;
    /// Notifications by index.
    pub const EVENT_IDX: u64 = 1 << 29;
    /// vhost-user protocol features can be negotiated.
    pub const PROTOCOL: u64 = 1 << 30;
    /// Not a legacy device.
    pub const VERSION_1: u64 = 1 << 32;
    /// Packed rings.
    pub const PACKED: u64 = 1 << 34;
    /// Buffers are used in the order in which they were made available.
    pub const IN_ORDER: u64 = 1 << 35;
}

/// What a peer does with frames.
#[derive(Debug, Clone, Default)]
pub enum Role {
    /// Takes and counts what comes.
    #[default]
    Sink,
    /// Sends each frame back on the same queue pair, source and destination MAC swapped. It
    /// takes no frame while one waits for an empty buffer, so it never loses any.
    Reflector,
    /// Sends `total` frames on each queue pair: `frames` in turn, again and again.
    Source {
        /// The frames.
        frames: Arc<[Vec<u8>]>,
        /// How many to send on each queue pair.
        total: u64,
    },
}

/// How a peer is made.
#[derive(Debug, Clone)]
pub struct Setup {
    /// What it does with frames.
    pub role: Role,
    /// Queue pairs.
    pub pairs: usize,
    /// Most slots that a ring may have.
    pub most_slots: usize,
    /// Virtio features that it offers.
    pub features: u64,
    /// Vhost-user protocol features that it offers: 0 for a peer that knows none of them.
    pub protocol: u64,
    /// How many received frames it keeps to be looked at, over all queues.
    pub keep: usize,
}

impl Default for Setup {
    fn default() -> Self {
        const MQ: u64 = 1 << 0;
        const REPLY_ACK: u64 = 1 << 3;
        Self {
            role: Role::default(),
            pairs: 1,
            most_slots: 1024,
            features: feature::VERSION_1
                | feature::PROTOCOL
                | feature::MRG_RXBUF
                | feature::MQ
                | feature::INDIRECT
                | feature::IN_ORDER,
            protocol: MQ | REPLY_ACK,
            keep: 0,
        }
    }
}

/// What a peer counted, since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that it took from the driver.
    pub taken: u64,
    /// Their bytes, without FCS.
    pub taken_bytes: u64,
    /// A digest of their contents that does not depend on their order: see [`digest`].
    pub taken_digest: u64,
    /// Frames that it gave to the driver.
    pub given: u64,
    /// Their bytes, without FCS.
    pub given_bytes: u64,
    /// A digest of their contents.
    pub given_digest: u64,
    /// Connections that it accepted.
    pub connections: u64,
}

/// A number that stands for the content of `frame`; the digest of many frames is the wrapping
/// sum of theirs.
#[must_use]
pub fn digest(frame: &[u8]) -> u64 {
    // FNV-1a over eight bytes at a time, and a last mix so that sums don't cancel out.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ frame.len() as u64;
    for chunk in frame.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        hash ^= hash >> 29;
    }
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What the peer's threads share with its owner.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    paused: AtomicBool,
    taken: AtomicU64,
    taken_bytes: AtomicU64,
    taken_digest: AtomicU64,
    given: AtomicU64,
    given_bytes: AtomicU64,
    given_digest: AtomicU64,
    connections: AtomicU64,
    acked: AtomicU64,
    kept: Mutex<Vec<Vec<u8>>>,
    objections: Mutex<Vec<String>>,
}

impl Shared {
    /// Notes what the driver did wrong.
    fn object(&self, what: String) {
        const MOST: usize = 100;
        let mut objections = self
            .objections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if objections.len() < MOST {
            objections.push(what);
        }
    }
}

/// A peer that runs; dropping it ends it.
#[derive(Debug)]
pub struct Peer {
    shared: Arc<Shared>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    /// Listens on `path`, in the place of whatever was there.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn start(path: &Path, setup: &Setup) -> io::Result<Self> {
        let _ = std::fs::remove_file(path);
        // The crate's own listener would remove the socket in its end; after a crash it stays.
        let socket = UnixListener::bind(path)?;
        let shared = Arc::new(Shared::default());
        let (of_thread, setup) = (Arc::clone(&shared), setup.clone());
        let thread = thread::Builder::new()
            .name("peer".into())
            .spawn(move || serve(&of_thread, &socket, &setup))?;
        Ok(Self {
            shared,
            path: path.to_owned(),
            thread: Some(thread),
        })
    }

    /// The socket that it listens on.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        let shared = &self.shared;
        Counts {
            taken: load(&shared.taken),
            taken_bytes: load(&shared.taken_bytes),
            taken_digest: load(&shared.taken_digest),
            given: load(&shared.given),
            given_bytes: load(&shared.given_bytes),
            given_digest: load(&shared.given_digest),
            connections: load(&shared.connections),
        }
    }

    /// The features that the driver acknowledged last.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.shared.acked.load(Ordering::Acquire)
    }

    /// Takes the frames that it kept so far, in the order of their arrival.
    #[must_use]
    pub fn kept(&self) -> Vec<Vec<u8>> {
        let mut kept = self
            .shared
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut kept)
    }

    /// What the driver did that the standard forbids. Empty, or the test has failed.
    #[must_use]
    pub fn objections(&self) -> Vec<String> {
        let objections = self
            .shared
            .objections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        objections.clone()
    }

    /// Leaves the rings alone until told otherwise, as a peer that is busy elsewhere.
    pub fn pause(&self, paused: bool) {
        self.shared.paused.store(paused, Ordering::Release);
    }

    /// Waits at most `limit` until `done` says so; what it counted then.
    pub fn wait(&self, limit: Duration, done: impl Fn(&Counts) -> bool) -> Counts {
        let started = Instant::now();
        loop {
            let counts = self.counts();
            if done(&counts) || started.elapsed() > limit {
                return counts;
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Ends it in mid-run: the rings are left as they are, the connection closes, the socket
    /// stays behind with nobody listening. What it counted, to the last frame.
    #[must_use]
    pub fn vanish(mut self) -> Counts {
        self.end();
        self.counts()
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.shared.object("the peer's own thread panicked".into());
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Accepts connections one after the other until told to stop.
fn serve(shared: &Arc<Shared>, socket: &UnixListener, setup: &Setup) {
    while !shared.stop.load(Ordering::Acquire) {
        if !is_readable(socket) {
            continue;
        }
        if let Err(what) = connection(shared, socket, setup) {
            shared.object(what);
        }
    }
}

/// Waits a moment for a connection.
fn is_readable(socket: &UnixListener) -> bool {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(10_u8)).is_ok_and(|ready| ready > 0)
}

/// Serves one connection until the driver closes it or the peer is told to stop.
fn connection(shared: &Arc<Shared>, socket: &UnixListener, setup: &Setup) -> Result<(), String> {
    /// What the worker's own event is called: above the queues and the crate's own.
    const TURN: u64 = 1 << 15;
    fn failed(doing: &str) -> impl FnOnce(&dyn Display) -> String {
        move |error| format!("the peer failed in {doing}: {error}")
    }
    let mut listener = Listener::from(socket.try_clone().map_err(|e| failed("dup")(&e))?);
    let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
    let device = Arc::new(Device::new(Arc::clone(shared), setup, memory.clone()));
    let mut daemon = VhostUserDaemon::new("peer-messages".into(), device, memory)
        .map_err(|error| failed("its start")(&error))?;
    // An event that is always there: the worker's loop becomes a poll loop.
    let always = new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC);
    let (turn, ring) = always.map_err(|error| failed("eventfd")(&error))?;
    ring.notify().map_err(|error| failed("eventfd")(&error))?;
    for worker in daemon.get_epoll_handlers() {
        worker
            .register_listener(turn.as_raw_fd(), EventSet::IN, TURN)
            .map_err(|error| failed("epoll")(&error))?;
    }
    daemon
        .start(&mut listener)
        .map_err(|error| failed("accept")(&error))?;
    shared.connections.fetch_add(1, Ordering::Release);
    let handle = daemon.shutdown_handle();
    let ended = thread::scope(|scope| {
        let messages = scope.spawn(|| daemon.wait());
        while !messages.is_finished() {
            if shared.stop.load(Ordering::Acquire)
                && let Some(handle) = &handle
            {
                handle.shutdown();
            }
            thread::sleep(Duration::from_millis(1));
        }
        messages.join()
    });
    match ended {
        Err(_) => Err("the peer's message thread panicked".into()),
        Ok(Ok(())) => Ok(()),
        // How a driver hangs up.
        Ok(Err(Error::HandleRequest(
            Failure::Disconnected | Failure::PartialMessage | Failure::SocketBroken(_),
        ))) => Ok(()),
        Ok(Err(error)) => Err(format!("the driver's message was refused: {error}")),
    }
}
