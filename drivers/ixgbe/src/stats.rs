//! What the device counts, added up over resets and registers that clear themselves or wrap.

use hw::Bar;
use intel::{Counted, Row};
use port::{Counters, Extended};

/// Bytes of the FCS.
const FCS: u64 = 4;
/// Counters for queues that a physical function has.
const QUEUES: u32 = 16;

/// What a counter is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    TxFrames,
    TxBytes,
    RxFrames,
    RxBytes,
    RxMissed,
    RxErrors,
    Nothing,
}

/// A row of a table: name, offset, wide, part.
type Line = (&'static str, u32, bool, Part);

/// Counters of a physical function (82599 datasheet §8.2.3.23), cleared by reading.
///
/// Frames received are those that reached a queue (QPRC, QBRC): GPRC and GORC also count frames
/// that then found no buffer (DPDK, `ixgbe_read_stats_registers`). ROC, RUC, RFC and RJC are
/// frames too long or too short, with a good FCS and with a bad one; CRCERRS those of a right
/// length with a bad one.
const PF: &[Line] = &[
    ("CRCERRS", 0x4000, false, Part::RxErrors),
    ("ILLERRC", 0x4004, false, Part::Nothing),
    ("ERRBC", 0x4008, false, Part::Nothing),
    ("MSPDC", 0x4010, false, Part::Nothing),
    ("MLFC", 0x4034, false, Part::Nothing),
    ("MRFC", 0x4038, false, Part::Nothing),
    ("RLEC", 0x4040, false, Part::RxErrors),
    ("LXONTXC", 0x3f60, false, Part::Nothing),
    ("LXOFFTXC", 0x3f68, false, Part::Nothing),
    ("LXONRXCNT", 0x41a4, false, Part::Nothing),
    ("LXOFFRXCNT", 0x41a8, false, Part::Nothing),
    ("PRC64", 0x405c, false, Part::Nothing),
    ("PRC127", 0x4060, false, Part::Nothing),
    ("PRC255", 0x4064, false, Part::Nothing),
    ("PRC511", 0x4068, false, Part::Nothing),
    ("PRC1023", 0x406c, false, Part::Nothing),
    ("PRC1522", 0x4070, false, Part::Nothing),
    ("GPRC", 0x4074, false, Part::Nothing),
    ("BPRC", 0x4078, false, Part::Nothing),
    ("MPRC", 0x407c, false, Part::Nothing),
    ("GPTC", 0x4080, false, Part::TxFrames),
    ("GORC", 0x4088, true, Part::Nothing),
    ("GOTC", 0x4090, true, Part::TxBytes),
    ("RUC", 0x40a4, false, Part::RxErrors),
    ("RFC", 0x40a8, false, Part::RxErrors),
    ("ROC", 0x40ac, false, Part::RxErrors),
    ("RJC", 0x40b0, false, Part::RxErrors),
    ("TOR", 0x40c0, true, Part::Nothing),
    ("TPR", 0x40d0, false, Part::Nothing),
    ("TPT", 0x40d4, false, Part::Nothing),
    ("PTC64", 0x40d8, false, Part::Nothing),
    ("PTC127", 0x40dc, false, Part::Nothing),
    ("PTC255", 0x40e0, false, Part::Nothing),
    ("PTC511", 0x40e4, false, Part::Nothing),
    ("PTC1023", 0x40e8, false, Part::Nothing),
    ("PTC1522", 0x40ec, false, Part::Nothing),
    ("MPTC", 0x40f0, false, Part::Nothing),
    ("BPTC", 0x40f4, false, Part::Nothing),
    ("XEC", 0x4120, false, Part::Nothing),
];

/// Counters of a virtual function (82599 datasheet §8.3.5), which reading does not clear.
const VF: &[Line] = &[
    ("VFGPRC", 0x101c, false, Part::RxFrames),
    ("VFGPTC", 0x201c, false, Part::TxFrames),
    ("VFGORC", 0x1020, true, Part::RxBytes),
    ("VFGOTC", 0x2020, true, Part::TxBytes),
    ("VFMPRC", 0x1034, false, Part::Nothing),
];

/// Counters of packet buffers and of queues: name, offset of the first, from one to the next, how
/// many.
type Group = (&'static str, u32, u32, u32, bool, Part);

const GROUPS: &[Group] = &[
    ("MPC", 0x3fa0, 4, 8, false, Part::RxMissed),
    ("QPRC", 0x1030, 0x40, QUEUES, false, Part::RxFrames),
    ("QBRC", 0x1034, 0x40, QUEUES, true, Part::RxBytes),
    ("QPRDC", 0x1430, 0x40, QUEUES, false, Part::RxMissed),
    ("QPTC", 0x6030, 0x40, QUEUES, false, Part::Nothing),
    ("QBTC", 0x8700, 8, QUEUES, true, Part::Nothing),
];

/// Counters of one device, since the port was opened.
#[derive(Debug, Clone)]
pub(crate) struct Totals {
    /// What was counted.
    sums: intel::Totals<Part>,
    /// Bytes received are counted without their FCS.
    strips: bool,
}

impl Totals {
    /// Of a physical function.
    pub(crate) fn pf() -> Self {
        let groups = GROUPS
            .iter()
            .flat_map(|&(name, first, step, count, wide, part)| {
                let one = move |n| row(format!("{name}{n}"), first + step * n, wide, part, true);
                (0..count).map(one)
            });
        Self {
            sums: intel::Totals::new(lines(PF, true).chain(groups)),
            strips: true,
        }
    }

    /// Of a virtual function.
    pub(crate) fn vf() -> Self {
        Self {
            sums: intel::Totals::new(lines(VF, false)),
            strips: false,
        }
    }

    /// Adds what was counted since the last time, if the device `is_there` afterwards.
    pub(crate) fn sample<B: Bar>(&mut self, bar: &B, is_there: impl FnOnce() -> bool) {
        self.sums.sample(bar, is_there);
    }

    /// Reads and forgets: after a reset, and when the port is opened.
    pub(crate) fn forget<B: Bar>(&mut self, bar: &B) {
        self.sums.forget(bar);
    }
}

impl Counted for Totals {
    fn counters(&self) -> Counters {
        let sum = |part| self.sums.sum(part);
        let rx_frames = sum(Part::RxFrames);
        // A physical function's bytes are those that reached memory, without the FCS that was
        // taken off (DPDK, 5168e13017).
        let stripped = if self.strips { rx_frames * FCS } else { 0 };
        Counters {
            tx_frames: sum(Part::TxFrames),
            tx_bytes: sum(Part::TxBytes),
            tx_errors: 0,
            rx_frames,
            rx_bytes: sum(Part::RxBytes) + stripped,
            rx_missed: sum(Part::RxMissed),
            rx_errors: sum(Part::RxErrors),
        }
    }

    fn extended(&self) -> Vec<Extended> {
        self.sums.extended()
    }
}

fn lines(table: &'static [Line], clears: bool) -> impl Iterator<Item = Row<Part>> {
    let one =
        move |&(name, offset, wide, part): &Line| row(name.to_owned(), offset, wide, part, clears);
    table.iter().map(one)
}

/// A counter; a `wide` one has 36 bits.
fn row(name: String, offset: u32, wide: bool, part: Part, clears: bool) -> Row<Part> {
    let mask = if wide {
        (1 << 36) - 1
    } else {
        u64::from(u32::MAX)
    };
    Row {
        name,
        offset,
        mask,
        clears,
        part,
    }
}
