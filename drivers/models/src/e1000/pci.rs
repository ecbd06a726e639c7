//! Configuration space: header and capabilities (PCI 3.0 §6.1, §6.7).

use super::options::Kind;

const COMMAND: usize = 0x04;
/// I/O decoding, memory decoding, bus mastering, no INTx: what a driver may turn.
const COMMAND_BITS: u16 = 0x0407;
const NO_LINE: u16 = 1 << 10;
const IO: u16 = 1;
const MEMORY: u16 = 2;
const MASTER: u16 = 4;
const STATUS_CAP_LIST: u16 = 1 << 4;
const BARS: std::ops::Range<usize> = 0x10..0x28;
const POWER: usize = 0xdc;
const EXPRESS: usize = 0xa0;
const MSIX: usize = 0x70;
/// In the control word of MSI-X: it is on, and all vectors are masked.
const MSIX_BITS: u16 = 0xc000;
const MSIX_ON: u16 = 0x8000;
/// What is merely kept: power state; device, link, and second device control of PCI Express.
const KEPT: [usize; 4] = [POWER + 4, EXPRESS + 0x08, EXPRESS + 0x10, EXPRESS + 0x28];
/// What is cleared by being written, and never set: status of device and link, errors of the bus.
const CLEARED: [usize; 3] = [0x06, EXPRESS + 0x0a, EXPRESS + 0x12];

/// The registers.
pub(super) const REGISTERS: u8 = 0;
/// The window of MSI-X: its table, and where the pending bits are.
pub(super) const VECTORS: u8 = 3;
const VECTORS_BYTES: u64 = 0x4000;
const PENDING: u32 = 0x2000;

/// Configuration space of one function.
pub(super) struct PciSpace {
    bytes: [u8; 256],
    kind: Kind,
    /// Words of the MSI-X table: address, address, data, control.
    table: Vec<u32>,
}

impl PciSpace {
    pub(super) fn new(kind: Kind, device_id: u16) -> Self {
        let mut space = Self {
            bytes: [0; 256],
            kind,
            // Every vector is masked after a reset (PCI 3.0 §6.8.2.9).
            table: [0, 0, 0, 1].repeat(vectors(kind)),
        };
        space.put16(0x00, 0x8086);
        space.put16(0x02, device_id);
        // As after an open through VFIO: decoding is on, bus mastering is not.
        space.put16(COMMAND, IO | MEMORY);
        space.put16(0x06, STATUS_CAP_LIST);
        space.bytes[0x08] = if kind == Kind::E1000 { 3 } else { 1 };
        // Class: network controller, Ethernet.
        space.bytes[0x0b] = 2;
        space.put16(0x2c, 0x8086);
        if kind != Kind::IgbVf {
            space.bytes[0x3d] = 1;
        }
        space.put32(BARS.start, 0xfe00_0000);
        if let Some(io) = space.io_bar() {
            space.put32(BARS.start + usize::from(io) * 4, 0xc001);
        }
        space.put_capabilities();
        space
    }

    /// Power management, and what makes it a PCI Express function that can be reset (FLR).
    fn put_capabilities(&mut self) {
        let express = self.kind != Kind::E1000;
        self.bytes[0x34] = 0xdc;
        self.bytes[POWER] = 0x01;
        self.bytes[POWER + 1] = if express { 0xa0 } else { 0 };
        self.put16(POWER + 2, 2);
        if express {
            self.bytes[EXPRESS] = 0x10;
            self.put16(EXPRESS + 2, 2);
            self.put32(EXPRESS + 4, 1 << 28);
        }
        if let Ok(vectors) = u16::try_from(vectors(self.kind))
            && vectors > 0
        {
            self.put32(BARS.start + usize::from(VECTORS) * 4, 0xfe04_0000);
            self.bytes[EXPRESS + 1] = 0x70;
            self.bytes[MSIX] = 0x11;
            self.put16(MSIX + 2, vectors - 1);
            self.put32(MSIX + 4, u32::from(VECTORS));
            self.put32(MSIX + 8, PENDING | u32::from(VECTORS));
        }
    }

    /// The window with the address and data pair: at 1 on the first device, at 2 on later ones,
    /// and none on virtual functions.
    pub(super) fn io_bar(&self) -> Option<u8> {
        match self.kind {
            Kind::E1000 => Some(1),
            Kind::E1000e | Kind::Igb => Some(2),
            Kind::IgbVf => None,
        }
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

    /// Writes `width` bytes at `offset`. What may not be written is named.
    pub(super) fn write(&mut self, offset: u16, width: u8, value: u32) -> Result<(), String> {
        let at = usize::from(offset);
        if at == COMMAND && width == 2 {
            let [a, b, ..] = value.to_le_bytes();
            self.put16(COMMAND, u16::from_le_bytes([a, b]) & COMMAND_BITS);
        } else if at == MSIX + 2 && width == 2 && self.bytes[MSIX] != 0 {
            let [a, b, ..] = value.to_le_bytes();
            let size = self.get16(at) & !MSIX_BITS;
            self.put16(at, size | u16::from_le_bytes([a, b]) & MSIX_BITS);
        } else if KEPT.contains(&at) && width == 2 {
            let [a, b, ..] = value.to_le_bytes();
            self.put16(at, u16::from_le_bytes([a, b]));
        } else if !BARS.contains(&at) && at != 0x3c && !CLEARED.contains(&at) {
            return Err(format!("write to configuration space at {offset:#x}"));
        }
        Ok(())
    }

    /// Reads a word of the MSI-X window.
    pub(super) fn read_vectors(&self, offset: u32) -> u32 {
        // Nothing is ever pending: messages are sent at once.
        self.table.get(offset as usize / 4).copied().unwrap_or(0)
    }

    /// Writes a word of the MSI-X window.
    pub(super) fn write_vectors(&mut self, offset: u32, value: u32) {
        if let Some(word) = self.table.get_mut(offset as usize / 4) {
            *word = value;
        }
    }

    /// True while interrupts are messages.
    pub(super) fn has_vectors(&self) -> bool {
        self.bytes[MSIX] != 0 && self.get16(MSIX + 2) & MSIX_ON != 0
    }

    /// True while interrupts are the line of INTx, and that is not off.
    pub(super) fn has_line(&self) -> bool {
        !self.has_vectors() && self.command() & NO_LINE == 0
    }

    fn command(&self) -> u16 {
        self.get16(COMMAND)
    }

    /// True if the device may reach memory.
    pub(super) fn is_master(&self) -> bool {
        self.command() & MASTER != 0
    }

    /// True if accesses to BAR `index` reach the device.
    pub(super) fn decodes(&self, index: u8) -> bool {
        let bit = if Some(index) == self.io_bar() {
            IO
        } else {
            MEMORY
        };
        self.command() & bit != 0
    }

    /// Bytes of BAR `index`.
    pub(super) fn bar_len(&self, index: u8) -> Option<u64> {
        match self.kind {
            Kind::IgbVf if index == REGISTERS => Some(0x4000),
            _ if index == REGISTERS => Some(0x2_0000),
            Kind::E1000 if index == 1 => Some(64),
            Kind::E1000e | Kind::Igb if index == 2 => Some(32),
            _ if index == VECTORS && !self.table.is_empty() => Some(VECTORS_BYTES),
            _ => None,
        }
    }

    fn get16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }
    fn put16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

/// Vectors of MSI-X (82574 §7.4.2, 82576 §7.3.2.1).
fn vectors(kind: Kind) -> usize {
    match kind {
        Kind::E1000 => 0,
        Kind::E1000e => 5,
        Kind::Igb => 10,
        Kind::IgbVf => 3,
    }
}
