//! The ways that VFIO has, and how a guest is brought to go one.

use peers::{Guest, Machine, System};

/// How devices reach a process in a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By groups in a container.
    Container,
    /// By iommufd, each device by a file of its own.
    Iommufd,
    /// By a container that no IOMMU stands behind.
    NoIommu,
}

/// Where a guest's jobs run: what it boots, and how devices are reached there.
#[derive(Debug, Clone)]
pub struct Ground {
    /// QEMU, and Debian's kernel.
    pub guest: Guest,
    /// Another kernel.
    pub system: Option<System>,
    /// How devices are reached.
    pub way: Way,
}

impl Ground {
    /// Debian's kernel, whose VFIO has groups and containers and nothing else.
    #[must_use]
    pub fn debian(guest: Guest) -> Self {
        Self {
            guest,
            system: None,
            way: Way::Container,
        }
    }

    /// A machine for it, without NICs yet.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let machine = Machine::default();
        Machine {
            address_bits: match self.way {
                Way::NoIommu => 0,
                Way::Container | Way::Iommufd => machine.address_bits,
            },
            system: self.system.clone(),
            pages_2m: 160,
            ..machine
        }
    }

    /// What a job's script begins with, so that rgen goes this way and no other.
    #[must_use]
    pub fn prelude(&self) -> &'static str {
        match self.way {
            Way::Container => "",
            // Iommufd is taken where there are no containers: some machines have none, and some
            // give their guests none.
            Way::Iommufd => "rm /dev/vfio/vfio || exit 9\n",
            Way::NoIommu => {
                "echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode || exit 9\n"
            }
        }
    }
}
