//! A kernel of our own for the guests, built from Debian's source: see [`peers::guest::own`].
//!
//! It is built in a Debian root of its own, so that this machine needs no compiler, in a folder of
//! the cache. Both are gone once it is whole. A build that was cut short goes on where it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use peers::guest::INIT;
use peers::guest::own::{BUILD, CONFIG, OWN_CONTENTS, dropped, own_folder_in, own_stamp_in};
use peers::lab::{INSIDE, enter};

use super::debian::{self, Plan};
use crate::run::watch;

/// What the build may take before it counts as hanging: far more than it needs, as it gives way
/// to whatever else the machine does.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// What is in the root with the compiler. The source is a package too.
const PACKAGES: &[&str] = &[
    "bc",
    "bison",
    "busybox-static",
    "cpio",
    "flex",
    "gcc",
    "kmod",
    "libc6-dev",
    "libelf-dev",
    "linux-source-6.12",
    "make",
    "perl-base",
    "xz-utils",
];

/// What the root with the compiler is for: the first line of its stamp.
const TOOLS: &str = "trixie kernel-tools, version 1";

/// Where the work is done.
struct Site {
    tools: PathBuf,
    tools_stamp: PathBuf,
    folder: PathBuf,
}

/// Builds it in the cache `home`.
pub(super) fn build(home: &Path) -> Result<()> {
    let site = Site {
        tools: home.join("kernel-tools"),
        tools_stamp: home.join("kernel-tools.stamp"),
        folder: home.join("own-kernel.build"),
    };
    site.get_tools()?;
    fs::create_dir_all(&site.folder)?;
    site.file("own.config", CONFIG)?;
    site.file("own.sh", BUILD)?;
    site.file("init", INIT)?;
    site.step("configure")?;
    check_config(&fs::read_to_string(site.folder.join("linux/.config"))?)?;
    site.step("build")?;
    site.step("pack")?;

    let out = site.folder.join("out");
    let version = fs::read_to_string(out.join("boot/rgen-kernel.version"));
    let version = version.context("the kernel has no version")?;
    let (folder, stamp) = (own_folder_in(home), own_stamp_in(home));
    let _ = fs::remove_file(&stamp);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::rename(&out, &folder)?;
    fs::write(&stamp, format!("{OWN_CONTENTS}\n{}\n", version.trim()))?;
    site.clear()
}

/// Every line that is wanted must hold.
fn check_config(found: &str) -> Result<()> {
    let dropped = dropped(CONFIG, found);
    ensure!(
        dropped.is_empty(),
        "the kernel's configuration does not take {}: what it needs is missing in own.config",
        dropped.join(", ")
    );
    Ok(())
}

impl Site {
    /// The root with the compiler and the source.
    fn get_tools(&self) -> Result<()> {
        let stamped = fs::read_to_string(&self.tools_stamp).unwrap_or_default();
        if stamped.lines().next() == Some(TOOLS) {
            return Ok(());
        }
        debian::build(&Plan {
            root: &self.tools,
            stamp: &self.tools_stamp,
            contents: TOOLS,
            suites: &["trixie"],
            packages: PACKAGES,
            named: &["linux-source-6.12", "gcc"],
            more: Vec::new(),
        })
    }

    /// Writes a file of the build, unless it says so already: a later time would build anew.
    fn file(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            return Ok(());
        }
        fs::write(&path, text).with_context(|| format!("{} can't be written", path.display()))
    }

    /// Runs a step of [`BUILD`].
    fn step(&self, name: &str) -> Result<()> {
        let mut command: Command = enter(&self.tools, &self.folder, "nice");
        command.args(["-n", "19", "bash", &format!("{INSIDE}/own.sh"), name]);
        let done = watch(&mut command, LIMIT, |line| line.starts_with("I: "))?;
        if !done.is_success() {
            bail!(
                "the kernel can't be built: the step '{name}' ended ({}) with:\n{}\n\
                 it goes on there when `cargo xtask lab --own-kernel` is run again; it needs 3 GB \
                 of room in {}",
                done.verdict(),
                done.tail(30),
                self.folder.parent().unwrap_or(&self.folder).display()
            );
        }
        Ok(())
    }

    /// Removes what only the build needed.
    fn clear(&self) -> Result<()> {
        fs::remove_dir_all(&self.folder)?;
        fs::remove_file(&self.tools_stamp)?;
        debian::remove(&self.tools)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_configuration_that_lost_a_line_ends_the_build_with_its_name() {
        check_config(CONFIG).unwrap();
        let lost = CONFIG.replace("CONFIG_VFIO_NOIOMMU=y", "# CONFIG_VFIO_NOIOMMU is not set");
        let error = check_config(&lost).unwrap_err().to_string();
        assert!(error.contains("take CONFIG_VFIO_NOIOMMU=y:"), "{error}");
    }
}
