//! What the device counts, added up over resets and registers that wrap or clear themselves.

use hw::Bar;
use intel::{Counted, Row};
use port::{Counters, Extended};

/// What a counter is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    TxFrames,
    TxBytes,
    /// Bytes of good and bad frames.
    TxTotal,
    TxErrors,
    RxFrames,
    RxBytes,
    /// Bytes of good and bad frames.
    RxTotal,
    RxMissed,
    RxErrors,
    Nothing,
}

/// A row of a table: datasheet name, first byte, whether it has 64 bits in two registers, part.
type Line = (&'static str, u32, bool, Part);

/// Counters of a physical function, cleared by reading (§13.7).
const PF: &[Line] = &[
    ("CRCERRS", 0x4000, false, Part::RxErrors),
    ("ALGNERRC", 0x4004, false, Part::RxErrors),
    ("SYMERRS", 0x4008, false, Part::Nothing),
    ("RXERRC", 0x400c, false, Part::RxErrors),
    ("MPC", 0x4010, false, Part::RxMissed),
    ("SCC", 0x4014, false, Part::Nothing),
    ("ECOL", 0x4018, false, Part::TxErrors),
    ("MCC", 0x401c, false, Part::Nothing),
    ("LATECOL", 0x4020, false, Part::TxErrors),
    ("COLC", 0x4028, false, Part::Nothing),
    ("DC", 0x4030, false, Part::Nothing),
    ("RLEC", 0x4040, false, Part::Nothing),
    ("XONRXC", 0x4048, false, Part::Nothing),
    ("XONTXC", 0x404c, false, Part::Nothing),
    ("XOFFRXC", 0x4050, false, Part::Nothing),
    ("XOFFTXC", 0x4054, false, Part::Nothing),
    ("PRC64", 0x405c, false, Part::Nothing),
    ("PRC127", 0x4060, false, Part::Nothing),
    ("PRC255", 0x4064, false, Part::Nothing),
    ("PRC511", 0x4068, false, Part::Nothing),
    ("PRC1023", 0x406c, false, Part::Nothing),
    ("PRC1522", 0x4070, false, Part::Nothing),
    ("GPRC", 0x4074, false, Part::RxFrames),
    ("BPRC", 0x4078, false, Part::Nothing),
    ("MPRC", 0x407c, false, Part::Nothing),
    ("GPTC", 0x4080, false, Part::TxFrames),
    ("GORC", 0x4088, true, Part::RxBytes),
    ("GOTC", 0x4090, true, Part::TxBytes),
    ("RNBC", 0x40a0, false, Part::Nothing),
    ("RUC", 0x40a4, false, Part::RxErrors),
    ("RFC", 0x40a8, false, Part::Nothing),
    ("ROC", 0x40ac, false, Part::RxErrors),
    ("RJC", 0x40b0, false, Part::Nothing),
    ("TOR", 0x40c0, true, Part::RxTotal),
    ("TOT", 0x40c8, true, Part::TxTotal),
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
];

/// Counters of a virtual function: 32 bits, never cleared (82576 §8.18.73).
const VF: &[Line] = &[
    ("VFGPRC", 0x0f10, false, Part::RxFrames),
    ("VFGPTC", 0x0f14, false, Part::TxFrames),
    ("VFGORC", 0x0f18, false, Part::RxBytes),
    ("VFGOTC", 0x0f34, false, Part::TxBytes),
    ("VFMPRC", 0x0f3c, false, Part::Nothing),
];

/// Counters that QEMU's 8254x clears by reading, as hardware clears all of them. Its others run
/// freely (QEMU, `hw/net/e1000.c`, `macreg_readops`).
const QEMU_CLEARS: &[&str] = &[
    "PRC64", "PRC127", "PRC255", "PRC511", "PRC1023", "PRC1522", "GPRC", "BPRC", "MPRC", "GPTC",
    "GORC", "GOTC", "RUC", "ROC", "TOR", "TOT", "TPR", "TPT", "PTC64", "PTC127", "PTC255",
    "PTC511", "PTC1023", "PTC1522", "MPTC", "BPTC",
];

/// Who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A physical function: every counter is cleared by reading.
    Pf,
    /// QEMU's 8254x, which clears some.
    Qemu,
    /// A virtual function: no counter is ever cleared.
    Vf,
}

/// Counters of one device, since the port was opened.
#[derive(Debug, Clone)]
pub(crate) struct Totals {
    sums: intel::Totals<Part>,
    source: Source,
    /// Frames that queues dropped for want of buffers ([`crate::regs::QueueRegs::rqdpc`]).
    dropped: u64,
}

impl Totals {
    /// Of a physical function, whose counters are cleared by reading.
    pub(crate) fn pf() -> Self {
        Self::new(PF, Source::Pf)
    }

    /// Of QEMU's 8254x, of whose counters some run freely.
    pub(crate) fn qemu() -> Self {
        Self::new(PF, Source::Qemu)
    }

    /// Of a virtual function, whose counters run freely.
    pub(crate) fn vf() -> Self {
        Self::new(VF, Source::Vf)
    }

    fn new(lines: &[Line], source: Source) -> Self {
        Self {
            sums: intel::Totals::new(lines.iter().map(|line| row(line, source))),
            source,
            dropped: 0,
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

    /// Adds frames that queues dropped for want of buffers.
    pub(crate) fn drop_frames(&mut self, frames: u64) {
        self.dropped += frames;
    }
}

fn row(&(name, offset, wide, part): &Line, source: Source) -> Row<Part> {
    let clears = match source {
        Source::Pf => true,
        Source::Qemu => QEMU_CLEARS.contains(&name),
        Source::Vf => false,
    };
    Row {
        name: name.to_owned(),
        offset,
        mask: if wide { u64::MAX } else { u32::MAX.into() },
        clears,
        part,
    }
}

impl Counted for Totals {
    fn counters(&self) -> Counters {
        let sum = |part| self.sums.sum(part);
        // QEMU's 8254x leaves the octets of good frames at zero.
        let octets = |good, total| match sum(good) {
            0 if self.source == Source::Qemu => sum(total),
            octets => octets,
        };
        Counters {
            tx_frames: sum(Part::TxFrames),
            tx_bytes: octets(Part::TxBytes, Part::TxTotal),
            tx_errors: sum(Part::TxErrors),
            rx_frames: sum(Part::RxFrames),
            rx_bytes: octets(Part::RxBytes, Part::RxTotal),
            rx_missed: sum(Part::RxMissed) + self.dropped,
            rx_errors: sum(Part::RxErrors),
        }
    }

    fn extended(&self) -> Vec<Extended> {
        let mut all = self.sums.extended();
        if self.source != Source::Vf {
            all.push(Extended {
                name: "RQDPC".to_owned(),
                value: self.dropped,
            });
        }
        all
    }
}
