//! `rgen capture`: received frames in pcapng files.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::run::{self, Clock as _, Finished, ForwardMode, ForwardPlan, ForwardPort, Tap};

use super::Manner;
use crate::args::Capture;
use crate::capture::{Counts, Done, Files, Filter, Interface, Rotation, Writer};
use crate::drive::{Driven, drive};
use crate::error::{Error, Exit, with_causes};
use crate::output;
use crate::output::capture::{self, CaptureDocument, CapturePort};
use crate::output::progress::Progress;
use crate::output::result::Failure;
use crate::output::saved::Saved;
use crate::output::schema::Schema;
use crate::session::{Session, nanoseconds, not_started, quantity};
use crate::units;

/// Bytes that copies of frames may take in all, and copies at least.
const MEMORY: usize = 64 << 20;
const COPIES: usize = 1024;

/// Captures until the time is over, enough is written, or Ctrl-C comes.
pub(super) fn run(args: &Capture, manner: Manner) -> Result<Exit, Error> {
    let manner = manner.for_output(&args.machine.bed);
    let rotation = rotation(args, manner)?;
    let filter = args.filter.as_deref().map(Filter::new).transpose()?;
    let saved = Saved::open(args.machine.bed.output_file())?;
    let duration = args.machine.duration.as_deref().unwrap_or("forever");
    let mut session = Session::open(&args.machine.bed, &args.machine.ports, duration)?;
    let progress = Progress::new(manner, args.machine.json_stream);
    progress.warn(&session.warnings);
    let count = session.ports.len();
    let interfaces = interfaces(args, &session);
    let longest = session.ports.iter().map(|port| port.longest()).max();
    let keeps = longest.unwrap_or(0).min(args.snaplen as usize);
    let tap = Tap::new(count, (MEMORY / keeps.max(1)).clamp(COPIES, 1 << 16), keeps);
    let files = Files::begin(&args.write, interfaces, rotation, epoch(&session))?;
    progress.remark(&format!(
        "capturing {} to {}; Ctrl-C stops",
        session.labels.join(" and "),
        args.write.display()
    ));
    let running = start(&mut session, tap.clone()).map_err(|error| not_started(&error))?;
    let stop = session.interrupt.flag();
    let writer = Writer::start(tap.clone(), files, count, filter, args.count, stop)
        .map_err(|error| Error::Unexpected(format!("no thread to write: {error}")))?;
    let driven = drive(running, &progress, &session.interrupt, &session.link_bps);
    let done = writer.finish();
    let done = done.ok_or_else(|| Error::Unexpected("writing ended unexpectedly".into()))?;
    let (document, exit) = conclude(args, driven?, done, &tap, session)?;
    if manner.json {
        output::document(&document)?;
    } else if args.write == Path::new("-") {
        output::say(capture::page(&document).trim_end());
    } else {
        output::result(&capture::page(&document))?;
    }
    for failure in &document.failures {
        output::say(&format!("error: {}: {}", failure.port, failure.error));
    }
    saved.save(&document, exit)
}

fn rotation(args: &Capture, manner: Manner) -> Result<Rotation, Error> {
    let to_stdout = args.write == Path::new("-");
    let rotation = Rotation {
        bytes: args.rotate_size.as_deref().map(bytes).transpose()?,
        time: args
            .rotate_time
            .as_deref()
            .map(|text| quantity("--rotate-time", units::duration(text)))
            .transpose()?,
        files: args.files,
    };
    let wrong = if to_stdout && manner.json {
        "frames and the JSON result would both go to stdout"
    } else if to_stdout && rotation.is_asked() {
        "stdout is one file"
    } else if rotation.files.is_some() && !rotation.is_asked() {
        "--files says how many stay, and there is only one"
    } else {
        return Ok(rotation);
    };
    Err(Error::Usage {
        found: wrong.to_owned(),
        cure: "-w FILE, with --rotate-size 100MB or --rotate-time 1m and --files N".to_owned(),
    })
}

/// `10MB`, `64kB`, `1GB`.
fn bytes(text: &str) -> Result<u64, Error> {
    let lower = text.trim().to_ascii_lowercase();
    let plain = lower.strip_suffix('b').unwrap_or(&lower);
    let (digits, factor) = match plain.char_indices().last() {
        Some((at, 'k')) => (&plain[..at], 1000),
        Some((at, 'm')) => (&plain[..at], 1_000_000),
        Some((at, 'g')) => (&plain[..at], 1_000_000_000),
        _ => (plain, 1),
    };
    let number = digits
        .trim()
        .parse::<u64>()
        .ok()
        .filter(|number| *number > 0);
    let bytes = number.and_then(|number| number.checked_mul(factor));
    bytes.ok_or_else(|| Error::Usage {
        found: format!("--rotate-size {text}: that is no size"),
        cure: "--rotate-size 100MB".to_owned(),
    })
}

fn interfaces(args: &Capture, session: &Session) -> Vec<Interface> {
    let ports = session.ports.iter().zip(&session.link_bps);
    let interfaces = ports.map(|(port, speed_bps)| Interface {
        name: port.info().name.clone(),
        device: format!("{}: {}", port.info().driver, port.info().device),
        mac: port.info().mac,
        speed_bps: *speed_bps,
        filter: args.filter.clone(),
        snaplen: args.snaplen,
    });
    interfaces.collect()
}

/// What the run's clock has to be added to, to be a time since 1970.
fn epoch(session: &Session) -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let own = Duration::from_nanos(session.clock.now_ns());
    since.unwrap_or_default().saturating_sub(own)
}

fn start(session: &mut Session, tap: Tap) -> Result<run::Run, run::RunError> {
    let (hooks, node) = (session.hooks(), session.node());
    let ports = std::mem::take(&mut session.ports);
    let ports = ports.into_iter().map(ForwardPort::new).collect();
    let mut plan = ForwardPlan::new(ports, ForwardMode::RxOnly);
    plan.tap = Some(tap);
    plan.duration_ns = session.duration.map(nanoseconds);
    plan.cores.clone_from(&session.cores.workers);
    plan.yield_when_idle = session.cores.yields();
    plan.pages = session.pages;
    plan.node = node;
    run::forward(plan, session.clock, hooks)
}

fn conclude(
    args: &Capture,
    driven: Driven,
    mut done: Done,
    tap: &Tap,
    session: Session,
) -> Result<(CaptureDocument, Exit), Error> {
    let Finished { outcome, ports } = driven.finished;
    let mut rows = Vec::new();
    for (number, (figures, port)) in outcome.figures.ports.iter().zip(&ports).enumerate() {
        let counts = done.counts.get_mut(number);
        let counts = counts.ok_or_else(|| Error::Unexpected("a port without counts".into()))?;
        counts.seen = figures.rx_frames;
        counts.missed = figures.rx_missed;
        counts.dropped = tap.dropped(number);
        rows.push(CapturePort {
            port: figures.port.clone(),
            driver: port.info().driver,
            counts: *counts,
        });
    }
    let files = done.files.names();
    let finished = done.files.finish(&done.counts, session.clock.now_ns());
    let port_failed = !outcome.failures.is_empty();
    let mut failures: Vec<Failure> = outcome
        .failures
        .iter()
        .map(|(port, error)| Failure {
            port: rows
                .get(*port)
                .map_or(String::new(), |row| row.port.clone()),
            error: with_causes(error),
        })
        .collect();
    let unwritten = done.failure.or(finished.err());
    failures.extend(unwritten.as_ref().map(|error| Failure {
        port: args.write.display().to_string(),
        error: format!("the file takes no more: {error}"),
    }));
    let mut warnings = session.warnings.clone();
    if rows.iter().any(|row| !adds_up(&row.counts)) {
        warnings.push("the accounting does not close".to_owned());
    }
    let early = driven.interrupted && !done.is_full && session.duration.is_some();
    let exit = match () {
        () if port_failed => Exit::PortFailed,
        () if unwritten.is_some() || !rows.iter().all(|row| adds_up(&row.counts)) => {
            Exit::Unexpected
        }
        () if early => Exit::Interrupted,
        () => Exit::Done,
    };
    let document = CaptureDocument {
        schema: Schema::Capture,
        version: env!("CARGO_PKG_VERSION"),
        complete: failures.is_empty() && !early,
        exit_code: exit as u8,
        files,
        ports: rows,
        filter: args.filter.clone(),
        count: args.count,
        snaplen: args.snaplen,
        duration_s: outcome.duration_s,
        failures,
        warnings,
        machine: session.machine,
    };
    Ok((document, exit))
}

fn adds_up(counts: &Counts) -> bool {
    counts.seen == counts.written + counts.filtered + counts.dropped + counts.beyond
}
