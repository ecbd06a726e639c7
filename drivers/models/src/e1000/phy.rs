//! The PHY behind `MDIC` (82540 §13.4.8, IEEE 802.3 clause 22): identity, link, negotiation.

use super::options::Kind;

const READ: u32 = 2 << 26;
const WRITE: u32 = 1 << 26;
const READY: u32 = 1 << 28;
const ERROR: u32 = 1 << 30;
/// The only PHY there is.
const ADDRESS: u32 = 1;
/// Reads of `MDIC` that still show the operation going on.
const BUSY_READS: u32 = 1;

const CONTROL: usize = 0;
const STATUS: usize = 1;
/// Control: full duplex, negotiates, 1000 Mbit/s.
const CONTROL_RESET: u16 = 0x1140;
/// Bits of the control register that clear themselves: reset, restart of the negotiation.
const SELF_CLEARING: u16 = 0x8200;
const LOOPBACK: u16 = 1 << 14;
/// Of these, the restart.
const RESTART: u16 = 1 << 9;
/// Status without the link: what it can do, and that the negotiation is over.
const ABILITIES: u16 = 0x7969;
const LINK: u16 = 1 << 2;

/// The PHY, and the register in front of it.
pub(super) struct Phy {
    kind: Kind,
    registers: [u16; 32],
    value: u32,
    busy: u32,
    /// The link has gone since the status was last read (it latches low).
    lost: bool,
    up: bool,
    /// It was told to negotiate.
    pub(super) negotiated: bool,
}

impl Phy {
    pub(super) fn new(kind: Kind) -> Self {
        let mut phy = Self {
            kind,
            registers: [0; 32],
            value: READY,
            busy: 0,
            lost: false,
            up: false,
            negotiated: false,
        };
        phy.reset();
        phy
    }

    pub(super) fn reset(&mut self) {
        self.registers = [0; 32];
        self.registers[CONTROL] = CONTROL_RESET;
        (self.registers[2], self.registers[3]) = match self.kind {
            Kind::E1000 => (0x0141, 0x0c20),
            Kind::E1000e => (0x0141, 0x0cb1),
            Kind::Igb | Kind::IgbVf => (0x02a8, 0x0391),
        };
        // What both ends of the link say that they can.
        (self.registers[4], self.registers[5]) = (0x0de1, 0x45e1);
        (self.registers[6], self.registers[9]) = (0x3, 0x0e00);
        (self.registers[10], self.registers[15]) = (0x3c00, 0x3000);
        // Vendor's status: resolved, 1000 Mbit/s, full duplex.
        self.registers[17] = 0xac08;
        (self.value, self.busy, self.negotiated) = (READY, 0, false);
    }

    pub(super) fn set_link(&mut self, up: bool) {
        self.lost |= self.up && !up;
        self.up = up;
    }

    /// `MDIC` is read.
    pub(super) fn read(&mut self) -> u32 {
        if self.busy > 0 {
            self.busy -= 1;
            return self.value & !READY;
        }
        self.value
    }

    /// `MDIC` is written: an operation begins.
    pub(super) fn write(&mut self, value: u32) -> Result<(), String> {
        if self.busy > 0 {
            return Err("MDIC written before it showed READY again".into());
        }
        self.busy = BUSY_READS;
        self.value = value & !(READY | ERROR);
        let register = usize::try_from(value >> 16 & 0x1f).unwrap_or(0);
        if value >> 21 & 0x1f != ADDRESS {
            self.value |= READY | ERROR;
            return Err(format!("MDIC asks for PHY {}", value >> 21 & 0x1f));
        }
        match value & (READ | WRITE) {
            READ => {
                let data = if register == STATUS {
                    self.status()
                } else {
                    self.registers[register]
                };
                self.value = self.value & !0xffff | u32::from(data);
            }
            WRITE => {
                let [a, b, ..] = value.to_le_bytes();
                let data = u16::from_le_bytes([a, b]);
                self.negotiated |= register == CONTROL && data & RESTART != 0;
                self.registers[register] = if register == CONTROL {
                    data & !SELF_CLEARING
                } else {
                    data
                };
            }
            other => {
                self.value |= READY | ERROR;
                return Err(format!("MDIC operation {}", other >> 26));
            }
        }
        self.value |= READY;
        Ok(())
    }

    /// True while it sends back what it is sent (bit 14 of its control register).
    pub(super) fn is_looped(&self) -> bool {
        self.registers[CONTROL] & LOOPBACK != 0
    }

    fn status(&mut self) -> u16 {
        let lost = std::mem::take(&mut self.lost);
        ABILITIES | if self.up && !lost { LINK } else { 0 }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_operation_is_ready_a_read_later_and_a_lost_link_latches() {
        let mut phy = Phy::new(Kind::E1000);
        phy.set_link(true);
        let ask = |phy: &mut Phy, register: u32| {
            phy.write(READ | 1 << 21 | register << 16).unwrap();
            assert!(phy.write(READ | 1 << 21).is_err(), "too early");
            assert_eq!(phy.read() & READY, 0);
            assert_ne!(phy.read() & READY, 0);
            phy.read() & 0xffff
        };
        assert_eq!(ask(&mut phy, 2), 0x141);
        assert_eq!(ask(&mut phy, 1) & 4, 4);
        phy.set_link(false);
        phy.set_link(true);
        assert_eq!(ask(&mut phy, 1) & 4, 0);
        assert_eq!(ask(&mut phy, 1) & 4, 4);
    }
}
