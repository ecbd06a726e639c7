//! Resets: of the whole device, of a virtual function, and what goes on meanwhile.

use std::time::Instant;

use super::E1000;
use super::bits::{ctrl, reg, status};
use super::eeprom::Eeprom;
use super::options::Kind;
use super::queue::{Queue, Side};
use super::stats::Stats;
use super::tx::Sender;
use crate::counters::DeviceCounts;
use crate::faults::Fault;

/// Who owns the 82574's MDIO (§10.2.2.21).
const EXTCNF_CTRL: u32 = 0xf00;

/// A reset that goes on.
pub(super) struct Reset {
    /// Reads of the control register that still show it.
    reads: u32,
    since: Instant,
}

impl E1000 {
    /// `CTRL.RST` is written.
    pub(super) fn start_reset(&mut self) {
        if let Some(side) = &mut self.vf {
            side.reset_vf();
            self.reset_queues();
            return;
        }
        self.reset_registers();
        let stuck = self.faults.is_on(Fault::StuckReset);
        self.resetting = (stuck || self.options.reset_reads > 0).then(|| Reset {
            reads: self.options.reset_reads,
            since: Instant::now(),
        });
    }

    /// The function is reset from outside (FLR): it is as after power-up at once. Configuration
    /// space stays, as whoever resets a function puts that back.
    pub(super) fn reset_function(&mut self) {
        if let Some(side) = &mut self.vf {
            side.reset_vf();
        }
        self.reset_registers();
        self.resetting = None;
    }

    /// Everything as after power-up, but what lies outside the device.
    pub(super) fn reset_registers(&mut self) {
        self.registers.reset();
        self.update_line();
        self.stats = Stats::new();
        self.eeprom.reset();
        self.phy.reset();
        self.reset_queues();
        self.stalled = false;
        self.turn = 0;
        self.link_shown = false;
        if self.kind == Kind::IgbVf {
            self.update_link();
            return;
        }
        if self.kind == Kind::Igb {
            self.reset_mailboxes();
        }
        // The first address comes from the EEPROM (82540 §13.5.2).
        let [a, b, c, d, e, f] = self.options.mac;
        self.registers
            .set(reg::RA, u32::from_le_bytes([a, b, c, d]));
        let high = u32::from_le_bytes([e, f, 0, 0x80]);
        self.registers.set(reg::RA + 4, high);
        self.registers.set(reg::CTRL, ctrl::FD);
        self.update_link();
    }

    fn reset_queues(&mut self) {
        self.tails.reset();
        let (kind, count) = (self.kind, self.queue_count());
        let queues = |side| (0..count).map(move |index| Queue::new(kind, side, index));
        self.rx = queues(Side::Rx).collect();
        self.tx = queues(Side::Tx).collect();
        self.senders = (0..count).map(|_| Sender::default()).collect();
    }

    /// It stops, as after a fault of its own, until it is reset. A virtual function loses its
    /// physical one.
    #[cold]
    pub(super) fn stall(&mut self) {
        match &self.vf {
            Some(side) => side.pf.reset(),
            None => self.stalled = true,
        }
    }

    /// What an access meets while a reset goes on: the value that is read, and nothing if there
    /// is no reset any more. All but looking whether it is over must wait (82576 §4.2.1.6.2).
    pub(super) fn in_reset(&mut self, offset: u32, is_read: bool) -> Option<u32> {
        let reset = self.resetting.as_mut()?;
        let over = reset.reads == 0 || reset.since.elapsed() >= self.options.reset_lasts;
        if over && !self.faults.is_on(Fault::StuckReset) {
            self.resetting = None;
            return None;
        }
        // The ownership of MDIO is given back as soon as the reset was asked for: Linux's e1000e.
        if self.kind == Kind::E1000e && offset == EXTCNF_CTRL {
            return None;
        }
        let looks = matches!(offset, reg::CTRL | reg::CTRL_DUP | reg::STATUS | reg::EECD);
        if !(is_read && looks) {
            let what = if is_read { "read" } else { "written" };
            self.object(format!(
                "register {offset:#x} {what} before the reset was over"
            ));
            return Some(0);
        }
        reset.reads = reset.reads.saturating_sub(1);
        // Counted, as nobody else asks for it.
        self.faults.strikes(Fault::StuckReset);
        Some(match offset {
            reg::STATUS => self.status() & !status::LU,
            reg::EECD => Eeprom::control_in_reset(),
            _ => self.registers.get(reg::CTRL) | ctrl::RST,
        })
    }

    /// A round of the physical function beside a virtual one. True if something happened.
    pub(super) fn poll_pf(&mut self) -> bool {
        let Some(side) = &mut self.vf else {
            return false;
        };
        let effects = match side.poll(&self.faults) {
            Ok(effects) => effects,
            Err(sentence) => {
                self.object(sentence);
                return true;
            }
        };
        if effects == super::vf::Effects::default() {
            return false;
        }
        if effects.reset {
            self.reset_queues();
            self.registers.reset();
        }
        if effects.link {
            self.update_link();
        }
        self.counters.add(&DeviceCounts {
            commands: effects.commands,
            ..DeviceCounts::default()
        });
        if effects.interrupt {
            self.raise_mailbox();
        }
        true
    }
}
