//! What the device's ports and its firmware may use one at a time: here, the PHYs' bus.
//!
//! Who holds what is said by bits of one register; that register is itself guarded, in 82599 by two
//! bits (82599 datasheet §10.5.4) and in later devices by one of them and a bit of its own (Linux,
//! `ixgbe_get_swfw_sync_semaphore` in `ixgbe_x540.c`).

use hw::Bar;
use intel::wait::{Limit, until};

use crate::kind::Mac;
use crate::regs::{self, Status, SwFwSync, Swsm};

/// How long the register may be guarded by others (Linux: 2000 times 50 µs).
const GUARD: Limit = Limit::of(100, 50);
/// How long the bus may be used by others (Linux: 200 times 5 ms).
const USE: Limit = Limit::of(1_000, 5_000);

/// The PHYs' bus, while this port has it.
pub(crate) struct Bus<'a, B: Bar> {
    bar: &'a B,
    mac: Mac,
    own: SwFwSync,
}

impl<'a, B: Bar> Bus<'a, B> {
    /// Takes the bus; none if others keep it.
    pub(crate) fn take(bar: &'a B, mac: Mac) -> Option<Self> {
        let is_second = bar.read(regs::STATUS).contains(Status::SECOND);
        let own = if is_second {
            SwFwSync::PHY1
        } else {
            SwFwSync::PHY0
        };
        let bus = Self { bar, mac, own };
        let firmware = SwFwSync::from_bits_retain(own.bits() << SwFwSync::FIRMWARE_SHIFT);
        until(USE, || {
            bus.guarded(|held| (!held.intersects(own | firmware)).then(|| held | own))
                .then_some(())
        })?;
        Some(bus)
    }

    /// Changes what is held, with the register guarded; false if it could not be.
    fn guarded(&self, change: impl FnOnce(SwFwSync) -> Option<SwFwSync>) -> bool {
        let bar = self.bar;
        // Reading the bit sets it: who finds it clear has it.
        let guard = until(GUARD, || {
            let taken = bar.read(regs::SWSM).contains(Swsm::SMBI);
            (!taken).then_some(())
        });
        if guard.is_none() {
            return false;
        }
        let second = until(GUARD, || match self.mac {
            Mac::M82599 => {
                bar.update(regs::SWSM, |bits| bits | Swsm::SWESMBI);
                bar.read(regs::SWSM).contains(Swsm::SWESMBI).then_some(())
            }
            Mac::X540 | Mac::X550 => {
                let taken = bar.read(regs::SW_FW_SYNC).contains(SwFwSync::REGSMP);
                (!taken).then_some(())
            }
        });
        let mut done = false;
        if second.is_some() {
            let held = bar.read(regs::SW_FW_SYNC) - SwFwSync::REGSMP;
            let wanted = change(held);
            done = wanted.is_some();
            // On later devices this gives the register back, too.
            bar.write(regs::SW_FW_SYNC, wanted.unwrap_or(held));
        }
        bar.update(regs::SWSM, |bits| bits - (Swsm::SMBI | Swsm::SWESMBI));
        done
    }
}

impl<B: Bar> Drop for Bus<'_, B> {
    fn drop(&mut self) {
        let own = self.own;
        self.guarded(|held| Some(held - own));
    }
}
