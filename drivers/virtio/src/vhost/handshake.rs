//! The conversation with the peer, in steps that never block.
//!
//! Requests wait in a queue; each is sent when the one before it has its answer, if it has one.
//! The order is the one that DPDK's and others' back ends are known to take: every ring's call
//! eventfd before anything about rings (the peer makes its rings at the first), and a ring's kick
//! eventfd last (it starts the ring).

use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use hugemem::TableRow;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vhost::vhost_user::VhostUserProtocolFeatures as Protocol;
use vhost::vhost_user::message::{FrontendReq, VhostUserMemoryRegion};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

use crate::features::Features;
use crate::regs::Status;
use crate::ring::Format;
use crate::transport::Plan;
use crate::vhost::Trouble;
use crate::vhost::message::{Answer, HEADER, REPLY_MAX, Request};

/// What the peer says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The features that it offers.
    pub(crate) features: Features,
    /// Queue pairs.
    pub(crate) pairs: usize,
}

/// What this end uses of the protocol.
const WANTED: Protocol = Protocol::MQ
    .union(Protocol::REPLY_ACK)
    .union(Protocol::STATUS);

/// See the module.
pub(crate) struct Handshake {
    socket: UnixStream,
    patience: Duration,
    queue: VecDeque<Request>,
    /// The request whose answer is due, since when, and what of it is here.
    due: Option<(Request, Instant, Inbox)>,
    hello: Hello,
    /// All bits that the peer offered, those that are none of the driver's included.
    features: u64,
    protocol: Protocol,
    /// Rings that the peer was told of.
    rings: Vec<u16>,
}

/// A reply as far as it has come.
#[derive(Default)]
struct Inbox {
    bytes: [u8; HEADER + REPLY_MAX],
    len: usize,
}

impl Handshake {
    /// A conversation over `socket`, in which the peer has `patience` for each answer.
    pub(crate) fn new(socket: UnixStream, patience: Duration) -> Self {
        Self {
            socket,
            patience,
            queue: VecDeque::new(),
            due: None,
            hello: Hello {
                features: Features::empty(),
                pairs: 1,
            },
            features: 0,
            protocol: Protocol::empty(),
            rings: Vec::new(),
        }
    }

    /// What the peer said.
    pub(crate) fn hello(&self) -> Hello {
        self.hello
    }

    /// Asks what the peer can do.
    pub(crate) fn greet(&mut self) {
        self.ask(Request::bare(
            FrontendReq::SET_OWNER,
            "SET_OWNER",
            Answer::None,
        ));
        self.ask(Request::bare(
            FrontendReq::GET_FEATURES,
            "GET_FEATURES",
            Answer::Number,
        ));
    }

    /// Tells the peer of memory and rings, and to work on them. `bells` are the kick and call
    /// eventfds, by ring.
    pub(crate) fn start(&mut self, plan: &Plan, table: &[TableRow], bells: &[(RawFd, RawFd)]) {
        for ((ring, _), &(_, call)) in plan.rings.iter().zip(bells) {
            let code = FrontendReq::SET_VRING_CALL;
            self.ask(Request::eventfd(code, "SET_VRING_CALL", *ring, call));
        }
        let protocol = self.features & Features::VHOST_PROTOCOL.bits();
        // Several pairs are the peer's business too: DPDK's back end forgets all pairs but the
        // first where this is not taken. The command that switches them on is not: rings are
        // enabled one by one below.
        let several = plan.rings.len() > 2;
        let pairs = if several {
            self.features & Features::MQ.bits()
        } else {
            0
        };
        let features = plan.features.bits() | protocol | pairs;
        self.ask(Request::number(
            FrontendReq::SET_FEATURES,
            "SET_FEATURES",
            features,
        ));
        self.tell_memory(table);
        for ((ring, memory), &(kick, _)) in plan.rings.iter().zip(bells) {
            let slots = u32::try_from(memory.geometry.slots).expect("a ring has 32768 slots");
            let code = FrontendReq::SET_VRING_NUM;
            self.ask(Request::ring(code, "SET_VRING_NUM", *ring, slots));
            // A packed ring begins at slot 0 with both wrap counters at 1.
            let base = match memory.geometry.format {
                Format::Split { .. } => 0,
                Format::Packed => 0x8000_8000,
            };
            let code = FrontendReq::SET_VRING_BASE;
            self.ask(Request::ring(code, "SET_VRING_BASE", *ring, base));
            self.ask(Request::addresses(
                *ring,
                memory.desc.address(),
                memory.driver.address(),
                memory.device.address(),
            ));
            let code = FrontendReq::SET_VRING_KICK;
            self.ask(Request::eventfd(code, "SET_VRING_KICK", *ring, kick));
        }
        self.rings = plan.rings.iter().map(|(ring, _)| *ring).collect();
        self.enable(true);
        self.tell_status(
            Status::ACKNOWLEDGE | Status::DRIVER | Status::FEATURES_OK | Status::DRIVER_OK,
        );
        // Its answer shows that the peer took everything before it.
        self.ask(Request::bare(
            FrontendReq::GET_FEATURES,
            "GET_FEATURES",
            Answer::Unused,
        ));
    }

    /// Tells the peer to leave the rings alone.
    pub(crate) fn stop(&mut self) {
        self.enable(false);
        for ring in std::mem::take(&mut self.rings) {
            let code = FrontendReq::GET_VRING_BASE;
            let request = Request::ring(code, "GET_VRING_BASE", ring, 0);
            self.ask(request.with(Answer::Unused));
        }
        self.tell_status(Status::empty());
    }

    fn tell_memory(&mut self, table: &[TableRow]) {
        let rows: Vec<_> = table
            .iter()
            .map(|row| {
                let region = VhostUserMemoryRegion::new(row.guest, row.len, row.user, row.offset);
                (region, row.file.as_raw_fd())
            })
            .collect();
        let request = Request::memory(&rows);
        self.ask(match self.protocol.contains(Protocol::REPLY_ACK) {
            true => request.acknowledged(),
            false => request,
        });
    }

    /// Rings of a peer that has protocol features stand still until they are enabled.
    fn enable(&mut self, on: bool) {
        if self.features & Features::VHOST_PROTOCOL.bits() == 0 {
            return;
        }
        for ring in self.rings.clone() {
            let code = FrontendReq::SET_VRING_ENABLE;
            self.ask(Request::ring(code, "SET_VRING_ENABLE", ring, u32::from(on)));
        }
    }

    fn tell_status(&mut self, status: Status) {
        if self.protocol.contains(Protocol::STATUS) {
            let status = u64::from(status.bits());
            self.ask(Request::number(
                FrontendReq::SET_STATUS,
                "SET_STATUS",
                status,
            ));
        }
    }

    fn ask(&mut self, request: Request) {
        self.queue.push_back(request);
    }

    /// Goes on as far as it can without waiting; true when all is said and answered.
    pub(crate) fn step(&mut self) -> Result<bool, Trouble> {
        loop {
            if let Some((request, since, inbox)) = &mut self.due {
                let Some(value) = inbox.receive(&mut self.socket, request)? else {
                    check_time(request.name, *since, self.patience)?;
                    return Ok(false);
                };
                let (request, ..) = self.due.take().expect("it was there a moment ago");
                self.take_answer(&request, value)?;
            }
            let Some(request) = self.queue.front() else {
                return Ok(true);
            };
            if !send(&self.socket, request)? {
                return Ok(false);
            }
            let request = self.queue.pop_front().expect("it was there a moment ago");
            if request.answer != Answer::None {
                self.due = Some((request, Instant::now(), Inbox::default()));
            }
        }
    }

    /// Goes on until all is said and answered, or the peer's time is over.
    pub(crate) fn wait(&mut self) -> Result<(), Trouble> {
        let start = Instant::now();
        while !self.step()? {
            let waits_for = match &self.due {
                Some((_, since, _)) => (PollFlags::POLLIN, *since),
                None => (PollFlags::POLLOUT, start),
            };
            let (event, since) = waits_for;
            if self.due.is_none() {
                check_time("a request", since, self.patience)?;
            }
            let left = self.patience.saturating_sub(since.elapsed());
            let left = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            let mut files = [PollFd::new(self.socket.as_fd(), event)];
            // A signal only makes the next look come early.
            let _ = poll(&mut files, PollTimeout::from(left));
        }
        Ok(())
    }

    fn take_answer(&mut self, request: &Request, value: u64) -> Result<(), Trouble> {
        let nonsense = |what: String| Trouble::Nonsense {
            step: request.name,
            what,
        };
        match (request.answer, request.code) {
            (Answer::Number, FrontendReq::GET_FEATURES) => {
                self.features = value;
                self.hello.features =
                    Features::from_bits_truncate(value) - Features::VHOST_PROTOCOL;
                if value & Features::VHOST_PROTOCOL.bits() != 0 {
                    let code = FrontendReq::GET_PROTOCOL_FEATURES;
                    self.ask(Request::bare(code, "GET_PROTOCOL_FEATURES", Answer::Number));
                }
            }
            (Answer::Number, FrontendReq::GET_PROTOCOL_FEATURES) => {
                self.protocol = Protocol::from_bits_truncate(value) & WANTED;
                let code = FrontendReq::SET_PROTOCOL_FEATURES;
                let bits = self.protocol.bits();
                self.ask(Request::number(code, "SET_PROTOCOL_FEATURES", bits));
                if self.protocol.contains(Protocol::MQ) {
                    let code = FrontendReq::GET_QUEUE_NUM;
                    self.ask(Request::bare(code, "GET_QUEUE_NUM", Answer::Number));
                }
            }
            (Answer::Number, FrontendReq::GET_QUEUE_NUM) => {
                // In pairs, for a network device, as DPDK and QEMU have it.
                self.hello.pairs = match usize::try_from(value) {
                    Ok(pairs @ 1..=0x8000) => pairs,
                    _ => return Err(nonsense(format!("{value} queues"))),
                };
            }
            (Answer::Acknowledgement, _) if value != 0 => {
                return Err(nonsense(format!("failure {value}")));
            }
            _ => {}
        }
        Ok(())
    }

    /// Looks whether the peer is still there: why not, if it is not. Nothing is due, so that
    /// anything it says is as good as leaving.
    pub(crate) fn listen(&mut self) -> Option<String> {
        let mut byte = [0];
        match self.socket.read(&mut byte) {
            Ok(0) => Some("the peer closed the connection".into()),
            Ok(_) => Some("the peer sent a message that nobody asked for".into()),
            Err(error) if is_temporary(&error) => None,
            Err(error) => Some(format!("the connection to the peer broke: {error}")),
        }
    }
}

/// Fails if the peer's time is over.
fn check_time(step: &'static str, since: Instant, patience: Duration) -> Result<(), Trouble> {
    let waited = since.elapsed();
    if waited < patience {
        return Ok(());
    }
    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
    Err(Trouble::Silent { step, waited_ms })
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Sends a request whole; false if the socket takes nothing now.
fn send(socket: &UnixStream, request: &Request) -> Result<bool, Trouble> {
    match socket.send_with_fds(&[&request.bytes[..]], &request.files) {
        Ok(sent) if sent == request.bytes.len() => Ok(true),
        Ok(_) => {
            let what = "it takes only part of a request".into();
            Err(Trouble::Nonsense {
                step: request.name,
                what,
            })
        }
        Err(error) if is_temporary(&io::Error::from_raw_os_error(error.errno())) => Ok(false),
        Err(_) => Err(Trouble::Closed { step: request.name }),
    }
}

impl Inbox {
    /// Reads on; the reply's number once it is whole.
    fn receive(
        &mut self,
        socket: &mut UnixStream,
        request: &Request,
    ) -> Result<Option<u64>, Trouble> {
        let mut wanted = HEADER;
        loop {
            if self.len >= HEADER {
                let header = self.bytes.first_chunk().expect("the inbox holds a header");
                let body = request.check_header(header);
                let nonsense = |what| Trouble::Nonsense {
                    step: request.name,
                    what,
                };
                wanted = HEADER + body.map_err(nonsense)?;
            }
            if self.len == wanted {
                let body = self.bytes.last_chunk().expect("the inbox holds a body");
                return Ok(Some(u64::from_ne_bytes(*body)));
            }
            match socket.read(&mut self.bytes[self.len..wanted]) {
                Ok(0) => return Err(Trouble::Closed { step: request.name }),
                Ok(read) => self.len += read,
                Err(error) if is_temporary(&error) => return Ok(None),
                Err(_) => return Err(Trouble::Closed { step: request.name }),
            }
        }
    }
}
