//! What is compared: devices that QEMU has and that we have models of.

use std::sync::Arc;

use hw::Function;
use hw::pci::{Bdf, Pci};
use hw::vfio::{Options as VfioOptions, Vfio};
use models::e1000::{E1000, E1000Options, Kind};
use models::virtio::{Notify, VirtioNet, VirtioOptions};
use models::vmxnet3::{Vmxnet3, Vmxnet3Options};
use models::{Device, Sim, SimOptions, WireOptions};
use port::{Mac, Port};
use virtio::Choice;

use super::record::Recorder;
use super::rings::{self, Rings};
use super::{Trace, scenario};
use crate::conformance::Failure;
use crate::runner::Borrowed;

/// A device to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// QEMU's device and its properties.
    pub qemu: &'static str,
    family: Family,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// The device id is given where it is a sibling's.
    E1000(Kind, Option<u16>),
    Vmxnet3,
    Virtio {
        packed: bool,
    },
}

/// Every device that is compared.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "82540EM",
        qemu: "e1000",
        family: Family::E1000(Kind::E1000, None),
    },
    Subject {
        name: "82545EM",
        qemu: "e1000-82545em",
        family: Family::E1000(Kind::E1000, Some(0x100f)),
    },
    Subject {
        name: "82574L",
        qemu: "e1000e",
        family: Family::E1000(Kind::E1000e, None),
    },
    Subject {
        name: "82576",
        qemu: "igb",
        family: Family::E1000(Kind::Igb, None),
    },
    Subject {
        name: "vmxnet3",
        qemu: "vmxnet3",
        family: Family::Vmxnet3,
    },
    Subject {
        name: "virtio, split",
        qemu: "virtio-net-pci,iommu_platform=on,disable-legacy=on",
        family: Family::Virtio { packed: false },
    },
    Subject {
        name: "virtio, packed",
        qemu: "virtio-net-pci,iommu_platform=on,disable-legacy=on,packed=on",
        family: Family::Virtio { packed: true },
    },
];

impl Subject {
    /// The subject of that name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        SUBJECTS.iter().find(|subject| subject.name == name)
    }

    /// The trace of two of our models on a wire, which have the addresses `macs`, and what they
    /// object to.
    ///
    /// # Errors
    /// The scenario could not be carried out.
    pub fn on_models(&self, macs: [Mac; 2]) -> Result<(Trace, Vec<String>), Failure> {
        let mut objections = Vec::new();
        let trace = scenario::run(
            self,
            &mut |recorder| {
                let sim = Arc::new(Sim::with_options(
                    self.model(macs[0]),
                    self.model(macs[1]),
                    self.wire(),
                    SimOptions {
                        // The scenario waits for the model, and does nothing else.
                        busy_threads: usize::MAX,
                        ..SimOptions::default()
                    },
                ));
                let ports = self.open(recorder, [0, 1].map(|end| sim.function(end)))?;
                let said = Box::new(move || sim.objections());
                Ok((ports, said as Box<dyn FnOnce() -> Vec<String>>))
            },
            &mut objections,
        )?;
        Ok((trace, objections))
    }

    /// The trace of two devices of this machine that a wire joins.
    ///
    /// # Errors
    /// The devices cannot be had, or the scenario could not be carried out.
    pub fn on_devices(&self, places: [Bdf; 2]) -> Result<Trace, Failure> {
        let found = |error: &dyn std::error::Error| Failure::Found(error.to_string());
        let _borrowed = Borrowed::take(&Pci::host(), &places).map_err(|error| found(&error))?;
        scenario::run(
            self,
            &mut |recorder| {
                let vfio = Vfio::host();
                let open = |place| vfio.open(place, &VfioOptions::default());
                let first = open(places[0]).map_err(|error| found(&error))?;
                let second = open(places[1]).map_err(|error| found(&error))?;
                let ports = self.open(recorder, [first, second])?;
                Ok((
                    ports,
                    Box::new(Vec::new) as Box<dyn FnOnce() -> Vec<String>>,
                ))
            },
            &mut Vec::new(),
        )
    }

    /// What knows of the rings of such a device.
    pub(super) fn rings(&self) -> Box<dyn Rings> {
        match self.family {
            Family::E1000(Kind::Igb | Kind::IgbVf, _) => Box::<rings::Advanced>::default(),
            Family::E1000(..) => Box::<rings::Legacy>::default(),
            Family::Vmxnet3 => Box::<rings::Vmxnet3>::default(),
            Family::Virtio { packed } => Box::new(rings::Virtio::new(packed)),
        }
    }

    fn open<F: Function>(
        &self,
        recorder: &Recorder,
        functions: [F; 2],
    ) -> Result<[Box<dyn Port>; 2], Failure> {
        let [first, second] = functions;
        let first = self.driver(recorder.trace(0, first))?;
        let second = self.driver(recorder.trace(1, second))?;
        Ok([first, second])
    }

    fn driver<F: Function>(&self, function: F) -> Result<Box<dyn Port>, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::Found(format!("open: {error}"));
        match self.family {
            Family::E1000(..) => e1000::open_pci(function, &e1000::Options::default())
                .map_err(|error| failed(&error)),
            Family::Vmxnet3 => vmxnet3::open(function, &vmxnet3::Options::default())
                .map_err(|error| failed(&error)),
            Family::Virtio { packed } => {
                let options = virtio::Options {
                    packed: if packed { Choice::On } else { Choice::Off },
                    ..virtio::Options::default()
                };
                virtio::open_pci(function, &options).map_err(|error| failed(&error))
            }
        }
    }

    /// The wire: as fast as QEMU's device says that its is (`hw/net/vmxnet3.c`: 1 Gb/s).
    fn wire(&self) -> WireOptions {
        let mut wire = WireOptions::default();
        if self.family == Family::Vmxnet3 {
            wire.speed_bps = 1_000_000_000;
        }
        wire
    }

    /// Our model, as QEMU's device is by default.
    fn model(&self, mac: Mac) -> Box<dyn Device> {
        match self.family {
            Family::E1000(kind, device_id) => {
                let options = E1000Options {
                    device_id,
                    waits_to_negotiate: kind == Kind::Igb,
                    ..E1000Options::of(kind, mac)
                };
                E1000::boxed(self.name, &options)
            }
            Family::Vmxnet3 => {
                let options = Vmxnet3Options {
                    mac,
                    ..Vmxnet3Options::qemu()
                };
                Vmxnet3::boxed(self.name, &options)
            }
            Family::Virtio { packed } => VirtioNet::boxed(self.name, &virtio_options(packed, mac)),
        }
    }
}

/// A virtio-net device as QEMU's is behind a hub, which knows no offloads (`hw/net/virtio-net.c`,
/// `virtio_net_get_features`: without a peer that has headers, nothing about checksums).
fn virtio_options(packed: bool, mac: Mac) -> VirtioOptions {
    VirtioOptions {
        mac,
        packed,
        csum: false,
        guest_csum: false,
        speed_duplex: false,
        mtu: None,
        queue_size: 256,
        notify: Notify::Sleeps,
        // CTRL_GUEST_OFFLOADS, and not ORDER_PLATFORM (virtio 1.2 §5.1.3, §6).
        features_added: 1 << 2,
        features_removed: 1 << 36,
        ..VirtioOptions::default()
    }
}
