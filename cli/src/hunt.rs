//! A search for the highest rate, on ports: the engine's search with its trials, and what they
//! said. `rgen ndr` is one hunt, `rgen bench` and
//! `rgen rfc2544` have one for each kind of frame.

use std::time::Duration;

use engine::load::Load;
use engine::run::{Offer, Outcome, Pace, RunPlan, open};
use engine::search::{End, Found, Goal, Limits, Search, SearchError, Trial};
use engine::stream::Rate;
use port::Port;

use crate::error::{Error, Exit, with_causes};
use crate::loads::Range;
use crate::output::ndr::{self, GoalRow, Shape, TrialRow};
use crate::output::progress::Progress;
use crate::output::result::{EventRow, Failure, PortRow};
use crate::session::{Session, nanoseconds, not_started};
use crate::traffic::unmarkable;
use crate::trials::{Trials, Tried};

/// What is hunted, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quest<'a> {
    pub(crate) goals: &'a [Goal],
    pub(crate) range: Range,
    /// Where the highest load comes from: line, given, generator.
    pub(crate) max_is: &'static str,
    /// Length of a first trial that does not count; zero for none.
    pub(crate) warm_up: Duration,
    /// Trials may take so much time in all.
    pub(crate) limit: Duration,
}

/// What was caught.
#[derive(Debug)]
pub(crate) struct Catch {
    pub(crate) goals: Vec<GoalRow>,
    pub(crate) min_pps: f64,
    pub(crate) max_pps: f64,
    pub(crate) max_is: &'static str,
    /// Trials that the search counted, and the time that they took.
    pub(crate) trials: u32,
    pub(crate) spent: Duration,
}

/// A search on ports, with all its trials.
pub(crate) struct Hunt<'a> {
    trials: Trials<'a>,
    shape: Shape,
    progress: &'a Progress,
    log: Log,
}

/// What trials said, and how they ended.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) rows: Vec<TrialRow>,
    pub(crate) events: Vec<EventRow>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) warnings: Vec<String>,
    pub(crate) interrupted: bool,
    /// The books of a trial did not close.
    pub(crate) is_broken: bool,
    /// The exit code of an error that ended trials which had begun well.
    ended_by: Option<Exit>,
}

impl Log {
    /// Whether there is nothing to go on with.
    pub(crate) fn has_ended(&self) -> bool {
        self.interrupted || !self.failures.is_empty()
    }

    /// The exit code that trials by themselves ask for; none where they went as they should.
    pub(crate) fn exit(&self) -> Option<Exit> {
        if let Some(exit) = self.ended_by {
            Some(exit)
        } else if !self.failures.is_empty() {
            Some(Exit::PortFailed)
        } else if self.interrupted {
            Some(Exit::Interrupted)
        } else if self.is_broken {
            Some(Exit::Unexpected)
        } else {
            None
        }
    }

    /// Keeps what a trial was.
    fn note(&mut self, tried: &Tried, trial: Trial) {
        let outcome = &tried.outcome;
        let ports = &outcome.figures.ports;
        for broken in outcome.check() {
            self.is_broken = true;
            self.warnings
                .push(format!("the accounting does not close: {broken}"));
        }
        if tried.surplus > 0 && !tried.interrupted && self.rows.iter().all(|row| row.surplus == 0) {
            self.warnings.push(
                "more frames came than were sent: duplicates, or somebody else's, which hide \
                 losses where totals are all that is known"
                    .to_owned(),
            );
        }
        self.events.extend(
            outcome
                .events
                .iter()
                .map(|event| EventRow::new(event, ports)),
        );
        self.failures.extend(failures(outcome));
        self.interrupted |= tried.interrupted;
        self.rows
            .push(TrialRow::new(self.rows.len() + 1, trial, tried));
    }
}

/// What several hunts came to, beside their figures.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) failures: Vec<Failure>,
    pub(crate) warnings: Vec<String>,
    pub(crate) events: Vec<EventRow>,
    /// The first exit code that was asked for.
    pub(crate) exit: Option<Exit>,
    interrupted: bool,
}

impl Tally {
    /// Nothing yet but what is doubtful already.
    pub(crate) fn new(warnings: &[String]) -> Self {
        Self {
            warnings: warnings.to_vec(),
            ..Self::default()
        }
    }

    /// Whether there is nothing to go on with.
    pub(crate) fn has_ended(&self) -> bool {
        self.interrupted || !self.failures.is_empty()
    }

    /// An error that costs what was not measured yet.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.exit.get_or_insert(error.exit());
        self.failures.push(Failure {
            port: String::new(),
            error: error.to_string(),
        });
    }

    /// Keeps what trials said beside their figures, which are given back.
    pub(crate) fn keep(&mut self, log: Log) -> Vec<TrialRow> {
        if let Some(exit) = log.exit() {
            self.exit.get_or_insert(exit);
        }
        self.interrupted |= log.interrupted;
        self.failures.extend(log.failures);
        self.events.extend(log.events);
        for warning in log.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        log.rows
    }
}

/// How much more than it took unpaced a port is asked for at most: a machine that was busy for a
/// moment then does not cut the search short.
const HEADROOM: f64 = 1.2;

/// The highest load that is worth a try on a port that took `unpaced` frames a second, and where it
/// comes from: the line, if that is within reach.
pub(crate) fn reach(unpaced: f64, line_pps: Option<f64>) -> (f64, &'static str) {
    let reach = HEADROOM * unpaced;
    match line_pps.filter(|line| *line <= reach) {
        Some(line) => (line, "line"),
        None => (reach, "generator"),
    }
}

impl<'a> Hunt<'a> {
    /// Starts the ports of `plan`, whose loads are what `shape` says in bits. There is `rest`
    /// before each trial; `by_totals`: nothing but what ports count in all tells losses.
    pub(crate) fn open(
        plan: RunPlan,
        shape: Shape,
        session: &'a Session,
        progress: &'a Progress,
        rest: Duration,
        by_totals: bool,
    ) -> Result<Self, Error> {
        let standby = open(plan).map_err(|error| unmarkable(not_started(&error), &error))?;
        Ok(Self {
            trials: Trials::new(standby, session, progress, rest, by_totals),
            shape,
            progress,
            log: Log::default(),
        })
    }

    /// How loads turn into bits, as far as links have said by now.
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// What was said so far.
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// The slowest link of the ports that send, in bits a second, where all say theirs; `sends`
    /// tells which do.
    pub(crate) fn link_bps(&mut self, sends: impl Fn(usize) -> bool) -> Option<u64> {
        let links = self.trials.link_bps().into_iter().enumerate();
        let links = links.filter(|(n, _)| sends(*n)).map(|(_, bps)| bps);
        let bps = links.collect::<Option<Vec<_>>>()?.into_iter().min();
        // Bits of what is found are of this line.
        self.shape.link_bps = bps.or(self.shape.link_bps);
        self.shape.link_bps
    }

    /// Runs one trial; none if there is nothing to go on with.
    pub(crate) fn run(&mut self, trial: Trial) -> Result<Option<Tried>, Error> {
        let tried = self.offer(&for_its_time(at(trial.load), trial), trial)?;
        Ok(tried.filter(|_| !self.log.has_ended()))
    }

    /// The same, of a trial that is over when so many frames were sent, over all ports.
    pub(crate) fn burst(&mut self, frames: u64, trial: Trial) -> Result<Option<Tried>, Error> {
        let offer = Offer {
            pace: at(trial.load),
            duration_ns: None,
            frames_limit: Some(frames),
        };
        let tried = self.offer(&offer, trial)?;
        Ok(tried.filter(|_| !self.log.has_ended()))
    }

    /// Runs one trial and keeps what it was, also if it was cut short; none if it did not run.
    ///
    /// An error before the first trial is the command's. One later costs the trials that are yet
    /// to come, and not those that were.
    fn offer(&mut self, offer: &Offer, trial: Trial) -> Result<Option<Tried>, Error> {
        let tried = match self.trials.run(offer) {
            Ok(tried) => tried,
            Err(error) if self.log.rows.is_empty() => return Err(error),
            Err(error) => {
                self.log.ended_by = Some(error.exit());
                self.log.failures.push(Failure {
                    port: self.trials.culprit(&error.to_string()),
                    error: error.to_string(),
                });
                return Ok(None);
            }
        };
        self.log.note(&tried, trial);
        Ok(Some(tried))
    }

    /// Searches to the end, or as far as trials go.
    pub(crate) fn search(&mut self, quest: &Quest<'_>) -> Result<Catch, Error> {
        let (max, warm_up) = match quest.range.max {
            Some(max) => (max, quest.warm_up),
            None => (self.find_max(quest)?, Duration::ZERO),
        };
        let limits = Limits {
            // What the generator can do may be less than what was thought.
            min: match quest.max_is {
                "generator" => quest.range.min.min(max),
                _ => quest.range.min,
            },
            max,
            warm_up,
            time: quest.limit,
        };
        let mut search = Search::new(quest.goals, limits).map_err(|error| no_search(&error))?;
        while let Some(trial) = search.next_trial().filter(|_| !self.log.has_ended()) {
            let offer = for_its_time(at(trial.load), trial);
            let Some(tried) = self.offer(&offer, trial)? else {
                break;
            };
            // What was cut short says nothing about the load.
            if !self.log.has_ended() {
                search.record(tried.finding);
            }
            let results = search.results();
            if let (Some(row), Some(found)) = (self.log.rows.last_mut(), results.first()) {
                row.lower_pps = found.lower.map(|lower| lower.load);
                row.upper_pps = found.upper.map(|upper| upper.load);
            }
            self.progress
                .remark(&ndr::trial_line(self.log.rows.last(), &results));
        }
        let (trials, spent) = search.effort();
        let results = search.results();
        let goals = results.iter().map(|found| self.goal(found, quest.max_is));
        Ok(Catch {
            goals: goals.collect(),
            min_pps: limits.min,
            max_pps: max,
            max_is: quest.max_is,
            trials,
            spent,
        })
    }

    /// What a port sends when nothing holds it back, for the time of a warm-up.
    fn find_max(&mut self, quest: &Quest<'_>) -> Result<f64, Error> {
        let duration = if quest.warm_up.is_zero() {
            Duration::from_secs(1)
        } else {
            quest.warm_up
        };
        Ok(self.unpaced(duration)?.max(quest.range.min))
    }

    /// Frames a second that the slowest sending port takes when nothing holds it back; 0 if it
    /// sends none.
    pub(crate) fn unpaced(&mut self, duration: Duration) -> Result<f64, Error> {
        let trial = Trial {
            load: 0.0,
            duration,
            is_warm_up: true,
        };
        let Some(tried) = self.offer(&for_its_time(Pace::Unlimited, trial), trial)? else {
            return Ok(0.0);
        };
        let ports = tried.outcome.figures.ports.iter();
        let rates = ports.filter(|port| port.asked > 0).map(|port| port.tx_pps);
        let pps = rates.reduce(f64::min).unwrap_or(0.0);
        if let Some(row) = self.log.rows.last_mut() {
            row.load_pps = pps;
        }
        self.progress
            .remark(&ndr::trial_line(self.log.rows.last(), &[]));
        Ok(pps)
    }

    /// Stops the ports; what trials said, and the ports.
    pub(crate) fn close(mut self) -> (Log, Vec<Box<dyn Port>>) {
        let Some(closed) = self.trials.close() else {
            return (self.log, Vec::new());
        };
        if closed.leaked > 0 {
            let sentence = format!("{} frames did not come home", closed.leaked);
            self.log.warnings.push(sentence);
        }
        (self.log, closed.ports)
    }

    fn goal(&self, found: &Found, max_is: &'static str) -> GoalRow {
        let rows = &self.log.rows;
        let at = |load: f64| {
            rows.iter()
                .rfind(|row| row.load_pps == load && !row.is_warm_up)
        };
        let by_generator = match (found.upper, found.end) {
            (Some(upper), _) => upper.by_generator,
            (None, End::AtMax) => max_is == "generator",
            (None, _) => false,
        };
        let culprit = match found.upper {
            Some(upper) => at(upper.load),
            None => rows.first(),
        };
        let lower = found.lower.and_then(|lower| at(lower.load));
        GoalRow::new(found, &self.shape, lower, culprit.filter(|_| by_generator))
    }
}

/// So many frames a second of each sending port.
fn at(pps: f64) -> Pace {
    Pace::Load(Load::Rate(Rate::Pps(pps)))
}

fn for_its_time(pace: Pace, trial: Trial) -> Offer {
    Offer {
        pace,
        duration_ns: Some(nanoseconds(trial.duration)),
        frames_limit: None,
    }
}

/// The exit code of searches that went to their end.
pub(crate) fn judge<'a>(mut goals: impl Iterator<Item = &'a GoalRow> + Clone) -> Exit {
    if goals.clone().any(|goal| goal.limited_by.is_some()) {
        Exit::Bottleneck
    } else if goals.any(|goal| !goal.regular) {
        Exit::NotMet
    } else {
        Exit::Done
    }
}

/// Ports that failed in a trial, and those that sent nothing at all.
fn failures(outcome: &Outcome) -> Vec<Failure> {
    let ports = &outcome.figures.ports;
    let failed = outcome.failures.iter().map(|(port, error)| Failure {
        port: ports
            .get(*port)
            .map_or(String::new(), |row| row.port.clone()),
        error: with_causes(error),
    });
    let failed: Vec<_> = failed.collect();
    if !failed.is_empty() {
        return failed;
    }
    let rows = ports.iter().map(|port| PortRow::new(port, None));
    rows.filter_map(|row| row.muteness()).collect()
}

/// A search that cannot begin.
pub(crate) fn no_search(error: &SearchError) -> Error {
    Error::Usage {
        found: error.to_string(),
        cure: match error {
            SearchError::Range { .. } => "give a --min below --max",
            _ => "--trial and --width are more than nothing, and --width is less than all",
        }
        .to_owned(),
    }
}
