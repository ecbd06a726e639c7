//! What a device of the e1000 family is like.

use std::sync::Arc;
use std::time::Duration;

use hugemem::SimSpace;

use crate::Mac;

/// Which device of the family it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 82540EM, 8086:100e: PCI, one queue each way.
    E1000,
    /// 82574L, 8086:10d3: PCI Express, two queues each way, RSS, extended descriptors.
    E1000e,
    /// 82576, 8086:10c9: sixteen queues each way, RSS, advanced descriptors.
    Igb,
    /// 82576 virtual function, 8086:10ca, with a physical function beside it that behaves as
    /// Linux's `igb` does.
    IgbVf,
}

impl Kind {
    /// PCI device id.
    #[must_use]
    pub fn device_id(self) -> u16 {
        match self {
            Self::E1000 => 0x100e,
            Self::E1000e => 0x10d3,
            Self::Igb => 0x10c9,
            Self::IgbVf => 0x10ca,
        }
    }

    /// Queues that the hardware has, each way.
    #[must_use]
    pub fn queues(self) -> u16 {
        match self {
            Self::E1000 => 1,
            Self::E1000e | Self::IgbVf => 2,
            Self::Igb => 16,
        }
    }

    /// Largest frame in bytes with FCS that the device sends: the data sheets' limits, as Linux
    /// uses them (0x3f00, 9234, 0x2600).
    #[must_use]
    pub fn longest(self) -> u32 {
        match self {
            Self::E1000 => 16_128,
            Self::E1000e => 9234,
            Self::Igb | Self::IgbVf => 9728,
        }
    }

    /// True for the two that have the 82576's descriptors and queue registers.
    pub(super) fn is_advanced(self) -> bool {
        matches!(self, Self::Igb | Self::IgbVf)
    }
}

/// What the physical function's administrator says about a virtual function's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VfMac {
    /// Nothing: a reset is answered with a refusal that still lets the driver go on, which makes
    /// up an address of its own (Linux since 4.13).
    Unset,
    /// A random address comes with each reset, and may be changed (Linux before that).
    Given,
    /// The address was set from outside (`ip link set … vf N mac …`): it may not be changed.
    Pinned,
}

/// How the physical function beside a virtual one is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PfOptions {
    /// Whose business the address [`E1000Options::mac`] is.
    pub mac: VfMac,
    /// Port VLAN (`ip link set … vf N vlan …`); 0: none.
    pub vlan: u16,
    /// Priority in the port VLAN's tag.
    pub qos: u8,
    /// Frames with foreign addresses or VLANs are not sent (on, where nobody says otherwise).
    pub spoof_check: bool,
    /// Further addresses that can be had. Linux has 24 addresses in all, less one for the
    /// physical function, three held back, and one for each of (here 7) virtual functions.
    pub mac_filters: usize,
}

impl Default for PfOptions {
    fn default() -> Self {
        Self {
            mac: VfMac::Given,
            vlan: 0,
            qos: 0,
            spoof_check: true,
            mac_filters: 13,
        }
    }
}

/// Which device it is, and how it behaves.
#[derive(Debug, Clone)]
pub struct E1000Options {
    /// Which device.
    pub kind: Kind,
    /// Its address: in the EEPROM, or with the physical function ([`PfOptions::mac`]).
    pub mac: Mac,
    /// Another device id, of a sibling with the same registers (82545EM 0x100f, I350 0x1521).
    pub device_id: Option<u16>,
    /// Queues each way, where there shall be fewer than the hardware has.
    pub queues: Option<u16>,
    /// How often the control register must be read until a reset is over.
    pub reset_reads: u32,
    /// The time after which it is over for a driver that waits instead of looking. (The data
    /// sheets ask for 1 µs to some milliseconds.)
    pub reset_lasts: Duration,
    /// How often a queue's control register must be read until its enable bit follows.
    pub enable_reads: u32,
    /// The link comes up only once the PHY was told to negotiate (`BMCR` restart), as on QEMU's
    /// 82576. Real PHYs do so of themselves.
    pub waits_to_negotiate: bool,
    /// The physical function beside a virtual one.
    pub pf: PfOptions,
    /// The addresses that it can use; None: 39 bits, like many IOMMUs.
    pub space: Option<Arc<SimSpace>>,
}

impl Default for E1000Options {
    /// An 82540EM as it comes.
    fn default() -> Self {
        Self {
            kind: Kind::E1000,
            mac: [0x52, 0x54, 0, 0x12, 0x34, 0x56],
            device_id: None,
            queues: None,
            reset_reads: 2,
            reset_lasts: Duration::from_micros(50),
            enable_reads: 1,
            waits_to_negotiate: false,
            pf: PfOptions::default(),
            space: None,
        }
    }
}

impl E1000Options {
    /// A device of `kind` with this address.
    #[must_use]
    pub fn of(kind: Kind, mac: Mac) -> Self {
        Self {
            kind,
            mac,
            ..Self::default()
        }
    }

    /// The device id that it shows.
    pub(super) fn device_id(&self) -> u16 {
        self.device_id.unwrap_or(self.kind.device_id())
    }

    /// Queues that the device has, each way.
    pub(super) fn queues(&self) -> u16 {
        let most = self.kind.queues();
        self.queues.map_or(most, |queues| queues.clamp(1, most))
    }
}
