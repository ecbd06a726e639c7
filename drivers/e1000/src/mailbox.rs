//! What a virtual function asks its physical function through the mailbox: the requests that
//! Linux's igb knows (`igb/e1000_mbx.h`). How the mailbox works is in [`intel::mailbox`].

use hw::Bar;
use intel::mailbox::{Mailbox, Place};

use crate::regs;

/// The mailbox behind `bar`.
pub(crate) fn open<B: Bar>(bar: B, port: String) -> Mailbox<B> {
    let place = Place {
        bits: regs::V2PMAILBOX,
        words: regs::VMBMEM,
    };
    Mailbox::new(bar, place, port)
}

/// What a VF can ask. The low 16 bits of a message's first word.
pub(crate) mod request {
    pub(crate) use intel::message::RESET;

    /// To set the address, or with [`ADD`] to add one.
    pub(crate) const SET_MAC: u32 = 2;
    /// To receive groups, given by their hashes.
    pub(crate) const MULTICAST: u32 = 3;
    /// To receive a VLAN, or no longer.
    pub(crate) const VLAN: u32 = 4;
    /// To receive frames of up to so many bytes.
    pub(crate) const LPE: u32 = 5;
    /// To receive every group.
    pub(crate) const PROMISC: u32 = 6;

    /// [`SET_MAC`]: forget all further addresses.
    pub(crate) const CLEAR: u32 = 1 << 16;
    /// [`SET_MAC`]: one more address.
    pub(crate) const ADD: u32 = 2 << 16;
    /// [`PROMISC`]: every group.
    pub(crate) const ALL_GROUPS: u32 = 2 << 16;
    /// [`VLAN`]: receive it.
    pub(crate) const ON: u32 = 1 << 16;
    /// [`MULTICAST`]: how many hashes follow, from this bit on.
    pub(crate) const COUNT_SHIFT: u32 = 16;
}
