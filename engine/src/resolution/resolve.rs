//! Asking for a gateway's station, before a run.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use hugemem::{Burst, Memory, MemoryError, MemoryRequest, Pages, Pool, PoolError};
use port::{Config, LinkState, Mac, Port, PortError, Queues, RxBurst, StartError};

use super::request::{announcement, request, told};
use super::{Addresses, Vlans};

/// Frames that circulate.
const FRAMES: usize = 512;
/// Bytes that each holds.
const CAPACITY: usize = 2048;
/// How often the question is repeated, and how often in all.
const REPEAT: Duration = Duration::from_millis(500);
const TIMES: u32 = 10;
/// How long a link is waited for.
const LINK_WAIT: Duration = Duration::from_secs(10);

/// Who asks for whom.
#[derive(Debug, Clone)]
pub struct Whom<'a> {
    /// The port's addresses. It asks with the first of the gateway's kind in its VLANs.
    pub own: &'a Addresses,
    /// Whose station is asked for.
    pub gateway: IpAddr,
    /// The VLANs that it is asked in.
    pub vlans: Vlans,
}

/// Why a gateway's station is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The port did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The port failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// There is not enough memory for frames.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The port has no address of the gateway's kind.
    #[error("{port}: no address of its own to ask for {gateway} with")]
    NoAddress {
        /// The port.
        port: String,
        /// Whose station was to be asked for.
        gateway: IpAddr,
    },
    /// The link stays down.
    #[error("{port}: its link is down, so nobody can be asked for {gateway}")]
    LinkDown {
        /// The port.
        port: String,
        /// Whose station was to be asked for.
        gateway: IpAddr,
    },
    /// Nobody answers.
    #[error("{port}: nobody answers for {gateway}; asked {TIMES} times in {} s", (REPEAT * TIMES).as_secs())]
    Silent {
        /// The port.
        port: String,
        /// Whose station was asked for.
        gateway: IpAddr,
    },
}

impl ResolveError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Start(error) => error.remedy(),
            Self::Port(error) => error.remedy(),
            Self::Memory(error) => error.remedy(),
            Self::Pool(_) => None,
            Self::NoAddress { .. } => Some("give the port one: --ip ADDRESS@GATEWAY".into()),
            Self::LinkDown { .. } => Some("look at the cable and at the other end".into()),
            Self::Silent { .. } => Some(
                "look whether that is its address on this network, or give its station: --dst-mac"
                    .into(),
            ),
        }
    }
}

/// Starts `port`, tells everybody its addresses, asks for the gateway's station, and stops it.
/// Questions for the port's own addresses are answered meanwhile.
///
/// # Errors
/// Nobody answers; or the port does not work.
pub fn resolve(port: &mut dyn Port, whom: &Whom<'_>, pages: Pages) -> Result<Mac, ResolveError> {
    let (name, mac) = (port.info().name.clone(), port.info().mac);
    let question = whom
        .own
        .firsts()
        .filter(|(vlans, _)| *vlans == whom.vlans)
        .find_map(|(vlans, own)| request(mac, vlans, own, whom.gateway))
        .ok_or(ResolveError::NoAddress {
            port: name,
            gateway: whom.gateway,
        })?;
    let config = Config {
        rx_capacity: CAPACITY,
        rx_queues: 1,
        tx_queues: 1,
        ..Config::default()
    };
    let memory = Memory::new(&MemoryRequest {
        bytes: port.ring_bytes(&config) + Pool::footprint(FRAMES, CAPACITY) + (1 << 20),
        pages,
        node: port.info().node,
        spaces: vec![port.space()],
    })?;
    let pool = Pool::new(&memory, FRAMES, CAPACITY)?;
    let queues = port.start(&config, &memory)?;
    let mut asker = Asker {
        port,
        queues,
        pool,
        whom,
        mac,
    };
    let found = asker.ask(&question);
    let Asker {
        port, queues, pool, ..
    } = asker;
    let stopped = port.stop(queues);
    // Only now is every frame home.
    drop(pool);
    stopped?;
    found
}

/// A started port that asks.
struct Asker<'a> {
    port: &'a mut dyn Port,
    queues: Queues,
    pool: Pool,
    whom: &'a Whom<'a>,
    mac: Mac,
}

impl Asker<'_> {
    fn ask(&mut self, question: &[u8]) -> Result<Mac, ResolveError> {
        let (port, gateway) = (self.port.info().name.clone(), self.whom.gateway);
        self.arm();
        let started = Instant::now();
        while self.port.link()?.state != LinkState::Up {
            if started.elapsed() > LINK_WAIT {
                return Err(ResolveError::LinkDown { port, gateway });
            }
            self.port.service()?;
            thread::yield_now();
        }
        let own = self.whom.own;
        for (vlans, address) in own.firsts() {
            self.send(&announcement(self.mac, vlans, address))?;
        }
        for _ in 0..TIMES {
            self.send(question)?;
            let asked = Instant::now();
            while asked.elapsed() < REPEAT {
                if let Some(mac) = self.listen()? {
                    return Ok(mac);
                }
                self.port.service()?;
                thread::yield_now();
            }
        }
        Err(ResolveError::Silent { port, gateway })
    }

    fn arm(&mut self) {
        let mut empties = Burst::new();
        for queue in &mut self.queues.rx {
            while queue.room() > 0 && self.pool.free() > FRAMES / 2 {
                self.pool.take_burst(&mut empties, queue.room().min(64));
                if queue.arm(&mut empties) == 0 {
                    break;
                }
            }
        }
        self.pool.give_burst(&mut empties);
    }

    /// Sends a frame, unless the ring is full: questions are repeated.
    fn send(&mut self, bytes: &[u8]) -> Result<(), PortError> {
        let mut burst = Burst::new();
        self.pool.take_burst(&mut burst, 1);
        for frame in burst.iter_mut() {
            frame.fill(bytes);
        }
        for queue in &mut self.queues.tx {
            queue.burst(&mut burst);
        }
        self.pool.give_burst(&mut burst);
        self.port.service().map(drop)
    }

    /// Takes what came, and answers what it asks; the gateway's station, once it is told.
    fn listen(&mut self) -> Result<Option<Mac>, PortError> {
        let (mut burst, mut answers) = (RxBurst::default(), Burst::new());
        let mut found = None;
        for queue in &mut self.queues.rx {
            queue.burst(&mut burst);
        }
        while let Some(mut frame) = burst.frames.pop() {
            if Vlans::of(frame.bytes()) == self.whom.vlans {
                found = found.or_else(|| told(frame.bytes(), self.whom.gateway));
            }
            if self.whom.own.answer(&mut frame, self.mac) {
                // There is room: it holds as many as came.
                let kept = answers.push(frame);
                debug_assert!(kept.is_ok());
            }
        }
        for queue in &mut self.queues.tx {
            queue.burst(&mut answers);
            queue.reap(&mut burst.frames);
        }
        drop(answers);
        self.pool.give_burst(&mut burst.frames);
        self.arm();
        Ok(found)
    }
}
