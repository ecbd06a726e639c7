//! The VLANs that a frame is in.

use std::fmt;

use crate::headers::tags;

/// Ids that name a VLAN (IEEE 802.1Q §9.6: 0 is a priority alone, 4095 is reserved).
const IDS: std::ops::RangeInclusive<u16> = 1..=4094;
/// EtherTypes of a customer's tag and of a provider's around it (IEEE 802.1Q §9.5).
const CUSTOMER: u16 = 0x8100;
const PROVIDER: u16 = 0x88a8;

/// The VLANs that a frame is in, outermost first: none, one, or two (QinQ).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vlans {
    ids: [u16; 2],
    len: usize,
}

impl Vlans {
    /// None: untagged.
    pub const NONE: Self = Self {
        ids: [0; 2],
        len: 0,
    };

    /// Those of `ids`, outermost first. None if an id names no VLAN, or there are more than two.
    #[must_use]
    pub fn new(ids: &[u16]) -> Option<Self> {
        let mut own = Self::default();
        own.ids.get_mut(..ids.len())?.copy_from_slice(ids);
        own.len = ids.len();
        ids.iter().all(|id| IDS.contains(id)).then_some(own)
    }

    /// Those that `frame` is in. Tags that say a priority alone do not count.
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        let mut own = Self::default();
        for tag in tags(frame).map(|tag| tag & 0xfff) {
            if tag != 0 && own.len < own.ids.len() {
                own.ids[own.len] = tag;
                own.len += 1;
            }
        }
        own
    }

    /// The ids.
    #[must_use]
    pub fn ids(&self) -> &[u16] {
        &self.ids[..self.len]
    }

    /// Puts an untagged frame into them.
    pub(super) fn tag(&self, frame: &mut Vec<u8>) {
        for (place, id) in self.ids().iter().enumerate().rev() {
            let kind = if place + 1 == self.len {
                CUSTOMER
            } else {
                PROVIDER
            };
            let tag = [kind.to_be_bytes(), id.to_be_bytes()].concat();
            frame.splice(12..12, tag);
        }
    }
}

impl fmt::Display for Vlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ids() {
            [] => write!(f, "untagged"),
            [id] => write!(f, "VLAN {id}"),
            [outer, inner, ..] => write!(f, "VLAN {inner} in {outer}"),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_tagged_is_read_as_it_was_and_carries_the_kinds_of_tags_that_switches_want() {
        let untagged = vec![0xee; 60];
        for ids in [&[][..], &[1], &[4094], &[100, 200]] {
            let vlans = Vlans::new(ids).unwrap();
            let mut frame = untagged.clone();
            vlans.tag(&mut frame);
            assert_eq!(Vlans::of(&frame), vlans);
            assert_eq!(frame.len(), 60 + 4 * ids.len());
        }
        let mut frame = untagged;
        Vlans::new(&[100, 200]).unwrap().tag(&mut frame);
        assert_eq!(frame[12..20], [0x88, 0xa8, 0, 100, 0x81, 0, 0, 200]);
    }

    #[test]
    fn a_priority_is_no_vlan_and_ids_that_name_none_are_refused() {
        let mut frame = vec![0; 60];
        frame[12..16].copy_from_slice(&[0x81, 0, 0xe0, 0]);
        assert_eq!(Vlans::of(&frame), Vlans::default());
        frame[12..16].copy_from_slice(&[0x81, 0, 0xe0, 7]);
        assert_eq!(Vlans::of(&frame).ids(), [7], "whatever its priority");
        for ids in [&[0][..], &[4095], &[1, 2, 3], &[5, 0]] {
            assert_eq!(Vlans::new(ids), None, "{ids:?}");
        }
    }
}
