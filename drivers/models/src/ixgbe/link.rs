//! The link: what shows in `LINKS`, and when (82599 §3.7, §8.2.3.22).

use super::Ixgbe;
use super::bits::{cause, reg};
use super::options::Kind;

/// `LINKS`: up; speed; a speed that the older codes do not have (X550).
const UP: u32 = 1 << 30;
const TEN_GIGABIT: u32 = 3 << 28;
const GIGABIT: u32 = 2 << 28;
const HUNDRED: u32 = 1 << 28;
const OTHER_SPEED: u32 = 1 << 27;
/// Also up, as the parts of the MAC say it: aligned, synchronized, signal seen.
const ALIGNED: u32 = 1 << 7 | 0xf << 16;
/// `ESDP`: the module's laser is off; a module is there.
const LASER_OFF: u32 = 1 << 3;
const MODULE: u32 = 1 << 2;
/// `AUTOC`: start again.
const RESTART: u32 = 1 << 12;
/// `ANLP1`: negotiation has left its first state.
const STATE: u32 = 1 << 16;

impl Ixgbe {
    /// True if there is a way from the MAC to the wire.
    fn has_path(&self) -> bool {
        match self.kind {
            Kind::I82599 => self.cage.is_full() && !self.registers.has(reg::ESDP, LASER_OFF),
            Kind::X540 | Kind::X550 => true,
        }
    }

    /// Takes the link down at once, or up some rounds later.
    pub(super) fn update_link(&mut self) {
        let up = self.link.up && self.has_path();
        if !up {
            self.link_wait = 0;
            self.show_link(false);
        } else if !self.link_shown && self.link_wait == 0 {
            self.link_wait = self.options.link_rounds.max(1);
        }
    }

    /// It goes down and comes up again.
    pub(super) fn restart_link(&mut self) {
        self.show_link(false);
        self.link_wait = 0;
        self.update_link();
    }

    /// A round passes. True while the link is on its way up.
    pub(super) fn wait_for_link(&mut self) -> bool {
        if self.link_wait == 0 {
            return false;
        }
        self.link_wait -= 1;
        if self.link_wait == 0 {
            self.show_link(true);
        }
        true
    }

    fn show_link(&mut self, up: bool) {
        if self.link_shown != up {
            self.link_shown = up;
            self.interrupts.raise(cause::LSC);
        }
    }

    /// `LINKS` is read.
    pub(super) fn links(&self) -> u32 {
        if !self.link_shown {
            return 0;
        }
        links(self.kind, self.link.speed_bps) | ALIGNED
    }

    /// `ESDP` is read.
    pub(super) fn esdp(&self) -> u32 {
        let module = if self.cage.is_full() { MODULE } else { 0 };
        self.registers.get(reg::ESDP) & !MODULE | module
    }

    /// `ANLP1` is read.
    pub(super) fn negotiation(&self) -> u32 {
        STATE
    }

    /// `AUTOC` is written.
    pub(super) fn write_autoc(&mut self, value: u32) {
        self.registers.set(reg::AUTOC, value & !RESTART);
        if value & RESTART != 0 && self.kind == Kind::I82599 {
            self.restart_link();
        }
    }
}

/// The link register of a link that is up, physical function's and virtual one's alike. 2.5
/// Gbit/s has the code of 10, 5 that of 100 Mbit/s, each with one bit more (X550 §8.2.4.22.19, as
/// public drivers read it).
pub(super) fn links(kind: Kind, speed_bps: u64) -> u32 {
    let speed = match speed_bps {
        0..1_000_000_000 => HUNDRED,
        1_000_000_000..2_500_000_000 => GIGABIT,
        2_500_000_000..5_000_000_000 if kind == Kind::X550 => TEN_GIGABIT | OTHER_SPEED,
        5_000_000_000..10_000_000_000 if kind == Kind::X550 => HUNDRED | OTHER_SPEED,
        2_500_000_000..10_000_000_000 => GIGABIT,
        _ => TEN_GIGABIT,
    };
    UP | speed
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn speeds_have_the_codes_that_drivers_read() {
        assert_eq!(links(Kind::I82599, 10_000_000_000), 0x7000_0000);
        assert_eq!(links(Kind::I82599, 1_000_000_000), 0x6000_0000);
        assert_eq!(links(Kind::X540, 100_000_000), 0x5000_0000);
        assert_eq!(links(Kind::X550, 2_500_000_000), 0x7800_0000);
        assert_eq!(links(Kind::X550, 5_000_000_000), 0x5800_0000);
    }
}
