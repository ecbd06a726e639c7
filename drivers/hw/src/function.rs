//! A PCI function as a driver sees it.

use std::io;
use std::sync::Arc;

use hugemem::DmaSpace;

use crate::mmio::Bar;
use crate::pci::{MtuError, RaisedMtu, VfPlace};

/// Why a register window cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BarError {
    /// The function does not implement this BAR.
    #[error("the device has no BAR {index}")]
    Absent {
        /// BAR number, 0 to 5.
        index: u8,
    },
    /// The kernel refused to map it.
    #[error("cannot map BAR {index}")]
    Map {
        /// BAR number, 0 to 5.
        index: u8,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// A PCI function that this process owns.
///
/// Configuration space is little endian; `offset` is in bytes and naturally aligned. A function
/// that is gone (surprise removal) reads as all ones, everywhere, as PCI says.
pub trait Function: Send + Sync + 'static {
    /// This function's register windows.
    type Bar: Bar + Clone + Send + Sync + 'static;

    /// How the user names it: `0000:3b:00.0`, `sim:virtio/0`.
    fn name(&self) -> &str;

    /// Reads configuration space, one byte.
    fn config8(&self, offset: u16) -> u8;
    /// Reads configuration space, two bytes.
    fn config16(&self, offset: u16) -> u16;
    /// Reads configuration space, four bytes.
    fn config32(&self, offset: u16) -> u32;
    /// Writes configuration space, two bytes.
    fn set_config16(&self, offset: u16, value: u16);

    /// The register window `index` (0 to 5), memory or I/O.
    ///
    /// # Errors
    /// The function has no such BAR, or it cannot be mapped.
    fn bar(&self, index: u8) -> Result<Self::Bar, BarError>;

    /// Where its DMA lands.
    fn space(&self) -> Arc<dyn DmaSpace>;

    /// Resets the function (FLR or what the platform has).
    ///
    /// # Errors
    /// The platform cannot reset it, or the reset failed.
    fn reset(&self) -> io::Result<()>;

    /// True if an IOMMU of the platform stands between the function and memory, and the bus
    /// addresses that the driver gives are its. A device that goes around it, as some emulated
    /// ones do, would then hit memory of others.
    fn is_behind_iommu(&self) -> bool {
        false
    }

    /// Makes the MTU of the physical function that this virtual one belongs to at least `mtu`;
    /// none if it suffices, as where nothing is known to be in the way. It goes back to what it
    /// was when the result is dropped.
    ///
    /// A physical function may be reset by that, and all its virtual ones with it.
    ///
    /// # Errors
    /// The physical function is not visible here, or its MTU cannot be set.
    fn raise_pf_mtu(&self, mtu: u32) -> Result<Option<RaisedMtu>, MtuError> {
        let _ = mtu;
        Ok(None)
    }

    /// How commands on the host name this virtual function; none where that is not known here.
    fn vf_place(&self) -> Option<VfPlace> {
        None
    }

    /// NUMA node, where the platform knows it.
    fn numa_node(&self) -> Option<u32> {
        None
    }
}

/// Offset of the command register (PCI 3.0 §6.2.2).
pub const COMMAND: u16 = 0x04;

/// Bits of the command register (PCI 3.0 §6.2.2).
pub mod command {
    /// I/O windows answer.
    pub const IO: u16 = 1 << 0;
    /// Memory windows answer.
    pub const MEMORY: u16 = 1 << 1;
    /// The device may start transfers: DMA, and message-signalled interrupts.
    pub const MASTER: u16 = 1 << 2;
    /// The device keeps off its interrupt line.
    pub const INTX_OFF: u16 = 1 << 10;
}

/// Lets the device do DMA, or forbids it. A driver allows it once the device is reset, so that
/// nothing it was told before its driver came is carried out; without it rings stay silent.
///
/// A device that is gone is left alone.
pub fn set_bus_master<F: Function + ?Sized>(function: &F, on: bool) {
    let was = function.config16(COMMAND);
    let wanted = if on {
        was | command::MASTER
    } else {
        was & !command::MASTER
    };
    if was != u16::MAX && was != wanted {
        function.set_config16(COMMAND, wanted);
    }
}

/// The capability walk that every PCI driver needs.
///
/// Yields `(id, offset)` of each entry of the capability list. A list that loops or points
/// outside the first 256 bytes ends early: the device is not trusted.
pub fn capabilities<F: Function + ?Sized>(function: &F) -> impl Iterator<Item = (u8, u16)> + '_ {
    const STATUS: u16 = 0x06;
    const STATUS_CAP_LIST: u16 = 1 << 4;
    const CAP_POINTER: u16 = 0x34;
    let status = function.config16(STATUS);
    let has_list = status & STATUS_CAP_LIST != 0 && status != u16::MAX;
    let mut next = if has_list {
        u16::from(function.config8(CAP_POINTER)) & !3
    } else {
        0
    };
    // 48 entries of 4 bytes fill what lies behind the header.
    let mut budget = 48;
    std::iter::from_fn(move || {
        if next < 0x40 || budget == 0 {
            return None;
        }
        budget -= 1;
        let here = next;
        let id = function.config8(here);
        next = u16::from(function.config8(here + 1)) & !3;
        (id != 0xff).then_some((id, here))
    })
}
