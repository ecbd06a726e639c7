//! Rings of the e1000 families: 16-byte descriptors (developer's manual 317453 §3.2.3, §3.3.3;
//! 82576 datasheet 320961 §7.1.5.2, §7.2.2), found by the registers that hold their address.

use std::collections::BTreeMap;

use hugemem::Translator;

use super::{Look, Rings, Slots, bits, hex, number};

/// Receive filter control (82574 datasheet 317694 §10.2.5), and its bit for extended descriptors.
const RFCTL: u32 = 0x5008;
const EXTENDED: u32 = 1 << 15;

/// Registers by name (§13.2, 82576 §8.1.2): those that the driver uses.
const NAMES: &[(u32, &str)] = &[
    (0x0000, "CTRL"),
    (0x0008, "STATUS"),
    (0x0010, "EECD"),
    (0x0018, "CTRL_EXT"),
    (0x0020, "MDIC"),
    (0x0038, "VET"),
    (0x00c0, "ICR"),
    (0x00d8, "IMC"),
    (0x0100, "RCTL"),
    (0x0400, "TCTL"),
    (0x0410, "TIPG"),
    (0x1528, "EIMC"),
    (0x2820, "RDTR"),
    (0x282c, "RADV"),
    (0x3820, "TIDV"),
    (0x382c, "TADV"),
    (0x5000, "RXCSUM"),
    (0x5004, "RLPML"),
    (RFCTL, "RFCTL"),
    (0x5818, "MRQC"),
];

/// Registers of a queue, from where its block begins.
const QUEUE_NAMES: &[(u32, &str)] = &[
    (0x00, "BAL"),
    (0x04, "BAH"),
    (0x08, "LEN"),
    (0x0c, "SRRCTL"),
    (0x10, "H"),
    (0x18, "T"),
    (0x28, "XDCTL"),
    (0x30, "RQDPC"),
    (0x38, "WBAL"),
    (0x3c, "WBAH"),
];

/// Arrays of registers: first, end, name.
const ARRAYS: &[(u32, u32, &str)] = &[
    (0x5200, 0x5400, "MTA"),
    (0x5400, 0x5480, "RA"),
    (0x5600, 0x5800, "VFTA"),
    (0x5c00, 0x5c80, "RETA"),
    (0x5c80, 0x5ca8, "RSSRK"),
];

/// Where the queues' registers are.
#[derive(Clone, Copy)]
struct Blocks {
    rx: u32,
    tx: u32,
    stride: u32,
    queues: u32,
}

impl Blocks {
    /// Ring of `offset`: true for receiving, its number, and the register in its block.
    fn find(self, offset: u32) -> Option<(bool, u32, u32)> {
        for (first, receives) in [(self.rx, true), (self.tx, false)] {
            let Some(at) = offset.checked_sub(first) else {
                continue;
            };
            // Other registers lie in the gaps of the old layout.
            if at / self.stride < self.queues && at % self.stride < 0x40 {
                return Some((receives, at / self.stride, at % self.stride));
            }
        }
        None
    }
}

/// What both formats share.
struct Queues {
    blocks: Blocks,
    registers: BTreeMap<u32, u32>,
}

impl Queues {
    fn written(&mut self, offset: u32, value: u32) {
        if self.blocks.find(offset).is_some() || offset == RFCTL {
            self.registers.insert(offset, value);
        }
        // A reset (CTRL.RST) forgets them.
        if offset == 0 && value & 1 << 26 != 0 {
            self.registers.clear();
        }
    }

    fn is_address(&self, offset: u32) -> bool {
        let found = self.blocks.find(offset);
        found.is_some_and(|(_, _, register)| register == 0 || register == 4)
    }

    fn place(&self, offset: u32) -> String {
        if let Some(&(_, name)) = NAMES.iter().find(|(at, _)| *at == offset) {
            return name.to_owned();
        }
        if let Some(&(first, _, name)) = ARRAYS
            .iter()
            .find(|(first, end, _)| (*first..*end).contains(&offset))
        {
            return format!("{name}+{:#x}", offset - first);
        }
        if let Some((receives, queue, register)) = self.blocks.find(offset)
            && let Some((_, name)) = QUEUE_NAMES.iter().find(|(at, _)| *at == register)
        {
            let kind = if receives { "RD" } else { "TD" };
            return format!("{kind}{name}{queue}");
        }
        format!("{offset:#06x}")
    }

    /// What receive descriptors say where they are legacy ones unless the driver wants more.
    fn legacy_or_extended(&self) -> super::Say {
        match self.registers.get(&RFCTL) {
            Some(value) if value & EXTENDED != 0 => extended_rx,
            _ => legacy_rx,
        }
    }

    fn list(&self, say: [super::Say; 2]) -> Vec<Slots> {
        let mut found = Vec::new();
        for (first, name, say) in [
            (self.blocks.rx, "rx", say[0]),
            (self.blocks.tx, "tx", say[1]),
        ] {
            for queue in 0..self.blocks.queues {
                let block = first + queue * self.blocks.stride;
                let register = |at| self.registers.get(&(block + at)).copied().unwrap_or(0);
                let len = register(8);
                if len > 0 {
                    found.push(Slots {
                        name: format!("{name}{queue}"),
                        base: u64::from(register(0)) | u64::from(register(4)) << 32,
                        count: len / 16,
                        bytes: 16,
                        say,
                        aside: 0,
                    });
                }
            }
        }
        found
    }
}

/// 8254x and 82574: legacy descriptors, and the 82574's extended ones.
pub struct Legacy(Queues);

/// 82576: advanced descriptors.
pub struct Advanced(Queues);

impl Default for Legacy {
    fn default() -> Self {
        Self(Queues {
            blocks: Blocks {
                rx: 0x2800,
                tx: 0x3800,
                stride: 0x100,
                queues: 2,
            },
            registers: BTreeMap::new(),
        })
    }
}

impl Default for Advanced {
    fn default() -> Self {
        Self(Queues {
            blocks: Blocks {
                rx: 0xc000,
                tx: 0xe000,
                stride: 0x40,
                queues: 16,
            },
            registers: BTreeMap::new(),
        })
    }
}

macro_rules! registers_of_queues {
    ($type:ty, $rx:expr, $tx:expr) => {
        impl Rings for $type {
            fn written(&mut self, _bar: u8, offset: u32, value: u32) {
                self.0.written(offset, value);
            }
            fn is_address(&self, _bar: u8, offset: u32) -> bool {
                self.0.is_address(offset)
            }
            fn is_counter(&self, _bar: u8, offset: u32) -> bool {
                // 82576 §8.18; the last is of a queue (§8.10.8).
                (0x4000..0x4100).contains(&offset)
                    || matches!(self.0.blocks.find(offset), Some((true, _, 0x30)))
            }
            fn place(&self, _bar: u8, offset: u32) -> String {
                self.0.place(offset)
            }
            fn list(&mut self, _memory: &mut Translator) -> Vec<Slots> {
                let rx: fn(&Queues) -> super::Say = $rx;
                self.0.list([rx(&self.0), $tx])
            }
        }
    };
}
registers_of_queues!(Legacy, Queues::legacy_or_extended, sent);
registers_of_queues!(Advanced, |_| advanced_rx, sent);

/// A send descriptor of either format: the half that the device writes status into, and all else
/// of it, which it must leave alone.
fn sent(_: &Slots, slot: &[u8], _: &mut Look<'_>) -> Vec<(&'static str, String)> {
    let second = number(slot, 8, 8);
    vec![
        ("command", hex(bits(second, 31, 0))),
        ("status", hex(bits(second, 35, 32))),
        ("rest", hex(bits(second, 63, 36))),
    ]
}

fn legacy_rx(_: &Slots, slot: &[u8], look: &mut Look<'_>) -> Vec<(&'static str, String)> {
    let (first, second) = (number(slot, 0, 8), number(slot, 8, 8));
    let status = bits(second, 39, 32);
    let address = look.labels.of(first);
    if second == 0 {
        // Armed.
        return Vec::new();
    }
    let mut fields = vec![
        ("address", address),
        ("len", bits(second, 15, 0).to_string()),
        ("checksum", hex(bits(second, 31, 16))),
    ];
    let flags: [(&'static str, u32); 8] = [
        ("DD", 0),
        ("EOP", 1),
        ("IXSM", 2),
        ("VP", 3),
        ("UDPCS", 4),
        ("TCPCS", 5),
        ("IPCS", 6),
        ("PIF", 7),
    ];
    for (name, bit) in flags {
        fields.push((name, (status >> bit & 1).to_string()));
    }
    fields.push(("errors", hex(bits(second, 47, 40))));
    fields.push(("special", hex(bits(second, 63, 48))));
    fields
}

/// The 82574's extended write-back (317694 §7.1).
fn extended_rx(_: &Slots, slot: &[u8], _: &mut Look<'_>) -> Vec<(&'static str, String)> {
    let (first, second) = (number(slot, 0, 8), number(slot, 8, 8));
    if second & 1 == 0 {
        // Armed.
        return Vec::new();
    }
    vec![
        ("rss_type", bits(first, 3, 0).to_string()),
        ("queue", bits(first, 12, 8).to_string()),
        ("hash", hex(bits(first, 63, 32))),
        ("status", hex(bits(second, 14, 0))),
        ("ack", bits(second, 15, 15).to_string()),
        ("packet_type", bits(second, 19, 16).to_string()),
        ("errors", hex(bits(second, 31, 20))),
        ("len", bits(second, 47, 32).to_string()),
        ("vlan", hex(bits(second, 63, 48))),
    ]
}

fn advanced_rx(_: &Slots, slot: &[u8], _: &mut Look<'_>) -> Vec<(&'static str, String)> {
    let (first, second) = (number(slot, 0, 8), number(slot, 8, 8));
    if second & 1 == 0 {
        // Armed.
        return Vec::new();
    }
    vec![
        ("rss_type", bits(first, 3, 0).to_string()),
        ("packet_type", hex(bits(first, 16, 4))),
        ("header_len", bits(first, 30, 21).to_string()),
        ("split", bits(first, 31, 31).to_string()),
        ("hash", hex(bits(first, 63, 32))),
        ("status", hex(bits(second, 19, 0))),
        ("errors", hex(bits(second, 31, 20))),
        ("len", bits(second, 47, 32).to_string()),
        ("vlan", hex(bits(second, 63, 48))),
    ]
}
