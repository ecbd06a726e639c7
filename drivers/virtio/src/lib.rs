//! Driver for virtio network devices: modern and legacy PCI, and vhost-user.
//!
//! A virtio device works on *virtqueues* in memory that driver and device share. The driver
//! makes buffers available, the device uses them and says so; a buffer that is available is the
//! device's alone. There are two formats of queue, *split* and *packed* ([`ring`]), and two kinds
//! of use: sending ([`tx`]) and receiving ([`rx`]). A frame is preceded by a header of 12 bytes
//! (10 on old devices), which lies in the frame's headroom, so header and frame are one buffer.
//!
//! How the device is found, told where its queues are, and reset, is the *transport*'s business:
//! registers behind PCI ([`pci`]), or messages on a Unix socket ([`vhost`]). The port
//! ([`port`]) is the same over each. Queues run by themselves once started; what
//! they share with the port is a word that says whether to run ([`shared`]).
//!
//! What makes it fast is what it does not write. Driver and device sit on two cores, and every
//! line that one writes and the other reads crosses between them: some hundred cycles each. So
//! descriptors and ring entries are compared before they are stored, headers are zeroed once and
//! not for each frame, resident frames keep their descriptors, indexes are read only when slots
//! run short, and no barrier is paid for a device that polls.
//!
//! Sections (§) refer to the OASIS virtio 1.2 standard.
#![forbid(unsafe_code)]

mod build;
mod checksum;
mod control;
mod desc;
mod doorbell;
mod error;
mod features;
mod options;
mod pci;
mod plan;
mod port;
mod regs;
mod ring;
mod rss;
mod rx;
mod shared;
mod stats;
#[cfg(test)]
mod test;
mod transport;
mod tx;
mod vhost;

use std::path::Path;

use ::port::Port;
use hw::Function;

pub use error::OpenError;
pub use options::{Choice, Options, VhostOptions};

use pci::legacy::Legacy;
use pci::modern::Modern;
use port::{Defaults, Virtio};
use vhost::VhostUser;

/// Slots of a PCI device's rings when nobody asks: what most devices have at most.
const PCI_SLOTS: usize = 1024;

/// Opens a virtio network device on PCI: the modern interface if it has one, else the legacy.
///
/// # Errors
/// It is no virtio network device, or a broken one, or it does not offer what `options` insist on.
pub fn open_pci<F: Function>(function: F, options: &Options) -> Result<Box<dyn Port>, OpenError> {
    let defaults = Defaults {
        rx_slots: options.rx_slots.unwrap_or(PCI_SLOTS),
        tx_slots: options.tx_slots.unwrap_or(PCI_SLOTS),
    };
    Ok(match Modern::open(function)? {
        Ok(modern) => Box::new(Virtio::new(modern, options.clone(), defaults)?),
        Err(function) => {
            let legacy = Legacy::open(function)?;
            Box::new(Virtio::new(legacy, options.clone(), defaults)?)
        }
    })
}

/// Connects to a vhost-user peer through the socket at `path`, or waits there for the peer to
/// connect.
///
/// # Errors
/// There is no peer, it does not answer in time, it answers nonsense, or it does not offer what
/// `options` insist on.
pub fn open_vhost_user(path: &Path, options: &VhostOptions) -> Result<Box<dyn Port>, OpenError> {
    let peer = VhostUser::open(path, options)?;
    let defaults = Defaults {
        rx_slots: options.rx_slots,
        tx_slots: options.tx_slots,
    };
    Ok(Box::new(Virtio::new(
        peer,
        options.device.clone(),
        defaults,
    )?))
}
