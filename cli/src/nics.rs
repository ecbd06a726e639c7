//! NICs of this machine: what each is, who has it, and whether rgen drives it.

use serde::Serialize;

use hw::pci::{Device, Pci, PciError};

use crate::host::Host;

/// A NIC.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Nic {
    /// Its port string.
    pub(crate) port: String,
    /// Maker and name.
    pub(crate) device: String,
    /// Vendor and device id.
    pub(crate) pci_id: String,
    /// The kernel driver that has it: `vfio-pci` for one that rgen may open.
    pub(crate) kernel_driver: Option<String>,
    /// Network interfaces that the kernel made of it.
    pub(crate) interfaces: Vec<String>,
    /// What it is used for now: reasons not to take it away.
    pub(crate) in_use: Vec<String>,
    /// NUMA node.
    pub(crate) numa_node: Option<u32>,
    /// IOMMU group.
    pub(crate) iommu_group: Option<u32>,
    /// Link as the kernel sees it: `up 10G`, `down`; none once it left the kernel.
    pub(crate) link: Option<String>,
    /// PCI Express link: `8.0 GT/s x8`.
    pub(crate) pcie: Option<String>,
    /// It came up slower or narrower than the device can.
    pub(crate) pcie_degraded: bool,
    /// The PCI address of the physical function that it belongs to.
    pub(crate) physical_function: Option<String>,
    /// The family of drivers that it belongs to, if rgen knows it.
    pub(crate) family: Option<&'static str>,
    /// Whether this version drives it.
    pub(crate) supported: bool,
}

impl Nic {
    /// Whether `vfio-pci` has it.
    pub(crate) fn is_bound(&self) -> bool {
        self.kernel_driver.as_deref() == Some("vfio-pci")
    }
}

/// Every NIC, in the order of PCI addresses.
pub(crate) fn list(host: &Host) -> Result<Vec<Nic>, PciError> {
    let pci = host.pci();
    let devices = pci.network_devices()?;
    Ok(devices
        .iter()
        .map(|device| look_at(host, &pci, device))
        .collect())
}

fn look_at(host: &Host, pci: &Pci, device: &Device) -> Nic {
    let family = Family::of(device.vendor_id, device.device_id);
    let in_use = match pci.uses(device) {
        Ok(uses) => uses.iter().map(ToString::to_string).collect(),
        Err(error) => vec![format!("whether it is used cannot be found out: {error}")],
    };
    Nic {
        port: device.bdf.to_string(),
        device: device.name(),
        pci_id: format!("{:04x}:{:04x}", device.vendor_id, device.device_id),
        kernel_driver: device.driver.clone(),
        interfaces: device.netdevs.clone(),
        in_use,
        numa_node: device.node,
        iommu_group: device.iommu_group,
        link: device.netdevs.first().and_then(|name| link(host, name)),
        pcie: device
            .link
            .map(|link| format!("{:.1} GT/s x{}", link.gt_per_s, link.width)),
        pcie_degraded: device.link.is_some_and(|link| link.is_degraded()),
        physical_function: device.physfn.map(|bdf| bdf.to_string()),
        family: family.map(|family| family.name),
        supported: catalog::supports(device.vendor_id, device.device_id),
    }
}

/// The link of a kernel interface; its speed is in Mbit/s, and -1 or an error where unknown.
fn link(host: &Host, interface: &str) -> Option<String> {
    let folder = format!("sys/class/net/{interface}");
    let state = host.read(&format!("{folder}/operstate"))?;
    let speed = host
        .read(&format!("{folder}/speed"))
        .and_then(|speed| speed.parse::<u64>().ok());
    Some(match speed {
        Some(mbps) if state == "up" && mbps >= 1000 => format!("up {}G", mbps / 1000),
        Some(mbps) if state == "up" => format!("up {mbps}M"),
        _ => state,
    })
}

/// A family of NICs with one driver.
#[derive(Debug, PartialEq)]
struct Family {
    name: &'static str,
    vendor: u16,
    devices: &'static [u16],
}

impl Family {
    fn of(vendor: u16, device: u16) -> Option<&'static Self> {
        FAMILIES
            .iter()
            .find(|family| family.vendor == vendor && family.devices.contains(&device))
    }
}

/// The NICs that rgen drives or is going to (ids from the PCI id list), by family.
const FAMILIES: &[Family] = &[
    Family {
        name: "virtio",
        vendor: 0x1af4,
        devices: &[0x1000, 0x1041],
    },
    Family {
        name: "e1000",
        vendor: 0x8086,
        devices: &[0x100e, 0x100f, 0x10d3, 0x10c9, 0x10ca, 0x1521, 0x1520],
    },
    Family {
        name: "vmxnet3",
        vendor: 0x15ad,
        devices: &[0x07b0],
    },
    Family {
        name: "ixgbe",
        vendor: 0x8086,
        devices: &[
            0x10fb, 0x10ed, 0x1528, 0x1515, 0x1560, 0x1563, 0x1565, 0x15d1, 0x154d, 0x1558,
        ],
    },
    Family {
        name: "i40e",
        vendor: 0x8086,
        devices: &[
            0x1572, 0x1583, 0x1584, 0x158a, 0x158b, 0x154c, 0x1889, 0x37d0, 0x37cd, 0x37d1, 0x37d2,
        ],
    },
    Family {
        name: "mlx5",
        vendor: 0x15b3,
        devices: &[
            0x1013, 0x1014, 0x1015, 0x1016, 0x1017, 0x1018, 0x1019, 0x101a, 0x101b, 0x101d, 0x101e,
            0x101f, 0x1021,
        ],
    },
];

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_nic_is_told_from_one_that_is_not_driven_yet() {
        let family = |vendor, device| Family::of(vendor, device).map(|family| family.name);
        assert_eq!(family(0x1af4, 0x1041), Some("virtio"));
        assert_eq!(family(0x8086, 0x10fb), Some("ixgbe"));
        assert_eq!(family(0x10ec, 0x8139), None);
        assert_eq!(family(0x1af4, 0x1042), None, "a virtio disk");
        assert!(catalog::supports(0x1af4, 0x1041));
    }
}
