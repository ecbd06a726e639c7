//! `rgen bench`: the table of the VM and VF benchmark for two ports.
//!
//! For each kind of frames the ports are started twice: once to search for the highest rate without
//! loss, with nothing but these frames on the wire, and once for latency at shares of it, with
//! probes among them.

use std::time::{Duration, Instant};

use engine::load::Load;
use engine::run::RunPlan;
use engine::search::{Goal, Limits, Search, Trial};
use engine::stream::{Measure, Rate, Stream};

use super::Manner;
use crate::args::{Bench, Knobs};
use crate::error::{Error, Exit};
use crate::hunt::{Catch, Hunt, Quest, Tally, no_search, reach};
use crate::loads::{Range, min, shape};
use crate::output::bench::{self, BenchDocument, BenchRow, LatencyAt, PortAbout};
use crate::output::ndr::{SearchConfig, Shape};
use crate::output::progress::Progress;
use crate::output::saved::Saved;
use crate::output::schema::Schema;
use crate::output::{self, html};
use crate::session::{Session, duration_or, quantity};
use crate::traffic::Traffic;
use crate::trials::Tried;
use crate::units;

/// Frames a second that measure latency: a share of all, within bounds.
const PROBES: (f64, f64, f64) = (0.01, 1000.0, 10_000.0);

/// Everything that the command line says, checked before a port is opened.
struct Wanted {
    kinds: Vec<Kind>,
    goal: Goal,
    min: Load,
    limit: Duration,
    /// Silence before each trial.
    rest: Duration,
    /// Shares of NDR at which latency is measured, and for how long at each.
    shares: Vec<f64>,
    latency_time: Duration,
}

/// A kind of frames.
struct Kind {
    size: String,
    vm: String,
    traffic: Traffic,
}

impl Wanted {
    fn new(args: &Bench) -> Result<Self, Error> {
        if args.ports.len() != 2 {
            return Err(Error::Usage {
                found: format!("two ports are measured, and {} are named", args.ports.len()),
                cure: "rgen bench -p sim:ixgbe -p sim:ixgbe".to_owned(),
            });
        }
        let goal = goal(args)?;
        Search::new(&[goal], Limits::default()).map_err(|error| no_search(&error))?;
        let (limit, latency_time) = match args.full {
            true => (1200, Duration::from_secs(5)),
            false => (60, Duration::from_secs(1).max(goal.final_trial)),
        };
        let limit = duration_or("--limit", args.limit.as_deref(), Duration::from_secs(limit))?;
        let shares = args.latency_at.iter().map(|text| share(text));
        Ok(Self {
            min: min(&args.min)?,
            kinds: kinds(args)?,
            goal,
            limit,
            rest: quantity("--rest", units::duration(&args.rest))?,
            shares: shares.collect::<Result<_, _>>()?,
            // Whoever asks for short trials does not wait for long ones.
            latency_time: match args.duration {
                Some(_) => goal.final_trial,
                None => latency_time,
            },
        })
    }
}

/// CSIT's goal, or one that takes a quarter of a minute.
fn goal(args: &Bench) -> Result<Goal, Error> {
    let csit = Goal::ndr();
    let ours = match args.full {
        true => csit.final_trial,
        false => Duration::from_millis(500),
    };
    let trial = duration_or("--duration", args.duration.as_deref(), ours)?;
    let width = match &args.width {
        Some(text) => quantity("--width", units::share(text))?,
        None if args.full => csit.width,
        None => 0.01,
    };
    Ok(Goal {
        width,
        initial_trial: trial,
        final_trial: trial,
        duration_sum: trial * if args.full { 21 } else { 5 },
        ..csit
    })
}

fn share(text: &str) -> Result<f64, Error> {
    let share = quantity("--latency-at", units::share(text))?;
    if share > 0.0 {
        return Ok(share);
    }
    Err(Error::Usage {
        found: format!("--latency-at {text}: nothing would be sent"),
        cure: "--latency-at 10%,90%".to_owned(),
    })
}

fn kinds(args: &Bench) -> Result<Vec<Kind>, Error> {
    let mut kinds: Vec<Kind> = Vec::new();
    for size in &args.size {
        for vm in &args.vm {
            let knobs = Knobs {
                tunables: vec![format!("size={size}"), format!("vm={vm}")],
            };
            let sending = args.sending(kinds.first().map(|kind| kind.traffic.seed));
            kinds.push(Kind {
                traffic: Traffic::new("bench", &knobs, &args.ports, &sending)?,
                size: size.clone(),
                vm: vm.clone(),
            });
        }
    }
    if kinds.is_empty() {
        return Err(Error::Usage {
            found: "no kind of frames is named".to_owned(),
            cure: "--size 64 --vm var1,cached".to_owned(),
        });
    }
    Ok(kinds)
}

/// Measures, and prints what was found.
pub(super) fn run(args: &Bench, manner: Manner) -> Result<Exit, Error> {
    let manner = manner.for_output(&args.bed);
    if manner.json && (args.csv || args.md) {
        return Err(Error::Usage {
            found: "JSON and another form are asked for, and there is one output".to_owned(),
            cure: "-o FILE writes the JSON result to a file".to_owned(),
        });
    }
    let saved = Saved::open(args.bed.output_file())?;
    let report = Saved::open(args.html.as_deref())?;
    let wanted = Wanted::new(args)?;
    let session = Session::open(&args.bed, &args.ports, "1s")?;
    let progress = Progress::new(manner, false);
    let document = Bencher::new(args, &wanted, session, &progress).carry_out()?;
    progress.end();
    if manner.json {
        output::document(&document)?;
    } else if args.csv {
        let text = bench::csv(&document);
        let text = text.map_err(|error| Error::Unexpected(format!("no CSV: {error}")))?;
        output::result(&text)?;
    } else if args.md {
        output::result(&bench::markdown(&document))?;
    } else {
        output::result(&bench::page(&document))?;
    }
    output::failures(&document.failures);
    let mut exit = document.exit;
    if report.is_asked() {
        exit = report.save_text(&html::page(&document)?, exit);
    }
    saved.save(&document, exit)
}

/// Ports on which one kind of frames after the other is measured.
struct Bencher<'a> {
    args: &'a Bench,
    wanted: &'a Wanted,
    session: Session,
    progress: &'a Progress,
    ports: Vec<PortAbout>,
    /// The receiving port takes everything, and hands on nothing.
    is_sink: bool,
    by_totals: bool,
    rows: Vec<BenchRow>,
    tally: Tally,
}

impl<'a> Bencher<'a> {
    fn new(args: &'a Bench, wanted: &'a Wanted, session: Session, progress: &'a Progress) -> Self {
        let ports = PortAbout::all(&session);
        Self {
            is_sink: ports.iter().any(|port| port.driver == "null"),
            by_totals: args.totals || session.is_exact(),
            args,
            wanted,
            tally: Tally::new(&session.warnings),
            session,
            progress,
            ports,
            rows: Vec::new(),
        }
    }

    /// Measures all kinds of frames, or as many as the ports bear.
    fn carry_out(mut self) -> Result<BenchDocument, Error> {
        let began = Instant::now();
        self.progress.warn(&self.tally.warnings);
        for kind in &self.wanted.kinds {
            if self.tally.has_ended() {
                break;
            }
            let mut row = BenchRow::new(&kind.size, &kind.vm, self.ports[0].driver);
            self.progress
                .remark(&format!("{}, {}", units::size_name(&kind.size), kind.vm));
            let measured = self.measure(kind, &mut row);
            let is_empty = row.trials.is_empty() && self.rows.is_empty();
            match measured {
                Err(error) if is_empty => return Err(error),
                Err(error) => self.tally.fail(&error),
                Ok(()) => {}
            }
            self.rows.push(row);
        }
        let mut document = self.document();
        document.duration_s = began.elapsed().as_secs_f64();
        Ok(document)
    }

    fn measure(&mut self, kind: &Kind, row: &mut BenchRow) -> Result<(), Error> {
        self.find_ndr(kind, row)?;
        let ndr = row.ndr.as_ref().and_then(|goal| goal.lower_pps);
        match ndr {
            Some(ndr) if !self.tally.has_ended() && !self.wanted.shares.is_empty() => {
                self.find_latency(kind, row, ndr)
            }
            _ => Ok(()),
        }
    }

    /// Starts the ports.
    fn open(&self, plan: RunPlan, shape: Shape) -> Result<Hunt<'_>, Error> {
        let (rest, totals) = (self.wanted.rest, self.args.totals);
        Hunt::open(plan, shape, &self.session, self.progress, rest, totals)
    }

    fn find_ndr(&mut self, kind: &Kind, row: &mut BenchRow) -> Result<(), Error> {
        let plan = kind
            .traffic
            .plan_to_count(&mut self.session, self.by_totals)?;
        let shape = shape(&plan, &self.session);
        let mut config =
            kind.traffic
                .config("bench", &self.session, &plan, self.session.uses_hugepages());
        // A search has rates of its own.
        config
            .streams
            .iter_mut()
            .for_each(|stream| stream.pps = None);
        row.config = Some(config);
        row.shape = Some(shape);
        let min = Range::new(self.wanted.min, None, &plan, &self.session)?.min;
        let mut hunt = self.open(plan, shape)?;
        let caught = self.search(&mut hunt, kind, row, min);
        let (log, ports) = hunt.close();
        self.session.ports = ports;
        row.trials = self.tally.keep(log);
        let Some(mut caught) = caught? else {
            return Ok(());
        };
        row.trial_count = caught.trials;
        row.sending_s = caught.spent.as_secs_f64();
        row.max_is = caught.max_is;
        if let Some(goal) = caught.goals.pop() {
            row.set_ndr(goal);
        }
        Ok(())
    }

    /// What the port takes, and the highest rate without loss.
    fn search(
        &self,
        hunt: &mut Hunt<'_>,
        kind: &Kind,
        row: &mut BenchRow,
        min: f64,
    ) -> Result<Option<Catch>, Error> {
        let goal = &self.wanted.goal;
        let unpaced = hunt.unpaced(goal.final_trial)?;
        // Now that links are up.
        if let Some(shape) = &mut row.shape {
            shape.link_bps = hunt.link_bps(|n| kind.traffic.sends(n)).or(shape.link_bps);
            row.line_pps = shape.line_pps();
        }
        row.unpaced_pps = Some(unpaced).filter(|pps| *pps > 0.0);
        if self.is_sink {
            row.no_ndr = Some("null: receives nothing");
        }
        if self.is_sink || unpaced == 0.0 || hunt.log().has_ended() {
            return Ok(None);
        }
        let (max, max_is) = reach(unpaced, row.line_pps);
        let quest = Quest {
            goals: std::slice::from_ref(goal),
            range: Range {
                min: min.min(max),
                max: Some(max),
            },
            max_is,
            warm_up: Duration::ZERO,
            limit: self.wanted.limit,
        };
        hunt.search(&quest).map(Some)
    }

    fn find_latency(&mut self, kind: &Kind, row: &mut BenchRow, ndr: f64) -> Result<(), Error> {
        let (of_all, least, most) = PROBES;
        let probe_pps = (ndr * of_all).clamp(least, most);
        let mut plan = kind
            .traffic
            .plan_to_count(&mut self.session, self.by_totals)?;
        let shape = shape(&plan, &self.session);
        add_probes(&mut plan, probe_pps);
        let mut hunt = self.open(plan, shape)?;
        let measured = self.at_shares(&mut hunt, row, ndr, probe_pps);
        let (log, ports) = hunt.close();
        self.session.ports = ports;
        self.tally.keep(log);
        measured
    }

    /// Latency at each share of `ndr`.
    fn at_shares(
        &self,
        hunt: &mut Hunt<'_>,
        row: &mut BenchRow,
        ndr: f64,
        probe_pps: f64,
    ) -> Result<(), Error> {
        let shares = self.wanted.shares.iter();
        // The first is a warm-up: caches are filled, clocks raised.
        let warm_up = shares.clone().take(1).map(|share| (*share, true));
        for (share, is_warm_up) in warm_up.chain(shares.map(|share| (*share, false))) {
            let all = ndr * share;
            let load = (all - probe_pps).max(all / 2.0);
            let trial = Trial {
                load,
                duration: match is_warm_up {
                    true => self.wanted.latency_time / 5,
                    false => self.wanted.latency_time,
                },
                is_warm_up,
            };
            let Some(tried) = hunt.run(trial)? else {
                break;
            };
            if !is_warm_up {
                let at = latency(&tried, share, load + probe_pps, probe_pps);
                self.progress.remark(&bench::latency_remark(&at));
                row.latency.push(at);
            }
        }
        Ok(())
    }

    fn document(self) -> BenchDocument {
        let goal = &self.wanted.goal;
        let complete = !self.tally.has_ended();
        let exit = self.tally.exit.unwrap_or_else(|| judge(&self.rows));
        BenchDocument {
            schema: Schema::Bench,
            version: env!("CARGO_PKG_VERSION"),
            complete,
            exit,
            exit_code: exit as u8,
            seed: self.wanted.kinds[0].traffic.seed,
            ports: self.ports,
            one_way: !self.args.both_ways,
            rows: self.rows,
            search: SearchConfig {
                method: "mlrsearch",
                initial_trial_s: goal.initial_trial.as_secs_f64(),
                trial_s: goal.final_trial.as_secs_f64(),
                sum_s: goal.duration_sum.as_secs_f64(),
                exceed_ratio: goal.exceed_ratio,
                width: goal.width,
                limit_s: self.wanted.limit.as_secs_f64(),
                warm_up_s: goal.final_trial.as_secs_f64(),
                rest_s: self.wanted.rest.as_secs_f64(),
                loss_by: if self.by_totals { "totals" } else { "stamps" },
            },
            latency_s: self.wanted.latency_time.as_secs_f64(),
            duration_s: 0.0,
            failures: self.tally.failures,
            warnings: self.tally.warnings,
            events: self.tally.events,
            machine: self.session.machine,
        }
    }
}

/// The exit code of a benchmark that went to its end: every search that there was found something.
fn judge(rows: &[BenchRow]) -> Exit {
    let is_met = |row: &BenchRow| match &row.ndr {
        Some(goal) => goal.regular,
        None => row.no_ndr.is_some(),
    };
    match rows.iter().all(is_met) {
        true => Exit::Done,
        false => Exit::NotMet,
    }
}

/// To each sending port's stream a slow one of the same frames, whose latency is measured.
fn add_probes(plan: &mut RunPlan, pps: f64) {
    for port in &mut plan.ports {
        let probe = port.streams.first().map(|stream| Stream {
            name: "probe".to_owned(),
            rate: Rate::Pps(pps),
            measure: Measure::Latency,
            scaled: false,
            ..stream.clone()
        });
        port.streams.extend(probe);
    }
}

/// What a trial with probes said: the latency of the port whose is worst.
fn latency(tried: &Tried, of_ndr: f64, load_pps: f64, probe_pps: f64) -> LatencyAt {
    let streams = tried.outcome.figures.streams.iter();
    let worst = streams
        .filter_map(|stream| Some((stream.latency?, &stream.distribution)))
        .max_by_key(|(latency, _)| latency.p99);
    LatencyAt {
        of_ndr,
        load_pps,
        probe_pps,
        seconds: tried.outcome.duration_s,
        asked_frames: tried.finding.asked,
        lost_frames: tried.finding.lost,
        unsent_frames: tried.finding.unsent,
        latency_ns: worst.map(|(latency, _)| latency.into()),
        distribution: worst.map_or(Vec::new(), |(_, points)| points.clone()),
    }
}
