//! The round trip between two cores: how far apart the host has put them right now.
//!
//! A cache line is passed back and forth between two pinned threads. On a virtual machine the
//! result changes by the minute, and with it every rate that two cores reach together; so it is
//! taken beside each of them.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::run;

/// How long a probe keeps both cores.
const LENGTH: Duration = Duration::from_millis(1);
/// Round trips between two looks at the clock.
const BATCH: u64 = 64;

/// Which cores.
#[derive(Args)]
pub(crate) struct Options {
    /// Two cores, as in `0,1`.
    #[arg(long, default_value = "0,1", value_delimiter = ',')]
    cores: Vec<usize>,
}

/// Prints the round trip in nanoseconds.
pub(crate) fn run(options: &Options) -> Result<()> {
    let [first, second] = options.cores[..] else {
        anyhow::bail!("--cores takes two of them")
    };
    println!("{:.1}", round_trip_ns(first, second)?);
    Ok(())
}

/// The round trip between two cores in a process of its own that goes before all others, so
/// that two polling peers don't get in its way; without the right to do that, among them.
pub(crate) fn probe_ns(first: usize, second: usize) -> Result<f64> {
    let cores = format!("{first},{second}");
    let ourselves = std::env::current_exe()?;
    let probe = |mut command: Command| -> Result<f64> {
        let text = run::read(command.args(["pingpong", "--cores", &cores]))?;
        text.trim()
            .parse()
            .with_context(|| format!("the probe said {text}"))
    };
    let mut first_in_line = Command::new("chrt");
    first_in_line.args(["--fifo", "10"]).arg(&ourselves);
    probe(first_in_line).or_else(|_| probe(Command::new(ourselves)))
}

/// A line that no other data shares.
#[repr(align(128))]
struct Line(AtomicU64);

fn round_trip_ns(first: usize, second: usize) -> Result<f64> {
    ensure!(first != second, "a core has no round trip to itself");
    let line = Line(AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let echo = scope.spawn(|| -> Result<()> {
            pin(second)?;
            // Odd numbers are answered with the even one that follows.
            while !is_over.load(Ordering::Relaxed) {
                let ball = line.0.load(Ordering::Acquire);
                if ball % 2 == 1 {
                    line.0.store(ball + 1, Ordering::Release);
                }
            }
            Ok(())
        });
        let result = pin(first).and_then(|()| serve(&line, || echo.is_finished()));
        is_over.store(true, Ordering::Relaxed);
        echo.join()
            .map_err(|_| anyhow::anyhow!("the echo's thread broke"))??;
        result
    })
}

/// Serves the ball until time is over; the best batch's nanoseconds a round trip.
fn serve(line: &Line, is_alone: impl Fn() -> bool) -> Result<f64> {
    let mut best = f64::INFINITY;
    let mut ball = 0;
    let mut total = Duration::ZERO;
    // The first batch waits for the other thread to start.
    for batch in 0_u64.. {
        let started = Instant::now();
        for _ in 0..BATCH {
            line.0.store(ball + 1, Ordering::Release);
            ball += 2;
            while line.0.load(Ordering::Acquire) != ball {
                ensure!(!is_alone(), "the echo's thread can't run on its core");
            }
        }
        if batch == 0 {
            continue;
        }
        let took = started.elapsed();
        best = best.min(took.as_secs_f64() * 1e9 / 64.0);
        total += took;
        if total >= LENGTH {
            break;
        }
    }
    Ok(best)
}

fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core)
        .with_context(|| format!("there is no core {core}"))?;
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("core {core} is not ours"))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_ball_comes_back_within_a_believable_time() {
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            peers::skip(
                "a_ball_comes_back_within_a_believable_time",
                &"one core only",
            );
            return;
        }
        let took = round_trip_ns(0, 1).unwrap();
        assert!((5.0..1e8).contains(&took), "{took} ns");
        assert!(round_trip_ns(0, 0).is_err());
    }
}
