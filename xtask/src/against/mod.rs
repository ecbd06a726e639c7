//! `cargo xtask bench --against dpdk`: rgen and testpmd in turn into one and the same sink.
//!
//! The sink is testpmd's vhost port, taking and counting on core 0; each sender gets core 1, one
//! queue pair and rings of 1024 slots. Senders take turns over several rounds, so that what the
//! host does to the machine meanwhile hits all of them. A rate is what the *sink* counted in a
//! window, divided by the window's length. Around each window the core-to-core round trip is
//! taken: *near* when it was short at both ends, *far* when it was long at both, else *mixed*.
//! Only windows of one class are compared, and only those in which both ends had their core.
//!
//! Sizes include the FCS, as everywhere in rgen: testpmd, which doesn't count it, is told 4 less.

mod report;
mod sender;

pub(crate) use report::median;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use peers::{Forward, Lab, Memory, Rings, Setup, Testpmd};
use serde::Serialize;

use crate::lab::{Outcome, Part};
use crate::pages::Reserved;
use crate::pingpong::probe_ns;
use crate::{lab, run};
use sender::{Running, Sender};

/// The sink's core, and the senders'.
const CORES: (usize, usize) = (0, 1);
/// Pages of 2 MiB for the sink, a sender and some room.
const PAGES: u64 = 1024;
/// Below this round trip at both ends, a window is near.
const NEAR_NS: f64 = 220.0;
/// Above this one at both ends, it is far.
const FAR_NS: f64 = 300.0;
/// What a sender gets to come to its speed.
const WARM_UP: Duration = Duration::from_millis(700);
/// What a sender gets to start sending at all.
const START: Duration = Duration::from_secs(30);

/// What to compare, and for how long.
#[derive(Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Turns of each sender.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: u32,
    /// Windows in a turn.
    #[arg(long, default_value_t = 4)]
    pub(crate) windows: u32,
    /// Length of a window in seconds.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Bytes a frame, FCS included.
    #[arg(long, default_value_t = 64)]
    pub(crate) size: u16,
    /// Senders: flowgen, txonly, or a `vm` of rgen's bench profile such as random.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "flowgen,txonly,random,var1,cached"
    )]
    pub(crate) senders: Vec<Sender>,
    /// Ring layouts: split, packed.
    #[arg(long, value_delimiter = ',', default_value = "split,packed", value_parser = rings)]
    pub(crate) rings: Vec<Rings>,
    /// The least share of its core that each end must have had in a window that counts.
    #[arg(long, default_value_t = 0.95)]
    pub(crate) share: f64,
    /// Writes every window and the summary as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

fn rings(text: &str) -> std::result::Result<Rings, String> {
    match text {
        "split" => Ok(Rings::Split),
        "packed" => Ok(Rings::Packed),
        _ => Err("rings are split or packed".into()),
    }
}

/// Where the host had put the two cores during a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Class {
    /// On one last-level cache.
    Near,
    /// Not.
    Far,
    /// Moved meanwhile, or in between.
    Mixed,
}

impl Class {
    fn of(before_ns: f64, after_ns: f64) -> Self {
        if before_ns.max(after_ns) < NEAR_NS {
            Self::Near
        } else if before_ns.min(after_ns) > FAR_NS {
            Self::Far
        } else {
            Self::Mixed
        }
    }
}

/// One window of one sender.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Window {
    /// The layout of the rings.
    pub(crate) rings: &'static str,
    /// Who sent.
    pub(crate) sender: String,
    /// In which round.
    pub(crate) round: u32,
    /// Millions of frames a second, as the sink counted them.
    pub(crate) mpps: f64,
    /// The core-to-core round trip before and after.
    pub(crate) round_trip_ns: (f64, f64),
    /// Their class.
    pub(crate) class: Class,
    /// The share of its core that the sender's busiest thread had.
    pub(crate) sender_share: f64,
    /// The same of the sink.
    pub(crate) sink_share: f64,
}

/// Runs the comparison and prints it.
pub(crate) fn compare(options: &Options) -> Result<()> {
    if let Outcome::Unavailable(why) = lab::build(Part::Peers, false)? {
        bail!("no testpmd to compare with: {why}");
    }
    let rgen = if options.senders.iter().any(Sender::is_rgen) {
        Some(build_rgen()?)
    } else {
        None
    };
    let _pages = Reserved::at_least(PAGES)?;
    let lab = Lab::find()?;
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("sink.sock");
    let mut bench = Bench {
        options,
        rgen,
        lab,
        socket,
        windows: Vec::new(),
    };
    let mut sink = bench.sink()?;
    let mut troubles = Vec::new();
    for round in 1..=options.rounds {
        for &rings in &options.rings {
            for sender in &options.senders {
                if let Err(error) = bench.turn(&mut sink, sender, rings, round) {
                    eprintln!("{} {}: {error:#}", rings.name(), sender.label());
                    troubles.push(format!("{} {}", rings.name(), sender.label()));
                }
            }
        }
    }
    sink.stop()?;
    report::print(options, &bench.windows)?;
    if !troubles.is_empty() {
        bail!(
            "turns that failed, each told above: {}",
            troubles.join(", ")
        );
    }
    Ok(())
}

/// Builds rgen as it is shipped, and says where it lies; or that of `$RGEN_BIN`, if set.
pub(crate) fn build_rgen() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("RGEN_BIN") {
        return Ok(PathBuf::from(path));
    }
    let root = crate::root();
    println!("building rgen (release)");
    let mut command = run::cargo(&root);
    command.args(["build", "--release", "--package", "rgen", "--quiet"]);
    run::read(&mut command)
        .context("rgen can't be built; --senders flowgen,txonly goes without")?;
    Ok(target_folder(&root)?.join("release/rgen"))
}

/// Where Cargo puts what it builds.
pub(crate) fn target_folder(root: &Path) -> Result<PathBuf> {
    let text = run::read(run::cargo(root).args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let target = metadata["target_directory"]
        .as_str()
        .context("cargo names no target folder")?;
    Ok(PathBuf::from(target))
}

/// A comparison under way.
struct Bench<'a> {
    options: &'a Options,
    rgen: Option<PathBuf>,
    lab: Lab,
    socket: PathBuf,
    windows: Vec<Window>,
}

impl Bench<'_> {
    fn sink(&self) -> Result<Testpmd> {
        let setup = Setup {
            core: CORES.0,
            ..self.setup(Setup::device(Forward::RxOnly))
        };
        Ok(Testpmd::vhost(&self.lab, &self.socket, &setup)?)
    }

    /// A testpmd as its users start it: hugepages, and a pool as large as it likes.
    fn setup(&self, setup: Setup) -> Setup {
        Setup {
            memory: Memory::Huge,
            memory_mib: 512,
            pool_frames: 155_456,
            send_bytes: self.options.size.saturating_sub(4),
            ..setup
        }
    }

    /// Lets one sender send, and takes its windows.
    fn turn(
        &mut self,
        sink: &mut Testpmd,
        sender: &Sender,
        rings: Rings,
        round: u32,
    ) -> Result<()> {
        let idle = sink.counters()?.rx_frames;
        let mut running = self.start(sender, rings)?;
        let started = Instant::now();
        while sink.counters()?.rx_frames == idle {
            running.is_fine()?;
            if started.elapsed() > START {
                bail!("sent nothing in {START:?}; it said:\n{}", running.said());
            }
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(WARM_UP);
        for _ in 0..self.options.windows {
            let window = self.window(sink, &mut running, sender, rings, round)?;
            println!(
                "round {round}  {:<6}  {:<14} {:>7.2} Mpps  round trip {:>4.0}/{:>4.0} ns  {:<5}  \
                 core had: sender {:>3.0} %, sink {:>3.0} %",
                window.rings,
                window.sender,
                window.mpps,
                window.round_trip_ns.0,
                window.round_trip_ns.1,
                report::class_name(window.class),
                window.sender_share * 100.0,
                window.sink_share * 100.0
            );
            self.windows.push(window);
        }
        running.stop()
    }

    fn start(&self, sender: &Sender, rings: Rings) -> Result<Running> {
        match sender {
            Sender::TxOnly => self.peer(Forward::TxOnly, rings),
            Sender::FlowGen => self.peer(Forward::FlowGen, rings),
            Sender::Rgen(vm) => {
                let rgen = self.rgen.as_ref().context("rgen was not built")?;
                let Options {
                    seconds,
                    windows,
                    size,
                    ..
                } = self.options;
                let length_s = START.as_secs_f64() + seconds * 2.0 * f64::from(*windows);
                let arguments = sender::rgen_arguments(&self.socket, vm, rings, *size, length_s);
                sender::start_rgen(rgen, &self.socket, &arguments)
            }
        }
    }

    fn peer(&self, forward: Forward, rings: Rings) -> Result<Running> {
        let setup = Setup {
            rings,
            core: CORES.1,
            ..self.setup(Setup::driver(forward))
        };
        Ok(Running::Peer(Testpmd::virtio_user(
            &self.lab,
            &self.socket,
            &setup,
        )?))
    }

    fn window(
        &self,
        sink: &mut Testpmd,
        running: &mut Running,
        sender: &Sender,
        rings: Rings,
        round: u32,
    ) -> Result<Window> {
        let before_ns = probe_ns(CORES.0, CORES.1)?;
        let busy = (busiest(running.pid())?, busiest(sink.pid())?);
        let started = Instant::now();
        let first = sink.counters()?;
        thread::sleep(Duration::from_secs_f64(self.options.seconds));
        let last = sink.counters()?;
        let took = started.elapsed().as_secs_f64();
        running.is_fine()?;
        let after = (busiest(running.pid())?, busiest(sink.pid())?);
        let after_ns = probe_ns(CORES.0, CORES.1)?;
        let frames = last.rx_frames - first.rx_frames;
        Ok(Window {
            rings: rings.name(),
            sender: sender.label(),
            round,
            mpps: (frames as f64) / (last.at - first.at).as_secs_f64() / 1e6,
            round_trip_ns: (before_ns, after_ns),
            class: Class::of(before_ns, after_ns),
            sender_share: (after.0.saturating_sub(busy.0) as f64) / 1e9 / took,
            sink_share: (after.1.saturating_sub(busy.1) as f64) / 1e9 / took,
        })
    }
}

/// The nanoseconds that the busiest thread of a process has had of a core so far.
fn busiest(pid: u32) -> Result<u64> {
    let mut most = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let ran = text
            .split_whitespace()
            .next()
            .and_then(|ran| ran.parse().ok());
        most = most.max(ran.unwrap_or(0));
    }
    Ok(most)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_window_is_near_or_far_only_when_both_ends_agree() {
        assert_eq!(Class::of(100.0, 219.0), Class::Near);
        assert_eq!(Class::of(460.0, 301.0), Class::Far);
        assert_eq!(Class::of(100.0, 460.0), Class::Mixed);
        assert_eq!(Class::of(250.0, 250.0), Class::Mixed);
    }

    #[test]
    fn our_own_busiest_thread_has_run() {
        assert!(busiest(std::process::id()).unwrap() > 0);
    }
}
