//! Which received frames the driver gets, as QEMU decides it (`vmxnet3_rx_filter_may_indicate`).

use super::bits::{mode, shared};
use crate::Mac;

const EVERYONE: Mac = [0xff; 6];
/// No VLAN, and one that is reserved: never filtered.
const SPECIAL: [u16; 2] = [0, 0xfff];

/// The tag of a frame that begins with `head`: of a VLAN, or of a service provider. QEMU takes either
/// for one (`include/net/eth.h`, `eth_get_pkt_tci`; `net/eth.c`, `eth_strip_vlan`), and nobody else
/// says.
#[inline]
pub(super) fn tag(head: &[u8]) -> Option<u16> {
    match head.get(12..16) {
        Some(&([0x81, 0x00, high, low] | [0x88, 0xa8, high, low])) => {
            Some(u16::from_be_bytes([high, low]))
        }
        _ => None,
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

/// The receive filter. Nothing passes until the driver has set a mode.
pub(super) struct Filter {
    pub(super) mode: u32,
    pub(super) groups: Vec<Mac>,
    /// A bit for each VLAN that passes, as the driver lays them out.
    pub(super) vlans: [u8; shared::VF_TABLE_BYTES],
}

impl Filter {
    pub(super) fn new() -> Self {
        Self {
            mode: 0,
            groups: Vec::new(),
            vlans: [0; shared::VF_TABLE_BYTES],
        }
    }

    fn has(&self, modes: u32) -> bool {
        self.mode & modes != 0
    }

    /// Whether a frame that begins with `head` passes; `own` is the device's address.
    #[inline]
    pub(super) fn passes(&self, head: &[u8], own: Mac) -> bool {
        self.has(mode::PROMISC) || (self.passes_vlan(head) && self.passes_address(head, own))
    }

    fn passes_vlan(&self, head: &[u8]) -> bool {
        let Some(tag) = tag(head) else {
            return true;
        };
        let vlan = tag & 0xfff;
        // Words of 32 bits, little-endian: VLAN 0 is bit 0 of the first byte.
        let byte = self.vlans[usize::from(vlan / 8)];
        SPECIAL.contains(&vlan) || byte & 1 << (vlan % 8) != 0
    }

    fn passes_address(&self, head: &[u8], own: Mac) -> bool {
        let Some(mac) = head.first_chunk::<6>().copied() else {
            return false;
        };
        if mac == EVERYONE {
            self.has(mode::BCAST)
        } else if mac[0] & 1 == 1 {
            self.has(mode::ALL_MULTI) || (self.has(mode::MCAST) && self.groups.contains(&mac))
        } else {
            self.has(mode::UCAST) && mac == own
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const OWN: Mac = [2, 0, 0, 0, 0, 1];
    const GROUP: Mac = [1, 0, 0x5e, 0, 0, 1];

    fn frame(to: Mac, rest: &[u8]) -> Vec<u8> {
        [&to[..], &[2, 9, 9, 9, 9, 9], rest].concat()
    }

    #[test]
    fn nothing_passes_until_a_mode_lets_it() {
        let mut filter = Filter::new();
        let frames = [OWN, GROUP, EVERYONE, [2, 7, 7, 7, 7, 7]].map(|to| frame(to, &[8, 0]));
        let passes = |filter: &Filter| frames.each_ref().map(|frame| filter.passes(frame, OWN));
        assert_eq!(passes(&filter), [false; 4]);
        filter.mode = mode::UCAST;
        assert_eq!(passes(&filter), [true, false, false, false]);
        filter.mode = mode::MCAST | mode::BCAST;
        assert_eq!(passes(&filter), [false, false, true, false]);
        filter.groups.push(GROUP);
        assert_eq!(passes(&filter), [false, true, true, false]);
        filter.mode = mode::ALL_MULTI;
        filter.groups.clear();
        assert_eq!(passes(&filter), [false, true, false, false]);
        filter.mode = mode::PROMISC;
        assert_eq!(passes(&filter), [true; 4]);
    }

    #[test]
    fn vlans_are_filtered_but_for_the_special_ones_and_not_when_promiscuous() {
        let mut filter = Filter::new();
        filter.mode = mode::UCAST;
        let tagged = |id: u16| frame(OWN, &[&[0x81, 0][..], &id.to_be_bytes(), &[8, 0]].concat());
        assert!(filter.passes(&tagged(0xe000), OWN), "priority alone");
        assert!(!filter.passes(&tagged(0x2000 | 35), OWN));
        // VLAN 35: bit 3 of the second 32-bit word.
        filter.vlans[4] = 1 << 3;
        assert!(filter.passes(&tagged(0x2000 | 35), OWN));
        assert!(!filter.passes(&tagged(34), OWN));
        for (id, passes) in [(35, true), (34, false)] {
            let outer = frame(OWN, &[0x88, 0xa8, 0, id, 0x81, 0, 0, 35, 8, 0]);
            assert_eq!(filter.passes(&outer, OWN), passes, "a provider's tag");
        }
        filter.mode = mode::PROMISC;
        assert!(filter.passes(&tagged(34), OWN));
    }
}
