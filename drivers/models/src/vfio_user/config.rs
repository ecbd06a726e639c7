//! What configuration space has alike for every function: BARs that can be sized, and bytes that
//! are software's own (PCI 3.0 §6.2.5, §6.2.4).
//!
//! A model's own BARs are for drivers that find them mapped; a guest's firmware and kernel size
//! and place them first.

use std::ops::Range;

/// Where the BARs are.
const BARS: Range<u16> = 0x10..0x28;
/// The expansion ROM's: there is none.
const ROM: Range<u16> = 0x30..0x34;
/// Cache line size and latency timer; interrupt line.
const SCRATCH: [Range<u16>; 2] = [0x0c..0x0e, 0x3c..0x3d];

const IO: u32 = 1;
const WIDE: u32 = 4;

/// The BARs and the other bytes.
pub(super) struct Header {
    /// What a BAR's low bits say of it.
    kinds: [u32; 6],
    /// Bits of an address that can be set.
    masks: [u32; 6],
    values: [u32; 6],
    scratch: [u8; 3],
}

/// The low bits of a BAR that say what it is.
const fn kind_bits(value: u32) -> u32 {
    if value & IO != 0 { 3 } else { 15 }
}

impl Header {
    /// `shown`: what the model shows in its BARs; `lens`: how long each is.
    pub(super) fn new(shown: [u32; 6], lens: [Option<u64>; 6]) -> Self {
        let mut header = Self {
            kinds: [0; 6],
            masks: [0; 6],
            values: [0; 6],
            scratch: [0; 3],
        };
        for (n, (value, len)) in shown.into_iter().zip(lens).enumerate() {
            let Some(len) = len.filter(|len| len.is_power_of_two()) else {
                continue;
            };
            let bits = kind_bits(value);
            header.kinds[n] = value & bits;
            let mask = !(len - 1);
            header.masks[n] = halves(mask).0 & !bits;
            let is_wide = value & (IO | WIDE) == WIDE;
            if let Some(upper) = header.masks.get_mut(n + 1).filter(|_| is_wide) {
                *upper = halves(mask).1;
            }
        }
        header
    }

    /// The byte at `offset`, if it is one of these.
    pub(super) fn read(&self, offset: u16) -> Option<u8> {
        if let Some((n, at)) = bar(offset) {
            return Some((self.values[n] | self.kinds[n]).to_le_bytes()[at]);
        }
        if ROM.contains(&offset) {
            return Some(0);
        }
        scratch(offset).map(|at| self.scratch[at])
    }

    /// Writes the byte at `offset`, if it is one of these; false if not.
    pub(super) fn write(&mut self, offset: u16, byte: u8) -> bool {
        if let Some((n, at)) = bar(offset) {
            let mut bytes = self.values[n].to_le_bytes();
            bytes[at] = byte;
            self.values[n] = u32::from_le_bytes(bytes) & self.masks[n];
        } else if let Some(at) = scratch(offset) {
            self.scratch[at] = byte;
        } else {
            return ROM.contains(&offset);
        }
        true
    }
}

/// Which BAR the byte at `offset` belongs to, and which of its bytes it is.
fn bar(offset: u16) -> Option<(usize, usize)> {
    let at = usize::from(offset.checked_sub(BARS.start)?);
    BARS.contains(&offset).then_some((at / 4, at % 4))
}

fn scratch(offset: u16) -> Option<usize> {
    let mut all = SCRATCH.into_iter().flatten();
    all.position(|place| place == offset)
}

/// Low and high 32 bits.
fn halves(value: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    (
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    )
}

#[cfg(test)]
mod test {
    use super::*;

    fn write32(header: &mut Header, offset: u16, value: u32) {
        for (at, byte) in (offset..).zip(value.to_le_bytes()) {
            assert!(header.write(at, byte));
        }
    }

    fn read32(header: &Header, offset: u16) -> u32 {
        let bytes: Vec<u8> = (offset..offset + 4)
            .map(|at| header.read(at).unwrap())
            .collect();
        u32::from_le_bytes(bytes.try_into().unwrap())
    }

    #[test]
    fn bars_are_sized_by_writing_ones_and_keep_addresses() {
        let shown = [0xfe00_0000, 0xc001, 0xfe00_000c, 0, 0, 0];
        let lens = [Some(0x2_0000), Some(32), Some(0x4000), None, None, None];
        let mut header = Header::new(shown, lens);
        assert_eq!(read32(&header, 0x10), 0, "nothing is placed yet");
        for n in 0..6 {
            write32(&mut header, 0x10 + 4 * n, u32::MAX);
        }
        let sizes: Vec<u32> = (0..6).map(|n| read32(&header, 0x10 + 4 * n)).collect();
        let expected = [0xfffe_0000, 0xffff_ffe1, 0xffff_c00c, u32::MAX, 0, 0];
        assert_eq!(sizes, expected);
        write32(&mut header, 0x10, 0xfebc_0000);
        assert_eq!(read32(&header, 0x10), 0xfebc_0000);
    }

    #[test]
    fn softwares_own_bytes_are_kept_and_there_is_no_rom() {
        let mut header = Header::new([0; 6], [None; 6]);
        assert!(header.write(0x3c, 11) && header.write(0x0c, 16));
        assert_eq!((header.read(0x3c), header.read(0x0c)), (Some(11), Some(16)));
        write32(&mut header, 0x30, u32::MAX);
        assert_eq!(read32(&header, 0x30), 0);
        assert_eq!(header.read(0x04), None);
        assert!(
            !header.write(0x04, 7),
            "the command register is the model's"
        );
    }
}
