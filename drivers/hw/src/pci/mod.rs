//! PCI devices as the kernel shows them in sysfs.
//!
//! [`Pci`] stands for one machine's bus, or for a tree of files that looks like one (tests). It
//! enumerates [`Device`]s as plain data, tells what uses a network device ([`Use`]), gives
//! devices to `vfio-pci` and back, makes virtual functions, and reaches a VF's physical function
//! for the one thing that a VF cannot do itself: raise the MTU.
//!
//! Sources: Linux `Documentation/ABI/testing/sysfs-bus-pci`, `Documentation/PCI/pci-iov-howto.rst`.

mod bdf;
mod bind;
mod device;
mod mtu;
mod note;
mod sriov;
mod usage;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod test;

pub use bdf::{Bdf, NotBdf};
pub(crate) use bind::no_iommu_remedy;
pub use bind::{BindError, Binding};
pub use device::{ConfigFile, Device, PciError, PcieLink};
pub use mtu::{MtuError, RaisedMtu};
pub use sriov::{SriovError, VfPlace};
pub use usage::{Use, interface_addresses};

use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The PCI bus of a machine.
#[derive(Clone)]
pub struct Pci {
    root: PathBuf,
    addresses: Option<Vec<(String, IpAddr)>>,
    write: Arc<Write>,
}

/// What writes a word to a file of sysfs, which makes the kernel do something.
type Write = dyn Fn(&Path, &str) -> io::Result<()> + Send + Sync;

impl Pci {
    /// This machine's.
    #[must_use]
    pub fn host() -> Self {
        Self {
            root: PathBuf::from("/"),
            addresses: None,
            write: Arc::new(write),
        }
    }

    /// The one whose `/sys` and `/proc` lie under `root`, and whose network interfaces have
    /// `addresses`. What is written there stays what was written: no kernel reads it, unless
    /// [`Pci::with_kernel`] gives one.
    #[must_use]
    pub fn at(root: &Path, addresses: Vec<(String, IpAddr)>) -> Self {
        Self {
            root: root.to_owned(),
            addresses: Some(addresses),
            write: Arc::new(write),
        }
    }

    /// Lets `kernel` do what writing a word to a file of sysfs does: for tests of what follows.
    #[must_use]
    pub fn with_kernel(
        mut self,
        kernel: impl Fn(&Path, &str) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.write = Arc::new(kernel);
        self
    }

    /// The directory that everything lies under: `/` on a real machine.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every device, in the order of addresses.
    ///
    /// # Errors
    /// There is no PCI bus in sysfs.
    pub fn devices(&self) -> Result<Vec<Device>, PciError> {
        let dir = self.root.join("sys/bus/pci/devices");
        let entries = fs::read_dir(&dir).map_err(|source| PciError::NoBus { source })?;
        let mut found: Vec<Bdf> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        found.sort_unstable();
        // A device that goes while we look is not there.
        Ok(found
            .into_iter()
            .filter_map(|bdf| self.device(bdf).ok())
            .collect())
    }

    /// Every network device (class 02h), in the order of addresses.
    ///
    /// # Errors
    /// As for [`Pci::devices`].
    pub fn network_devices(&self) -> Result<Vec<Device>, PciError> {
        let mut devices = self.devices()?;
        devices.retain(Device::is_network);
        Ok(devices)
    }

    /// The devices of IOMMU group `group`, which one process must own together.
    #[must_use]
    pub fn group_members(&self, group: u32) -> Vec<Bdf> {
        let dir = self
            .root
            .join(format!("sys/kernel/iommu_groups/{group}/devices"));
        let mut members: Vec<Bdf> = names(&dir).filter_map(|name| name.parse().ok()).collect();
        members.sort_unstable();
        members
    }

    /// Resets a device the way its kernel driver does not have to know of: function-level reset
    /// where there is one, else what the platform has.
    ///
    /// # Errors
    /// No way to reset it is known (no `reset` file), or it failed.
    pub fn reset(&self, bdf: Bdf) -> io::Result<()> {
        (self.write)(&self.dir(bdf).join("reset"), "1")
    }

    /// Its configuration space.
    ///
    /// # Errors
    /// The device is not there, or may not be opened.
    pub fn config(&self, bdf: Bdf) -> io::Result<ConfigFile> {
        ConfigFile::open(&self.dir(bdf).join("config"))
    }

    pub(crate) fn dir(&self, bdf: Bdf) -> PathBuf {
        self.root.join(format!("sys/bus/pci/devices/{bdf}"))
    }
}

/// Writes `words` to a file that is there: sysfs makes none.
fn write(file: &Path, words: &str) -> io::Result<()> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(file)?;
    file.write_all(words.as_bytes())
}

impl fmt::Debug for Pci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pci({})", self.root.display())
    }
}

/// Names in a directory, if it is there.
pub(crate) fn names(dir: &Path) -> impl Iterator<Item = String> + use<> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
}

/// A file's text without the line's end; none where it cannot be read.
pub(crate) fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

/// The last part of where a link leads.
pub(crate) fn link_name(link: &Path) -> Option<String> {
    let target = fs::read_link(link).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}
