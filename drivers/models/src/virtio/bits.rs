//! Numbers of the virtio 1.2 standard, as a device needs them. Section marks (§) are of that
//! document. Transcribed for the models alone: no driver shares them.

/// Feature bits (§5.1.3 for network devices, §6 for all).
pub(super) mod feature {
    pub(crate) const CSUM: u64 = 1 << 0;
    pub(crate) const GUEST_CSUM: u64 = 1 << 1;
    pub(crate) const MTU: u64 = 1 << 3;
    pub(crate) const MAC: u64 = 1 << 5;
    pub(crate) const GUEST_TSO4: u64 = 1 << 7;
    pub(crate) const GUEST_TSO6: u64 = 1 << 8;
    pub(crate) const GUEST_ECN: u64 = 1 << 9;
    pub(crate) const GUEST_UFO: u64 = 1 << 10;
    pub(crate) const HOST_TSO4: u64 = 1 << 11;
    pub(crate) const HOST_TSO6: u64 = 1 << 12;
    pub(crate) const HOST_ECN: u64 = 1 << 13;
    pub(crate) const HOST_UFO: u64 = 1 << 14;
    pub(crate) const MRG_RXBUF: u64 = 1 << 15;
    pub(crate) const STATUS: u64 = 1 << 16;
    pub(crate) const CTRL_VQ: u64 = 1 << 17;
    pub(crate) const CTRL_RX: u64 = 1 << 18;
    pub(crate) const CTRL_VLAN: u64 = 1 << 19;
    pub(crate) const CTRL_RX_EXTRA: u64 = 1 << 20;
    pub(crate) const GUEST_ANNOUNCE: u64 = 1 << 21;
    pub(crate) const MQ: u64 = 1 << 22;
    pub(crate) const CTRL_MAC_ADDR: u64 = 1 << 23;
    pub(crate) const ANY_LAYOUT: u64 = 1 << 27;
    pub(crate) const INDIRECT_DESC: u64 = 1 << 28;
    pub(crate) const EVENT_IDX: u64 = 1 << 29;
    pub(crate) const VERSION_1: u64 = 1 << 32;
    pub(crate) const ACCESS_PLATFORM: u64 = 1 << 33;
    pub(crate) const RING_PACKED: u64 = 1 << 34;
    pub(crate) const IN_ORDER: u64 = 1 << 35;
    pub(crate) const ORDER_PLATFORM: u64 = 1 << 36;
    pub(crate) const NOTIFICATION_DATA: u64 = 1 << 38;
    pub(crate) const RING_RESET: u64 = 1 << 40;
    pub(crate) const HASH_REPORT: u64 = 1 << 57;
    pub(crate) const RSS: u64 = 1 << 60;
    pub(crate) const SPEED_DUPLEX: u64 = 1 << 63;

    /// Features that need another: the first of each pair, and those of which one must be there
    /// (§5.1.3.1).
    pub(crate) const NEEDS: &[(u64, u64)] = &[
        (GUEST_TSO4, GUEST_CSUM),
        (GUEST_TSO6, GUEST_CSUM),
        (GUEST_ECN, GUEST_TSO4 | GUEST_TSO6),
        (GUEST_UFO, GUEST_CSUM),
        (HOST_TSO4, CSUM),
        (HOST_TSO6, CSUM),
        (HOST_ECN, HOST_TSO4 | HOST_TSO6),
        (HOST_UFO, CSUM),
        (CTRL_RX, CTRL_VQ),
        (CTRL_VLAN, CTRL_VQ),
        (CTRL_RX_EXTRA, CTRL_VQ),
        (GUEST_ANNOUNCE, CTRL_VQ),
        (MQ, CTRL_VQ),
        (CTRL_MAC_ADDR, CTRL_VQ),
        (RSS, CTRL_VQ),
        (HASH_REPORT, CTRL_VQ),
    ];
}

/// Device status (§2.1).
pub(super) mod status {
    pub(crate) const ACKNOWLEDGE: u8 = 1;
    pub(crate) const DRIVER: u8 = 2;
    pub(crate) const DRIVER_OK: u8 = 4;
    pub(crate) const FEATURES_OK: u8 = 8;
    pub(crate) const NEEDS_RESET: u8 = 0x40;
    pub(crate) const FAILED: u8 = 0x80;
}

/// Descriptor flags (§2.7.5, §2.8.1).
pub(super) mod descriptor {
    pub(crate) const NEXT: u16 = 1;
    pub(crate) const WRITE: u16 = 2;
    pub(crate) const INDIRECT: u16 = 4;
    pub(crate) const AVAIL: u16 = 1 << 7;
    pub(crate) const USED: u16 = 1 << 15;
    /// Bytes of a descriptor, in a ring or an indirect table.
    pub(crate) const BYTES: usize = 16;
}

/// Event suppression of a packed ring (§2.8.14).
pub(super) mod event {
    pub(crate) const ENABLE: u16 = 0;
    pub(crate) const DISABLE: u16 = 1;
    pub(crate) const DESCRIPTOR: u16 = 2;
}

/// The header before each frame (§5.1.6).
pub(super) mod header {
    /// Hash, its type and padding come with `HASH_REPORT`.
    pub(crate) const HASHED: usize = 20;
    /// `num_buffers` comes with mergeable buffers, and always since version 1.
    pub(crate) const LONG: usize = 12;
    /// Without it.
    pub(crate) const SHORT: usize = 10;
    pub(crate) const NEEDS_CSUM: u8 = 1;
    pub(crate) const DATA_VALID: u8 = 2;
    pub(crate) const GSO_NONE: u8 = 0;
}

/// Largest ring (§2.7, §2.8).
pub(super) const LARGEST_RING: u16 = 32768;
/// Bytes of a page in legacy queue addresses and alignment (§4.1.5.1.3, §2.7.2).
pub(super) const LEGACY_PAGE: u64 = 4096;
/// "No vector" in the MSI-X fields (§4.1.5.1.2.1).
pub(super) const NO_VECTOR: u16 = 0xffff;
