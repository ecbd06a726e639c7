//! Forwarding: what a port receives, another sends. testpmd's role.

mod rewrite;
mod task;

pub(super) use task::ForwardTask;

use std::mem;
use std::sync::Arc;

use hugemem::Pages;
use port::{Config, Mac, Port, Queues};
use task::ForwardParts;

use super::control::{Run, Team};
use super::counters::Gate;
use super::outcome::Snapshot;
use super::site::{self, Site};
use super::stage::Stage;
use super::tap::Tap;
use super::worker::{Placed, Task};
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
    /// `port` with its default number of queues, promiscuous; next hop 02:00:00:00:00:00, as in
    /// testpmd.
    #[must_use]
    pub fn new(port: Box<dyn Port>) -> Self {
        Self {
            config: Config::of(port.caps()),
            port,
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
    /// Where copies of what is received go, if anybody wants them.
    pub tap: Option<Tap>,
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
            tap: None,
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

/// What forwarding needs of a port besides its site.
struct Ends {
    mac: Mac,
    next_hop: Mac,
    ipv4: Option<[u8; 4]>,
    /// The port that sends what this one receives.
    partner: Option<usize>,
}

/// Starts forwarding.
///
/// # Errors
/// Memory is missing, a port cannot do what the plan asks or does not start, or its link stays
/// down. Whatever was started is stopped again.
pub fn forward<C: Clock>(mut plan: ForwardPlan, clock: C, hooks: Hooks) -> Result<Run, RunError> {
    let (mut sites, ends) = sites(&mut plan)?;
    let started = start_ports(&plan, &mut sites, &ends, clock);
    started.inspect_err(|_| sites.iter_mut().for_each(Site::stop))?;
    let gate = Arc::new(Gate::new(0));
    let tasks = tasks(&plan, &mut sites, &ends, &gate);
    let team = Team {
        clock,
        hooks,
        cores: plan.cores,
        yield_when_idle: plan.yield_when_idle,
        duration_ns: plan.duration_ns,
    };
    let run = Run {
        stage: Stage::bare(sites),
        streams: Vec::new(),
        misdirected: Vec::new(),
        gate,
        workers: Vec::new(),
        now: Box::new(move || clock.now_ns()),
        start_ns: 0,
        link_ns: 0,
        events: Vec::new(),
        last: Snapshot::default(),
    };
    run.begin(tasks, team)
}

/// Takes the ports out of a plan, and checks that they can do it.
fn sites(plan: &mut ForwardPlan) -> Result<(Vec<Site>, Vec<Ends>), RunError> {
    if plan.ports.is_empty() {
        return Err(RunError::NoPorts);
    }
    let count = plan.ports.len();
    let (mut sites, mut ends): (Vec<Site>, Vec<Ends>) = (Vec::new(), Vec::new());
    for (number, mut port) in mem::take(&mut plan.ports).into_iter().enumerate() {
        let partner = match plan.mode {
            ForwardMode::RxOnly => None,
            ForwardMode::IcmpEcho => Some(number),
            _ if number ^ 1 < count => Some(number ^ 1),
            _ => Some(number),
        };
        if partner.is_none() {
            port.config.tx_queues = 0;
        }
        ends.push(Ends {
            mac: port.port.info().mac,
            next_hop: port.next_hop,
            ipv4: port.ipv4,
            partner,
        });
        let site = Site::new(port.port, port.config, port.promiscuous);
        site.check(0)?;
        sites.push(site);
    }
    for (site, ends) in sites.iter().zip(&ends) {
        let Some(partner) = ends.partner.map(|partner| &sites[partner]) else {
            continue;
        };
        if partner.config.tx_queues < site.config.rx_queues {
            return Err(RunError::Unsupported {
                port: partner.name().to_owned(),
                what: "number of send queues",
                asked: partner.config.tx_queues.to_string(),
                allowed: format!("one for each receive queue of {}", site.name()),
            });
        }
    }
    Ok((sites, ends))
}

fn start_ports(
    plan: &ForwardPlan,
    sites: &mut [Site],
    ends: &[Ends],
    clock: impl Clock,
) -> Result<(), RunError> {
    // What a port receives may fill its partner's send ring.
    let in_flight = |ends: &Ends| ends.partner.map_or(0, |partner| sites[partner].tx_slots());
    let in_flight: Vec<usize> = ends.iter().map(in_flight).collect();
    let parts = sites.iter().zip(&in_flight);
    let bytes = parts.map(|(site, &frames)| site.footprint(frames)).sum();
    let memory = site::memory(sites, bytes, plan.pages, plan.node)?;
    for (site, &frames) in sites.iter_mut().zip(&in_flight) {
        site.start(&memory, frames)?;
    }
    site::wait_for_links(sites, clock, plan.link_wait_ns).map(drop)
}

fn tasks(plan: &ForwardPlan, sites: &mut [Site], ends: &[Ends], gate: &Arc<Gate>) -> Vec<Placed> {
    let mut senders = Vec::new();
    for site in sites.iter_mut() {
        let queues = site.queues.as_mut().map(|queues| mem::take(&mut queues.tx));
        let queues = queues.unwrap_or_default().into_iter();
        senders.push(queues.map(Some).collect::<Vec<_>>());
    }
    let mut tasks = Vec::new();
    for (port, ends_here) in ends.iter().enumerate() {
        let queues: &mut Queues = sites[port].queues.get_or_insert_default();
        for (number, rx) in mem::take(&mut queues.rx).into_iter().enumerate() {
            let partner = ends_here.partner.unwrap_or(port);
            let sends = ends_here.partner.is_some();
            let tx = senders[partner]
                .get_mut(number)
                .filter(|_| sends)
                .and_then(Option::take);
            let parts = ForwardParts {
                rx,
                out: tx.is_some().then_some((partner, number)),
                tx,
                mode: plan.mode,
                tap: plan.tap.as_ref().map(|tap| tap.end(port)),
                retries: plan.retries,
                mac: ends[partner].mac,
                next_hop: ends[partner].next_hop,
                ipv4: ends[partner].ipv4,
                received: Arc::clone(&sites[port].received[number]),
                // A port that sends nothing counts what it does not send for nobody.
                sent: sites[partner]
                    .sent
                    .get(number)
                    .map_or_else(Arc::default, Arc::clone),
                gate: Arc::clone(gate),
                quiet_ns: plan.quiet_ns,
                drain_ns: plan.drain_ns,
            };
            tasks.push(Placed {
                port,
                queue: number,
                task: Task::Forward(Box::new(ForwardTask::new(parts))),
            });
        }
    }
    for (port, queues) in senders.into_iter().enumerate() {
        for (queue, tx) in queues.into_iter().enumerate() {
            let Some(tx) = tx else { continue };
            let task = Task::Idle(tx);
            tasks.push(Placed { port, queue, task });
        }
    }
    tasks
}
