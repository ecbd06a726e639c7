//! Trials: the same traffic at one load after the other, on ports that stay started.

use std::thread;
use std::time::{Duration, Instant};

use engine::run::{Closed, Offer, Outcome, Standby};
use engine::search::Finding;

use crate::drive::watch;
use crate::error::Error;
use crate::output::balance::Balance;
use crate::output::progress::Progress;
use crate::session::{Session, not_started};

/// How often somebody looks for Ctrl-C while nothing is sent.
const LOOK: Duration = Duration::from_millis(20);

/// Ports that run trials.
pub(crate) struct Trials<'a> {
    session: &'a Session,
    progress: &'a Progress,
    /// None once a trial could not be started, which stops the ports.
    standby: Option<Standby>,
    /// Silence before each trial.
    rest: Duration,
    /// Totals of ports tell what was lost.
    by_totals: bool,
}

/// What a trial came to.
pub(crate) struct Tried {
    /// Everything.
    pub(crate) outcome: Outcome,
    /// What a search wants to know.
    pub(crate) finding: Finding,
    /// More came than was sent, so that totals may hide losses.
    pub(crate) surplus: u64,
    /// Somebody stopped it.
    pub(crate) interrupted: bool,
}

impl<'a> Trials<'a> {
    /// Trials on `standby`. `by_totals`: nothing but what ports count in all tells losses.
    pub(crate) fn new(
        standby: Standby,
        session: &'a Session,
        progress: &'a Progress,
        rest: Duration,
        by_totals: bool,
    ) -> Self {
        Self {
            session,
            progress,
            standby: Some(standby),
            rest,
            by_totals,
        }
    }

    /// Runs one trial.
    pub(crate) fn run(&mut self, offer: &Offer) -> Result<Tried, Error> {
        let interrupt = &self.session.interrupt;
        let until = Instant::now() + self.rest;
        while Instant::now() < until && !interrupt.is_raised() {
            thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        let standby = self.standby.take();
        let standby = standby.ok_or_else(|| Error::Unexpected("the ports are stopped".into()))?;
        let hooks = self.session.hooks();
        let started = standby.start(offer, self.session.clock, hooks);
        let mut run = started.map_err(|error| not_started(&error))?;
        let watched = watch(&mut run, self.progress, interrupt, None);
        let (outcome, standby) = run.join_open();
        self.standby = Some(standby);
        let watched = watched?;
        let (lost, surplus) = self.lost(&outcome);
        let figures = &outcome.figures;
        Ok(Tried {
            finding: Finding {
                asked: figures.asked_frames,
                lost,
                unsent: figures.shortfall_frames,
            },
            surplus,
            interrupted: watched.interrupted,
            outcome,
        })
    }

    /// Frames lost, and frames that were too many.
    fn lost(&self, outcome: &Outcome) -> (u64, u64) {
        let figures = &outcome.figures;
        let closed = self.by_totals || self.session.is_closed();
        let balance = Balance::new(figures, closed);
        let by_port = || figures.ports.iter().filter_map(|port| port.lost).sum();
        (balance.lost.unwrap_or_else(by_port), balance.surplus)
    }

    /// Bits a second of each port's link, where it says so now: devices with a link that is only
    /// made when they are started know it late.
    pub(crate) fn link_bps(&mut self) -> Vec<Option<u64>> {
        let ports = self.standby.iter_mut().flat_map(Standby::ports);
        ports
            .map(|port| port.link().ok().and_then(|link| link.speed_bps))
            .collect()
    }

    /// The port that `error` begins with, as errors of ports do; empty if there is none.
    pub(crate) fn culprit(&self, error: &str) -> String {
        let labels = self.session.labels.iter();
        let mut named = labels.filter(|label| error.starts_with(label.as_str()));
        named.next().cloned().unwrap_or_default()
    }

    /// Stops the ports.
    pub(crate) fn close(self) -> Option<Closed> {
        self.standby.map(Standby::close)
    }
}
