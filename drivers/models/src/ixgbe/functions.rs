//! The virtual functions of a physical one, as far as it sees them: their ends of the mailboxes,
//! and their resets (82599 §7.10.2.9, §8.2.3.27.25 to §8.2.3.27.30).

use super::Ixgbe;
use super::bits::{cause, reg};

/// Of a virtual function: control with its reset, the mailbox's words, its register.
const VFCTRL: u32 = 0x0;
const VFMBMEM: u32 = 0x200;
const VFMAILBOX: u32 = 0x2fc;
const RESET: u32 = 1 << 26;

impl Ixgbe {
    /// Virtual function `number` (of 64) reads `VFMAILBOX` or a word of `VFMBMEM`; 0 of anything
    /// else. For whoever plays that function beside a driver of the physical one.
    pub fn read_as_vf(&mut self, number: usize, offset: u32) -> u32 {
        let Some(mailbox) = self.mailboxes.get_mut(number) else {
            return 0;
        };
        let result = match offset {
            VFMAILBOX => Ok(mailbox.read_vf()),
            VFMBMEM..0x240 => mailbox.load_vf((offset - VFMBMEM) as usize / 4),
            _ => Ok(0),
        };
        result.unwrap_or_else(|sentence| {
            self.objections.raise(sentence);
            0
        })
    }

    /// Virtual function `number` (of 64) writes `VFMAILBOX`, a word of `VFMBMEM`, or a reset to
    /// `VFCTRL`. What the physical one is told of interrupts it (`EICR.MAILBOX`), if `PFMBIMR`
    /// lets it.
    pub fn write_as_vf(&mut self, number: usize, offset: u32, value: u32) {
        let Some(mailbox) = self.mailboxes.get_mut(number) else {
            return;
        };
        let result = match offset {
            VFMAILBOX => mailbox.write_vf(value),
            VFMBMEM..0x240 => mailbox.store_vf((offset - VFMBMEM) as usize / 4, value),
            _ => Ok(()),
        };
        let told = offset == VFMAILBOX && (mailbox.request || mailbox.acknowledged);
        let resets = offset == VFCTRL && value & RESET != 0;
        if resets {
            mailbox.release_vf();
        }
        self.judge(result);
        let function = u32::try_from(number).expect("one of 64");
        let (word, bit) = (function / 32, 1 << (function % 32));
        if resets {
            let shown = if word == 0 { reg::VFLRE0 } else { reg::VFLRE1 };
            let before = self.registers.get(shown);
            self.registers.set(shown, before | bit);
        }
        let at = reg::PFMBIMR + function / 16 * 4;
        let lets = self.registers.get(at) >> (function % 16) & 0x1_0001 != 0;
        if resets || told && lets {
            self.interrupts.raise(cause::MAILBOX);
            self.send_interrupts();
        }
    }
}
