//! Configuration space: header and capabilities, where the controllers have them (82599 §9.3,
//! PCI Express 2.1 §7.8).

use super::options::Kind;

const COMMAND: usize = 0x04;
/// I/O decoding, memory decoding, bus mastering, parity, no INTx: what a driver may turn.
const COMMAND_BITS: u16 = 0x0547;
const MEMORY: u16 = 2;
const MASTER: u16 = 4;
const STATUS_CAP_LIST: u16 = 1 << 4;
const BARS: std::ops::Range<usize> = 0x10..0x28;
const POWER: usize = 0x40;
const MSIX: usize = 0x70;
const EXPRESS: usize = 0xa0;
/// Where the table of vectors and that of pending ones begin in their window.
const PENDING: u32 = 0x2000;

/// The registers' window.
pub(super) const REGISTERS: u8 = 0;

/// Whose configuration space it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) kind: Kind,
    pub(super) device_id: u16,
    pub(super) is_vf: bool,
}

/// Configuration space of one function.
pub(super) struct PciSpace {
    bytes: [u8; 256],
    identity: Identity,
}

impl PciSpace {
    pub(super) fn new(identity: Identity) -> Self {
        let mut space = Self {
            bytes: [0; 256],
            identity,
        };
        space.put16(0x00, 0x8086);
        space.put16(0x02, identity.device_id);
        // As after an open through VFIO: decoding is on, bus mastering is not.
        space.put16(COMMAND, MEMORY);
        space.put16(0x06, STATUS_CAP_LIST);
        space.bytes[0x08] = 1;
        // Class: network controller, Ethernet.
        space.bytes[0x0b] = 2;
        space.bytes[0x0c] = 16;
        space.put16(0x2c, 0x8086);
        space.put16(0x2e, 0x0003);
        if !identity.is_vf {
            space.bytes[0x3d] = 1;
        }
        for (number, base) in (0..6).zip(BARS.step_by(4)) {
            let kind = space.bar_type(number);
            if kind != 0 {
                space.put32(base, 0xf000_0000 | u32::from(number) << 24 | kind);
            }
        }
        space.put_capabilities();
        space
    }

    /// The window with the vectors.
    fn vector_bar(&self) -> u8 {
        if self.identity.is_vf { 3 } else { 4 }
    }

    /// Low bits of a memory window's register: 64 bits wide, and prefetchable.
    fn bar_type(&self, index: u8) -> u32 {
        match self.bar_len(index) {
            Some(_) if self.identity.is_vf => 0x4,
            Some(_) => 0xc,
            None => 0,
        }
    }

    /// Power management, vectors, and what makes it a PCI Express function that can be reset
    /// (FLR).
    fn put_capabilities(&mut self) {
        let (vf, bar) = (self.identity.is_vf, self.vector_bar());
        self.bytes[0x34] = if vf { 0x70 } else { 0x40 };
        if !vf {
            self.bytes[POWER] = 0x01;
            self.bytes[POWER + 1] = 0x70;
            self.put16(POWER + 2, 0x4823);
            self.put16(POWER + 4, 0x2008);
        }
        let vectors: u16 = if vf { 3 } else { 64 };
        self.bytes[MSIX] = 0x11;
        self.bytes[MSIX + 1] = 0xa0;
        self.put16(MSIX + 2, vectors - 1);
        self.put32(MSIX + 4, u32::from(bar));
        self.put32(MSIX + 8, PENDING | u32::from(bar));
        self.bytes[EXPRESS] = 0x10;
        self.put16(EXPRESS + 2, 2);
        // Payloads of 512 bytes, and FLR.
        self.put32(EXPRESS + 4, 1 << 28 | 0x8cc2);
        self.put16(EXPRESS + 8, 0x2810);
        // Eight lanes of 5 GT/s, and all of them are up.
        self.put32(EXPRESS + 0xc, 0x0042_cc82);
        self.put16(EXPRESS + 0x12, 0x1082);
        self.put32(EXPRESS + 0x24, 0x1f);
    }

    /// Reads `width` bytes at `offset`; extended space is empty.
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
        let [a, b, ..] = value.to_le_bytes();
        let word = u16::from_le_bytes([a, b]);
        match at {
            COMMAND if width >= 2 => self.put16(COMMAND, word & COMMAND_BITS),
            _ if BARS.contains(&at) && width == 4 => self.write_bar(at, value),
            // Cache line, latency, interrupt line, status: kept or cleared, of no consequence.
            0x06 | 0x0c | 0x0d | 0x30 | 0x3c => {}
            _ if at == MSIX + 2 && width == 2 => {
                let size = u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]) & 0x7ff;
                self.put16(at, word & 0xc000 | size);
            }
            // Power state; control of device and link.
            _ if at == POWER + 4 || at == EXPRESS + 8 || at == EXPRESS + 0x10 => {
                self.put16(at, word);
            }
            _ if at == EXPRESS + 0xa || at == EXPRESS + 0x28 => {}
            _ => return Err(format!("write to configuration space at {offset:#x}")),
        }
        Ok(())
    }

    /// An address is set, or its size asked for by ones.
    fn write_bar(&mut self, at: usize, value: u32) {
        let number = u8::try_from((at - BARS.start) / 4).expect("six of them");
        let kept = match self.bar_len(number) {
            Some(len) => !super::bits::low(len - 1) & value & !0xf | self.bar_type(number),
            // The upper half of a wide one.
            None if number > 0 && self.bar_len(number - 1).is_some() => value,
            None => 0,
        };
        self.put32(at, kept);
    }

    fn command(&self) -> u16 {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]])
    }

    /// True if the device may reach memory.
    pub(super) fn is_master(&self) -> bool {
        self.command() & MASTER != 0
    }

    /// True if accesses to memory windows reach the device.
    pub(super) fn decodes(&self) -> bool {
        self.command() & MEMORY != 0
    }

    /// Bytes of BAR `index`.
    pub(super) fn bar_len(&self, index: u8) -> Option<u64> {
        let Identity { kind, is_vf, .. } = self.identity;
        match index {
            REGISTERS if is_vf => Some(0x4000),
            REGISTERS if kind == Kind::I82599 => Some(0x8_0000),
            REGISTERS => Some(0x20_0000),
            _ if index == self.vector_bar() => Some(0x4000),
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

#[cfg(test)]
mod test {
    use super::*;

    fn space(is_vf: bool) -> PciSpace {
        PciSpace::new(Identity {
            kind: Kind::I82599,
            device_id: if is_vf { 0x10ed } else { 0x10fb },
            is_vf,
        })
    }

    #[test]
    fn capabilities_are_where_drivers_look_without_searching() {
        let pf = space(false);
        assert_eq!(pf.read(0x72, 2) & 0x7ff, 63, "vectors, less one");
        assert_eq!(pf.read(0xb2, 2) & 0xff, 0x82, "5 GT/s, eight lanes");
        assert_eq!(pf.read(0xaa, 2) & 0x20, 0, "no transactions pending");
        let chain = |space: &PciSpace| {
            let mut at = space.read(0x34, 1);
            let mut ids = Vec::new();
            while at != 0 {
                let at16 = u16::try_from(at).unwrap();
                ids.push(space.read(at16, 1));
                at = space.read(at16 + 1, 1);
            }
            ids
        };
        assert_eq!(chain(&pf), [0x01, 0x11, 0x10]);
        assert_eq!(chain(&space(true)), [0x11, 0x10]);
    }

    #[test]
    fn windows_say_how_large_they_are() {
        for (is_vf, bar, len, kind) in [
            (false, 0u16, 0x8_0000u32, 0xc),
            (false, 4, 0x4000, 0xc),
            (true, 3, 0x4000, 4),
        ] {
            let mut space = space(is_vf);
            space.write(0x10 + bar * 4, 4, u32::MAX).unwrap();
            assert_eq!(space.read(0x10 + bar * 4, 4), !(len - 1) | kind);
            space.write(0x14 + bar * 4, 4, u32::MAX).unwrap();
            assert_eq!(space.read(0x14 + bar * 4, 4), u32::MAX);
        }
    }
}
