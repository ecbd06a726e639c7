//! The registers by name: which device has them, what they hold after a reset, what may be
//! written.
//!
//! Most are only kept: a driver writes them and reads them back, and nothing hangs on them here.
//! Those with behaviour of their own are in the list too, so that a driver's table can be compared
//! with it ([`map`]).

use hw::mmio::RegInfo;

use super::options::Kind;

/// Devices, as bits.
const E: u8 = 1;
const N: u8 = 2;
const I: u8 = 4;
const V: u8 = 8;
const ALL: u32 = u32::MAX;

/// A register, or a row of them four bytes apart.
pub(super) struct Span {
    pub(super) name: &'static str,
    pub(super) first: u32,
    pub(super) count: u32,
    kinds: u8,
    /// After a reset.
    reset: u32,
    /// Bits that may be written; others are reserved, and must be left alone.
    pub(super) writable: u32,
}

const fn span(
    name: &'static str,
    first: u32,
    count: u32,
    kinds: u8,
    reset: u32,
    writable: u32,
) -> Span {
    Span {
        name,
        first,
        count,
        kinds,
        reset,
        writable,
    }
}

const SPANS: &[Span] = &[
    span("CTRL", 0x0, 1, E | N | I | V, 0, ALL),
    span("CTRL_DUP", 0x4, 1, E | N | I | V, 0, ALL),
    span("STATUS", 0x8, 1, E | N | I | V, 0, 0),
    span("EECD", 0x10, 1, E | N | I, 0, ALL),
    span("EERD", 0x14, 1, E | N | I, 0, ALL),
    span("CTRL_EXT", 0x18, 1, E | N | I, 0, !(1 << 26)),
    span("FLA", 0x1c, 1, E | N | I, 0, ALL),
    span("MDIC", 0x20, 1, E | N | I, 0, ALL),
    span("SCTL", 0x24, 1, I, 0, ALL),
    span("FCAL", 0x28, 1, E | N | I, 0, ALL),
    span("FCAH", 0x2c, 1, E | N | I, 0, 0xffff),
    span("FCT", 0x30, 1, E | N | I, 0, 0xffff),
    span("CONNSW", 0x34, 1, I, 0, ALL),
    span("VET", 0x38, 1, E, 0x8100, 0xffff),
    // 8100 in the data sheets, 0 on QEMU's devices: a driver that writes it is right on both.
    // The 82576 has an outer one above.
    span("VET", 0x38, 1, N, 0, 0xffff),
    span("VET", 0x38, 1, I, 0, ALL),
    span("ICR", 0xc0, 1, E | N | I, 0, ALL),
    span("ITR", 0xc4, 1, E | N | I | V, 0, 0xffff),
    span("ICS", 0xc8, 1, E | N | I, 0, ALL),
    span("IMS", 0xd0, 1, E | N | I, 0, ALL),
    span("IMC", 0xd8, 1, E | N | I, 0, ALL),
    span("EIAC_82574", 0xdc, 1, N, 0, 0x01f0_0000),
    span("IAM", 0xe0, 1, N | I, 0, ALL),
    span("IVAR_82574", 0xe4, 1, N, 0, 0x800f_ffff),
    span("EITR_82574", 0xe8, 5, N, 0, 0xffff),
    span("RCTL", 0x100, 1, E | N | I, 0, ALL),
    span("FCTTV", 0x170, 1, E | N | I, 0, ALL),
    span("TXCW", 0x178, 1, E | I, 0, ALL),
    // Not in the 82574's data sheet, as it has no fibre; but Linux's e1000e tests it there too.
    span("TXCW", 0x178, 1, N, 0, 0xc000_ffff),
    span("TCTL", 0x400, 1, E | N | I, 0, ALL),
    span("TCTL_EXT", 0x404, 1, N | I, 0x10840, ALL),
    span("TIPG", 0x410, 1, E | N | I, 0x0060_2006, 0x3fff_ffff),
    span("AIT", 0x458, 1, E | N | I, 0, 0xffff),
    span("LEDCTL", 0xe00, 1, E | N | I, 0x0706_8302, ALL),
    span("MDICNFG", 0xe04, 1, I, 0, ALL),
    span("PHPM", 0xe14, 1, I, 0, ALL),
    span("IPCNFG", 0xe38, 1, I, 0, ALL),
    span("EXTCNF_CTRL", 0xf00, 1, N, 0x8, ALL),
    span("EXTCNF_SIZE", 0xf08, 1, N, 0, ALL),
    span("PHY_CTRL", 0xf10, 1, N, 0, ALL),
    span("PBA", 0x1000, 1, E | N, 0x0014_0014, 0xffff_ffff),
    span("PBS", 0x1008, 1, N, 0x28, 0x3f),
    span("EEMNGCTL", 0x1010, 1, N | I, 0x8004_0000, ALL),
    span("PBECCSTS", 0x100c, 1, N, 0, ALL),
    span("PBA_ECC", 0x1100, 1, N, 0, ALL),
    span("I2CCMD", 0x1028, 1, I, 0x4000_0000, ALL),
    span("FRTIMER", 0x1048, 1, I | V, 0, 0),
    span("TCPTIMER", 0x104c, 1, I, 0, 0x1_ffff),
    span("EICS", 0x1520, 1, I | V, 0, ALL),
    span("EIMS", 0x1524, 1, I | V, 0, ALL),
    span("EIMC", 0x1528, 1, I | V, 0, ALL),
    span("EIAC", 0x152c, 1, I | V, 0, ALL),
    span("EIAM", 0x1530, 1, I | V, 0, ALL),
    span("EICR", 0x1580, 1, I | V, 0, ALL),
    span("GPIE", 0x1514, 1, I, 0, 0xc000_0ff1),
    span("EITR", 0x1680, 25, I, 0, 0xffff_fffe),
    span("VTEITR", 0x1680, 3, V, 0, 0xffff_fffe),
    span("IVAR0", 0x1700, 8, I, 0, 0x9f9f_9f9f),
    span("VTIVAR", 0x1700, 1, V, 0, 0x8383_8383),
    span("IVAR_MISC", 0x1740, 1, I, 0, 0x9f9f),
    span("VTIVAR_MISC", 0x1740, 1, V, 0, 0x83),
    span("FCRTL", 0x2160, 1, E | N | I, 0, 0x8000_fff8),
    span("FCRTH", 0x2168, 1, E | N | I, 0, 0x8000_fff8),
    span("PSRCTL", 0x2170, 1, N, 0x0004_0402, ALL),
    span("FCRTV", 0x2460, 1, I, 0, 0xffff),
    span("RXPBS", 0x2404, 1, I, 0x40, 0x7f),
    span("QDE", 0x2408, 1, I, 0, 0xffff),
    span("DMACR", 0x2508, 1, I, 0, ALL),
    span("RDTR", 0x2820, 1, E | N, 0, 0x8000_ffff),
    span("RADV", 0x282c, 1, E | N, 0, 0xffff),
    span("RDTR1", 0x2920, 1, N, 0, 0x8000_ffff),
    span("RSRPD", 0x2c00, 1, E | N, 0, 0xfff),
    span("RAID", 0x2c08, 1, N, 0, 0xffff),
    span("TXPBS", 0x3404, 1, I, 0x28, 0x3f),
    span("DTXSWC", 0x3500, 1, I, 0, 0x80ff_ffff),
    span("WVBR", 0x3554, 1, I, 0, ALL),
    span("DTXCTL", 0x3590, 1, I, 0x44, 0x7f),
    span("VMVIR", 0x3700, 8, I, 0, 0xc000_ffff),
    span("TIDV", 0x3820, 1, E | N, 0, 0x8000_ffff),
    span("TADV", 0x382c, 1, E | N, 0, 0xffff),
    span("TARC0", 0x3840, 1, N, 0x0000_0403, ALL),
    span("TIDV1", 0x3920, 1, N, 0, 0x8000_ffff),
    span("TARC1", 0x3940, 1, N, 0x0000_0403, ALL),
    span("PCS_CFG0", 0x4200, 1, I, 0, ALL),
    span("PCS_LCTL", 0x4208, 1, I, 0, ALL),
    span("PCS_LSTAT", 0x420c, 1, I, 0, 0),
    span("PCS_ANADV", 0x4218, 1, I, 0, ALL),
    span("PCS_LPAB", 0x421c, 1, I, 0, 0),
    span("RXCSUM", 0x5000, 1, E, 0, 0x7ff),
    span("RXCSUM", 0x5000, 1, N | I, 0x300, 0x3fff),
    span("RLPML", 0x5004, 1, I, 0x2600, 0x3fff),
    span("RFCTL", 0x5008, 1, N | I, 0, ALL),
    span("MTA", 0x5200, 128, E | N | I, 0, ALL),
    span("RA", 0x5400, 32, E | N | I, 0, ALL),
    span("PSRTYPE", 0x5480, 8, I, 0, 0x3fff_ffff),
    span("RA_MORE", 0x54e0, 16, I, 0, ALL),
    span("VFTA", 0x5600, 128, E | N | I, 0, ALL),
    span("WUC", 0x5800, 1, E | N | I, 0, ALL),
    span("WUFC", 0x5808, 1, E | N | I, 0, ALL),
    span("WUS", 0x5810, 1, E | N | I, 0, ALL),
    span("MRQC", 0x5818, 1, N, 0, 0x003f_0003),
    span("MRQC", 0x5818, 1, I, 0, 0x01ff_003f),
    span("VT_CTL", 0x581c, 1, I, 0, 0x7000_0380),
    span("MANC", 0x5820, 1, E | N | I, 0, ALL),
    span("IPAV", 0x5838, 1, E | N | I, 0, ALL),
    span("IP4AT", 0x5840, 8, E | N | I, 0, ALL),
    span("MDEF", 0x5890, 8, N | I, 0, ALL),
    span("MANC2H", 0x5860, 1, N | I, 0, ALL),
    span("IP6AT", 0x5880, 4, E | N | I, 0, ALL),
    span("SYNQF", 0x55fc, 1, I, 0, 0xf),
    span("SAQF", 0x5980, 8, I, 0, ALL),
    span("DAQF", 0x59a0, 8, I, 0, ALL),
    span("SPQF", 0x59c0, 8, I, 0, ALL),
    span("FTQF", 0x59e0, 8, I, 0, ALL),
    span("IMIR", 0x5a80, 8, I, 0, ALL),
    span("IMIREXT", 0x5aa0, 8, I, 0, ALL),
    span("IMIRVP", 0x5ac0, 1, I, 0, ALL),
    span("VMOLR", 0x5ad0, 8, I, 0x8000_2600, ALL),
    span("RPLOLR", 0x5af0, 1, I, 0x8000_0000, 0xc000_0000),
    span("GCR", 0x5b00, 1, N | I, 0, ALL),
    span("FACTPS", 0x5b30, 1, N | I, 0, 0),
    span("GIOCTL", 0x5b44, 1, I, 0x8000_0000, ALL),
    span("CCMCTL", 0x5b48, 1, I, 0x8000_0000, ALL),
    span("SCCTL", 0x5b4c, 1, I, 0x8000_0000, ALL),
    span("SWSM", 0x5b50, 1, E | N | I, 0, 0xf),
    span("FWSM", 0x5b54, 1, N | I, 0, ALL),
    span("SW_FW_SYNC", 0x5b5c, 1, N | I, 0, ALL),
    span("GCR2", 0x5b64, 1, N, 0, ALL),
    span("DCA_CTRL", 0x5b74, 1, I, 1, 0x1f),
    span("PCIEMISC", 0x5bb8, 1, I, 0, ALL),
    span("IOVTCL", 0x5bbc, 1, I, 0, 1),
    span("RETA", 0x5c00, 32, N, 0, 0x8080_8080),
    span("RETA", 0x5c00, 32, I, 0, 0x0f0f_0f0f),
    span("RSSRK", 0x5c80, 10, N | I, 0, ALL),
    span("ETQF", 0x5cb0, 8, I, 0, ALL),
    span("VLVF", 0x5d00, 32, I, 0, 0x801f_ffff),
    span("UTA", 0xa000, 128, I, 0, ALL),
    span("TSYNCTXCTL", 0xb614, 1, N | I, 0, 0x10),
    span("RXMTRL", 0xb634, 1, N, 0, ALL),
    span("RXUDP", 0xb638, 1, N, 0, ALL),
    span("TSYNCRXCTL", 0xb620, 1, N | I, 0, 0x1f),
    span("SYSTIML", 0xb600, 1, N | I, 0, ALL),
    span("SYSTIMH", 0xb604, 1, N | I, 0, ALL),
    span("TIMINCA", 0xb608, 1, N | I, 0, ALL),
    span("RXSTMPL", 0xb624, 1, N | I, 0, 0),
    span("RXSTMPH", 0xb628, 1, N | I, 0, 0),
    span("TXSTMPL", 0xb618, 1, N | I, 0, 0),
    span("TXSTMPH", 0xb61c, 1, N | I, 0, 0),
    span("TSICR", 0xb66c, 1, I, 0, ALL),
    span("CRC_OFFSET", 0x5f50, 1, I, 0, ALL),
    span("VMBMEM", 0x800, 128, I, 0, ALL),
    span("VMBMEM", 0x800, 16, V, 0, ALL),
    span("P2VMAILBOX", 0xc00, 8, I, 0, 0x1f),
    span("V2PMAILBOX", 0xc40, 8, I, 0, 0),
    span("V2PMAILBOX", 0xc40, 1, V, 0, 0xf),
    span("MBVFICR", 0xc80, 1, I, 0, 0x00ff_00ff),
    span("MBVFIMR", 0xc84, 1, I, 0xff, 0xff),
    span("VFLRE", 0xc88, 1, I, 0, 0xff),
    span("VFRE", 0xc8c, 1, I, 0xff, 0xff),
    span("VFTE", 0xc90, 1, I, 0xff, 0xff),
    span("PBACL", 0xf04, 1, V, 0, 0x7),
    span("VFPSRTYPE", 0xf0c, 1, V, 0, 0x3fff_ffff),
    span("VFGPRC", 0xf10, 1, V, 0, 0),
    span("VFGPTC", 0xf14, 1, V, 0, 0),
    span("VFGORC", 0xf18, 1, V, 0, 0),
    span("VFGOTC", 0xf34, 1, V, 0, 0),
    span("VFMPRC", 0xf3c, 1, V, 0, 0),
    span("VFGPRLBC", 0xf40, 1, V, 0, 0),
    span("VFGPTLBC", 0xf44, 1, V, 0, 0),
    span("VFGORLBC", 0xf48, 1, V, 0, 0),
    span("VFGOTLBC", 0xf50, 1, V, 0, 0),
];

/// Queue registers, from a queue's base on; those of the advanced devices last.
const RING: &[(&str, &str, u32, u8)] = &[
    ("RDBAL", "TDBAL", 0x00, E | N | I | V),
    ("RDBAH", "TDBAH", 0x04, E | N | I | V),
    ("RDLEN", "TDLEN", 0x08, E | N | I | V),
    ("RDH", "TDH", 0x10, E | N | I | V),
    ("RDT", "TDT", 0x18, E | N | I | V),
    ("RXDCTL", "TXDCTL", 0x28, E | N | I | V),
    ("SRRCTL", "", 0x0c, I | V),
    ("RXCTL", "TXCTL", 0x14, I | V),
    ("RQDPC", "", 0x30, I | V),
    ("", "TDWBAL", 0x38, I | V),
    ("", "TDWBAH", 0x3c, I | V),
];

fn bit(kind: Kind) -> u8 {
    match kind {
        Kind::E1000 => E,
        Kind::E1000e => N,
        Kind::Igb => I,
        Kind::IgbVf => V,
    }
}

/// Words of the register window.
const WORDS: usize = 0x2_0000 / 4;

/// What the registers hold that are only kept.
pub(super) struct Registers {
    kind: Kind,
    values: Box<[u32]>,
    /// Which span a word belongs to, counted from 1; 0: none.
    spans: Box<[u8]>,
}

fn word(offset: u32) -> usize {
    usize::try_from(offset / 4).unwrap_or(WORDS)
}

impl Registers {
    pub(super) fn new(kind: Kind) -> Self {
        let mut spans = vec![0; WORDS].into_boxed_slice();
        for (n, span) in (1..).zip(SPANS) {
            if span.kinds & bit(kind) != 0 {
                spans[word(span.first)..][..word(span.count * 4)].fill(n);
            }
        }
        let mut registers = Self {
            kind,
            values: vec![0; WORDS].into_boxed_slice(),
            spans,
        };
        registers.reset();
        registers
    }

    /// Everything as after a reset.
    pub(super) fn reset(&mut self) {
        self.values.fill(0);
        for span in SPANS {
            if span.kinds & bit(self.kind) != 0 {
                self.values[word(span.first)..][..word(span.count * 4)].fill(span.reset);
            }
        }
    }

    /// The span that the register at `offset` is in, if this device has it.
    pub(super) fn span(&self, offset: u32) -> Option<&'static Span> {
        let number = *self.spans.get(word(offset))?;
        SPANS.get(usize::from(number.checked_sub(1)?))
    }

    pub(super) fn get(&self, offset: u32) -> u32 {
        self.values.get(word(offset)).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, offset: u32, value: u32) {
        if let Some(cell) = self.values.get_mut(word(offset)) {
            *cell = value;
        }
    }

    pub(super) fn has(&self, offset: u32, bits: u32) -> bool {
        self.get(offset) & bits != 0
    }
}

/// Every register of `kind`: its name in the data sheet, where it is, how many there are. For the
/// comparison with a driver's table.
#[must_use]
pub fn map(kind: Kind) -> Vec<RegInfo> {
    let own = bit(kind);
    let info = |name, offset, stride, count| RegInfo {
        name,
        offset,
        stride,
        count,
    };
    let mut all = Vec::new();
    for span in SPANS.iter().filter(|span| span.kinds & own != 0) {
        all.push(info(span.name, span.first, 4, span.count));
    }
    let (rx, tx, stride, count) = match kind {
        Kind::Igb => (0xc000, 0xe000, 0x40, 16),
        Kind::E1000 => (0x2800, 0x3800, 0x100, 1),
        Kind::E1000e | Kind::IgbVf => (0x2800, 0x3800, 0x100, 2),
    };
    for &(receive, send, at, _) in RING.iter().filter(|ring| ring.3 & own != 0) {
        for (name, base) in [(receive, rx), (send, tx)] {
            if !name.is_empty() {
                all.push(info(name, base + at, stride, count));
            }
        }
    }
    if kind != Kind::IgbVf {
        all.extend(super::stats::names().map(|(name, offset)| info(name, offset, 4, 1)));
    }
    all
}

#[cfg(test)]
mod test {
    use super::*;

    const KINDS: [Kind; 4] = [Kind::E1000, Kind::E1000e, Kind::Igb, Kind::IgbVf];

    #[test]
    fn no_two_registers_of_a_device_overlap() {
        for kind in KINDS {
            let mut taken = std::collections::HashMap::new();
            for register in map(kind) {
                for n in 0..register.count {
                    let offset = register.offset + n * register.stride;
                    let before = taken.insert(offset, register.name);
                    assert_eq!(before, None, "{kind:?}: {} at {offset:#x}", register.name);
                }
            }
        }
    }

    #[test]
    fn what_a_register_holds_after_a_reset_may_be_written_back() {
        for kind in KINDS {
            for span in SPANS.iter().filter(|span| span.kinds & bit(kind) != 0) {
                let odd = span.reset & !span.writable;
                assert!(odd == 0 || span.writable == 0, "{}: {odd:#x}", span.name);
            }
        }
    }
}
