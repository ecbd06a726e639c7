//! Which devices there are, and in what they differ.

use intel::INTEL;

/// A family of devices that are programmed alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// PCI and PCI-X: 82540EM, 82545EM. One queue, legacy descriptors.
    E1000,
    /// PCI Express: 82574L. Legacy descriptors; with RSS over its two queues, extended ones for
    /// receiving.
    E1000e,
    /// 82576 and I350: several queues, advanced descriptors, RSS.
    Igb,
    /// The virtual function of those, which asks its physical function through a mailbox.
    IgbVf,
}

/// A device by its PCI id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Model {
    /// PCI device id; the vendor is Intel.
    pub(crate) id: u16,
    /// What people call it.
    pub(crate) name: &'static str,
    /// How it is programmed.
    pub(crate) kind: Kind,
    /// Receive queues, and as many send queues.
    pub(crate) queues: usize,
    /// Largest frame, in bytes with FCS.
    pub(crate) max_frame: usize,
}

const fn row(id: u16, name: &'static str, kind: Kind, queues: usize, max_frame: usize) -> Model {
    Model {
        id,
        name,
        kind,
        queues,
        max_frame,
    }
}

/// The devices that this crate drives. Ids: Linux, `e1000_hw.h`, `e1000e/hw.h`, `igb/e1000_hw.h`;
/// largest frames: the `MAX_JUMBO_FRAME_SIZE` of the same drivers.
const MODELS: &[Model] = &[
    row(0x100e, "82540EM", Kind::E1000, 1, 16_128),
    row(0x100f, "82545EM", Kind::E1000, 1, 16_128),
    row(0x10d3, "82574L", Kind::E1000e, 2, 9_234),
    row(0x10f6, "82574LA", Kind::E1000e, 2, 9_234),
    row(0x10c9, "82576", Kind::Igb, 16, 9_728),
    row(0x10e6, "82576 fiber", Kind::Igb, 16, 9_728),
    row(0x10e7, "82576 SerDes", Kind::Igb, 16, 9_728),
    row(0x10e8, "82576 quad copper", Kind::Igb, 16, 9_728),
    row(0x1526, "82576 quad copper ET2", Kind::Igb, 16, 9_728),
    row(0x150a, "82576 NS", Kind::Igb, 16, 9_728),
    row(0x1521, "I350 copper", Kind::Igb, 8, 9_728),
    row(0x1522, "I350 fiber", Kind::Igb, 8, 9_728),
    row(0x1523, "I350 SerDes", Kind::Igb, 8, 9_728),
    row(0x1524, "I350 SGMII", Kind::Igb, 8, 9_728),
    row(0x10ca, "82576 virtual function", Kind::IgbVf, 1, 9_728),
    row(0x1520, "I350 virtual function", Kind::IgbVf, 1, 9_728),
];

impl Model {
    /// The device with PCI id `vendor`:`device`, if this crate drives it.
    pub(crate) fn of(vendor: u16, device: u16) -> Option<Self> {
        let known = MODELS.iter().find(|model| model.id == device);
        known.copied().filter(|_| vendor == INTEL)
    }
}

impl Kind {
    /// What users call the driver: the names of Linux's.
    pub(crate) fn driver(self) -> &'static str {
        match self {
            Self::E1000 => "e1000",
            Self::E1000e => "e1000e",
            Self::Igb => "igb",
            Self::IgbVf => "igbvf",
        }
    }

    /// Shortest frame that is posted, in bytes without FCS; the driver pads shorter ones. 8254x may
    /// damage what it pads itself; the others want 17 bytes and pad the rest (Linux,
    /// `e1000_xmit_frame`, `igb_xmit_frame`). More would be wrong: QEMU's e1000e and igb sum over
    /// the padding too, and over its length, when they fill checksums in.
    pub(crate) fn shortest(self) -> usize {
        match self {
            Self::E1000 => 60,
            Self::E1000e | Self::Igb | Self::IgbVf => 17,
        }
    }

    /// True for PCI Express devices, which say when they have stopped doing DMA.
    pub(crate) fn is_express(self) -> bool {
        !matches!(self, Self::E1000)
    }
}
