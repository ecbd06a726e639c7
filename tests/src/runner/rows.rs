//! What the conformance suite is run on: one row for each kind of port. A new device is one line
//! here.

/// A kind of port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The family of drivers, as `--driver` names it.
    pub driver: &'static str,
    /// What sets this one apart from others of the family.
    pub name: &'static str,
    /// Where the ports are.
    pub place: Place,
}

/// Where the two ports of a row are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Models in this process: the port string of each end.
    Sim(&'static str),
    /// QEMU's devices in a guest.
    Lab {
        /// QEMU's device and its properties.
        device: &'static str,
        /// Options of the port string, such as `,packed=on`.
        options: &'static str,
        /// Pairs of queues, where a wire of the host's kernel joins them; 0 for one inside QEMU,
        /// which has one pair and leaves no checksum to the other end.
        tapped: u8,
    },
}

const fn sim(driver: &'static str, name: &'static str, port: &'static str) -> Row {
    Row {
        driver,
        name,
        place: Place::Sim(port),
    }
}

const fn lab(
    driver: &'static str,
    name: &'static str,
    device: &'static str,
    options: &'static str,
) -> Row {
    Row {
        driver,
        name,
        place: Place::Lab {
            device,
            options,
            tapped: 0,
        },
    }
}

/// The same over taps, with that many pairs of queues.
const fn tapped(row: Row, tapped: u8) -> Row {
    match row.place {
        Place::Lab {
            device, options, ..
        } => Row {
            place: Place::Lab {
                device,
                options,
                tapped,
            },
            ..row
        },
        Place::Sim(_) => row,
    }
}

/// Every row there is. QEMU's virtio devices keep to the IOMMU only with `iommu_platform=on`,
/// which they have only without the legacy interface.
pub const ROWS: &[Row] = &[
    sim("virtio", "split", "sim:virtio,packed=off"),
    sim("virtio", "packed", "sim:virtio,packed=on"),
    sim("virtio", "four pairs", "sim:virtio,queues=4"),
    sim("virtio", "legacy", "sim:virtio,legacy=on"),
    sim("e1000", "82540EM", "sim:e1000"),
    sim("e1000e", "82574L", "sim:e1000e"),
    sim("igb", "82576", "sim:igb"),
    sim("igbvf", "82576 VF", "sim:igbvf"),
    sim("ixgbe", "82599", "sim:ixgbe"),
    sim("ixgbe", "X540", "sim:ixgbe,device=x540"),
    sim("ixgbe", "X550", "sim:ixgbe,device=x550"),
    sim("ixgbevf", "82599 VF", "sim:ixgbevf,host_mtu=9710,trust=on"),
    sim("ixgbevf", "X540 VF", "sim:ixgbevf,device=x540,trust=on"),
    sim("ixgbevf", "X550 VF", "sim:ixgbevf,device=x550,trust=on"),
    sim("vmxnet3", "revision 4", "sim:vmxnet3"),
    sim("vmxnet3", "revision 1", "sim:vmxnet3,revision=1"),
    lab(
        "virtio",
        "split",
        "virtio-net-pci,iommu_platform=on,disable-legacy=on",
        "",
    ),
    lab(
        "virtio",
        "packed",
        "virtio-net-pci,iommu_platform=on,disable-legacy=on,packed=on",
        ",packed=on",
    ),
    lab(
        "virtio",
        "packed, in order",
        "virtio-net-pci,iommu_platform=on,disable-legacy=on,packed=on,in_order=on",
        ",packed=on,in_order=on",
    ),
    lab(
        "virtio",
        "split, bare",
        "virtio-net-pci,iommu_platform=on,disable-legacy=on,mrg_rxbuf=off,indirect_desc=off,\
         event_idx=off,ctrl_vq=off,csum=off,guest_csum=off,status=off",
        "",
    ),
    lab("e1000", "82540EM", "e1000", ""),
    lab("e1000", "82545EM", "e1000-82545em", ""),
    lab("e1000e", "82574L", "e1000e", ""),
    lab("igb", "82576", "igb", ""),
    lab("vmxnet3", "revision 1", "vmxnet3", ""),
    lab("vmxnet3", "data ring", "vmxnet3", ",data_ring=on"),
];

/// QEMU's virtio-net with several pairs of queues and a checksum for the host to complete, which a
/// hub does not have: over taps and a bridge, that is, over the host's kernel, which holds frames
/// back that one check sent and gives them to the next.
pub const TAPPED: &[Row] = &[
    tapped(
        lab(
            "virtio",
            "split, four pairs",
            "virtio-net-pci,iommu_platform=on,disable-legacy=on,mq=on,vectors=10",
            ",queues=4",
        ),
        4,
    ),
    tapped(
        lab(
            "virtio",
            "packed, two pairs",
            "virtio-net-pci,iommu_platform=on,disable-legacy=on,packed=on,mq=on,vectors=6",
            ",packed=on,queues=2",
        ),
        2,
    ),
    tapped(
        lab(
            "virtio",
            "split, RSS and hashes",
            "virtio-net-pci,iommu_platform=on,disable-legacy=on,mq=on,vectors=10,rss=on,hash=on",
            ",queues=4",
        ),
        4,
    ),
    tapped(
        lab(
            "virtio",
            "packed, RSS",
            "virtio-net-pci,iommu_platform=on,disable-legacy=on,packed=on,mq=on,vectors=6,rss=on",
            ",packed=on,queues=2",
        ),
        2,
    ),
];

/// The families that there are.
#[must_use]
pub fn drivers() -> Vec<&'static str> {
    let mut names: Vec<&str> = ROWS.iter().map(|row| row.driver).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    names
}

impl Row {
    /// Family and name, for people.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} ({})", self.driver, self.name)
    }

    /// True if its ports are models.
    #[must_use]
    pub fn is_sim(&self) -> bool {
        matches!(self.place, Place::Sim(_))
    }
}
