//! A mailbox between a virtual function and its physical one (82599 §7.10.2.9, §8.3.5.1.5): sixteen
//! words that belong to whoever holds them, and a register at each end.

use super::bits::{pfmail, vfmail};

/// Words of a message.
pub(super) const WORDS: usize = 16;

/// One of them, with both its registers.
#[derive(Default)]
pub(super) struct Mailbox {
    pub(super) memory: [u32; WORDS],
    vfu: bool,
    pfu: bool,
    /// What the virtual function sees once: it is cleared by being read.
    sticky: u32,
    /// The physical function is being reset.
    pub(super) resetting: bool,
    /// What the physical function is told of.
    pub(super) request: bool,
    pub(super) acknowledged: bool,
    /// The virtual function may read without holding it (API 1.5 on).
    pub(super) relaxed: bool,
}

impl Mailbox {
    pub(super) fn is_held_by_vf(&self) -> bool {
        self.vfu
    }

    /// The virtual function loses what it holds: it was reset.
    pub(super) fn release_vf(&mut self) {
        self.vfu = false;
    }

    /// `VFMAILBOX` is read.
    pub(super) fn read_vf(&mut self) -> u32 {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        std::mem::take(&mut self.sticky)
            | bit(self.vfu, vfmail::VFU)
            | bit(self.pfu, vfmail::PFU)
            | bit(self.resetting, vfmail::RSTI)
    }

    /// `VFMAILBOX` is written.
    pub(super) fn write_vf(&mut self, value: u32) -> Result<(), String> {
        let held = self.vfu;
        self.vfu = value & vfmail::VFU != 0 && !self.pfu;
        let gives = value & (vfmail::REQ | vfmail::ACK);
        // With the later rules a message is read without being held.
        let must_hold = gives & vfmail::REQ != 0 || !self.relaxed && gives != 0;
        self.request |= value & vfmail::REQ != 0;
        self.acknowledged |= value & vfmail::ACK != 0;
        if must_hold && !held {
            return Err("mailbox given away that was not held (VFU)".into());
        }
        Ok(())
    }

    /// The virtual function reads a word.
    pub(super) fn load_vf(&self, index: usize) -> Result<u32, String> {
        let word = self.memory.get(index).copied().unwrap_or(0);
        if self.vfu || self.relaxed {
            Ok(word)
        } else {
            Err("mailbox read without being held (VFU)".into())
        }
    }

    /// The virtual function writes a word.
    pub(super) fn store_vf(&mut self, index: usize, value: u32) -> Result<(), String> {
        match self.memory.get_mut(index) {
            Some(word) if self.vfu => {
                *word = value;
                Ok(())
            }
            _ => Err("mailbox written without being held (VFU)".into()),
        }
    }

    /// `PFMAILBOX` is read.
    pub(super) fn read_pf(&self) -> u32 {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        bit(self.vfu, pfmail::VFU) | bit(self.pfu, pfmail::PFU)
    }

    /// `PFMAILBOX` is written.
    pub(super) fn write_pf(&mut self, value: u32) -> Result<(), String> {
        let held = self.pfu;
        if value & pfmail::RVFU != 0 {
            self.vfu = false;
            (self.request, self.acknowledged) = (false, false);
        }
        self.pfu = value & pfmail::PFU != 0 && !self.vfu;
        if value & pfmail::STS != 0 {
            self.sticky |= vfmail::PFSTS;
        }
        if value & pfmail::ACK != 0 {
            self.sticky |= vfmail::PFACK;
        }
        if value & (pfmail::STS | pfmail::ACK) != 0 && !held {
            return Err("mailbox given away that was not held (PFU)".into());
        }
        Ok(())
    }

    /// The physical function writes a word.
    pub(super) fn store_pf(&mut self, index: usize, value: u32) -> Result<(), String> {
        if let Some(word) = self.memory.get_mut(index) {
            *word = value;
        }
        if self.pfu {
            Ok(())
        } else {
            Err("mailbox written without being held (PFU)".into())
        }
    }

    /// The physical function has come up: the virtual one sees it once.
    pub(super) fn reset_done(&mut self) {
        self.resetting = false;
        self.sticky |= vfmail::RSTD;
    }

    /// A model's own physical function sends: it holds the mailbox for as long as that takes.
    pub(super) fn send(&mut self, words: &[u32]) {
        self.memory[..words.len()].copy_from_slice(words);
        self.sticky |= vfmail::PFSTS;
    }

    /// It has taken a message.
    pub(super) fn acknowledge(&mut self) {
        self.sticky |= vfmail::PFACK;
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_message_goes_there_and_an_answer_comes_back() {
        let mut mailbox = Mailbox::default();
        assert_eq!(mailbox.write_vf(vfmail::VFU), Ok(()));
        assert_eq!(mailbox.write_pf(pfmail::PFU), Ok(()));
        assert_eq!(mailbox.read_pf(), pfmail::VFU, "one holds it");
        assert_eq!(mailbox.store_vf(0, 1), Ok(()));
        assert_eq!(mailbox.write_vf(vfmail::REQ), Ok(()));
        assert!(mailbox.request && !mailbox.is_held_by_vf());
        assert_eq!(mailbox.write_pf(pfmail::PFU), Ok(()));
        assert_eq!(mailbox.memory[0], 1);
        assert_eq!(mailbox.write_pf(pfmail::ACK), Ok(()));
        assert_eq!(mailbox.read_vf(), vfmail::PFACK);
        assert_eq!(mailbox.read_vf(), 0, "seen once");
        assert!(mailbox.store_pf(0, 2).is_err());
        assert_eq!(mailbox.write_pf(pfmail::PFU), Ok(()));
        assert_eq!(mailbox.store_pf(0, 0x8000_0001), Ok(()));
        assert_eq!(mailbox.write_pf(pfmail::STS), Ok(()));
        assert_eq!(mailbox.read_vf(), vfmail::PFSTS);
        assert!(mailbox.load_vf(0).is_err());
        assert_eq!(mailbox.write_vf(vfmail::VFU), Ok(()));
        assert_eq!(mailbox.load_vf(0), Ok(0x8000_0001));
        assert_eq!(mailbox.write_vf(vfmail::ACK), Ok(()));
        assert!(mailbox.acknowledged);
    }
}
