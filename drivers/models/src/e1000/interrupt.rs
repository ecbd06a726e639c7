//! Interrupts: causes, masks, and what is sent (82540 §13.4.17, 82574 §7.4 and §10.2.4, 82576 §7.3).
//!
//! Every device has causes (`ICR`) and a mask (`IMS`). Without MSI-X the line of INTx is high while
//! a cause is asked for. With it (the 82574 and later), causes are led to vectors: on the 82574
//! those of queues have bits of their own in `ICR`, and all others one, and `IVAR` says which
//! vector each takes; on the 82576 queues set bits of `EICR`, where `IVAR` says, and the causes that
//! are asked for set one together (`IVAR_MISC`). A vector that is sent may clear its cause
//! (`EIAC`) and mask itself (`EIAM`, the 82574's `IAM`).

use super::E1000;
use super::bits::{cause, reg};
use super::options::Kind;
use super::queue::Side;
use crate::counters::DeviceCounts;

const CTRL_EXT: u32 = 0x18;
/// `CTRL_EXT` of the 82574: a vector that is sent masks what `IAM` says.
const EIAME: u32 = 1 << 24;
/// `CTRL_EXT`: a read of `ICR` masks what `IAM` says.
const IAME: u32 = 1 << 27;
const IAM: u32 = 0xe0;
const EIAC_82574: u32 = 0xdc;
const IVAR_82574: u32 = 0xe4;
/// `GPIE` of the 82576: the same as `CTRL_EXT.EIAME`.
const GPIE: u32 = 0x1514;
const GPIE_EIAME: u32 = 1 << 30;
const EIAC: u32 = 0x152c;
const EIAM: u32 = 0x1530;
const IVAR_MISC: u32 = 0x1740;
/// An allocation of a vector holds.
const VALID: u32 = 0x80;

/// The 82574's causes that have vectors: two queues each way, and everything else. Their numbers
/// are the order of their allocations in `IVAR`.
const FIRST_VECTOR_CAUSE: u32 = 20;
const VECTOR_CAUSES: u32 = 5;
const OTHER: u32 = 1 << 24;
const LED: u32 = 0x1f << FIRST_VECTOR_CAUSE;

/// Each bit of `bits` that is set.
fn numbers(bits: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |n| bits >> n & 1 == 1)
}

impl E1000 {
    /// Adds causes of interrupts, and sends what is asked for.
    pub(super) fn raise(&mut self, causes: u32) {
        let vectors = self.pci.has_vectors();
        let mut causes = causes;
        if vectors && self.kind == Kind::E1000e && causes & !LED != 0 {
            causes |= OTHER;
        }
        let old = self.registers.get(reg::ICR);
        self.registers.set(reg::ICR, old | causes);
        match self.kind {
            Kind::E1000e if vectors => self.send_causes(causes),
            Kind::Igb if vectors => {
                if self.registers.has(reg::IMS, causes) {
                    self.raise_allocated(self.registers.get(IVAR_MISC) >> 8);
                }
            }
            _ => self.update_line(),
        }
    }

    /// Adds the cause that a queue's interrupts are led to.
    pub(super) fn raise_queue(&mut self, side: Side, queue: u32) {
        let is_tx = u32::from(side == Side::Tx);
        let entry = match self.kind {
            Kind::E1000 => return,
            Kind::E1000e => {
                if self.pci.has_vectors() {
                    self.raise(1 << (FIRST_VECTOR_CAUSE + 2 * is_tx + queue));
                }
                return;
            }
            Kind::IgbVf => queue * 2,
            Kind::Igb if queue < 8 => queue * 4,
            Kind::Igb => (queue - 8) * 4 + 2,
        } + is_tx;
        let row = self.registers.get(reg::IVAR0 + entry / 4 * 4);
        self.raise_allocated(row >> (entry % 4 * 8));
    }

    /// A virtual function's mailbox wants an interrupt.
    pub(super) fn raise_mailbox(&mut self) {
        self.raise_allocated(self.registers.get(IVAR_MISC));
    }

    /// Adds the extended cause that the low byte of `allocation` names.
    fn raise_allocated(&mut self, allocation: u32) {
        if allocation & VALID != 0 {
            self.raise_extended(1 << (allocation & 0x1f));
        }
    }

    /// Adds extended causes, and sends those that are asked for. They are sent again where nobody
    /// took them away.
    fn raise_extended(&mut self, bits: u32) {
        let old = self.registers.get(reg::EICR);
        self.registers.set(reg::EICR, old | bits);
        if self.pci.has_vectors() {
            self.send_extended(bits);
        } else if self.registers.has(reg::EIMS, bits & !old) {
            self.count_interrupt();
        }
    }

    fn send_extended(&mut self, bits: u32) {
        let masks_itself = self.kind == Kind::IgbVf || self.registers.has(GPIE, GPIE_EIAME);
        for n in numbers(bits & self.registers.get(reg::EIMS)) {
            self.send(n);
            let (clears, masks) = (self.registers.get(EIAC), self.registers.get(EIAM));
            self.take_away(reg::EICR, clears & 1 << n);
            if masks_itself {
                self.take_away(reg::EIMS, masks & 1 << n);
            }
        }
    }

    /// The 82574's vectors.
    fn send_causes(&mut self, causes: u32) {
        let allocations = self.registers.get(IVAR_82574);
        for n in 0..VECTOR_CAUSES {
            let bit = 1 << (FIRST_VECTOR_CAUSE + n);
            let allocation = allocations >> (4 * n);
            if causes & bit == 0 || !self.registers.has(reg::IMS, bit) || allocation & 8 == 0 {
                continue;
            }
            self.send(allocation & 7);
            let (clears, masks) = (self.registers.get(EIAC_82574), self.registers.get(IAM));
            self.take_away(reg::ICR, clears & bit);
            if self.registers.has(CTRL_EXT, EIAME) {
                self.take_away(reg::IMS, masks & bit);
            }
        }
    }

    fn send(&mut self, vector: u32) {
        self.count_interrupt();
        if let Ok(vector) = u16::try_from(vector) {
            self.outlet.message(vector);
        }
    }

    /// Writes a register of causes or masks; false if that is none.
    pub(super) fn write_interrupts(&mut self, offset: u32, value: u32) -> bool {
        match offset {
            reg::ICR => self.take_away(reg::ICR, value),
            reg::ICS => self.raise(value & !cause::ASSERTED),
            reg::IMS => self.unmask(value),
            reg::IMC => self.take_away(reg::IMS, value),
            reg::EICR => self.take_away(reg::EICR, value),
            reg::EICS => self.raise_extended(value),
            reg::EIMS => self.unmask_extended(value),
            reg::EIMC => self.take_away(reg::EIMS, value),
            _ => return false,
        }
        self.update_line();
        true
    }

    /// More causes are asked for; what waits already is sent.
    fn unmask(&mut self, causes: u32) {
        let old = self.registers.get(reg::IMS);
        self.registers.set(reg::IMS, old | causes);
        let waiting = self.registers.get(reg::ICR) & causes;
        match self.kind {
            Kind::E1000e if self.pci.has_vectors() => self.send_causes(waiting),
            Kind::Igb if self.pci.has_vectors() => {
                if waiting & !old != 0 {
                    self.raise_allocated(self.registers.get(IVAR_MISC) >> 8);
                }
            }
            _ => self.update_line(),
        }
    }

    /// The same for extended causes.
    fn unmask_extended(&mut self, bits: u32) {
        let old = self.registers.get(reg::EIMS);
        self.registers.set(reg::EIMS, old | bits);
        if self.pci.has_vectors() {
            self.send_extended(self.registers.get(reg::EICR) & bits);
        }
    }

    /// `ICR` is read: the causes, and whether they are why the line is high. That clears them.
    pub(super) fn take_causes(&mut self) -> u32 {
        let causes = self.registers.get(reg::ICR);
        let is_asked = self.registers.has(reg::IMS, causes);
        self.registers.set(reg::ICR, 0);
        if is_asked && self.kind != Kind::E1000 && self.registers.has(CTRL_EXT, IAME) {
            self.take_away(reg::IMS, self.registers.get(IAM));
        }
        self.update_line();
        causes | if is_asked { cause::ASSERTED } else { 0 }
    }

    /// Clears bits of a register.
    fn take_away(&mut self, register: u32, bits: u32) {
        let old = self.registers.get(register);
        self.registers.set(register, old & !bits);
    }

    /// The line is high while a cause is asked for, unless messages take its place or the command
    /// register has it off.
    pub(super) fn update_line(&mut self) {
        let is_asked = self.registers.has(reg::IMS, self.registers.get(reg::ICR));
        if self.outlet.set_line(is_asked && self.pci.has_line()) {
            self.count_interrupt();
        }
    }

    fn count_interrupt(&self) {
        self.counters.add(&DeviceCounts {
            interrupts: 1,
            ..DeviceCounts::default()
        });
    }
}
