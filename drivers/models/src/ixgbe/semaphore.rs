//! Who may touch what both drivers and firmware use (82599 §10.5.4, X540 §10.5.3).

use super::options::Kind;

/// `SWSM`: taken by being read; set by software while firmware does not hold it.
const SMBI: u32 = 1 << 0;
const SWESMBI: u32 = 1 << 1;
/// `SW_FW_SYNC` of X540 on: the register itself, taken by being read.
const REGISTER: u32 = 1 << 31;
/// What software may hold, and what only firmware may.
const SOFTWARE: u32 = 0x1f;
const FIRMWARE: u32 = 0x1f << 5;

/// Both registers.
pub(super) struct Semaphores {
    kind: Kind,
    semaphore: u32,
    sync: u32,
}

impl Semaphores {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            semaphore: 0,
            sync: 0,
        }
    }

    /// Reading takes the first bit, for whoever sees it clear.
    pub(super) fn read_semaphore(&mut self) -> u32 {
        let value = self.semaphore;
        self.semaphore |= SMBI;
        value
    }

    pub(super) fn write_semaphore(&mut self, value: u32) {
        self.semaphore = value & (SMBI | SWESMBI);
    }

    pub(super) fn read_sync(&mut self) -> u32 {
        let value = self.sync;
        if self.kind != Kind::I82599 {
            self.sync |= REGISTER;
        }
        value
    }

    /// Software may write only while it holds the register.
    pub(super) fn write_sync(&mut self, value: u32) -> Result<(), String> {
        let held = match self.kind {
            Kind::I82599 => self.semaphore & SWESMBI != 0,
            Kind::X540 | Kind::X550 => self.sync & REGISTER != 0,
        };
        let changed = (value ^ self.sync) & (SOFTWARE | FIRMWARE);
        self.sync = value;
        if changed & FIRMWARE != 0 {
            return Err(format!(
                "SW_FW_SYNC written with {value:#x}: what is the firmware's is not software's"
            ));
        }
        if changed != 0 && !held {
            return Err(format!(
                "SW_FW_SYNC written with {value:#x} by who does not hold its semaphore"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_first_who_reads_holds_it_until_it_is_given_back() {
        let mut all = Semaphores::new(Kind::I82599);
        assert_eq!(all.read_semaphore() & SMBI, 0);
        assert_eq!(all.read_semaphore() & SMBI, SMBI);
        assert!(all.write_sync(2).is_err(), "SWESMBI is not held");
        let mut all = Semaphores::new(Kind::I82599);
        all.write_semaphore(SMBI | SWESMBI);
        assert_eq!(all.read_semaphore() & SWESMBI, SWESMBI);
        assert_eq!(all.write_sync(2), Ok(()));
        assert!(all.write_sync(1 << 6).is_err(), "the firmware's");
        all.write_semaphore(0);
        assert_eq!(all.read_semaphore(), 0);
    }

    #[test]
    fn the_register_itself_is_taken_on_x540() {
        let mut all = Semaphores::new(Kind::X540);
        assert!(all.write_sync(1).is_err());
        let mut all = Semaphores::new(Kind::X540);
        assert_eq!(all.read_sync(), 0);
        assert_eq!(all.read_sync(), REGISTER);
        assert_eq!(all.write_sync(REGISTER | 1), Ok(()));
        assert_eq!(all.write_sync(1), Ok(()));
        assert_eq!(all.read_sync(), 1);
    }
}
