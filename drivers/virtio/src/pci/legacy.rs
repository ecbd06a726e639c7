//! The interface of the drafts before the standard: registers in the first BAR (§4.1.4.10).

use std::sync::Arc;

use hugemem::DmaSpace;
use hw::function::capabilities;
use hw::{Bar, Function};
use port::PortError;

use crate::doorbell::Doorbell;
use crate::error::OpenError;
use crate::features::Features;
use crate::pci::modern::read_net;
use crate::pci::window::Window;
use crate::pci::{await_reset, identify, keeps_to_iommu, set_command};
use crate::regs::{Status, capability, legacy, pci};
use crate::ring::RingMemory;
use crate::transport::{Health, NetConfig, Patience, Plan, Progress, Transport};

/// A device with the drafts' interface.
pub(crate) struct Legacy<F: Function> {
    function: F,
    ids: (u16, u16),
    bar: F::Bar,
    offered: Features,
    /// Slots of each ring.
    sizes: Vec<u16>,
}

/// Most rings that the driver looks at.
const RINGS: u16 = 1024;

impl<F: Function> Legacy<F> {
    /// The device behind `function`, reset, and its features read.
    pub(crate) fn open(function: F) -> Result<Self, OpenError> {
        let ids = identify(&function)?;
        let port = function.name().to_owned();
        let bar = function.bar(0).map_err(|source| OpenError::Bar {
            port: port.clone(),
            source,
        })?;
        if bar.len() < u64::from(legacy::CONFIG) + 6 {
            let what = format!("its register window has {} bytes only", bar.len());
            return Err(OpenError::Broken { port, what });
        }
        let mut device = Self {
            function,
            ids,
            bar,
            offered: Features::empty(),
            sizes: Vec::new(),
        };
        let not_open = |error: PortError| match error {
            PortError::Gone { port } => OpenError::Gone { port },
            error => OpenError::Broken {
                port: port.clone(),
                what: error.to_string(),
            },
        };
        device.reset().map_err(not_open)?;
        let bits = u64::from(device.bar.read(legacy::DEVICE_FEATURES));
        device.offered = Features::from_bits_truncate(bits).sound();
        keeps_to_iommu(&device.function, device.offered)?;
        if !device.offered.contains(Features::ANY_LAYOUT) {
            // The header would need a descriptor of its own (§5.1.6.6); devices older than 2013.
            return Err(OpenError::NotOffered {
                port,
                what: "ANY_LAYOUT".into(),
            });
        }
        device.sizes = device.survey().map_err(not_open)?;
        Ok(device)
    }

    /// Slots of every ring, as they are once the device knows its features: which rings there are
    /// follows from those, as for a device of the standard.
    fn survey(&self) -> Result<Vec<u16>, PortError> {
        self.negotiate(self.offered & Features::ALWAYS)?;
        let sizes = (0..RINGS).map(|ring| self.size(ring));
        let sizes = sizes.take_while(|&slots| slots > 0).collect();
        self.reset()?;
        Ok(sizes)
    }

    /// Acknowledges the device, and tells it its features; its status then.
    fn negotiate(&self, features: Features) -> Result<Status, PortError> {
        let bits = u32::try_from(features.bits())
            .map_err(|_| self.broken("features beyond the drafts'".into()))?;
        let status = Status::ACKNOWLEDGE;
        self.bar.write(legacy::DEVICE_STATUS, status);
        let status = status | Status::DRIVER;
        self.bar.write(legacy::DEVICE_STATUS, status);
        self.bar.write(legacy::DRIVER_FEATURES, bits);
        Ok(status)
    }

    fn reset(&self) -> Result<(), PortError> {
        self.bar.write(legacy::DEVICE_STATUS, Status::empty());
        await_reset(self.function.name(), || {
            self.bar.read(legacy::DEVICE_STATUS)
        })
    }

    fn size(&self, ring: u16) -> u16 {
        self.bar.write(legacy::QUEUE_SELECT, ring);
        self.bar.read(legacy::QUEUE_SIZE)
    }

    fn status(&self) -> Result<Status, PortError> {
        match self.bar.read(legacy::DEVICE_STATUS) {
            Status::GONE => Err(PortError::Gone {
                port: self.function.name().to_owned(),
            }),
            status => Ok(status),
        }
    }

    fn broken(&self, what: String) -> PortError {
        PortError::Broken {
            port: self.function.name().to_owned(),
            what,
        }
    }

    /// The device's configuration lies behind the MSI-X registers where those are in use.
    fn window(&self) -> Option<Window<F::Bar>> {
        const ENABLED: u16 = 1 << 15;
        let msix = capabilities(&self.function).any(|(id, at)| {
            id == capability::MSIX
                && self.function.config16(at + capability::MSIX_CONTROL) & ENABLED != 0
        });
        let base = if msix {
            legacy::CONFIG_MSIX
        } else {
            legacy::CONFIG
        };
        let len = u32::try_from(self.bar.len())
            .unwrap_or(u32::MAX)
            .checked_sub(base)?;
        Window::new(self.bar.clone(), base, len)
    }

    /// Gives the device a ring: by the number of its first page (§4.1.5.1.3.1).
    fn set_up(&self, ring: u16, memory: &RingMemory) -> Result<(), PortError> {
        let size = self.size(ring);
        if usize::from(size) != memory.geometry.slots {
            return Err(self.broken(format!("ring {ring} has {size} slots all of a sudden")));
        }
        let page = memory.desc.iova().get() >> legacy::PAGE_SHIFT;
        let page = u32::try_from(page)
            .map_err(|_| self.broken(format!("ring {ring} is beyond the device's addresses")))?;
        self.bar.write(legacy::QUEUE_ADDRESS, page);
        Ok(())
    }
}

impl<F: Function> Transport for Legacy<F> {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn device(&self) -> String {
        "virtio-net (legacy PCI)".into()
    }

    fn pci(&self) -> Option<(u16, u16)> {
        Some(self.ids)
    }

    fn node(&self) -> Option<u32> {
        self.function.numa_node()
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        self.function.space()
    }

    fn offered(&self) -> Features {
        self.offered
    }

    fn slots(&self, ring: u16) -> usize {
        let size = self.sizes.get(usize::from(ring));
        size.map_or(0, |&size| usize::from(size))
    }

    fn is_legacy(&self) -> bool {
        true
    }

    fn config(&mut self) -> Result<NetConfig, PortError> {
        const TRIES: usize = 1000;
        self.status()?;
        let window = self
            .window()
            .ok_or_else(|| self.broken("no configuration".into()))?;
        // There is no generation: two equal readings must do (§2.5.4).
        let mut last = None;
        for _ in 0..TRIES {
            let config = read_net(&window, self.offered);
            if last == Some(config) {
                return Ok(config);
            }
            last = Some(config);
        }
        Err(self.broken("the configuration changes faster than it can be read".into()))
    }

    fn bring_up(&mut self, plan: &Plan, _patience: Patience) -> Result<Progress, PortError> {
        self.reset()?;
        let status = self.negotiate(plan.features)?;
        set_command(&self.function, pci::COMMAND_MASTER, true);
        for (ring, memory) in &plan.rings {
            self.set_up(*ring, memory)?;
        }
        self.bar
            .write(legacy::DEVICE_STATUS, status | Status::DRIVER_OK);
        self.status()?;
        Ok(Progress::Running)
    }

    fn doorbell(&self, ring: u16) -> Arc<dyn Doorbell> {
        Arc::new(Register {
            bar: self.bar.clone(),
            ring,
        })
    }

    fn check(&mut self) -> Result<Health, PortError> {
        let status = self.status()?;
        if status.contains(Status::NEEDS_RESET) {
            return Ok(Health::Lost("the device asks for a reset".into()));
        }
        Ok(Health::Fine)
    }

    fn halt(&mut self) -> Result<(), PortError> {
        let reset = self.reset();
        set_command(&self.function, pci::COMMAND_MASTER, false);
        reset
    }
}

impl<F: Function> Drop for Legacy<F> {
    fn drop(&mut self) {
        let _ = self.halt();
    }
}

/// The one notification register, which takes a ring's number.
struct Register<B> {
    bar: B,
    ring: u16,
}

impl<B: Bar + Send + Sync> Doorbell for Register<B> {
    fn ring(&self) {
        hw::ring::publish();
        self.bar.write(legacy::QUEUE_NOTIFY, self.ring);
    }
}
