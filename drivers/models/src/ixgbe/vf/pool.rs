//! What the hardware lets through to a virtual function and from it: its pool (82599 §7.10.3).

use crate::Mac;

/// Which frames beside those for its own address a virtual function gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Xcast {
    /// Broadcasts.
    #[default]
    None = 0,
    /// Its groups too.
    Multi = 1,
    /// All groups.
    AllMulti = 2,
    /// Everything.
    Promiscuous = 3,
}

impl Xcast {
    pub(super) fn of(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Multi),
            2 => Some(Self::AllMulti),
            3 => Some(Self::Promiscuous),
            _ => None,
        }
    }
}

/// A virtual function's pool.
#[derive(Default)]
pub(super) struct Pool {
    pub(super) mac: Mac,
    /// Further addresses.
    pub(super) filters: Vec<Mac>,
    /// Hashes of groups.
    pub(super) groups: Vec<u16>,
    /// They count (`VMOLR.ROMPE`).
    pub(super) takes_groups: bool,
    pub(super) xcast: Xcast,
    /// VLANs; 0: untagged ones.
    pub(super) vlans: Vec<u16>,
    /// Longest frame with FCS.
    pub(super) longest: u32,
    /// Frames may be received (`VFRE`) and sent (`VFTE`).
    pub(super) receives: bool,
    pub(super) sends: bool,
    /// Foreign addresses and VLANs are not sent (`PFVFSPOOF`).
    pub(super) checks_spoofs: bool,
}

impl Pool {
    /// True if a received frame is for this virtual function.
    #[inline]
    pub(super) fn accepts(&self, to: Mac, vlan: Option<u16>) -> bool {
        // Untagged frames are VLAN 0's, but where there is a port VLAN.
        let id = vlan.map_or(0, |tag| tag & 0xfff);
        self.vlans.contains(&id) && (to == [0xff; 6] || self.accepts_address(to))
    }

    fn accepts_address(&self, to: Mac) -> bool {
        if to[0] & 1 == 0 {
            return self.is_own(to) || self.xcast == Xcast::Promiscuous;
        }
        let hash = u16::from(to[4]) >> 4 | u16::from(to[5]) << 4;
        self.xcast >= Xcast::AllMulti || self.takes_groups && self.groups.contains(&hash)
    }

    #[inline]
    pub(super) fn is_own(&self, mac: Mac) -> bool {
        mac == self.mac || self.filters.contains(&mac)
    }

    /// True if a frame of `bytes` without FCS is too long.
    #[inline]
    pub(super) fn is_too_long(&self, bytes: u32, tagged: bool) -> bool {
        bytes + 4 > self.longest + if tagged { 4 } else { 0 }
    }

    /// True if a frame from this address, with this tag, may be sent.
    #[inline]
    pub(super) fn may_send(&self, from: Mac, vlan: Option<u16>) -> bool {
        if !self.checks_spoofs {
            return true;
        }
        self.is_own(from) && vlan.is_none_or(|tag| self.vlans.contains(&(tag & 0xfff)))
    }
}
