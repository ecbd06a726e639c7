//! The control side of a run: the thread that does not move frames.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use port::LinkState;

use super::counters::{Counter, Gate};
use super::figures;
use super::outcome::{Event, Finished, Outcome, Snapshot};
use super::site::Site;
use super::stage::{Stage, StreamState};
use super::standby::{Offer, Standby, open};
use super::worker::{Placed, Worker, spread};
use super::{Clock, Hooks, RunError, RunPlan};

/// From when all workers are ready to when sending begins.
const LEAD_NS: u64 = 500_000;
/// How often a link is asked for.
const LINK_PERIOD_NS: u64 = 100_000_000;
/// How long the control thread sleeps between turns while it waits for the end.
const TURN: Duration = Duration::from_millis(1);

/// A run that goes on.
pub struct Run {
    pub(super) stage: Stage,
    pub(super) streams: Vec<StreamState>,
    pub(super) misdirected: Vec<Arc<[Counter]>>,
    pub(super) gate: Arc<Gate>,
    pub(super) workers: Vec<JoinHandle<Vec<Placed>>>,
    pub(super) now: Box<dyn Fn() -> u64 + Send>,
    pub(super) start_ns: u64,
    pub(super) link_ns: u64,
    pub(super) events: Vec<Event>,
    pub(super) last: Snapshot,
}

/// How workers shall work.
pub(super) struct Team<C> {
    pub(super) clock: C,
    pub(super) hooks: Hooks,
    pub(super) cores: Vec<usize>,
    pub(super) yield_when_idle: bool,
    pub(super) duration_ns: Option<u64>,
}

/// Starts a run.
///
/// # Errors
/// Memory is missing, a port cannot do what the plan asks or does not start, its link stays down,
/// a stream is wrong. Whatever was started is stopped again.
pub fn start<C: Clock>(plan: RunPlan, clock: C, hooks: Hooks) -> Result<Run, RunError> {
    let offer = Offer::of(&plan);
    open(plan)?.start(&offer, clock, hooks)
}

impl Run {
    /// Starts the workers, and lets them begin together.
    pub(super) fn begin<C: Clock>(
        mut self,
        tasks: Vec<Placed>,
        team: Team<C>,
    ) -> Result<Self, RunError> {
        let lists = spread(tasks, team.cores.len());
        for (number, tasks) in lists.into_iter().enumerate() {
            let core = team.cores.get(number).copied();
            let worker = Worker {
                tasks,
                core,
                clock: team.clock,
                yield_when_idle: team.yield_when_idle,
                duration_ns: team.duration_ns,
                gate: Arc::clone(&self.gate),
                hooks: team.hooks.clone(),
            };
            let name = core.map_or("rgen worker".into(), |core| format!("rgen core {core}"));
            let thread = thread::Builder::new().name(name);
            match thread.spawn(move || worker.run()) {
                Ok(handle) => self.workers.push(handle),
                Err(error) => {
                    self.gate.stop();
                    self.gate.begin((self.now)());
                    drop(self.join());
                    return Err(RunError::Thread(error));
                }
            }
        }
        while self.gate.ready() < self.workers.len() && !self.finished() {
            thread::yield_now();
        }
        self.start_ns = (self.now)() + LEAD_NS;
        self.gate.begin(self.start_ns);
        Ok(self)
    }

    /// The control thread's turn, a few hundred times a second: lets ports look after links,
    /// mailboxes and peers. Returns what happened since the last time.
    pub fn service(&mut self) -> Vec<Event> {
        let now_ns = (self.now)();
        let at_ns = now_ns.saturating_sub(self.start_ns);
        let known = self.events.len();
        let look_at_links = now_ns.saturating_sub(self.link_ns) >= LINK_PERIOD_NS;
        if look_at_links {
            self.link_ns = now_ns;
        }
        for (port, site) in self.stage.sites.iter_mut().enumerate() {
            if site.failure.is_some() {
                continue;
            }
            let mut said = Vec::new();
            match service(site, look_at_links, &mut said) {
                Ok(()) => {}
                Err(error) => {
                    said.push(error.to_string());
                    site.failure = Some(error);
                    self.gate.stop();
                }
            }
            let event = |what| Event { at_ns, port, what };
            self.events.extend(said.into_iter().map(event));
        }
        self.events[known..].to_vec()
    }

    /// Figures so far. Cheap; loss is not among them, as it is not known before the end.
    #[must_use]
    pub fn snapshot(&mut self) -> Snapshot {
        let elapsed_ns = (self.now)().saturating_sub(self.start_ns);
        let mut figures = figures::gather(self);
        figures::set_rates(&mut figures, elapsed_ns, Some(&self.last));
        figures::set_shares(&mut figures, &self.stage.sites, elapsed_ns);
        self.last = Snapshot {
            elapsed_ns,
            figures,
        };
        self.last.clone()
    }

    /// Stops sending; draining follows by itself.
    pub fn stop(&self) {
        self.gate.stop();
    }

    /// True once every worker is done.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the workers (servicing the ports meanwhile), reads the counters, stops the ports.
    #[must_use]
    pub fn join(mut self) -> Finished {
        self.wait();
        let (mut outcome, mut stage) = figures::finish(self, true);
        outcome.leaked = figures::close_pools(&mut stage.sites);
        let ports = stage.sites.into_iter().map(|site| site.port).collect();
        Finished { outcome, ports }
    }

    /// As [`Run::join`], but the ports stay started, for the next trial. Whether all frames come
    /// home is known once they are closed.
    ///
    /// # Panics
    /// The run forwards ([`forward`](fn@super::forward)): it has no streams to send again.
    #[must_use]
    pub fn join_open(mut self) -> (Outcome, Standby) {
        assert!(!self.stage.is_bare(), "only what has streams has trials");
        self.wait();
        let (outcome, stage) = figures::finish(self, false);
        (outcome, Standby::new(stage))
    }

    fn wait(&mut self) {
        while !self.finished() {
            self.service();
            thread::sleep(TURN);
        }
        self.service();
    }
}

fn service(
    site: &mut Site,
    look_at_link: bool,
    said: &mut Vec<String>,
) -> Result<(), port::PortError> {
    said.append(&mut site.said);
    said.extend(site.port.service()?);
    if look_at_link {
        let state = site.port.link()?.state;
        if site.link.replace(state) != Some(state) {
            said.push(match state {
                LinkState::Up => "link up".into(),
                LinkState::Down => "link down".into(),
            });
        }
    }
    Ok(())
}
