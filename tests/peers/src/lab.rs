//! The lab: a Debian root with the peers in it, in a cache outside the checkout.
//!
//! | what | where |
//! |---|---|
//! | the cache | `$RGEN_LAB`, else `/var/cache/rgen-lab` for root, else `$XDG_CACHE_HOME/rgen-lab`, else `$HOME/.cache/rgen-lab` |
//! | the root with DPDK, tcpdump and tshark | `peers/` in it |
//! | the mark that the root is whole | `peers.stamp` in it: what it was built for, on one line |
//! | the root with QEMU, and a kernel for its guests | `guest/` and `guest.stamp`: see [`crate::guest`] |
//! | another kernel for them, with all ways of VFIO | `own-kernel/` and `own-kernel.stamp`: see [`crate::guest::own`] |
//!
//! A program is run by [`Lab::command`]: in a mount namespace of its own, in which the host's
//! `/proc`, `/sys` and `/dev` and one folder of the caller's ([`INSIDE`]) are mounted into the
//! root. The mounts end with the process, so nothing is left behind, not even by a kill.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the caller's folder is seen by a program that runs in the lab.
pub const INSIDE: &str = "/mnt";

/// What the root has to hold: the first line of the stamp. A change here rebuilds the lab.
pub const CONTENTS: &str = "trixie dpdk dpdk-dev tcpdump tshark";

/// Mounts what a program needs below the root `$1`, then becomes the program.
const ENTER: &str = r#"
set -e
root=$1; folder=$2; shift 2
for tree in /proc /sys /dev; do mount --rbind "$tree" "$root$tree"; done
mount --bind "$folder" "$root/mnt"
exec chroot "$root" "$@"
"#;

/// Why there is no lab to run a peer in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Nothing was built yet, or a build was cut short.
    #[error("the lab in {} lacks it: run `cargo xtask lab`", home.display())]
    NotBuilt {
        /// The cache that was looked at.
        home: PathBuf,
    },
    /// The lab was built for another set of programs.
    #[error("the lab in {} is of another kind ({found}): run `cargo xtask lab`", home.display())]
    Outdated {
        /// The cache that was looked at.
        home: PathBuf,
        /// What its stamp says.
        found: String,
    },
}

/// A lab that `cargo xtask lab` has built.
#[derive(Debug, Clone)]
pub struct Lab {
    root: PathBuf,
}

impl Lab {
    /// The cache's folder, whether it exists or not.
    #[must_use]
    pub fn home() -> PathBuf {
        if let Some(set) = env::var_os("RGEN_LAB").filter(|set| !set.is_empty()) {
            return PathBuf::from(set);
        }
        if nix::unistd::geteuid().is_root() {
            return PathBuf::from("/var/cache/rgen-lab");
        }
        let cache = env::var_os("XDG_CACHE_HOME").filter(|set| !set.is_empty());
        let home = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/tmp".into()));
        cache
            .map_or_else(|| home().join(".cache"), PathBuf::from)
            .join("rgen-lab")
    }

    /// The root's folder inside `home`.
    #[must_use]
    pub fn root_in(home: &Path) -> PathBuf {
        home.join("peers")
    }

    /// The stamp's file inside `home`.
    #[must_use]
    pub fn stamp_in(home: &Path) -> PathBuf {
        home.join("peers.stamp")
    }

    /// The lab of this machine.
    ///
    /// # Errors
    /// When it was not built, or was built for something else; the message has the cure.
    pub fn find() -> Result<Self, LabError> {
        Self::find_in(Self::home())
    }

    /// The lab in the cache `home`.
    ///
    /// # Errors
    /// As [`Lab::find`].
    pub fn find_in(home: PathBuf) -> Result<Self, LabError> {
        is_stamped(&Self::stamp_in(&home), CONTENTS, &home)?;
        Ok(Self {
            root: Self::root_in(&home),
        })
    }

    /// The root's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A command that runs `program` in the lab, with `folder` mounted at [`INSIDE`].
    ///
    /// The process that is started becomes the program itself: its id is the program's, and a
    /// signal to it reaches the program.
    #[must_use]
    pub fn command(&self, folder: &Path, program: &str) -> Command {
        enter(&self.root, folder, program)
    }
}

/// Sees to it that what was built in the cache `home` is what is wanted: the first line of its
/// stamp.
///
/// # Errors
/// There is no stamp, or it says something else.
pub(crate) fn is_stamped(stamp: &Path, contents: &str, home: &Path) -> Result<(), LabError> {
    let home = home.to_owned();
    let Ok(stamp) = fs::read_to_string(stamp) else {
        return Err(LabError::NotBuilt { home });
    };
    let found = stamp.lines().next().unwrap_or_default().to_owned();
    if found == contents {
        Ok(())
    } else {
        Err(LabError::Outdated { home, found })
    }
}

/// A command that runs `program` in the root `root`, with `folder` mounted at [`INSIDE`].
#[must_use]
pub fn enter(root: &Path, folder: &Path, program: &str) -> Command {
    let mut command = Command::new("unshare");
    if !nix::unistd::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            ENTER,
            "enter",
        ])
        .arg(root)
        .arg(folder)
        .arg(program)
        .env("LC_ALL", "C")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("RUNTIME_DIRECTORY", INSIDE);
    command
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_lab_without_a_stamp_or_with_an_old_one_names_the_cure() {
        let home = tempfile::tempdir().unwrap();
        let missing = Lab::find_in(home.path().to_owned()).unwrap_err();
        assert!(matches!(missing, LabError::NotBuilt { .. }), "{missing}");

        fs::write(Lab::stamp_in(home.path()), "trixie something\n").unwrap();
        let old = Lab::find_in(home.path().to_owned()).unwrap_err();
        assert!(old.to_string().contains("cargo xtask lab"), "{old}");

        fs::write(Lab::stamp_in(home.path()), format!("{CONTENTS}\nmore\n")).unwrap();
        let lab = Lab::find_in(home.path().to_owned()).unwrap();
        assert_eq!(lab.root(), home.path().join("peers"));
    }
}
