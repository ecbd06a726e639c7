//! The physical function's end of the mailboxes, as far as an 82576 without virtual functions
//! shows it (82576 §8.14): who holds the memory, what is announced, what is cleared by being
//! written.

use super::E1000;
use super::bits::reg;

const P2VMAILBOX: u32 = 0xc00;
const MBVFICR: u32 = 0xc80;
const VFLRE: u32 = 0xc88;
const CTRL_EXT: u32 = 0x18;
/// Virtual functions that could be.
const FUNCTIONS: u32 = 8;

/// Bits of the physical function's register.
const STS: u32 = 1 << 0;
const ACK: u32 = 1 << 1;
const PFU: u32 = 1 << 3;
const RVFU: u32 = 1 << 4;
/// Bits of the virtual function's one.
const VFU: u32 = 1 << 2;
const PFSTS: u32 = 1 << 4;
const PFACK: u32 = 1 << 5;
const RSTI: u32 = 1 << 6;
const RSTD: u32 = 1 << 7;
/// `CTRL_EXT`: the physical function says that its reset is over.
const PFRSTD: u32 = 1 << 14;

impl E1000 {
    /// As after a reset: every virtual function sees one going on.
    pub(super) fn reset_mailboxes(&mut self) {
        for function in 0..FUNCTIONS {
            self.registers.set(reg::V2PMAILBOX + 4 * function, RSTI);
        }
    }

    /// Writes a register of the mailboxes' control; false if that is none.
    pub(super) fn write_mailboxes(&mut self, offset: u32, value: u32) -> bool {
        match offset {
            MBVFICR | VFLRE => {
                let left = self.registers.get(offset) & !value;
                self.registers.set(offset, left);
            }
            CTRL_EXT if value & PFRSTD != 0 => {
                for function in 0..FUNCTIONS {
                    let at = reg::V2PMAILBOX + 4 * function;
                    let seen = self.registers.get(at) & !RSTI | RSTD;
                    self.registers.set(at, seen);
                }
                return false;
            }
            P2VMAILBOX..0xc20 => self.write_mailbox((offset - P2VMAILBOX) / 4, value),
            reg::V2PMAILBOX..0xc60 => {
                self.object(format!(
                    "register {offset:#x} of a virtual function written by the physical one"
                ));
            }
            reg::VMBMEM..0xa00 => {
                let function = (offset - reg::VMBMEM) / 64;
                if !self.registers.has(P2VMAILBOX + 4 * function, PFU) {
                    self.object("mailbox written without being held (PFU)");
                }
                return false;
            }
            _ => return false,
        }
        true
    }

    fn write_mailbox(&mut self, function: u32, value: u32) {
        let (own, other) = (P2VMAILBOX + 4 * function, reg::V2PMAILBOX + 4 * function);
        if value & !(STS | ACK | PFU | RVFU) != 0 {
            self.object(format!("mailbox register written with {value:#x}"));
        }
        let (mut mine, mut theirs) = (self.registers.get(own), self.registers.get(other));
        if value & (STS | ACK) != 0 && mine & PFU == 0 {
            self.object("mailbox given away that was not held (PFU)");
        }
        if value & RVFU != 0 {
            theirs &= !VFU;
            let pending = self.registers.get(MBVFICR) & !(0x1_0001 << function);
            self.registers.set(MBVFICR, pending);
        }
        // Held by one of them only.
        let held = value & PFU != 0 && theirs & VFU == 0;
        mine = if held { PFU } else { 0 };
        theirs = theirs & !PFU | mine;
        theirs |= if value & STS != 0 { PFSTS } else { 0 };
        theirs |= if value & ACK != 0 { PFACK } else { 0 };
        self.registers.set(own, mine);
        self.registers.set(other, theirs);
    }
}
