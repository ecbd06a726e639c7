//! Watching a run until it is over.

use std::thread;
use std::time::{Duration, Instant};

use engine::run::{Finished, Run};

use crate::error::Error;
use crate::output::progress::Progress;
use crate::signal::Interrupt;

/// How often ports get their turn.
const TURN: Duration = Duration::from_millis(3);
/// How often figures are shown.
const INTERVAL: Duration = Duration::from_secs(1);

/// What became of a run.
pub(crate) struct Driven {
    /// Outcome and ports.
    pub(crate) finished: Finished,
    /// Somebody stopped it.
    pub(crate) interrupted: bool,
    /// Whoever read its figures (`--json-stream`) went away, which ended it.
    pub(crate) reader_left: bool,
}

/// Services `run` and shows its figures until its workers are done; stops it on Ctrl-C.
pub(crate) fn drive(
    mut run: Run,
    progress: &Progress,
    interrupt: &Interrupt,
    link_bps: &[Option<u64>],
) -> Result<Driven, Error> {
    let watched = watch(&mut run, progress, interrupt, Some(link_bps));
    let finished = run.join();
    progress.end();
    let watched = watched?;
    Ok(Driven {
        finished,
        interrupted: watched.interrupted,
        reader_left: watched.reader_left,
    })
}

/// What happened while a run was watched.
pub(crate) struct Watched {
    /// Somebody stopped it.
    pub(crate) interrupted: bool,
    /// Whoever read its figures went away, which ended it.
    pub(crate) reader_left: bool,
}

/// Services `run` until its workers are done; stops it on Ctrl-C. Shows its figures where the
/// speeds of its links are given.
pub(crate) fn watch(
    run: &mut Run,
    progress: &Progress,
    interrupt: &Interrupt,
    link_bps: Option<&[Option<u64>]>,
) -> Result<Watched, Error> {
    let mut interrupted = false;
    let mut next = Instant::now() + INTERVAL;
    let mut written = Ok(true);
    while !run.finished() {
        for event in run.service() {
            progress.event(&event);
        }
        if interrupt.is_raised() && !interrupted {
            interrupted = true;
            progress
                .remark("  stopping: frames on their way are waited for; Ctrl-C again: at once");
            run.stop();
        }
        if let Some(link_bps) = link_bps.filter(|_| Instant::now() >= next) {
            next += INTERVAL;
            let shown = progress.show(&run.snapshot(), link_bps);
            if matches!(written, Ok(true)) && !matches!(shown, Ok(true)) {
                written = shown;
                run.stop();
            }
        }
        thread::sleep(TURN);
    }
    // Ctrl-C between the last turn and the end changed nothing about the result.
    Ok(Watched {
        interrupted,
        reader_left: !written?,
    })
}
