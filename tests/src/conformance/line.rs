//! Two started ports on one wire, and frames moved over it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hugemem::{
    BURST, Burst, Leaked, Memory, MemoryError, MemoryRequest, Pages, Pool, PoolError, TxFlags,
};
use port::{
    Config, Mac, Port, PortError, QueueState, Queues, RxBurst, RxFlags, RxMeta, StartError,
};

/// How long frames may take to move on by even one.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// For how long nothing must have moved before nothing more is expected.
const STILL: Duration = Duration::from_millis(30);

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A port did not start.
    #[error("start: {0}")]
    Start(#[from] StartError),
    /// A port failed.
    #[error("port: {0}")]
    Port(#[from] PortError),
    /// There is no memory for the check.
    #[error("memory: {0}")]
    Memory(#[from] MemoryError),
    /// There are no frames for the check.
    #[error("pool: {0}")]
    Pool(#[from] PoolError),
    /// Frames did not come home.
    #[error("after stop: {0}")]
    Leaked(#[from] Leaked),
    /// Something else than what should be.
    #[error("{0}")]
    Found(String),
}

/// Leaves the function with a [`Failure::Found`] unless the condition holds.
#[macro_export]
macro_rules! require {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Failure::Found(format!($($what)+)));
        }
    };
}

/// A received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Its bytes, without FCS.
    pub bytes: Vec<u8>,
    /// What the device says of it.
    pub meta: RxMeta,
    /// Buffers that it lay in.
    pub buffers: usize,
}

/// A started port with what it needs to move frames.
pub struct End {
    /// The port.
    pub port: Box<dyn Port>,
    /// Its queues.
    pub queues: Queues,
    /// What it was started with.
    pub config: Config,
    /// Frames to send.
    pub to_send: Pool,
    /// Frames to arm for receiving.
    pub to_arm: Pool,
    received: Box<RxBurst>,
    /// A frame of several buffers whose end is yet to come, for each queue.
    unfinished: Vec<Option<Received>>,
}

/// Room in each frame that is sent: enough for any frame that a check makes.
const SEND_ROOM: usize = 9728;

impl End {
    /// Starts a port that is no end of a [`Line`], in memory of its own, and arms its receive
    /// rings.
    ///
    /// # Errors
    /// The port does not start, or memory is short.
    pub fn alone(port: Box<dyn Port>, config: &Config) -> Result<Self, Failure> {
        let memory = Memory::new(&MemoryRequest {
            bytes: memory_bytes(port.as_ref(), config),
            pages: Pages::HugeOrBase,
            node: None,
            spaces: vec![port.space()],
        })?;
        let mut end = Self::start(port, config, &memory)?;
        end.arm();
        Ok(end)
    }

    fn start(mut port: Box<dyn Port>, config: &Config, memory: &Memory) -> Result<Self, Failure> {
        let (slots_to_send, slots_to_arm) = slots(port.as_ref(), config);
        let room = SEND_ROOM.min(port.caps().max_frame.max(1518) + 128);
        let to_send = Pool::new(memory, slots_to_send + 2 * BURST, room)?;
        let to_arm = Pool::new(memory, slots_to_arm + 2 * BURST, config.rx_capacity)?;
        let queues = port.start(config, memory)?;
        require!(
            queues.rx.len() == config.rx_queues && queues.tx.len() == config.tx_queues,
            "asked for {} and {} queues, got {} and {}",
            config.rx_queues,
            config.tx_queues,
            queues.rx.len(),
            queues.tx.len()
        );
        Ok(Self {
            port,
            unfinished: vec![None; queues.rx.len()],
            queues,
            config: config.clone(),
            to_send,
            to_arm,
            received: Box::default(),
        })
    }

    /// Gives every receive ring as many empty frames as it takes.
    pub fn arm(&mut self) {
        let mut burst = Burst::new();
        for queue in &mut self.queues.rx {
            while queue.room() > 0 && self.to_arm.take_burst(&mut burst, queue.room()) > 0 {
                if queue.arm(&mut burst) == 0 {
                    break;
                }
            }
            burst.clear();
        }
    }

    /// Posts frames of at most `most` bytes-lists from the front of `frames` on `queue`, each in
    /// one buffer; how many it posted.
    pub fn post(&mut self, queue: usize, frames: &mut VecDeque<Vec<u8>>, most: usize) -> usize {
        self.post_flagged(queue, frames, most, TxFlags::empty())
    }

    /// The same, with `flags` on each frame.
    pub fn post_flagged(
        &mut self,
        queue: usize,
        frames: &mut VecDeque<Vec<u8>>,
        most: usize,
        flags: TxFlags,
    ) -> usize {
        let mut burst = Burst::new();
        self.to_send
            .take_burst(&mut burst, most.min(frames.len()).min(BURST));
        for (frame, bytes) in burst.iter_mut().zip(frames.iter()) {
            frame.fill(bytes);
            frame.flags = flags;
        }
        let posted = self.queues.tx[queue].burst(&mut burst);
        frames.drain(..posted);
        posted
    }

    /// Takes back what is sent; how many frames came back.
    pub fn reap(&mut self) -> usize {
        let mut burst = Burst::new();
        let mut back = 0;
        for queue in &mut self.queues.tx {
            while queue.reap(&mut burst) > 0 {
                back += burst.len();
                burst.clear();
            }
        }
        back
    }

    /// Frames that the device still has, over all send queues.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let counts = self.queues.tx.iter().map(|queue| queue.counts());
        counts.map(|counts| counts.in_flight()).sum()
    }

    /// Collects what arrived on `queue` into `out`, and arms as many buffers again.
    pub fn receive(&mut self, queue: usize, out: &mut Vec<Received>) {
        let burst = self.receive_unarmed(queue, out);
        if burst > 0 {
            self.arm();
        }
    }

    /// Collects what arrived on `queue` into `out`, and arms nothing; how many buffers it was.
    /// A device that goes on for ever, which a good one can't, is not listened to for ever.
    pub fn receive_unarmed(&mut self, queue: usize, out: &mut Vec<Received>) -> usize {
        const MOST: usize = 1024;
        let mut buffers = 0;
        for _ in 0..MOST {
            let got = self.queues.rx[queue].burst(&mut self.received);
            if got == 0 {
                break;
            }
            buffers += got;
            let metas = self.received.meta;
            for meta in metas.iter().take(got) {
                let Some(frame) = self.received.frames.pop() else {
                    break;
                };
                let whole = join(self.unfinished[queue].take(), frame.bytes(), *meta);
                if meta.flags.contains(RxFlags::MORE) {
                    self.unfinished[queue] = Some(whole);
                } else {
                    out.push(whole);
                }
            }
        }
        buffers
    }

    /// The control thread's turn.
    ///
    /// # Errors
    /// The port has failed for good, or one of its queues has.
    pub fn service(&mut self) -> Result<Vec<String>, Failure> {
        let events = self.port.service()?;
        let mut states = self.queues.tx.iter().map(|queue| queue.state());
        let mut more = self.queues.rx.iter().map(|queue| queue.state());
        let failed =
            states.any(|s| s == QueueState::Failed) || more.any(|s| s == QueueState::Failed);
        require!(!failed, "a queue failed without a word: {events:?}");
        Ok(events)
    }

    /// Stops the port, and makes sure that every frame is home.
    ///
    /// # Errors
    /// The port did not stop, or frames are missing.
    pub fn stop(mut self) -> Result<Box<dyn Port>, Failure> {
        let stopped = self.port.stop(self.queues);
        self.received.frames.clear();
        self.to_send.close()?;
        self.to_arm.close()?;
        stopped?;
        Ok(self.port)
    }
}

/// The frame so far with one more buffer.
fn join(begun: Option<Received>, bytes: &[u8], meta: RxMeta) -> Received {
    match begun {
        None => Received {
            bytes: bytes.to_vec(),
            meta,
            buffers: 1,
        },
        Some(mut begun) => {
            begun.bytes.extend_from_slice(bytes);
            begun.buffers += 1;
            begun
        }
    }
}

/// Slots of all send rings and of all receive rings.
fn slots(port: &dyn Port, config: &Config) -> (usize, usize) {
    let caps = port.caps();
    let send = config.tx_slots.unwrap_or(caps.tx_slots.default) * config.tx_queues;
    let receive = config.rx_slots.unwrap_or(caps.rx_slots.default) * config.rx_queues;
    (send, receive)
}

/// Two started ports on one wire.
pub struct Line {
    /// The ends.
    pub ends: [End; 2],
    /// The memory of both.
    pub memory: Memory,
    /// How many frames a burst, in turn: odd, so that they meet the ring's end everywhere.
    pub bursts: Vec<usize>,
    turn: usize,
}

impl Line {
    /// Starts both ports with `config` and arms their receive rings.
    ///
    /// # Errors
    /// A port does not start, or memory is short.
    pub fn start(ports: [Box<dyn Port>; 2], config: &Config) -> Result<Self, Failure> {
        let mut line = Self::start_unarmed(ports, config)?;
        line.ends.iter_mut().for_each(End::arm);
        line.wait_for_link()?;
        Ok(line)
    }

    /// Starts both ports with `config`; nothing is received until [`End::arm`].
    ///
    /// # Errors
    /// A port does not start, or memory is short.
    pub fn start_unarmed(ports: [Box<dyn Port>; 2], config: &Config) -> Result<Self, Failure> {
        let bytes: usize = ports.iter().map(|p| memory_bytes(p.as_ref(), config)).sum();
        let memory = Memory::new(&MemoryRequest {
            bytes,
            pages: Pages::HugeOrBase,
            node: None,
            spaces: ports.iter().map(|port| port.space()).collect(),
        })?;
        let [first, second] = ports;
        let first = End::start(first, config, &memory)?;
        let second = End::start(second, config, &memory)?;
        Ok(Self {
            ends: [first, second],
            memory,
            bursts: vec![1, 3, 7, 13, 31, 61, 64],
            turn: 0,
        })
    }

    /// Waits until the link is up at both ends.
    ///
    /// # Errors
    /// It stays down, or a port fails.
    pub fn wait_for_link(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            let mut up = true;
            for end in &mut self.ends {
                end.service()?;
                up &= end.port.link()?.state == port::LinkState::Up;
            }
            if up {
                return Ok(());
            }
            require!(started.elapsed() < 2 * PATIENCE, "the link stays down");
            std::thread::yield_now();
        }
    }

    /// The next size of a burst.
    pub fn burst_size(&mut self) -> usize {
        self.turn += 1;
        self.bursts[self.turn % self.bursts.len()]
    }

    /// Sends `frames` from end `from` on its send queue 0 and returns what arrives at the other
    /// end, on all its queues, in order of arrival: once `expected` frames are there, and
    /// whatever else comes with them.
    ///
    /// # Errors
    /// Fewer arrive within [`PATIENCE`], or a port fails.
    pub fn transfer(
        &mut self,
        from: usize,
        frames: &[Vec<u8>],
        expected: usize,
    ) -> Result<Vec<Received>, Failure> {
        let mut rest: VecDeque<Vec<u8>> = frames.to_vec().into();
        let mut arrived = Vec::new();
        let mut watch = Watch::new();
        while arrived.len() < expected || !rest.is_empty() || self.ends[from].in_flight() > 0 {
            let before = (arrived.len(), rest.len(), self.ends[from].in_flight());
            let size = self.burst_size();
            if !rest.is_empty() {
                self.ends[from].post(0, &mut rest, size);
            }
            self.ends[from].reap();
            self.collect(1 - from, &mut arrived);
            let moved = before != (arrived.len(), rest.len(), self.ends[from].in_flight());
            if !watch.is_patient(moved) {
                return Err(Failure::Found(format!(
                    "{} of {expected} frames arrived, {} are not posted, {} in flight",
                    arrived.len(),
                    rest.len(),
                    self.ends[from].in_flight()
                )));
            }
            if !moved {
                self.serve()?;
            }
        }
        Ok(arrived)
    }

    /// Collects what arrived at end `at` on every queue.
    pub fn collect(&mut self, at: usize, out: &mut Vec<Received>) {
        for queue in 0..self.ends[at].queues.rx.len() {
            self.ends[at].receive(queue, out);
        }
    }

    /// Waits until end `at` has received nothing more for a moment, and drops what it receives:
    /// how many frames that was.
    ///
    /// # Errors
    /// A port fails.
    pub fn settle(&mut self, at: usize) -> Result<usize, Failure> {
        let mut dropped = 0;
        let mut last = Instant::now();
        while last.elapsed() < STILL {
            let mut out = Vec::new();
            self.collect(at, &mut out);
            if !out.is_empty() {
                dropped += out.len();
                last = Instant::now();
            }
            self.serve()?;
        }
        Ok(dropped)
    }

    /// Waits until nothing of end `at` has changed for a moment: for a ring that is not armed.
    ///
    /// # Errors
    /// A port fails.
    pub fn settle_unarmed(&mut self, at: usize) -> Result<(), Failure> {
        let mut counters = self.ends[at].port.counters()?;
        let mut last = Instant::now();
        while last.elapsed() < STILL {
            let now = self.ends[at].port.counters()?;
            if now != counters {
                (counters, last) = (now, Instant::now());
            }
            self.serve()?;
        }
        Ok(())
    }

    /// Both control threads' turn.
    ///
    /// # Errors
    /// A port has failed.
    pub fn serve(&mut self) -> Result<(), Failure> {
        for end in &mut self.ends {
            end.service()?;
        }
        std::thread::yield_now();
        Ok(())
    }

    /// Addresses of both ends.
    #[must_use]
    pub fn macs(&self) -> [Mac; 2] {
        [0, 1].map(|end: usize| self.ends[end].port.info().mac)
    }

    /// Stops both ports: every frame must be home, and the counts must add up.
    ///
    /// # Errors
    /// A port does not stop, or frames are missing.
    pub fn stop(self) -> Result<[Box<dyn Port>; 2], Failure> {
        let [first, second] = self.ends;
        let (first, second) = (first.stop(), second.stop());
        Ok([first?, second?])
    }
}

/// Bytes that a port with `config` takes in a check: rings, frames, and some to spare.
#[must_use]
pub fn memory_bytes(port: &dyn Port, config: &Config) -> usize {
    let (send, receive) = slots(port, config);
    let room = SEND_ROOM.min(port.caps().max_frame.max(1518) + 128);
    port.ring_bytes(config)
        + Pool::footprint(send + 2 * BURST, room)
        + Pool::footprint(receive + 2 * BURST, config.rx_capacity)
        + Pool::footprint(512, 2048)
        + (64 << 10)
}

/// Patience with things that should move.
#[derive(Debug)]
pub struct Watch {
    last: Instant,
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// Starts now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            last: Instant::now(),
        }
    }

    /// False once nothing has moved for [`PATIENCE`].
    pub fn is_patient(&mut self, moved: bool) -> bool {
        if moved {
            self.last = Instant::now();
        }
        self.last.elapsed() < PATIENCE
    }
}

/// An Ethernet frame of `len` bytes (60 or more) that no stack answers, with a number in it.
#[must_use]
pub fn frame(to: Mac, from: Mac, len: usize, number: u64) -> Vec<u8> {
    // 88b5: for local experiments (IEEE 802, clause 9.2.4).
    let mut bytes = [&to[..], &from[..], &[0x88, 0xb5], &number.to_be_bytes()].concat();
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() < len {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Fails at the first frame that is not as it was sent.
///
/// # Errors
/// There is one.
pub fn same(sent: &[Vec<u8>], received: &[Received]) -> Result<(), Failure> {
    for (number, (sent, received)) in sent.iter().zip(received).enumerate() {
        let bytes = &received.bytes;
        require!(
            sent.len() == bytes.len(),
            "frame {number}: {} bytes sent, {} received",
            sent.len(),
            bytes.len()
        );
        if let Some(at) = (0..sent.len()).find(|&at| sent[at] != bytes[at]) {
            return Err(Failure::Found(format!(
                "frame {number} of {} bytes: byte {at} was {:02x} and is {:02x}",
                sent.len(),
                sent[at],
                bytes[at]
            )));
        }
    }
    require!(
        sent.len() == received.len(),
        "{} frames sent, {} received",
        sent.len(),
        received.len()
    );
    Ok(())
}
