//! `cargo xtask bench`: what the code costs, in time and in instructions.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::{against, beside, run};

/// What a run of all benchmarks may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Compares with another generator instead, both into the same sink.
    #[arg(long, value_enum)]
    against: Option<Peer>,
    /// Compares with testpmd on emulated NICs instead, in one guest; a turn's windows are one.
    #[arg(long = "in", value_enum, conflicts_with = "against")]
    place: Option<Place>,
    /// Only benchmarks, or devices, whose name contains this.
    filter: Option<String>,
    #[command(flatten)]
    comparison: against::Options,
}

/// Whom to compare with.
#[derive(Clone, Copy, ValueEnum)]
enum Peer {
    /// DPDK's testpmd.
    Dpdk,
}

/// Where to compare.
#[derive(Clone, Copy, ValueEnum)]
enum Place {
    /// In a guest of the lab.
    Lab,
}

/// Runs the benchmarks, or a comparison.
pub(crate) fn run(options: &Options) -> Result<()> {
    let filter = options.filter.as_deref();
    match (options.against, options.place) {
        (Some(Peer::Dpdk), _) => against::compare(&options.comparison),
        (None, Some(Place::Lab)) => beside::compare(&options.comparison, filter),
        (None, None) => benches(filter),
    }
}

/// Every benchmark of the crate `benches`: those in files whose name ends in `instructions` count
/// instructions under valgrind, all others take time.
fn benches(filter: Option<&str>) -> Result<()> {
    let root = crate::root();
    let mut names = Vec::new();
    let text = run::read(run::cargo(&root).args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let is_bench = target["kind"]
                .as_array()
                .is_some_and(|k| k.contains(&"bench".into()));
            names.extend(
                target["name"]
                    .as_str()
                    .filter(|_| is_bench)
                    .map(str::to_owned),
            );
        }
    }
    let missing = counting_needs();
    let mut failed = Vec::new();
    for name in names {
        if let Some(why) = missing.as_ref().filter(|_| name.ends_with("instructions")) {
            println!("skipped: {name}: {why}");
            continue;
        }
        println!("\n== {name}");
        let mut command = run::cargo(&root);
        command
            .args(["bench", "--package", "benches", "--bench", &name, "--"])
            .args(filter);
        let done = run::watch(&mut command, LIMIT, |_| true)?;
        if !done.is_success() {
            failed.push(format!("{name} ({})", done.verdict()));
        }
    }
    if !failed.is_empty() {
        bail!("benchmarks that failed: {}", failed.join(", "));
    }
    Ok(())
}

/// What is missing for counting instructions, and the cure.
fn counting_needs() -> Option<&'static str> {
    let has =
        |program: &str| run::read(std::process::Command::new(program).arg("--version")).is_ok();
    if !has("valgrind") {
        return Some("valgrind is missing: apt-get install valgrind");
    }
    if !has("gungraun-runner") {
        return Some(
            "gungraun-runner is missing: cargo install gungraun-runner, of the version in Cargo.lock",
        );
    }
    None
}
