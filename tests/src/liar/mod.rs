//! A vhost-user device that does not keep to the rules.
//!
//! It plays the protocol honestly, message by message, up to the point that its [`Plan`] names,
//! and lies there: it hangs up, falls silent, answers nonsense, or spoils the rings. What it is
//! for is the driver on the other end, which has to notice, say so, and lose nothing.

mod message;
mod ring;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};

use crate::mutate::Mutator;
use crate::peer::feature;
use message::{Message, request};
use ring::Ring;

/// What a liar does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Nothing: to learn what an honest handshake looks like ([`Liar::messages`]).
    None,
    /// Hangs up when message number *n* of a connection has arrived.
    HangUpAt(usize),
    /// Reads on but answers nothing from message number *n* on.
    SilentFrom(usize),
    /// Gives a wrong answer to message number *n*, if an answer is due.
    AnswerAt(usize, Answer),
    /// Is honest until the rings have moved a few frames, then spoils the ring on which the
    /// driver sends.
    SendRing(RingLie),
    /// The same, on the ring on which the driver receives.
    ReceiveRing(RingLie),
}

/// A wrong answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Bytes that mean nothing.
    Noise,
    /// A header that announces 4 GiB.
    Oversized,
    /// A header that announces more than comes, and then nothing.
    Truncated,
    /// An answer to another request.
    WrongRequest,
    /// Another version of the protocol.
    WrongVersion,
    /// No mark that it is an answer.
    NotAReply,
    /// A payload of the wrong length.
    WrongSize,
    /// Two answers for one request.
    Twice,
    /// The right answer with a few bytes changed, missing or too many.
    Mutated {
        /// What decides which.
        seed: u64,
    },
}

/// What is done to a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingLie {
    /// Nothing is ever used.
    NeverUses,
    /// Split: the used index jumps past what was made available. Packed: every slot claims to be
    /// used.
    UsesWhatIsNotAvailable,
    /// A chain that cannot exist is used.
    IdOutOfRange,
    /// The same, one past the last.
    IdJustOutOfRange,
    /// The same chain is used twice.
    IdTwice,
    /// So many bytes were written, says the used entry.
    Length(u32),
    /// The frame lies in so many buffers, says its header.
    Buffers(u16),
    /// Random words over the used ring and the descriptors, again and again.
    Scribble {
        /// Where the random numbers start.
        seed: u64,
    },
}

/// How a liar is made.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it does wrong.
    pub lie: Lie,
    /// Virtio features that it offers.
    pub features: u64,
    /// Protocol features that it offers.
    pub protocol: u64,
    /// Queue pairs that it says it has.
    pub pairs: u64,
}

impl Plan {
    /// A peer of one queue pair that tells `lie`.
    #[must_use]
    pub fn of(lie: Lie) -> Self {
        const MQ: u64 = 1 << 0;
        const REPLY_ACK: u64 = 1 << 3;
        Self {
            lie,
            features: feature::VERSION_1
                | feature::PROTOCOL
                | feature::MRG_RXBUF
                | feature::IN_ORDER
                | feature::PACKED,
            protocol: MQ | REPLY_ACK,
            pairs: 1,
        }
    }

    /// The same without `features`.
    #[must_use]
    pub fn without(mut self, features: u64) -> Self {
        self.features &= !features;
        self
    }
}

/// A message that came from the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its request's number.
    pub request: u32,
    /// True if an answer was due.
    pub answered: bool,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    connections: AtomicU64,
    lies: AtomicU64,
    taken: AtomicU64,
    given: AtomicU64,
    messages: Mutex<Vec<Seen>>,
    complaints: Mutex<Vec<String>>,
}

/// A liar that runs; dropping it ends it.
#[derive(Debug)]
pub struct Liar {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    /// Listens on `path`, in the place of whatever was there.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn start(path: &Path, plan: &Plan) -> io::Result<Self> {
        let _ = std::fs::remove_file(path);
        let socket = UnixListener::bind(path)?;
        let shared = Arc::new(Shared::default());
        let (of_thread, plan) = (Arc::clone(&shared), plan.clone());
        let thread = thread::Builder::new()
            .name("liar".into())
            .spawn(move || serve(&of_thread, &socket, &plan))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Connections so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// Lies told so far.
    #[must_use]
    pub fn lies(&self) -> u64 {
        self.shared.lies.load(Ordering::Acquire)
    }

    /// Chains that it used on the driver's send ring, honestly.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.shared.taken.load(Ordering::Acquire)
    }

    /// Frames that it put into the driver's receive ring, honestly.
    #[must_use]
    pub fn given(&self) -> u64 {
        self.shared.given.load(Ordering::Acquire)
    }

    /// The messages of the last connection, in order.
    #[must_use]
    pub fn messages(&self) -> Vec<Seen> {
        let messages = self.shared.messages.lock();
        messages.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What went wrong on the liar's own side: messages that it could not read.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let complaints = self.shared.complaints.lock();
        complaints.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits at most `limit` until it has told a lie; true if it has.
    #[must_use]
    pub fn lied_within(&self, limit: Duration) -> bool {
        let started = Instant::now();
        while self.lies() == 0 && started.elapsed() < limit {
            thread::sleep(Duration::from_millis(1));
        }
        self.lies() > 0
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(shared: &Shared, socket: &UnixListener, plan: &Plan) {
    while !shared.stop.load(Ordering::Acquire) {
        if !is_readable(&socket.as_fd(), 10) {
            continue;
        }
        let Ok((stream, _)) = socket.accept() else {
            continue;
        };
        shared.connections.fetch_add(1, Ordering::Release);
        lock(&shared.messages).clear();
        let mut session = Session::new(shared, plan, stream);
        if let Err(error) = session.run() {
            lock(&shared.complaints).push(error.to_string());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits at most `wait_ms` for something to read.
fn is_readable(fd: &impl AsFd, wait_ms: u8) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(wait_ms)).is_ok_and(|ready| ready > 0)
}

/// One connection.
struct Session<'a> {
    shared: &'a Shared,
    plan: &'a Plan,
    socket: UnixStream,
    memory: GuestMemoryMmap,
    /// First address in the driver's process, on the bus, and length, of each region.
    regions: Vec<(u64, u64, u64)>,
    rings: Vec<Ring>,
    packed: bool,
    /// False once the driver has agreed to start rings by `SET_VRING_ENABLE`.
    enabled_by_default: bool,
    /// Messages so far.
    count: usize,
    silent: bool,
    noise: u64,
}

/// Whether the connection goes on.
#[derive(PartialEq, Eq)]
enum Next {
    On,
    HangUp,
}

impl<'a> Session<'a> {
    fn new(shared: &'a Shared, plan: &'a Plan, socket: UnixStream) -> Self {
        Self {
            shared,
            plan,
            socket,
            memory: GuestMemoryMmap::new(),
            regions: Vec::new(),
            rings: Vec::new(),
            packed: false,
            enabled_by_default: true,
            count: 0,
            silent: false,
            noise: 0,
        }
    }

    fn run(&mut self) -> io::Result<()> {
        // A driver that stops in the middle of a message must not hold us up for ever.
        self.socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        while !self.shared.stop.load(Ordering::Acquire) {
            let runs = self.rings.iter().any(Ring::runs);
            if is_readable(&self.socket, if runs { 0 } else { 5 }) {
                let Some(message) = Message::read(&mut self.socket)? else {
                    return Ok(());
                };
                if self.handle(message)? == Next::HangUp {
                    return Ok(());
                }
            }
            if runs {
                self.turn();
                thread::yield_now();
            }
        }
        Ok(())
    }

    /// One turn of the rings.
    fn turn(&mut self) {
        /// Frames that move honestly before a ring is spoiled.
        const HONEST: u64 = 40;
        let Self {
            shared,
            plan,
            memory,
            rings,
            ..
        } = self;
        for (number, ring) in rings.iter_mut().enumerate() {
            if !ring.runs() {
                continue;
            }
            let receives = number % 2 == 0;
            let (lie, moved) = match plan.lie {
                Lie::SendRing(lie) if !receives => (Some(lie), &shared.taken),
                Lie::ReceiveRing(lie) if receives => (Some(lie), &shared.given),
                _ => (
                    None,
                    if receives {
                        &shared.given
                    } else {
                        &shared.taken
                    },
                ),
            };
            let left = HONEST.saturating_sub(moved.load(Ordering::Acquire));
            match lie {
                Some(RingLie::NeverUses) => {
                    shared.lies.fetch_add(1, Ordering::Release);
                }
                Some(lie) if left == 0 => {
                    let lie = match lie {
                        RingLie::Scribble { seed } => RingLie::Scribble {
                            seed: seed.wrapping_add(self.noise),
                        },
                        other => other,
                    };
                    self.noise += 1;
                    if ring.tell(memory, lie) {
                        shared.lies.fetch_add(1, Ordering::Release);
                    }
                }
                _ if receives => {
                    let honest = lie.is_some() && ring.source(memory, 60);
                    moved.fetch_add(u64::from(honest), Ordering::AcqRel);
                }
                _ => {
                    let most = if lie.is_some() { left } else { u64::MAX };
                    moved.fetch_add(ring.sink(memory, most), Ordering::AcqRel);
                }
            }
        }
    }

    fn handle(&mut self, mut message: Message) -> io::Result<Next> {
        let number = self.count;
        self.count += 1;
        let file = message.file.take();
        let answer = self.answer(&message, file)?;
        let seen = Seen {
            request: message.request,
            answered: answer.is_some(),
        };
        lock(&self.shared.messages).push(seen);
        match self.plan.lie {
            Lie::HangUpAt(at) if at == number => {
                self.shared.lies.fetch_add(1, Ordering::Release);
                return Ok(Next::HangUp);
            }
            Lie::SilentFrom(at) if at <= number => self.silent = true,
            Lie::AnswerAt(at, wrong) if at == number => {
                if let Some(payload) = answer {
                    self.shared.lies.fetch_add(1, Ordering::Release);
                    return self.answer_wrong(&message, &payload, wrong);
                }
            }
            _ => {}
        }
        if let Some(payload) = answer {
            if self.silent {
                self.shared.lies.fetch_add(1, Ordering::Release);
            } else {
                self.send(&message::reply(message.request, &payload));
            }
        }
        Ok(Next::On)
    }

    /// Writes to the driver, which may have hung up: that shows on the next read.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    fn answer_wrong(&mut self, to: &Message, payload: &[u8], wrong: Answer) -> io::Result<Next> {
        /// Version 1, and an answer.
        const REPLY: u32 = 1 | 1 << 2;
        let size = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let bytes = match wrong {
            Answer::Noise => (0..64_u8).map(|n| n.wrapping_mul(97) ^ 0x5a).collect(),
            Answer::Oversized => message::raw(to.request, REPLY, u32::MAX, payload),
            Answer::Truncated => message::raw(to.request, REPLY, size + 8, payload),
            Answer::WrongRequest => message::raw(to.request + 1, REPLY, size, payload),
            Answer::WrongVersion => message::raw(to.request, REPLY ^ 3, size, payload),
            Answer::NotAReply => message::raw(to.request, 1, size, payload),
            Answer::WrongSize => {
                let longer = [payload, &[0; 8]].concat();
                message::raw(to.request, REPLY, size + 8, &longer)
            }
            Answer::Twice => message::reply(to.request, payload).repeat(2),
            Answer::Mutated { seed } => {
                let mut bytes = message::reply(to.request, payload);
                Mutator::new(seed).bytes(&mut bytes);
                bytes
            }
        };
        self.send(&bytes);
        Ok(Next::On)
    }

    /// Does what the message says; the answer, if one is due.
    fn answer(&mut self, message: &Message, file: Option<File>) -> io::Result<Option<Vec<u8>>> {
        let long = |value: u64| Some(value.to_le_bytes().to_vec());
        let own = match message.request {
            request::GET_FEATURES => long(self.plan.features),
            request::GET_PROTOCOL_FEATURES => long(self.plan.protocol),
            request::GET_QUEUE_NUM => long(self.plan.pairs * 2),
            request::GET_STATUS => long(0),
            request::GET_VRING_BASE => {
                let number = message.word(0);
                let ring = self.ring(number);
                ring.started = false;
                let words = [number, ring.base()];
                Some(words.iter().flat_map(|word| word.to_le_bytes()).collect())
            }
            _ => {
                self.set(message, file)?;
                None
            }
        };
        Ok(own.or_else(|| if message.needs_reply { long(0) } else { None }))
    }

    fn set(&mut self, message: &Message, file: Option<File>) -> io::Result<()> {
        let number = message.word(0);
        match message.request {
            request::SET_FEATURES => {
                let features = message.long(0);
                self.packed = features & feature::PACKED != 0;
                self.enabled_by_default = features & feature::PROTOCOL == 0;
            }
            request::SET_PROTOCOL_FEATURES => {}
            request::SET_MEM_TABLE => self.map(message, file)?,
            request::SET_VRING_NUM => {
                let size = u16::try_from(message.word(4)).map_err(io::Error::other)?;
                self.ring(number).size = size;
            }
            request::SET_VRING_BASE => {
                let base = message.word(4);
                let packed = self.packed;
                let ring = self.ring(number);
                ring.packed = packed;
                ring.set_base(base);
            }
            request::SET_VRING_ADDR => {
                let [descriptors, used, available] =
                    [8, 16, 24].map(|offset| self.on_bus(message.long(offset)));
                let ring = self.ring(number);
                ring.descriptors = descriptors?;
                ring.used = used?;
                ring.available = available?;
            }
            request::SET_VRING_KICK => {
                let enabled = self.enabled_by_default;
                let ring = self.ring(number & 0xff);
                ring.started = true;
                ring.enabled |= enabled;
            }
            request::SET_VRING_ENABLE => {
                let on = message.word(4) != 0;
                self.ring(number).enabled = on;
            }
            _ => {}
        }
        Ok(())
    }

    /// The ring with that number, made if it is new.
    fn ring(&mut self, number: u32) -> &mut Ring {
        let index = usize::try_from(number & 0xff).unwrap_or(0);
        if self.rings.len() <= index {
            self.rings.resize_with(index + 1, Ring::default);
        }
        &mut self.rings[index]
    }

    /// Maps the driver's memory: one region, as one file comes with a message.
    fn map(&mut self, message: &Message, file: Option<File>) -> io::Result<()> {
        if message.word(0) != 1 {
            return Err(io::Error::other("a memory table of other than one region"));
        }
        let file = file.ok_or_else(|| io::Error::other("a memory table without a file"))?;
        let [bus, size, process, offset] = [8, 16, 24, 32].map(|at| message.long(at));
        let len = usize::try_from(size).map_err(io::Error::other)?;
        let range = (GuestAddress(bus), len, Some(FileOffset::new(file, offset)));
        self.memory = GuestMemoryMmap::from_ranges_with_files([range]).map_err(io::Error::other)?;
        self.regions = vec![(process, bus, size)];
        Ok(())
    }

    /// The bus address of an address in the driver's process.
    fn on_bus(&self, address: u64) -> io::Result<u64> {
        let inside = |&(process, bus, size): &(u64, u64, u64)| {
            let offset = address.checked_sub(process)?;
            (offset < size).then_some(bus + offset)
        };
        let found = self.regions.iter().find_map(inside);
        found.ok_or_else(|| io::Error::other(format!("a ring at {address:#x}, not in the table")))
    }
}
