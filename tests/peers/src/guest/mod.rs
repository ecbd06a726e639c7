//! A guest: a machine that QEMU emulates, with real VFIO behind a virtual IOMMU, and the NICs
//! that QEMU's authors wrote.
//!
//! `cargo xtask lab` puts QEMU and a kernel into a Debian root of their own, `guest/` in the
//! lab's cache; in that root lies [`BASE`], an archive with busybox, the kernel's modules and an
//! [`INIT`]. [`Guest::run`] boots a [`Machine`] with it and with the files of a [`Job`], runs the
//! job's script, and gives back what it printed and how it ended.
//!
//! [`own`] is another kernel for the same guests, with what Debian's have not.
//!
//! What the script prints comes out by the second serial port, and its exit status on that
//! port's last line; the first serial port is the kernel's console. The guest ends itself; a
//! limit of time ends one that does not, and the end of the thread that started it ends QEMU, so
//! that none is left behind.

mod archive;
mod libraries;
mod machine;
pub mod own;
mod run;
mod system;
pub mod testpmd;

use std::path::{Path, PathBuf};
use std::process::Command;

pub use machine::{Machine, Placed, Taps, Wire};
pub use run::{GuestError, Job, Outcome};
pub use system::{Kernel, System};

use crate::lab::{Lab, LabError, enter, is_stamped};

/// What a guest's root holds of this machine beside the job. Paths in the guest are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carried {
    /// A file, which may be run there.
    File {
        /// Where it lies here.
        from: PathBuf,
        /// Where it lies there.
        to: String,
    },
    /// A symbolic link.
    Link {
        /// Where it lies.
        at: String,
        /// What it leads to.
        to: String,
    },
    /// An empty folder.
    Folder(String),
}

/// What the root has to hold: the first line of the stamp. A change here, in [`MODULES`] or in
/// [`INIT`] rebuilds it; so the number goes up with those.
pub const CONTENTS: &str = "trixie qemu-system-x86 linux-image-amd64 busybox-static, version 1";

/// The kernel's modules that a guest may load, with all that they depend on.
pub const MODULES: &[&str] = &[
    "vfio-pci",
    "vfio_iommu_type1",
    "virtio_pci",
    "virtio_net",
    "e1000",
    "e1000e",
    "igb",
    "igbvf",
    "vmxnet3",
];

/// Where the kernel lies in the root.
pub const KERNEL: &str = "/boot/rgen-kernel";

/// Where the archive that every guest starts from lies in the root.
pub const BASE: &str = "/boot/rgen-base.cpio";

/// The first program of a guest: mounts what is needed, loads modules, runs the job, ends.
pub const INIT: &str = include_str!("init.sh");

/// QEMU and a kernel for its guests, as `cargo xtask lab` has built them.
#[derive(Debug, Clone)]
pub struct Guest {
    root: PathBuf,
}

impl Guest {
    /// The root's folder inside the cache `home`.
    #[must_use]
    pub fn root_in(home: &Path) -> PathBuf {
        home.join("guest")
    }

    /// The stamp's file inside the cache `home`.
    #[must_use]
    pub fn stamp_in(home: &Path) -> PathBuf {
        home.join("guest.stamp")
    }

    /// The one of this machine.
    ///
    /// # Errors
    /// It was not built, or was built for something else; the message has the cure.
    pub fn find() -> Result<Self, LabError> {
        Self::find_in(Lab::home())
    }

    /// The one in the cache `home`.
    ///
    /// # Errors
    /// As [`Guest::find`].
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

    /// A command that runs `program` in the root, as [`Lab::command`] does in the peers'.
    #[must_use]
    pub fn command(&self, folder: &Path, program: &str) -> Command {
        enter(&self.root, folder, program)
    }
}
