//! The registers by name: which device has them, what they hold after a reset, what may be
//! written.
//!
//! Most are only kept: a driver writes them and reads them back, and nothing hangs on them here.
//! Those with behaviour of their own are in the list too, so that a driver's table can be compared
//! with it ([`map`]). Offsets are those of chapter 8 of the data sheets.

use hw::mmio::RegInfo;

use super::options::Kind;

/// Devices, as bits: 82599, X540, X550, and a virtual function of any.
const N: u8 = 1;
const T: u8 = 2;
const X: u8 = 4;
const V: u8 = 8;
const P: u8 = N | T | X;
const ALL: u32 = u32::MAX;

/// A register, or a row of them.
pub(super) struct Span {
    pub(super) name: &'static str,
    first: u32,
    count: u32,
    stride: u32,
    kinds: u8,
    /// After a reset.
    reset: u32,
    /// Bits that may be written.
    pub(super) writable: u32,
}

const fn row(
    name: &'static str,
    first: u32,
    count: u32,
    stride: u32,
    kinds: u8,
    (reset, writable): (u32, u32),
) -> Span {
    Span {
        name,
        first,
        count,
        stride,
        kinds,
        reset,
        writable,
    }
}

/// A row of registers four bytes apart, all bits of which may be written.
const fn kept(name: &'static str, first: u32, count: u32) -> Span {
    row(name, first, count, 4, P, (0, ALL))
}

/// One that is read only.
const fn shown(name: &'static str, first: u32, count: u32, value: u32) -> Span {
    row(name, first, count, 4, P, (value, 0))
}

const SPANS: &[Span] = &[
    kept("CTRL", 0x0, 1),
    shown("STATUS", 0x8, 1, 0),
    kept("CTRL_EXT", 0x18, 1),
    kept("ESDP", 0x20, 1),
    row("I2CCTL", 0x28, 1, 4, N | T, (0, ALL)),
    shown("FRTIMER", 0x48, 1, 0),
    kept("TCPTIMER", 0x4c, 1),
    shown("VFLRE1", 0x1c0, 1, 0),
    kept("LEDCTL", 0x200, 1),
    shown("VFLRE0", 0x600, 1, 0),
    kept("VFLREC", 0x700, 2),
    kept("PFMBICR", 0x710, 4),
    kept("PFMBIMR", 0x720, 4),
    // Interrupts (§8.2.3.5).
    kept("EICR", 0x800, 1),
    kept("EICS", 0x808, 1),
    kept("EIAC", 0x810, 1),
    kept("EITR", 0x820, 24),
    kept("EIMS", 0x880, 1),
    kept("EIMC", 0x888, 1),
    kept("EIAM", 0x890, 1),
    kept("EITRSEL", 0x894, 1),
    kept("GPIE", 0x898, 1),
    row("IVAR", 0x900, 64, 4, P, (0, 0xbfbf_bfbf)),
    row("IVAR_MISC", 0xa00, 1, 4, P, (0, 0xbfbf)),
    kept("EICS_EX", 0xa90, 2),
    kept("EIMS_EX", 0xaa0, 2),
    kept("EIMC_EX", 0xab0, 2),
    kept("EIAM_EX", 0xad0, 2),
    kept("EITR_MORE", 0x1_2300, 105),
    // Receiving (§8.2.3.8).
    kept("RTRPT4C", 0x2140, 8),
    shown("RTRPT4S", 0x2160, 8, 0),
    row("RQSMR", 0x2300, 32, 4, P, (0, 0x0f0f_0f0f)),
    kept("FCPTRL", 0x2410, 2),
    kept("FCBUFF", 0x2418, 1),
    kept("FCDMARW", 0x2420, 1),
    kept("RTRPCS", 0x2430, 1),
    kept("RDSTAT", 0x2c00, 8),
    kept("RDSTATCTL", 0x2c20, 1),
    row("RDRXCTL", 0x2f00, 1, 4, P, (0x8800, ALL)),
    kept("QDE", 0x2f04, 1),
    kept("DRECCCTL", 0x2f08, 1),
    kept("RIC_DW", 0x2f10, 4),
    kept("RDPROBE", 0x2f20, 1),
    kept("RDMAM", 0x2f30, 1),
    kept("RDMAD", 0x2f34, 1),
    kept("RXDSTATCTRL", 0x2f40, 1),
    shown("WQBR_RX", 0x2fb0, 4, 0),
    row("RXCTRL", 0x3000, 1, 4, P, (0, 1)),
    kept("PFCTOP", 0x3008, 1),
    kept("RTRUP2TC", 0x3020, 1),
    kept("STARCTRL", 0x3024, 1),
    kept("RSCDBU", 0x3028, 1),
    kept("RXWRPTR", 0x3100, 4),
    kept("RXUSED", 0x3120, 4),
    kept("RXRDPTR", 0x3140, 4),
    kept("RXRDWRPTR", 0x3160, 4),
    kept("RXMEMWRAP", 0x3190, 1),
    kept("FCTTV", 0x3200, 4),
    kept("FCADBUL", 0x3210, 2),
    row("FCRTL", 0x3220, 8, 4, P, (0, 0x8007_ffe0 | 0x10)),
    // Bits 30 to 19 are reserved; Linux's driver writes what is below zero to classes without a
    // buffer.
    row("FCRTH", 0x3260, 8, 4, P, (0, ALL)),
    kept("FCRTV", 0x32a0, 1),
    kept("PBRXECC", 0x3300, 1),
    row("PFVFMRQC", 0x3400, 64, 4, X, (0, ALL)),
    kept("RXBUFCTRL", 0x3600, 1),
    kept("RXBUFDATA", 0x3610, 4),
    kept("RXDATAWRPTR", 0x3700, 4),
    kept("RXDESCWRPTR", 0x3710, 4),
    kept("RXDATARDPTR", 0x3720, 4),
    kept("RXDESCRDPTR", 0x3730, 4),
    row("RXPBSIZE", 0x3c00, 8, 4, P, (0x8_0000, 0xf_fc00)),
    kept("RT2CR", 0x3c20, 8),
    kept("RT2SR", 0x3c40, 8),
    kept("FCCFG", 0x3d00, 1),
    kept("DROPEN", 0x3d04, 1),
    kept("RXDBUECC", 0x3f70, 2),
    // The MAC (§8.2.3.22).
    kept("PCS1GCFIG", 0x4200, 1),
    kept("PCS1GLCTL", 0x4208, 1),
    shown("PCS1GLSTA", 0x420c, 1, 0),
    kept("PCS1GDBG", 0x4210, 2),
    kept("PCS1GANA", 0x4218, 1),
    shown("PCS1GANLP", 0x421c, 1, 0),
    kept("PCS1GANNP", 0x4220, 1),
    shown("PCS1GANLPNP", 0x4224, 1, 0),
    // CRC inserted and cut out, short frames filled up.
    row("HLREG0", 0x4240, 1, 4, P, (0x0001_0c03, ALL)),
    shown("HLREG1", 0x4244, 1, 0),
    kept("PAP", 0x4248, 1),
    kept("MACA", 0x424c, 1),
    kept("APAE", 0x4250, 1),
    kept("ARD", 0x4254, 1),
    kept("AIS", 0x4258, 1),
    kept("MSCA", 0x425c, 1),
    kept("MSRWD", 0x4260, 1),
    kept("MLADD", 0x4264, 1),
    row("MHADD", 0x4268, 1, 4, P, (0x05ee_0000, 0xffff_0000)),
    kept("TREG", 0x426c, 1),
    shown("PCSS", 0x4288, 2, 0),
    shown("XPCSS", 0x4290, 1, 0),
    kept("MFLCN", 0x4294, 1),
    shown("SERDESC", 0x4298, 1, 0),
    shown("MACS", 0x429c, 1, 0),
    // Ten gigabit over one lane; SFI.
    row("AUTOC", 0x42a0, 1, 4, P, (0xc09c_6004, ALL)),
    shown("LINKS", 0x42a4, 1, 0),
    row("AUTOC2", 0x42a8, 1, 4, P, (0x000a_0000, ALL)),
    kept("AUTOC3", 0x42ac, 1),
    shown("ANLP1", 0x42b0, 1, 0),
    shown("ANLP2", 0x42b4, 1, 0),
    kept("MDFTC", 0x42b8, 1),
    kept("MDFT", 0x42c0, 4),
    shown("MMNGC", 0x42d0, 1, 0),
    kept("ANLPNP", 0x42d4, 2),
    kept("KRPCSFC", 0x42e0, 1),
    shown("KRPCSS", 0x42e4, 1, 0),
    shown("FECS", 0x42e8, 2, 0),
    kept("SGMIIC", 0x4314, 1),
    kept("MPVC", 0x4318, 1),
    shown("LINKS2", 0x4324, 1, 0),
    kept("FCAMACL", 0x4328, 2),
    kept("MACC", 0x4330, 1),
    kept("ATLASCTL", 0x4800, 1),
    // Sending (§8.2.3.9).
    kept("RTTDCS", 0x4900, 1),
    kept("RTTDQSEL", 0x4904, 1),
    kept("RTTDT1C", 0x4908, 1),
    shown("RTTDT1S", 0x490c, 1, 0),
    kept("RTTDT2C", 0x4910, 8),
    shown("RTTDT2S", 0x4930, 8, 0),
    kept("TXPBTHRESH", 0x4950, 8),
    kept("RTTBCNRM", 0x4980, 1),
    kept("RTTBCNRC", 0x4984, 1),
    kept("RTTBCNRS", 0x4988, 1),
    kept("RTTBCNRD", 0x498c, 1),
    kept("RTTDTECC", 0x4990, 1),
    row("DMATXCTL", 0x4a80, 1, 4, P, (0x8100_0000, ALL)),
    kept("DTXTCPFLG", 0x4a88, 2),
    kept("RTTQCNTG", 0x4a90, 1),
    kept("TEOFF", 0x4a94, 2),
    kept("PFMAILBOX", 0x4b00, 64),
    // Filters (§8.2.3.7).
    kept("RXCSUM", 0x5000, 1),
    kept("RFCTL", 0x5008, 1),
    kept("MAVTV", 0x5010, 8),
    kept("MFUTP", 0x5030, 8),
    kept("EXVET", 0x5078, 1),
    row("VXLANCTRL", 0x507c, 1, 4, X, (0, ALL)),
    kept("FCTRL", 0x5080, 1),
    row("VLNCTRL", 0x5088, 1, 4, P, (0x8100, ALL)),
    kept("MCSTCTRL", 0x5090, 1),
    kept("RUPPBMR", 0x50a0, 1),
    kept("RFVAL", 0x50a4, 1),
    kept("PFFLPL", 0x50b0, 2),
    kept("FCRXCTRL", 0x5100, 1),
    kept("FCFLT", 0x5108, 1),
    kept("FCFLTRW", 0x5110, 1),
    kept("RXMTRL", 0x5120, 1),
    kept("ETQF", 0x5128, 8),
    kept("REOFF", 0x5158, 1),
    kept("MDEF_EXT", 0x5160, 8),
    kept("VMTXSW", 0x5180, 2),
    kept("TSYNCRXCTL", 0x5188, 1),
    kept("METF", 0x5190, 4),
    shown("RXSATR", 0x51a0, 3, 0),
    kept("VT_CTL", 0x51b0, 1),
    shown("RXFECCERR0", 0x51b8, 1, 0),
    kept("FCPARAM", 0x51d8, 1),
    kept("VFRE", 0x51e0, 2),
    shown("RXSTMPL", 0x51e8, 1, 0),
    kept("RSOFF", 0x51f8, 1),
    kept("MTA", 0x5200, 128),
    kept("WUC", 0x5800, 1),
    kept("WUFC", 0x5808, 1),
    kept("WUS", 0x5810, 1),
    kept("MRQC", 0x5818, 1),
    kept("VMD_CTL", 0x581c, 1),
    kept("MANC", 0x5820, 1),
    kept("MFVAL", 0x5824, 1),
    kept("IPAV", 0x5838, 1),
    kept("IP4AT", 0x5840, 8),
    kept("MANC2H", 0x5860, 1),
    kept("IP6AT", 0x5880, 4),
    kept("MDEF", 0x5890, 8),
    kept("MIPAF", 0x58b0, 16),
    kept("WUPL", 0x5900, 1),
    kept("MMAL", 0x5910, 8),
    kept("WUPM", 0x5a00, 32),
    kept("IMIR", 0x5a80, 8),
    kept("IMIREXT", 0x5aa0, 8),
    kept("IMIRVP", 0x5ac0, 1),
    kept("RETA", 0x5c00, 32),
    kept("RSSRK", 0x5c80, 10),
    row("VMVIR", 0x8000, 64, 4, P, (0, 0xc000_ffff)),
    kept("DTXMXSZRQ", 0x8100, 1),
    kept("VFTE", 0x8110, 2),
    kept("MTQC", 0x8120, 1),
    shown("WQBR_TX", 0x8130, 4, 0),
    kept("PFVFSPOOF", 0x8200, 8),
    kept("PFDTXGSWC", 0x8220, 1),
    kept("TIC_DW2", 0x82b0, 4),
    kept("TXDESCIC", 0x82cc, 1),
    kept("TXLLQ", 0x82e0, 4),
    kept("TDHMPN2", 0x82fc, 1),
    row("TQSM", 0x8600, 32, 4, P, (0, 0x0f0f_0f0f)),
    kept("VMECM", 0x8790, 2),
    // Security blocks, and the clock of packets (§8.2.3.12, §8.2.3.13, §8.2.3.26).
    kept("SECTXCTRL", 0x8800, 1),
    shown("SECTXSTAT", 0x8804, 1, 1),
    kept("SECTXBUFFAF", 0x8808, 1),
    kept("SECTXMINIFG", 0x8810, 1),
    kept("IPSTX", 0x8900, 6),
    shown("LSECTXCAP", 0x8a00, 1, 0),
    kept("LSECTX", 0x8a04, 20),
    kept("RTTQCNCR", 0x8b00, 1),
    kept("TSYNCTXCTL", 0x8c00, 1),
    shown("TXSTMP", 0x8c04, 2, 0),
    kept("SYSTIM", 0x8c0c, 2),
    kept("TIMINCA", 0x8c14, 1),
    kept("TIMADJ", 0x8c18, 2),
    kept("TSAUXC", 0x8c20, 1),
    kept("TRGTTIM", 0x8c24, 4),
    kept("CLKTIM", 0x8c34, 2),
    shown("AUXSTMP", 0x8c3c, 4, 0),
    kept("SYSTIMR", 0x8c58, 1),
    kept("TSICR", 0x8c60, 1),
    kept("TSIM", 0x8c68, 1),
    row("SECRXCTRL", 0x8d00, 1, 4, P, (1, ALL)),
    shown("SECRXSTAT", 0x8d04, 1, 0),
    kept("IPSRX", 0x8e00, 13),
    shown("LSECRXCAP", 0x8f00, 1, 0),
    kept("LSECRX", 0x8f04, 32),
    kept("FHFT", 0x9000, 256),
    kept("FTFT", 0x9400, 256),
    kept("FHFT_EXT", 0x9800, 128),
    kept("VFTA", 0xa000, 128),
    row("RAL", 0xa200, 128, 8, P, (0, ALL)),
    row("RAH", 0xa204, 128, 8, P, (0, 0x8000_ffff)),
    row("MPSAR_LO", 0xa600, 128, 8, P, (0, ALL)),
    row("MPSAR_HI", 0xa604, 128, 8, P, (0, ALL)),
    kept("TXWRPTR", 0xc100, 4),
    kept("TXUSED", 0xc120, 4),
    kept("TXRDPTR", 0xc140, 4),
    kept("TXRDWRPTR", 0xc160, 4),
    kept("PBTXECC", 0xc300, 1),
    kept("TXBUFCTRL", 0xc600, 1),
    kept("TXBUFDATA", 0xc610, 4),
    kept("TXDATAWRPTR", 0xc700, 4),
    kept("TXDESCWRPTR", 0xc710, 4),
    kept("TXDATARDPTR", 0xc720, 4),
    kept("TXDESCRDPTR", 0xc730, 4),
    kept("RTTUP2TC", 0xc800, 1),
    kept("LBDRPEN", 0xca00, 1),
    kept("TIPG", 0xcb00, 1),
    row("TXPBSIZE", 0xcc00, 8, 4, P, (0x2_8000, 0xf_fc00)),
    kept("RTTPCS", 0xcd00, 1),
    kept("MNGTXMAP", 0xcd10, 1),
    kept("RTTPT2C", 0xcd20, 8),
    shown("RTTPT2S", 0xcd40, 8, 0),
    shown("TFCS", 0xce00, 1, 0),
    kept("TXDBUECC", 0xcf70, 2),
    kept("SAQF", 0xe000, 128),
    kept("DAQF", 0xe200, 128),
    kept("SDPQF", 0xe400, 128),
    kept("FTQF", 0xe600, 128),
    kept("L34TIMIR", 0xe800, 128),
    kept("PSRTYPE", 0xea00, 64),
    kept("ETQS", 0xec00, 8),
    kept("SYNQF", 0xec30, 1),
    kept("RQTC", 0xec70, 1),
    kept("LLITHRESH", 0xec90, 1),
    kept("FCRECTL", 0xed00, 1),
    kept("FCRETA", 0xed10, 8),
    // Flow director: filters are taken, and match nothing.
    kept("FDIRCTRL", 0xee00, 1),
    kept("FDIRSIPV6", 0xee0c, 3),
    kept("FDIRIPSA", 0xee18, 1),
    kept("FDIRIPDA", 0xee1c, 1),
    kept("FDIRPORT", 0xee20, 1),
    kept("FDIRVLAN", 0xee24, 1),
    kept("FDIRHASH", 0xee28, 1),
    kept("FDIRCMD", 0xee2c, 1),
    row("FDIRFREE", 0xee38, 1, 4, P, (0x8000, 0)),
    kept("FDIRDIP4M", 0xee3c, 1),
    kept("FDIRSIP4M", 0xee40, 1),
    kept("FDIRTCPM", 0xee44, 1),
    kept("FDIRUDPM", 0xee48, 1),
    shown("FDIRLEN", 0xee4c, 1, 0),
    kept("FDIRHKEY", 0xee68, 1),
    kept("FDIRSKEY", 0xee6c, 1),
    kept("FDIRM", 0xee70, 1),
    kept("FDIRIP6M", 0xee74, 1),
    kept("FDIRSCTPM", 0xee78, 1),
    row("ERETA", 0xee80, 96, 4, X, (0, ALL)),
    kept("VMOLR", 0xf000, 64),
    row("VLVF", 0xf100, 64, 4, P, (0, 0x8000_0fff)),
    kept("VLVFB", 0xf200, 128),
    kept("UTA", 0xf400, 128),
    kept("MRCTL", 0xf600, 4),
    kept("VMRVLAN", 0xf610, 8),
    kept("VMRVM", 0xf630, 8),
    // EEPROM, semaphores, PCI Express (§8.2.3.2, §8.2.3.4).
    kept("EEC", 0x1_0010, 1),
    kept("EERD", 0x1_0014, 1),
    kept("EEWR", 0x1_0018, 1),
    kept("FLA", 0x1_001c, 1),
    kept("EEMNGCTL", 0x1_0110, 1),
    kept("EEMNGDATA", 0x1_0114, 1),
    kept("FLMNGCTL", 0x1_0118, 1),
    kept("FLMNGDATA", 0x1_011c, 1),
    kept("FLMNGCNT", 0x1_0120, 1),
    kept("FLOP", 0x1_013c, 1),
    kept("SWSM", 0x1_0140, 1),
    // The firmware's word is valid: Linux's ixgbe takes anything else for a firmware in trouble.
    shown("FWSM", 0x1_0148, 1, 0x8000),
    shown("FACTPS", 0x1_0150, 1, 0),
    kept("SW_FW_SYNC", 0x1_0160, 1),
    kept("GRC", 0x1_0200, 1),
    kept("VPDDIAG", 0x1_0204, 2),
    kept("GCR", 0x1_1000, 1),
    kept("GTV", 0x1_1004, 1),
    shown("FUNCTAG", 0x1_1008, 1, 0),
    kept("GLT", 0x1_100c, 1),
    kept("GSCL", 0x1_1010, 4),
    shown("GSCN", 0x1_1020, 4, 0),
    kept("GSCL_MORE", 0x1_1030, 4),
    kept("PHYADR", 0x1_1040, 1),
    kept("PHYDAT", 0x1_1044, 1),
    kept("PHYCTL", 0x1_1048, 1),
    kept("GCR_EXT", 0x1_1050, 1),
    shown("MREVID", 0x1_1064, 1, 1),
    kept("PBACLR", 0x1_1068, 1),
    kept("PCIEECCCTL", 0x1_106c, 1),
    shown("DCA_ID", 0x1_1070, 1, 0),
    kept("DCA_CTRL", 0x1_1074, 1),
    row("CIAA", 0x1_1088, 1, 4, N | T, (0, ALL)),
    row("CIAD", 0x1_108c, 1, 4, N | T, (0, ALL)),
    kept("PCIE_DIAG", 0x1_1090, 8),
    kept("PICAUSE", 0x1_10b0, 1),
    kept("CDQ_MBR", 0x1_10b4, 1),
    kept("PIENA", 0x1_10b8, 1),
    kept("PCIESPARE", 0x1_10bc, 1),
    kept("PBACL", 0x1_10c4, 7),
    kept("ECC_STATUS", 0x1_10e0, 1),
    kept("MISC_REG", 0x1_10f0, 1),
    kept("BARCTRL", 0x1_10f4, 1),
    kept("ECC_CTRL", 0x1_1100, 2),
    row("CIAA", 0x1_1508, 1, 4, X, (0, ALL)),
    row("CIAD", 0x1_1510, 1, 4, X, (0, ALL)),
    kept("PFMBMEM", 0x1_3000, 1024),
    kept("CORECTL", 0x1_4f00, 1),
    kept("SMADARCTL", 0x1_4f10, 1),
    kept("LSWFW", 0x1_5014, 1),
    kept("FLEX_MNG", 0x1_5800, 448),
    kept("HICR", 0x1_5f00, 1),
    kept("HSMC0R", 0x1_5f04, 2),
    shown("FWSTS", 0x1_5f0c, 1, 0),
    kept("SWSR", 0x1_5f10, 1),
    row("I2CCTL", 0x1_5f5c, 1, 4, X, (0, ALL)),
    kept("HFDR", 0x1_5fe8, 1),
    row("PFVFRSSRK", 0x1_8000, 1024, 4, X, (0, ALL)),
    row("PFVFRETA", 0x1_9000, 1024, 4, X, (0, ALL)),
    // Of a virtual function (§8.3.5).
    row("VFCTRL", 0x0, 1, 4, V, (0, 1 << 26)),
    row("VFSTATUS", 0x8, 1, 4, V, (0, 0)),
    row("VFLINKS", 0x10, 1, 4, V, (0, 0)),
    row("VFRXMEMWRAP", 0x3190, 1, 4, V, (0, 0)),
    row("VFFRTIMER", 0x48, 1, 4, V, (0, 0)),
    row("VTEICR", 0x100, 1, 4, V, (0, 7)),
    row("VTEICS", 0x104, 1, 4, V, (0, 7)),
    row("VTEIMS", 0x108, 1, 4, V, (0, 7)),
    row("VTEIMC", 0x10c, 1, 4, V, (0, ALL)),
    row("VTEIAC", 0x110, 1, 4, V, (0, 7)),
    row("VTEIAM", 0x114, 1, 4, V, (0, 7)),
    row("VTIVAR", 0x120, 4, 4, V, (0, 0x8383_8383)),
    row("VTIVAR_MISC", 0x140, 1, 4, V, (0, 0x83)),
    row("VFPBACL", 0x180, 2, 4, V, (0, ALL)),
    row("VFMBMEM", 0x200, 16, 4, V, (0, ALL)),
    row("VFMAILBOX", 0x2fc, 1, 4, V, (0, 3)),
    row("VFPSRTYPE", 0x300, 1, 4, V, (0, ALL)),
    row("VTEITR", 0x820, 3, 4, V, (0, ALL)),
    row("VFGPRC", 0x101c, 1, 4, V, (0, 0)),
    row("VFGORC_L", 0x1020, 1, 4, V, (0, 0)),
    row("VFGORC_H", 0x1024, 1, 4, V, (0, 0)),
    row("VFMPRC", 0x1034, 1, 4, V, (0, 0)),
    row("VFGPTC", 0x201c, 1, 4, V, (0, 0)),
    row("VFGOTC_L", 0x2020, 1, 4, V, (0, 0)),
    row("VFGOTC_H", 0x2024, 1, 4, V, (0, 0)),
    row("VFMRQC", 0x3000, 1, 4, V, (0, ALL)),
    row("VFRSSRK", 0x3100, 10, 4, V, (0, ALL)),
    row("VFRETA", 0x3200, 16, 4, V, (0, ALL)),
];

/// Registers of a queue: the name to receive with, to send with, the offset in its block.
const RING: &[(&str, &str, u32)] = &[
    ("RDBAL", "TDBAL", 0x0),
    ("RDBAH", "TDBAH", 0x4),
    ("RDLEN", "TDLEN", 0x8),
    ("DCA_RXCTRL", "DCA_TXCTRL", 0xc),
    ("RDH", "TDH", 0x10),
    ("SRRCTL", "", 0x14),
    ("RDT", "TDT", 0x18),
    ("RXDCTL", "TXDCTL", 0x28),
    ("RSCCTL", "", 0x2c),
    ("", "TDWBAL", 0x38),
    ("", "TDWBAH", 0x3c),
];

const END: u32 = 0x1_a000;
const WORDS: usize = END as usize / 4;

/// A device's registers, and which it has.
pub(super) struct Registers {
    kinds: u8,
    values: Box<[u32]>,
    /// The span of each word, counted from 1; 0: none.
    spans: Box<[u16]>,
}

fn bit(kind: Kind, is_vf: bool) -> u8 {
    match kind {
        _ if is_vf => V,
        Kind::I82599 => N,
        Kind::X540 => T,
        Kind::X550 => X,
    }
}

fn word(offset: u32) -> usize {
    offset as usize / 4
}

impl Registers {
    pub(super) fn new(kind: Kind, is_vf: bool) -> Self {
        let kinds = bit(kind, is_vf);
        let mut spans = vec![0; WORDS].into_boxed_slice();
        for (number, span) in (1..).zip(SPANS).filter(|(_, span)| span.kinds & kinds != 0) {
            for n in 0..span.count {
                spans[word(span.first + n * span.stride)] = number;
            }
        }
        let mut registers = Self {
            kinds,
            values: vec![0; WORDS].into_boxed_slice(),
            spans,
        };
        registers.reset();
        registers
    }

    /// Everything as after a reset.
    pub(super) fn reset(&mut self) {
        self.values.fill(0);
        for span in SPANS.iter().filter(|span| span.kinds & self.kinds != 0) {
            for n in 0..span.count {
                self.values[word(span.first + n * span.stride)] = span.reset;
            }
        }
    }

    /// The span that the register at `offset` is in, if this device has it.
    pub(super) fn span(&self, offset: u32) -> Option<&'static Span> {
        let number = *self.spans.get(word(offset))?;
        SPANS.get(usize::from(number.checked_sub(1)?))
    }

    #[inline]
    pub(super) fn get(&self, offset: u32) -> u32 {
        self.values.get(word(offset)).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, offset: u32, value: u32) {
        if let Some(cell) = self.values.get_mut(word(offset)) {
            *cell = value;
        }
    }

    #[inline]
    pub(super) fn has(&self, offset: u32, bits: u32) -> bool {
        self.get(offset) & bits != 0
    }

    /// Bit `n` of a row of registers that begins at `first`.
    #[inline]
    pub(super) fn bit(&self, first: u32, n: u32) -> bool {
        self.has(first + n / 32 * 4, 1 << (n % 32))
    }

    /// A pair of registers as one number.
    #[inline]
    pub(super) fn pair(&self, first: u32) -> u64 {
        u64::from(self.get(first)) | u64::from(self.get(first + 4)) << 32
    }
}

/// Every register of `kind`: its name in the data sheet, where it is, how many there are. For the
/// comparison with a driver's table.
#[must_use]
pub fn map(kind: Kind, is_vf: bool) -> Vec<RegInfo> {
    let own = bit(kind, is_vf);
    let info = |name, offset, stride, count| RegInfo {
        name,
        offset,
        stride,
        count,
    };
    let mut all = Vec::new();
    for span in SPANS.iter().filter(|span| span.kinds & own != 0) {
        all.push(info(span.name, span.first, span.stride, span.count));
    }
    let (rx, tx) = if is_vf {
        (&[(0x1000, 8)][..], (0x2000, 8))
    } else {
        (&[(0x1000, 64), (0xd000, 64)][..], (0x6000, 128))
    };
    for &(receive, send, at) in RING {
        for &(base, count) in rx.iter().filter(|_| !receive.is_empty()) {
            all.push(info(receive, base + at, 0x40, count));
        }
        if !send.is_empty() {
            all.push(info(send, tx.0 + at, 0x40, tx.1));
        }
    }
    if !is_vf {
        let stats = super::stats::names();
        all.extend(stats.map(|(name, offset, count, stride)| info(name, offset, stride, count)));
    }
    all
}

#[cfg(test)]
mod test {
    use super::*;

    const KINDS: [(Kind, bool); 4] = [
        (Kind::I82599, false),
        (Kind::X540, false),
        (Kind::X550, false),
        (Kind::I82599, true),
    ];

    #[test]
    fn no_two_registers_of_a_device_overlap() {
        for (kind, is_vf) in KINDS {
            let mut taken = std::collections::HashMap::new();
            for register in map(kind, is_vf) {
                for n in 0..register.count {
                    let offset = register.offset + n * register.stride;
                    let before = taken.insert(offset, register.name);
                    assert_eq!(before, None, "{kind:?}: {} at {offset:#x}", register.name);
                }
            }
        }
    }
}
