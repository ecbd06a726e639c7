//! The statistics (82599 §8.2.3.23): cleared by being read, and full where they end.

/// Counters that the model keeps.
pub(super) mod counter {
    pub(in crate::ixgbe) const CRCERRS: u32 = 0x4000;
    pub(in crate::ixgbe) const MPC: u32 = 0x3fa0;
    pub(in crate::ixgbe) const PRC64: u32 = 0x405c;
    pub(in crate::ixgbe) const GPRC: u32 = 0x4074;
    pub(in crate::ixgbe) const BPRC: u32 = 0x4078;
    pub(in crate::ixgbe) const MPRC: u32 = 0x407c;
    pub(in crate::ixgbe) const GPTC: u32 = 0x4080;
    pub(in crate::ixgbe) const GORC: u32 = 0x4088;
    pub(in crate::ixgbe) const GOTC: u32 = 0x4090;
    pub(in crate::ixgbe) const ROC: u32 = 0x40ac;
    pub(in crate::ixgbe) const TOR: u32 = 0x40c0;
    pub(in crate::ixgbe) const TPR: u32 = 0x40d0;
    pub(in crate::ixgbe) const TPT: u32 = 0x40d4;
    pub(in crate::ixgbe) const PTC64: u32 = 0x40d8;
    pub(in crate::ixgbe) const MPTC: u32 = 0x40f0;
    pub(in crate::ixgbe) const BPTC: u32 = 0x40f4;
    pub(in crate::ixgbe) const SSVPC: u32 = 0x8780;
    pub(in crate::ixgbe) const RXDGPC: u32 = 0x2f50;
    pub(in crate::ixgbe) const RXDGBC: u32 = 0x2f54;
    pub(in crate::ixgbe) const TXDGPC: u32 = 0x87a0;
    pub(in crate::ixgbe) const TXDGBC: u32 = 0x87a4;
    pub(in crate::ixgbe) const QPRC: u32 = 0x1030;
    pub(in crate::ixgbe) const QBRC: u32 = 0x1034;
    pub(in crate::ixgbe) const QPRDC: u32 = 0x1430;
    pub(in crate::ixgbe) const QPTC: u32 = 0x8680;
    pub(in crate::ixgbe) const QBTC: u32 = 0x8700;
}

/// A row of counters: name, first, how many, bytes from one to the next.
type Row = (&'static str, u32, u32, u32);
/// The same with a name for each half.
type WideRow = (&'static str, &'static str, u32, u32, u32);

/// Counters of 32 bits.
const NARROW: &[Row] = &[
    ("CRCERRS", 0x4000, 1, 4),
    ("ILLERRC", 0x4004, 1, 4),
    ("ERRBC", 0x4008, 1, 4),
    ("MSPDC", 0x4010, 1, 4),
    ("MPC", 0x3fa0, 8, 4),
    ("RNBC", 0x3fc0, 8, 4),
    ("MLFC", 0x4034, 1, 4),
    ("MRFC", 0x4038, 1, 4),
    ("RLEC", 0x4040, 1, 4),
    ("LXONTXC", 0x3f60, 1, 4),
    ("LXONRXC", 0xcf60, 1, 4),
    ("LXOFFTXC", 0x3f68, 1, 4),
    ("LXOFFRXC", 0xcf68, 1, 4),
    ("LXONRXCNT", 0x41a4, 1, 4),
    ("LXOFFRXCNT", 0x41a8, 1, 4),
    ("PXONRXCNT", 0x4140, 8, 4),
    ("PXOFFRXCNT", 0x4160, 8, 4),
    ("PXON2OFFCNT", 0x3240, 8, 4),
    ("PXONTXC", 0x3f00, 8, 4),
    ("PXONRXC", 0xcf00, 8, 4),
    ("PXOFFTXC", 0x3f20, 8, 4),
    ("PXOFFRXC", 0xcf20, 8, 4),
    ("PRC64", 0x405c, 1, 4),
    ("PRC127", 0x4060, 1, 4),
    ("PRC255", 0x4064, 1, 4),
    ("PRC511", 0x4068, 1, 4),
    ("PRC1023", 0x406c, 1, 4),
    ("PRC1522", 0x4070, 1, 4),
    ("GPRC", 0x4074, 1, 4),
    ("BPRC", 0x4078, 1, 4),
    ("MPRC", 0x407c, 1, 4),
    ("GPTC", 0x4080, 1, 4),
    ("RUC", 0x40a4, 1, 4),
    ("RFC", 0x40a8, 1, 4),
    ("ROC", 0x40ac, 1, 4),
    ("RJC", 0x40b0, 1, 4),
    ("MNGPRC", 0x40b4, 1, 4),
    ("MNGPDC", 0x40b8, 1, 4),
    ("MNGPTC", 0xcf90, 1, 4),
    ("TPR", 0x40d0, 1, 4),
    ("TPT", 0x40d4, 1, 4),
    ("PTC64", 0x40d8, 1, 4),
    ("PTC127", 0x40dc, 1, 4),
    ("PTC255", 0x40e0, 1, 4),
    ("PTC511", 0x40e4, 1, 4),
    ("PTC1023", 0x40e8, 1, 4),
    ("PTC1522", 0x40ec, 1, 4),
    ("MPTC", 0x40f0, 1, 4),
    ("BPTC", 0x40f4, 1, 4),
    ("XEC", 0x4120, 1, 4),
    ("RXNFGPC", 0x41b0, 1, 4),
    ("B2OSPC", 0x41c0, 1, 4),
    ("O2BGPTC", 0x41c4, 1, 4),
    ("B2OGPRC", 0x2f90, 1, 4),
    ("O2BSPC", 0x87b0, 1, 4),
    ("SSVPC", 0x8780, 1, 4),
    ("FCOEPTC", 0x8784, 1, 4),
    ("FCOEDWTC", 0x8788, 1, 4),
    ("FCCRC", 0x5118, 1, 4),
    ("FCOERPDC", 0x241c, 1, 4),
    ("FCLAST", 0x2424, 1, 4),
    ("FCOEPRC", 0x2428, 1, 4),
    ("FCOEDWRC", 0x242c, 1, 4),
    ("RXDGPC", 0x2f50, 1, 4),
    ("RXDDGPC", 0x2f5c, 1, 4),
    ("RXLPBKGPC", 0x2f68, 1, 4),
    ("RXDLPBKGPC", 0x2f74, 1, 4),
    ("TXDGPC", 0x87a0, 1, 4),
    ("FDIRUSTAT", 0xee50, 1, 4),
    ("FDIRFSTAT", 0xee54, 1, 4),
    ("FDIRMATCH", 0xee58, 1, 4),
    ("FDIRMISS", 0xee5c, 1, 4),
    ("QPRC", 0x1030, 16, 0x40),
    ("QPRDC", 0x1430, 16, 0x40),
    ("QPTC", 0x8680, 16, 4),
];

/// Counters of 36 bits: the lower half; the upper one comes right behind, and reading that one
/// clears both.
const WIDE: &[WideRow] = &[
    ("GORCL", "GORCH", 0x4088, 1, 8),
    ("GOTCL", "GOTCH", 0x4090, 1, 8),
    ("TORL", "TORH", 0x40c0, 1, 8),
    ("RXNFGBCL", "RXNFGBCH", 0x41b4, 1, 8),
    ("RXDGBCL", "RXDGBCH", 0x2f54, 1, 8),
    ("RXDDGBCL", "RXDDGBCH", 0x2f60, 1, 8),
    ("RXLPBKGBCL", "RXLPBKGBCH", 0x2f6c, 1, 8),
    ("RXDLPBKGBCL", "RXDLPBKGBCH", 0x2f78, 1, 8),
    ("TXDGBCL", "TXDGBCH", 0x87a4, 1, 8),
    ("QBRCL", "QBRCH", 0x1034, 16, 0x40),
    ("QBTCL", "QBTCH", 0x8700, 16, 8),
];
const WIDEST: u64 = (1 << 36) - 1;
/// The packets that a queue has sent are at an older place too, sixteen times 40h apart.
const QPTC_OLD: u32 = 0x6030;

/// What is at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    None,
    Narrow,
    Low,
    High,
}

const LAST: u32 = 0xee60;

/// What a device has counted since its registers were last read.
pub(super) struct Stats {
    shapes: Box<[Shape]>,
    /// A counter at the place of its register; the wide ones at that of their lower half.
    counts: Box<[u64]>,
    /// The wide counter whose lower half was read last.
    low_read: Option<u32>,
}

/// Names and places: name, first, how many, bytes from one to the next.
pub(super) fn names() -> impl Iterator<Item = Row> {
    let wide = WIDE.iter().flat_map(|&(low, high, at, count, stride)| {
        [(low, at, count, stride), (high, at + 4, count, stride)]
    });
    NARROW.iter().copied().chain(wide)
}

fn index(offset: u32) -> Option<usize> {
    (offset <= LAST).then_some(offset as usize / 4)
}

fn place(offset: u32) -> u32 {
    let old = offset.wrapping_sub(QPTC_OLD);
    if old < 16 * 0x40 && old.is_multiple_of(0x40) {
        counter::QPTC + old / 0x10
    } else {
        offset
    }
}

impl Stats {
    pub(super) fn new() -> Self {
        let words = LAST as usize / 4 + 1;
        let mut shapes = vec![Shape::None; words].into_boxed_slice();
        let mut mark = |first: u32, count: u32, stride: u32, shape| {
            for n in 0..count {
                let at = index(first + n * stride).expect("in the table");
                shapes[at] = shape;
            }
        };
        for &(_, first, count, stride) in NARROW {
            mark(first, count, stride, Shape::Narrow);
        }
        for &(_, _, first, count, stride) in WIDE {
            mark(first, count, stride, Shape::Low);
            mark(first + 4, count, stride, Shape::High);
        }
        Self {
            shapes,
            counts: vec![0; words].into_boxed_slice(),
            low_read: None,
        }
    }

    fn shape(&self, offset: u32) -> Shape {
        let shape = index(place(offset)).and_then(|at| self.shapes.get(at));
        shape.copied().unwrap_or(Shape::None)
    }

    /// True if there is a statistics register at `offset`.
    pub(super) fn covers(&self, offset: u32) -> bool {
        self.shape(offset) != Shape::None
    }

    /// Counts one.
    #[inline]
    pub(super) fn count(&mut self, offset: u32) {
        self.add(offset, 1);
    }

    #[inline]
    pub(super) fn add(&mut self, offset: u32, more: u64) {
        let Some(at) = index(offset) else { return };
        let most = if self.shapes[at] == Shape::Low {
            WIDEST
        } else {
            u64::from(u32::MAX)
        };
        self.counts[at] = (self.counts[at] + more).min(most);
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
    /// clears both; a low half that is lost that way is the error.
    pub(super) fn read(&mut self, offset: u32) -> Result<u32, String> {
        let offset = place(offset);
        let low = |value: u64| super::bits::low(value);
        match self.shape(offset) {
            Shape::None => Ok(0),
            Shape::Narrow => Ok(low(self.take(offset))),
            Shape::Low => {
                self.low_read = Some(offset);
                Ok(low(index(offset).map_or(0, |at| self.counts[at])))
            }
            Shape::High => {
                let known = self.low_read.take() == Some(offset - 4);
                let count = self.take(offset - 4);
                if low(count) != 0 && !known {
                    return Err(format!(
                        "statistics register {offset:#x} read before its lower half, which is lost"
                    ));
                }
                Ok(low(count >> 32))
            }
        }
    }

    fn take(&mut self, offset: u32) -> u64 {
        index(offset).map_or(0, |at| std::mem::take(&mut self.counts[at]))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn counters_are_cleared_by_being_read_and_stay_full() {
        let mut stats = Stats::new();
        stats.add(counter::GPRC, u64::from(u32::MAX) - 1);
        stats.add(counter::GPRC, 5);
        assert_eq!(stats.read(counter::GPRC), Ok(u32::MAX));
        assert_eq!(stats.read(counter::GPRC), Ok(0));
        stats.add(counter::GORC, (1 << 36) - 2);
        stats.add(counter::GORC, 100);
        assert_eq!(stats.read(counter::GORC), Ok(u32::MAX));
        assert_eq!(stats.read(counter::GORC), Ok(u32::MAX), "not yet cleared");
        assert_eq!(stats.read(counter::GORC + 4), Ok(0xf));
        assert_eq!(stats.read(counter::GORC), Ok(0));
        stats.add(counter::GOTC, 7);
        assert!(stats.read(counter::GOTC + 4).is_err());
    }

    #[test]
    fn packets_that_a_queue_sent_are_one_counter_at_two_places() {
        let mut stats = Stats::new();
        stats.add(counter::QPTC + 4 * 15, 3);
        assert!(stats.covers(0x6030 + 0x40 * 15));
        assert_eq!(stats.read(0x6030 + 0x40 * 15), Ok(3));
        assert_eq!(stats.read(counter::QPTC + 4 * 15), Ok(0));
        assert!(!stats.covers(0x6034));
    }
}
