//! The link, and what brings it up.

use hw::Bar;
use intel::wait::{Limit, until};
use port::{Link, LinkState};

use crate::kind::{Mac, Media};
use crate::regs::{self, Autoc, Esdp, Links, Msca};
use crate::semaphore::Bus;

/// How long the PHY may take to answer (Linux, `IXGBE_MDIO_COMMAND_TIMEOUT`: 100 times 10 µs).
const ANSWER: Limit = Limit::of(5, 20);

/// The link as the register of a physical or virtual function has it (82599 datasheet §8.2.3.22;
/// the uncommon speeds of X550: Linux, `ixgbe_check_mac_link_generic`).
pub(crate) fn read(links: Links, mac: Mac) -> Link {
    let odd = mac == Mac::X550 && links.contains(Links::NON_STD);
    let field = (
        links.contains(Links::SPEED_HIGH),
        links.contains(Links::SPEED_LOW),
    );
    let speed_bps = match (field, odd) {
        ((true, true), false) => Some(10_000_000_000),
        ((true, true), true) => Some(2_500_000_000),
        ((true, false), _) => Some(1_000_000_000),
        ((false, true), false) => Some(100_000_000),
        ((false, true), true) => Some(5_000_000_000),
        ((false, false), _) => None,
    };
    let up = links.contains(Links::UP);
    Link {
        state: if up { LinkState::Up } else { LinkState::Down },
        speed_bps: speed_bps.filter(|_| up),
        full_duplex: true,
    }
}

/// Lets the link come up. It does so by itself, later: with SFP+ modules, seconds later (DPDK,
/// 64f1c8539c). What may keep it from that, in words.
pub(crate) fn bring_up<B: Bar>(bar: &B, mac: Mac, media: Media) -> Option<&'static str> {
    match media {
        Media::Sfp => {
            bar.update(regs::ESDP, |pins| pins - Esdp::LASER_OFF);
            let is_up = bar.read(regs::LINKS).contains(Links::UP);
            let settings = bar.read(regs::AUTOC);
            let mode = settings & Autoc::LMS;
            // What the NVM chose is kept where it is a mode of one lane.
            let fits = mode.is_empty()
                || mode == Autoc::LMS_1G_NEGOTIATED
                || mode == Autoc::LMS_10G_SERIAL;
            if fits && is_up {
                return None;
            }
            let wanted = if fits {
                settings
            } else {
                (settings - Autoc::LMS) | Autoc::LMS_10G_SERIAL
            };
            bar.write(regs::AUTOC, wanted | Autoc::AN_RESTART);
        }
        Media::Backplane => {
            if !bar.read(regs::LINKS).contains(Links::UP) {
                bar.update(regs::AUTOC, |settings| settings | Autoc::AN_RESTART);
            }
        }
        Media::Copper => return wake(bar, mac).err(),
    }
    None
}

/// Where a PHY's register is (IEEE 802.3 clause 45): device and register.
type Place = (u32, u32);

/// What the PHYs of X540 and X550 are told by their vendor's first register (Linux,
/// `IXGBE_MDIO_VENDOR_SPECIFIC_1_CONTROL`).
const VENDOR: Place = (0x1e, 0);
/// There: low power.
const LOW_POWER: u32 = 0x0800;
/// Control of negotiation (IEEE 802.3 §45.2.7.1).
const NEGOTIATION: Place = (7, 0);
/// There: negotiates, starting over.
const NEGOTIATE: u32 = 1 << 12 | 1 << 9;

/// The PHY's identity (IEEE 802.3 §45.2.1.3).
const IDENTITY: Place = (1, 2);

/// A PHY on the device's bus.
struct Phy<'a, B: Bar> {
    bar: &'a B,
    address: u32,
}

impl<'a, B: Bar> Phy<'a, B> {
    /// The first that answers.
    fn find(bar: &'a B) -> Option<Self> {
        let mut all = (0..32).map(|address| Self { bar, address });
        all.find(|phy| phy.read(IDENTITY).is_some_and(|identity| identity != 0))
    }

    /// One step of an access; false if it did not end.
    fn step(&self, (device, register): Place, kind: Msca) -> bool {
        let place = Msca::from_bits_retain(register | device << 16 | self.address << 21);
        self.bar.write(regs::MSCA, place | kind | Msca::COMMAND);
        let done = || (!self.bar.read(regs::MSCA).contains(Msca::COMMAND)).then_some(());
        until(ANSWER, done).is_some()
    }

    fn read(&self, place: Place) -> Option<u32> {
        let done = self.step(place, Msca::ADDRESS) && self.step(place, Msca::READ);
        let value = self.bar.read(regs::MSRWD) >> 16;
        (done && value != 0xffff).then_some(value)
    }

    fn write(&self, place: Place, value: u32) {
        if self.step(place, Msca::ADDRESS) {
            self.bar.write(regs::MSRWD, value);
            self.step(place, Msca::WRITE);
        }
    }
}

/// Wakes a PHY that whoever had the device before has put to sleep, as Linux's driver does when an
/// interface goes down. One that keeps its link is left alone.
///
/// # Errors
/// It could not be reached, for which the link need not stay down: it may be awake.
fn wake<B: Bar>(bar: &B, mac: Mac) -> Result<(), &'static str> {
    if bar.read(regs::LINKS).contains(Links::UP) {
        return Ok(());
    }
    let Some(_bus) = Bus::take(bar, mac) else {
        return Err(
            "the PHY was not woken: firmware or another driver keeps its bus. If the link stays \
             down, take the card's power away for a moment",
        );
    };
    let Some(phy) = Phy::find(bar) else {
        return Err("the PHY was not woken: none answers on its bus");
    };
    if let Some(vendor) = phy.read(VENDOR)
        && vendor & LOW_POWER != 0
    {
        phy.write(VENDOR, vendor & !LOW_POWER);
    }
    if let Some(control) = phy.read(NEGOTIATION) {
        phy.write(NEGOTIATION, control | NEGOTIATE);
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_speed_is_said_only_of_a_link_that_is_up() {
        let speed = |bits: u32, mac| read(Links::from_bits_retain(bits), mac).speed_bps;
        let up = 1 << 30;
        assert_eq!(speed(up | 3 << 28, Mac::M82599), Some(10_000_000_000));
        assert_eq!(speed(up | 2 << 28, Mac::X540), Some(1_000_000_000));
        assert_eq!(speed(up | 1 << 28, Mac::X540), Some(100_000_000));
        assert_eq!(speed(3 << 28, Mac::M82599), None);
        let odd = up | 1 << 27;
        assert_eq!(speed(odd | 3 << 28, Mac::X550), Some(2_500_000_000));
        assert_eq!(speed(odd | 1 << 28, Mac::X550), Some(5_000_000_000));
        assert_eq!(speed(odd | 3 << 28, Mac::M82599), Some(10_000_000_000));
    }
}
