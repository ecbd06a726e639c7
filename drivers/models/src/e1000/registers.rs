//! Reads and writes of registers.

use super::E1000;
use super::bits::{RFCTL_EXTEN, ctrl, rctl, reg, ring, status, tctl};
use super::options::Kind;
use super::pci::REGISTERS;
use super::queue::{Side, locate};
use super::stats::Stats;
use super::table::Span;
use crate::faults::Fault;

/// A software semaphore is taken by being read (82574 §10.2.8.17).
const SMBI: u32 = 1;
/// Reserved in the receive control of every device; then what single ones have not.
const RCTL_RESERVED: u32 = 1 << 0 | 1 << 14 | 1 << 24 | 1 << 31;
const RCTL_NOT_82540: u32 = 1 << 21;
const RCTL_NOT_82576: u32 = rctl::BSEX | 0xf << 27;
const TCTL_RESERVED: u32 = 1 << 0 | 1 << 2;
/// An address register's "select": 0 is the destination.
const ADDRESS_SELECT: u32 = 3 << 16;
/// What an address register's upper half keeps: address, select, valid; and a 82576's pools (82540
/// §13.5.2, 82576 §8.10.15; the tests of Linux's `ethtool -t`).
const ADDRESS_KEPT: u32 = 0x8003_ffff;
const ADDRESS_KEPT_82576: u32 = 0x83ff_ffff;

impl E1000 {
    /// The register that an access of a window leads to; None if it leads to none, which is said
    /// unless it is the I/O window's own.
    pub(super) fn register_at(&self, index: u8, offset: u32, width: u8, what: &str) -> Option<u32> {
        if !self.pci.decodes(index) {
            self.object(format!(
                "{what} BAR {index}, which the command register has off"
            ));
            return None;
        }
        if width != 4 {
            self.object(format!(
                "{what} {width} bytes at {offset:#x}: registers have 4"
            ));
            return None;
        }
        if index == REGISTERS {
            return Some(offset);
        }
        match offset {
            0 => None,
            4 if self.io_address.is_multiple_of(4) && self.io_address < 0x2_0000 => {
                Some(self.io_address)
            }
            _ => {
                self.object(format!("{what} the I/O window at {offset:#x}"));
                None
            }
        }
    }

    pub(super) fn read_register(&mut self, offset: u32) -> u32 {
        if let Some(value) = self.in_reset(offset, true) {
            return value;
        }
        if let Some((side, queue, register)) = locate(self.kind, self.queue_count(), offset) {
            return self.read_queue(side, queue, register);
        }
        if Stats::covers(self.kind, offset) {
            return self.stats.read(offset).unwrap_or_else(|sentence| {
                self.objections.raise(sentence);
                0
            });
        }
        if self.registers.span(offset).is_none() {
            self.object(format!(
                "read of {offset:#x}, where the device has no register"
            ));
            return 0;
        }
        match offset {
            reg::CTRL | reg::CTRL_DUP => self.registers.get(reg::CTRL),
            reg::STATUS => self.status(),
            reg::EECD => self.eeprom.control(),
            reg::EERD => self.eeprom.read_register(),
            reg::MDIC => self.phy.read(),
            reg::ICR => self.take_causes(),
            reg::ICS => self.registers.get(reg::ICR),
            reg::EICR => {
                let value = self.registers.get(reg::EICR);
                self.registers.set(reg::EICR, 0);
                value
            }
            reg::IMC | reg::EICS | reg::EIMC => {
                self.object(format!("read of register {offset:#x}, which is write-only"));
                0
            }
            reg::SWSM => {
                let value = self.registers.get(reg::SWSM);
                self.registers.set(reg::SWSM, value | SMBI);
                value
            }
            _ if self.kind == Kind::IgbVf => self.read_vf(offset),
            _ => self.registers.get(offset),
        }
    }

    fn read_vf(&mut self, offset: u32) -> u32 {
        let Some(side) = &mut self.vf else { return 0 };
        let result = match (offset, mailbox_word(offset)) {
            (reg::V2PMAILBOX, _) => Ok(side.read(&self.faults)),
            (_, Some(word)) => side.load(word),
            _ => Ok(self.registers.get(offset)),
        };
        result.unwrap_or_else(|sentence| {
            self.objections.raise(sentence);
            0
        })
    }

    fn read_queue(&mut self, side: Side, queue: u32, register: u32) -> u32 {
        if register == ring::TAIL {
            return self.tails.get(side, queue);
        }
        let untrue = register == ring::HEAD && self.faults.strikes(Fault::IndexOutOfRange);
        let Some(queue) = self.queue_mut(side, queue) else {
            return 0;
        };
        if untrue {
            return queue.slots() + 7;
        }
        queue.read(register)
    }

    pub(super) fn write_register(&mut self, offset: u32, value: u32) {
        if self.in_reset(offset, false).is_some() {
            return;
        }
        if let Some((side, queue, register)) = locate(self.kind, self.queue_count(), offset) {
            self.write_queue(side, queue, register, value);
            return;
        }
        let Some(span) = self.registers.span(offset) else {
            let what = if Stats::covers(self.kind, offset) {
                "a statistics register, which is read-only"
            } else {
                "where the device has no register"
            };
            self.object(format!("write to {offset:#x}, {what}"));
            return;
        };
        if self.kind == Kind::Igb && self.write_mailboxes(offset, value) {
            return;
        }
        if self.write_interrupts(offset, value) {
            return;
        }
        match offset {
            reg::CTRL | reg::CTRL_DUP => self.write_ctrl(value),
            reg::STATUS if self.kind == Kind::Igb => {
                let kept = self.registers.get(reg::STATUS) & value & status::PHYRA;
                self.registers.set(reg::STATUS, kept);
            }
            reg::EECD => self.eeprom.set_control(value),
            reg::EERD => {
                let result = self.eeprom.start_read(value);
                self.judge(result);
            }
            reg::MDIC => {
                let result = self.phy.write(value);
                self.judge(result);
                self.update_link();
            }
            reg::RCTL => self.write_rctl(value),
            reg::TCTL => self.write_tctl(value),
            reg::V2PMAILBOX if self.vf.is_some() => {
                let result = self.vf.as_mut().map_or(Ok(()), |side| side.write(value));
                self.judge(result);
            }
            _ if self.vf.is_some() && mailbox_word(offset).is_some() => {
                let word = mailbox_word(offset).unwrap_or(0);
                let side = self.vf.as_mut();
                let result = side.map_or(Ok(()), |side| side.store(word, value));
                self.judge(result);
            }
            _ => self.keep(span, offset, value),
        }
    }

    /// A register that nothing hangs on, or that is looked at when it is needed, is written.
    fn keep(&mut self, span: &Span, offset: u32, value: u32) {
        let reserved = value & !span.writable;
        if reserved != 0 {
            self.object(format!(
                "{} at {offset:#x} written with {value:#x}: {reserved:#x} is reserved or read-only",
                span.name
            ));
        }
        self.check_address(span.name, offset, value);
        // Timers that are flushed by bit 31 do not keep it (82574 §10.2.5.10).
        let flushes = matches!(offset, 0x2820 | 0x2920 | 0x3820 | 0x3920);
        let kept = match self.kind {
            _ if flushes => 0xffff,
            _ if !is_address_high(span.name, offset) => span.writable,
            Kind::Igb => ADDRESS_KEPT_82576,
            _ => ADDRESS_KEPT,
        };
        self.registers.set(offset, value & kept);
        if offset == reg::MRQC {
            self.check_spreading(value);
        }
    }

    fn check_address(&self, name: &str, offset: u32, value: u32) {
        if is_address_high(name, offset) && value & ADDRESS_SELECT != 0 {
            self.object(format!(
                "address register {offset:#x} written with {value:#x}: not a destination"
            ));
        }
    }

    /// Of the ways to spread frames over queues, none and RSS are modelled.
    fn check_spreading(&self, value: u32) {
        let (mode, rss) = match self.kind {
            Kind::Igb => (value & 7, 2),
            _ => (value & 3, 1),
        };
        if mode != 0 && mode != rss {
            self.object(format!("MRQC {value:#x}: a mode that is not modelled"));
        }
    }

    fn write_ctrl(&mut self, value: u32) {
        let kept = value & !(ctrl::RST | ctrl::PHY_RST);
        if value & ctrl::RST != 0 {
            self.start_reset();
            return;
        }
        if self.kind == Kind::IgbVf {
            self.object(format!(
                "control register of a virtual function written with {value:#x}"
            ));
            return;
        }
        self.registers.set(reg::CTRL, kept);
        if value & ctrl::PHY_RST != 0 {
            self.phy.reset();
            if self.kind == Kind::Igb {
                self.registers.set(reg::STATUS, status::PHYRA);
            }
        }
        self.update_link();
    }

    fn write_rctl(&mut self, value: u32) {
        let reserved = match self.kind {
            Kind::E1000 => RCTL_RESERVED | RCTL_NOT_82540 | 0xf << 27,
            Kind::E1000e => RCTL_RESERVED | RCTL_NOT_82540,
            Kind::Igb | Kind::IgbVf => RCTL_RESERVED | RCTL_NOT_82576,
        };
        let odd = value & reserved;
        let sizes = value >> rctl::BSIZE_SHIFT & 3;
        if odd != 0 {
            self.object(format!("RCTL {value:#x}: {odd:#x} is reserved"));
        } else if value & rctl::BSEX != 0 && sizes == 0 {
            self.object(format!("RCTL {value:#x}: reserved buffer size"));
        } else if value & rctl::LBM == 2 << 6 {
            self.object(format!("RCTL {value:#x}: a reserved way of looping back"));
        } else if value & rctl::DTYP != 0 && self.kind != Kind::E1000e {
            self.object(format!("RCTL {value:#x}: packet split is not modelled"));
        } else if value & rctl::DTYP != 0 && !self.registers.has(reg::RFCTL, RFCTL_EXTEN) {
            self.object(format!(
                "RCTL {value:#x}: packet split without extended descriptors"
            ));
        }
        self.registers.set(reg::RCTL, value);
        self.set_split(value);
        if self.kind == Kind::E1000e && value & rctl::EN != 0 {
            self.check_rss();
        }
    }

    fn write_tctl(&mut self, value: u32) {
        if value & TCTL_RESERVED != 0 {
            self.object(format!("TCTL {value:#x}: reserved bits"));
        }
        let old = self.registers.get(reg::TCTL);
        self.registers.set(reg::TCTL, value);
        if value & !old & tctl::EN != 0 {
            for sender in &mut self.senders {
                *sender = super::Sender::default();
            }
        }
    }

    fn write_queue(&mut self, side: Side, index: u32, register: u32, value: u32) {
        let (kind, reads) = (self.kind, self.options.enable_reads);
        let global = match side {
            _ if kind == Kind::IgbVf => true,
            Side::Rx => self.registers.has(reg::RCTL, rctl::EN),
            Side::Tx => self.registers.has(reg::TCTL, tctl::EN),
        };
        let Some(queue) = self.queue_mut(side, index) else {
            return;
        };
        let running = global && (!kind.is_advanced() || queue.is_enabled());
        if register == ring::TAIL {
            self.write_tail(side, index, value, running);
            return;
        }
        let result = if register == ring::DCTL {
            let reads = if kind.is_advanced() { reads } else { 0 };
            queue.set_control(value, reads);
            let enabled = kind.is_advanced() && queue.is_enabled();
            if enabled && queue.slots() == 0 {
                Err(format!(
                    "{} queue {index} enabled without a ring",
                    side.name()
                ))
            } else {
                Ok(())
            }
        } else {
            queue.write(register, value, running)
        };
        let live = !kind.is_advanced() || queue.is_enabled();
        let slots = if live { queue.slots() } else { 0 };
        self.tails.pass(side, index, slots);
        if register == ring::DCTL && side == Side::Tx && kind.is_advanced() {
            // What a queue was told before it stopped, nobody says that it still knows.
            self.senders[index as usize] = super::Sender::default();
        }
        self.judge(result);
    }

    /// A tail that was not simply taken over: before there is a ring, or past its end.
    fn write_tail(&mut self, side: Side, index: u32, value: u32, running: bool) {
        let advanced = self.kind.is_advanced();
        let Some(queue) = self.queue_mut(side, index) else {
            return;
        };
        let (enabled, slots) = (!advanced || queue.is_enabled(), queue.slots());
        let name = side.name();
        if value == 0 {
            // Every driver clears it while it sets the queue up.
        } else if !enabled {
            self.object(format!(
                "tail of {name} queue {index} written with {value} before the queue was enabled"
            ));
        } else if value >= slots {
            self.object(format!(
                "tail of {name} queue {index} written with {value}, past its {slots} descriptors"
            ));
        }
        // While nobody looks at it, the register just keeps what is written: drivers' tests do.
        if value < slots || slots == 0 || !running {
            self.tails.set(side, index, value & 0xffff);
        }
    }
}

/// True for the upper half of an address register.
fn is_address_high(name: &str, offset: u32) -> bool {
    matches!(name, "RA" | "RA_MORE") && offset % 8 == 4
}

/// Which word of the mailbox is at `offset`.
fn mailbox_word(offset: u32) -> Option<usize> {
    let at = offset.checked_sub(reg::VMBMEM).filter(|at| *at < 64)?;
    usize::try_from(at / 4).ok()
}
