//! What a device of the family is like.

use std::sync::Arc;
use std::time::Duration;

use hugemem::SimSpace;

use crate::Mac;

/// Which controller it is, or belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 82599, with an SFP+ cage: 8086:10fb; its virtual function 8086:10ed.
    I82599,
    /// X540, copper: 8086:1528; its virtual function 8086:1515.
    X540,
    /// X550, copper: 8086:1563; its virtual function 8086:1565.
    X550,
}

impl Kind {
    /// PCI device id of the physical function.
    #[must_use]
    pub fn device_id(self) -> u16 {
        match self {
            Self::I82599 => 0x10fb,
            Self::X540 => 0x1528,
            Self::X550 => 0x1563,
        }
    }

    /// PCI device id of its virtual functions.
    #[must_use]
    pub fn vf_device_id(self) -> u16 {
        match self {
            Self::I82599 => 0x10ed,
            Self::X540 => 0x1515,
            Self::X550 => 0x1565,
        }
    }

    /// True for the one whose link goes through an SFP+ module.
    pub(super) fn is_fiber(self) -> bool {
        self == Self::I82599
    }
}

/// What is in the SFP+ cage of an 82599.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// Nothing: no link.
    Absent,
    /// A short-range optical module, 10GBASE-SR and 1000BASE-SX.
    Sr,
    /// A passive copper cable with its plugs (direct attach).
    Cable,
}

/// Which device it is, and how it behaves: a physical function.
#[derive(Debug, Clone)]
pub struct IxgbeOptions {
    /// Which controller.
    pub kind: Kind,
    /// Its address, in the EEPROM.
    pub mac: Mac,
    /// Another device id, of a sibling with the same registers.
    pub device_id: Option<u16>,
    /// What is in the cage, where there is one.
    pub module: Module,
    /// How often the control register must be read until a reset is over; then, as often each,
    /// `EEC` until the EEPROM was read and `RDRXCTL` until the DMA engine is ready.
    pub reset_reads: u32,
    /// The time after which all that is over for a driver that waits instead of looking. (The
    /// data sheet asks for 10 ms.)
    pub reset_lasts: Duration,
    /// How often a queue's control register must be read until its enable bit follows.
    pub enable_reads: u32,
    /// Rounds of the model from the moment that everything is there until the link is up.
    pub link_rounds: u32,
    /// The addresses that it can use; None: 39 bits, like many IOMMUs.
    pub space: Option<Arc<SimSpace>>,
}

impl Default for IxgbeOptions {
    /// An 82599 as it comes, with an optical module.
    fn default() -> Self {
        Self {
            kind: Kind::I82599,
            mac: [0x00, 0x1b, 0x21, 0x12, 0x34, 0x56],
            device_id: None,
            module: Module::Sr,
            reset_reads: 2,
            reset_lasts: Duration::from_micros(50),
            enable_reads: 1,
            link_rounds: 4,
            space: None,
        }
    }
}

impl IxgbeOptions {
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
}

/// What the physical function's administrator says about a virtual function's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VfMac {
    /// Nothing: a reset is answered with a refusal that still lets the driver go on, which makes
    /// up an address of its own (Linux since 3.10 or so).
    Unset,
    /// A random address comes with each reset, and may be changed (Linux before that).
    Given,
    /// The address was set from outside (`ip link set … vf N mac …`): it may not be changed.
    Pinned,
}

/// A version of what is said through the mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// The first, which is not negotiated.
    V10,
    /// Queues can be asked for, and jumbo frames be had.
    V11,
    /// Modes of multicast; keys and tables of RSS.
    V12,
    /// Promiscuous mode.
    V13,
    /// IPsec.
    V14,
    /// The sender keeps the mailbox until its message was taken: no PF of Linux's speaks it.
    V15,
    /// The link's speed, on later controllers than these. The mailbox is as before 1.5.
    V16,
    /// What both can is negotiated (Linux 7.x).
    V17,
}

impl Api {
    /// As a message says it.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::V10 => 0,
            Self::V11 => 2,
            Self::V12 => 3,
            Self::V13 => 4,
            Self::V14 => 5,
            Self::V15 => 6,
            Self::V16 => 7,
            Self::V17 => 8,
        }
    }

    /// The version that a message names, if it is one of these.
    pub(super) fn of(code: u32) -> Option<Self> {
        let all = [
            Self::V10,
            Self::V11,
            Self::V12,
            Self::V13,
            Self::V14,
            Self::V15,
            Self::V16,
            Self::V17,
        ];
        all.into_iter().find(|api| api.code() == code)
    }
}

/// How the physical function beside a virtual one is set up, as Linux's `ixgbe` would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PfOptions {
    /// Whose business the address [`IxgbeVfOptions::mac`] is.
    pub mac: VfMac,
    /// The physical function's own MTU, which an 82599's virtual ones depend on.
    pub mtu: u32,
    /// Port VLAN (`ip link set … vf N vlan …`); 0: none.
    pub vlan: u16,
    /// Priority in the port VLAN's tag.
    pub qos: u8,
    /// Frames with foreign addresses or VLANs are not sent (on, where nobody says otherwise).
    pub spoof_check: bool,
    /// `ip link set … vf N trust on`.
    pub trusted: bool,
    /// The physical function is promiscuous itself, without which no virtual one may be.
    pub promiscuous: bool,
    /// Keys and tables of RSS may be asked for (`… query_rss on`).
    pub rss_query: bool,
    /// The newest version that it speaks (Linux 6.12: 1.4; 7.3: 1.7, which leaves 1.5 out).
    pub newest_api: Api,
    /// Queues that the virtual function has: 1, 2, 4 or 8.
    pub queues: u16,
    /// Further addresses that can be had.
    pub mac_filters: usize,
    /// False: `ip link set … vf N state disable`.
    pub link_enabled: bool,
}

impl Default for PfOptions {
    fn default() -> Self {
        Self {
            mac: VfMac::Given,
            mtu: 1500,
            vlan: 0,
            qos: 0,
            spoof_check: true,
            trusted: false,
            promiscuous: false,
            rss_query: false,
            newest_api: Api::V14,
            queues: 4,
            mac_filters: 30,
            link_enabled: true,
        }
    }
}

/// Which virtual function it is, and how it and its physical one behave.
#[derive(Debug, Clone)]
pub struct IxgbeVfOptions {
    /// Whose virtual function.
    pub kind: Kind,
    /// Its address, known to the physical function ([`PfOptions::mac`]).
    pub mac: Mac,
    /// Another device id, of a sibling with the same registers.
    pub device_id: Option<u16>,
    /// How often a queue's control register must be read until its enable bit follows.
    pub enable_reads: u32,
    /// The physical function beside it.
    pub pf: PfOptions,
    /// The addresses that it can use; None: 39 bits, like many IOMMUs.
    pub space: Option<Arc<SimSpace>>,
}

impl Default for IxgbeVfOptions {
    /// A virtual function of an 82599.
    fn default() -> Self {
        Self {
            kind: Kind::I82599,
            mac: [0x02, 0x1b, 0x21, 0x12, 0x34, 0x56],
            device_id: None,
            enable_reads: 1,
            pf: PfOptions::default(),
            space: None,
        }
    }
}

impl IxgbeVfOptions {
    /// A virtual function of `kind` with this address.
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
        self.device_id.unwrap_or(self.kind.vf_device_id())
    }
}
