//! Virtqueues (virtio 1.2 §2.7, §2.8), found through the common configuration of the PCI
//! transport (§4.1.4.3).

use std::collections::BTreeMap;

use hugemem::Translator;

use super::{Look, Rings, Slots, hex, number, peek};

/// Bytes of the header before a frame (§5.1.6).
const HEADER: usize = 12;
/// The queue of a device with one pair that is for commands (§5.1.2).
const CONTROL: u16 = 2;

#[derive(Default, Clone, Copy)]
struct Queue {
    size: u32,
    /// Descriptors, what the driver writes, what the device writes.
    areas: [u64; 3],
}

/// A virtio-net device with one pair of queues.
pub struct Virtio {
    packed: bool,
    /// Structures: kind, BAR, first byte, bytes.
    structures: Vec<(u8, u8, u32, u32)>,
    selected: u16,
    queues: BTreeMap<u16, Queue>,
}

impl Virtio {
    /// One with packed or split rings.
    #[must_use]
    pub fn new(packed: bool) -> Self {
        Self {
            packed,
            structures: Vec::new(),
            selected: 0,
            queues: BTreeMap::new(),
        }
    }

    /// The structure that `offset` of `bar` lies in: its kind, and where in it.
    fn structure(&self, bar: u8, offset: u32) -> Option<(u8, u32)> {
        let holds = |&&(_, of, first, len): &&(u8, u8, u32, u32)| {
            of == bar && (first..first.saturating_add(len)).contains(&offset)
        };
        let &(kind, _, first, _) = self.structures.iter().find(holds)?;
        Some((kind, offset - first))
    }

    fn split(&self, name: &str, number: u16, queue: Queue) -> [Slots; 3] {
        let [table, _, used] = queue.areas;
        let part = |what: &str, base, count, bytes, say| Slots {
            name: format!("{name} {what}"),
            base,
            count,
            bytes,
            say,
            aside: if number == 0 { table } else { 0 },
        };
        [
            part("used", used + 4, queue.size, 8, used_element),
            part("used index", used, 1, 4, used_index),
            part(
                "avail_event",
                used + 4 + 8 * u64::from(queue.size),
                1,
                2,
                event,
            ),
        ]
    }

    fn packed(&self, name: &str, number: u16, queue: Queue) -> [Slots; 2] {
        let [ring, _, device] = queue.areas;
        let part = |what: &str, base, count, bytes, say| Slots {
            name: format!("{name} {what}"),
            base,
            count,
            bytes,
            say,
            aside: u64::from(number == 0),
        };
        [
            part("ring", ring, queue.size, 16, descriptor),
            part("device event", device, 1, 4, event),
        ]
    }
}

impl Rings for Virtio {
    fn met(&mut self, config: &dyn Fn(u16) -> u32) {
        let byte = |at: u16| {
            let word = config(at & !3);
            number(&word.to_le_bytes(), usize::from(at & 3), 1)
        };
        let mut at = u16::try_from(byte(0x34)).unwrap_or(0) & !3;
        for _ in 0..48 {
            if at < 0x40 {
                break;
            }
            if byte(at) == 0x09 {
                let kind = u8::try_from(byte(at + 3)).unwrap_or(0);
                let bar = u8::try_from(byte(at + 4)).unwrap_or(0);
                let known = self.structures.iter().any(|found| found.0 == kind);
                // Kind 5 is a window into the others.
                if kind < 5 && !known {
                    self.structures
                        .push((kind, bar, config(at + 8), config(at + 12)));
                }
            }
            at = u16::try_from(byte(at + 1)).unwrap_or(0) & !3;
        }
    }

    fn written(&mut self, bar: u8, offset: u32, value: u32) {
        let Some((1, at)) = self.structure(bar, offset) else {
            return;
        };
        let queue = self.queues.entry(self.selected).or_default();
        match at {
            0x14 if value == 0 => self.queues.clear(),
            0x16 => self.selected = u16::try_from(value).unwrap_or(0),
            0x18 => queue.size = value,
            0x20..0x38 => {
                let area = &mut queue.areas[usize::try_from((at - 0x20) / 8).unwrap_or(0)];
                let shift = (at & 4) * 8;
                *area = *area & !(0xffff_ffff << shift) | u64::from(value) << shift;
            }
            _ => {}
        }
    }

    fn is_address(&self, bar: u8, offset: u32) -> bool {
        matches!(self.structure(bar, offset), Some((1, 0x20..0x38)))
    }

    fn place(&self, bar: u8, offset: u32) -> String {
        match self.structure(bar, offset) {
            Some((1, at)) => format!("common+{at:#x}"),
            Some((2, _)) => "notify".to_owned(),
            Some((3, at)) => format!("isr+{at:#x}"),
            Some((4, at)) => format!("net+{at:#x}"),
            _ => format!("{bar}:{offset:#x}"),
        }
    }

    fn list(&mut self, _memory: &mut Translator) -> Vec<Slots> {
        let mut found = Vec::new();
        for (&number, &queue) in &self.queues {
            if queue.areas[0] == 0 {
                continue;
            }
            let name = match number {
                0 => "rx".to_owned(),
                1 => "tx".to_owned(),
                CONTROL => "control".to_owned(),
                other => format!("queue {other}"),
            };
            if self.packed {
                found.extend(self.packed(&name, number, queue));
            } else {
                found.extend(self.split(&name, number, queue));
            }
        }
        found
    }
}

/// What the header of a received frame says (§5.1.6).
fn header(address: u64, look: &mut Look<'_>) -> String {
    let bytes = peek(look.memory, address, HEADER);
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

fn used_element(ring: &Slots, slot: &[u8], look: &mut Look<'_>) -> Vec<(&'static str, String)> {
    let (id, len) = (number(slot, 0, 4), number(slot, 4, 4));
    let mut fields = vec![("id", id.to_string()), ("len", len.to_string())];
    if ring.aside != 0 {
        let entry = peek(look.memory, ring.aside + id * 16, 16);
        fields.push(("header", header(number(&entry, 0, 8), look)));
    }
    fields
}

fn used_index(_: &Slots, slot: &[u8], _: &mut Look<'_>) -> Vec<(&'static str, String)> {
    vec![
        ("flags", hex(number(slot, 0, 2))),
        ("idx", number(slot, 2, 2).to_string()),
    ]
}

fn event(_: &Slots, slot: &[u8], _: &mut Look<'_>) -> Vec<(&'static str, String)> {
    vec![
        ("first", hex(number(slot, 0, 2))),
        ("second", hex(number(slot, 2, 2))),
    ]
}

fn descriptor(ring: &Slots, slot: &[u8], look: &mut Look<'_>) -> Vec<(&'static str, String)> {
    let flags = number(slot, 14, 2);
    let is_used = flags >> 7 & 1 == flags >> 15 & 1;
    if !is_used {
        // The driver's own.
        return Vec::new();
    }
    let mut fields = vec![
        ("id", number(slot, 12, 2).to_string()),
        ("len", number(slot, 8, 4).to_string()),
        ("flags", hex(flags)),
    ];
    if ring.aside != 0 {
        fields.push(("header", header(number(slot, 0, 8), look)));
    }
    fields
}
