//! Virtual functions.

use std::io;

use super::device::{number, virtfns};
use super::{Bdf, Pci, link_name, names};

/// Why the number of virtual functions was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SriovError {
    /// The device cannot have any.
    #[error("{bdf} has no SR-IOV")]
    None {
        /// The device.
        bdf: Bdf,
    },
    /// It cannot have that many.
    #[error("{bdf} can have {most} virtual functions, not {asked}")]
    TooMany {
        /// The device.
        bdf: Bdf,
        /// How many were asked for.
        asked: u32,
        /// How many it can have.
        most: u32,
    },
    /// This user may not.
    #[error("{bdf}: no permission to change the number of virtual functions")]
    Denied {
        /// The device.
        bdf: Bdf,
    },
    /// Its driver does not offer it.
    #[error("{bdf}: its driver ({}) makes no virtual functions", driver.as_deref().unwrap_or("none"))]
    Driver {
        /// The device.
        bdf: Bdf,
        /// The driver that has it.
        driver: Option<String>,
    },
    /// The kernel refused.
    #[error("{bdf}: the kernel made no {asked} virtual functions")]
    Kernel {
        /// The device.
        bdf: Bdf,
        /// How many were asked for.
        asked: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl SriovError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::None { .. } => {
                Some("enable SR-IOV in the firmware setup, if the card has it".into())
            }
            Self::TooMany { bdf, most, .. } => {
                Some(format!("ask for {most} at most ({bdf}/sriov_totalvfs)"))
            }
            Self::Denied { .. } => Some("run as root".into()),
            Self::Driver { driver, .. } if driver.as_deref() == Some("vfio-pci") => {
                Some("echo 1 > /sys/module/vfio_pci/parameters/enable_sriov".into())
            }
            Self::Driver { bdf, .. } => Some(format!(
                "give it to its kernel driver first: rgen unbind {bdf}"
            )),
            Self::Kernel { .. } => Some("see what the driver said: dmesg | tail".into()),
        }
    }
}

/// A virtual function as commands on its host name it: `ip link set dev eth7 vf 3 …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VfPlace {
    /// The physical function's network interface.
    pub interface: String,
    /// Which of its virtual functions this is.
    pub number: u32,
}

impl Pci {
    /// How commands on this host name VF `bdf`; none where its physical function, or that one's
    /// network interface, is out of sight.
    #[must_use]
    pub fn vf_place(&self, bdf: Bdf) -> Option<VfPlace> {
        let physfn: Bdf = link_name(&self.dir(bdf).join("physfn"))?.parse().ok()?;
        let dir = self.dir(physfn);
        let interface = names(&dir.join("net")).min()?;
        let number = names(&dir).find_map(|name| {
            let number = name.strip_prefix("virtfn")?.parse().ok()?;
            let vf: Bdf = link_name(&dir.join(&name))?.parse().ok()?;
            (vf == bdf).then_some(number)
        })?;
        Some(VfPlace { interface, number })
    }

    /// How many virtual functions a device has now.
    #[must_use]
    pub fn virtfn_count(&self, bdf: Bdf) -> u32 {
        number(&self.dir(bdf).join("sriov_numvfs")).unwrap_or(0)
    }

    /// Gives a device `count` virtual functions, and says which. Those it had before are
    /// destroyed, unless it has that many already.
    ///
    /// # Errors
    /// The device or its driver cannot, or this user may not.
    pub fn set_virtfns(&self, bdf: Bdf, count: u32) -> Result<Vec<Bdf>, SriovError> {
        let dir = self.dir(bdf);
        let most = number(&dir.join("sriov_totalvfs")).ok_or(SriovError::None { bdf })?;
        if count > most {
            return Err(SriovError::TooMany {
                bdf,
                asked: count,
                most,
            });
        }
        let now = self.virtfn_count(bdf);
        if now != count {
            // The kernel goes from one number to another only by way of none.
            if now > 0 {
                self.write_virtfns(bdf, 0)?;
            }
            if count > 0 {
                self.write_virtfns(bdf, count)?;
            }
        }
        Ok(virtfns(&dir))
    }

    fn write_virtfns(&self, bdf: Bdf, count: u32) -> Result<(), SriovError> {
        let file = self.dir(bdf).join("sriov_numvfs");
        (self.write)(&file, &count.to_string()).map_err(|source| match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => SriovError::Denied { bdf },
            Some(libc::ENOENT | libc::EOPNOTSUPP) => SriovError::Driver {
                bdf,
                driver: self.device(bdf).ok().and_then(|device| device.driver),
            },
            _ => SriovError::Kernel {
                bdf,
                asked: count,
                source,
            },
        })
    }
}
