//! Registers and bits by number, as the data sheets give them: 82599 (331520), X540 (321109),
//! X550 (333369), each chapter 8. Only what the models act on has a name here; what they merely
//! keep is in `table`.

/// Registers with behaviour of their own.
pub(super) mod reg {
    pub(in crate::ixgbe) const CTRL: u32 = 0x0;
    pub(in crate::ixgbe) const STATUS: u32 = 0x8;
    pub(in crate::ixgbe) const CTRL_EXT: u32 = 0x18;
    pub(in crate::ixgbe) const ESDP: u32 = 0x20;
    pub(in crate::ixgbe) const I2CCTL: u32 = 0x28;
    pub(in crate::ixgbe) const VFLRE0: u32 = 0x600;
    pub(in crate::ixgbe) const VFLRE1: u32 = 0x1c0;
    pub(in crate::ixgbe) const VFLREC: u32 = 0x700;
    pub(in crate::ixgbe) const PFMBICR: u32 = 0x710;
    pub(in crate::ixgbe) const PFMBIMR: u32 = 0x720;
    pub(in crate::ixgbe) const EICR: u32 = 0x800;
    pub(in crate::ixgbe) const EICS: u32 = 0x808;
    pub(in crate::ixgbe) const EIAC: u32 = 0x810;
    pub(in crate::ixgbe) const EIMS: u32 = 0x880;
    pub(in crate::ixgbe) const EIMC: u32 = 0x888;
    pub(in crate::ixgbe) const EIAM: u32 = 0x890;
    pub(in crate::ixgbe) const GPIE: u32 = 0x898;
    pub(in crate::ixgbe) const IVAR: u32 = 0x900;
    pub(in crate::ixgbe) const IVAR_MISC: u32 = 0xa00;
    pub(in crate::ixgbe) const EICS_EX: u32 = 0xa90;
    pub(in crate::ixgbe) const EIMS_EX: u32 = 0xaa0;
    pub(in crate::ixgbe) const EIMC_EX: u32 = 0xab0;
    pub(in crate::ixgbe) const EIAM_EX: u32 = 0xad0;
    pub(in crate::ixgbe) const RQSMR: u32 = 0x2300;
    pub(in crate::ixgbe) const RDRXCTL: u32 = 0x2f00;
    pub(in crate::ixgbe) const QDE: u32 = 0x2f04;
    pub(in crate::ixgbe) const RXCTRL: u32 = 0x3000;
    pub(in crate::ixgbe) const HLREG0: u32 = 0x4240;
    pub(in crate::ixgbe) const MSCA: u32 = 0x425c;
    pub(in crate::ixgbe) const MSRWD: u32 = 0x4260;
    pub(in crate::ixgbe) const MHADD: u32 = 0x4268;
    pub(in crate::ixgbe) const AUTOC: u32 = 0x42a0;
    pub(in crate::ixgbe) const LINKS: u32 = 0x42a4;
    pub(in crate::ixgbe) const ANLP1: u32 = 0x42b0;
    pub(in crate::ixgbe) const RTTDCS: u32 = 0x4900;
    pub(in crate::ixgbe) const DMATXCTL: u32 = 0x4a80;
    pub(in crate::ixgbe) const PFMAILBOX: u32 = 0x4b00;
    pub(in crate::ixgbe) const RXCSUM: u32 = 0x5000;
    pub(in crate::ixgbe) const FCTRL: u32 = 0x5080;
    pub(in crate::ixgbe) const VLNCTRL: u32 = 0x5088;
    pub(in crate::ixgbe) const MCSTCTRL: u32 = 0x5090;
    pub(in crate::ixgbe) const VT_CTL: u32 = 0x51b0;
    pub(in crate::ixgbe) const VFRE: u32 = 0x51e0;
    pub(in crate::ixgbe) const MTA: u32 = 0x5200;
    pub(in crate::ixgbe) const RAL: u32 = 0x5400;
    pub(in crate::ixgbe) const MRQC: u32 = 0x5818;
    pub(in crate::ixgbe) const RETA: u32 = 0x5c00;
    pub(in crate::ixgbe) const RSSRK: u32 = 0x5c80;
    pub(in crate::ixgbe) const VMVIR: u32 = 0x8000;
    pub(in crate::ixgbe) const VFTE: u32 = 0x8110;
    pub(in crate::ixgbe) const MTQC: u32 = 0x8120;
    pub(in crate::ixgbe) const PFVFSPOOF: u32 = 0x8200;
    pub(in crate::ixgbe) const TQSM: u32 = 0x8600;
    pub(in crate::ixgbe) const SECRXCTRL: u32 = 0x8d00;
    pub(in crate::ixgbe) const SECRXSTAT: u32 = 0x8d04;
    pub(in crate::ixgbe) const SECTXSTAT: u32 = 0x8804;
    pub(in crate::ixgbe) const VFTA: u32 = 0xa000;
    pub(in crate::ixgbe) const RAL_ALL: u32 = 0xa200;
    pub(in crate::ixgbe) const MPSAR: u32 = 0xa600;
    pub(in crate::ixgbe) const PSRTYPE: u32 = 0xea00;
    pub(in crate::ixgbe) const PSRTYPE_OLD: u32 = 0x5480;
    pub(in crate::ixgbe) const FDIRCTRL: u32 = 0xee00;
    pub(in crate::ixgbe) const FDIRCMD: u32 = 0xee2c;
    pub(in crate::ixgbe) const ERETA: u32 = 0xee80;
    pub(in crate::ixgbe) const VMOLR: u32 = 0xf000;
    pub(in crate::ixgbe) const VLVF: u32 = 0xf100;
    pub(in crate::ixgbe) const VLVFB: u32 = 0xf200;
    pub(in crate::ixgbe) const UTA: u32 = 0xf400;
    pub(in crate::ixgbe) const EEC: u32 = 0x1_0010;
    pub(in crate::ixgbe) const EERD: u32 = 0x1_0014;
    pub(in crate::ixgbe) const EEWR: u32 = 0x1_0018;
    pub(in crate::ixgbe) const SWSM: u32 = 0x1_0140;
    pub(in crate::ixgbe) const SW_FW_SYNC: u32 = 0x1_0160;
    pub(in crate::ixgbe) const PFMBMEM: u32 = 0x1_3000;
    pub(in crate::ixgbe) const FLEX_MNG: u32 = 0x1_5800;
    pub(in crate::ixgbe) const HICR: u32 = 0x1_5f00;
}

/// Device control (82599 §8.2.3.1.1).
pub(super) mod ctrl {
    pub(in crate::ixgbe) const GIO_DIS: u32 = 1 << 2;
    pub(in crate::ixgbe) const LRST: u32 = 1 << 3;
    pub(in crate::ixgbe) const RST: u32 = 1 << 26;
}

/// Device status (§8.2.3.1.2).
pub(super) mod status {
    pub(in crate::ixgbe) const GIO_MASTER: u32 = 1 << 19;
}

/// Registers of a queue, from its first (§8.2.3.8, §8.2.3.9).
pub(super) mod ring {
    pub(in crate::ixgbe) const BAL: u32 = 0x0;
    pub(in crate::ixgbe) const BAH: u32 = 0x4;
    pub(in crate::ixgbe) const LEN: u32 = 0x8;
    pub(in crate::ixgbe) const DCA: u32 = 0xc;
    pub(in crate::ixgbe) const HEAD: u32 = 0x10;
    pub(in crate::ixgbe) const SRRCTL: u32 = 0x14;
    pub(in crate::ixgbe) const TAIL: u32 = 0x18;
    pub(in crate::ixgbe) const DCTL: u32 = 0x28;
    pub(in crate::ixgbe) const RSCCTL: u32 = 0x2c;
    pub(in crate::ixgbe) const WBAL: u32 = 0x38;
    pub(in crate::ixgbe) const WBAH: u32 = 0x3c;
    /// In the control register.
    pub(in crate::ixgbe) const ENABLE: u32 = 1 << 25;
    pub(in crate::ixgbe) const FLUSH: u32 = 1 << 26;
    /// In a receive queue's: longest frame, and whether it counts (X540 on).
    pub(in crate::ixgbe) const RLPML: u32 = 0x3fff;
    pub(in crate::ixgbe) const RLPML_EN: u32 = 1 << 15;
    /// In a receive queue's: cut tags out.
    pub(in crate::ixgbe) const VME: u32 = 1 << 30;
    /// In `SRRCTL`: drop what finds no descriptor.
    pub(in crate::ixgbe) const DROP_EN: u32 = 1 << 28;
    /// In `SRRCTL`: descriptor type.
    pub(in crate::ixgbe) const TYPE: u32 = 7 << 25;
    /// Advanced, one buffer.
    pub(in crate::ixgbe) const ONE_BUFFER: u32 = 1 << 25;
}

/// MAC control (§8.2.3.22.8).
pub(super) mod hlreg {
    pub(in crate::ixgbe) const TXCRCEN: u32 = 1 << 0;
    pub(in crate::ixgbe) const RXCRCSTRP: u32 = 1 << 1;
    pub(in crate::ixgbe) const JUMBOEN: u32 = 1 << 2;
    pub(in crate::ixgbe) const TXPADEN: u32 = 1 << 10;
    pub(in crate::ixgbe) const LPBK: u32 = 1 << 15;
}

/// Filter control (§8.2.3.7.1).
pub(super) mod fctrl {
    pub(in crate::ixgbe) const MPE: u32 = 1 << 8;
    pub(in crate::ixgbe) const UPE: u32 = 1 << 9;
    pub(in crate::ixgbe) const BAM: u32 = 1 << 10;
}

/// A pool's filter (§8.2.3.27.14).
pub(super) mod vmolr {
    pub(in crate::ixgbe) const UPE: u32 = 1 << 22;
    pub(in crate::ixgbe) const VPE: u32 = 1 << 23;
    pub(in crate::ixgbe) const AUPE: u32 = 1 << 24;
    pub(in crate::ixgbe) const ROMPE: u32 = 1 << 25;
    pub(in crate::ixgbe) const ROPE: u32 = 1 << 26;
    pub(in crate::ixgbe) const BAM: u32 = 1 << 27;
    pub(in crate::ixgbe) const MPE: u32 = 1 << 28;
}

/// Pools (§8.2.3.27.1).
pub(super) mod vt {
    pub(in crate::ixgbe) const ENABLE: u32 = 1 << 0;
    pub(in crate::ixgbe) const POOL_SHIFT: u32 = 7;
    pub(in crate::ixgbe) const NO_DEFAULT: u32 = 1 << 29;
    pub(in crate::ixgbe) const REPLICATE: u32 = 1 << 30;
}

/// Causes of interrupts beside the queues' (§8.2.3.5.1).
pub(super) mod cause {
    pub(in crate::ixgbe) const MAILBOX: u32 = 1 << 19;
    pub(in crate::ixgbe) const LSC: u32 = 1 << 20;
}

/// Status and errors of a received frame (§7.1.6.2).
pub(super) mod rxd {
    pub(in crate::ixgbe) const DD: u32 = 1 << 0;
    pub(in crate::ixgbe) const EOP: u32 = 1 << 1;
    pub(in crate::ixgbe) const VP: u32 = 1 << 3;
    pub(in crate::ixgbe) const UDPCS: u32 = 1 << 4;
    pub(in crate::ixgbe) const L4CS: u32 = 1 << 5;
    pub(in crate::ixgbe) const IPCS: u32 = 1 << 6;
    pub(in crate::ixgbe) const PIF: u32 = 1 << 7;
    pub(in crate::ixgbe) const L4E: u32 = 1 << 30;
    pub(in crate::ixgbe) const IPE: u32 = 1 << 31;
}

/// A descriptor to send (§7.2.3.2): bits of its second word.
pub(super) mod txd {
    pub(in crate::ixgbe) const EOP: u64 = 1 << 24;
    pub(in crate::ixgbe) const IFCS: u64 = 1 << 25;
    /// Legacy: insert a checksum.
    pub(in crate::ixgbe) const IC: u64 = 1 << 26;
    pub(in crate::ixgbe) const RS: u64 = 1 << 27;
    pub(in crate::ixgbe) const DEXT: u64 = 1 << 29;
    pub(in crate::ixgbe) const VLE: u64 = 1 << 30;
    /// Advanced: segment it.
    pub(in crate::ixgbe) const TSE: u64 = 1 << 31;
    pub(in crate::ixgbe) const DD: u64 = 1 << 32;
}

/// Bits of the physical function's mailbox register (§8.2.3.27.28).
pub(super) mod pfmail {
    pub(in crate::ixgbe) const STS: u32 = 1 << 0;
    pub(in crate::ixgbe) const ACK: u32 = 1 << 1;
    pub(in crate::ixgbe) const VFU: u32 = 1 << 2;
    pub(in crate::ixgbe) const PFU: u32 = 1 << 3;
    pub(in crate::ixgbe) const RVFU: u32 = 1 << 4;
}

/// Bits of a virtual function's mailbox register (§8.3.5.1.5).
pub(super) mod vfmail {
    pub(in crate::ixgbe) const REQ: u32 = 1 << 0;
    pub(in crate::ixgbe) const ACK: u32 = 1 << 1;
    pub(in crate::ixgbe) const VFU: u32 = 1 << 2;
    pub(in crate::ixgbe) const PFU: u32 = 1 << 3;
    pub(in crate::ixgbe) const PFSTS: u32 = 1 << 4;
    pub(in crate::ixgbe) const PFACK: u32 = 1 << 5;
    pub(in crate::ixgbe) const RSTI: u32 = 1 << 6;
    pub(in crate::ixgbe) const RSTD: u32 = 1 << 7;
}

/// Low 32 bits.
pub(super) fn low(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
