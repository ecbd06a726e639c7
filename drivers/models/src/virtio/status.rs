//! From reset to running: status bits in their order, features, and back (§2.1, §2.2, §3.1).

use super::bits::{feature, status};
use super::{Filter, Identity, VirtioNet};
use crate::faults::Fault;

/// How far driver and device have come with each other.
pub(super) struct Negotiation {
    pub(super) status: u8,
    pub(super) offered: u64,
    /// What the driver has written, as it writes it.
    pub(super) written: u64,
    /// What holds: from `FEATURES_OK` on, or at once with a legacy driver.
    pub(super) accepted: u64,
    /// Halves of the feature bits that the registers show.
    pub(super) device_select: u32,
    pub(super) driver_select: u32,
    /// The driver uses the legacy interface.
    pub(super) legacy: bool,
    /// The driver has looked whether `FEATURES_OK` stuck.
    looked: bool,
    /// A reset is going on: what the status shows meanwhile, and how many more reads.
    pub(super) resetting: Option<(u8, u32)>,
}

impl Negotiation {
    pub(super) fn new(offered: u64) -> Self {
        Self {
            status: 0,
            offered,
            written: 0,
            accepted: 0,
            device_select: 0,
            driver_select: 0,
            legacy: false,
            looked: false,
            resetting: None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        let stopped = status::NEEDS_RESET | status::FAILED;
        self.status & status::DRIVER_OK != 0 && self.status & stopped == 0
    }

    pub(super) fn need_reset(&mut self) {
        self.status |= status::NEEDS_RESET;
    }
}

impl VirtioNet {
    /// The status register is read.
    pub(super) fn read_status(&mut self) -> u8 {
        let Some((shown, reads)) = self.negotiation.resetting else {
            let shown = self.negotiation.status;
            self.negotiation.looked |= shown & status::FEATURES_OK != 0;
            return shown;
        };
        if self.faults.strikes(Fault::StuckReset) {
            return shown;
        }
        self.negotiation.resetting = reads.checked_sub(1).map(|reads| (shown, reads));
        if self.negotiation.resetting.is_some() {
            shown
        } else {
            0
        }
    }

    /// The status register is written.
    pub(super) fn write_status(&mut self, value: u8, legacy: bool) {
        if value == 0 {
            // A reset that goes on shows what was there before it.
            let shown = match self.negotiation.resetting {
                Some((shown, _)) => shown,
                None => self.negotiation.status,
            };
            self.reset_device();
            // A legacy reset is over when the write is (§4.1.4.3.2 asks modern drivers to wait).
            let reads = if legacy { 0 } else { self.options.reset_reads };
            let slow = reads > 0 || self.faults.is_on(Fault::StuckReset);
            self.negotiation.resetting = (slow && shown != 0).then_some((shown, reads));
            return;
        }
        self.negotiation.legacy = legacy;
        let old = self.negotiation.status;
        let kept = old & !(status::NEEDS_RESET | status::FAILED);
        if kept & !value != 0 {
            self.object(format!(
                "status {value:#04x} clears bits of {old:#04x}, which only a reset does (§2.1.1)"
            ));
        }
        let new = value & !old;
        let in_order = self.check_order(value, new, legacy);
        self.negotiation.status = old | (value & !status::NEEDS_RESET);
        if new & status::FEATURES_OK != 0 && !(in_order && self.settle_features()) {
            self.negotiation.status &= !status::FEATURES_OK;
        }
        if new & status::DRIVER_OK != 0 {
            self.start();
        }
        self.show_state();
    }

    /// Objects to bits that are set before those that come first (§3.1.1); false if there are.
    fn check_order(&self, value: u8, new: u8, legacy: bool) -> bool {
        let known = status::ACKNOWLEDGE
            | status::DRIVER
            | status::DRIVER_OK
            | status::FEATURES_OK
            | status::FAILED
            | status::NEEDS_RESET;
        if value & !known != 0 {
            self.object(format!("unknown status bits {:#04x}", value & !known));
        }
        let before_ok = if legacy {
            status::DRIVER
        } else {
            status::FEATURES_OK
        };
        let order = [
            (
                status::DRIVER,
                status::ACKNOWLEDGE,
                "DRIVER before ACKNOWLEDGE",
            ),
            (
                status::FEATURES_OK,
                status::DRIVER,
                "FEATURES_OK before DRIVER",
            ),
            (status::DRIVER_OK, before_ok, "DRIVER_OK before FEATURES_OK"),
        ];
        // What counts is what was shown before this write, but for the first two bits, which
        // Linux and others set together.
        let before = self.negotiation.status | (value & (status::ACKNOWLEDGE | status::DRIVER));
        let early = order
            .into_iter()
            .find(|&(bit, first, _)| new & bit != 0 && before & first == 0);
        if let Some((_, _, sentence)) = early {
            self.object(format!("{sentence} (§3.1.1)"));
        }
        early.is_none()
    }

    /// `FEATURES_OK` is written: true if the set will do.
    fn settle_features(&mut self) -> bool {
        let Negotiation {
            written, offered, ..
        } = self.negotiation;
        if written & !offered != 0 {
            self.object(format!(
                "features {:#x} accepted that were not offered (§2.2.1)",
                written & !offered
            ));
            return false;
        }
        for &(dependent, any_of) in feature::NEEDS {
            if written & dependent != 0 && written & any_of == 0 {
                self.object(format!(
                    "feature {} accepted without one that it needs, {any_of:#x} (§5.1.3.1)",
                    dependent.trailing_zeros()
                ));
                return false;
            }
        }
        if offered & feature::VERSION_1 != 0 && written & feature::VERSION_1 == 0 {
            self.object("VERSION_1 not accepted on the modern interface (§6.1)");
            return false;
        }
        // The device may refuse a driver that would address memory another way (§6.2).
        if written & feature::ACCESS_PLATFORM != offered & feature::ACCESS_PLATFORM {
            return false;
        }
        self.accept(written);
        true
    }

    /// These features hold from now on.
    pub(super) fn accept(&mut self, features: u64) {
        self.negotiation.accepted = features;
        let filters = features & feature::CTRL_VLAN != 0;
        self.filter.set_all_vlans(!filters);
    }

    /// `DRIVER_OK` is written.
    fn start(&mut self) {
        let settled = self.negotiation.status & status::FEATURES_OK != 0;
        if settled && !self.negotiation.looked {
            self.object("DRIVER_OK without a look whether FEATURES_OK stuck (§3.1.1)");
        }
        if !self.pci.is_master() {
            self.object("DRIVER_OK while the command register has bus mastering off");
        }
    }

    /// Features as the driver writes them, half by half.
    pub(super) fn write_features(&mut self, value: u32) {
        if self.negotiation.status & status::FEATURES_OK != 0 {
            self.object("features written after FEATURES_OK (§2.2.1)");
            return;
        }
        if self.negotiation.status & status::DRIVER == 0 {
            self.object("features written before DRIVER (§3.1.1)");
        }
        let value = u64::from(value);
        let written = self.negotiation.written;
        match self.negotiation.driver_select {
            0 => self.set_written(written & !u64::from(u32::MAX) | value),
            1 => self.set_written(written & u64::from(u32::MAX) | value << 32),
            half if value != 0 => {
                self.object(format!("features {value:#x} written to half {half}"));
            }
            _ => {}
        }
    }

    /// Features as the device offers them, half by half.
    pub(super) fn read_features(&self, select: u32, features: u64) -> u32 {
        let half = match select {
            0 => features & u64::from(u32::MAX),
            1 => features >> 32,
            _ => 0,
        };
        u32::try_from(half).expect("half of 64 bits")
    }

    /// Everything as it was after power-up, but what lies outside the device.
    pub(super) fn reset_device(&mut self) {
        self.set_written(0);
        for queue in &mut self.queues {
            queue.clear(&self.bells);
        }
        self.negotiation = Negotiation::new(self.negotiation.offered);
        self.filter = Filter::new();
        self.active_pairs = 1;
        self.spread = None;
        self.selected = 0;
        self.isr = 0;
        self.update_line();
        self.turn = 0;
        self.config.announce = false;
        if self.config.mac != self.options.mac {
            self.config.mac = self.options.mac;
            self.config.change();
        }
        self.show_state();
    }

    /// Objects to what must wait until a reset is over. True if one is going on.
    pub(super) fn is_resetting(&self, what: &str) -> bool {
        let resetting = self.negotiation.resetting.is_some();
        if resetting && self.options.identity != Identity::Legacy {
            self.object(format!(
                "{what} written before the status showed that the reset is over (§4.1.4.3.2)"
            ));
        }
        resetting
    }
}
