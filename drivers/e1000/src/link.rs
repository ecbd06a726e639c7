//! The link, and the PHY behind it.

use hw::Bar;
use intel::wait::{Limit, until};
use port::{Link, LinkState};

use crate::regs::{self, Mdic, Status};

/// How long the PHY may take to answer (developer's manual §13.4.8: 64 µs a frame).
const ANSWER: Limit = Limit::of(2, 20);
/// How long a link that the PHY has kept may take to show after a reset.
const RETURN: Limit = Limit::of(30, 500);
/// The PHY's address on its bus.
const PHY: u32 = 1 << 21;
/// The PHY's control register (IEEE 802.3 §22.2.4.1).
const BMCR: u32 = 0 << 16;
/// It is powered down.
const POWER_DOWN: u32 = 1 << 11;
/// It is cut off.
const ISOLATE: u32 = 1 << 10;
/// Negotiates speed and duplex, starting over.
const NEGOTIATE: u32 = 1 << 12 | 1 << 9;

/// The link as the status register has it.
pub(crate) fn read(status: Status) -> Link {
    let speed_bps = if status.contains(Status::SPEED_1000) {
        1_000_000_000
    } else if status.contains(Status::SPEED_100) {
        100_000_000
    } else {
        10_000_000
    };
    let up = status.contains(Status::LU);
    Link {
        state: if up { LinkState::Up } else { LinkState::Down },
        speed_bps: up.then_some(speed_bps),
        full_duplex: status.contains(Status::FD),
    }
}

/// One access to a register of the PHY; none if it did not answer.
fn access<B: Bar>(bar: &B, command: Mdic) -> Option<u32> {
    bar.write(regs::MDIC, command);
    let done = until(ANSWER, || {
        let now = bar.read(regs::MDIC);
        now.contains(Mdic::READY).then_some(now)
    })?;
    (!done.contains(Mdic::ERROR)).then_some(done.bits() & 0xffff)
}

/// Wakes a PHY that whoever had the device before has switched off, as Linux's drivers do when
/// an interface goes down; and has one negotiate whose link does not come back with the device's
/// reset. (That of 82576 as QEMU has it never does by itself; a PHY of copper keeps its link.) A
/// PHY that does not answer is left alone: the device may have none.
pub(crate) fn wake<B: Bar>(bar: &B) {
    let is_up = until(RETURN, || {
        let is_up = bar.read(regs::STATUS).contains(Status::LU);
        is_up.then_some(())
    });
    let read = Mdic::from_bits_retain(PHY | BMCR) | Mdic::READ;
    let Some(control) = access(bar, read) else {
        return;
    };
    if is_up.is_none() || control & (POWER_DOWN | ISOLATE) != 0 {
        let awake = control & !(POWER_DOWN | ISOLATE) | NEGOTIATE;
        let write = Mdic::from_bits_retain(PHY | BMCR | awake) | Mdic::WRITE;
        access(bar, write);
    }
}
