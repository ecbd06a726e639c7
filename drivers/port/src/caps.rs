//! What a port is and what it can do.

use std::ops::RangeInclusive;

use crate::Mac;

/// What a port is.
#[derive(Debug, Clone)]
pub struct Info {
    /// The string that opened it.
    pub name: String,
    /// The driver: `virtio`, `ixgbe`, `null`.
    pub driver: &'static str,
    /// What it drives, for people: `virtio-net (modern PCI)`, `82599ES`.
    pub device: String,
    /// Vendor and device id, for a PCI device.
    pub pci: Option<(u16, u16)>,
    /// Its own address.
    pub mac: Mac,
    /// NUMA node, where it is known.
    pub node: Option<u32>,
    /// True for a port whose other end is a model in this process, which needs a core too.
    pub simulated: bool,
}

/// What a port can do.
#[derive(Debug, Clone)]
pub struct Caps {
    /// Receive queues.
    pub rx_queues: Limits,
    /// Send queues.
    pub tx_queues: Limits,
    /// Slots of a receive ring.
    pub rx_slots: Limits,
    /// Slots of a send ring.
    pub tx_slots: Limits,
    /// Largest frame, in bytes with FCS.
    pub max_frame: usize,
    /// Most buffers that one sent frame may lie in.
    pub max_segments: usize,
    /// What the device does to frames.
    pub offloads: Offloads,
}

/// The values that a number may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Smallest and largest.
    pub range: RangeInclusive<usize>,
    /// What it is when nobody asks.
    pub default: usize,
    /// True where only powers of two will do.
    pub power_of_two: bool,
}

impl Limits {
    /// One value and no other.
    #[must_use]
    pub fn exactly(value: usize) -> Self {
        Self {
            range: value..=value,
            default: value,
            power_of_two: false,
        }
    }

    /// True if `value` is allowed.
    #[must_use]
    pub fn allow(&self, value: usize) -> bool {
        self.range.contains(&value) && (!self.power_of_two || value.is_power_of_two())
    }
}

bitflags::bitflags! {
    /// What a device can do to frames, or is asked to do.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Offloads: u32 {
        /// Computes the IPv4 header checksum on sending.
        const TX_IPV4_CHECKSUM = 1 << 0;
        /// Computes the TCP or UDP checksum on sending.
        const TX_L4_CHECKSUM = 1 << 1;
        /// Inserts a VLAN tag on sending.
        const TX_VLAN = 1 << 2;
        /// Checks checksums on receiving.
        const RX_CHECKSUM = 1 << 3;
        /// Strips the VLAN tag on receiving.
        const RX_VLAN = 1 << 4;
        /// Hashes and spreads received frames.
        const RSS = 1 << 5;
        /// Receives one frame in several buffers.
        const RX_SCATTER = 1 << 6;
        /// Accepts every frame on request.
        const PROMISCUOUS = 1 << 7;
        /// Accepts every multicast frame on request.
        const ALL_MULTICAST = 1 << 8;
        /// Filters by further addresses.
        const MAC_FILTER = 1 << 9;
        /// Filters by VLAN.
        const VLAN_FILTER = 1 << 10;
        /// Takes another MAC address.
        const SET_MAC = 1 << 11;
        /// Takes another MTU.
        const SET_MTU = 1 << 12;
        /// Stamps received frames with the device's clock.
        const TIMESTAMP = 1 << 13;
        /// Filters by multicast groups: what a device with [`Self::MAC_FILTER`] can too, and one
        /// without may, which takes no further unicast address.
        const GROUP_FILTER = 1 << 14;
    }
}

/// Whether frames can pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// They can.
    Up,
    /// They can't.
    Down,
}

/// A link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Whether frames can pass.
    pub state: LinkState,
    /// Bits a second, where the device knows.
    pub speed_bps: Option<u64>,
    /// Both directions at once.
    pub full_duplex: bool,
}
