//! Which received frames the driver gets.
//!
//! The rules are QEMU's (`hw/net/virtio-net.c`), which Linux and everyone else lives with: after
//! a reset the device is promiscuous, and then nothing is filtered at all, not even VLANs.

use crate::Mac;

/// Addresses that the table holds of each kind; more make it let all of that kind pass.
const TABLE: usize = 64;
/// VLAN ids.
const VLANS: usize = 4096;
const EVERYONE: Mac = [0xff; 6];

/// The receive filter.
pub(super) struct Filter {
    pub(super) promiscuous: bool,
    pub(super) all_multicast: bool,
    pub(super) all_unicast: bool,
    pub(super) no_multicast: bool,
    pub(super) no_unicast: bool,
    pub(super) no_broadcast: bool,
    unicast: Table,
    multicast: Table,
    /// A bit for each VLAN that passes.
    vlans: Box<[u64; VLANS / 64]>,
}

/// Addresses of one kind.
#[derive(Default)]
struct Table {
    macs: Vec<Mac>,
    overflown: bool,
}

impl Table {
    fn set(&mut self, macs: impl ExactSizeIterator<Item = Mac>) {
        self.macs.clear();
        self.overflown = macs.len() > TABLE;
        if !self.overflown {
            self.macs.extend(macs);
        }
    }

    fn passes(&self, mac: Mac) -> bool {
        self.overflown || self.macs.contains(&mac)
    }
}

/// Whom a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addressee {
    One,
    Group,
    Everyone,
}

impl Addressee {
    #[inline]
    pub(super) fn of(head: &[u8]) -> Self {
        match head {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => Self::Everyone,
            [first, ..] if first & 1 == 1 => Self::Group,
            _ => Self::One,
        }
    }
}

impl Filter {
    /// As after a reset.
    pub(super) fn new() -> Self {
        Self {
            promiscuous: true,
            all_multicast: false,
            all_unicast: false,
            no_multicast: false,
            no_unicast: false,
            no_broadcast: false,
            unicast: Table::default(),
            multicast: Table::default(),
            vlans: Box::new([u64::MAX; VLANS / 64]),
        }
    }

    /// Lets every VLAN pass, or none until one is added: the driver accepted the VLAN filter.
    pub(super) fn set_all_vlans(&mut self, pass: bool) {
        self.vlans.fill(if pass { u64::MAX } else { 0 });
    }

    /// Lets one VLAN pass or not; false if there is no such VLAN.
    pub(super) fn set_vlan(&mut self, vlan: u16, pass: bool) -> bool {
        let Some(word) = self.vlans.get_mut(usize::from(vlan / 64)) else {
            return false;
        };
        let bit = 1 << (vlan % 64);
        *word = if pass { *word | bit } else { *word & !bit };
        true
    }

    /// Replaces the address table.
    pub(super) fn set_table(&mut self, unicast: &[[u8; 6]], multicast: &[[u8; 6]]) {
        self.unicast.set(unicast.iter().copied());
        self.multicast.set(multicast.iter().copied());
    }

    /// Whether a frame that begins with `head` passes; `own` is the device's address.
    #[inline]
    pub(super) fn passes(&self, head: &[u8], own: Mac) -> bool {
        self.promiscuous || self.passes_tables(head, own)
    }

    fn passes_tables(&self, head: &[u8], own: Mac) -> bool {
        if let [0x81, 0x00, high, low, ..] = head.get(12..).unwrap_or_default() {
            let vlan = u16::from_be_bytes([*high, *low]) & 0xfff;
            if self.vlans[usize::from(vlan / 64)] & 1 << (vlan % 64) == 0 {
                return false;
            }
        }
        let Some(mac) = head.first_chunk::<6>().copied() else {
            return false;
        };
        if mac == EVERYONE {
            !self.no_broadcast
        } else if mac[0] & 1 == 1 {
            !self.no_multicast && (self.all_multicast || self.multicast.passes(mac))
        } else {
            !self.no_unicast && (self.all_unicast || mac == own || self.unicast.passes(mac))
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const OWN: Mac = [2, 0, 0, 0, 0, 1];

    fn frame(to: Mac, rest: &[u8]) -> Vec<u8> {
        [&to[..], &[2, 9, 9, 9, 9, 9], rest].concat()
    }

    #[test]
    fn a_fresh_filter_lets_everything_pass_and_without_promiscuity_only_its_own() {
        let mut filter = Filter::new();
        let strange = frame([2, 7, 7, 7, 7, 7], &[8, 0]);
        assert!(filter.passes(&strange, OWN));
        filter.promiscuous = false;
        assert!(!filter.passes(&strange, OWN));
        assert!(filter.passes(&frame(OWN, &[8, 0]), OWN));
        assert!(filter.passes(&frame(EVERYONE, &[8, 0]), OWN));
        assert!(!filter.passes(&frame([1, 0, 0x5e, 0, 0, 1], &[8, 0]), OWN));
    }

    #[test]
    fn tables_and_modes_add_addresses_and_take_them() {
        let mut filter = Filter::new();
        filter.promiscuous = false;
        let (group, other) = ([1, 0, 0x5e, 0, 0, 1], [2, 7, 7, 7, 7, 7]);
        filter.set_table(&[other], &[group]);
        assert!(filter.passes(&frame(other, &[8, 0]), OWN));
        assert!(filter.passes(&frame(group, &[8, 0]), OWN));
        filter.no_multicast = true;
        filter.no_unicast = true;
        filter.no_broadcast = true;
        for to in [other, group, EVERYONE, OWN] {
            assert!(!filter.passes(&frame(to, &[8, 0]), OWN));
        }
    }

    #[test]
    fn a_full_table_lets_all_of_its_kind_pass() {
        let mut filter = Filter::new();
        filter.promiscuous = false;
        filter.set_table(&[[2, 1, 1, 1, 1, 1]; 65], &[]);
        assert!(filter.passes(&frame([2, 7, 7, 7, 7, 7], &[8, 0]), OWN));
        assert!(!filter.passes(&frame([3, 7, 7, 7, 7, 7], &[8, 0]), OWN));
    }

    #[test]
    fn only_added_vlans_pass_once_the_filter_is_on() {
        let mut filter = Filter::new();
        filter.promiscuous = false;
        let tagged = frame(OWN, &[0x81, 0, 0x60, 100, 8, 0]);
        assert!(filter.passes(&tagged, OWN));
        filter.set_all_vlans(false);
        assert!(!filter.passes(&tagged, OWN));
        assert!(filter.set_vlan(100, true));
        assert!(filter.passes(&tagged, OWN));
        assert!(!filter.set_vlan(4096, true));
    }
}
