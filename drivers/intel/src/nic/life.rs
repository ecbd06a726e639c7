//! A run's life: what happens when the device loses its settings in the middle of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hw::Function;
use port::{PortError, Signal};

use super::Nic;
use crate::control::Health;
use crate::design::Design;
use crate::shape::Shape;
use crate::shared::Shared;

/// Times in a row that starting the device over may fail.
const ATTEMPTS: u32 = 20;
/// How long to wait from one such attempt to the next.
const BETWEEN: Duration = Duration::from_millis(100);

/// What is true while the port is started.
pub(super) struct Run {
    pub(super) shared: Arc<Shared>,
    pub(super) shape: Shape,
    pub(super) stage: Stage,
    pub(super) round: u32,
    pub(super) attempts: u32,
    pub(super) tried: Instant,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Frames move.
    Running,
    /// The device is lost, and the queues are clearing their rings.
    Clearing,
    /// The device is being started over.
    Returning,
}

impl<F: Function, D: Design<F::Bar>> Nic<F, D> {
    /// One step of a run's life.
    pub(super) fn advance(&mut self, events: &mut Vec<String>) -> Result<(), PortError> {
        let stage = self.run.as_ref().map(|run| run.stage);
        match stage {
            None => {
                self.control.check(false)?;
            }
            Some(Stage::Running) => {
                if let Health::Lost(why) = self.control.check(true)? {
                    events.push(why);
                    self.lose()?;
                }
            }
            Some(Stage::Clearing) => {
                if let Some(run) = &mut self.run
                    && run.shared.all_clear(run.round)
                {
                    run.stage = Stage::Returning;
                    run.attempts = 0;
                    run.tried = Instant::now();
                }
            }
            Some(Stage::Returning) => self.return_to_work(events)?,
        }
        Ok(())
    }

    /// The device is lost: it is taken away from memory, and the queues shall clear their rings.
    fn lose(&mut self) -> Result<(), PortError> {
        self.control.halt()?;
        self.recoveries += 1;
        if let Some(run) = &mut self.run {
            run.round += 1;
            run.stage = Stage::Clearing;
            run.shared.set(Signal::pause(run.round));
        }
        Ok(())
    }

    /// Starts the device over.
    fn return_to_work(&mut self, events: &mut Vec<String>) -> Result<(), PortError> {
        let (Some(run), Some(rings)) = (&self.run, self.rings.clone()) else {
            return Ok(());
        };
        if run.attempts > 0 && run.tried.elapsed() < BETWEEN {
            return Ok(());
        }
        let shape = run.shape.clone();
        self.control.hurry();
        let answer = self.bring_up(&shape, &rings);
        let is_patient = self.control.depends_on_others();
        let Some(run) = &mut self.run else {
            return Ok(());
        };
        match answer {
            Ok(()) => {
                run.stage = Stage::Running;
                run.shared.set(Signal::run(run.round));
                events.push("the device is back".into());
                Ok(())
            }
            Err(error @ PortError::Gone { .. }) => Err(error),
            Err(error) => {
                run.tried = Instant::now();
                run.attempts = run.attempts.saturating_add(1);
                let waits = is_patient && matches!(error, PortError::Stuck { .. });
                if run.attempts >= ATTEMPTS && !waits {
                    return Err(error);
                }
                if run.attempts == 1 {
                    events.push(format!("{error}: it is tried again"));
                }
                Ok(())
            }
        }
    }

    /// True if the device is running and has to be told of changes.
    pub(super) fn is_up(&self) -> bool {
        let stage = self.run.as_ref().map(|run| run.stage);
        stage == Some(Stage::Running)
    }
}
