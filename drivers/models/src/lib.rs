//! The device end of every driver: what a NIC does with the rings that a driver shows it.
//!
//! A [`Sim`] is two [`Device`]s and the wire between them. Each device is a PCI function
//! ([`SimFunction`]) that a driver opens as it would open a real one; a thread of the `Sim`'s own
//! polls the rings in DMA memory, carries the frames over and puts completions back. Every
//! address is translated by a simulated IOMMU, which refuses what was not mapped.
//!
//! A model is written from the device's side and from the standard or datasheet alone. It shares
//! no constant with the driver. What a real device would punish, or the standard forbids, it does
//! not tolerate: it *objects*, with a sentence ([`Objections`]) that fails the test which caused
//! it. What it counts it counts exactly: frames sent equal frames received plus the losses, each
//! under its own name ([`DeviceCounts`], [`WireCounts`]).
//!
//! ```
//! use models::virtio::{VirtioNet, VirtioOptions};
//! use models::{Sim, WireOptions};
//!
//! let options = VirtioOptions::default();
//! let sim = Sim::pair(
//!     VirtioNet::boxed("sim:virtio/0", &options),
//!     VirtioNet::boxed("sim:virtio/1", &options),
//!     WireOptions::default(),
//! );
//! let function = sim.function(0);
//! # use hw::Function;
//! assert_eq!(function.config16(0), 0x1af4);
//! assert!(sim.objections().is_empty());
//! ```
//!
//! # Who touches what
//! Configuration and registers come from the control thread, frames move in the model's thread.
//! A device has one lock. The model's thread takes it once a round (up to some hundred frames a
//! device), and steps aside when the control thread waits for it, so neither starves. What a
//! driver writes while frames move ([`Doorbells`]) takes no lock at all.
#![forbid(unsafe_code)]

pub mod consumer;
mod counters;
mod device;
pub mod e1000;
mod faults;
mod frames;
mod function;
mod interrupt;
pub mod ixgbe;
mod objections;
mod sim;
pub mod vfio_user;
pub mod virtio;
pub mod vmxnet3;
mod wire;

pub use counters::{DeviceCounters, DeviceCounts, WireCounters, WireCounts};
pub use device::{Device, Doorbells, LinkReport, RingPlace, RingRole};
pub use faults::{DeviceFaults, Fault};
pub use frames::{Batch, Carrier, Scatter, WireFrame};
pub use function::{SimBar, SimFunction};
pub use interrupt::InterruptSink;
pub use objections::Objections;
pub use sim::{Sim, SimOptions};
pub use wire::{Flap, Knee, KneeShape, WireOptions};

/// A MAC address.
pub type Mac = [u8; 6];

/// Bytes of the frame check sequence, which counters include.
pub const FCS: u64 = 4;
/// Shortest frame on a wire, in bytes without FCS (IEEE 802.3 §4A.4.2: 64 with it).
pub const SHORTEST: u32 = 60;
