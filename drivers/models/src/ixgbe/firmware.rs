//! What a driver asks the firmware of an X550 for: words of the EEPROM, through the host
//! interface (X550 §8.2.4.2; the commands are those that public drivers send).

use super::Ixgbe;
use super::bits::reg;
use super::options::Kind;

/// `HICR`: there is firmware; a command is there; the answer is valid.
const ENABLED: u32 = 1 << 0;
const COMMAND: u32 = 1 << 1;
const VALID: u32 = 1 << 2;
/// Commands: read and write words; whose driver it is.
const READ: u32 = 0x31;
const WRITE: u32 = 0x33;
/// Where the words of an answer begin.
const DATA: u32 = 12;
/// Words that fit.
const MOST: u32 = 256;

impl Ixgbe {
    /// `HICR` is read.
    pub(super) fn host_interface(&self) -> u32 {
        let on = if self.kind == Kind::X550 { ENABLED } else { 0 };
        self.registers.get(reg::HICR) & !(COMMAND | ENABLED) | on
    }

    /// `HICR` is written: the command in the memory is carried out at once.
    pub(super) fn write_host_interface(&mut self, value: u32) {
        let runs = value & COMMAND != 0 && self.kind == Kind::X550;
        self.registers
            .set(reg::HICR, value & !COMMAND | if runs { VALID } else { 0 });
        if !runs {
            return;
        }
        let header = self.registers.get(reg::FLEX_MNG);
        let address = self.registers.get(reg::FLEX_MNG + 4).swap_bytes() / 2;
        let [a, b, ..] = self.registers.get(reg::FLEX_MNG + 8).to_le_bytes();
        let words = (u32::from(u16::from_be_bytes([a, b])) / 2).min(MOST);
        match header & 0xff {
            READ => {
                for n in 0..words {
                    let word = u32::from(self.eeprom.word(address + n));
                    let at = reg::FLEX_MNG + DATA + n / 2 * 4;
                    let kept = if n % 2 == 0 {
                        0
                    } else {
                        self.registers.get(at) & 0xffff
                    };
                    self.registers.set(at, kept | word << (n % 2 * 16));
                }
            }
            WRITE => {
                let word = self.registers.get(reg::FLEX_MNG + DATA) & 0xffff;
                self.eeprom.start_write(word << 16 | address << 2 | 1);
            }
            // Others are taken, and mean nothing here.
            _ => {}
        }
        // Status: done.
        self.registers
            .set(reg::FLEX_MNG, header & 0xff00_ffff | 1 << 16);
    }
}
