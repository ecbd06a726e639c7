//! Trials: the same streams again, on ports that stay started.

use port::Port;

use super::control::{Run, Team};
use super::figures;
use super::outcome::Snapshot;
use super::setup::Setup;
use super::stage::Stage;
use super::{Clock, Hooks, RunError, RunPlan};
use crate::load::Load;

/// Ports that are started and wait: links are up, memory is mapped, frames are written. Between two
/// trials ([`Run::join_open`]) or before the first ([`open`]).
///
/// A NIC that is stopped loses its link, and takes seconds to get it back; a vhost-user peer has to
/// be told of memory anew. So a search keeps its ports started, and runs one trial after the other:
///
/// - each trial counts from zero, and its [`Outcome`](super::Outcome) adds up by itself;
/// - measured frames carry a key of their own in each, so that one that comes too late is
///   nobody's, and is never taken for one of the next trial;
/// - what came in between is thrown away;
/// - fields go on where they were: a random sequence is not repeated;
/// - a link that went down in between is waited for.
pub struct Standby {
    stage: Stage,
}

/// What to send in one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// How fast.
    pub pace: Pace,
    /// How long, in nanoseconds; until stopped if none.
    pub duration_ns: Option<u64>,
    /// How many frames in all, as [`RunPlan::frames_limit`].
    pub frames_limit: Option<u64>,
}

/// How fast the ports of a trial send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As the plan says.
    AsPlanned,
    /// Each sending port by itself at this load.
    Load(Load),
    /// Each as fast as it takes frames.
    Unlimited,
}

/// What [`Standby::close`] gives back.
pub struct Closed {
    /// The ports, stopped.
    pub ports: Vec<Box<dyn Port>>,
    /// Frames of the run's pools that did not come home; 0, or a bug.
    pub leaked: u64,
    /// Ports that could not be stopped, by number, and why.
    pub failures: Vec<(usize, port::PortError)>,
}

impl Offer {
    /// What `plan` says.
    #[must_use]
    pub fn of(plan: &RunPlan) -> Self {
        Self {
            pace: Pace::AsPlanned,
            duration_ns: plan.duration_ns,
            frames_limit: plan.frames_limit,
        }
    }
}

/// Starts the ports of `plan` and writes its frames; nothing is sent yet.
///
/// # Errors
/// Memory is missing, a port cannot do what the plan asks or does not start, a stream is wrong.
/// Whatever was started is stopped again.
pub fn open(plan: RunPlan) -> Result<Standby, RunError> {
    let stage = Setup::new(plan)?.into_stage()?;
    Ok(Standby::new(stage))
}

impl Standby {
    pub(super) fn new(stage: Stage) -> Self {
        Self { stage }
    }

    /// The ports, in the plan's order: to ask for their links and counters.
    pub fn ports(&mut self) -> impl Iterator<Item = &mut dyn Port> {
        self.stage.sites.iter_mut().map(|site| &mut *site.port as _)
    }

    /// Waits for the links, and begins a trial.
    ///
    /// # Errors
    /// A link stays down, a port has failed, `offer` is nothing that the streams can make up. The
    /// ports are stopped then.
    pub fn start<C: Clock>(
        mut self,
        offer: &Offer,
        clock: C,
        hooks: Hooks,
    ) -> Result<Run, RunError> {
        let settled = self.stage.settle(clock);
        let ready = settled.and_then(|events| Ok((events, self.stage.crew(offer)?)));
        let (events, crew) = ready.inspect_err(|_| self.stage.stop())?;
        let team = Team {
            clock,
            hooks,
            cores: self.stage.plan.cores.clone(),
            yield_when_idle: self.stage.plan.yield_when_idle,
            duration_ns: offer.duration_ns,
        };
        let run = Run {
            stage: self.stage,
            streams: crew.streams,
            misdirected: crew.misdirected,
            gate: crew.gate,
            workers: Vec::new(),
            now: Box::new(move || clock.now_ns()),
            start_ns: 0,
            link_ns: 0,
            events,
            last: Snapshot::default(),
        };
        run.begin(crew.tasks, team)
    }

    /// Stops the ports and gives them back.
    #[must_use]
    pub fn close(mut self) -> Closed {
        self.stage.stop();
        let leaked = figures::close_pools(&mut self.stage.sites);
        let mut closed = Closed {
            ports: Vec::new(),
            leaked,
            failures: Vec::new(),
        };
        for (number, site) in self.stage.sites.into_iter().enumerate() {
            closed
                .failures
                .extend(site.failure.map(|failure| (number, failure)));
            closed.ports.push(site.port);
        }
        closed
    }
}
