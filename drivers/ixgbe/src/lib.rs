//! Driver for Intel's 10 Gb/s NICs: 82599, X540 and X550 (`ixgbe`), and their virtual functions
//! (`ixgbevf`).
//!
//! A NIC of this family has rings of 16-byte descriptors in memory, one for each queue and
//! direction. The queues are those of all of Intel's NICs (crate `intel`), over the layout of
//! descriptors that is here ([`desc`]): receiving reads no more of a completion than the port was
//! started for.
//!
//! A physical function is reset, configured and asked for its link and counters through registers
//! ([`pf`]). A virtual function has queue registers of its own and asks its physical function for
//! everything else, through a mailbox ([`vf`], [`mailbox`]). The port around both is that
//! of all of Intel's NICs, and what it has to know of these is their [`design`].
//!
//! Sections (§) refer to Intel's 82599 datasheet (331520). Where hardware or the other side of the
//! mailbox differs from that, the source is Linux or DPDK, and named.
#![forbid(unsafe_code)]

mod desc;
mod design;
mod error;
mod filter;
mod kind;
mod link;
mod mailbox;
mod pf;
mod plan;
mod queues;
mod regs;
mod semaphore;
mod stats;
#[cfg(test)]
mod test;
mod vf;
mod vf_regs;

use std::sync::Arc;

use hw::Bar;
use hw::function::{COMMAND, Function, command, set_bus_master};
use intel::{Control, Nic};
use port::{Port, PortError};

pub use error::OpenError;
pub use intel::{Options, PfMtu};
pub use kind::Kind;

use kind::Model;
use pf::Pf;
use plan::Has;
use vf::Vf;

/// Vendor and device id in configuration space (PCI 3.0 §6.2.1).
const IDENTITY: (u16, u16) = (0, 2);
/// Bytes of registers that the driver uses of a physical function and of a virtual one.
const REGISTERS: (u64, u64) = (0x1_1000, 0x4000);

/// The kind of function that PCI device `vendor`:`device` is, if this crate drives it.
#[must_use]
pub fn supports(vendor: u16, device: u16) -> Option<Kind> {
    Model::of(vendor, device).map(|model| model.kind())
}

/// Opens a NIC of the family.
///
/// # Errors
/// It is some other device, a broken one, its physical function does not answer, or it has not
/// what `options` ask for.
pub fn open_pci<F: Function>(function: F, options: &Options) -> Result<Box<dyn Port>, OpenError> {
    let port = function.name().to_owned();
    let (vendor, device) = (function.config16(IDENTITY.0), function.config16(IDENTITY.1));
    if vendor == u16::MAX {
        // A virtual function shows no vendor either, but no kernel hands it out like that.
        return Err(PortError::Gone { port }.into());
    }
    let Some(model) = Model::of(vendor, device) else {
        return Err(OpenError::NotOurs {
            port,
            vendor,
            device,
        });
    };
    answer(&function);
    set_bus_master(&function, false);
    let bar = function.bar(0);
    let bar = bar.map_err(|source| OpenError::Bar {
        port: port.clone(),
        source,
    })?;
    let needs = match model.kind() {
        Kind::Ixgbe => REGISTERS.0,
        Kind::IxgbeVf => REGISTERS.1,
    };
    if bar.len() < needs {
        let what = format!("its registers have {:#x} bytes, not {needs:#x}", bar.len());
        return Err(PortError::Broken { port, what }.into());
    }
    let function = Arc::new(function);
    let (control, has): (Box<dyn Control>, Has) = match model.media {
        Some(media) => {
            intel::refuse_pf_mtu(&port, options)?;
            let pf = Pf::open(Arc::clone(&function), bar.clone(), &model, media)?;
            (Box::new(pf), Has::PF)
        }
        None => {
            let pf_mtu = options.pf_mtu.unwrap_or_default();
            let vf = Vf::open(Arc::clone(&function), bar.clone(), &model, pf_mtu)?;
            let has = vf.has();
            (Box::new(vf), has)
        }
    };
    let caps =
        plan::caps(&model, &has, options).map_err(|what| PortError::NotOffered { port, what })?;
    let mut nic = Nic::new(function, bar, model, caps, control);
    if let Some(mtu) = options.mtu {
        nic.set_mtu(mtu)?;
    }
    Ok(Box::new(nic))
}

/// Lets the function's registers answer, and keeps it off its interrupt line. In a virtual
/// function these bits are fixed (SR-IOV 1.1 §3.4.1.3).
fn answer<F: Function>(function: &F) {
    let was = function.config16(COMMAND);
    let wanted = was | command::MEMORY | command::INTX_OFF;
    if was != wanted {
        function.set_config16(COMMAND, wanted);
    }
}
