//! Configuration space: header and capabilities (PCI 3.0 §6.1, §6.7).

use super::options::Kind;

const COMMAND: usize = 0x04;
/// I/O decoding, memory decoding, bus mastering, no INTx: what a driver may turn.
const COMMAND_BITS: u16 = 0x0407;
const IO: u16 = 1;
const MEMORY: u16 = 2;
const MASTER: u16 = 4;
const STATUS_CAP_LIST: u16 = 1 << 4;
const BARS: std::ops::Range<usize> = 0x10..0x28;
const POWER: usize = 0xdc;
const EXPRESS: usize = 0xa0;

/// The registers.
pub(super) const REGISTERS: u8 = 0;

/// Configuration space of one function.
pub(super) struct PciSpace {
    bytes: [u8; 256],
    kind: Kind,
}

impl PciSpace {
    pub(super) fn new(kind: Kind, device_id: u16) -> Self {
        let mut space = Self {
            bytes: [0; 256],
            kind,
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
        } else if !BARS.contains(&at) && at != 0x3c && at != 0x06 {
            return Err(format!("write to configuration space at {offset:#x}"));
        }
        Ok(())
    }

    fn command(&self) -> u16 {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]])
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
            _ => None,
        }
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}
