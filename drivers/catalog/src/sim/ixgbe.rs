//! `sim:ixgbe`, `sim:ixgbevf`: the ixgbe driver on models of 82599, X540 and X550.

use models::ixgbe::{Ixgbe, IxgbeOptions, IxgbeVf, IxgbeVfOptions, Kind};

use super::{Family, Half};
use crate::OpenError;
use crate::options::{Intel, Options};

/// A physical function.
pub(super) const FAMILY: Family = Family {
    driver: "ixgbe",
    known: super::known!("device, queues, rx_slots, tx_slots, mtu, mac"),
    half,
};

/// A virtual function, with its physical function beside it.
pub(super) const VF_FAMILY: Family = Family {
    driver: "ixgbevf",
    known: super::known!("device, queues, rx_slots, tx_slots, mtu, pf_mtu, mac, host_mtu, trust"),
    half: vf_half,
};

/// The controller that is asked for.
fn kind(options: &mut Options<'_>) -> Result<Kind, OpenError> {
    let kind = options.one_of("device", "82599, x540 or x550", |name| match name {
        "82599" => Some(Kind::I82599),
        "x540" => Some(Kind::X540),
        "x550" => Some(Kind::X550),
        _ => None,
    })?;
    Ok(kind.unwrap_or(Kind::I82599))
}

fn half(name: &str, number: usize, options: &mut Options<'_>) -> Result<Half, OpenError> {
    let kind = kind(options)?;
    let device = IxgbeOptions::of(kind, super::address(number, options)?);
    let driver = options.intel(Intel::IXGBE)?;
    Ok(Half {
        device: Ixgbe::boxed(name, &device),
        open: Box::new(move |function| Ok(ixgbe::open_pci(function, &driver)?)),
        counts_missed: true,
    })
}

fn vf_half(name: &str, number: usize, options: &mut Options<'_>) -> Result<Half, OpenError> {
    let kind = kind(options)?;
    let mut device = IxgbeVfOptions::of(kind, super::address(number, options)?);
    if let Some(mtu) = options.number("host_mtu", "68 to 9710 bytes", 68, 9710)? {
        device.pf.mtu = u32::try_from(mtu).unwrap_or(device.pf.mtu);
    }
    let trusted = options.flag("trust")?.unwrap_or(false);
    (device.pf.trusted, device.pf.promiscuous) = (trusted, trusted);
    let driver = options.intel(Intel::IXGBEVF)?;
    Ok(Half {
        device: IxgbeVf::boxed(name, &device),
        open: Box::new(move |function| Ok(ixgbe::open_pci(function, &driver)?)),
        counts_missed: false,
    })
}
