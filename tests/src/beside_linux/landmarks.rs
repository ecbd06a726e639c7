//! The landmarks: which accesses are worth being compared in order, and with which others.
//!
//! Order is compared within a *lane*: what belongs to receiving, to sending, to the link. Between
//! lanes it is free (Linux brings the link up in a thread of its own), but for what stands in several.

/// When an access is a landmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// A write that makes the field other than it was when it was seen last.
    Write,
    /// A write that sets the field, which clears itself.
    Pulse,
    /// Any write to the register.
    Touch,
    /// Any write to the register: whether it is zero.
    Zero,
    /// A read that finds the field other than the last one since the device's reset.
    Change,
    /// The last of the reads that follow a landmark of the lane: what it was polled for.
    Answer,
}

impl On {
    /// True for what is about reads.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Change | Self::Answer)
    }
}

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Landmark {
    /// The register; of a row, its first.
    pub register: &'static str,
    /// The field; empty: the whole register.
    pub field: &'static str,
    /// When.
    pub on: On,
}

/// Landmarks that are compared in order.
#[derive(Debug, Clone, Copy)]
pub struct Lane {
    /// What they are about.
    pub name: &'static str,
    /// They.
    pub landmarks: &'static [Landmark],
}

const fn on(on: On, register: &'static str, field: &'static str) -> Landmark {
    Landmark {
        register,
        field,
        on,
    }
}

/// The register whose reset makes everything unknown again.
pub const RESETS: &[&str] = &["CTRL", "VFCTRL"];

/// A physical function's.
pub const PHYSICAL: &[Lane] = &[
    Lane {
        name: "reset",
        landmarks: &[
            on(On::Write, "RXCTRL", "RXEN"),
            on(On::Touch, "EIMC", ""),
            on(On::Write, "RXDCTL", "ENABLE"),
            on(On::Write, "TXDCTL", "ENABLE"),
            on(On::Pulse, "TXDCTL", "SWFLSH"),
            on(On::Write, "CTRL", "GIO_DIS"),
            on(On::Change, "STATUS", "GIO_MASTER"),
            on(On::Pulse, "CTRL", "LRST"),
            on(On::Pulse, "CTRL", "RST"),
            on(On::Change, "CTRL", "RST"),
            on(On::Change, "EEC", "ARD"),
            on(On::Change, "RDRXCTL", "DMAIDONE"),
            on(On::Write, "CTRL_EXT", "DRV_LOAD"),
        ],
    },
    Lane {
        name: "receive",
        landmarks: &[
            on(On::Write, "RXCTRL", "RXEN"),
            on(On::Write, "SECRXCTRL", "RX_DIS"),
            on(On::Answer, "SECRXSTAT", "RDY"),
            on(On::Write, "HLREG0", "JUMBOEN"),
            on(On::Touch, "MHADD", ""),
            on(On::Touch, "RXPBSIZE", ""),
            on(On::Write, "RDRXCTL", "CRCSTRIP"),
            on(On::Write, "RFCTL", "RSC_DIS"),
            on(On::Touch, "RXCSUM", ""),
            on(On::Touch, "PSRTYPE", ""),
            on(On::Touch, "RSSRK", ""),
            on(On::Touch, "RETA", ""),
            on(On::Touch, "MRQC", ""),
            on(On::Touch, "RDBAL", ""),
            on(On::Touch, "RDLEN", ""),
            on(On::Touch, "RDH", ""),
            on(On::Touch, "SRRCTL", ""),
            on(On::Write, "RXDCTL", "ENABLE"),
            on(On::Answer, "RXDCTL", "ENABLE"),
            on(On::Zero, "RDT", ""),
        ],
    },
    Lane {
        name: "send",
        landmarks: &[
            on(On::Write, "RTTDCS", "ARBDIS"),
            on(On::Touch, "MTQC", ""),
            on(On::Touch, "TXPBSIZE", ""),
            on(On::Touch, "TXPBTHRESH", ""),
            on(On::Write, "DMATXCTL", "TE"),
            on(On::Touch, "TDBAL", ""),
            on(On::Touch, "TDLEN", ""),
            on(On::Touch, "TDH", ""),
            on(On::Zero, "TDT", ""),
            on(On::Pulse, "TXDCTL", "SWFLSH"),
            on(On::Write, "TXDCTL", "ENABLE"),
            on(On::Answer, "TXDCTL", "ENABLE"),
        ],
    },
    Lane {
        name: "link",
        landmarks: &[
            on(On::Write, "ESDP", "SDP3"),
            on(On::Touch, "AUTOC2", ""),
            on(On::Write, "AUTOC", "LMS"),
            on(On::Pulse, "AUTOC", "RESTART_AN"),
            on(On::Change, "LINKS", "UP"),
        ],
    },
    Lane {
        name: "filters",
        landmarks: &[
            on(On::Write, "FCTRL", "UPE"),
            on(On::Write, "FCTRL", "MPE"),
            on(On::Write, "FCTRL", "BAM"),
            on(On::Write, "VLNCTRL", "VFE"),
            on(On::Write, "VFTA", ""),
            on(On::Write, "MCSTCTRL", "MFE"),
            on(On::Write, "RAL", ""),
            on(On::Write, "RAH", ""),
        ],
    },
];

/// A virtual function's.
pub const VIRTUAL: &[Lane] = &[
    Lane {
        name: "receive",
        landmarks: &[
            on(On::Pulse, "VFCTRL", "RST"),
            on(On::Touch, "VTEIMC", ""),
            on(On::Touch, "VFPSRTYPE", ""),
            on(On::Touch, "VFMRQC", ""),
            on(On::Touch, "RDBAL", ""),
            on(On::Touch, "RDLEN", ""),
            on(On::Touch, "RDH", ""),
            on(On::Touch, "SRRCTL", ""),
            on(On::Write, "RXDCTL", "ENABLE"),
            on(On::Answer, "RXDCTL", "ENABLE"),
            on(On::Zero, "RDT", ""),
        ],
    },
    Lane {
        name: "send",
        landmarks: &[
            on(On::Pulse, "VFCTRL", "RST"),
            on(On::Touch, "TDBAL", ""),
            on(On::Touch, "TDLEN", ""),
            on(On::Touch, "TDH", ""),
            on(On::Zero, "TDT", ""),
            on(On::Pulse, "TXDCTL", "SWFLSH"),
            on(On::Write, "TXDCTL", "ENABLE"),
            on(On::Answer, "TXDCTL", "ENABLE"),
        ],
    },
];
