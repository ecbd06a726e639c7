//! PCI functions that the kernel gives to a process: VFIO.
//!
//! [`Vfio::open`] opens a device that is bound to `vfio-pci` ([`Pci::bind_to_vfio`]), by
//! whichever way the kernel has:
//!
//! - a *container* that IOMMU groups join (type 1 version 2), the usual one;
//! - *iommufd*, by the device's own file, where there are no containers;
//! - a container *without an IOMMU*, where the administrator allowed it: the device then uses
//!   physical addresses, and can write anywhere.
//!
//! All devices of a process share one DMA space if the kernel lets them, so that memory is
//! mapped once. What is opened is a [`Function`]; its registers are a [`VfioBar`].
//!
//! ## Bus mastering
//! A device is opened with its windows on and bus mastering off. The kernel resets it then, if it
//! can, and does not say whether it could: what the device last did for somebody else may still
//! be in its queues. A driver resets its device and then turns mastering on
//! ([`crate::function::set_bus_master`]). Dropping the function turns it off again before
//! anything else goes, so that no DMA happens after.
//!
//! Sources: Linux `include/uapi/linux/{vfio,iommufd}.h`, `Documentation/driver-api/vfio.rst`.

mod bar;
mod container;
mod device;
mod error;
mod info;
mod interrupt;
mod ioas;
mod kernel;
mod open;
mod pinned;
mod support;
mod token;

#[cfg(test)]
mod mock;
#[cfg(test)]
mod test;

pub use bar::VfioBar;
pub use error::OpenError;
pub use interrupt::{InterruptKind, Interrupts};
pub use open::{Options, Vfio, Way};
pub use support::Support;
pub use token::{NotToken, Token};

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use hugemem::DmaSpace;

use crate::function::{BarError, COMMAND, Function, command, set_bus_master};
use crate::pci::{Bdf, MtuError, Pci, RaisedMtu, VfPlace};
use container::Container;
use device::Device;
use ioas::Ioas;

/// A PCI function that this process drives through VFIO.
pub struct VfioFunction {
    name: String,
    bdf: Bdf,
    pci: Pci,
    numa_node: Option<u32>,
    bars: [OnceLock<VfioBar>; 6],
    device: Arc<Device>,
    // Last, so that it goes after the device.
    space: Space,
}

/// Where the function's DMA lands.
enum Space {
    Container(Arc<Container>),
    Ioas(Arc<Ioas>),
}

impl VfioFunction {
    fn new(bdf: Bdf, pci: &Pci, device: Device, space: Space) -> Self {
        let function = Self {
            name: bdf.to_string(),
            bdf,
            pci: pci.clone(),
            numa_node: pci.device(bdf).ok().and_then(|device| device.node),
            bars: Default::default(),
            device: Arc::new(device),
            space,
        };
        function.open_windows();
        function
    }

    /// Turns register windows on and bus mastering off.
    fn open_windows(&self) {
        let was = self.config16(COMMAND);
        let wanted = (was | command::IO | command::MEMORY) & !command::MASTER;
        if was != u16::MAX && was != wanted {
            self.set_config16(COMMAND, wanted);
        }
    }

    /// Where it is.
    #[must_use]
    pub fn bdf(&self) -> Bdf {
        self.bdf
    }

    /// True if no IOMMU keeps the device to what is mapped for it.
    #[must_use]
    pub fn is_unprotected(&self) -> bool {
        matches!(&self.space, Space::Container(container) if container.is_no_iommu())
    }

    /// How many interrupts of `kind` it has.
    ///
    /// # Errors
    /// The device is gone.
    pub fn interrupt_count(&self, kind: InterruptKind) -> io::Result<u32> {
        Ok(self.device.irq_info(kind.index())?.0)
    }

    /// Turns `count` interrupts of `kind` on.
    ///
    /// # Errors
    /// It has not that many, or the kernel refused.
    pub fn interrupts(&self, kind: InterruptKind, count: u32) -> io::Result<Interrupts> {
        Interrupts::enable(Arc::clone(&self.device), kind, count)
    }

    /// Sets the token that whoever drives a virtual function of this one must give.
    ///
    /// # Errors
    /// The function has no VFs that VFIO could give away.
    pub fn set_vf_token(&self, token: Token) -> io::Result<()> {
        self.device.set_vf_token(token.0)
    }

    /// Resets the bus or slot that it is on, with every device there. All of them must be this
    /// process's.
    ///
    /// # Errors
    /// One is somebody else's (the error names it), or the kernel refused.
    pub fn hot_reset(&self) -> io::Result<()> {
        let dependents = self.device.dependents()?;
        match &self.space {
            Space::Container(container) => {
                let files = container.group_files();
                let mut needed = Vec::new();
                for dependent in dependents {
                    let owned = files.iter().find(|(group, _)| *group == dependent.owner);
                    let &(_, file) = owned.ok_or_else(|| {
                        io::Error::other(format!(
                            "{} would be reset too, and is not this process's",
                            dependent.bdf
                        ))
                    })?;
                    if !needed.contains(&file) {
                        needed.push(file);
                    }
                }
                self.device.hot_reset(&needed)
            }
            // The kernel knows itself what an iommufd owns.
            Space::Ioas(_) => self.device.hot_reset(&[]),
        }
    }

    fn make_bar(&self, index: u8) -> Result<VfioBar, BarError> {
        let failed = |source| BarError::Map { index, source };
        let region = self.device.region(index).map_err(failed)?;
        if region.size == 0 {
            return Err(BarError::Absent { index });
        }
        let device = Arc::clone(&self.device);
        match region.mappable.as_slice() {
            [] => Ok(VfioBar::by_calls(device, region)),
            &[(0, size)] if size == region.size => {
                let map = device.map(&region, 0, size).map_err(failed)?;
                Ok(VfioBar::mapped(map))
            }
            areas => {
                let mut maps = Vec::new();
                for &(at, len) in areas {
                    let first = u32::try_from(at).map_err(|e| failed(io::Error::other(e)))?;
                    maps.push((first, device.map(&region, at, len).map_err(failed)?));
                }
                Ok(VfioBar::sparse(maps, device, region))
            }
        }
    }
}

impl Function for VfioFunction {
    type Bar = VfioBar;

    fn name(&self) -> &str {
        &self.name
    }

    fn config8(&self, offset: u16) -> u8 {
        u8::from_le_bytes(self.device.config(offset))
    }

    fn config16(&self, offset: u16) -> u16 {
        u16::from_le_bytes(self.device.config(offset))
    }

    fn config32(&self, offset: u16) -> u32 {
        u32::from_le_bytes(self.device.config(offset))
    }

    fn set_config16(&self, offset: u16, value: u16) {
        if let Err(error) = self.device.set_config16(offset, value) {
            tracing::warn!("{}: configuration at {offset:#x}: {error}", self.bdf);
        }
    }

    fn bar(&self, index: u8) -> Result<VfioBar, BarError> {
        let place = self
            .bars
            .get(usize::from(index))
            .ok_or(BarError::Absent { index })?;
        if let Some(bar) = place.get() {
            return Ok(bar.clone());
        }
        let bar = self.make_bar(index)?;
        Ok(place.get_or_init(|| bar).clone())
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        match &self.space {
            Space::Container(container) => Arc::clone(container) as Arc<dyn DmaSpace>,
            Space::Ioas(ioas) => Arc::clone(ioas) as Arc<dyn DmaSpace>,
        }
    }

    /// By the device's own reset, else by resetting its bus if all on it is this process's. The
    /// kernel saves and restores configuration space around it; windows are on afterwards and
    /// bus mastering is off.
    fn reset(&self) -> io::Result<()> {
        set_bus_master(self, false);
        let done = if self.device.can_reset {
            self.device.reset().or_else(|_| self.hot_reset())
        } else {
            self.hot_reset()
        };
        self.open_windows();
        done
    }

    fn is_behind_iommu(&self) -> bool {
        !self.is_unprotected()
    }

    fn raise_pf_mtu(&self, mtu: u32) -> Result<Option<RaisedMtu>, MtuError> {
        self.pci.raise_pf_mtu(self.bdf, mtu)
    }

    fn vf_place(&self) -> Option<VfPlace> {
        self.pci.vf_place(self.bdf)
    }

    fn numa_node(&self) -> Option<u32> {
        self.numa_node
    }
}

impl Drop for VfioFunction {
    /// No DMA from here on, whatever still holds a window, a ring or memory.
    fn drop(&mut self) {
        set_bus_master(self, false);
    }
}

impl fmt::Debug for VfioFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VfioFunction({})", self.name)
    }
}
