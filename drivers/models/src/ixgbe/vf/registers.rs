//! Reads and writes of a virtual function's registers (82599 §8.3.5).

use super::IxgbeVf;
use crate::faults::Fault;
use crate::ixgbe::bits::{low, ring, vfmail};
use crate::ixgbe::link::links;
use crate::ixgbe::mailbox::WORDS;

const VFCTRL: u32 = 0x0;
const VFSTATUS: u32 = 0x8;
const VFLINKS: u32 = 0x10;
const VTEICR: u32 = 0x100;
const VTEICS: u32 = 0x104;
const VTEIMS: u32 = 0x108;
const VTEIMC: u32 = 0x10c;
const VTEIAC: u32 = 0x110;
const VTEIAM: u32 = 0x114;
const VFMBMEM: u32 = 0x200;
const VFMAILBOX: u32 = 0x2fc;
/// The key of X550's virtual functions.
const VFRSSRK: std::ops::Range<u32> = 0x3100..0x3128;
/// `VFCTRL`: reset.
const RESET: u32 = 1 << 26;
/// `VFSTATUS`: link up.
const LINK: u32 = 1 << 1;
/// As `GPIE.EIAME` of the physical function has it: vectors mask themselves.
const AUTO_MASK: u32 = 1 << 30;

impl IxgbeVf {
    pub(super) fn is_reached(&self, offset: u32, width: u8) -> bool {
        if !self.pci.decodes() {
            self.object("access to registers, which the command register has off");
            return false;
        }
        if width != 4 {
            self.object(format!(
                "access of {width} bytes at {offset:#x}: registers have 4"
            ));
            return false;
        }
        true
    }

    pub(super) fn read_register(&mut self, offset: u32) -> u32 {
        if let Some((side, queue, register)) = self.rings.layout.locate(offset) {
            return self.rings.read(side, queue, register);
        }
        if self.registers.span(offset).is_none() {
            self.object(format!(
                "read of {offset:#x}, where the device has no register"
            ));
            return 0;
        }
        let up = self.has_link();
        match offset {
            VFSTATUS => {
                if up {
                    LINK
                } else {
                    0
                }
            }
            VFLINKS if up => links(self.kind, self.link.speed_bps),
            VFLINKS => 0,
            VTEICR => self.interrupts.take_causes(),
            VTEICS => self.interrupts.causes(),
            VTEIMS | VTEIMC => self.interrupts.mask(),
            VFMAILBOX => {
                let stuck = self.faults.strikes(Fault::StuckReset);
                let stuck = if stuck || self.side.down {
                    vfmail::RSTI
                } else {
                    0
                };
                self.side.mailbox.read_vf() | stuck
            }
            VFMBMEM..0x240 => {
                let word = self.side.mailbox.load_vf(word_of(offset));
                word.unwrap_or_else(|sentence| {
                    self.objections.raise(sentence);
                    0
                })
            }
            0x101c => low(self.totals.rx_frames),
            0x1020 => low(self.totals.rx_bytes),
            0x1024 => low(self.totals.rx_bytes >> 32) & 0xf,
            0x1034 => low(self.totals.rx_multicast),
            0x201c => low(self.totals.tx_frames),
            0x2020 => low(self.totals.tx_bytes),
            0x2024 => low(self.totals.tx_bytes >> 32) & 0xf,
            _ => self.registers.get(offset),
        }
    }

    pub(super) fn write_register(&mut self, offset: u32, value: u32) {
        if let Some((side, queue, register)) = self.rings.layout.locate(offset) {
            let reads = self.options.enable_reads;
            let starts = register == ring::DCTL && value & ring::ENABLE != 0;
            if starts && queue >= u32::from(self.side.options.queues) {
                self.object(format!(
                    "{} queue {queue} enabled, which is another pool's",
                    side.name()
                ));
                return;
            }
            let result = self.rings.write(side, queue, register, value, reads);
            self.judge(result);
            return;
        }
        let Some(span) = self.registers.span(offset) else {
            self.object(format!(
                "write to {offset:#x}, where the device has no register"
            ));
            return;
        };
        match offset {
            VFCTRL if value & RESET != 0 => {
                self.side.reset_vf();
                self.reset_registers();
            }
            VFMAILBOX => {
                let result = self.side.mailbox.write_vf(value);
                self.judge(result);
            }
            VFMBMEM..0x240 => {
                let result = self.side.mailbox.store_vf(word_of(offset), value);
                self.judge(result);
            }
            VTEICR => self.interrupts.clear(value),
            VTEICS => self.interrupts.set_causes(value),
            VTEIMS => self.interrupts.enable(value),
            VTEIMC => self.interrupts.disable(value),
            _ => {
                let reserved = value & !span.writable;
                if reserved != 0 {
                    self.object(format!(
                        "{} at {offset:#x} written with {value:#x}: {reserved:#x} is reserved or \
                         read-only",
                        span.name
                    ));
                }
                self.registers.set(offset, value & span.writable);
                self.key_stale |= VFRSSRK.contains(&offset);
                if matches!(offset, VTEIAC | VTEIAM) {
                    let clears = self.registers.get(VTEIAC);
                    let masks = u64::from(self.registers.get(VTEIAM));
                    self.interrupts.set_up(clears, masks, AUTO_MASK, 0);
                }
            }
        }
    }
}

fn word_of(offset: u32) -> usize {
    ((offset - VFMBMEM) as usize / 4).min(WORDS - 1)
}
