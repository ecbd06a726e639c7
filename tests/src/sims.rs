//! Pairs of drivers on models, in every combination of what a virtio device may offer.

use std::sync::Arc;

use models::virtio::{Identity, Notify, VirtioNet, VirtioOptions};
use models::{Sim, SimOptions, WireOptions};
use port::Port;
use virtio::{Choice, OpenError, Options};

use crate::conformance::{Failure, Pair};

/// A way in which driver and device agree on rings.
#[derive(Debug, Clone)]
pub struct Variant {
    /// What the device offers.
    pub device: VirtioOptions,
    /// What the driver asks for.
    pub driver: Options,
}

impl Variant {
    /// Split rings, or packed ones, in order or not, on a modern device; everything else as the
    /// device and the driver like it best.
    #[must_use]
    pub fn rings(packed: bool, in_order: bool) -> Self {
        let choice = |on: bool| if on { Choice::On } else { Choice::Off };
        Self {
            device: VirtioOptions {
                packed,
                in_order,
                ..VirtioOptions::default()
            },
            driver: Options {
                packed: choice(packed),
                in_order: choice(in_order),
                ..Options::default()
            },
        }
    }

    /// With mergeable buffers on, or neither offered nor used.
    #[must_use]
    pub fn mergeable(mut self, on: bool) -> Self {
        self.device.mergeable = on;
        self.driver.mergeable = if on { Choice::On } else { Choice::Off };
        self
    }

    /// With indirect tables on, or neither offered nor used.
    #[must_use]
    pub fn indirect(mut self, on: bool) -> Self {
        self.device.indirect = on;
        self.driver.indirect = if on { Choice::On } else { Choice::Off };
        self
    }

    /// With several queue pairs.
    #[must_use]
    pub fn pairs(mut self, pairs: u16) -> Self {
        self.device.pairs = pairs;
        self
    }

    /// On a device that sleeps until its doorbell rings.
    #[must_use]
    pub fn sleepy(mut self) -> Self {
        self.device.notify = Notify::Sleeps;
        self
    }

    /// On a device with the legacy interface, alone or beside the modern one.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.device.identity = identity;
        if identity == Identity::Legacy {
            self.device.access_platform = false;
            self.device.ring_reset = false;
            self.device.notification_data = false;
        }
        self
    }

    /// A device with nothing but what every device has.
    #[must_use]
    pub fn bare() -> Self {
        let mut variant = Self::rings(false, false).mergeable(false).indirect(false);
        let device = &mut variant.device;
        device.event_idx = false;
        device.ring_reset = false;
        device.control = false;
        device.csum = false;
        device.guest_csum = false;
        device.status = false;
        device.speed_duplex = false;
        device.mtu = None;
        variant
    }
}

/// Two devices of `variant` on a wire.
#[must_use]
pub fn wired(variant: &Variant, wire: WireOptions) -> Arc<Sim> {
    let device = |last: u8| {
        let mut options = variant.device.clone();
        options.mac = [0x52, 0x54, 0, 0, 0, last];
        VirtioNet::boxed(&format!("sim:virtio/{last}"), &options)
    };
    let options = SimOptions {
        // Tests run side by side, so a model gives its core away when it has nothing to do.
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    Arc::new(Sim::with_options(device(0), device(1), wire, options))
}

/// Opens the driver on both ends of `sim`.
///
/// # Errors
/// The driver refuses a device.
pub fn open(sim: &Sim, variant: &Variant) -> Result<[Box<dyn Port>; 2], OpenError> {
    let port = |end| virtio::open_pci(sim.function(end), &variant.driver);
    Ok([port(0)?, port(1)?])
}

/// A pair for the conformance suite.
///
/// # Errors
/// The driver refuses a device.
pub fn pair(variant: &Variant) -> Result<Pair, Failure> {
    let sim = wired(variant, WireOptions::default());
    let ports = open(&sim, variant).map_err(|error| Failure::Found(error.to_string()))?;
    Ok(Pair {
        ports,
        objections: Box::new(move || {
            let mut objections = sim.objections();
            for end in [0, 1] {
                // While nothing moves; a check leaves with both ports stopped.
                let lost = sim.unaccounted(end);
                if lost != 0 {
                    objections.push(format!("{lost} frames from end {end} are unaccounted for"));
                }
            }
            objections
        }),
    })
}
