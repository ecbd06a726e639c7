//! Registers of a virtual function (82599 datasheet §8.3), in its BAR 0. Its queues are
//! [`QueueRegs`](crate::regs::QueueRegs)'.

use intel::mailbox::Bits as Mailbox;

use crate::regs::{Ctrl, Links, Mrqc, Status};

bitflags::bitflags! {
    /// Packet types, and how many queues there are (§8.3.5).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Psrtype: u32 {
        /// TCP.
        const TCP = 1 << 4;
        /// UDP.
        const UDP = 1 << 5;
        /// IPv4.
        const IPV4 = 1 << 8;
        /// IPv6.
        const IPV6 = 1 << 9;
        /// Ethernet.
        const L2 = 1 << 12;
        const _ = !0;
    }
}

/// [`Psrtype`]: RQPL begins here, the power of two of receive queues.
pub(crate) const RQPL_SHIFT: u32 = 29;

hw::register_bits!(Psrtype: u32);

hw::registers! {
    /// Device control: only its reset (§8.3.5).
    VFCTRL @ 0x0000: Wo Ctrl;
    /// Device status (§8.3.5).
    VFSTATUS @ 0x0008: Ro Status;
    /// The link (§8.3.5).
    VFLINKS @ 0x0010: Ro Links;
    /// Interrupts that happened; cleared by reading (§8.3.5).
    VTEICR @ 0x0100: Rc u32;
    /// Interrupts to forbid (§8.3.5).
    VTEIMC @ 0x010c: Wo u32;
    /// Message buffer shared with the PF (§8.3.5).
    VFMBMEM[16 step 4] @ 0x0200: Rw u32;
    /// The mailbox (§8.3.5).
    VFMAILBOX @ 0x02fc: Rw Mailbox;
    /// Packet types, and how many queues there are (§8.3.5).
    VFPSRTYPE @ 0x0300: Rw Psrtype;
    /// X550: several receive queues (Linux, `ixgbevf/regs.h`).
    VFMRQC @ 0x3000: Rw Mrqc;
    /// X550: the key of the hash.
    VFRSSRK[10 step 4] @ 0x3100: Rw u32;
    /// X550: the queue of each value of the hash's low 6 bits, a byte each.
    VFRETA[16 step 4] @ 0x3200: Rw u32;
}
