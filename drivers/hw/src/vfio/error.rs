//! Why a device cannot be driven, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::holders::Holder;
use crate::pci::{Bdf, PciError, no_iommu_remedy};

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is not there.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// Another driver holds it, or none.
    #[error("{bdf} is bound to {}, not to vfio-pci", driver.as_deref().unwrap_or("no driver"))]
    Bound {
        /// The device.
        bdf: Bdf,
        /// Who holds it.
        driver: Option<String>,
    },
    /// No IOMMU translates for it, and VFIO without one is off.
    #[error("{bdf} has no IOMMU group")]
    NoIommu {
        /// The device.
        bdf: Bdf,
    },
    /// The kernel has no VFIO, or it is not loaded.
    #[error("{} does not exist", path.display())]
    NoVfio {
        /// The file that is missing.
        path: PathBuf,
    },
    /// This user may not open it.
    #[error("no permission to open {}", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
    },
    /// Driving a device without an IOMMU needs a privilege.
    #[error("{bdf}: without an IOMMU only CAP_SYS_RAWIO may drive a device")]
    RawIo {
        /// The device.
        bdf: Bdf,
    },
    /// The kernel's VFIO is another.
    #[error("the kernel's VFIO has no {what}")]
    Unsupported {
        /// What it lacks.
        what: &'static str,
    },
    /// Somebody else drives it, or a device of its group.
    #[error("{bdf}: {} is in use{}", path.display(), Holders(holders))]
    Busy {
        /// The device.
        bdf: Bdf,
        /// The group's or the device's file.
        path: PathBuf,
        /// The processes that hold it, as far as this user may see.
        holders: Vec<Holder>,
    },
    /// Devices of its IOMMU group belong to kernel drivers.
    #[error("{bdf}: its IOMMU group {group} is shared with {}", Mates(mates))]
    NotViable {
        /// The device.
        bdf: Bdf,
        /// The group.
        group: u32,
        /// The others, and who holds each.
        mates: Vec<(Bdf, String)>,
    },
    /// The machine does not isolate interrupts.
    #[error("{bdf}: the machine cannot keep the device from forging interrupts")]
    InterruptRemapping {
        /// The device.
        bdf: Bdf,
    },
    /// A token is needed, or another one.
    #[error("{bdf}: {}", if *given { "the VF token is not the physical function's" } else { "a VF token is needed" })]
    Token {
        /// The device.
        bdf: Bdf,
        /// Whether one was given.
        given: bool,
    },
    /// A token was given, and nobody asked for one.
    #[error("{bdf}: a VF token was given, but the physical function's driver is not vfio-pci")]
    TokenUnwanted {
        /// The device.
        bdf: Bdf,
    },
    /// The kernel refused a step.
    #[error("{bdf}: {step} failed")]
    Kernel {
        /// The device.
        bdf: Bdf,
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::Pci(error) => return error.remedy(),
            Self::Bound { bdf, .. } => format!("rgen bind {bdf}"),
            Self::NoIommu { bdf } => no_iommu_remedy(*bdf),
            Self::NoVfio { .. } => "load it: modprobe vfio-pci".into(),
            Self::Denied { path } => format!("run as root, or: chown $USER {}", path.display()),
            Self::RawIo { .. } => "run as root".into(),
            Self::Unsupported { .. } => {
                "a kernel with VFIO type 1 (CONFIG_VFIO_IOMMU_TYPE1)".into()
            }
            Self::Busy { holders, path, .. } => match holders.first() {
                Some(holder) => format!("end it: kill {}", holder.pid),
                None => format!("see who holds it: sudo fuser -v {}", path.display()),
            },
            Self::NotViable { mates, .. } => {
                let mates: Vec<String> = mates.iter().map(|(bdf, _)| bdf.to_string()).collect();
                format!(
                    "give the whole group to vfio-pci: rgen bind {}",
                    mates.join(" ")
                )
            }
            Self::InterruptRemapping { .. } => {
                "turn interrupt remapping on in the firmware; or, without protection: echo 1 > \
                 /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts (by iommufd: \
                 /sys/module/iommufd/parameters/allow_unsafe_interrupts)"
                    .into()
            }
            Self::Token { bdf, .. } => {
                format!(
                    "give the token that the owner of the physical function set: {bdf},token=UUID"
                )
            }
            Self::TokenUnwanted { bdf } => format!("leave the token away: {bdf}"),
            Self::Kernel { .. } => return None,
        })
    }
}

struct Holders<'a>(&'a [Holder]);

impl fmt::Display for Holders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, holder) in self.0.iter().enumerate() {
            write!(f, "{}{holder}", if n == 0 { " by " } else { ", " })?;
        }
        Ok(())
    }
}

struct Mates<'a>(&'a [(Bdf, String)]);

impl fmt::Display for Mates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (bdf, driver)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{bdf} (held by {driver})")?;
        }
        Ok(())
    }
}
