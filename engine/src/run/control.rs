//! The control side of a run.

use super::{Clock, Event, Finished, Hooks, RunError, RunPlan, Snapshot};

/// A run that goes on.
pub struct Run {}

/// Starts a run.
///
/// # Errors
/// Memory is missing, a port cannot do what the plan asks or does not start, a stream is wrong.
pub fn start<C: Clock>(plan: RunPlan, clock: C, hooks: Hooks) -> Result<Run, RunError> {
    let _ = (plan.ports.len(), clock, hooks);
    Err(RunError::NoPorts)
}

impl Run {
    /// The control thread's turn, a few hundred times a second: lets ports look after links,
    /// mailboxes and peers. Returns what happened.
    pub fn service(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// Figures so far. Cheap; loss is not among them, as it is not known before the end.
    #[must_use]
    pub fn snapshot(&mut self) -> Snapshot {
        Snapshot::default()
    }

    /// Stops sending; draining follows by itself.
    pub fn stop(&self) {}

    /// True once every worker is done.
    #[must_use]
    pub fn finished(&self) -> bool {
        true
    }

    /// Waits for the workers (servicing ports meanwhile), reads the counters, stops the ports.
    #[must_use]
    pub fn join(self) -> Finished {
        unreachable!("a stub never starts")
    }
}
