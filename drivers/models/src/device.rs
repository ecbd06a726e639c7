//! What every model of a device has, whatever its family.

use std::sync::Arc;

use hugemem::{SimSpace, Translator};

use crate::counters::DeviceCounters;
use crate::faults::DeviceFaults;
use crate::frames::{Batch, Carrier, WireFrame};
use crate::interrupt::InterruptSink;
use crate::objections::Objections;

/// What the wire says to a device about its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkReport {
    /// Whether frames can pass.
    pub up: bool,
    /// Bits a second.
    pub speed_bps: u64,
}

/// The device end of a NIC, as a PCI function.
///
/// `width` is that of the access in bytes: 1, 2 or 4. Values are in the host's order. All calls
/// but those on [`Doorbells`] come under the device's lock.
pub trait Device: Send {
    /// How the user names it: `sim:virtio/0`.
    fn name(&self) -> &str;
    /// The addresses it may use.
    fn space(&self) -> Arc<SimSpace>;
    /// What it counts.
    fn counters(&self) -> Arc<DeviceCounters>;
    /// What goes wrong with it.
    fn faults(&self) -> Arc<DeviceFaults>;
    /// What it objects to.
    fn objections(&self) -> Objections;

    /// Reads configuration space.
    fn config_read(&mut self, offset: u16, width: u8) -> u32;
    /// Writes configuration space.
    fn config_write(&mut self, offset: u16, width: u8, value: u32);
    /// Bytes of the register window `index`, where there is one.
    fn bar_len(&self, index: u8) -> Option<u64>;
    /// Reads a register.
    fn bar_read(&mut self, index: u8, offset: u32, width: u8) -> u32;
    /// Writes a register.
    fn bar_write(&mut self, index: u8, offset: u32, width: u8, value: u32);
    /// The registers that are written while frames move.
    fn doorbells(&self) -> Arc<dyn Doorbells>;
    /// Resets the function.
    fn reset(&mut self);
    /// From now on `sink` gets its interrupts, which nobody got before. A device that only counts
    /// them leaves this out.
    fn connect_interrupts(&mut self, _sink: Arc<dyn InterruptSink>) {}

    /// The link went up or down.
    fn set_link(&mut self, link: LinkReport);
    /// Work beside frames: commands, mailboxes. True if there was some.
    fn poll(&mut self) -> bool;
    /// Adds frames that the driver has posted to `batch`, up to `limit` in all. They stay the
    /// device's until [`Device::sent`].
    fn transmit(&mut self, batch: &mut Batch, limit: usize);
    /// The frames of the last [`Device::transmit`] have left the memory.
    fn sent(&mut self);
    /// The frames arrive. The device takes each or drops it, and counts which.
    fn deliver(&mut self, frames: &[WireFrame], carrier: &mut Carrier<'_>);
    /// Its way into memory, for the receiver to read the frames that it transmits.
    fn memory(&mut self) -> &mut Translator;

    /// The MTU of the physical function beside it, of a virtual one that has such a neighbour.
    fn pf_mtu(&self) -> Option<u32> {
        None
    }

    /// Its frame rings, where they are known by address: for benches that take a driver's rings
    /// over ([`crate::consumer`]).
    fn rings(&self) -> Vec<RingPlace> {
        Vec::new()
    }
}

/// Registers that a driver writes while frames move, beside the device's lock.
pub trait Doorbells: Send + Sync {
    /// A write to a register window; true if that was one of these registers.
    fn ring(&self, index: u8, offset: u32, width: u8, value: u32) -> bool;
}

/// What a ring is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingRole {
    /// Frames to the driver.
    Rx,
    /// Frames from the driver.
    Tx,
}

/// Where a virtio ring is, by bus address.
#[derive(Debug, Clone)]
pub struct RingPlace {
    /// What it is for.
    pub role: RingRole,
    /// Which pair of queues it belongs to.
    pub pair: u16,
    /// Slots.
    pub size: u16,
    /// Packed, or split.
    pub packed: bool,
    /// Used in the order of being posted, in batches.
    pub in_order: bool,
    /// The descriptors.
    pub descriptors: u64,
    /// The available ring, or the driver's event suppression.
    pub driver: u64,
    /// The used ring, or the device's event suppression.
    pub device: u64,
    /// Bytes of header before each frame.
    pub header: u32,
    /// The device's memory.
    pub space: Arc<SimSpace>,
}
