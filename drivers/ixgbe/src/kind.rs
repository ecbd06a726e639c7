//! Which devices there are, and in what they differ.

use intel::INTEL;

/// A generation of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mac {
    /// 82599.
    M82599,
    /// X540.
    X540,
    /// X550, and as far as virtual functions go its embedded kin (X550EM).
    X550,
}

/// What leads to the cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    /// An SFP+ cage: optics or a direct-attach cable, at a fixed speed.
    Sfp,
    /// A backplane or CX4: speed and lanes are what the NVM says, or negotiated.
    Backplane,
    /// A PHY that negotiates (10GBASE-T).
    Copper,
}

/// What kind of function a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A physical function: the whole port.
    Ixgbe,
    /// A virtual function, which asks its physical function through a mailbox.
    IxgbeVf,
}

impl Kind {
    /// What users call the driver: the names of Linux's.
    pub(crate) const fn driver(self) -> &'static str {
        match self {
            Self::Ixgbe => "ixgbe",
            Self::IxgbeVf => "ixgbevf",
        }
    }
}

/// A device by its PCI id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Model {
    /// PCI device id; the vendor is Intel.
    pub(crate) id: u16,
    /// What people call it.
    pub(crate) name: &'static str,
    /// Its generation.
    pub(crate) mac: Mac,
    /// What leads to the cable; none for a virtual function.
    pub(crate) media: Option<Media>,
}

const fn pf(id: u16, name: &'static str, mac: Mac, media: Media) -> Model {
    Model {
        id,
        name,
        mac,
        media: Some(media),
    }
}

const fn vf(id: u16, name: &'static str, mac: Mac) -> Model {
    Model {
        id,
        name,
        mac,
        media: None,
    }
}

/// The devices that this crate drives. Ids: Linux, `ixgbe/ixgbe_type.h` and `ixgbevf/defines.h`.
///
/// Not among them: the physical functions of X550EM and E610, whose PHYs are set up through a
/// sideband of their own or by commands to firmware, and the virtual functions that Hyper-V
/// gives out, which have no mailbox.
const MODELS: &[Model] = &[
    pf(0x10f7, "82599 KX4", Mac::M82599, Media::Backplane),
    pf(0x10f8, "82599 backplane", Mac::M82599, Media::Backplane),
    pf(0x10f9, "82599 CX4", Mac::M82599, Media::Backplane),
    pf(0x10fb, "82599 SFP+", Mac::M82599, Media::Sfp),
    pf(0x10fc, "82599 XAUI", Mac::M82599, Media::Backplane),
    pf(0x1507, "82599 SFP+ EM", Mac::M82599, Media::Sfp),
    pf(0x1514, "82599 KX4 mezzanine", Mac::M82599, Media::Backplane),
    pf(0x1517, "82599 KR", Mac::M82599, Media::Backplane),
    pf(0x151c, "82599 T3", Mac::M82599, Media::Copper),
    pf(
        0x152a,
        "82599 backplane FCoE",
        Mac::M82599,
        Media::Backplane,
    ),
    pf(0x1529, "82599 SFP+ FCoE", Mac::M82599, Media::Sfp),
    pf(0x154a, "82599 quad SFP+", Mac::M82599, Media::Sfp),
    pf(0x154d, "82599 SFP+ SF2", Mac::M82599, Media::Sfp),
    pf(0x154f, "82599 LS", Mac::M82599, Media::Sfp),
    pf(0x1557, "82599EN SFP+", Mac::M82599, Media::Sfp),
    pf(0x1558, "82599 QSFP+", Mac::M82599, Media::Sfp),
    pf(0x1528, "X540-AT2", Mac::X540, Media::Copper),
    pf(0x1560, "X540-AT1", Mac::X540, Media::Copper),
    pf(0x1563, "X550-AT2", Mac::X550, Media::Copper),
    pf(0x15d1, "X550-AT", Mac::X550, Media::Copper),
    vf(0x10ed, "82599 virtual function", Mac::M82599),
    vf(0x1515, "X540 virtual function", Mac::X540),
    vf(0x1565, "X550 virtual function", Mac::X550),
    vf(0x15a8, "X550EM_x virtual function", Mac::X550),
    vf(0x15c5, "X550EM_a virtual function", Mac::X550),
];

impl Model {
    /// The device with PCI id `vendor`:`device`, if this crate drives it.
    pub(crate) fn of(vendor: u16, device: u16) -> Option<Self> {
        let known = MODELS.iter().find(|model| model.id == device);
        known.copied().filter(|_| vendor == INTEL)
    }

    /// What kind of function it is.
    pub(crate) const fn kind(&self) -> Kind {
        match self.media {
            Some(_) => Kind::Ixgbe,
            None => Kind::IxgbeVf,
        }
    }

    /// Entries of its table of queues (RETA): X550 has more, and its virtual functions some of
    /// their own (Linux, `ixgbe_rss_indir_tbl_entries`, `IXGBEVF_X550_VFRETA_SIZE`).
    pub(crate) const fn table(&self) -> usize {
        match (self.mac, self.kind()) {
            (Mac::X550, Kind::Ixgbe) => 512,
            (Mac::X550, Kind::IxgbeVf) => 64,
            _ => 128,
        }
    }
}
