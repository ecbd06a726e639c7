//! Registers by name, and what their bits are called: transcribed from the data sheets for this
//! comparison alone, so that neither driver's nor model's table judges itself.
//!
//! §: 82599 data sheet (331520). Bits that no list here names are shown together, as a number.

use std::collections::BTreeMap;

use hw::mmio::RegInfo;

/// A run of bits: its name, its highest and its lowest bit.
pub type Field = (&'static str, u32, u32);

/// Where a register is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its name in the data sheet.
    pub name: &'static str,
    /// Which of a row.
    pub index: Option<u32>,
}

impl Place {
    /// As it is written: `RXDCTL[0]`.
    #[must_use]
    pub fn text(&self) -> String {
        match self.index {
            Some(index) => format!("{}[{index}]", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// The registers of a device.
#[derive(Debug)]
pub struct Map {
    places: BTreeMap<u32, Place>,
}

/// Rows that can be reached in two places (§8.2.3.7.9, §8.2.3.7.8, §8.2.3.8.7, §8.2.3.11.1): the
/// old one, its stride, how many are there, and where the row is.
const TWICE: &[(u32, u32, u32, u32, u32)] = &[
    (0x2100, 4, 16, 0x1014, 0x40),
    (0x2200, 4, 16, 0x100c, 0x40),
    (0x5400, 8, 16, 0xa200, 8),
    (0x5404, 8, 16, 0xa204, 8),
    (0x5480, 4, 16, 0xea00, 4),
];

/// Where the receive queues from 64 on begin (§8.2.3.8): one more row of the same registers.
const MORE_QUEUES: std::ops::Range<u32> = 0xd000..0xd040;

impl Map {
    /// Of a table of registers, a virtual function's or a physical one's.
    #[must_use]
    pub fn new(registers: &[RegInfo], is_vf: bool) -> Self {
        let mut places = BTreeMap::new();
        for register in registers {
            let first = if MORE_QUEUES.contains(&register.offset) {
                64
            } else {
                0
            };
            for n in 0..register.count {
                let place = Place {
                    name: register.name,
                    index: (register.count > 1).then_some(first + n),
                };
                places.insert(register.offset + n * register.stride, place);
            }
        }
        for &(old, step, count, new, stride) in TWICE.iter().filter(|_| !is_vf) {
            for n in 0..count {
                if let Some(place) = places.get(&(new + n * stride)).cloned() {
                    places.entry(old + n * step).or_insert(place);
                }
            }
        }
        Self { places }
    }

    /// What is at `offset`.
    #[must_use]
    pub fn place(&self, offset: u32) -> Place {
        let unknown = Place {
            name: "?",
            index: Some(offset),
        };
        self.places.get(&offset).cloned().unwrap_or(unknown)
    }

    /// Where the register is that [`Place::text`] calls `name`.
    #[must_use]
    pub fn offset(&self, name: &str) -> Option<u32> {
        let mut all = self.places.iter();
        all.find(|(_, place)| place.text() == name)
            .map(|(offset, _)| *offset)
    }

    /// Offsets of the registers whose values are compared.
    #[must_use]
    pub fn looks(&self, is_vf: bool) -> Vec<u32> {
        let wanted = if is_vf { VF_VALUES } else { VALUES };
        let found = |&(name, index): &(&str, u32)| {
            let is = |place: &Place| place.name == name && place.index.unwrap_or(0) == index;
            let found = self.places.iter().find(|(_, place)| is(place));
            found.map(|(offset, _)| *offset)
        };
        wanted.iter().filter_map(found).collect()
    }
}

/// The fields of a register; empty where it is one number.
#[must_use]
pub fn fields(name: &str) -> &'static [Field] {
    let known = FIELDS.iter().find(|(register, _)| *register == name);
    known.map_or(&[], |(_, fields)| fields)
}

/// The field of that name.
#[must_use]
pub fn field(name: &str, field: &str) -> Option<Field> {
    fields(name)
        .iter()
        .find(|(known, ..)| *known == field)
        .copied()
}

/// The value of a field in a word.
#[must_use]
pub fn get((_, high, low): Field, word: u32) -> u32 {
    word >> low & mask(high - low)
}

/// The bits of a word that no field of this register has.
#[must_use]
pub fn rest(name: &str, word: u32) -> u32 {
    fields(name).iter().fold(word, |word, &(_, high, low)| {
        word & !(mask(high - low) << low)
    })
}

const fn mask(more: u32) -> u32 {
    u32::MAX >> (31 - more)
}

/// What is compared of a physical function that runs; of a row, the element.
const VALUES: &[(&str, u32)] = &[
    ("CTRL", 0),
    ("CTRL_EXT", 0),
    ("GPIE", 0),
    ("EIAC", 0),
    ("EIAM", 0),
    ("EIMS", 0),
    ("IVAR", 0),
    ("IVAR_MISC", 0),
    ("RXCTRL", 0),
    ("RDRXCTL", 0),
    ("RFCTL", 0),
    ("RXCSUM", 0),
    ("QDE", 0),
    ("RXPBSIZE", 0),
    ("RXPBSIZE", 1),
    ("RTRPCS", 0),
    ("RTRUP2TC", 0),
    ("FCCFG", 0),
    ("MFLCN", 0),
    ("FCRTH", 0),
    ("FCRTL", 0),
    ("HLREG0", 0),
    ("MHADD", 0),
    ("AUTOC", 0),
    ("AUTOC2", 0),
    ("ESDP", 0),
    ("FCTRL", 0),
    ("VLNCTRL", 0),
    ("MCSTCTRL", 0),
    ("MRQC", 0),
    ("RETA", 0),
    ("RETA", 1),
    ("ERETA", 0),
    ("PSRTYPE", 0),
    ("VT_CTL", 0),
    ("ETQF", 0),
    ("FDIRCTRL", 0),
    ("RAL", 0),
    ("RAH", 0),
    ("MPSAR_LO", 0),
    ("RAH", 1),
    ("MTA", 0),
    ("VFTA", 0),
    ("SRRCTL", 0),
    ("RXDCTL", 0),
    ("RSCCTL", 0),
    ("DCA_RXCTRL", 0),
    ("RDLEN", 0),
    ("RQSMR", 0),
    ("RTTDCS", 0),
    ("RTTPCS", 0),
    ("DMATXCTL", 0),
    ("DTXMXSZRQ", 0),
    ("MTQC", 0),
    ("TXPBSIZE", 0),
    ("TXPBSIZE", 1),
    ("TXPBTHRESH", 0),
    ("TXPBTHRESH", 1),
    ("SECTXCTRL", 0),
    ("SECTXMINIFG", 0),
    ("SECRXCTRL", 0),
    ("TXDCTL", 0),
    ("DCA_TXCTRL", 0),
    ("TDLEN", 0),
    ("TDWBAL", 0),
    ("TQSM", 0),
];

/// Of a virtual function.
const VF_VALUES: &[(&str, u32)] = &[
    ("VTEIMS", 0),
    ("VTEIAC", 0),
    ("VTEIAM", 0),
    ("VTIVAR", 0),
    ("VTIVAR_MISC", 0),
    ("VFPSRTYPE", 0),
    ("VFMRQC", 0),
    ("VFRETA", 0),
    ("SRRCTL", 0),
    ("RXDCTL", 0),
    ("DCA_RXCTRL", 0),
    ("RDLEN", 0),
    ("TXDCTL", 0),
    ("DCA_TXCTRL", 0),
    ("TDLEN", 0),
    ("TDWBAL", 0),
];

const FIELDS: &[(&str, &[Field])] = &[
    // §8.2.3.1.
    (
        "CTRL",
        &[("GIO_DIS", 2, 2), ("LRST", 3, 3), ("RST", 26, 26)],
    ),
    ("STATUS", &[("GIO_MASTER", 19, 19)]),
    (
        "CTRL_EXT",
        &[
            ("PFRSTD", 14, 14),
            ("NS_DIS", 16, 16),
            ("RO_DIS", 17, 17),
            ("DRV_LOAD", 28, 28),
        ],
    ),
    ("ESDP", &[("SDP3", 3, 3), ("SDP3_OUT", 11, 11)]),
    // §8.2.3.2, §10.5.4.
    ("EEC", &[("ARD", 9, 9)]),
    ("SWSM", &[("SMBI", 0, 0), ("SWESMBI", 1, 1)]),
    // §8.2.3.5.
    (
        "GPIE",
        &[
            ("MULTIPLE_MSIX", 4, 4),
            ("OCD", 5, 5),
            ("EIMEN", 6, 6),
            ("EIAME", 30, 30),
            ("PBA", 31, 31),
        ],
    ),
    // §8.2.3.7.
    (
        "FCTRL",
        &[("SBP", 1, 1), ("MPE", 8, 8), ("UPE", 9, 9), ("BAM", 10, 10)],
    ),
    (
        "VLNCTRL",
        &[
            ("VET", 15, 0),
            ("CFI", 28, 28),
            ("CFIEN", 29, 29),
            ("VFE", 30, 30),
        ],
    ),
    ("MCSTCTRL", &[("MO", 1, 0), ("MFE", 2, 2)]),
    (
        "PSRTYPE",
        &[
            ("TCP", 4, 4),
            ("UDP", 5, 5),
            ("IPV4", 8, 8),
            ("IPV6", 9, 9),
            ("L2", 12, 12),
            ("RQPL", 31, 29),
        ],
    ),
    ("RXCSUM", &[("IPPCSE", 12, 12), ("PCSD", 13, 13)]),
    (
        "RFCTL",
        &[("RSC_DIS", 5, 5), ("NFSW_DIS", 6, 6), ("NFSR_DIS", 7, 7)],
    ),
    (
        "MRQC",
        &[
            ("MRQE", 3, 0),
            ("TCP_IPV4", 16, 16),
            ("IPV4", 17, 17),
            ("IPV6_EX", 19, 19),
            ("IPV6", 20, 20),
            ("TCP_IPV6", 21, 21),
            ("UDP_IPV4", 22, 22),
            ("UDP_IPV6", 23, 23),
            ("UDP_IPV6_EX", 24, 24),
        ],
    ),
    // §8.2.3.8.
    ("RXCTRL", &[("RXEN", 0, 0)]),
    (
        "RDRXCTL",
        &[
            ("RDMTS", 0, 0),
            ("CRCSTRIP", 1, 1),
            ("MCEN", 2, 2),
            ("DMAIDONE", 3, 3),
            ("RSCFRSTSIZE", 21, 17),
            ("RSCACKC", 25, 25),
            ("FCOE_WRFIX", 26, 26),
        ],
    ),
    (
        "SRRCTL",
        &[
            ("BSIZEPACKET", 4, 0),
            ("BSIZEHEADER", 13, 8),
            ("RDMTS", 24, 22),
            ("DESCTYPE", 27, 25),
            ("DROP_EN", 28, 28),
        ],
    ),
    (
        "RXDCTL",
        &[
            ("RLPML", 14, 0),
            ("RLPML_EN", 15, 15),
            ("ENABLE", 25, 25),
            ("VME", 30, 30),
        ],
    ),
    // §8.2.3.9.
    ("DMATXCTL", &[("TE", 0, 0), ("GDV", 3, 3), ("VT", 31, 16)]),
    (
        "TXDCTL",
        &[
            ("PTHRESH", 6, 0),
            ("HTHRESH", 14, 8),
            ("WTHRESH", 22, 16),
            ("ENABLE", 25, 25),
            ("SWFLSH", 26, 26),
        ],
    ),
    ("TDWBAL", &[("HEADWB_EN", 0, 0)]),
    // §8.2.3.10.
    (
        "RTTDCS",
        &[
            ("TDPAC", 0, 0),
            ("ARBDIS", 6, 6),
            ("BDPM", 22, 22),
            ("BPBFSM", 23, 23),
        ],
    ),
    (
        "MTQC",
        &[("RT_ENA", 0, 0), ("VT_ENA", 1, 1), ("NUM_TC_OR_Q", 3, 2)],
    ),
    // §8.2.3.11.
    (
        "DCA_RXCTRL",
        &[
            ("DESC_DCA", 5, 5),
            ("HEAD_DCA", 6, 6),
            ("DATA_DCA", 7, 7),
            ("DESC_READ_RO", 9, 9),
            ("DESC_WRITE_RO", 11, 11),
            ("RESERVED", 12, 12),
            ("DATA_WRITE_RO", 13, 13),
            ("HEAD_WRITE_RO", 15, 15),
        ],
    ),
    (
        "DCA_TXCTRL",
        &[
            ("DESC_DCA", 5, 5),
            ("DESC_READ_RO", 9, 9),
            ("DESC_WRITE_RO", 11, 11),
            ("DATA_READ_RO", 13, 13),
        ],
    ),
    // §8.2.3.12.
    (
        "SECTXCTRL",
        &[
            ("SECTX_DIS", 0, 0),
            ("TX_DIS", 1, 1),
            ("STORE_FORWARD", 2, 2),
        ],
    ),
    ("SECRXCTRL", &[("SECRX_DIS", 0, 0), ("RX_DIS", 1, 1)]),
    ("SECRXSTAT", &[("RDY", 0, 0)]),
    // §8.2.3.22.
    (
        "HLREG0",
        &[
            ("TXCRCEN", 0, 0),
            ("RXCRCSTRP", 1, 1),
            ("JUMBOEN", 2, 2),
            ("TXPADEN", 10, 10),
            ("LPBK", 15, 15),
            ("MDCSPD", 16, 16),
            ("RXLNGTHERREN", 27, 27),
            ("RXPADSTRIPEN", 28, 28),
        ],
    ),
    ("MHADD", &[("MFS", 31, 16)]),
    (
        "MFLCN",
        &[
            ("PMCF", 0, 0),
            ("DPF", 1, 1),
            ("RPFCE", 2, 2),
            ("RFCE", 3, 3),
            ("RPFM", 11, 4),
        ],
    ),
    ("FCCFG", &[("TFCE", 4, 3)]),
    (
        "AUTOC",
        &[
            ("FLU", 0, 0),
            ("ANACK2", 1, 1),
            ("ANSF", 6, 2),
            ("PMA_1G", 9, 9),
            ("PMA_10G", 8, 7),
            ("RESTART_AN", 12, 12),
            ("LMS", 15, 13),
            ("KR_SUPP", 16, 16),
            ("KX4_SUPP", 31, 31),
            ("KX_SUPP", 30, 30),
            ("PAUSE", 29, 28),
        ],
    ),
    ("AUTOC2", &[("PMA_10G_SERIAL", 17, 16)]),
    ("LINKS", &[("SPEED", 29, 28), ("UP", 30, 30)]),
    (
        "MSCA",
        &[
            ("REGISTER", 15, 0),
            ("DEVICE", 20, 16),
            ("PHY", 25, 21),
            ("OP", 27, 26),
            ("COMMAND", 30, 30),
        ],
    ),
    // §8.3.5, and the VF's mailbox (§8.3.5.1).
    (
        "VFMAILBOX",
        &[
            ("REQ", 0, 0),
            ("ACK", 1, 1),
            ("VFU", 2, 2),
            ("PFU", 3, 3),
            ("PFSTS", 4, 4),
            ("PFACK", 5, 5),
            ("RSTI", 6, 6),
            ("RSTD", 7, 7),
        ],
    ),
    ("VFCTRL", &[("RST", 26, 26)]),
    (
        "VFPSRTYPE",
        &[
            ("TCP", 4, 4),
            ("UDP", 5, 5),
            ("IPV4", 8, 8),
            ("IPV6", 9, 9),
            ("L2", 12, 12),
            ("RQPL", 31, 29),
        ],
    ),
    (
        "VFMRQC",
        &[
            ("RSSEN", 0, 0),
            ("TCP_IPV4", 16, 16),
            ("IPV4", 17, 17),
            ("IPV6", 20, 20),
            ("TCP_IPV6", 21, 21),
            ("UDP_IPV4", 22, 22),
            ("UDP_IPV6", 23, 23),
        ],
    ),
];

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn fields_of_a_register_do_not_overlap_and_what_is_left_is_the_rest() {
        for (name, fields) in FIELDS {
            let mut seen = 0u32;
            for &(field, high, low) in *fields {
                let bits = mask(high - low) << low;
                assert_eq!(seen & bits, 0, "{name}.{field}");
                seen |= bits;
            }
            assert_eq!(rest(name, u32::MAX), !seen, "{name}");
        }
        let size = field("SRRCTL", "BSIZEHEADER").unwrap();
        assert_eq!(get(size, 0x0200_3f04), 0x3f);
    }

    #[test]
    fn a_register_has_one_name_in_both_its_places() {
        let map = Map::new(
            &models::ixgbe::map(models::ixgbe::Kind::I82599, false),
            false,
        );
        for (old, new, name) in [
            (0x2104, 0x1054, "SRRCTL[1]"),
            (0x2200, 0x100c, "DCA_RXCTRL[0]"),
            (0x5408, 0xa208, "RAL[1]"),
            (0x5404, 0xa204, "RAH[0]"),
            (0x5480, 0xea00, "PSRTYPE[0]"),
        ] {
            assert_eq!(map.place(old).text(), name);
            assert_eq!(map.place(new).text(), name);
        }
        assert_eq!(map.place(0x1_ffff).name, "?");
    }
}
