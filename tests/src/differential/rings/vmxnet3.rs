//! Rings of vmxnet3: found through the shared area, whose address two registers of BAR 1 take
//! (Linux `drivers/net/vmxnet3/vmxnet3_defs.h`: `Vmxnet3_DriverShared`, `Vmxnet3_TxQueueDesc`,
//! `Vmxnet3_RxQueueDesc`, `Vmxnet3_TxCompDesc`, `Vmxnet3_RxCompDesc`). The device writes nothing
//! but completions.

use hugemem::Translator;

use super::{Look, Rings, Say, Slots, bits, hex, number, peek};

/// Bytes of a queue's descriptor.
const QUEUE: u64 = 256;

/// A vmxnet3.
#[derive(Default)]
pub struct Vmxnet3 {
    /// The shared area's address, as written.
    low: u32,
    high: u32,
}

impl Rings for Vmxnet3 {
    fn written(&mut self, bar: u8, offset: u32, value: u32) {
        match (bar, offset) {
            (1, 0x10) => self.low = value,
            (1, 0x18) => self.high = value,
            _ => {}
        }
    }

    fn is_address(&self, bar: u8, offset: u32) -> bool {
        bar == 1 && (offset == 0x10 || offset == 0x18)
    }

    fn place(&self, bar: u8, offset: u32) -> String {
        let names = [
            "VRRS", "UVRS", "DSAL", "DSAH", "CMD", "MACL", "MACH", "ICR", "ECR",
        ];
        let name = usize::try_from(offset / 8)
            .ok()
            .and_then(|at| names.get(at));
        match (bar, offset, name) {
            (1, _, Some(name)) => (*name).to_owned(),
            (0, 0..0x600, _) => format!("IMR{}", offset / 8),
            (0, 0x600..0x800, _) => format!("TXPROD{}", (offset - 0x600) / 8),
            (0, 0x800..0xa00, _) => format!("RXPROD{}", (offset - 0x800) / 8),
            (0, 0xa00..0xc00, _) => format!("RXPROD2_{}", (offset - 0xa00) / 8),
            _ => format!("{bar}:{offset:#x}"),
        }
    }

    fn list(&mut self, memory: &mut Translator) -> Vec<Slots> {
        if self.low == 0 {
            return Vec::new();
        }
        let area = u64::from(self.low) | u64::from(self.high) << 32;
        let shared = peek(memory, area, 64);
        let queues = number(&shared, 40, 8);
        let (senders, receivers) = (number(&shared, 62, 1), number(&shared, 63, 1));
        let mut found = Vec::new();
        let kinds: [(&str, u64, u64, Say); 2] = [
            ("tx", 0, senders, sent),
            ("rx", senders, receivers, received),
        ];
        for (name, first, count, say) in kinds {
            for queue in 0..count {
                let descriptor = peek(memory, queues + (first + queue) * QUEUE, 128);
                found.push(Slots {
                    name: format!("{name}{queue}"),
                    base: number(&descriptor, 32, 8),
                    count: u32::try_from(number(&descriptor, 64, 4)).unwrap_or(0),
                    bytes: 16,
                    say,
                    aside: 0,
                });
            }
        }
        found
    }
}

fn sent(_: &Slots, slot: &[u8], _: &mut Look<'_>) -> Vec<(&'static str, String)> {
    let word = |at| number(slot, at, 4);
    vec![
        ("slot", bits(word(0), 11, 0).to_string()),
        ("reserved", hex(bits(word(0), 31, 12))),
        ("second", hex(word(4))),
        ("third", hex(word(8))),
        ("type", bits(word(12), 30, 24).to_string()),
        ("gen", bits(word(12), 31, 31).to_string()),
        ("fourth", hex(bits(word(12), 23, 0))),
    ]
}

fn received(_: &Slots, slot: &[u8], _: &mut Look<'_>) -> Vec<(&'static str, String)> {
    let word = |at| number(slot, at, 4);
    let (one, two, three, four) = (word(0), word(4), word(8), word(12));
    let bit = |word: u64, at: u32| bits(word, at, at).to_string();
    vec![
        ("slot", bits(one, 11, 0).to_string()),
        ("eop", bit(one, 14)),
        ("sop", bit(one, 15)),
        ("rqid", bits(one, 25, 16).to_string()),
        ("rss_type", bits(one, 29, 26).to_string()),
        ("cnc", bit(one, 30)),
        ("hash", hex(two)),
        ("len", bits(three, 13, 0).to_string()),
        ("err", bit(three, 14)),
        ("ts", bit(three, 15)),
        ("tci", hex(bits(three, 31, 16))),
        ("csum", hex(bits(four, 15, 0))),
        ("tuc", bit(four, 16)),
        ("udp", bit(four, 17)),
        ("tcp", bit(four, 18)),
        ("ipc", bit(four, 19)),
        ("v6", bit(four, 20)),
        ("v4", bit(four, 21)),
        ("frg", bit(four, 22)),
        ("fcs", bit(four, 23)),
        ("type", bits(four, 30, 24).to_string()),
        ("gen", bit(four, 31)),
    ]
}
