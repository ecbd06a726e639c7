//! Registers of a physical function (82599 datasheet, 331520, §8.2.3), all in BAR 0. X540 and X550
//! have them in the same places. A section names the group that a register belongs to; offsets
//! and bits are those on which Linux (`ixgbe_type.h`) and DPDK (`ixgbe_type.h`) agree.

use hw::mmio::{Reg, Rw};

bitflags::bitflags! {
    /// Device control (§8.2.3.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Ctrl: u32 {
        /// Forbids new transfers (PCIe master disable).
        const GIO_DIS = 1 << 2;
        /// Resets the device and the link. Clears itself.
        const LNK_RST = 1 << 3;
        /// Resets the device. Clears itself.
        const RST = 1 << 26;
        const _ = !0;
    }

    /// Device status (§8.2.3.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Status: u32 {
        /// The second port of the device (LAN ID, low bit).
        const SECOND = 1 << 2;
        /// Transfers are allowed or still going on.
        const GIO_MASTER = 1 << 19;
        const _ = !0;
    }

    /// Extended device control (§8.2.3.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct CtrlExt: u32 {
        /// No snoop is never asked of the bus.
        const NS_DIS = 1 << 16;
        /// Tells firmware that a driver has the device.
        const DRV_LOAD = 1 << 28;
        const _ = !0;
    }

    /// Pins of the port (§8.2.3.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Esdp: u32 {
        /// Pin 3: switches the laser of optics off (Linux, `ixgbe_disable_tx_laser_*`).
        const LASER_OFF = 1 << 3;
        const _ = !0;
    }

    /// EEPROM control (§8.2.3.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Eec: u32 {
        /// The device has read its settings after a reset.
        const ARD = 1 << 9;
        const _ = !0;
    }

    /// Control of the receive DMA (§8.2.3.8).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rdrxctl: u32 {
        /// Leaves the FCS out of what is written to memory; must agree with
        /// [`Hlreg0::RXCRCSTRP`].
        const CRCSTRIP = 1 << 1;
        /// The DMA's own start after a reset is done.
        const DMAIDONE = 1 << 3;
        /// Bytes of a merged packet's first buffer; must be zero.
        const RSCFRSTSIZE = 0x1f << 17;
        /// Must be set.
        const RSCACKC = 1 << 25;
        /// Must be set.
        const FCOE_WRFIX = 1 << 26;
        const _ = !0;
    }

    /// Receive control (§8.2.3.8).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rxctrl: u32 {
        /// Receives.
        const RXEN = 1 << 0;
        const _ = !0;
    }

    /// The receive side's way through the security block (§8.2.3.12).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Secrxctrl: u32 {
        /// Holds frames back.
        const RX_DIS = 1 << 1;
        const _ = !0;
    }

    /// The same block's state (§8.2.3.12).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Secrxstat: u32 {
        /// It is empty.
        const RDY = 1 << 0;
        const _ = !0;
    }

    /// Which frames are accepted (§8.2.3.7).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Fctrl: u32 {
        /// Every multicast.
        const MPE = 1 << 8;
        /// Every unicast.
        const UPE = 1 << 9;
        /// Broadcasts.
        const BAM = 1 << 10;
        const _ = !0;
    }

    /// VLANs (§8.2.3.7).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Vlnctrl: u32 {
        /// The Ethernet type of a tag: 802.1Q.
        const VET_8021Q = 0x8100;
        /// All of that field.
        const VET = 0xffff;
        /// The canonical form bit is looked at.
        const CFIEN = 1 << 29;
        /// Filters by VLAN.
        const VFE = 1 << 30;
        const _ = !0;
    }

    /// The hash filter of multicasts (§8.2.3.7).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Mcstctrl: u32 {
        /// It is looked at; with a zero in the low bits, by bits 47:36 of the address.
        const MFE = 1 << 2;
        const _ = !0;
    }

    /// Receive checksums (§8.2.3.7).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rxcsum: u32 {
        /// Says the RSS hash in place of a fragment's checksum.
        const PCSD = 1 << 13;
        const _ = !0;
    }

    /// Receive filter control (§8.2.3.7).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rfctl: u32 {
        /// Packets are never merged.
        const RSC_DIS = 1 << 5;
        const _ = !0;
    }

    /// Several receive queues (§8.2.3.7).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Mrqc: u32 {
        /// RSS over all queues.
        const RSSEN = 1;
        /// Hashes TCP over IPv4.
        const TCP_IPV4 = 1 << 16;
        /// Hashes IPv4.
        const IPV4 = 1 << 17;
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

    /// Control of one receive queue (§8.2.3.8).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rxdctl: u32 {
        /// Frames of this queue have a length limit of their own, in the low bits (X540 and
        /// later).
        const RLPML = 1 << 15 | 0x3fff;
        /// Runs the queue.
        const ENABLE = 1 << 25;
        /// Strips VLAN tags.
        const VME = 1 << 30;
        const _ = !0;
    }

    /// Buffers and descriptors of one receive queue (§8.2.3.8).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Srrctl: u32 {
        /// Advanced descriptors, one buffer each.
        const ONE_BUFFER = 1 << 25;
        /// Drops frames when the ring is empty, instead of holding all queues up.
        const DROP_EN = 1 << 28;
        const _ = !0;
    }

    /// Control of one send queue (§8.2.3.9).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Txdctl: u32 {
        /// Fetches ahead once the device holds fewer than 32 slots.
        const PTHRESH_32 = 32;
        /// Fetches ahead as soon as one slot is posted.
        const HTHRESH_1 = 1 << 8;
        /// Runs the queue.
        const ENABLE = 1 << 25;
        /// Forgets what it has fetched.
        const SWFLSH = 1 << 26;
        const _ = !0;
    }

    /// Control of the send DMA (§8.2.3.9).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Dmatxctl: u32 {
        /// Sends.
        const TE = 1 << 0;
        const _ = !0;
    }

    /// Arbiter of the send DMA (§8.2.3.10).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Rttdcs: u32 {
        /// It is halted.
        const ARBDIS = 1 << 6;
        const _ = !0;
    }

    /// The MAC (§8.2.3.22).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Hlreg0: u32 {
        /// Adds the FCS to what is sent.
        const TXCRCEN = 1 << 0;
        /// Takes the FCS off what is received.
        const RXCRCSTRP = 1 << 1;
        /// Takes frames of more than 1518 bytes.
        const JUMBOEN = 1 << 2;
        /// Pads short frames.
        const TXPADEN = 1 << 10;
        /// Sends to itself.
        const LPBK = 1 << 15;
        const _ = !0;
    }

    /// Pause frames that are received (§8.2.3.22).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Mflcn: u32 {
        /// Obeys pauses by priority.
        const RPFCE = 1 << 2;
        /// Obeys pauses.
        const RFCE = 1 << 3;
        const _ = !0;
    }

    /// How the link comes up (§8.2.3.22).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Autoc: u32 {
        /// Starts negotiation, or the fixed link, over. Clears itself.
        const AN_RESTART = 1 << 12;
        /// The link's mode: all of the field.
        const LMS = 7 << 13;
        /// [`Self::LMS`]: 1 Gb/s with no negotiation is 0; negotiated:
        const LMS_1G_NEGOTIATED = 2 << 13;
        /// [`Self::LMS`]: 10 Gb/s on one lane, with no negotiation: SFI.
        const LMS_10G_SERIAL = 3 << 13;
        const _ = !0;
    }

    /// The link; also what a virtual function sees of it (§8.2.3.22).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Links: u32 {
        /// X550: the speed is the uncommon one next to that which the field says.
        const NON_STD = 1 << 27;
        /// Speed, low bit: 1 is 100 Mb/s, 2 is 1 Gb/s, 3 is 10 Gb/s.
        const SPEED_LOW = 1 << 28;
        /// Speed, high bit.
        const SPEED_HIGH = 1 << 29;
        /// It is up.
        const UP = 1 << 30;
        const _ = !0;
    }

    /// Who may change [`SW_FW_SYNC`] (§8.2.3.4).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Swsm: u32 {
        /// A driver has it; reading sets it.
        const SMBI = 1 << 0;
        /// A driver, and not firmware, has it (82599).
        const SWESMBI = 1 << 1;
        const _ = !0;
    }

    /// What drivers and firmware use (§8.2.3.4).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct SwFwSync: u32 {
        /// A driver uses the PHY of the first port.
        const PHY0 = 1 << 1;
        /// A driver uses the PHY of the second port.
        const PHY1 = 1 << 2;
        /// Somebody changes this register (X540 and later); reading sets it.
        const REGSMP = 1 << 31;
        const _ = !0;
    }

    /// Access to the PHY's registers (§8.2.3.22).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Msca: u32 {
        /// Tells the address (IEEE 802.3 clause 45).
        const ADDRESS = 0 << 26;
        /// Writes.
        const WRITE = 1 << 26;
        /// Reads.
        const READ = 3 << 26;
        /// Begins; clears itself when done.
        const COMMAND = 1 << 30;
        const _ = !0;
    }
}

hw::register_bits!(
    Ctrl: u32, Status: u32, CtrlExt: u32, Esdp: u32, Eec: u32, Rdrxctl: u32, Rxctrl: u32,
    Secrxctrl: u32, Secrxstat: u32, Fctrl: u32, Vlnctrl: u32, Mcstctrl: u32, Rxcsum: u32,
    Rfctl: u32, Mrqc: u32, Rxdctl: u32, Srrctl: u32, Txdctl: u32, Dmatxctl: u32, Rttdcs: u32,
    Hlreg0: u32, Mflcn: u32, Autoc: u32, Links: u32, Msca: u32, Swsm: u32, SwFwSync: u32,
);

hw::registers! {
    /// Device control (§8.2.3.1).
    CTRL @ 0x00000: Rw Ctrl;
    /// Device status (§8.2.3.1).
    STATUS @ 0x00008: Ro Status;
    /// Extended device control (§8.2.3.1).
    CTRL_EXT @ 0x00018: Rw CtrlExt;
    /// Pins of the port (§8.2.3.1).
    ESDP @ 0x00020: Rw Esdp;
    /// Interrupts that happened; cleared by reading (§8.2.3.5).
    EICR @ 0x00800: Rc u32;
    /// Interrupts to forbid (§8.2.3.5).
    EIMC @ 0x00888: Wo u32;
    /// The queues' interrupts to forbid (§8.2.3.5).
    EIMC_EX[2 step 4] @ 0x00ab0: Wo u32;
    /// The counter of each receive queue, four queues a register (§8.2.3.23).
    RQSMR[32 step 4] @ 0x02300: Rw u32;
    /// Control of the receive DMA (§8.2.3.8).
    RDRXCTL @ 0x02f00: Rw Rdrxctl;
    /// Receive control (§8.2.3.8).
    RXCTRL @ 0x03000: Rw Rxctrl;
    /// Bytes of each receive packet buffer (§8.2.3.8).
    RXPBSIZE[8 step 4] @ 0x03c00: Rw u32;
    /// Pause frames that are sent (§8.2.3.3).
    FCCFG @ 0x03d00: Rw u32;
    /// The MAC (§8.2.3.22).
    HLREG0 @ 0x04240: Rw Hlreg0;
    /// Access to the PHY's registers (§8.2.3.22).
    MSCA @ 0x0425c: Rw Msca;
    /// Data of such an access: written in the low half, read in the high one (§8.2.3.22).
    MSRWD @ 0x04260: Rw u32;
    /// Longest frame, in the high half (§8.2.3.22).
    MAXFRS @ 0x04268: Rw u32;
    /// Pause frames that are received (§8.2.3.22).
    MFLCN @ 0x04294: Rw Mflcn;
    /// How the link comes up (§8.2.3.22).
    AUTOC @ 0x042a0: Rw Autoc;
    /// The link (§8.2.3.22).
    LINKS @ 0x042a4: Ro Links;
    /// Arbiter of the send DMA (§8.2.3.10).
    RTTDCS @ 0x04900: Rw Rttdcs;
    /// A send packet buffer is full from there on, in KiB (§8.2.3.9).
    TXPBTHRESH[8 step 4] @ 0x04950: Rw u32;
    /// Control of the send DMA (§8.2.3.9).
    DMATXCTL @ 0x04a80: Rw Dmatxctl;
    /// Receive checksums (§8.2.3.7).
    RXCSUM @ 0x05000: Rw Rxcsum;
    /// Receive filter control (§8.2.3.7).
    RFCTL @ 0x05008: Rw Rfctl;
    /// Which frames are accepted (§8.2.3.7).
    FCTRL @ 0x05080: Rw Fctrl;
    /// VLANs (§8.2.3.7).
    VLNCTRL @ 0x05088: Rw Vlnctrl;
    /// The hash filter of multicasts (§8.2.3.7).
    MCSTCTRL @ 0x05090: Rw Mcstctrl;
    /// That filter (§8.2.3.7).
    MTA[128 step 4] @ 0x05200: Rw u32;
    /// Exact filter, bytes 0 to 3 of each address (§8.2.3.7).
    RAL[16 step 8] @ 0x05400: Rw u32;
    /// Exact filter, bytes 4 and 5, and whether the address is valid (§8.2.3.7).
    RAH[16 step 8] @ 0x05404: Rw u32;
    /// Several receive queues (§8.2.3.7).
    MRQC @ 0x05818: Rw Mrqc;
    /// The queue of each value of the hash's low bits, a byte each (§8.2.3.7).
    RETA[32 step 4] @ 0x05c00: Rw u32;
    /// The key of the hash (§8.2.3.7).
    RSSRK[10 step 4] @ 0x05c80: Rw u32;
    /// Security block: receive (§8.2.3.12).
    SECRXCTRL @ 0x08d00: Rw Secrxctrl;
    /// Its state (§8.2.3.12).
    SECRXSTAT @ 0x08d04: Ro Secrxstat;
    /// Queues and packet buffers of the send side (§8.2.3.9).
    MTQC @ 0x08120: Rw u32;
    /// The counter of each send queue, four queues a register (§8.2.3.23).
    TQSM[32 step 4] @ 0x08600: Rw u32;
    /// Filter of VLANs, a bit each (§8.2.3.7).
    VFTA[128 step 4] @ 0x0a000: Rw u32;
    /// Exact filter from place 16 on, bytes 0 to 3 of each address (§8.2.3.7).
    RAL_MORE[112 step 8] @ 0x0a280: Rw u32;
    /// Bytes 4 and 5, and whether the address is valid (§8.2.3.7).
    RAH_MORE[112 step 8] @ 0x0a284: Rw u32;
    /// Bytes of each send packet buffer (§8.2.3.9).
    TXPBSIZE[8 step 4] @ 0x0cc00: Rw u32;
    /// The rest of X550's table of queues (X550 datasheet, 333369, §8.2).
    ERETA[96 step 4] @ 0x0ee80: Rw u32;
    /// EEPROM control (§8.2.3.2).
    EEC @ 0x10010: Ro Eec;
    /// Who may change the next (§8.2.3.4).
    SWSM @ 0x10140: Rw Swsm;
    /// What drivers and firmware use (§8.2.3.4).
    SW_FW_SYNC @ 0x10160: Rw SwFwSync;
}

/// The two registers of exact address `place`, of [`PLACES`].
pub(crate) const fn address(place: u32) -> (Reg<u32, Rw>, Reg<u32, Rw>) {
    if place < 16 {
        (RAL.of(place), RAH.of(place))
    } else {
        (RAL_MORE.of(place - 16), RAH_MORE.of(place - 16))
    }
}

/// Exact addresses that a device compares.
pub(crate) const PLACES: u32 = 128;

impl SwFwSync {
    /// What firmware uses is said so many bits higher.
    pub(crate) const FIRMWARE_SHIFT: u32 = 5;
}

/// [`RAH`]: the address is valid.
pub(crate) const RAH_VALID: u32 = 1 << 31;

/// The registers of a queue, as offsets from where the queue's block begins: the same in both
/// directions and in both kinds of function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueRegs(u32);

impl QueueRegs {
    /// Receive queue `number` of a physical function (§8.2.3.8): those up to 63 and the others
    /// are in two places.
    pub(crate) const fn rx(number: u32) -> Self {
        if number < 64 {
            Self(0x1000 + 0x40 * number)
        } else {
            Self(0xd000 + 0x40 * (number - 64))
        }
    }

    /// Send queue `number` of a physical function (§8.2.3.9).
    pub(crate) const fn tx(number: u32) -> Self {
        Self(0x6000 + 0x40 * number)
    }

    /// Receive queue `number` of a virtual function (§8.3.5).
    pub(crate) const fn vf_rx(number: u32) -> Self {
        Self(0x1000 + 0x40 * number)
    }

    /// Send queue `number` of a virtual function (§8.3.5).
    pub(crate) const fn vf_tx(number: u32) -> Self {
        Self(0x2000 + 0x40 * number)
    }

    /// The ring's address, 64 bits in two registers.
    pub(crate) const fn base(self) -> Reg<u64, Rw> {
        Reg::at(self.0)
    }

    /// The ring's bytes: a multiple of 128.
    pub(crate) const fn len(self) -> Reg<u32, Rw> {
        Reg::at(self.0 + 0x08)
    }

    /// Hints for caches and order on the bus (receive: §8.2.3.11).
    pub(crate) const fn dca(self) -> Reg<u32, Rw> {
        Reg::at(self.0 + 0x0c)
    }

    /// The device's place in the ring.
    pub(crate) const fn head(self) -> Reg<u32, Rw> {
        Reg::at(self.0 + 0x10)
    }

    /// Buffers and descriptors (receive).
    pub(crate) const fn srrctl(self) -> Reg<Srrctl, Rw> {
        Reg::at(self.0 + 0x14)
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

    /// Where a send queue's head is written to memory, 64 bits; zero for nowhere (§8.2.3.9).
    pub(crate) const fn tdwb(self) -> Reg<u64, Rw> {
        Reg::at(self.0 + 0x38)
    }
}
