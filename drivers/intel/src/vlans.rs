//! The VLANs that a port has asked for, as its receive queues see them.

use std::sync::atomic::{AtomicU64, Ordering};

/// VLANs, a bit each. The port changes them while queues look.
#[derive(Debug)]
pub struct Vlans(Box<[AtomicU64; 64]>);

impl Default for Vlans {
    fn default() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; 64]))
    }
}

impl Vlans {
    /// Makes it these and no others.
    pub fn set(&self, vlans: &[u16]) {
        for (number, word) in (0..).zip(self.0.iter()) {
            let own = vlans.iter().filter(|&&vlan| vlan / 64 == number);
            let bits = own.fold(0, |bits, vlan| bits | 1 << (vlan % 64));
            word.store(bits, Ordering::Relaxed);
        }
    }

    /// True if the VLAN of `tag` is among them. VLAN 0 is none: such a tag has only a priority
    /// (IEEE 802.1Q §9.6).
    #[inline]
    pub fn has(&self, tag: u16) -> bool {
        let vlan = tag & 0xfff;
        let word = &self.0[usize::from(vlan / 64)];
        vlan == 0 || word.load(Ordering::Relaxed) >> (vlan % 64) & 1 == 1
    }
}
