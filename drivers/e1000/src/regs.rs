//! Registers (82540EM/82545EM developer's manual §13, 82574L datasheet §10, 82576 datasheet §8),
//! all in BAR 0.

use hw::mmio::{Reg, Rw};
use intel::mailbox::Bits as Mailbox;

bitflags::bitflags! {
    /// Device control (§13.4.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Ctrl: u32 {
        /// Forbids new transfers (PCI Express devices).
        const MASTER_DISABLE = 1 << 2;
        /// Resets the link (fiber).
        const LRST = 1 << 3;
        /// Takes the speed from the PHY.
        const ASDE = 1 << 5;
        /// Lets the link come up.
        const SLU = 1 << 6;
        /// Inverts loss of signal.
        const ILOS = 1 << 7;
        /// Forces the speed.
        const FRCSPD = 1 << 11;
        /// Forces the duplex mode.
        const FRCDPLX = 1 << 12;
        /// Resets the device, but for the PHY. Clears itself.
        const RST = 1 << 26;
        /// Obeys pause frames.
        const RFCE = 1 << 27;
        /// Sends pause frames.
        const TFCE = 1 << 28;
        /// Strips VLAN tags on receiving; on legacy devices, inserts them on sending too.
        const VME = 1 << 30;
        /// Resets the PHY.
        const PHY_RST = 1 << 31;
        const _ = !0;
    }

    /// Device status (§13.4.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Status: u32 {
        /// Full duplex.
        const FD = 1 << 0;
        /// The link is up.
        const LU = 1 << 1;
        /// 100 Mb/s, if not 1000.
        const SPEED_100 = 1 << 6;
        /// 1000 Mb/s.
        const SPEED_1000 = 1 << 7;
        /// Transfers are allowed or still going on (PCI Express devices).
        const MASTER = 1 << 19;
        const _ = !0;
    }

    /// EEPROM control (82574L §10.2.2.3, 82576 §8.4.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Eecd: u32 {
        /// The device has read its settings after a reset.
        const AUTO_RD = 1 << 9;
        const _ = !0;
    }

    /// Extended device control (§13.4.6).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct CtrlExt: u32 {
        /// Tells firmware that a driver has the device.
        const DRV_LOAD = 1 << 28;
        const _ = !0;
    }

    /// Access to the PHY's registers (§13.4.8).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Mdic: u32 {
        /// Writes a register.
        const WRITE = 1 << 26;
        /// Reads a register.
        const READ = 2 << 26;
        /// Done.
        const READY = 1 << 28;
        /// Nobody answered.
        const ERROR = 1 << 30;
        const _ = !0;
    }

    /// Receive control (§13.4.22).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rctl: u32 {
        /// Receives.
        const EN = 1 << 1;
        /// Takes every unicast frame.
        const UPE = 1 << 3;
        /// Takes every multicast frame.
        const MPE = 1 << 4;
        /// Takes frames of more than 1522 bytes.
        const LPE = 1 << 5;
        /// Takes broadcasts.
        const BAM = 1 << 15;
        /// Buffer size, low bit.
        const BSIZE_LOW = 1 << 16;
        /// Buffer size, high bit.
        const BSIZE_HIGH = 1 << 17;
        /// Filters by VLAN.
        const VFE = 1 << 18;
        /// Buffer sizes are 16 times those.
        const BSEX = 1 << 25;
        /// Leaves the FCS out of what is written to memory.
        const SECRC = 1 << 26;
        const _ = !0;
    }

    /// Send control (§13.4.33).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Tctl: u32 {
        /// Sends.
        const EN = 1 << 1;
        /// Pads short frames.
        const PSP = 1 << 3;
        /// Collision threshold of 15, as IEEE 802.3 says.
        const CT_15 = 0xf << 4;
        /// Collision distance of 64 byte times: full duplex.
        const COLD_64 = 0x40 << 12;
        /// Tries again after a late collision.
        const RTLC = 1 << 24;
        const _ = !0;
    }

    /// Receive checksum control (§13.5.15).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rxcsum: u32 {
        /// Checks IPv4 header checksums.
        const IPOFLD = 1 << 8;
        /// Checks TCP and UDP checksums.
        const TUOFLD = 1 << 9;
        /// Says the RSS hash in place of a fragment's checksum.
        const PCSD = 1 << 13;
        const _ = !0;
    }

    /// Control of one receive queue (§13.4.30, 82576 §8.10.7).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rxdctl: u32 {
        /// Fetches ahead once the device holds fewer than 8 slots.
        const PTHRESH_8 = 8;
        /// Fetches ahead only what has 8 slots armed at least.
        const HTHRESH_8 = 8 << 8;
        /// Writes each completion back at once.
        const WTHRESH_1 = 1 << 16;
        /// Thresholds count descriptors (legacy devices).
        const GRAN = 1 << 24;
        /// Runs the queue (igb).
        const ENABLE = 1 << 25;
        const _ = !0;
    }

    /// Control of one send queue (§13.4.42, 82576 §8.12.10).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Txdctl: u32 {
        /// Fetches ahead once the device holds fewer than 8 slots.
        const PTHRESH_8 = 8;
        /// Fetches ahead as soon as one slot is posted.
        const HTHRESH_1 = 1 << 8;
        /// Writes each completion back at once (legacy devices; igb: with a threshold of 0).
        const WTHRESH_1 = 1 << 16;
        /// Counts descriptors and must be set (82574L §10.2.6.9).
        const COUNT_DESC = 1 << 22;
        /// Thresholds count descriptors (legacy devices).
        const GRAN = 1 << 24;
        /// Runs the queue (igb).
        const ENABLE = 1 << 25;
        const _ = !0;
    }

    /// Buffers and descriptors of one receive queue (82576 §8.10.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Srrctl: u32 {
        /// Advanced descriptors, one buffer each.
        const ONE_BUFFER = 1 << 25;
        /// Drops frames when the ring is empty, instead of stopping all queues.
        const DROP_EN = 1 << 31;
        const _ = !0;
    }

    /// Receive filter control (82574 datasheet §10.2.5.4).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rfctl: u32 {
        /// Extended receive descriptors.
        const EXSTEN = 1 << 15;
        const _ = !0;
    }

    /// Several receive queues (82576 §8.10.9; 82574 datasheet §10.2.5.9).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Mrqc: u32 {
        /// RSS over both queues of 82574.
        const RSS_TWO = 1;
        /// RSS over all queues.
        const RSS = 2;
        /// Hashes TCP over IPv4.
        const TCP_IPV4 = 1 << 16;
        /// Hashes IPv4.
        const IPV4 = 1 << 17;
        /// Hashes TCP over IPv6, on 82574.
        const TCP_IPV6_82574 = 1 << 18;
        /// Hashes IPv6.
        const IPV6 = 1 << 20;
        /// Hashes TCP over IPv6.
        const TCP_IPV6 = 1 << 21;
        /// Hashes UDP over IPv4.
        const UDP_IPV4 = 1 << 22;
        /// Hashes UDP over IPv6.
        const UDP_IPV6 = 1 << 23;
        const _ = !0;
    }
}

hw::register_bits!(
    Ctrl: u32, Status: u32, Eecd: u32, CtrlExt: u32, Mdic: u32, Rctl: u32, Tctl: u32,
    Rxcsum: u32, Rxdctl: u32, Txdctl: u32, Srrctl: u32, Mrqc: u32, Rfctl: u32,
);

hw::registers! {
    /// Device control (§13.4.1).
    CTRL @ 0x0000: Rw Ctrl;
    /// Device status (§13.4.2).
    STATUS @ 0x0008: Ro Status;
    /// EEPROM control (82576 §8.4.1).
    EECD @ 0x0010: Rw Eecd;
    /// Extended device control (§13.4.6).
    CTRL_EXT @ 0x0018: Rw CtrlExt;
    /// The PHY's registers (§13.4.8).
    MDIC @ 0x0020: Rw Mdic;
    /// The Ethernet type of a VLAN tag (§13.4.13). Zero after a reset of QEMU's e1000e and igb.
    VET @ 0x0038: Rw u32;
    /// Interrupts that happened; cleared by reading (§13.4.17).
    ICR @ 0x00c0: Ro u32;
    /// Interrupts to forbid (§13.4.21).
    IMC @ 0x00d8: Wo u32;
    /// Receive control (§13.4.22).
    RCTL @ 0x0100: Rw Rctl;
    /// Send control (§13.4.33).
    TCTL @ 0x0400: Rw Tctl;
    /// Gaps between frames (§13.4.34).
    TIPG @ 0x0410: Rw u32;
    /// Message buffer shared with the PF (82576 §8.14.3).
    VMBMEM[16 step 4] @ 0x0800: Rw u32;
    /// A virtual function's mailbox (82576 §8.14.2).
    V2PMAILBOX @ 0x0c40: Rw Mailbox;
    /// Extended interrupts to forbid (82576 §8.8.4).
    EIMC @ 0x1528: Wo u32;
    /// Delay of receive interrupts (§13.4.30).
    RDTR @ 0x2820: Rw u32;
    /// Longest delay of receive interrupts (§13.4.31).
    RADV @ 0x282c: Rw u32;
    /// Delay of send interrupts (§13.4.40).
    TIDV @ 0x3820: Rw u32;
    /// Longest delay of send interrupts (§13.4.43).
    TADV @ 0x382c: Rw u32;
    /// Receive checksums (§13.5.15).
    RXCSUM @ 0x5000: Rw Rxcsum;
    /// Kinds of receive descriptors (82574 datasheet §10.2.5.4).
    RFCTL @ 0x5008: Rw Rfctl;
    /// Longest frame that is received (82576 §8.10.12).
    RLPML @ 0x5004: Rw u32;
    /// Hash filter of multicasts (§13.5.1).
    MTA[128 step 4] @ 0x5200: Rw u32;
    /// Exact filter, bytes 0 to 3 of each address (§13.5.2).
    RAL[16 step 8] @ 0x5400: Rw u32;
    /// Exact filter, bytes 4 and 5, and whether the address is valid (§13.5.3).
    RAH[16 step 8] @ 0x5404: Rw u32;
    /// Filter of VLANs, a bit each (§13.5.4).
    VFTA[128 step 4] @ 0x5600: Rw u32;
    /// Several receive queues (82576 §8.10.9).
    MRQC @ 0x5818: Rw Mrqc;
    /// The queue of each value of the hash's low bits, a byte each: its number (82576 §8.10.10), or
    /// that in bit 7 (82574 datasheet §10.2.5.10).
    RETA[32 step 4] @ 0x5c00: Rw u32;
    /// The key of the hash (82576 §8.10.11).
    RSSRK[10 step 4] @ 0x5c80: Rw u32;
}

/// [`RAH`]: the address is valid.
pub(crate) const RAH_VALID: u32 = 1 << 31;

/// [`VET`]: IEEE 802.1Q.
pub(crate) const VET_8021Q: u32 = 0x8100;

/// [`TIPG`] for copper: gaps of 10, 8 and 6 (§13.4.34).
pub(crate) const TIPG_COPPER: u32 = 10 | 8 << 10 | 6 << 20;

/// The registers of a queue, as offsets from where the queue's block begins. The same on every
/// device, in both directions; what lies at 0x0c is a receive queue's only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueRegs(u32);

impl QueueRegs {
    /// Receive queue `number` (82576 §8.10.1: 64 bytes apart from 0xc000; 0x2800 is what old
    /// devices and virtual functions have).
    pub(crate) const fn rx(advanced: bool, number: u32) -> Self {
        if advanced {
            Self(0xc000 + 0x40 * number)
        } else {
            Self(0x2800 + 0x100 * number)
        }
    }

    /// Send queue `number` (82576 §8.12.1).
    pub(crate) const fn tx(advanced: bool, number: u32) -> Self {
        if advanced {
            Self(0xe000 + 0x40 * number)
        } else {
            Self(0x3800 + 0x100 * number)
        }
    }

    /// The ring's address, 64 bits in two registers.
    pub(crate) const fn base(self) -> Reg<u64, Rw> {
        Reg::at(self.0)
    }

    /// The ring's bytes: a multiple of 128.
    pub(crate) const fn len(self) -> Reg<u32, Rw> {
        Reg::at(self.0 + 0x08)
    }

    /// Buffers and descriptors (receive, igb).
    pub(crate) const fn srrctl(self) -> Reg<Srrctl, Rw> {
        Reg::at(self.0 + 0x0c)
    }

    /// The device's place in the ring.
    pub(crate) const fn head(self) -> Reg<u32, Rw> {
        Reg::at(self.0 + 0x10)
    }

    /// How far the device may go.
    pub(crate) const fn tail(self) -> Reg<u32, Rw> {
        Reg::at(self.0 + 0x18)
    }

    /// Control of a receive queue.
    pub(crate) const fn rxdctl(self) -> Reg<Rxdctl, Rw> {
        Reg::at(self.0 + 0x28)
    }

    /// Control of a send queue.
    pub(crate) const fn txdctl(self) -> Reg<Txdctl, Rw> {
        Reg::at(self.0 + 0x28)
    }

    /// Frames that a receive queue dropped for want of buffers (82576 §8.10.8).
    pub(crate) const fn rqdpc(self) -> Reg<u32, Rw> {
        Reg::at(self.0 + 0x30)
    }

    /// Where a send queue's head is written to memory, 64 bits; zero for nowhere (82576 §8.12.15).
    pub(crate) const fn tdwb(self) -> Reg<u64, Rw> {
        Reg::at(self.0 + 0x38)
    }
}
