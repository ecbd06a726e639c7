//! A device as data.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pci_ids::FromId;

use super::{Bdf, Pci, link_name, names, text};

/// Why a device cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PciError {
    /// There is no PCI bus in sysfs.
    #[error("no PCI bus is visible in /sys")]
    NoBus {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There is no device at that address.
    #[error("there is no PCI device {bdf}")]
    Absent {
        /// The address.
        bdf: Bdf,
    },
}

impl PciError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::NoBus { .. } => {
                Some("mount sysfs: mount -t sysfs sysfs /sys (a container may hide it)".into())
            }
            Self::Absent { .. } => Some("list what is there: rgen ports".into()),
        }
    }
}

/// A device, as it was when it was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Where it is.
    pub bdf: Bdf,
    /// Vendor.
    pub vendor_id: u16,
    /// Device.
    pub device_id: u16,
    /// Subsystem vendor and device.
    pub subsystem: (u16, u16),
    /// Class, subclass and programming interface, a byte each: `0x020000` is Ethernet.
    pub class: u32,
    /// Revision.
    pub revision: u8,
    /// The driver that holds it.
    pub driver: Option<String>,
    /// The only driver that it may be given to.
    pub driver_override: Option<String>,
    /// Its IOMMU group; none where no IOMMU translates for it.
    pub iommu_group: Option<u32>,
    /// True if the group is only a stand-in, for VFIO without an IOMMU.
    pub no_iommu: bool,
    /// NUMA node.
    pub node: Option<u32>,
    /// Network interfaces that its kernel driver made.
    pub netdevs: Vec<String>,
    /// Its PCI Express link.
    pub link: Option<PcieLink>,
    /// The physical function that it is a virtual function of.
    pub physfn: Option<Bdf>,
    /// Its virtual functions.
    pub virtfns: Vec<Bdf>,
    /// How many virtual functions it can have; 0 for a device without SR-IOV.
    pub max_virtfns: u32,
    /// Its character device `/dev/vfio/devices/NAME`, while `vfio-pci` holds it.
    pub vfio_device: Option<String>,
}

impl Device {
    /// True for a network device (class 02h).
    #[must_use]
    pub fn is_network(&self) -> bool {
        self.class >> 16 == 2
    }

    /// True for a bridge (class 06h), which does not make its IOMMU group unusable.
    #[must_use]
    pub fn is_bridge(&self) -> bool {
        self.class >> 16 == 6
    }

    /// Its maker's name, from the PCI id list.
    #[must_use]
    pub fn vendor_name(&self) -> Option<&'static str> {
        pci_ids::Vendor::from_id(self.vendor_id).map(pci_ids::Vendor::name)
    }

    /// Its name, from the PCI id list.
    #[must_use]
    pub fn device_name(&self) -> Option<&'static str> {
        pci_ids::Device::from_vid_pid(self.vendor_id, self.device_id).map(pci_ids::Device::name)
    }

    /// Maker and name, or the numbers where the list has none.
    #[must_use]
    pub fn name(&self) -> String {
        let vendor = self
            .vendor_name()
            .map_or_else(|| format!("vendor {:04x}", self.vendor_id), Into::into);
        let device = self
            .device_name()
            .map_or_else(|| format!("device {:04x}", self.device_id), Into::into);
        format!("{vendor} {device}")
    }
}

/// A PCI Express link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PcieLink {
    /// Transfers a second on each lane, in 10⁹ (8.0 for the third generation).
    pub gt_per_s: f64,
    /// Lanes.
    pub width: u32,
    /// The speed that the device could do.
    pub max_gt_per_s: f64,
    /// The lanes that the device has.
    pub max_width: u32,
}

impl PcieLink {
    /// What it carries each way, in Gbit/s, after line coding (8b/10b to the second generation,
    /// 128b/130b from the third on) and before packet overhead, which takes a fifth or more of
    /// small frames.
    #[must_use]
    pub fn gbps(&self) -> f64 {
        let coding = if self.gt_per_s <= 5.0 {
            8.0 / 10.0
        } else {
            128.0 / 130.0
        };
        self.gt_per_s * coding * f64::from(self.width)
    }

    /// True if it came up slower or narrower than the device can.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.gt_per_s < self.max_gt_per_s || self.width < self.max_width
    }
}

impl Pci {
    /// The device at `bdf`.
    ///
    /// # Errors
    /// There is none.
    pub fn device(&self, bdf: Bdf) -> Result<Device, PciError> {
        let dir = self.dir(bdf);
        let absent = || PciError::Absent { bdf };
        let id = |file: &str| hex16(&dir.join(file));
        let physfn = link_name(&dir.join("physfn")).and_then(|name| name.parse().ok());
        let group = link_name(&dir.join("iommu_group")).and_then(|name| name.parse().ok());
        Ok(Device {
            bdf,
            vendor_id: id("vendor").ok_or_else(absent)?,
            device_id: id("device").ok_or_else(absent)?,
            subsystem: (
                id("subsystem_vendor").unwrap_or(0),
                id("subsystem_device").unwrap_or(0),
            ),
            class: hex(&dir.join("class")).unwrap_or(0),
            revision: hex(&dir.join("revision"))
                .and_then(|n| n.try_into().ok())
                .unwrap_or(0),
            driver: link_name(&dir.join("driver")),
            driver_override: text(&dir.join("driver_override"))
                .filter(|name| !name.is_empty() && name != "(null)"),
            iommu_group: group,
            no_iommu: text(&dir.join("iommu_group/name")).is_some_and(|n| n == "vfio-noiommu"),
            // The kernel says -1 for "unknown".
            node: text(&dir.join("numa_node")).and_then(|node| node.parse().ok()),
            netdevs: netdevs(&dir),
            link: link(&dir),
            physfn,
            virtfns: virtfns(&dir),
            max_virtfns: number(&dir.join("sriov_totalvfs")).unwrap_or(0),
            vfio_device: names(&dir.join("vfio-dev")).find(|name| name.starts_with("vfio")),
        })
    }
}

/// The network interfaces of the device at `dir`, by name: its own, and those of devices that its
/// driver made of it, as `virtio-pci` makes a `virtio2` with the interface below.
fn netdevs(dir: &Path) -> Vec<String> {
    let children = names(dir).map(|name| dir.join(name));
    let is_folder = |child: &std::path::PathBuf| {
        // Links lead to other devices: the bus's, the IOMMU's, functions of the same device.
        child.symlink_metadata().is_ok_and(|found| found.is_dir())
    };
    let below = children.filter(is_folder).map(|child| child.join("net"));
    let mut found: Vec<String> = below
        .chain([dir.join("net")])
        .flat_map(|net| names(&net))
        .collect();
    found.sort_unstable();
    found
}

/// The virtual functions, by number: links `virtfn0`, `virtfn1`, …
pub(super) fn virtfns(dir: &Path) -> Vec<Bdf> {
    let mut found: Vec<(u32, Bdf)> = names(dir)
        .filter_map(|name| {
            let number = name.strip_prefix("virtfn")?.parse().ok()?;
            Some((number, link_name(&dir.join(&name))?.parse().ok()?))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, bdf)| bdf).collect()
}

fn link(dir: &Path) -> Option<PcieLink> {
    // "8.0 GT/s PCIe"; "Unknown" for virtual functions.
    let speed = |file: &str| {
        let text = text(&dir.join(file))?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let link = PcieLink {
        gt_per_s: speed("current_link_speed")?,
        width: number(&dir.join("current_link_width"))?,
        max_gt_per_s: speed("max_link_speed")?,
        max_width: number(&dir.join("max_link_width"))?,
    };
    (link.width > 0).then_some(link)
}

pub(super) fn number(file: &Path) -> Option<u32> {
    text(file)?.parse().ok()
}

fn hex(file: &Path) -> Option<u32> {
    u32::from_str_radix(text(file)?.strip_prefix("0x")?, 16).ok()
}

fn hex16(file: &Path) -> Option<u16> {
    hex(file)?.try_into().ok()
}

/// A device's configuration space, as sysfs shows it. Little endian.
#[derive(Debug)]
pub struct ConfigFile(File);

impl ConfigFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let writable = fs::OpenOptions::new().read(true).write(true).open(path);
        Ok(Self(writable.or_else(|_| File::open(path))?))
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// The offset is past what this user may see (64 bytes without `CAP_SYS_ADMIN`).
    pub fn read8(&self, offset: u16) -> io::Result<u8> {
        Ok(self.read::<1>(offset)?[0])
    }

    /// Reads two bytes.
    ///
    /// # Errors
    /// As for [`ConfigFile::read8`].
    pub fn read16(&self, offset: u16) -> io::Result<u16> {
        Ok(u16::from_le_bytes(self.read(offset)?))
    }

    /// Reads four bytes.
    ///
    /// # Errors
    /// As for [`ConfigFile::read8`].
    pub fn read32(&self, offset: u16) -> io::Result<u32> {
        Ok(u32::from_le_bytes(self.read(offset)?))
    }

    /// Writes two bytes.
    ///
    /// # Errors
    /// This user may not write it.
    pub fn write16(&self, offset: u16, value: u16) -> io::Result<()> {
        self.0.write_all_at(&value.to_le_bytes(), offset.into())
    }

    /// Writes four bytes.
    ///
    /// # Errors
    /// This user may not write it.
    pub fn write32(&self, offset: u16, value: u32) -> io::Result<()> {
        self.0.write_all_at(&value.to_le_bytes(), offset.into())
    }

    fn read<const N: usize>(&self, offset: u16) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, offset.into())?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn interfaces_of_devices_below_the_function_are_its_own() {
        let root = std::env::temp_dir().join(format!("rgen-netdevs-{}", std::process::id()));
        let device = root.join("device");
        for folder in [
            "device/net/eth1",
            "device/virtio2/net/eth0",
            "other/net/eth9",
        ] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("other"), device.join("virtfn0")).unwrap();
        assert_eq!(netdevs(&device), ["eth0", "eth1"]);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
