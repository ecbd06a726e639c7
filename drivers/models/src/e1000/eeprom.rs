//! The EEPROM: read word by word (`EERD`), or bit by bit over its four wires (`EECD`).

use super::options::Kind;
use crate::Mac;

const WORDS: usize = 64;
/// The last word makes the sum of all come out as this (82540 §5.6.35).
const SUM: u16 = 0xbaba;

/// `EECD` (82540 §13.4.3).
const CLOCK: u32 = 1 << 0;
const SELECT: u32 = 1 << 1;
const DATA_IN: u32 = 1 << 2;
const DATA_OUT: u32 = 1 << 3;
const REQUEST: u32 = 1 << 6;
const GRANT: u32 = 1 << 7;
const PRESENT: u32 = 1 << 8;
/// Everything that is read from it by the device itself has been.
const AUTO_READ: u32 = 1 << 9;
/// What a driver may write.
const DRIVERS: u32 = CLOCK | SELECT | DATA_IN | REQUEST | 0x30;

/// `EERD`: start a read.
const START: u32 = 1;

/// The EEPROM and the two registers in front of it.
pub(super) struct Eeprom {
    kind: Kind,
    words: [u16; WORDS],
    control: u32,
    read: u32,
    wire: Wire,
}

/// The serial interface: what came in since it was selected, and what goes out.
#[derive(Default)]
struct Wire {
    command: u32,
    bits: u32,
    out: Option<(u16, u32)>,
}

impl Eeprom {
    pub(super) fn new(kind: Kind, device_id: u16, mac: Mac) -> Self {
        let mut words = [0; WORDS];
        let pairs = mac.chunks_exact(2);
        for (word, pair) in words.iter_mut().zip(pairs) {
            *word = u16::from_le_bytes([pair[0], pair[1]]);
        }
        words[3] = 0x0420;
        words[0xa] = 0x4408;
        (words[0xb], words[0xc]) = (0, 0x8086);
        words[0xd] = device_id;
        words[0xe] = 0x8086;
        words[0xf] = 0x3040;
        let sum = words
            .iter()
            .fold(0, |sum: u16, &word| sum.wrapping_add(word));
        words[WORDS - 1] = SUM.wrapping_sub(sum);
        Self {
            kind,
            words,
            control: 0,
            read: 0,
            wire: Wire::default(),
        }
    }

    pub(super) fn reset(&mut self) {
        (self.control, self.read) = (0, 0);
        self.wire = Wire::default();
    }

    /// `EECD` is read.
    pub(super) fn control(&self) -> u32 {
        let mut value = self.control | PRESENT;
        if self.control & REQUEST != 0 {
            value |= GRANT;
        }
        if self.kind != Kind::E1000 {
            value |= AUTO_READ;
        }
        let high = match self.wire.out {
            Some((word, left)) => left < 16 && word >> left & 1 == 1,
            // Nothing drives the wire: it is pulled up.
            None => true,
        };
        if high {
            value |= DATA_OUT;
        }
        value
    }

    /// What `EECD` shows while a reset goes on.
    pub(super) fn control_in_reset() -> u32 {
        PRESENT
    }

    /// `EECD` is written: with the wires moved by hand, a microwire EEPROM of 6 address bits
    /// (82540 §5.2): start bit, two of operation, six of address, then 16 bits come out.
    pub(super) fn set_control(&mut self, value: u32) {
        let before = self.control;
        self.control = value & DRIVERS;
        if value & SELECT == 0 {
            return;
        }
        if before & SELECT == 0 {
            self.wire = Wire::default();
        }
        let rises = value & CLOCK != 0 && before & CLOCK == 0;
        if rises {
            self.wire.clock(value & DATA_IN != 0, &self.words);
        }
    }

    /// `EERD` is read.
    pub(super) fn read_register(&self) -> u32 {
        self.read
    }

    /// `EERD` is written: the word is there at the next read. Where the address and the done bit
    /// are depends on the device.
    pub(super) fn start_read(&mut self, value: u32) -> Result<(), String> {
        if value & START == 0 {
            self.read = value;
            return Ok(());
        }
        let (shift, mask, done) = if self.kind == Kind::E1000 {
            (8, 0xff, 1 << 4)
        } else {
            (2, 0x3fff, 1 << 1)
        };
        let address = value >> shift & mask;
        let word = usize::try_from(address)
            .ok()
            .and_then(|address| self.words.get(address));
        self.read = u32::from(word.copied().unwrap_or(0xffff)) << 16 | address << shift | done;
        if word.is_some() {
            Ok(())
        } else {
            Err(format!(
                "read of word {address} of an EEPROM of {WORDS} words"
            ))
        }
    }
}

impl Wire {
    fn clock(&mut self, bit: bool, words: &[u16; WORDS]) {
        if let Some((_, left)) = &mut self.out {
            *left = left.saturating_sub(1);
            return;
        }
        self.command = self.command << 1 | u32::from(bit);
        self.bits += 1;
        // Zeros before the start bit do not count.
        if self.command == 0 {
            self.bits = 0;
        }
        if self.bits == 9 && self.command >> 6 == 0b110 {
            let address = usize::try_from(self.command & 0x3f).unwrap_or(0);
            // A zero comes first.
            self.out = Some((words[address], 16));
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const MAC: Mac = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

    #[test]
    fn both_layouts_give_the_address_and_a_sum_that_is_right() {
        for (kind, shift, done) in [(Kind::E1000, 8, 0x10), (Kind::E1000e, 2, 2)] {
            let mut eeprom = Eeprom::new(kind, 0, MAC);
            let words: Vec<u16> = (0..64)
                .map(|address| {
                    eeprom.start_read(address << shift | 1).unwrap();
                    let value = eeprom.read_register();
                    assert_eq!(value & 0xffff, address << shift | done);
                    u16::try_from(value >> 16).unwrap()
                })
                .collect();
            assert_eq!(words[..3], [0x5452, 0x1200, 0x5634]);
            let sum = words
                .iter()
                .fold(0, |sum: u16, &word| sum.wrapping_add(word));
            assert_eq!(sum, 0xbaba);
            assert!(eeprom.start_read(64 << shift | 1).is_err());
        }
    }

    #[test]
    fn a_word_can_be_clocked_out_by_hand() {
        let mut eeprom = Eeprom::new(Kind::E1000, 0, MAC);
        eeprom.set_control(REQUEST);
        assert!(eeprom.control() & GRANT != 0);
        for bit in [1, 1, 0, 0, 0, 0, 0, 1, 0] {
            let value = REQUEST | SELECT | (bit * DATA_IN);
            eeprom.set_control(value);
            eeprom.set_control(value | CLOCK);
        }
        let mut word = 0;
        for _ in 0..16 {
            eeprom.set_control(REQUEST | SELECT);
            eeprom.set_control(REQUEST | SELECT | CLOCK);
            word = word << 1 | u32::from(eeprom.control() & DATA_OUT != 0);
        }
        assert_eq!(word, 0x5634);
    }
}
