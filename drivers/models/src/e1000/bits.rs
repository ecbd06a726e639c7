//! Registers and bits by number, as the data sheets give them: 82540EM (317453, the "PCI/PCI-X
//! Family of Gigabit Ethernet Controllers Software Developer's Manual") §13, 82574L (317694) §10,
//! 82576 (320961) §8. Only what the model acts on has a name here; what it merely keeps is in
//! `table`.

/// Registers with behaviour of their own.
pub(super) mod reg {
    pub(in crate::e1000) const CTRL: u32 = 0x0;
    /// The same register again.
    pub(in crate::e1000) const CTRL_DUP: u32 = 0x4;
    pub(in crate::e1000) const STATUS: u32 = 0x8;
    pub(in crate::e1000) const EECD: u32 = 0x10;
    pub(in crate::e1000) const EERD: u32 = 0x14;
    pub(in crate::e1000) const MDIC: u32 = 0x20;
    pub(in crate::e1000) const VET: u32 = 0x38;
    pub(in crate::e1000) const ICR: u32 = 0xc0;
    pub(in crate::e1000) const ICS: u32 = 0xc8;
    pub(in crate::e1000) const IMS: u32 = 0xd0;
    pub(in crate::e1000) const IMC: u32 = 0xd8;
    pub(in crate::e1000) const RCTL: u32 = 0x100;
    pub(in crate::e1000) const TCTL: u32 = 0x400;
    pub(in crate::e1000) const EICS: u32 = 0x1520;
    pub(in crate::e1000) const EIMS: u32 = 0x1524;
    pub(in crate::e1000) const EIMC: u32 = 0x1528;
    pub(in crate::e1000) const EICR: u32 = 0x1580;
    pub(in crate::e1000) const IVAR0: u32 = 0x1700;
    pub(in crate::e1000) const RXCSUM: u32 = 0x5000;
    pub(in crate::e1000) const RLPML: u32 = 0x5004;
    pub(in crate::e1000) const RFCTL: u32 = 0x5008;
    pub(in crate::e1000) const MTA: u32 = 0x5200;
    pub(in crate::e1000) const RA: u32 = 0x5400;
    pub(in crate::e1000) const RA_MORE: u32 = 0x54e0;
    pub(in crate::e1000) const VFTA: u32 = 0x5600;
    pub(in crate::e1000) const MRQC: u32 = 0x5818;
    pub(in crate::e1000) const RETA: u32 = 0x5c00;
    pub(in crate::e1000) const RSSRK: u32 = 0x5c80;
    pub(in crate::e1000) const SWSM: u32 = 0x5b50;
    /// A virtual function's mailbox.
    pub(in crate::e1000) const V2PMAILBOX: u32 = 0xc40;
    pub(in crate::e1000) const VMBMEM: u32 = 0x800;
}

/// Device control (82574 §10.2.2.1).
pub(super) mod ctrl {
    pub(in crate::e1000) const FD: u32 = 1 << 0;
    pub(in crate::e1000) const MASTER_DISABLE: u32 = 1 << 2;
    pub(in crate::e1000) const SLU: u32 = 1 << 6;
    pub(in crate::e1000) const RST: u32 = 1 << 26;
    pub(in crate::e1000) const VME: u32 = 1 << 30;
    pub(in crate::e1000) const PHY_RST: u32 = 1 << 31;
}

/// Device status (82574 §10.2.2.2).
pub(super) mod status {
    pub(in crate::e1000) const FD: u32 = 1 << 0;
    pub(in crate::e1000) const LU: u32 = 1 << 1;
    pub(in crate::e1000) const SPEED_100: u32 = 1 << 6;
    pub(in crate::e1000) const SPEED_1000: u32 = 1 << 7;
    pub(in crate::e1000) const PHYRA: u32 = 1 << 10;
    pub(in crate::e1000) const MASTER: u32 = 1 << 19;
}

/// Causes of interrupts (82540 §13.4.17).
pub(super) mod cause {
    pub(in crate::e1000) const TXDW: u32 = 1 << 0;
    pub(in crate::e1000) const TXQE: u32 = 1 << 1;
    pub(in crate::e1000) const LSC: u32 = 1 << 2;
    pub(in crate::e1000) const RXO: u32 = 1 << 6;
    pub(in crate::e1000) const RXT0: u32 = 1 << 7;
    pub(in crate::e1000) const ASSERTED: u32 = 1 << 31;
}

/// Receive control (82540 §13.4.22).
pub(super) mod rctl {
    pub(in crate::e1000) const EN: u32 = 1 << 1;
    pub(in crate::e1000) const UPE: u32 = 1 << 3;
    pub(in crate::e1000) const MPE: u32 = 1 << 4;
    pub(in crate::e1000) const LPE: u32 = 1 << 5;
    pub(in crate::e1000) const LBM: u32 = 3 << 6;
    pub(in crate::e1000) const DTYP: u32 = 3 << 10;
    pub(in crate::e1000) const MO_SHIFT: u32 = 12;
    pub(in crate::e1000) const BAM: u32 = 1 << 15;
    pub(in crate::e1000) const BSIZE_SHIFT: u32 = 16;
    pub(in crate::e1000) const VFE: u32 = 1 << 18;
    pub(in crate::e1000) const BSEX: u32 = 1 << 25;
    pub(in crate::e1000) const SECRC: u32 = 1 << 26;
}

/// Transmit control (82540 §13.4.33).
pub(super) mod tctl {
    pub(in crate::e1000) const EN: u32 = 1 << 1;
    pub(in crate::e1000) const PSP: u32 = 1 << 3;
}

/// Receive checksum control (82574 §10.2.5.15).
pub(super) mod rxcsum {
    pub(in crate::e1000) const IPOFLD: u32 = 1 << 8;
    pub(in crate::e1000) const TUOFLD: u32 = 1 << 9;
    pub(in crate::e1000) const PCSD: u32 = 1 << 13;
}

/// Extended receive descriptors, in the receive filter control (82574 §10.2.5.16).
pub(super) const RFCTL_EXTEN: u32 = 1 << 15;

/// A queue's registers, from its base on (82576 §8.10, §8.12).
pub(super) mod ring {
    pub(in crate::e1000) const BAL: u32 = 0x00;
    pub(in crate::e1000) const BAH: u32 = 0x04;
    pub(in crate::e1000) const LEN: u32 = 0x08;
    pub(in crate::e1000) const SRRCTL: u32 = 0x0c;
    pub(in crate::e1000) const HEAD: u32 = 0x10;
    pub(in crate::e1000) const DCA: u32 = 0x14;
    pub(in crate::e1000) const TAIL: u32 = 0x18;
    pub(in crate::e1000) const DCTL: u32 = 0x28;
    pub(in crate::e1000) const RQDPC: u32 = 0x30;
    pub(in crate::e1000) const WBAL: u32 = 0x38;
    pub(in crate::e1000) const WBAH: u32 = 0x3c;
    /// The queue's enable bit (82576 alone).
    pub(in crate::e1000) const ENABLE: u32 = 1 << 25;
    /// Writes what it holds to memory, and clears itself.
    pub(in crate::e1000) const FLUSH: u32 = 1 << 26;
    /// Split and replication control: drop what there is no descriptor for.
    pub(in crate::e1000) const DROP_EN: u32 = 1 << 31;
}

/// Bits in the upper word of a sent descriptor: the legacy families' `lower` and the 82576's
/// `cmd_type_len` have them in the same places (82576 §7.2.2.3).
pub(super) mod txd {
    pub(in crate::e1000) const EOP: u64 = 1 << 24;
    pub(in crate::e1000) const IFCS: u64 = 1 << 25;
    /// Legacy descriptor: insert a checksum.
    pub(in crate::e1000) const IC: u64 = 1 << 26;
    pub(in crate::e1000) const TSE: u64 = 1 << 26;
    pub(in crate::e1000) const RS: u64 = 1 << 27;
    pub(in crate::e1000) const RPS: u64 = 1 << 28;
    pub(in crate::e1000) const DEXT: u64 = 1 << 29;
    pub(in crate::e1000) const VLE: u64 = 1 << 30;
    pub(in crate::e1000) const TSE_ADVANCED: u64 = 1 << 31;
    /// Descriptor done, as it is written back.
    pub(in crate::e1000) const DD: u64 = 1 << 32;
}

/// Status bits of a received descriptor; the same in all formats (82576 §7.1.5).
pub(super) mod rxd {
    pub(in crate::e1000) const DD: u32 = 1 << 0;
    pub(in crate::e1000) const EOP: u32 = 1 << 1;
    pub(in crate::e1000) const IXSM: u32 = 1 << 2;
    pub(in crate::e1000) const VP: u32 = 1 << 3;
    pub(in crate::e1000) const UDPCS: u32 = 1 << 4;
    pub(in crate::e1000) const L4CS: u32 = 1 << 5;
    pub(in crate::e1000) const IPCS: u32 = 1 << 6;
    /// The IP identification is where a hash could be.
    pub(in crate::e1000) const IPIDV: u32 = 1 << 9;
    /// Errors: bits 5 and 6 of the legacy format's error byte, which lies 24 bits up here.
    pub(in crate::e1000) const L4E: u32 = 1 << 29;
    pub(in crate::e1000) const IPE: u32 = 1 << 30;
}
