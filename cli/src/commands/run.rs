//! `rgen run`: send a profile's streams, receive, count.

use engine::run::{self, Bottleneck, Finished, Outcome, RunPlan};
use engine::stream::{Stream, WIRE_OVERHEAD};
use port::Port;

use super::Manner;
use crate::args::Run;
use crate::drive::{Driven, drive};
use crate::error::{Error, Exit, with_causes};
use crate::output::balance::Balance;
use crate::output::progress::Progress;
use crate::output::result::{
    Config, EventRow, Failure, PortRow, Requirement, RunDocument, StreamRow, bottleneck,
};
use crate::output::saved::Saved;
use crate::output::schema::Schema;
use crate::output::{self, summary};
use crate::require::{Criterion, Latency, Measured};
use crate::session::{Session, nanoseconds, not_started, quantity};
use crate::traffic::{Traffic, no_load};
use crate::units::{self, Multiplier, bps, grouped};

/// Everything of a run that the command line says, checked before a port is opened.
struct Wanted {
    traffic: Traffic,
    multiplier: Multiplier,
    criteria: Vec<Criterion>,
}

impl Wanted {
    fn new(args: &Run) -> Result<Self, Error> {
        let traffic = Traffic::new(
            &args.profile,
            &args.knobs,
            &args.machine.ports,
            &args.sending,
        )?;
        let multiplier = quantity("--multiplier", units::multiplier(&args.multiplier))?;
        let mut criteria = traffic.profile.criteria().to_vec();
        for text in &args.require {
            criteria.push(Criterion::parse(text)?);
        }
        Ok(Self {
            traffic,
            multiplier,
            criteria,
        })
    }
}

/// Sends, receives, counts, and prints what became of it.
pub(super) fn run(args: &Run, manner: Manner) -> Result<Exit, Error> {
    let manner = manner.for_output(&args.machine.bed);
    let saved = Saved::open(args.machine.bed.output_file())?;
    let (document, exit) = measure_only(args, manner)?;
    print(&document, manner, args.machine.json_stream)?;
    saved.save(&document, exit)
}

/// Sends, receives and counts; the document is not printed yet.
pub(super) fn measure_only(args: &Run, manner: Manner) -> Result<(RunDocument, Exit), Error> {
    let wanted = Wanted::new(args)?;
    let duration = args.machine.duration.as_deref().unwrap_or("10s");
    let mut session = Session::open(&args.machine.bed, &wanted.traffic.ports, duration)?;
    let plan = plan(&wanted, &mut session)?;
    let config = config(args, &wanted, &session, &plan);
    let progress = Progress::new(manner, args.machine.json_stream);
    progress.warn(&session.warnings);
    progress.remark(&announcement(&config, wanted.traffic.seed));
    carry_out(plan, config, &wanted, session, &progress)
}

/// The result on stdout, and on stderr what failed.
pub(super) fn print(
    document: &RunDocument,
    manner: Manner,
    json_stream: bool,
) -> Result<(), Error> {
    if json_stream {
        output::line(document)?;
    } else if manner.json {
        output::document(document)?;
    } else {
        output::result(&summary::page(document))?;
    }
    output::failures(&document.failures);
    Ok(())
}

/// Runs `plan`, and judges it.
fn carry_out(
    plan: RunPlan,
    config: Config,
    wanted: &Wanted,
    session: Session,
    progress: &Progress,
) -> Result<(RunDocument, Exit), Error> {
    let hooks = session.hooks();
    let running = run::start(plan, session.clock, hooks).map_err(|error| not_started(&error))?;
    let Driven {
        finished,
        interrupted,
        reader_left,
    } = drive(running, progress, &session.interrupt, &session.link_bps)?;
    let Finished { outcome, mut ports } = finished;
    let mut document = document(Schema::Run, &outcome, &mut ports, config, session);
    judge(&mut document, &outcome, wanted, interrupted || reader_left);
    let exit = exit(&document, &outcome, interrupted, wanted.multiplier);
    document.exit_code = exit as u8;
    Ok((document, exit))
}

/// What is said before the first frame is sent.
fn announcement(config: &Config, seed: u64) -> String {
    let time = config
        .duration_s
        .map_or("until Ctrl-C".to_owned(), |seconds| {
            format!("for {seconds} s")
        });
    format!(
        "sending {} on {} {time}, seed {seed}",
        config.profile,
        config.ports.join(" and "),
    )
}

/// What the engine is to do.
fn plan(wanted: &Wanted, session: &mut Session) -> Result<RunPlan, Error> {
    let mut plan = wanted.traffic.plan(session)?;
    plan.duration_ns = session.duration.map(nanoseconds);
    let ports = plan.ports.iter_mut().enumerate();
    for (n, port) in ports.filter(|(_, port)| !port.streams.is_empty()) {
        let Some(load) = wanted.multiplier.load() else {
            port.unlimited = true;
            continue;
        };
        let link_bps = session.link_bps[n];
        load.apply(&mut port.streams, link_bps)
            .map_err(|error| no_load("--multiplier", &error))?;
        if let Some(warning) = too_much(&session.labels[n], &port.streams, link_bps) {
            session.warnings.push(warning);
        }
    }
    Ok(plan)
}

/// What to say if the streams ask for more than the line carries.
fn too_much(port: &str, streams: &[Stream], link_bps: Option<u64>) -> Option<String> {
    let line = link_bps? as f64;
    let load = |stream: &Stream| {
        let pps = stream.pps(link_bps).unwrap_or(0.0);
        pps * (stream.frames.mean_size() + WIRE_OVERHEAD as f64) * 8.0
    };
    let asked: f64 = streams.iter().map(load).sum();
    (asked > line * 1.0001).then(|| {
        format!(
            "{port}: {} of L1 were asked for, and the link carries {}",
            bps(asked),
            bps(line)
        )
    })
}

/// The outcome as a document, before it is judged.
pub(super) fn document(
    schema: Schema,
    outcome: &Outcome,
    ports: &mut [Box<dyn Port>],
    config: Config,
    session: Session,
) -> RunDocument {
    let figures = &outcome.figures;
    let balance = Balance::new(figures, session.is_closed());
    let mut warnings = session.warnings;
    for broken in outcome.check() {
        warnings.push(format!("the accounting does not close: {broken}"));
    }
    let failures = outcome.failures.iter().map(|(port, error)| Failure {
        port: session.labels.get(*port).cloned().unwrap_or_default(),
        error: with_causes(error),
    });
    RunDocument {
        schema,
        version: env!("CARGO_PKG_VERSION"),
        complete: true,
        exit_code: 0,
        duration_s: outcome.duration_s,
        seed: outcome.seed,
        asked_frames: figures.asked_frames,
        shortfall_frames: figures.shortfall_frames,
        lost_frames: balance.lost,
        surplus: balance.surplus,
        bottleneck: bottleneck(outcome.bottleneck),
        ports: figures
            .ports
            .iter()
            .zip(&session.link_bps)
            .zip(ports)
            .map(|((row, link_bps), port)| {
                PortRow::new(row, *link_bps).with_extended(port.as_mut())
            })
            .collect(),
        streams: figures
            .streams
            .iter()
            .map(|stream| StreamRow::new(stream, &figures.ports))
            .collect(),
        requirements: Vec::new(),
        failures: failures.collect(),
        warnings,
        events: outcome
            .events
            .iter()
            .map(|event| EventRow::new(event, &figures.ports))
            .collect(),
        config,
        machine: session.machine,
    }
}

/// Adds what the criteria and the bottleneck say.
fn judge(document: &mut RunDocument, outcome: &Outcome, wanted: &Wanted, ended_early: bool) {
    if !ended_early && document.failures.is_empty() {
        let mute = document.ports.iter().filter_map(PortRow::muteness);
        document.failures = mute.collect();
    }
    document.complete = !ended_early && document.failures.is_empty();
    let measured = measured(document);
    for criterion in &wanted.criteria {
        let found = criterion.violation(&measured);
        document.requirements.push(Requirement {
            criterion: criterion.to_string(),
            met: found.is_none(),
            found,
        });
    }
    let short = grouped(document.shortfall_frames);
    if document.shortfall_frames > 0 && wanted.multiplier.load().is_some() {
        document.warnings.extend(match outcome.bottleneck {
            Bottleneck::Generator => Some(format!(
                "the generator was the bottleneck: {short} frames were not sent in time. Cure: \
                 more cores (--cores), a longer --catch-up, or a lower rate"
            )),
            Bottleneck::Port => Some(format!(
                "the port or its peer was the bottleneck: its ring was full, {short} frames were \
                 not sent"
            )),
            Bottleneck::Away => Some(format!(
                "a link or peer was away: {short} frames were not sent"
            )),
            Bottleneck::None => None,
        });
    }
}

/// What criteria look at.
fn measured(document: &RunDocument) -> Measured {
    // Of measured streams; none where there is none.
    let sum = |pick: fn(&StreamRow) -> Option<u64>| -> Option<u64> {
        let counts = document.streams.iter().filter_map(pick);
        counts.reduce(|sum, count| sum + count)
    };
    let latencies = document.streams.iter().filter_map(|row| row.latency_ns);
    // The worst of all streams counts.
    let latency = latencies.fold(None, |worst: Option<Latency>, row| {
        let worst = worst.unwrap_or_default();
        let most = |a: f64, b: u64| a.max(b as f64);
        Some(Latency {
            min: most(worst.min, row.min),
            mean: worst.mean.max(row.mean),
            p50: most(worst.p50, row.p50),
            p99: most(worst.p99, row.p99),
            p999: most(worst.p999, row.p999),
            max: most(worst.max, row.max),
            jitter: most(worst.jitter, row.jitter),
        })
    });
    Measured {
        asked: document.asked_frames,
        sent: document.ports.iter().map(|row| row.tx_frames).sum(),
        lost: document.lost_frames,
        surplus: document.surplus,
        duplicated: sum(|row| row.duplicated),
        reordered: sum(|row| row.reordered),
        shortfall: document.shortfall_frames,
        tx_pps: document.ports.iter().map(|row| row.tx_pps).sum(),
        rx_pps: document.ports.iter().map(|row| row.rx_pps).sum(),
        latency,
    }
}

/// The exit code; the first that applies says most.
fn exit(
    document: &RunDocument,
    outcome: &Outcome,
    interrupted: bool,
    multiplier: Multiplier,
) -> Exit {
    let is_rate_asked = multiplier.load().is_some();
    if !document.failures.is_empty() {
        Exit::PortFailed
    } else if interrupted {
        Exit::Interrupted
    } else if !outcome.check().is_empty() {
        Exit::Unexpected
    } else if document.requirements.iter().any(|row| !row.met) {
        Exit::NotMet
    } else if is_rate_asked
        && document.shortfall_frames > 0
        && outcome.bottleneck == Bottleneck::Generator
    {
        Exit::Bottleneck
    } else {
        Exit::Done
    }
}

/// All that was asked, for doing it again.
fn config(args: &Run, wanted: &Wanted, session: &Session, plan: &RunPlan) -> Config {
    Config {
        multiplier: Some(args.multiplier.clone()),
        duration_s: session.duration.map(|time| time.as_secs_f64()),
        ..wanted
            .traffic
            .config("run", session, plan, !args.machine.bed.no_huge)
    }
}
