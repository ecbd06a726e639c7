//! `cargo xtask`: everything that a developer of rgen runs.
//!
//! | command | what it does |
//! |---|---|
//! | `test` | every check and every test, each failure printed; `ci` is another name for it |
//! | `tidy` | only the checks that read the sources: seconds |
//! | `lab` | builds the peers (DPDK, tcpdump, tshark), and QEMU with a guest's kernel, into a cache outside the checkout |
//! | `conformance` | the suite that every driver must pass, on models, in a guest, or on real hardware |
//! | `referee` | Linux's own drivers judge our models, in a guest |
//! | `bench` | the benchmarks; `--against dpdk` compares with testpmd on vhost-user, `--in lab` on emulated NICs |
#![forbid(unsafe_code)]

mod against;
mod bench;
mod beside;
mod conformance;
mod lab;
mod pages;
mod pingpong;
mod referee;
mod run;
mod tidy;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Everything that a developer of rgen runs")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Checks formats, lints, layout and docs, builds the lab, runs every test.
    Test(verify::Options),
    /// The same as `test`.
    Ci(verify::Options),
    /// Checks the sources' layout and rules, and nothing else.
    Tidy,
    /// Builds the peers that tests and comparisons run against.
    Lab(lab::Options),
    /// Runs the suite that every driver must pass.
    Conformance(conformance::Options),
    /// Has Linux's own drivers judge our models.
    Referee(referee::Options),
    /// Runs the benchmarks.
    Bench(bench::Options),
    /// Prints the round trip between two cores in nanoseconds.
    Pingpong(pingpong::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Test(options) | Task::Ci(options) => verify::run(&options),
        Task::Tidy => verify::tidy_only(),
        Task::Lab(options) => lab::run(&options),
        Task::Conformance(options) => conformance::run(&options),
        Task::Referee(options) => referee::run(&options),
        Task::Bench(options) => bench::run(&options).map(|()| true),
        Task::Pingpong(options) => pingpong::run(&options).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's folder.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent()
        .map_or_else(|| PathBuf::from("."), PathBuf::from)
}

#[cfg(test)]
mod test {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Arguments::command().debug_assert();
    }
}
