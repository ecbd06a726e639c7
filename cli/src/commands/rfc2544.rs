//! `rgen rfc2544`: throughput, latency, frame loss rate and back-to-back frames, as RFC 2544 §26
//! has them.
//!
//! For each size the ports are started twice: once with the test's frames alone, for everything
//! but latency, and once with frames among them that are timed.

use std::time::{Duration, Instant};

use engine::load::Load;
use engine::run::RunPlan;
use engine::search::{Goal, Limits, Search, Trial};
use engine::stream::{Measure, Mode, Rate, Stream};

use super::Manner;
use crate::args::{Knobs, Rfc2544, Test};
use crate::error::{Error, Exit};
use crate::hunt::{Hunt, Quest, Tally, judge, no_search, reach};
use crate::loads::{Range, min, shape};
use crate::output;
use crate::output::bench::PortAbout;
use crate::output::ndr::Shape;
use crate::output::progress::Progress;
use crate::output::result::Config;
use crate::output::rfc2544::{self, BurstRow, LossAt, RfcDocument, RfcLatency, SizeRow};
use crate::output::saved::Saved;
use crate::output::schema::Schema;
use crate::session::{Session, duration_or, nanoseconds, quantity};
use crate::traffic::Traffic;
use crate::units;

/// Frames a second that are timed where one is not enough.
const PROBE_PPS: f64 = 1000.0;
/// The longest burst, in time at the highest rate (RFC 2544 §26.4: two seconds at least).
const BURST_TIME: Duration = Duration::from_secs(2);

/// Everything that the command line says, checked before a port is opened.
struct Wanted {
    kinds: Vec<(String, Traffic)>,
    goal: Goal,
    min: Load,
    rest: Duration,
    step: f64,
    /// How long latency is measured, and how often.
    latency: (Duration, u32),
    /// The longest burst, and how often the longest that passes is looked for.
    burst: (Duration, u32),
}

impl Wanted {
    fn new(args: &Rfc2544) -> Result<Self, Error> {
        if args.ports.len() != 2 {
            return Err(Error::Usage {
                found: format!(
                    "two ports test a device, and {} are named",
                    args.ports.len()
                ),
                cure: "rgen rfc2544 -p 0000:3b:00.0 -p 0000:3b:00.1".to_owned(),
            });
        }
        let (trial, rest) = match args.strict {
            true => (Duration::from_secs(60), Duration::from_secs(5)),
            false => (Duration::from_millis(300), Duration::ZERO),
        };
        let trial = duration_or("--duration", args.duration.as_deref(), trial)?;
        let width = match &args.width {
            Some(text) => quantity("--width", units::share(text))?,
            None if args.strict => 0.001,
            None => 0.01,
        };
        let goal = Goal {
            width,
            initial_trial: trial.min(Duration::from_secs(1)),
            final_trial: trial,
            duration_sum: trial,
            ..Goal::rfc2544()
        };
        Search::new(&[goal], Limits::default()).map_err(|error| no_search(&error))?;
        let step = quantity("--step", units::share(&args.step))?;
        if !(0.001..=1.0).contains(&step) {
            return Err(Error::Usage {
                found: format!("--step {}: that many loads are not tried", args.step),
                cure: "--step 10%".to_owned(),
            });
        }
        Ok(Self {
            min: min(&args.min)?,
            kinds: kinds(args)?,
            goal,
            rest: duration_or("--rest", args.rest.as_deref(), rest)?,
            step,
            latency: match args.strict {
                true => (trial * 2, 20),
                false => (trial, 1),
            },
            burst: match args.strict {
                true => (BURST_TIME, 50),
                false => (trial.min(BURST_TIME), 1),
            },
        })
    }
}

fn kinds(args: &Rfc2544) -> Result<Vec<(String, Traffic)>, Error> {
    let mut kinds: Vec<(String, Traffic)> = Vec::new();
    for size in &args.size {
        let mut tunables = args.knobs.tunables.clone();
        tunables.push(format!("size={size}"));
        let mut sending = args.sending.clone();
        let first = kinds.first().map(|(_, traffic)| traffic.seed);
        sending.seed = sending.seed.or(first);
        let traffic = Traffic::new(&args.profile, &Knobs { tunables }, &args.ports, &sending)?;
        kinds.push((size.clone(), traffic));
    }
    if kinds.is_empty() || args.test.is_empty() {
        return Err(Error::Usage {
            found: "no size or no test is named".to_owned(),
            cure: "--size 64,1518 --test throughput,loss".to_owned(),
        });
    }
    Ok(kinds)
}

/// Tests, and prints what was found.
pub(super) fn run(args: &Rfc2544, manner: Manner) -> Result<Exit, Error> {
    let manner = manner.for_output(&args.bed);
    let saved = Saved::open(args.bed.output_file())?;
    let wanted = Wanted::new(args)?;
    let session = Session::open(&args.bed, &args.ports, "1s")?;
    let progress = Progress::new(manner, false);
    let (document, exit) = Tester::new(args, &wanted, session, &progress).carry_out()?;
    progress.end();
    if manner.json {
        output::document(&document)?;
    } else if args.md {
        output::result(&rfc2544::markdown(&document))?;
    } else {
        output::result(&rfc2544::page(&document))?;
    }
    output::failures(&document.failures);
    saved.save(&document, exit)
}

/// Ports on which one size after the other is tested.
struct Tester<'a> {
    args: &'a Rfc2544,
    wanted: &'a Wanted,
    session: Session,
    progress: &'a Progress,
    ports: Vec<PortAbout>,
    by_totals: bool,
    rows: Vec<SizeRow>,
    config: Option<Config>,
    tally: Tally,
}

impl<'a> Tester<'a> {
    fn new(
        args: &'a Rfc2544,
        wanted: &'a Wanted,
        session: Session,
        progress: &'a Progress,
    ) -> Self {
        Self {
            ports: PortAbout::all(&session),
            by_totals: args.totals || session.is_exact(),
            args,
            wanted,
            tally: Tally::new(&session.warnings),
            session,
            progress,
            rows: Vec::new(),
            config: None,
        }
    }

    /// Tests all sizes, or as many as the ports bear.
    fn carry_out(mut self) -> Result<(RfcDocument, Exit), Error> {
        let began = Instant::now();
        self.progress.warn(&self.tally.warnings);
        let wanted = self.wanted;
        for (size, traffic) in &wanted.kinds {
            if self.tally.has_ended() {
                break;
            }
            self.progress.remark(&units::size_name(size));
            let mut row = SizeRow::new(size);
            match self.test(traffic, &mut row) {
                Err(error) if row.trials.is_empty() && self.rows.is_empty() => return Err(error),
                Err(error) => self.tally.fail(&error),
                Ok(()) => {}
            }
            self.rows.push(row);
        }
        Ok(self.document(began.elapsed()))
    }

    fn test(&mut self, traffic: &Traffic, row: &mut SizeRow) -> Result<(), Error> {
        let plan = traffic.plan_to_count(&mut self.session, self.by_totals)?;
        let shape = shape(&plan, &self.session);
        let hugepages = self.session.uses_hugepages();
        let config = traffic.config("rfc2544", &self.session, &plan, hugepages);
        self.config.get_or_insert(config);
        let min = Range::new(self.wanted.min, None, &plan, &self.session)?.min;
        let mut hunt = self.open(plan, shape)?;
        let done = self.without_timing(&mut hunt, traffic, row, min);
        let (log, ports) = hunt.close();
        self.session.ports = ports;
        row.trials = self.tally.keep(log);
        done?;
        let found = row.throughput.as_ref().and_then(|goal| goal.lower_pps);
        match found {
            Some(pps) if self.args.does(Test::Latency) && !self.tally.has_ended() => {
                self.latency(traffic, row, pps)
            }
            _ => Ok(()),
        }
    }

    /// Starts the ports.
    fn open(&self, plan: RunPlan, shape: Shape) -> Result<Hunt<'_>, Error> {
        let (rest, totals) = (self.wanted.rest, self.args.totals);
        Hunt::open(plan, shape, &self.session, self.progress, rest, totals)
    }

    /// All tests but that of latency.
    fn without_timing(
        &self,
        hunt: &mut Hunt<'_>,
        traffic: &Traffic,
        row: &mut SizeRow,
        min: f64,
    ) -> Result<(), Error> {
        // Learning frames (§23), and what the generator can do: the more of two, as a machine that
        // is busy for a moment can do less.
        let mut unpaced = 0.0_f64;
        for _ in 0..2 {
            unpaced = unpaced.max(hunt.unpaced(self.wanted.goal.initial_trial)?);
        }
        hunt.link_bps(|n| traffic.sends(n));
        row.set_shape(hunt.shape());
        (row.max_pps, row.max_is) = reach(unpaced, row.line_pps);
        if unpaced == 0.0 || hunt.log().has_ended() {
            return Ok(());
        }
        if self.args.does(Test::Throughput) || self.args.does(Test::Latency) {
            self.throughput(hunt, row, min)?;
        }
        if self.args.does(Test::Loss) && !hunt.log().has_ended() {
            self.loss(hunt, row)?;
        }
        if self.args.does(Test::Burst) && !hunt.log().has_ended() {
            self.bursts(hunt, row)?;
        }
        Ok(())
    }

    /// §26.1
    fn throughput(&self, hunt: &mut Hunt<'_>, row: &mut SizeRow, min: f64) -> Result<(), Error> {
        let trial = self.wanted.goal.final_trial;
        let quest = Quest {
            goals: std::slice::from_ref(&self.wanted.goal),
            range: Range {
                min: min.min(row.max_pps),
                max: Some(row.max_pps),
            },
            max_is: row.max_is,
            warm_up: Duration::ZERO,
            limit: (trial * 40).max(Duration::from_secs(60)),
        };
        row.throughput = hunt.search(&quest)?.goals.pop();
        Ok(())
    }

    /// §26.3: from the highest load down, until nothing is lost at two loads in a row.
    fn loss(&self, hunt: &mut Hunt<'_>, row: &mut SizeRow) -> Result<(), Error> {
        let mut good = 0;
        for number in 0.. {
            let share = 1.0 - f64::from(number) * self.wanted.step;
            if good == 2 || share < self.wanted.step / 2.0 {
                break;
            }
            let trial = Trial {
                load: row.max_pps * share,
                duration: self.wanted.goal.final_trial,
                is_warm_up: false,
            };
            let Some(tried) = hunt.run(trial)? else {
                break;
            };
            let finding = tried.finding;
            let missing = finding.lost + finding.unsent;
            good = if missing == 0 { good + 1 } else { 0 };
            row.loss.push(LossAt {
                share,
                load_pps: trial.load,
                asked_frames: finding.asked,
                lost_frames: finding.lost,
                unsent_frames: finding.unsent,
                loss_ratio: missing as f64 / finding.asked.max(1) as f64,
            });
            self.progress.remark(&format!(
                "  loss at {:.0} %: {missing} of {}",
                share * 100.0,
                finding.asked
            ));
        }
        Ok(())
    }

    /// §26.4: the longest burst of frames at the highest rate of which none is lost.
    fn bursts(&self, hunt: &mut Hunt<'_>, row: &mut SizeRow) -> Result<(), Error> {
        let (longest, repeats) = self.wanted.burst;
        let most = whole(row.max_pps * longest.as_secs_f64());
        let (mut sum, mut done, mut is_whole, mut by_generator) = (0, 0, true, false);
        for _ in 0..repeats {
            let Some(found) = self.burst(hunt, row, most)? else {
                break;
            };
            (sum, done) = (sum + found.0, done + 1);
            is_whole &= found.0 == most;
            by_generator |= found.1;
        }
        if done > 0 {
            let frames = sum as f64 / f64::from(done);
            row.burst = Some(BurstRow {
                frames,
                seconds: frames / row.max_pps,
                repeats: done,
                whole: is_whole,
                by_generator,
            });
        }
        Ok(())
    }

    /// The longest burst of up to `most` frames a port that passes, found to within the width; and
    /// whether longer ones failed because they were not sent. None if trials ended meanwhile.
    fn burst(
        &self,
        hunt: &mut Hunt<'_>,
        row: &SizeRow,
        most: u64,
    ) -> Result<Option<(u64, bool)>, Error> {
        let (mut passed, mut failed, mut next) = (0, most + 1, most);
        let mut by_generator = false;
        let ports = row.shape.map_or(1, |shape| u64::from(shape.sending_ports));
        while failed - passed > 1
            && (failed - passed) as f64 > failed as f64 * self.wanted.goal.width
        {
            let trial = Trial {
                load: row.max_pps,
                duration: Duration::from_secs_f64(next as f64 / row.max_pps),
                is_warm_up: true,
            };
            let Some(tried) = hunt.burst(next * ports, trial)? else {
                return Ok(None);
            };
            let finding = tried.finding;
            self.progress.remark(&format!(
                "  burst of {next}: lost {}, not sent {}",
                finding.lost, finding.unsent
            ));
            if finding.lost + finding.unsent == 0 {
                passed = next;
            } else {
                (failed, by_generator) = (next, finding.lost == 0);
            }
            next = passed + (failed - passed) / 2;
        }
        Ok(Some((passed, by_generator)))
    }

    /// §26.2: how long frames take at the throughput: in a quick test those of a slow stream among
    /// the others, in a strict one a single frame in the middle.
    fn latency(&mut self, traffic: &Traffic, row: &mut SizeRow, pps: f64) -> Result<(), Error> {
        let (duration, repeats) = self.wanted.latency;
        let tagged = self.args.strict;
        let mut plan = traffic.plan_to_count(&mut self.session, self.by_totals)?;
        let shape = shape(&plan, &self.session);
        add_timed(&mut plan, tagged.then_some(duration / 2));
        let mut hunt = self.open(plan, shape)?;
        let probes = if tagged { 0.0 } else { PROBE_PPS };
        let trial = Trial {
            load: (pps - probes).max(pps / 2.0),
            duration,
            is_warm_up: false,
        };
        let measured = timed(&mut hunt, trial, repeats, tagged, pps);
        let (log, ports) = hunt.close();
        self.session.ports = ports;
        self.tally.keep(log);
        row.latency = measured?;
        Ok(())
    }

    fn document(self, took: Duration) -> (RfcDocument, Exit) {
        let complete = !self.tally.has_ended();
        let exit = self.tally.exit.unwrap_or_else(|| {
            let rows = self.rows.iter();
            judge(rows.filter_map(|row| row.throughput.as_ref()))
        });
        let document = RfcDocument {
            schema: Schema::Rfc2544,
            version: env!("CARGO_PKG_VERSION"),
            complete,
            exit_code: exit as u8,
            seed: self.wanted.kinds[0].1.seed,
            strict: self.args.strict,
            ports: self.ports,
            trial_s: self.wanted.goal.final_trial.as_secs_f64(),
            step: self.wanted.step,
            one_way: self.args.sending.one_way,
            rows: self.rows,
            duration_s: took.as_secs_f64(),
            failures: self.tally.failures,
            warnings: self.tally.warnings,
            events: self.tally.events,
            config: self.config,
            machine: self.session.machine,
        };
        (document, exit)
    }
}

/// Runs `trial` several times, and puts together how long timed frames took.
fn timed(
    hunt: &mut Hunt<'_>,
    trial: Trial,
    repeats: u32,
    tagged: bool,
    load_pps: f64,
) -> Result<Option<RfcLatency>, Error> {
    let mut at: Option<RfcLatency> = None;
    let mut means = 0.0;
    for done in 1..=repeats {
        let Some(tried) = hunt.run(trial)? else {
            break;
        };
        let streams = tried.outcome.figures.streams.iter();
        let latencies = streams.filter_map(|stream| stream.latency);
        let Some(worst) = latencies.max_by(|a, b| a.mean.total_cmp(&b.mean)) else {
            continue;
        };
        means += worst.mean;
        let before = at.as_ref();
        at = Some(RfcLatency {
            load_pps,
            seconds: trial.duration.as_secs_f64(),
            repeats: done,
            tagged,
            lost_frames: before.map_or(0, |at| at.lost_frames) + tried.finding.lost,
            min_ns: before.map_or(worst.min, |at| at.min_ns.min(worst.min)),
            mean_ns: means / f64::from(done),
            max_ns: before.map_or(worst.max, |at| at.max_ns.max(worst.max)),
        });
    }
    Ok(at)
}

/// To each sending port's stream one of the same frames that are timed: a slow one, or a single
/// frame at `middle`.
fn add_timed(plan: &mut RunPlan, middle: Option<Duration>) {
    for port in &mut plan.ports {
        let timed = port.streams.first().map(|stream| Stream {
            name: "timed".to_owned(),
            rate: Rate::Pps(PROBE_PPS),
            measure: Measure::Latency,
            scaled: false,
            mode: middle.map_or(Mode::Continuous, |_| Mode::Burst { frames: 1 }),
            start_delay_ns: middle.map_or(0, nanoseconds),
            ..stream.clone()
        });
        port.streams.extend(timed);
    }
}

/// A whole number of frames, one at least.
fn whole(frames: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and two seconds of the fastest line are few"
    )]
    let frames = frames.min(1e15) as u64;
    frames.max(1)
}
