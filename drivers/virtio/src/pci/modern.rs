//! The standard's interface: structures in BARs, found by capabilities (§4.1.4).

use std::sync::Arc;

use hugemem::DmaSpace;
use hw::function::capabilities;
use hw::{Bar, Function};
use port::PortError;

use crate::doorbell::Doorbell;
use crate::error::OpenError;
use crate::features::Features;
use crate::pci::window::Window;
use crate::pci::{await_reset, identify, keeps_to_iommu, set_command};
use crate::regs::{NetStatus, Status, capability, common, kind, net, pci};
use crate::ring::RingMemory;
use crate::rss::Ability;
use crate::transport::{Health, NetConfig, Patience, Plan, Progress, Transport};

/// A device with the standard's interface.
pub(crate) struct Modern<F: Function> {
    function: F,
    ids: (u16, u16),
    common: Window<F::Bar>,
    notify: Window<F::Bar>,
    multiplier: u32,
    device: Option<Window<F::Bar>>,
    offered: Features,
    sizes: Vec<u16>,
    /// Notification offset of each ring, once it is set up.
    offsets: Vec<u16>,
}

/// Most rings that the driver looks at.
const RINGS: u16 = 1024;

/// A structure that a capability points to.
struct Found<B> {
    window: Window<B>,
    capability: u16,
}

/// The first usable structure of `wanted` kind with at least `len` bytes (§4.1.4.1).
fn find<F: Function>(function: &F, wanted: u8, len: u32) -> Option<Found<F::Bar>> {
    capabilities(function)
        .filter(|&(id, at)| {
            id == capability::VENDOR && function.config8(at + capability::KIND) == wanted
        })
        .find_map(|(_, at)| {
            // A BAR number above 5 is reserved: such a capability is passed over.
            let index = function.config8(at + capability::BAR);
            let bar = (index <= 5).then(|| function.bar(index).ok())??;
            let offset = function.config32(at + capability::OFFSET);
            let length = function.config32(at + capability::LENGTH);
            let window = Window::new(bar, offset, length).filter(|_| length >= len)?;
            Some(Found {
                window,
                capability: at,
            })
        })
}

impl<F: Function> Modern<F> {
    /// The device behind `function`, reset, and its features read. `Ok(Err(function))` if it has
    /// no such interface.
    pub(crate) fn open(function: F) -> Result<Result<Self, F>, OpenError> {
        let ids = identify(&function)?;
        let name = function.name().to_owned();
        let Some(common) = find(&function, kind::COMMON, common::LEN) else {
            if ids.1 == pci::TRANSITIONAL_NET {
                return Ok(Err(function));
            }
            let what = "no common configuration among its capabilities".into();
            return Err(OpenError::Broken { port: name, what });
        };
        let Some(notify) = find(&function, kind::NOTIFY, 2) else {
            let what = "no notification structure among its capabilities".into();
            return Err(OpenError::Broken { port: name, what });
        };
        let multiplier = function.config32(notify.capability + capability::MULTIPLIER);
        let device = find(&function, kind::DEVICE, 6).map(|found| found.window);
        let mut modern = Self {
            ids,
            common: common.window,
            notify: notify.window,
            multiplier,
            device,
            offered: Features::empty(),
            sizes: Vec::new(),
            offsets: Vec::new(),
            function,
        };
        let not_open = |error| match error {
            PortError::Gone { port } => OpenError::Gone { port },
            error => OpenError::Broken {
                port: name.clone(),
                what: error.to_string(),
            },
        };
        modern.reset().map_err(not_open)?;
        modern.offered = modern.read_features().sound();
        keeps_to_iommu(&modern.function, modern.offered)?;
        modern.sizes = modern.survey().map_err(not_open)?;
        Ok(Ok(modern))
    }

    fn reset(&self) -> Result<(), PortError> {
        self.common.write(common::DEVICE_STATUS, Status::empty());
        await_reset(self.function.name(), || {
            self.common.read(common::DEVICE_STATUS)
        })
    }

    fn read_features(&self) -> Features {
        let mut bits = 0;
        for half in [0u32, 1] {
            self.common.write(common::DEVICE_FEATURE_SELECT, half);
            bits |= u64::from(self.common.read(common::DEVICE_FEATURE)) << (32 * half);
        }
        Features::from_bits_truncate(bits)
    }

    /// Slots of every ring, as they are once the device knows its features: which rings there are
    /// follows from those. Several pairs, and the control queue behind them, are there only with
    /// MQ (§5.1.2; QEMU makes and unmakes rings when features are written).
    fn survey(&self) -> Result<Vec<u16>, PortError> {
        match self.negotiate(self.offered & Features::ALWAYS) {
            // A device that refuses what it offers does so again when it is started.
            Ok(_) | Err(PortError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        let sizes = self.read_sizes();
        self.reset()?;
        Ok(sizes)
    }

    /// Slots of every ring. One that reads as zero is not there (§4.1.4.3).
    fn read_sizes(&self) -> Vec<u16> {
        let rings = self.common.read(common::NUM_QUEUES).min(RINGS);
        let size = |ring| {
            self.common.write(common::QUEUE_SELECT, ring);
            self.common.read(common::QUEUE_SIZE)
        };
        (0..rings).map(size).collect()
    }

    fn broken(&self, what: impl Into<String>) -> PortError {
        PortError::Broken {
            port: self.function.name().to_owned(),
            what: what.into(),
        }
    }

    fn status(&self) -> Result<Status, PortError> {
        match self.common.read(common::DEVICE_STATUS) {
            Status::GONE => Err(PortError::Gone {
                port: self.function.name().to_owned(),
            }),
            status => Ok(status),
        }
    }

    /// Steps 2 to 6 of §3.1.1: acknowledge, and agree on features.
    fn negotiate(&self, features: Features) -> Result<Status, PortError> {
        let mut status = Status::ACKNOWLEDGE;
        self.common.write(common::DEVICE_STATUS, status);
        status |= Status::DRIVER;
        self.common.write(common::DEVICE_STATUS, status);
        let bits = features.bits();
        for half in [0u32, 1] {
            self.common.write(common::DRIVER_FEATURE_SELECT, half);
            let [low, high] = [bits & u64::from(u32::MAX), bits >> 32];
            let word = if half == 0 { low } else { high };
            let word = u32::try_from(word).expect("half of 64 bits is 32");
            self.common.write(common::DRIVER_FEATURE, word);
        }
        status |= Status::FEATURES_OK;
        self.common.write(common::DEVICE_STATUS, status);
        if self.status()?.contains(Status::FEATURES_OK) {
            Ok(status)
        } else {
            self.common
                .write(common::DEVICE_STATUS, status | Status::FAILED);
            Err(PortError::Refused {
                port: self.function.name().to_owned(),
                what: format!("the features that it offers: {}", features.names()),
                cure: None,
            })
        }
    }

    /// Gives the device a ring (§4.1.5.1.3). Returns where its notifications go.
    fn set_up(&self, ring: u16, memory: &RingMemory) -> Result<u16, PortError> {
        self.common.write(common::QUEUE_SELECT, ring);
        let size = self.common.read(common::QUEUE_SIZE);
        let slots = memory.geometry.slots;
        if usize::from(size) < slots {
            let what = format!("ring {ring} has {size} slots now, and had {slots}");
            return Err(self.broken(what));
        }
        let slots = u16::try_from(slots).map_err(|_| self.broken("a ring too large"))?;
        self.common.write(common::QUEUE_SIZE, slots);
        self.common
            .write(common::QUEUE_DESC, memory.desc.iova().get());
        self.common
            .write(common::QUEUE_DRIVER, memory.driver.iova().get());
        self.common
            .write(common::QUEUE_DEVICE, memory.device.iova().get());
        let offset = self.common.read(common::QUEUE_NOTIFY_OFF);
        let last = u64::from(offset) * u64::from(self.multiplier) + 2;
        if last > self.notify.len() {
            let what = format!("the notification address of ring {ring} is outside its structure");
            return Err(self.broken(what));
        }
        self.common.write(common::QUEUE_ENABLE, 1);
        Ok(offset)
    }

    /// The configuration, if it did not change while it was read (§2.5.1).
    fn read_config<B: Bar>(&self, device: &B) -> Option<NetConfig> {
        let generation = self.common.read(common::CONFIG_GENERATION);
        let config = read_net(device, self.offered);
        (self.common.read(common::CONFIG_GENERATION) == generation).then_some(config)
    }
}

/// Reads those fields that `offered` says are there (§5.1.4).
pub(crate) fn read_net<B: Bar>(device: &B, offered: Features) -> NetConfig {
    let holds = |bit, end: u64| offered.contains(bit) && device.len() >= end;
    let mut config = NetConfig {
        link_up: true,
        pairs: 1,
        full_duplex: true,
        ..NetConfig::default()
    };
    if holds(Features::MAC, 6) {
        let mut mac = [0; 6];
        for (byte, at) in mac.iter_mut().zip(net::MAC..) {
            *byte = device.load8(at);
        }
        config.mac = Some(mac);
    }
    if holds(Features::STATUS, 8) {
        config.link_up = device.read(net::STATUS).contains(NetStatus::LINK_UP);
    }
    if holds(Features::MQ, 10) {
        config.pairs = usize::from(device.read(net::MAX_VIRTQUEUE_PAIRS)).max(1);
    }
    if holds(Features::MTU, 12) {
        config.mtu = Some(device.read(net::MTU));
    }
    if holds(Features::SPEED_DUPLEX, 17) {
        let speed = device.read(net::SPEED);
        // Up to 0x7fffffff is a speed, all ones is "unknown" (§5.1.4).
        config.speed_bps = (speed <= 0x7fff_ffff).then(|| u64::from(speed) * 1_000_000);
        config.full_duplex = device.read(net::DUPLEX) != 0;
    }
    if holds(Features::RSS, 24) {
        config.spreading = Ability::new(
            device.read(net::RSS_MAX_KEY_SIZE),
            device.read(net::RSS_MAX_INDIRECTION_TABLE_LENGTH),
            device.read(net::SUPPORTED_HASH_TYPES),
        );
    }
    config
}

impl<F: Function> Transport for Modern<F> {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn device(&self) -> String {
        "virtio-net (modern PCI)".into()
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
        self.sizes
            .get(usize::from(ring))
            .map_or(0, |&size| usize::from(size))
    }

    fn config(&mut self) -> Result<NetConfig, PortError> {
        const TRIES: usize = 1000;
        self.status()?;
        let Some(device) = &self.device else {
            return Ok(read_net(&NoConfig, self.offered));
        };
        (0..TRIES)
            .find_map(|_| self.read_config(device))
            .ok_or_else(|| self.broken("the configuration changes faster than it can be read"))
    }

    fn bring_up(&mut self, plan: &Plan, _patience: Patience) -> Result<Progress, PortError> {
        self.reset()?;
        let status = self.negotiate(plan.features)?;
        set_command(&self.function, pci::COMMAND_MASTER, true);
        self.offsets = vec![0; self.sizes.len()];
        for (ring, memory) in &plan.rings {
            let offset = self.set_up(*ring, memory)?;
            self.offsets[usize::from(*ring)] = offset;
        }
        self.common
            .write(common::DEVICE_STATUS, status | Status::DRIVER_OK);
        self.status()?;
        Ok(Progress::Running)
    }

    fn doorbell(&self, ring: u16) -> Arc<dyn Doorbell> {
        let offset = u32::from(self.offsets[usize::from(ring)]) * self.multiplier;
        Arc::new(Register {
            window: self.notify.clone(),
            offset,
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

impl<F: Function> Drop for Modern<F> {
    fn drop(&mut self) {
        let _ = self.halt();
    }
}

/// The configuration of a device that has none.
struct NoConfig;

impl Bar for NoConfig {
    fn len(&self) -> u64 {
        0
    }
    fn load8(&self, _offset: u32) -> u8 {
        0
    }
    fn load16(&self, _offset: u32) -> u16 {
        0
    }
    fn load32(&self, _offset: u32) -> u32 {
        0
    }
    fn store8(&self, _offset: u32, _value: u8) {}
    fn store16(&self, _offset: u32, _value: u16) {}
    fn store32(&self, _offset: u32, _value: u32) {}
}

/// A ring's notification register (§4.1.5.2).
struct Register<B> {
    window: B,
    offset: u32,
    ring: u16,
}

impl<B: Bar + Send + Sync> Doorbell for Register<B> {
    fn ring(&self) {
        hw::ring::publish();
        self.window.store16(self.offset, self.ring);
    }
}
