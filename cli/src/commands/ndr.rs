//! `rgen ndr`: the highest rate without loss, and with a little.

use std::time::{Duration, Instant};

use engine::load::Load;
use engine::search::{Goal, Limits, Search};
use engine::stream::Rate;

use super::Manner;
use crate::args::{Method, Ndr};
use crate::error::{Error, Exit};
use crate::hunt::{Catch, Hunt, Log, Quest, judge, no_search};
use crate::loads::{Range, knows_speed, min, shape};
use crate::output;
use crate::output::ndr::{self, NdrDocument, SearchConfig, Shape};
use crate::output::progress::Progress;
use crate::output::saved::Saved;
use crate::output::schema::Schema;
use crate::session::{Session, quantity};
use crate::traffic::Traffic;
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
        let traffic = Traffic::new(&args.profile, &args.knobs, &args.ports, &args.sending)?;
        let time = |option, text: &str| quantity(option, units::duration(text));
        let min = min(&args.min)?;
        let line = Some(Load::Rate(Rate::LinePercent(100.0)));
        let max = match &args.max {
            Some(text) => quantity("--max", units::multiplier(text))?.load(),
            None => line,
        };
        let (goals, limit) = (goals(args)?, time("--limit", &args.limit)?);
        // Nonsense is refused before a port is opened.
        Search::new(&goals, Limits::default()).map_err(|error| no_search(&error))?;
        if let Some(max) = max {
            Range::check(min, max, &traffic)?;
        }
        if let Some(goal) = goals.first().filter(|goal| goal.initial_trial > limit) {
            return Err(Error::Usage {
                found: format!(
                    "--limit {}: one trial takes {} s",
                    args.limit,
                    goal.initial_trial.as_secs_f64()
                ),
                cure: "a longer --limit, or a shorter --trial".to_owned(),
            });
        }
        Ok(Self {
            goals,
            min,
            max,
            max_is_ours: args.max.is_none(),
            limit,
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
    let manner = manner.for_output(&args.bed);
    let saved = Saved::open(args.bed.output_file())?;
    let wanted = Wanted::new(args)?;
    let mut session = Session::open(&args.bed, &wanted.traffic.ports, "1s")?;
    let by_totals = args.totals || session.is_exact();
    let plan = wanted.traffic.plan_to_count(&mut session, by_totals)?;
    let max = wanted
        .max
        .filter(|_| knows_speed(&plan, &session) || !wanted.max_is_ours);
    let quest = Quest {
        goals: &wanted.goals,
        range: Range::new(wanted.min, max, &plan, &session)?,
        max_is: match (max, wanted.max_is_ours) {
            (Some(_), true) => "line",
            (Some(_), false) => "given",
            (None, _) => "generator",
        },
        warm_up: wanted.warm_up,
        limit: wanted.limit,
    };
    let shape = shape(&plan, &session);
    let mut config = wanted
        .traffic
        .config("ndr", &session, &plan, !args.bed.no_huge);
    // A search has rates of its own.
    config
        .streams
        .iter_mut()
        .for_each(|stream| stream.pps = None);
    let progress = Progress::new(manner, false);
    progress.warn(&session.warnings);
    progress.remark(&format!(
        "searching with {} on {}, seed {}",
        config.profile,
        config.ports.join(" and "),
        wanted.traffic.seed
    ));
    let (rest, totals) = (wanted.rest, args.totals);
    let mut hunt = Hunt::open(plan, shape, &session, &progress, rest, totals)?;
    let began = Instant::now();
    let caught = hunt.search(&quest)?;
    let (log, _) = hunt.close();
    progress.end();
    let (mut document, exit) = document(caught, log, shape);
    document.duration_s = began.elapsed().as_secs_f64();
    document.seed = wanted.traffic.seed;
    document.search = search_config(args, &wanted, by_totals);
    document.warnings.splice(0..0, session.warnings);
    document.config = Some(config);
    document.machine = Some(session.machine);
    if manner.json {
        output::document(&document)?;
    } else {
        output::result(&ndr::page(&document))?;
    }
    output::failures(&document.failures);
    saved.save(&document, exit)
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

/// What was found, but for how it was searched and where.
fn document(caught: Catch, log: Log, shape: Shape) -> (NdrDocument, Exit) {
    let exit = log.exit().unwrap_or_else(|| judge(caught.goals.iter()));
    let document = NdrDocument {
        schema: Schema::Ndr,
        version: env!("CARGO_PKG_VERSION"),
        complete: !log.has_ended(),
        exit_code: exit as u8,
        seed: 0,
        goals: caught.goals,
        shape,
        min_pps: caught.min_pps,
        max_pps: caught.max_pps,
        max_is: caught.max_is,
        trial_count: caught.trials,
        sending_s: caught.spent.as_secs_f64(),
        duration_s: 0.0,
        trials: log.rows,
        failures: log.failures,
        warnings: log.warnings,
        events: log.events,
        search: None,
        config: None,
        machine: None,
    };
    (document, exit)
}
