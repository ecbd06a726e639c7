//! Configuration space: header and capabilities, as QEMU lays them out (PCI 3.0 §6.1, §6.8).

use std::ops::Range;

const COMMAND: usize = 0x04;
/// Memory decoding, bus mastering, no INTx: what a driver may turn.
const COMMAND_BITS: u16 = 0x0406;
const NO_LINE: u16 = 1 << 10;
const MEMORY: u16 = 2;
const MASTER: u16 = 4;
const STATUS: usize = 0x06;
const CAP_LIST: u16 = 1 << 4;
const BARS: Range<usize> = 0x10..0x28;
/// Cache line size, latency timer; interrupt line: software's own.
const SCRATCH: [usize; 3] = [0x0c, 0x0d, 0x3c];
const MSI: usize = 0x84;
const MSIX: usize = 0x9c;

/// The window of masks and doorbells.
pub(super) const PT: u8 = 0;
/// The window of configuration and commands.
pub(super) const VD: u8 = 1;
/// The window of MSI-X.
pub(super) const VECTORS: u8 = 2;
const PAGE: u64 = 0x1000;
/// Where the pending bits of MSI-X are.
const PENDING: u32 = 0x1000;

/// Configuration space of one function, and the MSI-X table.
pub(super) struct PciSpace {
    bytes: [u8; 256],
    large: bool,
    /// Words of the MSI-X table: address, address, data, control.
    table: Vec<u32>,
}

impl PciSpace {
    pub(super) fn new(vectors: u8, large: bool) -> Self {
        let mut space = Self {
            bytes: [0; 256],
            large,
            // Every vector is masked after a reset (PCI 3.0 §6.8.2.9).
            table: [0, 0, 0, 1].repeat(usize::from(vectors)),
        };
        space.put16(0x00, 0x15ad);
        space.put16(0x02, 0x07b0);
        // As after an open through VFIO: decoding is on, bus mastering is not.
        space.put16(COMMAND, MEMORY);
        space.put16(STATUS, CAP_LIST);
        space.bytes[0x08] = 1;
        // Class: network controller, Ethernet.
        space.bytes[0x0b] = 2;
        space.put16(0x2c, 0x15ad);
        space.put16(0x2e, 0x07b0);
        space.bytes[0x3d] = 1;
        for (n, address) in [0xfeb0_0000, 0xfeb1_0000, 0xfeb2_0000u32]
            .iter()
            .enumerate()
        {
            let at = BARS.start + n * 4;
            space.bytes[at..at + 4].copy_from_slice(&address.to_le_bytes());
        }
        space.bytes[0x34] = 0x84;
        // MSI: one vector, 64 bits.
        space.bytes[MSI..MSI + 4].copy_from_slice(&[0x05, 0x9c, 0x80, 0]);
        space.bytes[MSIX..MSIX + 2].copy_from_slice(&[0x11, 0]);
        space.put16(MSIX + 2, u16::from(vectors) - 1);
        space.bytes[MSIX + 4] = VECTORS;
        let pending = PENDING | u32::from(VECTORS);
        space.bytes[MSIX + 8..MSIX + 12].copy_from_slice(&pending.to_le_bytes());
        space
    }

    /// As after a reset of the function.
    pub(super) fn reset(&mut self) {
        let vectors = u8::try_from(self.table.len() / 4).expect("65 vectors at most");
        let kept: Vec<u8> = self.bytes[BARS].to_vec();
        *self = Self::new(vectors, self.large);
        self.bytes[BARS].copy_from_slice(&kept);
    }

    /// Reads `width` bytes at `offset`.
    pub(super) fn read(&self, offset: u16, width: u8) -> u32 {
        let at = usize::from(offset);
        let bytes = self.bytes.get(at..at + usize::from(width));
        bytes.map_or(0, |bytes| {
            bytes
                .iter()
                .rev()
                .fold(0, |value, &byte| value << 8 | u32::from(byte))
        })
    }

    /// Writes `width` bytes at `offset`; what may not be written is named.
    pub(super) fn write(&mut self, offset: u16, width: u8, value: u32) -> Result<(), String> {
        let at = usize::from(offset);
        let bytes = &value.to_le_bytes()[..usize::from(width)];
        let [a, b, ..] = value.to_le_bytes();
        let low = u16::from_le_bytes([a, b]);
        if at == COMMAND && width == 2 {
            self.put16(COMMAND, low & COMMAND_BITS);
        } else if at == MSIX + 2 && width == 2 {
            // Enable, and mask of the function.
            let fixed = u16::from(self.bytes[at]);
            self.put16(at, fixed | low & 0xc000);
        } else if at == MSI + 2 && width == 2 {
            self.put16(at, 0x80 | low & 1);
        } else if (MSI + 4..MSI + 14).contains(&at) || SCRATCH.contains(&at) {
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        } else if !BARS.contains(&at) && at != STATUS {
            return Err(format!("write to configuration space at {offset:#x}"));
        }
        Ok(())
    }

    /// Reads a word of the MSI-X window.
    pub(super) fn read_vectors(&self, offset: u32) -> u32 {
        // Nothing is ever pending: messages are sent at once.
        self.table.get(offset as usize / 4).copied().unwrap_or(0)
    }

    /// Writes a word of the MSI-X window; false if it may not be written.
    pub(super) fn write_vectors(&mut self, offset: u32, value: u32) -> bool {
        let word = self.table.get_mut(offset as usize / 4);
        word.map(|word| *word = value).is_some()
    }

    fn command(&self) -> u16 {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]])
    }

    /// True while interrupts are messages of MSI-X.
    pub(super) fn has_messages(&self) -> bool {
        self.bytes[MSIX + 3] & 0x80 != 0
    }

    /// True while interrupts are the line of INTx, and that is not off.
    pub(super) fn has_line(&self) -> bool {
        !self.has_messages() && self.command() & NO_LINE == 0
    }

    /// True if the device may reach memory.
    pub(super) fn is_master(&self) -> bool {
        self.command() & MASTER != 0
    }

    /// True if accesses to BARs reach the device.
    pub(super) fn decodes(&self) -> bool {
        self.command() & MEMORY != 0
    }

    /// Bytes of BAR `index`.
    pub(super) fn bar_len(&self, index: u8) -> Option<u64> {
        match index {
            PT if self.large => Some(2 * PAGE),
            PT | VD => Some(PAGE),
            VECTORS => Some(2 * PAGE),
            _ => None,
        }
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
}
