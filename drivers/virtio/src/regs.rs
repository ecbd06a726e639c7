//! Registers of virtio on PCI (§4.1), and the configuration space of a network device (§5.1.4).

bitflags::bitflags! {
    /// Device status (§2.1).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(crate) struct Status: u8 {
        /// The driver has seen the device.
        const ACKNOWLEDGE = 1;
        /// The driver knows how to drive it.
        const DRIVER = 2;
        /// The driver is ready.
        const DRIVER_OK = 4;
        /// The driver has chosen its features.
        const FEATURES_OK = 8;
        /// The device is in a state that only a reset helps out of.
        const NEEDS_RESET = 64;
        /// The driver has given up.
        const FAILED = 128;
        const _ = !0;
    }

    /// Status of a network device, in its configuration space (§5.1.4).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(crate) struct NetStatus: u16 {
        /// The link is up.
        const LINK_UP = 1;
        const _ = !0;
    }
}

impl Status {
    /// What a device that is gone reads as: all ones.
    pub(crate) const GONE: Self = Self::all();
}

hw::register_bits!(Status: u8, NetStatus: u16);

/// Kinds of structure that a vendor capability points to (§4.1.4).
pub(crate) mod kind {
    /// Common configuration.
    pub(crate) const COMMON: u8 = 1;
    /// Notifications.
    pub(crate) const NOTIFY: u8 = 2;
    /// Device-specific configuration.
    pub(crate) const DEVICE: u8 = 4;
}

/// A vendor capability (§4.1.4), by offset from its start in PCI configuration space.
pub(crate) mod capability {
    /// The vendor capability's id.
    pub(crate) const VENDOR: u8 = 0x09;
    /// The MSI-X capability's id.
    pub(crate) const MSIX: u8 = 0x11;
    /// Which structure.
    pub(crate) const KIND: u16 = 3;
    /// In which BAR.
    pub(crate) const BAR: u16 = 4;
    /// Where in the BAR.
    pub(crate) const OFFSET: u16 = 8;
    /// How long.
    pub(crate) const LENGTH: u16 = 12;
    /// Distance between two queues' notification addresses.
    pub(crate) const MULTIPLIER: u16 = 16;
    /// MSI-X: message control, of which bit 15 is "enabled".
    pub(crate) const MSIX_CONTROL: u16 = 2;
}

/// PCI configuration space.
pub(crate) mod pci {
    /// Vendor id.
    pub(crate) const VENDOR: u16 = 0;
    /// Device id.
    pub(crate) const DEVICE: u16 = 2;
    /// Command.
    pub(crate) const COMMAND: u16 = 4;
    /// Command: answers in I/O space.
    pub(crate) const COMMAND_IO: u16 = 1 << 0;
    /// Command: answers in memory space.
    pub(crate) const COMMAND_MEMORY: u16 = 1 << 1;
    /// Command: may do DMA.
    pub(crate) const COMMAND_MASTER: u16 = 1 << 2;
    /// Command: no legacy interrupts.
    pub(crate) const COMMAND_NO_INTX: u16 = 1 << 10;
    /// Red Hat, whose vendor id virtio has.
    pub(crate) const RED_HAT: u16 = 0x1af4;
    /// A network device that may have the legacy interface (§4.1.2).
    pub(crate) const TRANSITIONAL_NET: u16 = 0x1000;
    /// A network device of the standard: 0x1040 and the device's number (§4.1.2.1).
    pub(crate) const MODERN_NET: u16 = 0x1041;
}

/// Common configuration (§4.1.4.3).
pub(crate) mod common {
    use super::Status;

    /// Bytes of it that every device has.
    pub(crate) const LEN: u32 = 56;

    hw::registers! {
        /// Which half of the device's features is shown (§4.1.4.3).
        DEVICE_FEATURE_SELECT @ 0x00: Rw u32;
        /// That half (§4.1.4.3).
        DEVICE_FEATURE @ 0x04: Ro u32;
        /// Which half of the driver's features is written (§4.1.4.3).
        DRIVER_FEATURE_SELECT @ 0x08: Rw u32;
        /// That half (§4.1.4.3).
        DRIVER_FEATURE @ 0x0c: Rw u32;
        /// Queues that the device has (§4.1.4.3).
        NUM_QUEUES @ 0x12: Ro u16;
        /// Device status (§4.1.4.3, §2.1).
        DEVICE_STATUS @ 0x14: Rw Status;
        /// Changes with the device's configuration (§4.1.4.3).
        CONFIG_GENERATION @ 0x15: Ro u8;
        /// Which queue the registers below are about (§4.1.4.3).
        QUEUE_SELECT @ 0x16: Rw u16;
        /// Its slots: at most, then those in use (§4.1.4.3).
        QUEUE_SIZE @ 0x18: Rw u16;
        /// Whether it runs (§4.1.4.3).
        QUEUE_ENABLE @ 0x1c: Rw u16;
        /// Where its notifications go, in multiples (§4.1.4.3).
        QUEUE_NOTIFY_OFF @ 0x1e: Ro u16;
        /// Its descriptor area (§4.1.4.3).
        QUEUE_DESC @ 0x20: Rw u64;
        /// Its driver area (§4.1.4.3).
        QUEUE_DRIVER @ 0x28: Rw u64;
        /// Its device area (§4.1.4.3).
        QUEUE_DEVICE @ 0x30: Rw u64;
    }
}

/// The legacy interface's registers (§4.1.4.10).
pub(crate) mod legacy {
    use super::Status;

    /// Where the device's configuration begins without MSI-X.
    pub(crate) const CONFIG: u32 = 20;
    /// Where it begins with MSI-X enabled.
    pub(crate) const CONFIG_MSIX: u32 = 24;
    /// Queue addresses are numbers of pages of so many bits (§2.7.2).
    pub(crate) const PAGE_SHIFT: u32 = 12;

    hw::registers! {
        /// The device's features, of which there are 32 (§4.1.4.10).
        DEVICE_FEATURES @ 0x00: Ro u32;
        /// The driver's (§4.1.4.10).
        DRIVER_FEATURES @ 0x04: Rw u32;
        /// Page number of the selected queue (§4.1.4.10).
        QUEUE_ADDRESS @ 0x08: Rw u32;
        /// Its slots, which the device decides (§4.1.4.10).
        QUEUE_SIZE @ 0x0c: Ro u16;
        /// Which queue the registers above are about (§4.1.4.10).
        QUEUE_SELECT @ 0x0e: Rw u16;
        /// Takes the number of a queue that has new buffers (§4.1.4.10).
        QUEUE_NOTIFY @ 0x10: Rw u16;
        /// Device status (§4.1.4.10, §2.1).
        DEVICE_STATUS @ 0x12: Rw Status;
    }
}

/// Configuration of a network device (§5.1.4).
pub(crate) mod net {
    use super::NetStatus;

    /// The address, six bytes from here.
    pub(crate) const MAC: u32 = 0;

    hw::registers! {
        /// Link (§5.1.4).
        STATUS @ 0x06: Ro NetStatus;
        /// Queue pairs at most (§5.1.4).
        MAX_VIRTQUEUE_PAIRS @ 0x08: Ro u16;
        /// Largest payload that the device's network takes (§5.1.4).
        MTU @ 0x0a: Ro u16;
        /// Megabits a second; all ones if unknown (§5.1.4).
        SPEED @ 0x0c: Ro u32;
        /// 1 for full duplex (§5.1.4).
        DUPLEX @ 0x10: Ro u8;
        /// Most bytes of a hash's key (§5.1.4).
        RSS_MAX_KEY_SIZE @ 0x11: Ro u8;
        /// Most entries of a table of queues (§5.1.4).
        RSS_MAX_INDIRECTION_TABLE_LENGTH @ 0x12: Ro u16;
        /// What the device can hash (§5.1.4).
        SUPPORTED_HASH_TYPES @ 0x14: Ro u32;
    }
}
