//! The statistics (82540 §13.7, 82574 §10.2.7): cleared by being read, and full where they end.

use super::options::Kind;

const FIRST: u32 = 0x4000;
const LAST: u32 = 0x4138;
const WORDS: usize = 79;

/// Counters that the model keeps.
pub(super) mod counter {
    pub(in crate::e1000) const CRCERRS: u32 = 0x4000;
    pub(in crate::e1000) const MPC: u32 = 0x4010;
    pub(in crate::e1000) const PRC64: u32 = 0x405c;
    pub(in crate::e1000) const GPRC: u32 = 0x4074;
    pub(in crate::e1000) const BPRC: u32 = 0x4078;
    pub(in crate::e1000) const MPRC: u32 = 0x407c;
    pub(in crate::e1000) const GPTC: u32 = 0x4080;
    pub(in crate::e1000) const GORC: u32 = 0x4088;
    pub(in crate::e1000) const GOTC: u32 = 0x4090;
    pub(in crate::e1000) const RNBC: u32 = 0x40a0;
    pub(in crate::e1000) const ROC: u32 = 0x40ac;
    pub(in crate::e1000) const TOR: u32 = 0x40c0;
    pub(in crate::e1000) const TOT: u32 = 0x40c8;
    pub(in crate::e1000) const TPR: u32 = 0x40d0;
    pub(in crate::e1000) const TPT: u32 = 0x40d4;
    pub(in crate::e1000) const PTC64: u32 = 0x40d8;
    pub(in crate::e1000) const MPTC: u32 = 0x40f0;
    pub(in crate::e1000) const BPTC: u32 = 0x40f4;
}

/// Every statistics register that has 32 bits.
const NAMES: &[(&str, u32)] = &[
    ("CRCERRS", 0x4000),
    ("ALGNERRC", 0x4004),
    ("SYMERRS", 0x4008),
    ("RXERRC", 0x400c),
    ("MPC", 0x4010),
    ("SCC", 0x4014),
    ("ECOL", 0x4018),
    ("MCC", 0x401c),
    ("LATECOL", 0x4020),
    ("COLC", 0x4028),
    ("CBTMPC", 0x402c),
    ("DC", 0x4030),
    ("TNCRS", 0x4034),
    ("SEC", 0x4038),
    ("CEXTERR", 0x403c),
    ("RLEC", 0x4040),
    ("XONRXC", 0x4048),
    ("XONTXC", 0x404c),
    ("XOFFRXC", 0x4050),
    ("XOFFTXC", 0x4054),
    ("FCRUC", 0x4058),
    ("PRC64", 0x405c),
    ("PRC127", 0x4060),
    ("PRC255", 0x4064),
    ("PRC511", 0x4068),
    ("PRC1023", 0x406c),
    ("PRC1522", 0x4070),
    ("GPRC", 0x4074),
    ("BPRC", 0x4078),
    ("MPRC", 0x407c),
    ("GPTC", 0x4080),
    ("GORCL", 0x4088),
    ("GORCH", 0x408c),
    ("GOTCL", 0x4090),
    ("GOTCH", 0x4094),
    ("RNBC", 0x40a0),
    ("RUC", 0x40a4),
    ("RFC", 0x40a8),
    ("ROC", 0x40ac),
    ("RJC", 0x40b0),
    ("MGTPRC", 0x40b4),
    ("MGTPDC", 0x40b8),
    ("MGTPTC", 0x40bc),
    ("TORL", 0x40c0),
    ("TORH", 0x40c4),
    ("TOTL", 0x40c8),
    ("TOTH", 0x40cc),
    ("TPR", 0x40d0),
    ("TPT", 0x40d4),
    ("PTC64", 0x40d8),
    ("PTC127", 0x40dc),
    ("PTC255", 0x40e0),
    ("PTC511", 0x40e4),
    ("PTC1023", 0x40e8),
    ("PTC1522", 0x40ec),
    ("MPTC", 0x40f0),
    ("BPTC", 0x40f4),
    ("TSCTC", 0x40f8),
    ("TSCTFC", 0x40fc),
    ("IAC", 0x4100),
    ("ICRXPTC", 0x4104),
    ("ICRXATC", 0x4108),
    ("ICTXPTC", 0x410c),
    ("ICTXATC", 0x4110),
    ("ICTXQEC", 0x4118),
    ("ICTXQMTC", 0x411c),
    ("ICRXDMTC", 0x4120),
    ("ICRXOC", 0x4124),
    ("HGORCL", 0x4128),
    ("HGORCH", 0x412c),
    ("HGOTCL", 0x4130),
    ("HGOTCH", 0x4134),
    ("LENERRS", 0x4138),
];

/// Lower halves of counters of 64 bits; the upper half comes right behind, and reading that one
/// clears both.
const WIDE: [u32; 6] = [0x4088, 0x4090, 0x40c0, 0x40c8, 0x4128, 0x4130];

/// Names and places.
pub(super) fn names() -> impl Iterator<Item = (&'static str, u32)> {
    NAMES.iter().copied()
}

/// What a device has counted since its registers were last read.
pub(super) struct Stats {
    /// A counter at the place of its register; the wide ones at that of their lower half.
    counts: [u64; WORDS],
    /// The wide counter whose lower half was read last.
    low_read: Option<u32>,
}

fn index(offset: u32) -> Option<usize> {
    let at = offset.checked_sub(FIRST).filter(|_| offset <= LAST)?;
    usize::try_from(at / 4).ok()
}

/// Low 32 bits.
pub(super) fn low(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

impl Stats {
    pub(super) fn new() -> Self {
        Self {
            counts: [0; WORDS],
            low_read: None,
        }
    }

    /// True if there is a statistics register at `offset`.
    pub(super) fn covers(kind: Kind, offset: u32) -> bool {
        let known = NAMES.iter().any(|&(_, at)| at == offset);
        known && kind != Kind::IgbVf && (kind == Kind::Igb || offset <= 0x4124)
    }

    /// Counts one.
    #[inline]
    pub(super) fn count(&mut self, offset: u32) {
        self.add(offset, 1);
    }

    #[inline]
    pub(super) fn add(&mut self, offset: u32, more: u64) {
        if let Some(count) = index(offset).and_then(|at| self.counts.get_mut(at)) {
            *count = count.saturating_add(more);
        }
    }

    /// Counts a frame of `bytes` with FCS in the six classes of size that begin at `first`.
    #[inline]
    pub(super) fn count_size(&mut self, first: u32, bytes: u64) {
        let class = match bytes {
            0..64 => return,
            64 => 0,
            65..128 => 1,
            128..256 => 2,
            256..512 => 3,
            512..1024 => 4,
            _ => 5,
        };
        self.count(first + 4 * class);
    }

    /// Reads a register, and clears it. A wide counter is read low half first, as the high half
    /// clears both; a low half that is lost that way is the error, but for all octets (`TOR`,
    /// `TOT`), of which Linux's `igb` reads the upper halves alone.
    pub(super) fn read(&mut self, offset: u32) -> Result<u32, String> {
        let high = WIDE.iter().any(|&low| low + 4 == offset);
        let low_half = if high { offset - 4 } else { offset };
        let Some(count) = index(low_half).and_then(|at| self.counts.get_mut(at)) else {
            return Ok(0);
        };
        if high {
            let counts_all = matches!(low_half, counter::TOR | counter::TOT);
            let lost = low(*count) != 0 && self.low_read != Some(low_half) && !counts_all;
            let value = low(std::mem::take(count) >> 32);
            self.low_read = None;
            return if lost {
                Err(format!(
                    "statistics register {offset:#x} read before its lower half, which is lost"
                ))
            } else {
                Ok(value)
            };
        }
        if WIDE.contains(&offset) {
            self.low_read = Some(offset);
            return Ok(low(*count));
        }
        Ok(u32::try_from(std::mem::take(count)).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_counter_is_cleared_by_being_read_and_does_not_wrap() {
        let mut stats = Stats::new();
        stats.count(counter::GPRC);
        stats.add(counter::MPC, u64::from(u32::MAX));
        stats.count(counter::MPC);
        assert_eq!(stats.read(counter::GPRC), Ok(1));
        assert_eq!(stats.read(counter::GPRC), Ok(0));
        assert_eq!(stats.read(counter::MPC), Ok(u32::MAX));
    }

    #[test]
    fn the_upper_half_of_a_wide_counter_clears_both() {
        let mut stats = Stats::new();
        stats.add(counter::GORC, 0x1_0000_0002);
        assert_eq!(stats.read(counter::GORC), Ok(2));
        assert_eq!(stats.read(counter::GORC), Ok(2));
        assert_eq!(stats.read(counter::GORC + 4), Ok(1));
        assert_eq!(stats.read(counter::GORC), Ok(0));
    }

    #[test]
    fn a_lower_half_that_nobody_read_is_lost_and_said_to_be() {
        let mut stats = Stats::new();
        stats.add(counter::GORC, 64);
        assert!(stats.read(counter::GORC + 4).is_err());
        stats.add(counter::TOR, 64);
        assert_eq!(
            stats.read(counter::TOR + 4),
            Ok(0),
            "igb reads no lower half"
        );
    }

    #[test]
    fn sizes_fall_into_the_classes_of_the_data_sheet() {
        let mut stats = Stats::new();
        for bytes in [64, 65, 127, 128, 255, 256, 511, 512, 1023, 1024, 9000] {
            stats.count_size(counter::PRC64, bytes);
        }
        let classes = [1, 2, 2, 2, 2, 2];
        for (n, expected) in (0..).zip(classes) {
            assert_eq!(stats.read(counter::PRC64 + 4 * n), Ok(expected));
        }
    }
}
