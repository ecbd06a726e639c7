//! Configuration space: header and capabilities (PCI 3.0 §6.1, §6.7; virtio 1.2 §4.1.2, §4.1.4).

use super::options::{Identity, VirtioOptions};
use super::{COMMON, CONFIG, ISR, LEGACY_BAR, LEGACY_BYTES, MODERN_BAR, MODERN_BYTES, NOTIFY};

const COMMAND: usize = 0x04;
/// I/O decoding, memory decoding, bus mastering, no INTx: what a driver may turn.
const COMMAND_BITS: u16 = 0x0407;
const NO_LINE: u16 = 1 << 10;
const IO: u16 = 1;
const MEMORY: u16 = 2;
const MASTER: u16 = 4;
const STATUS_CAP_LIST: u16 = 1 << 4;
const BARS: std::ops::Range<usize> = 0x10..0x28;
const FIRST_CAP: usize = 0x40;

/// Kinds of virtio capability (§4.1.4).
#[derive(Clone, Copy)]
enum Kind {
    Common = 1,
    Notify = 2,
    Isr = 3,
    Device = 4,
    Access = 5,
}

/// Configuration space of one function.
pub(super) struct PciSpace {
    bytes: [u8; 256],
    /// Where the capability is through which BARs are reached (§4.1.4.9); 0: nowhere.
    window: usize,
}

/// What an access to configuration space leads to.
pub(super) enum Access {
    /// This value.
    Value(u32),
    /// An access of `width` bytes to a register window.
    Bar { index: u8, offset: u32, width: u8 },
}

impl PciSpace {
    pub(super) fn new(options: &VirtioOptions) -> Self {
        let mut space = Self {
            bytes: [0; 256],
            window: 0,
        };
        let (device, revision, subsystem) = match options.identity {
            Identity::Modern => (0x1041, 1, 0x1100),
            // The subsystem says which kind of device: 1 is a network card (§4.1.2.3).
            Identity::Transitional | Identity::Legacy => (0x1000, 0, 1),
        };
        space.put16(0x00, 0x1af4);
        space.put16(0x02, device);
        // As after an open through VFIO: decoding is on, bus mastering is not.
        space.put16(COMMAND, IO | MEMORY);
        space.bytes[0x08] = revision;
        // Class: network controller, Ethernet.
        space.bytes[0x0b] = 2;
        space.put16(0x2c, 0x1af4);
        space.put16(0x2e, subsystem);
        space.bytes[0x3d] = 1;
        if options.identity != Identity::Modern {
            space.put32(BARS.start + usize::from(LEGACY_BAR) * 4, 0xc001);
        }
        if options.identity != Identity::Legacy {
            // 64 bits wide, prefetchable.
            space.put32(BARS.start + usize::from(MODERN_BAR) * 4, 0xfe00_000c);
            space.put_capabilities(options);
        }
        space
    }

    fn put_capabilities(&mut self, options: &VirtioOptions) {
        self.put16(0x06, STATUS_CAP_LIST);
        let mut at = FIRST_CAP;
        self.bytes[0x34] = low(at);
        let parts = [
            (Kind::Common, COMMON),
            (Kind::Notify, NOTIFY),
            (Kind::Isr, ISR),
            (Kind::Device, CONFIG),
            (Kind::Access, 0..0),
        ];
        for (kind, range) in parts {
            let len = match kind {
                Kind::Notify | Kind::Access => 20,
                Kind::Common | Kind::Isr | Kind::Device => 16,
            };
            let last = matches!(kind, Kind::Access);
            let next = if last { 0 } else { at + len };
            // Vendor capability, next, length, kind, BAR.
            self.bytes[at..at + 5].copy_from_slice(&[
                0x09,
                low(next),
                low(len),
                kind as u8,
                if last { 0 } else { MODERN_BAR },
            ]);
            self.put32(at + 8, range.start);
            self.put32(at + 12, range.end - range.start);
            match kind {
                Kind::Notify => self.put32(at + 16, options.notify_multiplier),
                Kind::Access => self.window = at,
                Kind::Common | Kind::Isr | Kind::Device => {}
            }
            at += len;
        }
    }

    /// Reads `width` bytes at `offset`.
    pub(super) fn read(&self, offset: u16, width: u8) -> Access {
        let at = usize::from(offset);
        // Whoever reads all of configuration space has set no width, and means no register.
        let width_is_set = self.window > 0 && self.get32(self.window + 12) != 0;
        if width_is_set && at == self.window + 16 {
            return self.through_window();
        }
        let bytes = self.bytes.get(at..at + usize::from(width));
        let value = bytes.map_or(0, |bytes| {
            bytes
                .iter()
                .rev()
                .fold(0, |value, &byte| value << 8 | u32::from(byte))
        });
        Access::Value(value)
    }

    /// Writes `width` bytes at `offset`; an access to a BAR may come of it. What may not be
    /// written is named.
    pub(super) fn write(
        &mut self,
        offset: u16,
        width: u8,
        value: u32,
    ) -> Result<Option<Access>, String> {
        let at = usize::from(offset);
        let bytes = &value.to_le_bytes()[..usize::from(width)];
        let window = self.window..self.window + 20;
        if at == COMMAND && width == 2 {
            let [a, b, ..] = value.to_le_bytes();
            self.put16(COMMAND, u16::from_le_bytes([a, b]) & COMMAND_BITS);
        } else if self.window > 0 && at == self.window + 16 {
            return Ok(Some(self.through_window()));
        } else if self.window > 0 && window.contains(&at) && at >= self.window + 4 {
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        } else if !BARS.contains(&at) && at != 0x3c && at != 0x06 {
            return Err(format!("write to configuration space at {offset:#x}"));
        }
        Ok(None)
    }

    fn through_window(&self) -> Access {
        Access::Bar {
            index: self.bytes[self.window + 4],
            offset: self.get32(self.window + 8),
            width: u8::try_from(self.get32(self.window + 12)).unwrap_or(0),
        }
    }

    fn command(&self) -> u16 {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]])
    }

    /// True unless the line of INTx is off.
    pub(super) fn has_line(&self) -> bool {
        self.command() & NO_LINE == 0
    }

    /// True if the device may reach memory.
    pub(super) fn is_master(&self) -> bool {
        self.command() & MASTER != 0
    }

    /// True if accesses to BAR `index` reach the device.
    pub(super) fn decodes(&self, index: u8) -> bool {
        let bit = if index == LEGACY_BAR { IO } else { MEMORY };
        self.command() & bit != 0
    }

    /// Bytes of BAR `index`.
    pub(super) fn bar_len(&self, index: u8) -> Option<u64> {
        let at = BARS.start + usize::from(index) * 4;
        (BARS.contains(&at) && self.get32(at) != 0).then_some(if index == LEGACY_BAR {
            LEGACY_BYTES
        } else {
            MODERN_BYTES
        })
    }

    fn get32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("4 bytes"))
    }
    fn put16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

fn low(value: usize) -> u8 {
    u8::try_from(value).expect("configuration space has 256 bytes")
}
