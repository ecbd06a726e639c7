//! `rgen run`: send a profile's streams, receive, count.

use std::hash::{BuildHasher, RandomState};

use engine::frame::Macs;
use engine::load::LoadError;
use engine::run::{self, Bottleneck, Finished, Outcome, PortPlan, RunPlan};
use engine::stream::{Measure, Stream, WIRE_OVERHEAD};
use port::{Mac, Port};

use super::Manner;
use crate::args::Run;
use crate::drive::{Driven, drive};
use crate::error::{Error, Exit, with_causes};
use crate::output::balance::Balance;
use crate::output::progress::Progress;
use crate::output::result::{
    Config, EventRow, Failure, PortRow, Requirement, RunDocument, StreamPlan, StreamRow, bottleneck,
};
use crate::output::saved::Saved;
use crate::output::schema::Schema;
use crate::output::{self, summary};
use crate::profile::Profile;
use crate::require::{Criterion, Latency, Measured};
use crate::session::{Session, nanoseconds, not_started, quantity};
use crate::units::{self, Multiplier, grouped, scaled};

/// Everything of a run that the command line says, checked before a port is opened.
struct Wanted {
    profile: Profile,
    multiplier: Multiplier,
    criteria: Vec<Criterion>,
    ports: Vec<String>,
    one_way: bool,
    dst_mac: Option<Mac>,
    catch_up_ns: u64,
    drain_ns: u64,
    seed: u64,
}

impl Wanted {
    fn new(args: &Run) -> Result<Self, Error> {
        let profile = Profile::load(&args.profile, &args.knobs.tunables)?;
        let multiplier = quantity("--multiplier", units::multiplier(&args.multiplier))?;
        let mut criteria = profile.criteria().to_vec();
        for text in &args.require {
            criteria.push(Criterion::parse(text)?);
        }
        let (ports, own_direction) = match (args.machine.ports.as_slice(), profile.ports()) {
            ([], Some((tx, rx))) if tx == rx => (vec![tx.to_owned()], true),
            ([], Some((tx, rx))) => (vec![tx.to_owned(), rx.to_owned()], true),
            (named, _) => (named.to_vec(), false),
        };
        let time = |option, text| quantity(option, units::duration(text)).map(nanoseconds);
        Ok(Self {
            one_way: args.one_way || own_direction,
            dst_mac: args.dst_mac.as_deref().map(mac).transpose()?,
            catch_up_ns: time("--catch-up", &args.catch_up)?,
            drain_ns: time("--drain", &args.drain)?,
            seed: args.seed.unwrap_or_else(|| random() >> 32),
            profile,
            multiplier,
            criteria,
            ports,
        })
    }

    /// Whether port number `n` sends.
    fn sends(&self, n: usize) -> bool {
        !self.one_way || n.is_multiple_of(2)
    }
}

/// A number that nobody can foresee: the standard library draws its hashers' keys so.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn mac(text: &str) -> Result<Mac, Error> {
    let octets: Option<Vec<u8>> = text
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16).ok())
        .collect();
    octets
        .and_then(|octets| octets.try_into().ok())
        .ok_or_else(|| Error::Usage {
            found: format!("--dst-mac {text}: this is no MAC address"),
            cure: "write 02:00:00:00:00:01".to_owned(),
        })
}

/// Sends, receives, counts, and prints what became of it.
pub(super) fn run(args: &Run, manner: Manner) -> Result<Exit, Error> {
    let manner = manner.for_output(&args.machine);
    let saved = Saved::open(args.machine.output_file())?;
    let (document, exit) = measure_only(args, manner)?;
    print(&document, manner, args.machine.json_stream)?;
    saved.save(&document, exit)
}

/// Sends, receives and counts; the document is not printed yet.
pub(super) fn measure_only(args: &Run, manner: Manner) -> Result<(RunDocument, Exit), Error> {
    let wanted = Wanted::new(args)?;
    let mut session = Session::open(&args.machine, &wanted.ports, "10s")?;
    let plan = plan(&wanted, &mut session)?;
    let config = config(args, &wanted, &session, &plan);
    let progress = Progress::new(manner, args.machine.json_stream);
    for warning in &session.warnings {
        progress.remark(&format!("warning: {warning}"));
    }
    progress.remark(&announcement(&config, wanted.seed));
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
    for failure in &document.failures {
        output::say(&format!("error[port-failed]: {}", failure.error));
    }
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
    let macs: Vec<Mac> = session.ports.iter().map(|port| port.info().mac).collect();
    let opened = std::mem::take(&mut session.ports);
    let node = opened.iter().find_map(|port| port.info().node);
    let mut ports = Vec::with_capacity(opened.len());
    for (n, port) in opened.into_iter().enumerate() {
        ports.push(port_plan(wanted, session, &macs, n, port)?);
    }
    let mut plan = RunPlan::new(ports);
    plan.duration_ns = session.duration.map(nanoseconds);
    plan.seed = wanted.seed;
    plan.stamp_nonce = random();
    plan.catch_up_ns = wanted.catch_up_ns;
    plan.drain_ns = wanted.drain_ns;
    // Who waits longer expects longer silences too: of a peer whose core is busy with others.
    plan.quiet_ns = plan.quiet_ns.max(wanted.drain_ns / 10);
    plan.cores.clone_from(&session.cores.workers);
    plan.yield_when_idle = session.cores.yields();
    plan.pages = session.pages;
    plan.node = node;
    Ok(plan)
}

fn port_plan(
    wanted: &Wanted,
    session: &mut Session,
    macs: &[Mac],
    n: usize,
    port: Box<dyn Port>,
) -> Result<PortPlan, Error> {
    const NO_PEER: Mac = [0x02, 0, 0, 0, 0, 0];
    let peer = Some(n ^ 1).filter(|peer| *peer < macs.len());
    let mut plan = PortPlan::new(port);
    plan.peer = peer;
    if !wanted.sends(n) {
        return Ok(plan);
    }
    let dst = wanted
        .dst_mac
        .unwrap_or_else(|| peer.map_or(NO_PEER, |peer| macs[peer]));
    let macs = Macs { src: macs[n], dst };
    let link_bps = session.link_bps[n];
    plan.streams = wanted.profile.streams(n, macs)?;
    match wanted.multiplier.load() {
        Some(load) => {
            load.apply(&mut plan.streams, link_bps)
                .map_err(|error| no_load(&error))?;
            if let Some(warning) = too_much(&session.labels[n], &plan.streams, link_bps) {
                session.warnings.push(warning);
            }
        }
        None => plan.unlimited = true,
    }
    Ok(plan)
}

fn no_load(error: &LoadError) -> Error {
    Error::Usage {
        found: format!("--multiplier: {error}"),
        cure: match error {
            LoadError::NothingScales => {
                "leave -m out: every stream of this profile has a fixed rate".to_owned()
            }
            _ => error
                .remedy()
                .unwrap_or_else(|| "rgen run --help explains -m".to_owned()),
        },
    }
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
            "{port}: {}bps of L1 were asked for, and the link carries {}bps",
            scaled(asked),
            scaled(line)
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
    let is_closed = session.names.len().is_multiple_of(2)
        && session.names.iter().all(|name| name.starts_with("sim:"));
    let balance = Balance::new(figures, is_closed);
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
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut streams = Vec::new();
    for (n, port) in plan.ports.iter().enumerate() {
        for stream in &port.streams {
            let is_paced = !(port.unlimited && stream.scaled);
            streams.push(StreamPlan {
                name: stream.name.clone(),
                port: session.labels[n].clone(),
                pps: is_paced
                    .then(|| stream.pps(session.link_bps[n]).ok())
                    .flatten(),
                mean_size: stream.frames.mean_size(),
                measure: measure(stream.measure),
            });
        }
    }
    Config {
        command: "run",
        profile: wanted.profile.name().to_owned(),
        knobs: wanted.profile.knobs(),
        profile_source: wanted.profile.source().map(str::to_owned),
        multiplier: Some(args.multiplier.clone()),
        ports: session.names.clone(),
        one_way: wanted.one_way,
        duration_s: session.duration.map(|time| time.as_secs_f64()),
        cores: session.cores.workers.clone(),
        model_core: session.cores.model,
        hugepages: !args.machine.no_huge,
        catch_up_s: Some(seconds(wanted.catch_up_ns)),
        drain_s: seconds(wanted.drain_ns),
        streams,
    }
}

/// The word for what is measured.
pub(super) fn measure(measure: Measure) -> &'static str {
    match measure {
        Measure::None => "none",
        Measure::Count => "count",
        Measure::Latency => "latency",
    }
}
