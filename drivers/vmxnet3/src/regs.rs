//! Registers and commands (defs: `VMXNET3_REG_*`, `VMXNET3_CMD_*`).

/// PCI configuration space.
pub(crate) mod pci {
    /// VMware's vendor id.
    pub(crate) const VMWARE: u16 = 0x15ad;
    /// vmxnet3's device id.
    pub(crate) const VMXNET3: u16 = 0x07b0;
    /// Offset of the vendor id.
    pub(crate) const VENDOR: u16 = 0x00;
    /// Offset of the device id.
    pub(crate) const DEVICE: u16 = 0x02;
}

/// Bytes of either register window that the driver uses (defs: `VMXNET3_PT_REG_SIZE`,
/// `VMXNET3_VD_REG_SIZE`).
pub(crate) const WINDOW: u64 = 4096;

/// The window for moving frames: BAR 0, "PT".
pub(crate) mod pass {
    /// Its BAR.
    pub(crate) const BAR: u8 = 0;

    hw::registers! {
        /// Interrupt mask: 1 keeps the interrupt off.
        IMR[25 step 8] @ 0x000: Rw u32;
        /// Send ring: the slot after the last that the driver has written.
        TXPROD[8 step 8] @ 0x600: Wo u32;
        /// Receive ring of heads: the slot after the last that the driver has armed.
        RXPROD[16 step 8] @ 0x800: Wo u32;
        /// The same for the ring of bodies.
        RXPROD2[16 step 8] @ 0xa00: Wo u32;
    }
}

/// The window for commands: BAR 1, "VD".
pub(crate) mod control {
    /// Its BAR.
    pub(crate) const BAR: u8 = 1;

    hw::registers! {
        /// Revisions: reads as those the device offers, a bit each; the one to use is written.
        VRRS @ 0x00: Rw u32;
        /// The same for the version of UPT, the layout of what queues share.
        UVRS @ 0x08: Rw u32;
        /// Address of the shared area, low half: written before the high one.
        DSAL @ 0x10: Wo u32;
        /// Address of the shared area, high half: now the device knows it.
        DSAH @ 0x18: Wo u32;
        /// Command; reads as the result of the last one.
        CMD @ 0x20: Rw u32;
        /// MAC address, first four bytes.
        MACL @ 0x28: Rw u32;
        /// MAC address, last two bytes: written after the first four.
        MACH @ 0x30: Rw u32;
        /// Interrupt cause of a line interrupt.
        ICR @ 0x38: Rc u32;
        /// Events: writing a bit acknowledges it. Which there are stands in the shared area.
        ECR @ 0x40: Wo u32;
    }
}

/// What can be written to `CMD`.
pub(crate) mod command {
    /// Reads the shared area and starts the queues; the result is 0 if it worked.
    pub(crate) const ACTIVATE_DEV: u32 = 0xcafe_0000;
    /// Stops the queues.
    pub(crate) const QUIESCE_DEV: u32 = 0xcafe_0001;
    /// Forgets everything but the address.
    pub(crate) const RESET_DEV: u32 = 0xcafe_0002;
    /// Reads `rxMode`.
    pub(crate) const UPDATE_RX_MODE: u32 = 0xcafe_0003;
    /// Reads the table of groups.
    pub(crate) const UPDATE_MAC_FILTERS: u32 = 0xcafe_0004;
    /// Reads the table of VLANs.
    pub(crate) const UPDATE_VLAN_FILTERS: u32 = 0xcafe_0005;
    /// Reads the indirection table.
    pub(crate) const UPDATE_RSSIDT: u32 = 0xcafe_0006;
    /// Reads which headers are hashed (revision 4).
    pub(crate) const SET_RSS_FIELDS: u32 = 0xcafe_0010;
    /// Writes each queue's status into its descriptor.
    pub(crate) const GET_QUEUE_STATUS: u32 = 0xf00d_0000;
    /// Writes each queue's counters into its descriptor.
    pub(crate) const GET_STATS: u32 = 0xf00d_0001;
    /// The result is the link: bit 0 up, speed in Mb/s from bit 16.
    pub(crate) const GET_LINK: u32 = 0xf00d_0002;
    /// The result is the first four bytes of the address that the device was made with.
    pub(crate) const GET_PERM_MAC_LO: u32 = 0xf00d_0003;
    /// The result is its last two bytes.
    pub(crate) const GET_PERM_MAC_HI: u32 = 0xf00d_0004;
}

bitflags::bitflags! {
    /// Events (defs: `VMXNET3_ECR_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Events: u32 {
        /// A receive queue stopped.
        const RQERR = 1 << 0;
        /// A send queue stopped.
        const TQERR = 1 << 1;
        /// The link changed.
        const LINK = 1 << 2;
        /// The device's implementation changed beneath the driver (a VM moved).
        const DIC = 1 << 3;
        const _ = !0;
    }
}
