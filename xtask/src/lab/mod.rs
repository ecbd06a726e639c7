//! `cargo xtask lab`: the peers that tests and comparisons run against, in a cache.
//!
//! Where it lies, how a program in it is started and what a stamp says: [`peers::lab`]. The lab
//! is made of parts, each with a stamp of its own: a part that is whole is not touched again, one
//! that was cut short is built anew. So far there is one part, [`debian`]'s root with DPDK and
//! tshark.

mod debian;

use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use nix::fcntl::{Flock, FlockArg};
use peers::Lab;

use crate::run;

/// What to do with what is there.
#[derive(Args)]
pub(crate) struct Options {
    /// Builds everything anew.
    #[arg(long)]
    again: bool,
}

/// What came of building the lab.
pub(crate) enum Outcome {
    /// It is there; what is in it, in words.
    Ready(String),
    /// It can't be had on this machine: why, and the cure.
    Unavailable(String),
}

/// Builds the lab and says what is in it.
pub(crate) fn run(options: &Options) -> Result<()> {
    match build(options.again)? {
        Outcome::Ready(what) => println!("the lab is ready: {what}"),
        Outcome::Unavailable(why) => anyhow::bail!("{why}"),
    }
    Ok(())
}

/// Builds what is missing of the lab.
pub(crate) fn build(again: bool) -> Result<Outcome> {
    let started = Instant::now();
    let home = Lab::home();
    fs::create_dir_all(&home).with_context(|| format!("{} can't be made", home.display()))?;
    // Two builds at once would write the same root.
    let lock = File::create(home.join("lock"))?;
    let lock = Flock::lock(lock, FlockArg::LockExclusive);
    let _lock = lock
        .map_err(|(_, error)| error)
        .context("the lab can't be locked")?;

    if again || Lab::find_in(home.clone()).is_err() {
        if let Some(why) = debian::missing()? {
            return Ok(Outcome::Unavailable(why));
        }
        debian::build(&home)?;
        println!("the peers were built in {} s", started.elapsed().as_secs());
    }
    let lab = Lab::find_in(home.clone())?;
    if let Err(error) = enter(&lab) {
        return Ok(Outcome::Unavailable(format!(
            "programs in the lab can't be started here: {error:#}; mount namespaces are needed \
             (in a container: --privileged)"
        )));
    }
    Ok(Outcome::Ready(versions(&home)?))
}

/// Starts the least of programs in the lab.
fn enter(lab: &Lab) -> Result<()> {
    let folder = tempfile::tempdir()?;
    run::read(&mut lab.command(folder.path(), "true"))?;
    Ok(())
}

/// What the stamp says of the packages.
fn versions(home: &Path) -> Result<String> {
    let stamp = fs::read_to_string(Lab::stamp_in(home))?;
    Ok(stamp.lines().skip(1).collect::<Vec<_>>().join(", "))
}
