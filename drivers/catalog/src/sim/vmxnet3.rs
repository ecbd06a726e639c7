//! `sim:vmxnet3`: the vmxnet3 driver on a model of VMware's device.

use models::vmxnet3::{Vmxnet3, Vmxnet3Options};

use super::{Family, Half};
use crate::OpenError;
use crate::options::Options;

/// The family, as the table lists it.
pub(super) const FAMILY: Family = Family {
    driver: "vmxnet3",
    known: super::known!("revision, data_ring, rx_data_ring, queues, rx_slots, tx_slots, mac"),
    half,
};

fn half(name: &str, number: usize, options: &mut Options<'_>) -> Result<Half, OpenError> {
    // The device offers everything up to the revision that is asked for, if one is.
    let driver = options.vmxnet3()?;
    let mut device = Vmxnet3Options {
        mac: super::address(number, options)?,
        ..Vmxnet3Options::default()
    };
    if let Some(revision) = driver.revision {
        device.revision = u8::try_from(revision).unwrap_or(device.revision);
    }
    Ok(Half {
        device: Vmxnet3::boxed(name, &device),
        open: Box::new(move |function| Ok(vmxnet3::open(function, &driver)?)),
        counts_missed: true,
    })
}
