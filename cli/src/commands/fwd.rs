//! `rgen fwd`: testpmd's role. Forward, reflect, sink, answer; `txonly` sends.

use std::collections::BTreeMap;

use engine::frame::Macs;
use engine::profile;
use engine::run::{self, Finished, ForwardMode, ForwardPlan, ForwardPort, PortPlan, Run, RunPlan};

use super::Manner;
use super::run::{document, print};
use crate::args::{Fwd, Mode};
use crate::drive::{Driven, drive};
use crate::error::{Error, Exit};
use crate::output::progress::Progress;
use crate::output::result::Config;
use crate::output::saved::Saved;
use crate::output::schema::Schema;
use crate::session::{Session, nanoseconds, not_started};

/// Forwards until the time is over or Ctrl-C comes; without a time, Ctrl-C is its proper end.
pub(super) fn run(args: &Fwd, manner: Manner) -> Result<Exit, Error> {
    let manner = manner.for_output(&args.machine.bed);
    let saved = Saved::open(args.machine.bed.output_file())?;
    let duration = args.machine.duration.as_deref().unwrap_or("forever");
    let mut session = Session::open(&args.machine.bed, &args.machine.ports, duration)?;
    let config = config(args, &session);
    let progress = Progress::new(manner, args.machine.json_stream);
    progress.warn(&session.warnings);
    progress.remark(&format!(
        "{} on {}; Ctrl-C stops",
        config.profile,
        config.ports.join(" and ")
    ));
    let running = start(args, &mut session).map_err(|error| not_started(&error))?;
    let Driven {
        finished,
        interrupted,
        reader_left: _,
    } = drive(running, &progress, &session.interrupt, &session.link_bps)?;
    let is_early = interrupted && session.duration.is_some();
    let Finished { outcome, mut ports } = finished;
    let mut document = document(Schema::Forward, &outcome, &mut ports, config, session);
    document.complete = !is_early && document.failures.is_empty();
    let exit = if !document.failures.is_empty() {
        Exit::PortFailed
    } else if is_early {
        Exit::Interrupted
    } else if !outcome.check().is_empty() {
        Exit::Unexpected
    } else {
        Exit::Done
    };
    document.exit_code = exit as u8;
    print(&document, manner, args.machine.json_stream)?;
    saved.save(&document, exit)
}

/// The engine's mode; none for the one that only sends.
fn mode(mode: Mode) -> Option<ForwardMode> {
    match mode {
        Mode::Io => Some(ForwardMode::Io),
        Mode::Mac => Some(ForwardMode::Mac),
        Mode::Macswap => Some(ForwardMode::MacSwap),
        Mode::Rxonly => Some(ForwardMode::RxOnly),
        Mode::Icmpecho => Some(ForwardMode::IcmpEcho),
        Mode::Txonly => None,
    }
}

fn start(args: &Fwd, session: &mut Session) -> Result<Run, run::RunError> {
    let hooks = session.hooks();
    let node = session.node();
    let ports = std::mem::take(&mut session.ports);
    let duration_ns = session.duration.map(nanoseconds);
    let yields = session.cores.yields();
    let Some(mode) = mode(args.mode) else {
        let macs: Vec<_> = ports.iter().map(|port| port.info().mac).collect();
        let dst = |n: usize| macs.get(n ^ 1).copied().unwrap_or(NOBODY);
        let ports = ports.into_iter().enumerate();
        let ports = ports.map(|(n, port)| sender(port, dst(n))).collect();
        let mut plan = RunPlan::new(ports);
        plan.duration_ns = duration_ns;
        plan.cores.clone_from(&session.cores.workers);
        plan.yield_when_idle = yields;
        plan.pages = session.pages;
        plan.node = node;
        return run::start(plan, session.clock, hooks);
    };
    let ports = ports.into_iter().map(ForwardPort::new).collect();
    let mut plan = ForwardPlan::new(ports, mode);
    plan.duration_ns = duration_ns;
    plan.cores.clone_from(&session.cores.workers);
    plan.yield_when_idle = yields;
    plan.pages = session.pages;
    plan.node = node;
    run::forward(plan, session.clock, hooks)
}

/// Whom frames go to where the other end is not ours, as in testpmd.
const NOBODY: port::Mac = [0x02, 0, 0, 0, 0, 0];

/// A port that sends one frame to `dst` again and again, as fast as it takes it, and receives
/// nothing.
fn sender(port: Box<dyn port::Port>, dst: port::Mac) -> PortPlan {
    let macs = Macs {
        src: port.info().mac,
        dst,
    };
    let mut plan = PortPlan::new(port);
    let profile = profile::Profile::new("udp64", &[]).expect("udp64 is built in");
    plan.streams = profile.streams(0, macs);
    plan.unlimited = true;
    plan.receive = false;
    plan
}

fn config(args: &Fwd, session: &Session) -> Config {
    let name = match args.mode {
        Mode::Io => "io",
        Mode::Mac => "mac",
        Mode::Macswap => "macswap",
        Mode::Rxonly => "rxonly",
        Mode::Txonly => "txonly",
        Mode::Icmpecho => "icmpecho",
    };
    Config {
        command: "fwd",
        profile: name.to_owned(),
        knobs: BTreeMap::new(),
        profile_source: None,
        multiplier: None,
        ports: session.names.clone(),
        one_way: false,
        ips: Vec::new(),
        duration_s: session.duration.map(|time| time.as_secs_f64()),
        cores: session.cores.workers.clone(),
        model_core: session.cores.model,
        hugepages: !args.machine.bed.no_huge,
        catch_up_s: None,
        drain_s: 1.0,
        streams: Vec::new(),
    }
}
