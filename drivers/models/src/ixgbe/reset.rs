//! Resets, and what goes on until they are over (82599 §4.2, §4.6.3).

use std::time::Instant;

use super::Ixgbe;
use super::bits::{ctrl, reg, ring};
use super::eeprom::AUTO_READ;
use super::interrupts::Interrupts;
use super::options::Kind;
use super::semaphore::Semaphores;
use crate::faults::Fault;

/// `RDRXCTL`: the DMA engine is ready.
pub(super) const DMA_READY: u32 = 1 << 3;

/// How far a reset has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The reset bits still show.
    Bits,
    /// The EEPROM is being read.
    Eeprom,
    /// The DMA engine sets itself up.
    Dma,
}

/// A reset that goes on.
pub(super) struct Reset {
    stage: Stage,
    /// Looks until the next stage.
    looks: u32,
    /// Bits of the control register that show.
    shown: u32,
    since: Instant,
}

impl Ixgbe {
    /// `CTRL.RST` or `CTRL.LRST` is written.
    pub(super) fn start_reset(&mut self, shown: u32) {
        self.reset_registers();
        if shown & ctrl::LRST != 0 {
            self.restart_link();
        }
        self.resetting = Some(Reset {
            stage: Stage::Bits,
            looks: self.options.reset_reads,
            shown,
            since: Instant::now(),
        });
    }

    /// The function is reset from outside (FLR), or powered up: all is over at once.
    /// Configuration space stays, as whoever resets a function puts that back.
    pub(super) fn reset_function(&mut self) {
        self.reset_registers();
        self.cage.reset();
        self.mdio.reset();
        self.semaphores = Semaphores::new(self.kind);
        self.resetting = None;
        self.update_link();
    }

    /// Everything that a reset of the device clears. The statistics stay (§8.2.3.23: they are
    /// cleared by being read).
    fn reset_registers(&mut self) {
        self.registers.reset();
        self.rings.reset();
        self.drops = 0;
        self.interrupts = Interrupts::default();
        self.eeprom.reset();
        for mailbox in &mut self.mailboxes {
            *mailbox = super::Mailbox::default();
            mailbox.resetting = true;
        }
        self.stalled = false;
        self.turn = 0;
        (self.addresses_stale, self.key_stale) = (true, true);
        // The first address comes from the EEPROM, and leads to the first pool (§8.2.3.7.9).
        let [a, b, c, d, e, f] = self.options.mac;
        let low = u32::from_le_bytes([a, b, c, d]);
        self.registers.set(reg::RAL_ALL, low);
        let high = u32::from_le_bytes([e, f, 0, 0x80]);
        self.registers.set(reg::RAL_ALL + 4, high);
        self.registers.set(reg::MPSAR, 1);
    }

    /// Lets a reset be over for a driver that waited instead of looking.
    pub(super) fn let_time_pass(&mut self) {
        let lasts = self.options.reset_lasts;
        let over = self
            .resetting
            .as_ref()
            .is_some_and(|reset| reset.since.elapsed() >= lasts);
        if over && !self.faults.is_on(Fault::StuckReset) {
            self.resetting = None;
        }
    }

    /// What an access meets while a reset goes on: the value that is read, and nothing if it
    /// does not concern it. All but looking whether it is over must wait.
    pub(super) fn in_reset(&mut self, offset: u32, is_read: bool) -> Option<u32> {
        self.let_time_pass();
        let stage = self.resetting.as_ref()?.stage;
        // The semaphores are what goes on all the while: whoever resets an X540 holds one of them,
        // and Linux's ixgbe gives it back at once.
        let is_semaphore = matches!(offset, reg::SWSM | reg::SW_FW_SYNC);
        if is_semaphore && self.kind != Kind::I82599 {
            return None;
        }
        match (stage, offset) {
            (Stage::Bits, reg::CTRL) if is_read => Some(self.look_at_control()),
            (Stage::Bits, reg::STATUS | reg::EEC) if is_read => Some(0),
            (Stage::Bits, _) => {
                let what = if is_read { "read" } else { "written" };
                self.object(format!(
                    "register {offset:#x} {what} before the reset was over (§4.2.1.6)"
                ));
                Some(0)
            }
            (Stage::Eeprom, reg::EEC) if is_read => {
                let done = self.look(Stage::Dma);
                Some(self.eeprom.control(false) | if done { AUTO_READ } else { 0 })
            }
            (Stage::Eeprom, reg::RAL | reg::RAL_ALL) if is_read => {
                self.object("RAL0 read before the EEPROM was (EEC.ARD, §4.6.3)");
                None
            }
            (Stage::Dma, reg::RDRXCTL) if is_read => {
                let done = self.look(Stage::Dma);
                let value = self.registers.get(reg::RDRXCTL) & !DMA_READY;
                Some(value | if done { DMA_READY } else { 0 })
            }
            (Stage::Eeprom | Stage::Dma, _) => {
                self.guard_engine(offset, is_read);
                None
            }
        }
    }

    /// A look; true if it was the last that shows the stage that goes on.
    fn look(&mut self, next: Stage) -> bool {
        let reads = self.options.reset_reads;
        let Some(reset) = &mut self.resetting else {
            return true;
        };
        reset.looks = reset.looks.saturating_sub(1);
        if reset.looks > 0 {
            return false;
        }
        let was_last = reset.stage == Stage::Dma;
        (reset.stage, reset.looks) = (next, reads);
        if was_last {
            self.resetting = None;
        }
        true
    }

    fn look_at_control(&mut self) -> u32 {
        // Counted, as nobody else asks for it.
        if self.faults.strikes(Fault::StuckReset) {
            return self.resetting.as_ref().map_or(0, |reset| reset.shown);
        }
        let shown = self.resetting.as_ref().map_or(0, |reset| reset.shown);
        if self.look(Stage::Eeprom) { 0 } else { shown }
    }

    /// Objects to an engine that is switched on before it is ready.
    fn guard_engine(&mut self, offset: u32, is_read: bool) {
        let starts = matches!(offset, reg::RXCTRL | reg::DMATXCTL)
            || self
                .rings
                .layout
                .locate(offset)
                .is_some_and(|(.., register)| register == ring::TAIL);
        if starts && !is_read {
            self.object(format!(
                "register {offset:#x} written before EEC.ARD and RDRXCTL.DMAIDONE showed (§4.6.3)"
            ));
        }
    }
}
