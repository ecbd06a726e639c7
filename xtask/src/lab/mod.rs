//! `cargo xtask lab`: what tests and comparisons need that others wrote, in a cache.
//!
//! Where it lies, how a program in it is started and what a stamp says: [`peers::lab`] and
//! [`peers::guest`]. The lab is made of three parts, each with a stamp of its own: a part that is
//! whole is not touched again, one that was cut short is built anew.
//!
//! - [`peers`](mod@peers_root): DPDK's testpmd, tcpdump and tshark.
//! - [`guest`]: QEMU, and a kernel and modules for its guests.
//! - [`referee`](mod@referee_root): a kernel with its own network drivers, and their tools: that of
//!   the release, and that of its backports.
//! - [`own_kernel`]: another kernel for them, with the ways of VFIO that no kernel of Debian's has.

mod debian;
mod guest;
mod own_kernel;
mod peers_root;
mod referee_root;

use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use nix::fcntl::{Flock, FlockArg};
use peers::guest::own::{OWN_CONTENTS, own_stamp_in};
use peers::guest::{Kernel, System};
use peers::{Guest, Lab};

use crate::run;

/// What to do with what is there.
#[derive(Args)]
pub(crate) struct Options {
    /// Builds everything anew.
    #[arg(long)]
    again: bool,
    /// Builds QEMU and a kernel with every way of VFIO on (iommufd, no IOMMU), and runs the
    /// tests that need it.
    #[arg(long)]
    own_kernel: bool,
}

/// What came of building a part of the lab.
pub(crate) enum Outcome {
    /// It is there; what is in it, in words.
    Ready(String),
    /// It can't be had on this machine: why, and the cure.
    Unavailable(String),
}

/// A part of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// DPDK, tcpdump and tshark.
    Peers,
    /// QEMU, and a kernel for its guests.
    Guest,
    /// What a referee boots.
    Referee(Kernel),
    /// A kernel of our own for the guests.
    OwnKernel,
}

impl Part {
    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Peers => "peers",
            Self::Guest => "guest",
            Self::Referee(Kernel::Stable) => "referee",
            Self::Referee(Kernel::Newer) => "referee, newer kernel",
            Self::OwnKernel => "own kernel",
        }
    }
}

/// Builds the lab and says what is in it.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut missing = Vec::new();
    let parts = if options.own_kernel {
        &[Part::Guest, Part::OwnKernel][..]
    } else {
        &[
            Part::Peers,
            Part::Guest,
            Part::Referee(Kernel::Stable),
            Part::Referee(Kernel::Newer),
        ]
    };
    for &part in parts {
        match build(part, options.again)? {
            Outcome::Ready(what) => println!("{} ready: {what}", part.name()),
            Outcome::Unavailable(why) => missing.push(format!("{}: {why}", part.name())),
        }
    }
    anyhow::ensure!(missing.is_empty(), "{}", missing.join("\n"));
    if options.own_kernel {
        return check_own_kernel();
    }
    Ok(true)
}

/// Runs the tests that need it; true if they passed.
fn check_own_kernel() -> Result<bool> {
    let mut command = run::cargo(&crate::root());
    command.args(["test", "--package", "rig", "--test", "lab_own_kernel"]);
    // One guest at a time: each has as many processors as a small machine has cores.
    command.args(["--", "--test-threads=1"]);
    Ok(command
        .status()
        .context("cargo can't be started")?
        .success())
}

/// Builds a part of the lab where it is missing.
pub(crate) fn build(part: Part, again: bool) -> Result<Outcome> {
    let started = Instant::now();
    let home = Lab::home();
    fs::create_dir_all(&home).with_context(|| format!("{} can't be made", home.display()))?;
    // Two builds at once would write the same root.
    let lock = File::create(home.join("lock"))?;
    let lock = Flock::lock(lock, FlockArg::LockExclusive);
    let _lock = lock
        .map_err(|(_, error)| error)
        .context("the lab can't be locked")?;

    if again || !is_whole(part, &home) {
        if let Some(why) = debian::missing()? {
            return Ok(Outcome::Unavailable(why));
        }
        match part {
            Part::Peers => peers_root::build(&home)?,
            Part::Guest => guest::build(&home)?,
            Part::Referee(kernel) => referee_root::build(&home, kernel)?,
            Part::OwnKernel => own_kernel::build(&home)?,
        }
        println!("{} built in {} s", part.name(), started.elapsed().as_secs());
    }
    let entered = match part {
        Part::Peers => enter(|folder| Ok(Lab::find_in(home.clone())?.command(folder, "true"))),
        Part::Guest => enter(|folder| Ok(Guest::find_in(home.clone())?.command(folder, "true"))),
        // Nothing in it is started but by QEMU.
        Part::Referee(_) | Part::OwnKernel => Ok(()),
    };
    if let Err(error) = entered {
        return Ok(Outcome::Unavailable(format!(
            "programs in the lab can't be started here: {error:#}; mount namespaces are needed \
             (in a container: --privileged)"
        )));
    }
    let stamp = match part {
        Part::Peers => Lab::stamp_in(&home),
        Part::Guest => Guest::stamp_in(&home),
        Part::Referee(kernel) => System::stamp_in(&home, kernel),
        Part::OwnKernel => own_stamp_in(&home),
    };
    Ok(Outcome::Ready(versions(&stamp)?))
}

fn is_whole(part: Part, home: &Path) -> bool {
    match part {
        Part::Peers => Lab::find_in(home.to_owned()).is_ok(),
        Part::Guest => Guest::find_in(home.to_owned()).is_ok(),
        Part::Referee(kernel) => System::find_in(home.to_owned(), kernel).is_ok(),
        Part::OwnKernel => {
            let stamp = fs::read_to_string(own_stamp_in(home)).unwrap_or_default();
            stamp.lines().next() == Some(OWN_CONTENTS)
        }
    }
}

/// Starts the least of programs in the lab.
fn enter(command: impl Fn(&Path) -> Result<std::process::Command>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    run::read(&mut command(folder.path())?)?;
    Ok(())
}

/// What a stamp says of the packages.
fn versions(stamp: &Path) -> Result<String> {
    let stamp = fs::read_to_string(stamp)?;
    Ok(stamp.lines().skip(1).collect::<Vec<_>>().join(", "))
}
