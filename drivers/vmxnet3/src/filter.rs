//! Which frames the device accepts.

use std::sync::atomic::{AtomicU8, Ordering};

use port::Mac;

use crate::area::{Area, VLAN_WORDS, at, mode};

/// Most groups in the table.
pub(crate) const GROUPS_MAX: usize = 256;
/// Bytes of the table of groups: an address after the other.
pub(crate) const GROUPS_BYTES: usize = GROUPS_MAX * 6;

/// What the user asked for: told to the device whenever it is started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Every frame.
    pub(crate) promiscuous: bool,
    /// Every multicast.
    pub(crate) all_multicast: bool,
    /// Groups: [`GROUPS_MAX`] at most.
    pub(crate) groups: Vec<Mac>,
    /// VLANs. A run without the offload accepts all.
    pub(crate) vlans: Vec<u16>,
}

impl Filter {
    /// The bits of `rxMode`.
    pub(crate) fn mode(&self) -> u32 {
        let mut bits = mode::UCAST | mode::MCAST | mode::BCAST;
        if self.all_multicast {
            bits |= mode::ALL_MULTI;
        }
        if self.promiscuous {
            bits |= mode::PROMISC;
        }
        bits
    }

    /// Writes which kinds of frames are accepted.
    pub(crate) fn write_mode(&self, area: &Area) {
        area.put(at::RX_MODE, self.mode());
    }

    /// Writes the table of groups into `memory`, and where it is.
    pub(crate) fn write_groups(&self, area: &Area, memory: &[AtomicU8]) {
        let bytes = self.groups.iter().flatten();
        for (cell, &byte) in memory.iter().zip(bytes) {
            cell.store(byte, Ordering::Relaxed);
        }
        let len = self.groups.len() * 6;
        area.put(
            at::GROUPS_LEN,
            u32::try_from(len).expect("256 addresses at most"),
        );
    }

    /// Writes the table of VLANs: all of them unless the run `filters`; and all of them for a
    /// promiscuous port, as devices differ in what comes first. 0 stands for frames without a tag.
    pub(crate) fn write_vlans(&self, area: &Area, filters: bool) {
        let every = !filters || self.promiscuous;
        let mut table = [if every { u32::MAX } else { 0 }; VLAN_WORDS];
        for &id in self.vlans.iter().chain(&[0]) {
            table[usize::from(id) / 32] |= 1 << (id % 32);
        }
        for (number, word) in table.into_iter().enumerate() {
            area.put(at::VLANS + number * 4, word);
        }
    }
}
