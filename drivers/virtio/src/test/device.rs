//! The device's end of a ring, for tests: takes chains, uses them in any order, and objects.

use std::sync::atomic::Ordering;

use hugemem::{Iova, Translator};

use crate::ring::{Format, RingMemory};

/// A chain of buffers that the driver made available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    /// What the driver knows it by.
    pub(crate) id: u16,
    /// Address, length and "the device writes" of each buffer.
    pub(crate) parts: Vec<(u64, u32, bool)>,
    /// Slots that it takes in a packed ring.
    slots: usize,
    at: usize,
}

/// See the module.
pub(crate) struct End {
    memory: RingMemory,
    pub(crate) translator: Translator,
    packed: bool,
    slots: usize,
    /// Available entries taken; slot and wrap counter in a packed ring.
    next: (usize, bool),
    taken: u16,
    /// The same of used entries.
    used: (usize, bool),
    given: u16,
    flying: Vec<u16>,
}

const NEXT: u64 = 1;
const WRITE: u64 = 2;
const INDIRECT: u64 = 4;

impl End {
    pub(crate) fn new(memory: RingMemory, translator: Translator) -> Self {
        Self {
            packed: memory.geometry.format == Format::Packed,
            slots: memory.geometry.slots,
            memory,
            translator,
            next: (0, true),
            taken: 0,
            used: (0, true),
            given: 0,
            flying: Vec::new(),
        }
    }

    fn desc(&self, at: usize) -> [u64; 2] {
        let [a, b] = &self.memory.desc[at];
        [a.load(Ordering::Acquire), b.load(Ordering::Acquire)]
    }

    /// Takes the next chain, if the driver made one available.
    pub(crate) fn take(&mut self) -> Option<Chain> {
        let chain = if self.packed {
            self.take_packed()?
        } else {
            self.take_split()?
        };
        assert!(
            !self.flying.contains(&chain.id),
            "{} is available twice",
            chain.id
        );
        self.flying.push(chain.id);
        assert!(self.flying.len() <= self.slots);
        Some(chain)
    }

    /// Takes all there is.
    pub(crate) fn take_all(&mut self) -> Vec<Chain> {
        std::iter::from_fn(|| self.take()).collect()
    }

    fn take_split(&mut self) -> Option<Chain> {
        let index = self.memory.driver[1].load(Ordering::Acquire);
        if index == self.taken {
            return None;
        }
        assert!(
            usize::from(index.wrapping_sub(self.taken)) <= self.slots,
            "index too far ahead"
        );
        let entry = 2 + usize::from(self.taken) % self.slots;
        let id = self.memory.driver[entry].load(Ordering::Relaxed);
        self.taken = self.taken.wrapping_add(1);
        let mut at = usize::from(id);
        let mut parts = Vec::new();
        loop {
            let [address, rest] = self.desc(at);
            let flags = rest >> 32 & 0xffff;
            let len = (rest & 0xffff_ffff) as u32;
            if flags & INDIRECT != 0 {
                assert!(flags & NEXT == 0 && parts.is_empty());
                parts = self.table(address, len, true);
            } else {
                parts.push((address, len, flags & WRITE != 0));
            }
            if flags & NEXT == 0 {
                break;
            }
            at = (rest >> 48) as usize;
            assert!(parts.len() < self.slots, "a chain that loops");
        }
        Some(Chain {
            id,
            slots: 0,
            at: 0,
            parts,
        })
    }

    fn take_packed(&mut self) -> Option<Chain> {
        let (start, _) = self.next;
        let mut parts = Vec::new();
        let mut slots = 0;
        loop {
            let (at, wrap) = self.next;
            let [address, rest] = self.desc(at);
            let flags = rest >> 48;
            let (avail, used) = (flags & 0x80 != 0, flags & 0x8000 != 0);
            if avail != wrap || used == wrap {
                assert!(slots == 0, "a chain that is only half there");
                return None;
            }
            let len = (rest & 0xffff_ffff) as u32;
            if flags & INDIRECT != 0 {
                assert!(flags & NEXT == 0 && parts.is_empty());
                parts = self.table(address, len, false);
            } else {
                parts.push((address, len, flags & WRITE != 0));
            }
            slots += 1;
            self.next = step(self.next, 1, self.slots);
            if flags & NEXT == 0 {
                let id = (rest >> 32 & 0xffff) as u16;
                return Some(Chain {
                    id,
                    parts,
                    slots,
                    at: start,
                });
            }
        }
    }

    /// The buffers of an indirect table.
    fn table(&mut self, address: u64, table_len: u32, chained: bool) -> Vec<(u64, u32, bool)> {
        assert!(table_len.is_multiple_of(16) && table_len > 0);
        let mut parts = Vec::new();
        for n in 0..u64::from(table_len / 16) {
            let mut bytes = [0; 16];
            let at = Iova::from_device(address + n * 16);
            self.translator
                .read(at, &mut bytes)
                .expect("the table is mapped");
            let address = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let len = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
            let flags = u16::from_le_bytes(bytes[12..14].try_into().unwrap());
            let next = u16::from_le_bytes(bytes[14..].try_into().unwrap());
            if chained {
                let last = n + 1 == u64::from(table_len / 16);
                assert_eq!(flags & 1 == 0, last, "every buffer but the last goes on");
                assert!(last || u64::from(next) == n + 1);
            }
            parts.push((address, len, flags & 2 != 0));
        }
        parts
    }

    /// Uses a chain, of which it wrote `len` bytes.
    pub(crate) fn give(&mut self, chain: &Chain, len: u32) {
        let place = self.flying.iter().position(|&id| id == chain.id);
        self.flying
            .remove(place.expect("a device uses what it has"));
        self.write_used(u32::from(chain.id), len);
        if self.packed {
            self.used = step(self.used, chain.slots, self.slots);
        }
    }

    /// Uses chains that it has in order, with one notice for all.
    pub(crate) fn give_batch(&mut self, chains: &[Chain], len: u32) {
        let last = chains.last().expect("a batch has chains");
        for chain in chains {
            assert_eq!(self.flying.remove(0), chain.id, "a batch is in order");
        }
        if self.packed {
            assert_eq!(chains[0].at, self.used.0);
            self.write_used(u32::from(last.id), len);
            let slots = chains.iter().map(|chain| chain.slots).sum();
            self.used = step(self.used, slots, self.slots);
        } else {
            let at = usize::from(self.given) % self.slots;
            self.write_entry(at, u32::from(last.id), len);
            self.given = self
                .given
                .wrapping_add(u16::try_from(chains.len()).unwrap());
            self.memory.device[1].store(self.given, Ordering::Release);
        }
    }

    /// Says that buffer `id` was used, true or not.
    pub(crate) fn write_used(&mut self, id: u32, len: u32) {
        if self.packed {
            let (at, wrap) = self.used;
            let marks: u64 = if wrap { 0x8080 } else { 0 };
            let rest = u64::from(len) | u64::from(id & 0xffff) << 32 | marks << 48;
            self.memory.desc[at][1].store(rest, Ordering::Release);
        } else {
            self.write_entry(usize::from(self.given) % self.slots, id, len);
            self.given = self.given.wrapping_add(1);
            self.memory.device[1].store(self.given, Ordering::Release);
        }
    }

    fn write_entry(&mut self, at: usize, id: u32, len: u32) {
        for (n, word) in [id, len].into_iter().enumerate() {
            let [a, b, c, d] = word.to_le_bytes();
            let place = 2 + at * 4 + n * 2;
            self.memory.device[place].store(u16::from_le_bytes([a, b]), Ordering::Relaxed);
            self.memory.device[place + 1].store(u16::from_le_bytes([c, d]), Ordering::Relaxed);
        }
    }

    /// Moves the used index of a split ring to wherever it is told.
    pub(crate) fn set_used_index(&mut self, index: u16) {
        self.memory.device[1].store(index, Ordering::Release);
    }

    /// Wants to be told of new buffers, or not.
    pub(crate) fn want_notifications(&mut self, on: bool) {
        let word = if self.packed { 1 } else { 0 };
        self.memory.device[word].store(u16::from(!on), Ordering::Relaxed);
    }

    /// Whether the driver suppresses interrupts.
    pub(crate) fn driver_is_silent(&self) -> bool {
        let word = if self.packed { 1 } else { 0 };
        self.memory.driver[word].load(Ordering::Relaxed) == 1
    }

    /// The bytes of a chain that the device reads.
    pub(crate) fn read(&mut self, chain: &Chain) -> Vec<u8> {
        let mut all = Vec::new();
        for &(address, len, write) in &chain.parts {
            assert!(!write, "a sent frame is read");
            let mut bytes = vec![0; len as usize];
            let at = Iova::from_device(address);
            self.translator
                .read(at, &mut bytes)
                .expect("the frame is mapped");
            all.extend(bytes);
        }
        all
    }

    /// Writes `bytes` to a chain's only buffer; as many as fit.
    pub(crate) fn write(&mut self, chain: &Chain, bytes: &[u8]) -> u32 {
        let [(address, len, true)] = chain.parts[..] else {
            panic!("one buffer to write")
        };
        let fits = bytes.len().min(len as usize);
        let at = Iova::from_device(address);
        self.translator
            .write(at, &bytes[..fits])
            .expect("the frame is mapped");
        u32::try_from(fits).unwrap()
    }
}

fn step((at, wrap): (usize, bool), slots: usize, size: usize) -> (usize, bool) {
    if at + slots >= size {
        (at + slots - size, !wrap)
    } else {
        (at + slots, wrap)
    }
}
