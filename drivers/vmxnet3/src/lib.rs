//! Driver for vmxnet3, the network device of VMware's hypervisors (15ad:07b0); QEMU has one too.
//!
//! The device has next to no registers. Driver and device talk through memory: a *shared area*
//! that says what the driver wants ([`area`]), a *queue descriptor* for each queue, and rings. The
//! driver writes the area's address into two registers and then gives commands, which make the
//! device read from it or write to it ([`device`]).
//!
//! A send queue is a ring of descriptors and a ring of completions, one for each frame. A receive
//! queue has two rings of buffers: the first for the beginnings of frames (*heads*), the
//! second for what does not fit there (*bodies*); and one ring of completions for both. Whose turn
//! a slot is, is told by its *generation* bit: what the driver writes on its first lap is marked 1,
//! on the next 0, and so on, and the other side waits for the bit that it expects. So no index is
//! shared, memory that is all zero is an empty ring, and a device that polls needs no register
//! write; one that sleeps says so (`txThreshold`, `updateRxProd`), and only then is it told.
//!
//! There is no public data sheet. The numbers here are those of the public drivers and devices:
//! Linux `drivers/net/vmxnet3/{vmxnet3_defs,upt1_defs}.h`, DPDK `drivers/net/vmxnet3/base`, QEMU
//! `hw/net/vmxnet3.[ch]`; "defs" in this crate means the first of them. Names of fields are theirs.
#![forbid(unsafe_code)]

mod area;
mod caps;
mod checksum;
mod desc;
mod device;
mod error;
mod filter;
mod options;
mod plan;
mod port;
mod recover;
mod regs;
mod rss;
mod rx;
mod setup;
mod shared;
mod stats;
#[cfg(test)]
mod test;
mod tx;

use ::port::Port;
use hw::Function;
use hw::mmio::RegInfo;

pub use error::OpenError;
pub use options::Options;

use device::Device;
use port::Vmxnet3;

/// Vendor and device id of vmxnet3.
pub const ID: (u16, u16) = (regs::pci::VMWARE, regs::pci::VMXNET3);

/// Every register that the driver knows, by BAR: 0 for moving frames, 1 for commands. For dumps, and
/// for the test that compares the table with the model's.
#[must_use]
pub fn registers() -> [&'static [RegInfo]; 2] {
    [regs::pass::MAP, regs::control::MAP]
}

/// Opens a vmxnet3 device.
///
/// # Errors
/// It is no vmxnet3, it is gone, or it offers no revision that `options` allow.
pub fn open<F: Function>(function: F, options: &Options) -> Result<Box<dyn Port>, OpenError> {
    let device = Device::open(function, options)?;
    Ok(Box::new(Vmxnet3::new(device, options.clone())?))
}
