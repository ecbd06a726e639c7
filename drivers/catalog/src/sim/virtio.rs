//! `sim:virtio`: the virtio driver on a model of a virtio-net device.

use models::virtio::{Identity, VirtioNet, VirtioOptions};

use super::{Family, Half};
use crate::OpenError;
use crate::options::Options;

/// The family, as the table lists it.
pub(super) const FAMILY: Family = Family {
    driver: "virtio",
    known: super::known!(
        "packed, in_order, mergeable, indirect, queues, rx_slots, tx_slots, mtu, mac, legacy"
    ),
    half,
};

fn half(name: &str, number: usize, options: &mut Options<'_>) -> Result<Half, OpenError> {
    let mut device = VirtioOptions {
        mac: super::address(number, options)?,
        ..VirtioOptions::default()
    };
    // The device offers everything; the driver is told what to take.
    let mut driver = options.virtio()?;
    driver.rx_slots = options.slots("rx_slots")?;
    driver.tx_slots = options.slots("tx_slots")?;
    let most = driver.rx_slots.max(driver.tx_slots).unwrap_or(0);
    let most = u16::try_from(most.next_power_of_two()).unwrap_or(device.queue_size);
    device.queue_size = device.queue_size.max(most);
    (
        device.packed,
        device.in_order,
        device.mergeable,
        device.indirect,
    ) = (true, true, true, true);
    if let Some(pairs) = driver.pairs {
        device.pairs = u16::try_from(pairs).unwrap_or(1);
    }
    if let Some(mtu) = options.number("mtu", "68 to 65521 bytes", 68, 65_521)? {
        device.mtu = u16::try_from(mtu).ok();
    }
    if options.flag("legacy")?.unwrap_or(false) {
        device.identity = Identity::Legacy;
        // An interface of 32 feature bits has neither of these, nor address translation.
        (device.packed, device.in_order, device.access_platform) = (false, false, false);
    }
    Ok(Half {
        device: VirtioNet::boxed(name, &device),
        open: Box::new(move |function| Ok(virtio::open_pci(function, &driver)?)),
        counts_missed: false,
    })
}
