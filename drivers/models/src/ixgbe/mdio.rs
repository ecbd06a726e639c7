//! The copper PHY of X540 and X550, behind `MSCA` and `MSRWD` (X540 §8.2.4.22; IEEE 802.3
//! clause 45 for its registers).

use std::collections::HashMap;

use super::options::Kind;

/// `MSCA`: operation, and that it goes on.
const COMMAND: u32 = 1 << 30;
const OLD_PROTOCOL: u32 = 3 << 28;

/// Devices in the PHY (IEEE 802.3 table 45-1).
const PMA: u32 = 1;
const PHY_XS: u32 = 4;
const AN: u32 = 7;

/// The PHY, and the registers in front of it.
pub(super) struct Mdio {
    kind: Kind,
    command: u32,
    data: u32,
    /// What an address cycle has set.
    address: u32,
    values: HashMap<(u32, u32), u16>,
    up: bool,
    /// Speed in bits a second.
    speed_bps: u64,
    /// Negotiation was started again.
    pub(super) restarted: bool,
}

impl Mdio {
    pub(super) fn new(kind: Kind) -> Self {
        let mut phy = Self {
            kind,
            command: 0,
            data: 0,
            address: 0,
            values: HashMap::new(),
            up: false,
            speed_bps: 0,
            restarted: false,
        };
        phy.reset();
        phy
    }

    pub(super) fn reset(&mut self) {
        (self.command, self.data, self.address) = (0, 0, 0);
        let id = if self.kind == Kind::X540 {
            0x0200
        } else {
            0x0220
        };
        self.values = HashMap::from([
            ((PMA, 2), 0x0154),
            ((PMA, 3), id),
            // 10 Gbit/s, 1 Gbit/s, 100 Mbit/s.
            ((PMA, 4), 0x0031),
            ((PMA, 5), 0x009a),
            // 10GBASE-T, 1000BASE-T, 100BASE-TX.
            ((PMA, 11), 0x00a4),
            ((AN, 0), 0x3000),
            ((AN, 0x10), 0x0181),
            ((AN, 0x20), 0x1001),
            ((AN, 0xc400), 0x8c00),
        ]);
    }

    /// The wire goes up or down.
    pub(super) fn set_link(&mut self, up: bool, speed_bps: u64) {
        (self.up, self.speed_bps) = (up, speed_bps);
    }

    pub(super) fn command(&self) -> u32 {
        self.command
    }

    pub(super) fn data(&self) -> u32 {
        self.data
    }

    pub(super) fn set_data(&mut self, value: u32) {
        self.data = self.data & 0xffff_0000 | value & 0xffff;
    }

    /// `MSCA` is written: done at the next read.
    pub(super) fn start(&mut self, value: u32) -> Result<(), String> {
        self.command = value & !COMMAND;
        if value & COMMAND == 0 {
            return Ok(());
        }
        if value & OLD_PROTOCOL != 0 {
            return Err(format!(
                "MSCA {value:#x}: clause 22, which this PHY does not speak"
            ));
        }
        let device = value >> 16 & 0x1f;
        // An 82599 with a cage has nobody on these wires.
        let there = value >> 21 & 0x1f == 0 && !self.kind.is_fiber();
        match value >> 26 & 3 {
            0 => self.address = value & 0xffff,
            1 if there => {
                let [a, b, ..] = self.data.to_le_bytes();
                self.write(device, self.address, u16::from_le_bytes([a, b]));
            }
            1 => {}
            _ => {
                let read = if there {
                    self.read(device, self.address)
                } else {
                    0xffff
                };
                self.data = self.data & 0xffff | u32::from(read) << 16;
            }
        }
        Ok(())
    }

    fn read(&self, device: u32, register: u32) -> u16 {
        let kept = self.values.get(&(device, register)).copied().unwrap_or(0);
        match (device, register) {
            // Only some devices are there; each says so.
            (PMA | 3 | PHY_XS | AN | 0x1e, 8) => 0x8000,
            (_, 8) => 0,
            (PMA | 3, 1) if self.up => 0x0004,
            (AN, 1) if self.up => 0x002c,
            (AN, 1) => 0x0008,
            // Negotiated: speed and full duplex (X540's own register).
            (AN, 0xc800) if self.up => match self.speed_bps {
                0..1_000_000_000 => 0x3,
                1_000_000_000..10_000_000_000 => 0x5,
                _ => 0x7,
            },
            // The other end offers the same.
            (AN, 0x13 | 0xe820) if self.up => 0x8181,
            (AN, 0x21) if self.up => 0x0801,
            _ => kept,
        }
    }

    fn write(&mut self, device: u32, register: u32, value: u16) {
        let mut kept = value;
        if register == 0 {
            if device == AN && value & 0x0200 != 0 {
                self.restarted = true;
            }
            // Reset and restart are over at once.
            kept &= !0x8200;
        }
        self.values.insert((device, register), kept);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn read(mdio: &mut Mdio, phy: u32, device: u32, register: u32) -> u32 {
        let at = phy << 21 | device << 16;
        mdio.start(COMMAND | at | register).unwrap();
        mdio.start(COMMAND | 3 << 26 | at | register).unwrap();
        assert_eq!(mdio.command() & COMMAND, 0);
        mdio.data() >> 16
    }

    #[test]
    fn the_phy_is_found_at_its_one_address_and_says_who_it_is() {
        let mut mdio = Mdio::new(Kind::X540);
        assert_eq!(read(&mut mdio, 0, 1, 8) & 0xc000, 0x8000);
        assert_eq!(read(&mut mdio, 1, 1, 8), 0xffff);
        assert_eq!(read(&mut mdio, 0, 1, 2), 0x0154);
        assert_eq!(read(&mut mdio, 0, 1, 3) & 0xfff0, 0x0200);
        assert_eq!(read(&mut Mdio::new(Kind::I82599), 0, 1, 8), 0xffff);
    }

    #[test]
    fn a_restart_is_seen_and_the_speed_shows_once_the_wire_is_up() {
        let mut mdio = Mdio::new(Kind::X540);
        mdio.set_data(0x3200);
        mdio.start(COMMAND | 7 << 16).unwrap();
        mdio.start(COMMAND | 1 << 26 | 7 << 16).unwrap();
        assert!(mdio.restarted);
        assert_eq!(read(&mut mdio, 0, 7, 0), 0x3000);
        assert_eq!(read(&mut mdio, 0, 7, 0xc800), 0);
        mdio.set_link(true, 10_000_000_000);
        assert_eq!(read(&mut mdio, 0, 7, 0xc800), 7);
    }
}
