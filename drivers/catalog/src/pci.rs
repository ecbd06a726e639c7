//! PCI ports: the device's id picks the driver.

use hw::pci::Bdf;
use hw::vfio::{Options as VfioOptions, Vfio, VfioFunction};
use port::Port;

use crate::OpenError;
use crate::options::{Intel, Options};
use crate::spec::Spec;

/// Options of a virtio device.
const VIRTIO: &str = "packed, in_order, mergeable, indirect, queues";
/// Options of a vmxnet3.
const VMXNET3: &str = "revision, data_ring, rx_data_ring, queues, rx_slots, tx_slots";
/// Options of a device of the e1000 or ixgbe families.
const INTEL: &str = "queues, rx_slots, tx_slots, mtu, pf_mtu (of a virtual function)";

/// Opens the device at `bdf`, which `vfio-pci` holds.
pub(crate) fn open(spec: &Spec, bdf: Bdf) -> Result<Box<dyn Port>, OpenError> {
    let vfio = Vfio::host();
    let device = vfio.pci().device(bdf).map_err(hw::vfio::OpenError::from)?;
    let id = (device.vendor_id, device.device_id);
    let open = driver(id).ok_or_else(|| OpenError::NoDriver {
        bdf,
        name: device.name(),
    })?;
    open(spec, vfio.open(bdf, &VfioOptions::default())?)
}

type Open = fn(&Spec, VfioFunction) -> Result<Box<dyn Port>, OpenError>;

/// The driver for devices of `id` (vendor, device), if there is one.
fn driver(id: (u16, u16)) -> Option<Open> {
    match id {
        // virtio 1.2 §4.1.2: 1000 is the transitional network device, 1040 + 1 the modern one.
        (0x1af4, 0x1000 | 0x1041) => Some(open_virtio),
        vmxnet3::ID => Some(open_vmxnet3),
        (vendor, device) if e1000::supports(vendor, device).is_some() => Some(open_e1000),
        (vendor, device) if ixgbe::supports(vendor, device).is_some() => Some(open_ixgbe),
        _ => None,
    }
}

/// True if rgen has a driver for devices of `vendor` and `device`.
#[must_use]
pub fn supports(vendor: u16, device: u16) -> bool {
    driver((vendor, device)).is_some()
}

fn open_virtio(spec: &Spec, function: VfioFunction) -> Result<Box<dyn Port>, OpenError> {
    let mut given = Options::of(spec);
    let options = given.virtio()?;
    given.done(VIRTIO)?;
    Ok(virtio::open_pci(function, &options)?)
}

fn open_vmxnet3(spec: &Spec, function: VfioFunction) -> Result<Box<dyn Port>, OpenError> {
    let mut given = Options::of(spec);
    let options = given.vmxnet3()?;
    given.done(VMXNET3)?;
    Ok(vmxnet3::open(function, &options)?)
}

fn open_e1000(spec: &Spec, function: VfioFunction) -> Result<Box<dyn Port>, OpenError> {
    let mut given = Options::of(spec);
    let options = given.intel(Intel::E1000_PCI)?;
    given.done(INTEL)?;
    Ok(e1000::open_pci(function, &options)?)
}

fn open_ixgbe(spec: &Spec, function: VfioFunction) -> Result<Box<dyn Port>, OpenError> {
    let mut given = Options::of(spec);
    let options = given.intel(Intel::IXGBEVF)?;
    given.done(INTEL)?;
    Ok(ixgbe::open_pci(function, &options)?)
}
