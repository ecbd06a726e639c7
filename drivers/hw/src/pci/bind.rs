//! Giving a device to a driver, and back.

use std::io;
use std::path::PathBuf;

use super::{Bdf, Device, Pci, PciError, Use};
use crate::vfio::Support;

/// The kernel's driver that gives a device to a process.
const VFIO_PCI: &str = "vfio-pci";

/// Why a device was not given to a driver.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// It cannot be looked at.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// It is in use.
    #[error("{bdf} is in use: {}", join(uses))]
    InUse {
        /// The device.
        bdf: Bdf,
        /// What it is used for.
        uses: Vec<Use>,
    },
    /// Whether it is in use cannot be found out.
    #[error("{bdf}: whether it is in use cannot be found out")]
    Unknown {
        /// The device.
        bdf: Bdf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The driver is not loaded.
    #[error("the driver {driver} is not loaded")]
    NoDriver {
        /// The driver.
        driver: String,
    },
    /// No IOMMU translates for it, and VFIO without one is off: `vfio-pci` would refuse it.
    #[error("{bdf} has no IOMMU group")]
    NoIommu {
        /// The device.
        bdf: Bdf,
    },
    /// This user may not.
    #[error("{bdf}: no permission to write {}", file.display())]
    Denied {
        /// The device.
        bdf: Bdf,
        /// The file that was to be written.
        file: PathBuf,
    },
    /// The kernel refused a step.
    #[error("{bdf}: cannot write {}", file.display())]
    Kernel {
        /// The device.
        bdf: Bdf,
        /// The file that was to be written.
        file: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Every step was done, and yet another driver holds the device, or none.
    #[error("{bdf} went to {} and not to {wanted}", found.as_deref().unwrap_or("no driver"))]
    Elsewhere {
        /// The device.
        bdf: Bdf,
        /// The driver it was meant for.
        wanted: String,
        /// The driver that has it now.
        found: Option<String>,
    },
}

impl BindError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Pci(error) => error.remedy(),
            Self::InUse { bdf, uses } => {
                let cures: Vec<String> = uses.iter().map(|found| found.remedy(*bdf)).collect();
                Some(cures.join("; "))
            }
            Self::NoDriver { driver } => Some(format!("load it: modprobe {driver}")),
            Self::NoIommu { bdf } => Some(no_iommu_remedy(*bdf)),
            Self::Denied { .. } => Some("run as root: sudo rgen …".into()),
            Self::Elsewhere { wanted, .. } => {
                Some(format!("see what {wanted} said of it: dmesg | tail"))
            }
            Self::Unknown { .. } | Self::Kernel { .. } => None,
        }
    }
}

/// How to get an IOMMU, or to do without.
pub(crate) fn no_iommu_remedy(bdf: Bdf) -> String {
    format!(
        "turn the IOMMU on (VT-d or AMD-Vi in the firmware, intel_iommu=on on the kernel's \
         command line); or, without protection: echo 1 > \
         /sys/module/vfio/parameters/enable_unsafe_noiommu_mode; then rgen bind {bdf}"
    )
}

fn join(uses: &[Use]) -> String {
    let words: Vec<String> = uses.iter().map(ToString::to_string).collect();
    words.join("; ")
}

/// What a bind changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The device.
    pub bdf: Bdf,
    /// The driver that had it before.
    pub before: Option<String>,
    /// The driver that has it now.
    pub now: Option<String>,
}

impl Pci {
    /// Gives a device to `vfio-pci`. One that already is there stays as it is.
    ///
    /// # Errors
    /// It is in use ([`Use`] says how), `vfio-pci` is not loaded, or this user may not.
    pub fn bind_to_vfio(&self, bdf: Bdf) -> Result<Binding, BindError> {
        let device = self.device(bdf)?;
        if device.driver.as_deref() == Some(VFIO_PCI) {
            return Ok(Binding {
                bdf,
                before: device.driver.clone(),
                now: device.driver,
            });
        }
        self.refuse_used(&device)?;
        self.need_driver(VFIO_PCI)?;
        if device.iommu_group.is_none() && Support::gather(self.root()).no_iommu != Some(true) {
            return Err(BindError::NoIommu { bdf });
        }
        let before = device.driver.clone();
        if let Err(error) = self.move_to(&device, VFIO_PCI) {
            // Better with its old driver than with none.
            self.give_back(bdf, before.as_deref());
            return Err(error);
        }
        Ok(Binding {
            bdf,
            before,
            now: Some(VFIO_PCI.into()),
        })
    }

    /// Gives a device back to the driver that it had: `before`, or the one that the kernel
    /// picks.
    ///
    /// # Errors
    /// A process still drives it, or this user may not.
    pub fn unbind(&self, bdf: Bdf, before: Option<&str>) -> Result<Binding, BindError> {
        let device = self.device(bdf)?;
        self.refuse_used(&device)?;
        if let Some(driver) = before {
            self.need_driver(driver)?;
        }
        self.detach(&device)?;
        self.put(bdf, self.dir(bdf).join("driver_override"), "\n")?;
        self.probe(bdf)?;
        let mut now = self.device(bdf)?.driver;
        if let Some(wanted) = before
            && now.as_deref() != Some(wanted)
        {
            self.move_to(&self.device(bdf)?, wanted)?;
            self.put(bdf, self.dir(bdf).join("driver_override"), "\n")?;
            now = Some(wanted.into());
        }
        Ok(Binding {
            bdf,
            before: device.driver,
            now,
        })
    }

    /// Brings a device back to where it was before `binding`: to its driver, or to none.
    ///
    /// # Errors
    /// As for [`Pci::unbind`].
    pub fn undo(&self, binding: &Binding) -> Result<(), BindError> {
        let &Binding { bdf, .. } = binding;
        if binding.before == binding.now {
            return Ok(());
        }
        if let Some(before) = &binding.before {
            self.unbind(bdf, Some(before))?;
            return Ok(());
        }
        // It had no driver, and the kernel is not asked to pick one.
        let device = self.device(bdf)?;
        self.refuse_used(&device)?;
        self.detach(&device)?;
        self.put(bdf, self.dir(bdf).join("driver_override"), "\n")
    }

    fn refuse_used(&self, device: &Device) -> Result<(), BindError> {
        let bdf = device.bdf;
        let uses = self
            .uses(device)
            .map_err(|source| BindError::Unknown { bdf, source })?;
        if uses.is_empty() {
            Ok(())
        } else {
            Err(BindError::InUse { bdf, uses })
        }
    }

    fn need_driver(&self, driver: &str) -> Result<(), BindError> {
        let dir = self.root().join("sys/bus/pci/drivers").join(driver);
        if dir.is_dir() {
            Ok(())
        } else {
            Err(BindError::NoDriver {
                driver: driver.into(),
            })
        }
    }

    /// Takes the device from its driver and lets the kernel offer it to `driver` alone.
    fn move_to(&self, device: &Device, driver: &str) -> Result<(), BindError> {
        let bdf = device.bdf;
        // First the override, so that no other driver snatches it in between.
        self.put(bdf, self.dir(bdf).join("driver_override"), driver)?;
        self.detach(device)?;
        self.probe(bdf)?;
        let found = self.device(bdf)?.driver;
        if found.as_deref() == Some(driver) {
            Ok(())
        } else {
            Err(BindError::Elsewhere {
                bdf,
                wanted: driver.into(),
                found,
            })
        }
    }

    fn detach(&self, device: &Device) -> Result<(), BindError> {
        let Some(driver) = &device.driver else {
            return Ok(());
        };
        let dir = self.root().join("sys/bus/pci/drivers").join(driver);
        self.put(device.bdf, dir.join("unbind"), &device.bdf.to_string())
    }

    fn probe(&self, bdf: Bdf) -> Result<(), BindError> {
        let file = self.root().join("sys/bus/pci/drivers_probe");
        self.put(bdf, file, &bdf.to_string())
    }

    /// Undoes a bind that failed half-way, as far as it goes.
    fn give_back(&self, bdf: Bdf, before: Option<&str>) {
        let _ = self.put(bdf, self.dir(bdf).join("driver_override"), "\n");
        let now = self.device(bdf).ok().and_then(|device| device.driver);
        if before.is_some() && now.is_none() {
            let _ = self.probe(bdf);
        }
    }

    fn put(&self, bdf: Bdf, file: PathBuf, words: &str) -> Result<(), BindError> {
        match (self.write)(&file, words) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(BindError::Denied { bdf, file })
            }
            Err(source) => Err(BindError::Kernel { bdf, file, source }),
        }
    }
}
