//! What every NIC driver stands on: register windows, PCI functions, VFIO, rings and the clock.
//!
//! A driver sees a device as a [`Function`]: configuration space, register windows ([`Bar`]) and
//! a DMA space. The function is a real one behind VFIO, or a model of one; the driver cannot
//! tell, which is how `sim:` ports run the very code that runs on hardware.

pub mod clock;
pub mod cpu;
pub mod function;
pub mod holders;
pub mod mmio;
pub mod pci;
pub mod ring;
pub mod vfio;

pub use clock::Clock;
pub use function::{BarError, Function};
pub use mmio::Bar;
