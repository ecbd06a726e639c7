//! What this machine has of VFIO, without opening anything: evidence for `rgen doctor`.

use std::path::Path;

use crate::pci::{names, text};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// `/dev/vfio/vfio`: containers.
    pub containers: bool,
    /// `/dev/iommu`: iommufd.
    pub iommufd: bool,
    /// The driver that gives PCI devices away is loaded.
    pub vfio_pci: bool,
    /// IOMMU groups; none where the IOMMU is off or absent. Stand-ins for VFIO without an IOMMU
    /// are none.
    pub iommu_groups: usize,
    /// Devices may be driven without an IOMMU. None where the kernel cannot do that at all.
    pub no_iommu: Option<bool>,
    /// How many areas a process may map (type 1's `dma_entry_limit`).
    pub entry_limit: Option<u64>,
}

impl Support {
    /// Looks at this machine, whose file system begins at `root` (`/`).
    #[must_use]
    pub fn gather(root: &Path) -> Self {
        let parameter = |path: &str| text(&root.join("sys/module").join(path));
        Self {
            containers: root.join("dev/vfio/vfio").exists(),
            iommufd: root.join("dev/iommu").exists(),
            vfio_pci: root.join("sys/bus/pci/drivers/vfio-pci").is_dir(),
            iommu_groups: iommu_groups(root),
            no_iommu: parameter("vfio/parameters/enable_unsafe_noiommu_mode")
                .map(|value| value == "Y"),
            entry_limit: parameter("vfio_iommu_type1/parameters/dma_entry_limit")
                .and_then(|value| value.parse().ok()),
        }
    }

    /// What to do so that a device can be driven; none if nothing is in the way.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        if !self.vfio_pci {
            Some("modprobe vfio-pci".into())
        } else if !self.containers && !self.iommufd {
            Some("modprobe vfio".into())
        } else if self.iommu_groups == 0 && self.no_iommu != Some(true) {
            Some(
                "turn the IOMMU on: VT-d or AMD-Vi in the firmware, intel_iommu=on on the \
                 kernel's command line"
                    .into(),
            )
        } else {
            None
        }
    }
}

/// Groups that an IOMMU made. One that `vfio-pci` made for a device without says so in its name
/// (Linux `drivers/vfio/group.c`).
fn iommu_groups(root: &Path) -> usize {
    let dir = root.join("sys/kernel/iommu_groups");
    let is_real = |group: &String| {
        text(&dir.join(group).join("name")).is_none_or(|name| name != "vfio-noiommu")
    };
    names(&dir).filter(is_real).count()
}
