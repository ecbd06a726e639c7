//! What a guest boots when Linux's own drivers are the judges: a kernel with them, and the tools
//! that go with it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::lab::{Lab, LabError};

/// Which kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kernel {
    /// Debian's release.
    #[default]
    Stable,
    /// Its backports: a year or two newer.
    Newer,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Stable, Self::Newer];

    /// How a user names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Newer => "newer",
        }
    }

    /// The Debian release that it comes from.
    #[must_use]
    pub const fn release(self) -> &'static str {
        match self {
            Self::Stable => "trixie",
            Self::Newer => "trixie-backports",
        }
    }

    /// What the root has to hold: the first line of the stamp. The number goes up with what is in
    /// it: modules, tools, the first program.
    #[must_use]
    pub fn contents(self) -> String {
        format!(
            "{} linux-image-amd64, ethtool iproute2 iputils-ping, version 1",
            self.release()
        )
    }
}

/// A kernel, and the archive that a guest starts from.
#[derive(Debug, Clone)]
pub struct System {
    pub(super) root: PathBuf,
}

impl System {
    /// The kernel's modules that it holds, with all that they depend on.
    pub const MODULES: &[&str] = &[
        "vfio-pci",
        "vfio_iommu_type1",
        "virtio_pci",
        "virtio_net",
        "e1000",
        "e1000e",
        "igb",
        "igbvf",
        "ixgbe",
        "ixgbevf",
        "i40e",
        "iavf",
        "vmxnet3",
        "8021q",
    ];

    /// Its tools, under `/tools`.
    pub const TOOLS: &[&str] = &["ethtool", "ip", "ping"];

    /// The root's folder inside the cache `home`.
    #[must_use]
    pub fn root_in(home: &Path, kernel: Kernel) -> PathBuf {
        home.join(format!("referee-{}", kernel.name()))
    }

    /// The stamp's file inside the cache `home`.
    #[must_use]
    pub fn stamp_in(home: &Path, kernel: Kernel) -> PathBuf {
        home.join(format!("referee-{}.stamp", kernel.name()))
    }

    /// The one of this machine.
    ///
    /// # Errors
    /// It was not built, or was built for something else; the message has the cure.
    pub fn find(kernel: Kernel) -> Result<Self, LabError> {
        Self::find_in(Lab::home(), kernel)
    }

    /// The one in the cache `home`.
    ///
    /// # Errors
    /// As [`System::find`].
    pub fn find_in(home: PathBuf, kernel: Kernel) -> Result<Self, LabError> {
        let Ok(stamp) = fs::read_to_string(Self::stamp_in(&home, kernel)) else {
            return Err(LabError::NotBuilt { home });
        };
        let found = stamp.lines().next().unwrap_or_default().to_owned();
        if found != kernel.contents() {
            return Err(LabError::Outdated { home, found });
        }
        Ok(Self {
            root: Self::root_in(&home, kernel),
        })
    }

    /// The kernel's version, as it calls itself.
    #[must_use]
    pub fn version(&self) -> String {
        let text = fs::read_to_string(self.root.join("boot/rgen-kernel.version"));
        text.map_or_else(
            |_| "unknown".to_owned(),
            |text| text.trim().trim_start_matches("linux ").to_owned(),
        )
    }

    /// Where the kernel lies.
    #[must_use]
    pub fn kernel(&self) -> PathBuf {
        self.root.join("boot/rgen-kernel")
    }

    /// Where the archive lies.
    #[must_use]
    pub fn base(&self) -> PathBuf {
        self.root.join("boot/rgen-base.cpio")
    }
}
