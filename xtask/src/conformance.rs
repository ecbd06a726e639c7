//! `cargo xtask conformance`: the suite that every driver must pass, wherever it runs.
//!
//! The suite is the program `conformance` of the package `rig`; here the lab is seen to, and the
//! program built and started.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::lab::{self, Outcome, Part};
use crate::run;

/// What to run, and where.
#[derive(Args)]
pub(crate) struct Options {
    /// A family of drivers, or `all`.
    #[arg(long, default_value = "all")]
    driver: String,
    /// On models (`sim`), in a guest (`lab`), or on two NICs that a cable joins (`pci:BDF,BDF`).
    #[arg(long = "where", value_name = "PLACE", default_value = "sim")]
    place: String,
    /// Only checks whose name contains this.
    #[arg(long, value_name = "NAME")]
    check: Option<String>,
    /// Writes what was found as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes what was found as JUnit's XML; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    junit: Option<PathBuf>,
}

/// Runs it; true if nothing failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if options.place == "lab"
        && let Outcome::Unavailable(why) = lab::build(Part::Guest, false)?
    {
        bail!("no guest to run in: {why}");
    }
    let mut command = run::cargo(&crate::root());
    command.args(["run", "--quiet", "--package", "rig", "--bin", "conformance"]);
    command.args(["--", "--driver", &options.driver]);
    command.args(["--where", &options.place]);
    if let Some(check) = &options.check {
        command.args(["--check", check]);
    }
    // The program runs in the workspace's folder, and the user may not.
    let here = std::env::current_dir()?;
    for (name, file) in [("--json", &options.json), ("--junit", &options.junit)] {
        if let Some(file) = file {
            let is_output = file.as_os_str() == "-";
            let file = if is_output {
                file.clone()
            } else {
                here.join(file)
            };
            command.arg(name).arg(file);
        }
    }
    let status = command.status().context("cargo can't be started")?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => bail!("the suite did not run to its end ({status})"),
    }
}
