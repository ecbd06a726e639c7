//! `sim:e1000`, `sim:e1000e`, `sim:igb`, `sim:igbvf`: the e1000 driver on models of its devices.

use models::e1000::{E1000, E1000Options, Kind};

use super::{Family, Half};
use crate::OpenError;
use crate::options::{Intel, Options};

/// 82540EM.
pub(super) const E1000_FAMILY: Family = Family {
    driver: "e1000",
    known: super::known!("rx_slots, tx_slots, mtu, mac"),
    half: |name, number, options| half(Kind::E1000, name, number, options),
};

/// 82574L.
pub(super) const E1000E_FAMILY: Family = Family {
    driver: "e1000e",
    known: super::known!("rx_slots, tx_slots, mtu, mac"),
    half: |name, number, options| half(Kind::E1000e, name, number, options),
};

/// 82576.
pub(super) const IGB_FAMILY: Family = Family {
    driver: "igb",
    known: super::known!("queues, rx_slots, tx_slots, mtu, mac"),
    half: |name, number, options| half(Kind::Igb, name, number, options),
};

/// A virtual function of 82576, with its physical function beside it.
pub(super) const IGBVF_FAMILY: Family = Family {
    driver: "igbvf",
    known: super::known!("rx_slots, tx_slots, mtu, pf_mtu, mac"),
    half: |name, number, options| half(Kind::IgbVf, name, number, options),
};

fn half(
    kind: Kind,
    name: &str,
    number: usize,
    options: &mut Options<'_>,
) -> Result<Half, OpenError> {
    let device = E1000Options::of(kind, super::address(number, options)?);
    let driver = options.intel(match kind {
        Kind::Igb => Intel::IGB,
        Kind::IgbVf => Intel::IGBVF,
        Kind::E1000 | Kind::E1000e => Intel::E1000,
    })?;
    Ok(Half {
        device: E1000::boxed(name, &device),
        open: Box::new(move |function| Ok(e1000::open_pci(function, &driver)?)),
        counts_missed: kind != Kind::IgbVf,
    })
}
