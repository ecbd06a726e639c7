//! The protocol's calls, as calls on a model.

use std::fs::File;
use std::io;
use std::sync::Arc;

use hw::Function as _;
use vfio_bindings::bindings::vfio::VFIO_PCI_CONFIG_REGION_INDEX;
use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend};

use super::BARS;
use super::config::Header;
use super::interrupts::{Counts, Interrupts};
use crate::interrupt::InterruptSink as _;
use crate::{SimBar, SimFunction};

/// Where the command and status registers are.
const COMMAND: u16 = 0x04;
/// Which pin of INTx the function pulls; 0: none.
const PIN: u16 = 0x3d;
/// MSI-X (PCI 3.0 §6.8.2): a capability's id, and the bits of its control word that hold the
/// number of vectors, less one.
const MSIX: u8 = 0x11;
const MSIX_SIZE: u16 = 0x7ff;

/// A model that a QEMU has, or will have.
pub(super) struct Backend {
    function: SimFunction,
    bars: [Option<SimBar>; BARS as usize],
    header: Header,
    interrupts: Arc<Interrupts>,
}

impl Backend {
    pub(super) fn new(function: SimFunction, interrupts: Arc<Interrupts>) -> Self {
        let numbers: [u8; 6] = std::array::from_fn(|n| u8::try_from(n).expect("below six"));
        let shown = numbers.map(|n| function.config32(0x10 + 4 * u16::from(n)));
        let lens = numbers.map(|n| function.end().control().bar_len(n));
        Self {
            bars: numbers.map(|n| function.bar(n).ok()),
            header: Header::new(shown, lens),
            function,
            interrupts,
        }
    }

    /// Bytes of BAR `index`.
    pub(super) fn bar_len(&self, index: u8) -> Option<u64> {
        self.function.end().control().bar_len(index)
    }

    pub(super) fn interrupt_counts(&self) -> Counts {
        let mut all = hw::function::capabilities(&self.function);
        let vectors = all.find(|&(id, _)| id == MSIX).map_or(0, |(_, at)| {
            u32::from(self.function.config16(at + 2) & MSIX_SIZE) + 1
        });
        Counts {
            line: u32::from(self.function.config8(PIN) != 0),
            vectors,
        }
    }

    /// The device's interrupts go to `interrupts` from now on.
    pub(super) fn connect(&mut self, interrupts: Arc<Interrupts>) {
        let mut device = self.function.end().control();
        device.connect_interrupts(interrupts);
    }

    fn bar(&self, region: u32) -> Option<&SimBar> {
        let index = usize::try_from(region).ok()?;
        self.bars.get(index)?.as_ref()
    }

    fn read_config(&self, offset: u16, data: &mut [u8]) {
        let first = self.header.read(offset);
        match (first, data.len()) {
            (Some(_), _) | (None, 3) => {
                for (at, byte) in (offset..).zip(data) {
                    let own = self.header.read(at);
                    *byte = own.unwrap_or_else(|| self.function.config8(at));
                }
            }
            (None, len) => {
                let width = u8::try_from(len).unwrap_or(4);
                let value = self.function.config(offset, width).to_le_bytes();
                data.copy_from_slice(&value[..len]);
            }
        }
    }

    fn write_config(&mut self, offset: u16, data: &[u8]) {
        if self.header.read(offset).is_some() {
            for (at, &byte) in (offset..).zip(data) {
                if !self.header.write(at, byte) {
                    self.function.set_config(at, 1, u32::from(byte));
                }
            }
            return;
        }
        // Two registers of 16 bits each: a model has them apart.
        if offset == COMMAND && data.len() == 4 {
            self.write_config(COMMAND, &data[..2]);
            self.write_config(COMMAND + 2, &data[2..]);
            return;
        }
        let width = u8::try_from(data.len()).unwrap_or(4);
        self.function.set_config(offset, width, number(data));
    }
}

/// A little-endian number of up to four bytes.
fn number(data: &[u8]) -> u32 {
    let byte = |value, &byte| value << 8 | u32::from(byte);
    data.iter().rev().fold(0, byte)
}

/// The pieces of an access of `len` bytes at `offset` that are one register each: of 4 bytes, 2
/// or 1, each on its own boundary.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let left = len - done;
        let fits = |width: &usize| *width <= left && at.is_multiple_of(*width as u64);
        let width = [4, 2, 1].into_iter().find(fits)?;
        done += width;
        Some((at, width))
    })
}

/// Where in configuration space or a window an access is; they have less than 4 GiB.
fn place<T: TryFrom<u64>>(offset: u64) -> io::Result<T> {
    T::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        for (at, width) in pieces(offset, data.len()) {
            let from = usize::try_from(at - offset).map_err(io::Error::other)?;
            let out = &mut data[from..from + width];
            if region == VFIO_PCI_CONFIG_REGION_INDEX {
                self.read_config(place(at)?, out);
            } else if let Some(bar) = self.bar(region) {
                let width = u8::try_from(width).map_err(io::Error::other)?;
                let value = bar.load(place(at)?, width).to_le_bytes();
                out.copy_from_slice(&value[..usize::from(width)]);
            } else {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        for (at, width) in pieces(offset, data.len()) {
            let from = usize::try_from(at - offset).map_err(io::Error::other)?;
            let part = &data[from..from + width];
            if region == VFIO_PCI_CONFIG_REGION_INDEX {
                self.write_config(place(at)?, part);
            } else if let Some(bar) = self.bar(region) {
                let width = u8::try_from(width).map_err(io::Error::other)?;
                bar.store(place(at)?, width, number(part));
            } else {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        // Without a descriptor it is no memory but a window of a device, which ours does not
        // reach; without the right to write it is a ROM.
        let Some(file) = file.filter(|_| flags.contains(DmaMapFlags::READ_WRITE)) else {
            return Ok(());
        };
        let space = &self.function.end().space;
        let mapped = space.map_foreign(address, size, &file, offset);
        mapped.inspect_err(|error| {
            tracing::warn!("{size:#x} bytes of guest memory at {address:#x}: {error}");
        })
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        let all = flags.contains(DmaUnmapFlags::UNMAP_ALL);
        let (first, len) = if all { (0, u64::MAX) } else { (address, size) };
        self.function.end().space.unmap_within(first, len);
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.function.reset()?;
        // As after a reset of the bus: nothing is decoded, and nothing is the device's.
        self.function.set_config(COMMAND, 2, 0);
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        files: Vec<File>,
    ) -> io::Result<()> {
        if self.interrupts.set(index, flags, start, count, files) {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }
}

/// The line falls with the device.
impl Drop for Backend {
    fn drop(&mut self) {
        self.interrupts.line(false);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_access_is_cut_at_the_boundaries_of_registers() {
        let cut = |offset, len| pieces(offset, len).collect::<Vec<_>>();
        assert_eq!(cut(8, 8), [(8, 4), (12, 4)]);
        assert_eq!(cut(6, 4), [(6, 2), (8, 2)]);
        assert_eq!(cut(5, 3), [(5, 1), (6, 2)]);
        assert_eq!(cut(4, 1), [(4, 1)]);
    }
}
