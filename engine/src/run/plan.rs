//! What a run shall do.

use std::sync::Arc;

use hugemem::Pages;
use port::{Config, Port};

use crate::resolution::Addresses;
use crate::stream::Stream;

/// A run, planned.
pub struct RunPlan {
    /// The ports, and what each sends.
    pub ports: Vec<PortPlan>,
    /// How long to send, in nanoseconds; until stopped if none.
    pub duration_ns: Option<u64>,
    /// How many frames to send in all, over all streams, in proportion to their rates; as many as
    /// there is time for if none.
    pub frames_limit: Option<u64>,
    /// What random fields follow from: the same seed gives the same frames.
    pub seed: u64,
    /// Mixed into the key of measured frames' stamps, so that frames of another run with the same
    /// seed are foreign. Take it from the clock or a random source.
    pub stamp_nonce: u64,
    /// How late a frame may be sent, in nanoseconds. Frames that would be later are given up and
    /// counted as shortfall.
    pub catch_up_ns: u64,
    /// Frames that follow each other faster than this, in nanoseconds, may be posted together, up
    /// to so much late: one notification of the device for several frames. Slower ones leave one
    /// by one. The rate stays exact; 0 posts each as soon as it is due.
    pub coalesce_ns: u64,
    /// How long to wait at most, in nanoseconds, for rings to drain and for frames to arrive.
    pub drain_ns: u64,
    /// For how long nothing must have been received before receiving ends, in nanoseconds.
    pub quiet_ns: u64,
    /// How long to wait for links to come up before sending, in nanoseconds.
    pub link_wait_ns: u64,
    /// The cores for workers, one each. None: one worker, which goes where the system puts it.
    pub cores: Vec<usize>,
    /// Whether workers give their core away after a turn that did nothing: for machines with
    /// fewer cores than busy threads. It costs a system call each time.
    pub yield_when_idle: bool,
    /// What to make the memory of.
    pub pages: Pages,
    /// NUMA node for the memory, where it matters.
    pub node: Option<u32>,
    /// Streams whose frames repeat after at most so many are rendered once and sent again and
    /// again; 0 to write every frame when it is sent.
    pub resident_limit: usize,
}

impl RunPlan {
    /// A run over `ports` until stopped, with seed 1, 20 ms of catching up, half a
    /// microsecond of coalescing, up to a second of draining, on one worker that yields, from any pages.
    #[must_use]
    pub fn new(ports: Vec<PortPlan>) -> Self {
        const MS: u64 = 1_000_000;
        Self {
            ports,
            duration_ns: None,
            frames_limit: None,
            seed: 1,
            stamp_nonce: 0,
            catch_up_ns: 20 * MS,
            coalesce_ns: 500,
            drain_ns: 1000 * MS,
            quiet_ns: 20 * MS,
            link_wait_ns: 10_000 * MS,
            cores: Vec::new(),
            yield_when_idle: true,
            pages: Pages::HugeOrBase,
            node: None,
            resident_limit: 32_768,
        }
    }
}

/// A port of a run.
pub struct PortPlan {
    /// The port, open and not started.
    pub port: Box<dyn Port>,
    /// What it sends. Each stream is split over its send queues.
    pub streams: Vec<Stream>,
    /// As fast as the port takes: the rates of [scaled](Stream::scaled) streams are then only
    /// their proportions. Others keep their rates.
    pub unlimited: bool,
    /// Whether to receive. Otherwise the port has no receive queues.
    pub receive: bool,
    /// The port that receives what this one sends, by its number in the run: itself where the
    /// frames come back. None if they go elsewhere, or could arrive at any.
    pub peer: Option<usize>,
    /// Whether to accept frames for other addresses too, where the device can.
    pub promiscuous: bool,
    /// Its own addresses: questions for them (ARP, neighbour discovery, echo) are answered while
    /// the run goes on, on a send queue more than `config` says. None are answered if empty.
    pub addresses: Addresses,
    /// Queues, rings and offloads. `rx_capacity` is raised to the largest frame of the run.
    pub config: Config,
}

impl PortPlan {
    /// `port` with nothing to send, receiving everything, on its default number of queues.
    #[must_use]
    pub fn new(port: Box<dyn Port>) -> Self {
        Self {
            config: Config::of(port.caps()),
            port,
            streams: Vec::new(),
            unlimited: false,
            receive: true,
            peer: None,
            promiscuous: true,
            addresses: Addresses::default(),
        }
    }
}

/// What the caller does for workers that the engine cannot do itself.
#[derive(Clone)]
pub struct Hooks {
    /// Called by each worker on its own thread before anything else, with its core: pins it, sets
    /// its name and its scheduling.
    pub on_worker_start: Arc<dyn Fn(usize) + Send + Sync>,
}

impl Default for Hooks {
    /// Does nothing.
    fn default() -> Self {
        Self {
            on_worker_start: Arc::new(|_| {}),
        }
    }
}
