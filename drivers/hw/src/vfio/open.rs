//! Opening a device: which way, in which order, and what is wrong if it fails.

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::container::{Container, Group, open_error};
use super::device::Device;
use super::error::OpenError;
use super::ioas::{self, Ioas};
use super::kernel::{Kernel, Linux, Node};
use super::{Space, Token, VfioFunction};
use crate::holders::holders_of;
use crate::pci::{self, Bdf, Pci};

/// How to reach a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Way {
    /// By a container where there is one, else by iommufd.
    #[default]
    Any,
    /// By a container.
    Container,
    /// By iommufd.
    Iommufd,
}

/// How to open a device.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// How to reach it.
    pub way: Way,
    /// The token for a virtual function whose physical function another process drives, or the
    /// one that a physical function whose VFs are in use was given before.
    pub token: Option<Token>,
}

/// A process's share of VFIO: the devices it opens have their DMA spaces in common.
#[derive(Clone)]
pub struct Vfio(Arc<Shared>);

struct Shared {
    kernel: Arc<dyn Kernel>,
    pci: Pci,
    spaces: Mutex<Spaces>,
}

#[derive(Default)]
struct Spaces {
    containers: Vec<Weak<Container>>,
    ioases: Vec<Weak<Ioas>>,
}

impl Vfio {
    /// This process's share.
    #[must_use]
    pub fn host() -> Self {
        static HOST: OnceLock<Vfio> = OnceLock::new();
        HOST.get_or_init(|| Self::with(Arc::new(Linux), Pci::host()))
            .clone()
    }

    pub(super) fn with(kernel: Arc<dyn Kernel>, pci: Pci) -> Self {
        Self(Arc::new(Shared {
            kernel,
            pci,
            spaces: Mutex::default(),
        }))
    }

    /// The bus that the devices are on.
    #[must_use]
    pub fn pci(&self) -> &Pci {
        &self.0.pci
    }

    /// Opens the device at `bdf`, which must be bound to `vfio-pci`. A second device shares the
    /// first one's DMA space if the kernel lets it.
    ///
    /// # Errors
    /// What is in the way, and how to clear it.
    pub fn open(&self, bdf: Bdf, options: &Options) -> Result<VfioFunction, OpenError> {
        let found = self.0.pci.device(bdf)?;
        if found.iommu_group.is_none() {
            return Err(OpenError::NoIommu { bdf });
        }
        if !found.driver.as_deref().is_some_and(is_vfio) {
            let driver = found.driver;
            return Err(OpenError::Bound { bdf, driver });
        }
        let mut spaces = self.0.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        spaces.containers.retain(|space| space.strong_count() > 0);
        spaces.ioases.retain(|space| space.strong_count() > 0);
        let opening = Opening {
            shared: &self.0,
            bdf,
            found: &found,
            token: options.token,
        };
        match options.way {
            Way::Container => opening.by_container(&mut spaces.containers),
            Way::Iommufd => opening.by_iommufd(&mut spaces.ioases),
            Way::Any => match opening.by_container(&mut spaces.containers) {
                Err(OpenError::NoVfio { .. }) if found.vfio_device.is_some() => {
                    opening.by_iommufd(&mut spaces.ioases)
                }
                other => other,
            },
        }
    }
}

/// `vfio-pci`, and the variants that makers add to it (`mlx5_vfio_pci`).
fn is_vfio(driver: &str) -> bool {
    driver.replace('_', "-").ends_with("vfio-pci")
}

/// One device on its way.
struct Opening<'a> {
    shared: &'a Shared,
    bdf: Bdf,
    found: &'a pci::Device,
    token: Option<Token>,
}

impl Opening<'_> {
    fn dev(&self, path: &str) -> PathBuf {
        self.shared.pci.root().join("dev").join(path)
    }

    fn failed(&self, step: &'static str) -> impl FnOnce(io::Error) -> OpenError + use<> {
        let bdf = self.bdf;
        move |source| OpenError::Kernel { bdf, step, source }
    }

    /// Who has the device, by whichever of its files: a group cannot be opened while its device
    /// is open by its own file, and the other way round.
    fn busy(&self, path: &Path) -> OpenError {
        let pci = &self.shared.pci;
        OpenError::Busy {
            bdf: self.bdf,
            path: path.to_owned(),
            holders: holders_of(pci.root(), &pci.vfio_nodes(self.found)),
        }
    }

    fn by_container(
        &self,
        containers: &mut Vec<Weak<Container>>,
    ) -> Result<VfioFunction, OpenError> {
        let number = self
            .found
            .iommu_group
            .ok_or(OpenError::NoIommu { bdf: self.bdf })?;
        let container = self.container_with(number, containers)?;
        let mut name = self.bdf.to_string();
        if let Some(token) = self.token {
            name += &format!(" vf_token={token}");
        }
        let name = CString::new(name).expect("an address and a token have no zero bytes");
        let node = container
            .open_device(number, &name)
            .map_err(|source| self.device_error(source))?;
        let device = Device::new(node).map_err(self.failed("looking at the device"))?;
        let space = Space::Container(container);
        let function = VfioFunction::new(self.bdf, &self.shared.pci, device, space);
        if function.is_unprotected() {
            tracing::warn!(
                "{}: no IOMMU stands before it: it can overwrite any memory of this machine",
                self.bdf
            );
        }
        Ok(function)
    }

    /// The container that holds group `number`: the one that has it, else one that will take
    /// it, else a new one.
    fn container_with(
        &self,
        number: u32,
        containers: &mut Vec<Weak<Container>>,
    ) -> Result<Arc<Container>, OpenError> {
        let no_iommu = self.found.no_iommu;
        let alive = || containers.iter().filter_map(Weak::upgrade);
        if let Some(container) = alive().find(|container| container.holds(number)) {
            return Ok(container);
        }
        // The container first: where VFIO is missing, that is what is said.
        let kernel = &self.shared.kernel;
        let path = self.dev("vfio/vfio");
        let fresh = Container::open(kernel, &path, self.bdf, no_iommu)?;
        let mut group = self.open_group(number)?;
        for container in alive().filter(|container| container.is_no_iommu() == no_iommu) {
            match container.take_in(group) {
                Ok(()) => return Ok(container),
                Err((back, error)) => {
                    tracing::info!("{} gets a container of its own: {error}", self.bdf);
                    group = back;
                }
            }
        }
        fresh
            .take_in(group)
            .map_err(|(_, source)| match source.raw_os_error() {
                Some(libc::EPERM) if !no_iommu => OpenError::InterruptRemapping { bdf: self.bdf },
                Some(libc::EPERM) => OpenError::RawIo { bdf: self.bdf },
                Some(libc::EBUSY) => self.busy(&self.group_path(number)),
                _ => self.failed("joining a container")(source),
            })?;
        let container = Arc::new(fresh);
        containers.push(Arc::downgrade(&container));
        Ok(container)
    }

    fn group_path(&self, number: u32) -> PathBuf {
        let prefix = if self.found.no_iommu { "noiommu-" } else { "" };
        self.dev(&format!("vfio/{prefix}{number}"))
    }

    fn open_group(&self, number: u32) -> Result<Group, OpenError> {
        let path = self.group_path(number);
        let kernel = &*self.shared.kernel;
        let group = Group::open(kernel, &path, number, self.bdf, || self.busy(&path))?;
        if group
            .is_viable()
            .map_err(self.failed("asking for the group's state"))?
        {
            Ok(group)
        } else {
            Err(OpenError::NotViable {
                bdf: self.bdf,
                group: number,
                mates: self.mates(number),
            })
        }
    }

    /// The devices of the group that keep it from being used: those that a kernel driver holds,
    /// bridges and stubs apart.
    fn mates(&self, group: u32) -> Vec<(Bdf, String)> {
        let pci = &self.shared.pci;
        let members = pci.group_members(group).into_iter();
        let devices = members.filter_map(|bdf| pci.device(bdf).ok());
        devices
            .filter(|device| device.bdf != self.bdf && !device.is_bridge())
            .filter_map(|device| Some((device.bdf, device.driver?)))
            .filter(|(_, driver)| !is_vfio(driver) && driver != "pci-stub")
            .collect()
    }

    /// What a refusal to give out the device means (Linux `vfio_pci_core.c`, VF tokens).
    fn device_error(&self, source: io::Error) -> OpenError {
        let (bdf, given) = (self.bdf, self.token.is_some());
        match source.raw_os_error() {
            Some(libc::EACCES) => OpenError::Token { bdf, given },
            Some(libc::EINVAL) if given => OpenError::TokenUnwanted { bdf },
            _ => self.failed("opening the device")(source),
        }
    }

    /// What a refusal to bind the device to an iommufd means (Linux 6.12
    /// `drivers/vfio/device_cdev.c`, `vfio_main.c`, `drivers/iommu/iommufd/device.c`). A device
    /// whose group is open is busy; one that is open by its own file already is an invalid
    /// argument, and so is a token that nobody asked for.
    fn bind_error(&self, path: &Path, source: io::Error) -> OpenError {
        let bdf = self.bdf;
        match source.raw_os_error() {
            Some(libc::EBUSY) => self.busy(path),
            Some(libc::EINVAL) => match self.busy(path) {
                OpenError::Busy { holders, .. } if self.token.is_some() && holders.is_empty() => {
                    OpenError::TokenUnwanted { bdf }
                }
                busy => busy,
            },
            Some(libc::EPERM) => {
                let group = self.found.iommu_group.unwrap_or_default();
                let mates = self.mates(group);
                if mates.is_empty() {
                    OpenError::InterruptRemapping { bdf }
                } else {
                    OpenError::NotViable { bdf, group, mates }
                }
            }
            _ => self.device_error(source),
        }
    }

    fn by_iommufd(&self, ioases: &mut Vec<Weak<Ioas>>) -> Result<VfioFunction, OpenError> {
        let name = self.found.vfio_device.as_ref();
        let name = name.ok_or(OpenError::Unsupported {
            what: "file of its own for the device (CONFIG_VFIO_DEVICE_CDEV)",
        })?;
        let kernel = &self.shared.kernel;
        let path = self.dev(&format!("vfio/devices/{name}"));
        let node = kernel
            .open(&path)
            .map_err(|source| open_error(&path, self.bdf, source))?;
        let alive: Vec<Arc<Ioas>> = ioases.iter().filter_map(Weak::upgrade).collect();
        let iommufd: Arc<dyn Node> = match alive.first() {
            Some(ioas) => Arc::clone(ioas.node()),
            None => {
                let path = self.dev("iommu");
                let opened = kernel.open(&path);
                opened
                    .map_err(|source| open_error(&path, self.bdf, source))?
                    .into()
            }
        };
        if let Err(source) = ioas::bind(&*node, &*iommufd, self.token) {
            // Closed first, or we would be among those who hold it.
            drop(node);
            return Err(self.bind_error(&path, source));
        }
        let ioas = match alive.into_iter().find(|ioas| ioas.attach(&*node).is_ok()) {
            Some(ioas) => ioas,
            None => {
                let made = Ioas::new(kernel, iommufd);
                let ioas = Arc::new(made.map_err(self.failed("making an address space"))?);
                ioas.attach(&*node)
                    .map_err(self.failed("attaching it to an address space"))?;
                ioases.push(Arc::downgrade(&ioas));
                ioas
            }
        };
        let device = Device::new(node).map_err(self.failed("looking at the device"))?;
        let space = Space::Ioas(ioas);
        Ok(VfioFunction::new(self.bdf, &self.shared.pci, device, space))
    }
}
