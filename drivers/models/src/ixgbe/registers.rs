//! Reads and writes of registers.

use super::Ixgbe;
use super::bits::{ctrl, hlreg, low, reg, ring, status};
use super::mailbox::WORDS;
use super::options::Kind;
use super::queue::Side;
use super::reset::DMA_READY;

/// `RDRXCTL`: cut CRC out, as `HLREG0` says it too.
const CRC_STRIP: u32 = 1 << 1;
/// `RXCTRL.RXEN`, `DMATXCTL.TE`.
const ENABLE: u32 = 1 << 0;
/// `RTTDCS.ARBDIS`.
const ARBITER_OFF: u32 = 1 << 6;
/// `SECRXCTRL.RX_DIS` and what answers it.
const PATH_OFF: u32 = 1 << 1;
/// `CTRL_EXT`: the physical function says that its reset is over.
const RESET_DONE: u32 = 1 << 14;
/// `QDE`: write; the queue; drop.
const QDE_WRITE: u32 = 1 << 16;
/// `FDIRCTRL`: set up.
const FILTERS_READY: u32 = 1 << 3;

impl Ixgbe {
    /// True if an access reaches a register; says why not otherwise.
    pub(super) fn is_reached(&self, offset: u32, width: u8, what: &str) -> bool {
        if !self.pci.decodes() {
            self.object(format!(
                "{what} registers, which the command register has off"
            ));
            return false;
        }
        if width != 4 {
            self.object(format!(
                "{what} {width} bytes at {offset:#x}: registers have 4"
            ));
            return false;
        }
        true
    }

    /// The first addresses are at two places, and what splits their packets (§8.2.3.7.7).
    fn place(offset: u32) -> u32 {
        match offset {
            reg::RAL..0x5480 => offset - reg::RAL + reg::RAL_ALL,
            reg::PSRTYPE_OLD..0x54c0 => offset - reg::PSRTYPE_OLD + reg::PSRTYPE,
            _ => offset,
        }
    }

    pub(super) fn read_register(&mut self, offset: u32) -> u32 {
        if let Some(value) = self.in_reset(offset, true) {
            return value;
        }
        if let Some((side, queue, register)) = self.rings.layout.locate(offset) {
            return self.rings.read(side, queue, register);
        }
        if self.stats.covers(offset) {
            return self.stats.read(offset).unwrap_or_else(|sentence| {
                self.objections.raise(sentence);
                0
            });
        }
        let offset = Self::place(offset);
        if self.registers.span(offset).is_none() {
            self.object(format!(
                "read of {offset:#x}, where the device has no register"
            ));
            return 0;
        }
        self.read_live(offset)
    }

    /// Registers that show something that is not simply kept.
    fn read_live(&mut self, offset: u32) -> u32 {
        match offset {
            reg::STATUS if self.registers.has(reg::CTRL, ctrl::GIO_DIS) => 0,
            reg::STATUS => status::GIO_MASTER,
            reg::ESDP => self.esdp(),
            reg::I2CCTL => self.cage.read(),
            reg::EICR => self.interrupts.take_causes(),
            reg::EICS => self.interrupts.causes(),
            reg::EIMS | reg::EIMC => self.interrupts.mask(),
            reg::EIMS_EX | reg::EIMC_EX => low(self.interrupts.queue_mask()),
            0xaa4 | 0xab4 => low(self.interrupts.queue_mask() >> 32),
            reg::RDRXCTL => {
                let ready = if self.resetting.is_none() {
                    DMA_READY
                } else {
                    0
                };
                self.registers.get(offset) & !DMA_READY | ready
            }
            reg::MSCA => self.mdio.command(),
            reg::MSRWD => self.mdio.data(),
            reg::LINKS => self.links(),
            reg::ANLP1 => self.negotiation(),
            reg::SECRXSTAT => u32::from(self.registers.has(reg::SECRXCTRL, PATH_OFF)),
            reg::SECTXSTAT => 1,
            reg::EEC => self.eeprom.control(true),
            reg::EERD => self.eeprom.read_register(),
            reg::EEWR => self.eeprom.write_register(),
            reg::SWSM => self.semaphores.read_semaphore(),
            reg::SW_FW_SYNC => self.semaphores.read_sync(),
            reg::HICR => self.host_interface(),
            reg::PFMBICR..reg::PFMBIMR => self.mailbox_causes((offset - reg::PFMBICR) / 4),
            // X540 on shows the resets of virtual functions here too.
            reg::VFLREC if self.kind != Kind::I82599 => self.registers.get(reg::VFLRE0),
            0x704 if self.kind != Kind::I82599 => self.registers.get(reg::VFLRE1),
            reg::PFMAILBOX..0x4c00 => {
                let mailbox = (offset - reg::PFMAILBOX) / 4;
                self.mailboxes[mailbox as usize].read_pf()
            }
            reg::PFMBMEM..0x1_4000 => {
                let (mailbox, word) = mailbox_word(offset);
                self.mailboxes[mailbox].memory[word]
            }
            _ => self.registers.get(offset),
        }
    }

    /// `PFMBICR`: sixteen mailboxes a register, requests low and acknowledgements high.
    fn mailbox_causes(&self, number: u32) -> u32 {
        let first = number as usize * 16;
        let mailboxes = (0..16).zip(&self.mailboxes[first..first + 16]);
        mailboxes.fold(0, |all, (n, mailbox)| {
            all | u32::from(mailbox.request) << n | u32::from(mailbox.acknowledged) << (n + 16)
        })
    }

    pub(super) fn write_register(&mut self, offset: u32, value: u32) {
        if self.in_reset(offset, false).is_some() {
            return;
        }
        if let Some((side, queue, register)) = self.rings.layout.locate(offset) {
            self.write_queue(side, queue, register, value);
            return;
        }
        let offset = Self::place(offset);
        let Some(span) = self.registers.span(offset) else {
            let what = if self.stats.covers(offset) {
                "a statistics register, which is read-only"
            } else {
                "where the device has no register"
            };
            self.object(format!("write to {offset:#x}, {what}"));
            return;
        };
        // Registers that only show something ignore what is written; so do the bits of RAH where
        // the 82598 had pools, which drivers still write.
        let ignored = if span.name == "RAH" { 0xf_0000 } else { 0 };
        let reserved = value & !(span.writable | ignored);
        if reserved != 0 && span.writable != 0 {
            self.object(format!(
                "{} at {offset:#x} written with {value:#x}: {reserved:#x} is reserved",
                span.name
            ));
        }
        let value = value & span.writable;
        if span.writable != 0 && !self.write_live(offset, value) && !self.write_mail(offset, value)
        {
            self.registers.set(offset, value);
            self.after_write(offset, value);
        }
    }

    /// Registers that do something instead of being kept; false for the others.
    fn write_live(&mut self, offset: u32, value: u32) -> bool {
        match offset {
            reg::CTRL => self.write_ctrl(value),
            reg::I2CCTL => self.cage.write(value),
            reg::EICR => self.interrupts.clear(value),
            reg::EICS => self.interrupts.set_causes(value),
            reg::EIMS => self.interrupts.enable(value),
            reg::EIMC => self.interrupts.disable(value),
            reg::EICS_EX => self.interrupts.set_queue_causes(u64::from(value)),
            0xa94 => self.interrupts.set_queue_causes(u64::from(value) << 32),
            reg::EIMS_EX => self.interrupts.enable_queues(u64::from(value)),
            0xaa4 => self.interrupts.enable_queues(u64::from(value) << 32),
            reg::EIMC_EX => self.interrupts.disable_queues(u64::from(value)),
            0xab4 => self.interrupts.disable_queues(u64::from(value) << 32),
            reg::QDE => self.write_drop(value),
            reg::MSCA => {
                let result = self.mdio.start(value);
                self.judge(result);
                if std::mem::take(&mut self.mdio.restarted) {
                    self.restart_link();
                }
            }
            reg::MSRWD => self.mdio.set_data(value),
            reg::AUTOC => self.write_autoc(value),
            reg::MTQC if !self.registers.has(reg::RTTDCS, ARBITER_OFF) => {
                self.object("MTQC written while RTTDCS.ARBDIS is clear (§4.6.11.3)");
                return false;
            }
            reg::EEC => self.eeprom.set_control(value),
            reg::EERD => {
                let result = self.eeprom.start_read(value);
                self.judge(result);
            }
            reg::EEWR => self.eeprom.start_write(value),
            reg::SWSM => self.semaphores.write_semaphore(value),
            reg::SW_FW_SYNC => {
                let result = self.semaphores.write_sync(value);
                self.judge(result);
            }
            reg::HICR => self.write_host_interface(value),
            _ => return false,
        }
        true
    }

    /// Registers of the mailboxes; false for all others.
    fn write_mail(&mut self, offset: u32, value: u32) -> bool {
        let result = match offset {
            reg::VFLREC | 0x704 => {
                let shown = if offset == reg::VFLREC {
                    reg::VFLRE0
                } else {
                    reg::VFLRE1
                };
                let left = self.registers.get(shown) & !value;
                self.registers.set(shown, left);
                Ok(())
            }
            reg::PFMBICR..reg::PFMBIMR => {
                let first = (offset - reg::PFMBICR) as usize / 4 * 16;
                for (n, mailbox) in (0..16).zip(&mut self.mailboxes[first..first + 16]) {
                    mailbox.request &= value >> n & 1 == 0;
                    mailbox.acknowledged &= value >> (n + 16) & 1 == 0;
                }
                Ok(())
            }
            reg::PFMAILBOX..0x4c00 => {
                let number = (offset - reg::PFMAILBOX) / 4;
                self.mailboxes[number as usize].write_pf(value)
            }
            reg::PFMBMEM..0x1_4000 => {
                let (mailbox, word) = mailbox_word(offset);
                self.mailboxes[mailbox].store_pf(word, value)
            }
            _ => return false,
        };
        self.judge(result);
        true
    }

    /// What hangs on registers that are kept.
    fn after_write(&mut self, offset: u32, value: u32) {
        match offset {
            reg::CTRL_EXT if value & RESET_DONE != 0 => {
                for mailbox in self
                    .mailboxes
                    .iter_mut()
                    .filter(|mailbox| mailbox.resetting)
                {
                    mailbox.reset_done();
                }
            }
            reg::ESDP => self.update_link(),
            reg::EIAC | reg::EIAM | reg::EIAM_EX | 0xad4 | reg::GPIE | reg::IVAR_MISC => {
                let masks = self.registers.pair(reg::EIAM_EX);
                let queues = u64::from(self.registers.get(reg::EIAM) & 0xffff);
                self.interrupts.set_up(
                    self.registers.get(reg::EIAC),
                    masks | queues,
                    self.registers.get(reg::GPIE),
                    self.registers.get(reg::IVAR_MISC),
                );
            }
            reg::RXCTRL => self.check_receiver(value),
            reg::MRQC => self.check_spreading(value),
            reg::RSSRK..0x5ca8 => self.key_stale = true,
            reg::RAL_ALL..0xaa00 => self.addresses_stale = true,
            reg::FDIRCTRL if value & 3 != 0 => {
                self.registers.set(offset, value | FILTERS_READY);
            }
            reg::FDIRCMD => self.registers.set(offset, value & !3),
            _ => {}
        }
    }

    fn write_ctrl(&mut self, value: u32) {
        let resets = value & (ctrl::RST | ctrl::LRST);
        if resets != 0 {
            self.start_reset(resets);
        } else {
            self.registers.set(reg::CTRL, value);
        }
    }

    /// Receiving is switched on: what must have been set before.
    fn check_receiver(&self, value: u32) {
        if value & ENABLE == 0 {
            return;
        }
        let (mac, engine) = (
            self.registers.has(reg::HLREG0, hlreg::RXCRCSTRP),
            self.registers.has(reg::RDRXCTL, CRC_STRIP),
        );
        if mac != engine {
            self.object(
                "RXEN while HLREG0.RXCRCSTRP and RDRXCTL.CRCSTRIP are not the same (§8.2.3.8.8)",
            );
        }
    }

    /// Of the ways to spread frames over queues, traffic classes are not modelled.
    fn check_spreading(&self, value: u32) {
        if !matches!(value & 0xf, 0 | 1 | 8 | 0xa | 0xb) {
            self.object(format!("MRQC {value:#x}: a mode that is not modelled"));
        }
    }

    fn write_drop(&mut self, value: u32) {
        self.registers.set(reg::QDE, value & !QDE_WRITE);
        if value & QDE_WRITE != 0 {
            let bit = 1u128 << (value >> 8 & 0x7f);
            self.drops = self.drops & !bit | if value & 1 != 0 { bit } else { 0 };
        }
    }

    fn write_queue(&mut self, side: Side, index: u32, register: u32, value: u32) {
        let reads = self.options.enable_reads;
        let starts = register == ring::DCTL && value & ring::ENABLE != 0;
        if starts && side == Side::Tx && !self.registers.has(reg::DMATXCTL, ENABLE) {
            self.object(format!(
                "transmit queue {index} enabled while DMATXCTL.TE is clear (§4.6.8)"
            ));
            let off = value & !ring::ENABLE;
            let result = self.rings.write(side, index, register, off, reads);
            self.judge(result);
            return;
        }
        let result = self.rings.write(side, index, register, value, reads);
        self.judge(result);
    }
}

/// Which word of which mailbox is at `offset`.
fn mailbox_word(offset: u32) -> (usize, usize) {
    let word = (offset - reg::PFMBMEM) as usize / 4;
    (word / WORDS, word % WORDS)
}
