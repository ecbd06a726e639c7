//! `rgen ndr`: the highest rate without loss, and with a little.

use std::time::{Duration, Instant};

use engine::load::Load;
use engine::run::{Outcome, Pace, RunPlan, open};
use engine::search::{End, Found, Goal, Limits, Search, SearchError, Trial};
use engine::stream::{Measure, Rate, Stream, WIRE_OVERHEAD};

use super::Manner;
use crate::args::{Method, Ndr};
use crate::error::{Error, Exit, with_causes};
use crate::output;
use crate::output::ndr::{self, GoalRow, NdrDocument, SearchConfig, Shape, TrialRow};
use crate::output::progress::Progress;
use crate::output::result::{EventRow, Failure, PortRow};
use crate::output::saved::Saved;
use crate::output::schema::Schema;
use crate::session::{Session, not_started, quantity};
use crate::traffic::{Traffic, no_load};
use crate::trials::{Trials, Tried};
use crate::units;

/// Everything of a search that the command line says, checked before a port is opened.
struct Wanted {
    traffic: Traffic,
    goals: Vec<Goal>,
    min: Load,
    /// None for what the generator can do.
    max: Option<Load>,
    /// Whether the highest load was left to us.
    max_is_ours: bool,
    limit: Duration,
    warm_up: Duration,
    rest: Duration,
}

impl Wanted {
    fn new(args: &Ndr) -> Result<Self, Error> {
        let machine = args.machine();
        let traffic = Traffic::new(&args.profile, &args.knobs, &machine.ports, &args.sending)?;
        let time = |option, text: &str| quantity(option, units::duration(text));
        let load = |option, text: &str| {
            let multiplier = quantity(option, units::multiplier(text))?;
            Ok::<_, Error>(multiplier.load())
        };
        let min = load("--min", &args.min)?.ok_or_else(|| Error::Usage {
            found: "--min max: that is the other end".to_owned(),
            cure: "--min 10kpps".to_owned(),
        })?;
        let line = Some(Load::Rate(Rate::LinePercent(100.0)));
        let goals = goals(args)?;
        // Nonsense is refused before a port is opened.
        Search::new(&goals, Limits::default()).map_err(|error| no_search(&error))?;
        Ok(Self {
            goals,
            min,
            max: match &args.max {
                Some(text) => load("--max", text)?,
                None => line,
            },
            max_is_ours: args.max.is_none(),
            limit: time("--limit", &args.limit)?,
            warm_up: time("--warm-up", &args.warm_up)?,
            rest: time("--rest", &args.rest)?,
            traffic,
        })
    }
}

/// What is searched for.
fn goals(args: &Ndr) -> Result<Vec<Goal>, Error> {
    let time = |option, text: &Option<String>| {
        let time = text
            .as_deref()
            .map(|text| quantity(option, units::duration(text)));
        time.transpose()
    };
    let (trial, sum) = (time("--trial", &args.trial)?, time("--sum", &args.sum)?);
    let mut ndr = match args.method {
        Method::Mlrsearch => Goal::ndr(),
        Method::Rfc2544 => Goal::rfc2544(),
        Method::Tst009 => Goal::tst009(),
    };
    if let Some(trial) = trial {
        let trials = ndr.duration_sum.as_secs_f64() / ndr.final_trial.as_secs_f64();
        if args.method != Method::Mlrsearch {
            ndr.duration_sum = trial.mul_f64(trials);
        }
        ndr.final_trial = trial;
        ndr.initial_trial = ndr.initial_trial.min(trial);
    }
    ndr.duration_sum = sum.unwrap_or(ndr.duration_sum).max(ndr.final_trial);
    ndr.width = quantity("--width", units::share(&args.width))?;
    let pdr = match (&args.pdr, args.method) {
        _ if args.no_pdr => None,
        (Some(text), _) => Some(quantity("--pdr", units::share(text))?),
        (None, Method::Mlrsearch) => Some(0.005),
        (None, _) => None,
    };
    let pdr = pdr.map(|loss_ratio| Goal { loss_ratio, ..ndr });
    Ok([Some(ndr), pdr].into_iter().flatten().collect())
}

/// Searches, and prints what was found.
pub(super) fn run(args: &Ndr, manner: Manner) -> Result<Exit, Error> {
    let machine = args.machine();
    let manner = manner.for_output(&machine);
    let saved = Saved::open(machine.output_file())?;
    let wanted = Wanted::new(args)?;
    let mut session = Session::open(&machine, &wanted.traffic.ports, "1s")?;
    let mut plan = wanted.traffic.plan(&mut session)?;
    let by_totals = args.totals || is_exact(&session);
    if !by_totals {
        mark_all(&mut plan);
    }
    let range = Range::new(&wanted, &plan, &session)?;
    let shape = shape(&plan, &session);
    let mut config = wanted
        .traffic
        .config("ndr", &session, &plan, !machine.no_huge);
    // A search has rates of its own.
    config
        .streams
        .iter_mut()
        .for_each(|stream| stream.pps = None);
    let progress = Progress::new(manner, false);
    for warning in &session.warnings {
        progress.remark(&format!("warning: {warning}"));
    }
    progress.remark(&format!(
        "searching with {} on {}, seed {}",
        config.profile,
        config.ports.join(" and "),
        wanted.traffic.seed
    ));
    let standby = open(plan).map_err(|error| unmarkable(not_started(&error), &error))?;
    let trials = Trials::new(standby, &session, &progress, wanted.rest, args.totals);
    let hunt = Hunt::new(trials, shape, &progress);
    let (mut document, exit) = hunt.carry_out(&wanted, &range)?;
    progress.end();
    document.search = search_config(args, &wanted, by_totals);
    document.warnings.splice(0..0, session.warnings);
    document.config = Some(config);
    document.machine = Some(session.machine);
    if manner.json {
        output::document(&document)?;
    } else {
        output::result(&ndr::page(&document))?;
    }
    for failure in &document.failures {
        output::say(&format!("error[port-failed]: {}", failure.error));
    }
    saved.save(&document, exit)
}

/// Whether totals tell every loss: only we are on the wires, and these make no copies.
fn is_exact(session: &Session) -> bool {
    session.is_closed() && !session.names.iter().any(|name| name.contains("dup="))
}

/// Every frame carries a stamp.
fn mark_all(plan: &mut RunPlan) {
    for stream in plan.ports.iter_mut().flat_map(|port| &mut port.streams) {
        if stream.measure == Measure::None {
            stream.measure = Measure::Count;
        }
    }
}

/// Frames without room for a stamp can be counted by totals.
fn unmarkable(error: Error, cause: &engine::run::RunError) -> Error {
    match (error, cause) {
        (Error::Usage { found, cure }, engine::run::RunError::StampRoom { .. }) => Error::Usage {
            found,
            cure: format!("{cure}, or take losses from totals: --totals"),
        },
        (error, _) => error,
    }
}

fn search_config(args: &Ndr, wanted: &Wanted, by_totals: bool) -> Option<SearchConfig> {
    let goal = wanted.goals.first()?;
    Some(SearchConfig {
        method: match args.method {
            Method::Mlrsearch => "mlrsearch",
            Method::Rfc2544 => "rfc2544",
            Method::Tst009 => "tst009",
        },
        initial_trial_s: goal.initial_trial.as_secs_f64(),
        trial_s: goal.final_trial.as_secs_f64(),
        sum_s: goal.duration_sum.as_secs_f64(),
        exceed_ratio: goal.exceed_ratio,
        width: goal.width,
        limit_s: wanted.limit.as_secs_f64(),
        warm_up_s: wanted.warm_up.as_secs_f64(),
        rest_s: wanted.rest.as_secs_f64(),
        loss_by: if by_totals { "totals" } else { "stamps" },
    })
}

/// The loads to search in, in frames a second of each sending port.
struct Range {
    min: f64,
    /// None for what the generator can do.
    max: Option<f64>,
}

impl Range {
    fn new(wanted: &Wanted, plan: &RunPlan, session: &Session) -> Result<Self, Error> {
        let knows_speed = senders(plan).all(|(n, _)| session.link_bps[n].is_some());
        let max = wanted.max.filter(|_| knows_speed || !wanted.max_is_ours);
        let of = |option, load| lowest(option, load, plan, session);
        Ok(Self {
            min: of("--min", wanted.min)?,
            max: max.map(|load| of("--max", load)).transpose()?,
        })
    }
}

/// Sending ports by number, with their streams.
fn senders(plan: &RunPlan) -> impl Iterator<Item = (usize, &[Stream])> {
    let ports = plan.ports.iter().enumerate();
    let ports = ports.map(|(n, port)| (n, &port.streams[..]));
    ports.filter(|(_, streams)| !streams.is_empty())
}

/// A load in frames a second of the streams that scale: the lowest of all sending ports.
fn lowest(option: &str, load: Load, plan: &RunPlan, session: &Session) -> Result<f64, Error> {
    let mut lowest = f64::INFINITY;
    for (n, streams) in senders(plan) {
        let link_bps = session.link_bps[n];
        let load = match load {
            // What streams of a fixed rate take of the line is not there for the others.
            Load::Rate(Rate::LinePercent(share)) => {
                let fixed = fixed_percent(streams, link_bps);
                Load::Rate(Rate::LinePercent((share - fixed).max(0.001)))
            }
            load => load,
        };
        let rates = load.rates(streams, link_bps);
        let rates = rates.map_err(|error| no_load(option, &error))?;
        let scaled = streams
            .iter()
            .zip(rates)
            .filter(|(stream, _)| stream.scaled);
        lowest = lowest.min(scaled.map(|(_, pps)| pps).sum());
    }
    Ok(lowest)
}

/// Per cent of the line that streams of a fixed rate take.
fn fixed_percent(streams: &[Stream], link_bps: Option<u64>) -> f64 {
    let Some(line) = link_bps else { return 0.0 };
    let fixed = streams.iter().filter(|stream| !stream.scaled);
    let bits = fixed.map(|stream| {
        let wire = stream.frames.mean_size() + WIRE_OVERHEAD as f64;
        stream.pps(link_bps).unwrap_or(0.0) * wire * 8.0
    });
    bits.sum::<f64>() / line as f64 * 100.0
}

/// How loads turn into bits.
fn shape(plan: &RunPlan, session: &Session) -> Shape {
    let (mut pps, mut bytes) = (0.0, 0.0);
    let (mut links, mut count) = (Vec::new(), 0);
    for (n, streams) in senders(plan) {
        links.push(session.link_bps[n]);
        count += 1;
        for stream in streams.iter().filter(|stream| stream.scaled) {
            let rate = stream.pps(session.link_bps[n]).unwrap_or(1.0);
            pps += rate;
            bytes += rate * stream.frames.mean_size();
        }
    }
    Shape {
        sending_ports: count,
        mean_size: if pps > 0.0 { bytes / pps } else { 64.0 },
        // The slowest, where all say theirs.
        link_bps: links
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .and_then(|links| links.into_iter().min()),
    }
}

/// A search on ports, with all its trials.
struct Hunt<'a> {
    trials: Trials<'a>,
    shape: Shape,
    progress: &'a Progress,
    rows: Vec<TrialRow>,
    events: Vec<EventRow>,
    failures: Vec<Failure>,
    warnings: Vec<String>,
    interrupted: bool,
    /// The books of a trial did not close.
    is_broken: bool,
}

impl<'a> Hunt<'a> {
    fn new(trials: Trials<'a>, shape: Shape, progress: &'a Progress) -> Self {
        Self {
            trials,
            shape,
            progress,
            rows: Vec::new(),
            events: Vec::new(),
            failures: Vec::new(),
            warnings: Vec::new(),
            interrupted: false,
            is_broken: false,
        }
    }

    /// Searches to the end, and stops the ports.
    fn carry_out(mut self, wanted: &Wanted, range: &Range) -> Result<(NdrDocument, Exit), Error> {
        let began = Instant::now();
        let (max, max_is) = match range.max {
            Some(max) => (max, if wanted.max_is_ours { "line" } else { "given" }),
            None => (self.find_max(range.min, wanted.warm_up)?, "generator"),
        };
        let limits = Limits {
            // What the generator can do may be less than what was thought.
            min: match max_is {
                "generator" => range.min.min(max),
                _ => range.min,
            },
            max,
            warm_up: if range.max.is_some() {
                wanted.warm_up
            } else {
                Duration::ZERO
            },
            time: wanted.limit,
        };
        let mut search = Search::new(&wanted.goals, limits).map_err(|error| no_search(&error))?;
        while let Some(trial) = search.next_trial().filter(|_| !self.has_ended()) {
            let pace = Pace::Load(Load::Rate(Rate::Pps(trial.load)));
            let tried = self.trials.run(pace, trial.duration)?;
            // What was cut short says nothing about the load.
            if !tried.interrupted {
                search.record(tried.finding);
            }
            self.note(&tried, trial);
            self.progress
                .remark(&ndr::trial_line(self.rows.last(), &search.results()));
        }
        let results = search.results();
        let goals: Vec<GoalRow> = results
            .iter()
            .map(|found| self.goal(found, max_is))
            .collect();
        let exit = self.exit(&goals);
        let (trials, spent) = search.effort();
        let leaked = self.trials.close().map_or(0, |closed| closed.leaked);
        if leaked > 0 {
            let sentence = format!("{leaked} frames did not come home");
            self.warnings.push(sentence);
        }
        let document = NdrDocument {
            schema: Schema::Ndr,
            version: env!("CARGO_PKG_VERSION"),
            complete: !self.interrupted && self.failures.is_empty(),
            exit_code: exit as u8,
            seed: wanted.traffic.seed,
            goals,
            shape: self.shape,
            min_pps: limits.min,
            max_pps: max,
            max_is,
            trial_count: trials,
            sending_s: spent.as_secs_f64(),
            duration_s: began.elapsed().as_secs_f64(),
            trials: self.rows,
            failures: self.failures,
            warnings: self.warnings,
            events: self.events,
            search: None,
            config: None,
            machine: None,
        };
        Ok((document, exit))
    }

    fn has_ended(&self) -> bool {
        self.interrupted || !self.failures.is_empty()
    }

    /// What a port sends when nothing holds it back.
    fn find_max(&mut self, min: f64, warm_up: Duration) -> Result<f64, Error> {
        let duration = if warm_up.is_zero() {
            Duration::from_secs(1)
        } else {
            warm_up
        };
        let tried = self.trials.run(Pace::Unlimited, duration)?;
        let ports = tried.outcome.figures.ports.iter();
        let rates = ports.filter(|port| port.asked > 0).map(|port| port.tx_pps);
        let max = rates.reduce(f64::min).unwrap_or(0.0).max(min);
        let trial = Trial {
            load: max,
            duration,
            is_warm_up: true,
        };
        self.note(&tried, trial);
        self.progress
            .remark(&ndr::trial_line(self.rows.last(), &[]));
        Ok(max)
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

    fn goal(&self, found: &Found, max_is: &'static str) -> GoalRow {
        let at = |load: f64| {
            self.rows
                .iter()
                .rfind(|row| row.load_pps == load && !row.is_warm_up)
        };
        let by_generator = match (found.upper, found.end) {
            (Some(upper), _) => upper.by_generator,
            (None, End::AtMax) => max_is == "generator",
            (None, _) => false,
        };
        let culprit = match found.upper {
            Some(upper) => at(upper.load),
            None => self.rows.first(),
        };
        let lower = found.lower.and_then(|lower| at(lower.load));
        GoalRow::new(found, &self.shape, lower, culprit.filter(|_| by_generator))
    }

    /// The exit code; the first that applies says most.
    fn exit(&self, goals: &[GoalRow]) -> Exit {
        if !self.failures.is_empty() {
            Exit::PortFailed
        } else if self.interrupted {
            Exit::Interrupted
        } else if self.is_broken {
            Exit::Unexpected
        } else if goals.iter().any(|goal| goal.limited_by.is_some()) {
            Exit::Bottleneck
        } else if goals.iter().any(|goal| !goal.regular) {
            Exit::NotMet
        } else {
            Exit::Done
        }
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
fn no_search(error: &SearchError) -> Error {
    Error::Usage {
        found: error.to_string(),
        cure: match error {
            SearchError::Range { .. } => "give a --min below --max",
            _ => "--trial and --width are more than nothing, and --width is less than all",
        }
        .to_owned(),
    }
}
