//! The EEPROM, read and written word by word (`EERD`, `EEWR`; 82599 §6, §8.2.3.2).

use super::options::Kind;
use crate::Mac;

/// Words that `EEC.SIZE` tells of.
const WORDS: usize = 1024;
/// `EEC` (§8.2.3.2.1): present, size (words as a power of two, from 64 on), read by the device.
const PRESENT: u32 = 1 << 8;
pub(super) const AUTO_READ: u32 = 1 << 9;
const SIZE: u32 = 4 << 11;
/// `EEC` of X540 on: the copy in flash is up to date.
const FLASH_DONE: u32 = 1 << 26;
/// What a driver may set there: to be asked, and granted.
const REQUEST: u32 = 1 << 6;
const GRANT: u32 = 1 << 7;
/// `EERD`, `EEWR`: go, and done.
const START: u32 = 1 << 0;
const DONE: u32 = 1 << 1;
/// Words 0 to 3Eh and this one come out as the sum (§6.3.9); on X550 the two words behind it count
/// too (as Linux's ixgbe has it).
const CHECKSUM: usize = 0x3f;
const LAST_OF_X550: usize = 0x41;
const SUM: u16 = 0xbaba;

/// The EEPROM and the registers in front of it.
pub(super) struct Eeprom {
    kind: Kind,
    words: Vec<u16>,
    control: u32,
    read: u32,
    written: u32,
}

impl Eeprom {
    pub(super) fn new(kind: Kind, mac: Mac) -> Self {
        let mut words = vec![0xffff; WORDS];
        words[..CHECKSUM].fill(0);
        // Pointers, words 3 to 0eh: no part has a section of its own here.
        words[0x10] = 0x0003;
        // The board's number, in the older way.
        (words[0x15], words[0x16]) = (0xe681, 0x0700);
        words[0x18] = 0x8000;
        // What the device can: any module may be used.
        words[0x2c] = 0x0001;
        (words[0x2d], words[0x2e]) = (0x0001, 0x8000);
        // Firmware: a section with a pass-through patch of version 6 or above, as SFI devices
        // must have, and no link established by the firmware.
        words[0x0f] = 0x50;
        words[0x50..0x58].copy_from_slice(&[7, 0xffff, 0xffff, 0xffff, 0x60, 0, 0, 0]);
        words[0x60..0x68].copy_from_slice(&[7, 0, 0, 0, 0, 0, 0, 6]);
        // Modules: short and long range, and cables, with one setting of the analog part each.
        words[0x2b] = 0x70;
        words[0x70..0x76].copy_from_slice(&[2, 5, 0x80, 3, 0x80, 0xffff]);
        words[0x80..0x83].copy_from_slice(&[1, 0x2c10, 0xffff]);
        // The address is in the section of the first port.
        for (word, pair) in words[0x90..].iter_mut().zip(mac.chunks_exact(2)) {
            *word = u16::from_le_bytes([pair[0], pair[1]]);
        }
        let behind = match kind {
            Kind::X550 => &words[CHECKSUM + 1..=LAST_OF_X550],
            Kind::I82599 | Kind::X540 => &[],
        };
        let sum = words[..CHECKSUM]
            .iter()
            .chain(behind)
            .fold(0, |sum: u16, &word| sum.wrapping_add(word));
        words[CHECKSUM] = SUM.wrapping_sub(sum);
        Self {
            kind,
            words,
            control: 0,
            read: 0,
            written: 0,
        }
    }

    pub(super) fn reset(&mut self) {
        (self.control, self.read, self.written) = (0, 0, 0);
    }

    /// A word, for the firmware's interface.
    pub(super) fn word(&self, address: u32) -> u16 {
        let word = self.words.get(address as usize);
        word.copied().unwrap_or(0xffff)
    }

    /// `EEC` is read; `is_read`: the device has read its settings.
    pub(super) fn control(&self, is_read: bool) -> u32 {
        let mut value = self.control | PRESENT | SIZE;
        if self.control & REQUEST != 0 {
            value |= GRANT;
        }
        if is_read {
            value |= AUTO_READ;
        }
        if self.kind != Kind::I82599 {
            value |= FLASH_DONE;
        }
        value
    }

    pub(super) fn set_control(&mut self, value: u32) {
        self.control = value & (REQUEST | 0x3f);
    }

    pub(super) fn read_register(&self) -> u32 {
        self.read
    }

    pub(super) fn write_register(&self) -> u32 {
        self.written
    }

    /// `EERD` is written: the word is there at the next read.
    pub(super) fn start_read(&mut self, value: u32) -> Result<(), String> {
        let address = value >> 2 & 0x3fff;
        self.read = u32::from(self.word(address)) << 16 | address << 2 | DONE;
        if value & START == 0 {
            return Err("EERD written without START".into());
        }
        if address as usize >= WORDS {
            return Err(format!(
                "read of word {address} of an EEPROM of {WORDS} words"
            ));
        }
        Ok(())
    }

    /// `EEWR` is written (X540's shadow memory; an 82599 writes through).
    pub(super) fn start_write(&mut self, value: u32) {
        let address = value >> 2 & 0x3fff;
        let [_, _, a, b] = value.to_le_bytes();
        if let Some(word) = self.words.get_mut(address as usize) {
            *word = u16::from_le_bytes([a, b]);
        }
        self.written = value & !START | DONE;
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn read(eeprom: &mut Eeprom, address: u32) -> u16 {
        eeprom.start_read(address << 2 | 1).unwrap();
        let value = eeprom.read_register();
        assert_eq!(value & 0xffff, address << 2 | 2);
        u16::try_from(value >> 16).unwrap()
    }

    #[test]
    fn the_words_that_a_driver_checks_come_out_right() {
        for (kind, end) in [(Kind::I82599, 0x40), (Kind::X540, 0x40), (Kind::X550, 0x42)] {
            let mut eeprom = Eeprom::new(kind, [2, 0, 0, 0, 0, 1]);
            let sum = (0..end).fold(0u16, |sum, at| sum.wrapping_add(read(&mut eeprom, at)));
            assert_eq!(sum, 0xbaba, "{kind:?}");
        }
        let mut eeprom = Eeprom::new(Kind::I82599, [2, 0, 0, 0, 0, 1]);
        // Sections that words 3 to 0eh lead to would count too (Linux's ixgbe looks for them).
        assert!((3..0xf).all(|at| read(&mut eeprom, at) == 0));
        let firmware = u32::from(read(&mut eeprom, 0x0f));
        let patch = u32::from(read(&mut eeprom, firmware + 4));
        assert!(
            read(&mut eeprom, patch + 7) > 5,
            "firmware of an SFI device"
        );
        let list = u32::from(read(&mut eeprom, 0x2b));
        assert_eq!(read(&mut eeprom, list + 1), 5, "short range, first port");
        assert!(eeprom.start_read(1024 << 2 | 1).is_err());
    }
}
