//! `cargo xtask referee`: Linux's own drivers judge our models.
//!
//! The checks are the program `referee` of the package `rig`; here the lab is seen to, and the
//! program built and started.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use peers::guest::Kernel;

use crate::lab::{self, Outcome, Part};
use crate::run;

/// What is judged, and by which kernel.
#[derive(Args)]
pub(crate) struct Options {
    /// A driver of the kernel's (e1000e, igb, igbvf, e1000, ixgbe, x540, x550, ixgbevf, x540vf, x550vf, vmxnet3, virtio), or `all`.
    #[arg(long, default_value = "all")]
    driver: String,
    /// Which of Debian's kernels: that of the release (`stable`), or of the backports (`newer`).
    #[arg(long, default_value = "stable", value_name = "KERNEL")]
    kernel: String,
    /// Writes what was found as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes what was found as JUnit's XML; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    junit: Option<PathBuf>,
    /// Writes the consoles of the guests.
    #[arg(long, value_name = "FILE")]
    console: Option<PathBuf>,
}

/// Runs it; true if nothing failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut kernels = Kernel::ALL.into_iter();
    let kernel = kernels
        .find(|kernel| kernel.name() == options.kernel)
        .context("--kernel is stable or newer")?;
    for part in [Part::Guest, Part::Referee(kernel)] {
        if let Outcome::Unavailable(why) = lab::build(part, false)? {
            bail!("no guest to run in: {why}");
        }
    }
    let mut command = run::cargo(&crate::root());
    command.args(["run", "--quiet", "--package", "rig", "--bin", "referee"]);
    command.args(["--", "--driver", &options.driver, "--kernel", kernel.name()]);
    // The program runs in the workspace's folder, and the user may not.
    let here = std::env::current_dir()?;
    let files = [
        ("--json", &options.json),
        ("--junit", &options.junit),
        ("--console", &options.console),
    ];
    for (name, file) in files {
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
        _ => bail!("the referee did not come to an end ({status})"),
    }
}
