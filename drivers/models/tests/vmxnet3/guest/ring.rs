//! Rings as a driver sees them.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use hugemem::{Dma, Memory};

use super::Wish;

/// Bytes from one slot's buffer to the next.
pub(crate) const STRIDE: usize = 4096;

const TX_GEN: u64 = 1 << 14;
pub(crate) const EOP: u64 = 1 << 44;
pub(crate) const CQ: u64 = 1 << 45;
const RX_GEN: u64 = 1 << 31;
pub(crate) const BODY: u64 = 1 << 14;
const COMP_GEN: u64 = 1 << 63;

/// A ring of slots, and the place in it.
pub(crate) struct Ring {
    pub(crate) words: Dma<[AtomicU64; 2]>,
    pub(crate) next: u32,
    /// What the generation bit is on this lap.
    pub(crate) generation: bool,
}

impl Ring {
    fn new(memory: &Memory, size: u32) -> Self {
        Self {
            words: memory.carve(size as usize, 512).unwrap(),
            next: 0,
            generation: true,
        }
    }

    pub(crate) fn size(&self) -> u32 {
        u32::try_from(self.words.len()).unwrap()
    }

    pub(crate) fn advance(&mut self) {
        self.next += 1;
        if self.next == self.size() {
            self.next = 0;
            self.generation = !self.generation;
        }
    }

    /// Writes the next slot, its generation as `handed` says.
    pub(crate) fn write(&mut self, [first, second]: [u64; 2], bit: u64, handed: bool) {
        let slot = &self.words[self.next as usize];
        slot[0].store(first.to_le(), Ordering::Relaxed);
        let generation = if self.generation == handed { bit } else { 0 };
        slot[1].store((second | generation).to_le(), Ordering::Release);
        self.advance();
    }

    /// The completion that comes next.
    fn completion(&mut self) -> Option<[u64; 2]> {
        let slot = &self.words[self.next as usize];
        let second = u64::from_le(slot[1].load(Ordering::Acquire));
        if (second & COMP_GEN != 0) != self.generation {
            return None;
        }
        let first = u64::from_le(slot[0].load(Ordering::Relaxed));
        self.advance();
        Some([first, second])
    }
}

/// Bytes that a device reads or writes.
pub(crate) struct Buffers(pub(crate) Dma<AtomicU8>);

impl Buffers {
    pub(crate) fn new(memory: &Memory, bytes: usize) -> Self {
        Self(memory.carve(bytes, 512).unwrap())
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        for (cell, &byte) in self.0[at..].iter().zip(bytes) {
            cell.store(byte, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self, at: usize, len: usize) -> Vec<u8> {
        let cells = &self.0[at..at + len];
        cells
            .iter()
            .map(|cell| cell.load(Ordering::Relaxed))
            .collect()
    }
}

/// A transmit queue's rings.
pub(crate) struct TxRings {
    pub(crate) ring: Ring,
    pub(crate) completions: Ring,
    pub(crate) buffers: Buffers,
    data: Option<(Buffers, usize)>,
    /// Slots that are not back yet.
    pub(crate) held: u32,
    /// The slot that comes back next.
    oldest: u32,
    /// Last slots of frames that came back.
    pub(crate) completed: Vec<u32>,
}

impl TxRings {
    pub(crate) fn new(memory: &Memory, wish: &Wish) -> Self {
        let size = wish.tx_size;
        let entry = usize::from(wish.tx_data);
        let data = (entry > 0).then(|| (Buffers::new(memory, size as usize * entry), entry));
        Self {
            ring: Ring::new(memory, size),
            completions: Ring::new(memory, size),
            buffers: Buffers::new(memory, size as usize * STRIDE),
            data,
            held: 0,
            oldest: 0,
            completed: Vec::new(),
        }
    }

    pub(super) fn fields(&self) -> Vec<(usize, u64)> {
        let size = u64::from(self.ring.size());
        let mut fields = vec![
            (16, self.ring.words.iova().get()),
            (32, self.completions.words.iova().get()),
            (56, size),
            (64, size),
        ];
        if let Some((data, entry)) = &self.data {
            fields.push((24, data.0.iova().get()));
            fields.push((60, size));
            fields.push((72, (*entry as u64) << 16));
        }
        fields
    }

    pub(crate) fn room(&self) -> u32 {
        self.ring.size() - 1 - self.held
    }

    /// Posts a frame; false if there is no room. Small parts go through the data ring.
    pub(crate) fn post(&mut self, parts: &[&[u8]], offload: u64) -> bool {
        let slots = u32::try_from(parts.len()).unwrap();
        if slots > self.room() {
            return false;
        }
        let first = self.ring.next as usize;
        for (n, part) in parts.iter().enumerate() {
            let slot = self.ring.next as usize;
            let at = match &self.data {
                Some((data, entry)) if part.len() <= *entry => {
                    data.write(slot * entry, part);
                    data.0.iova().get() + (slot * entry) as u64
                }
                _ => {
                    self.buffers.write(slot * STRIDE, part);
                    self.buffers.0.iova().get() + (slot * STRIDE) as u64
                }
            };
            let is_last = n + 1 == parts.len();
            let mut word = part.len() as u64;
            word |= if n == 0 { offload } else { 0 };
            word |= if is_last { EOP | CQ } else { 0 };
            self.ring.write([at, word], TX_GEN, n > 0);
        }
        self.flip(first);
        self.held += slots;
        true
    }

    /// Hands a frame over by turning the generation of its first slot.
    pub(crate) fn flip(&self, first: usize) {
        self.ring.words[first][1].fetch_xor(TX_GEN.to_le(), Ordering::AcqRel);
    }

    /// Writes a slot as it is told, without handing over what lies before.
    pub(crate) fn post_raw(&mut self, at: u64, word: u64, handed: bool) {
        self.ring.write([at, word], TX_GEN, handed);
        self.held += 1;
    }

    pub(crate) fn buffer(&self, slot: u32) -> u64 {
        self.buffers.0.iova().get() + u64::from(slot) * STRIDE as u64
    }

    pub(crate) fn reap(&mut self) {
        while let Some([first, second]) = self.completions.completion() {
            assert_eq!(second & !COMP_GEN, 0, "type 0, and nothing else");
            let last = u32::try_from(first).unwrap();
            self.completed.push(last);
            if last >= self.ring.size() {
                continue;
            }
            while self.held > 0 {
                let slot = self.oldest;
                self.oldest = (slot + 1) % self.ring.size();
                self.held -= 1;
                if slot == last {
                    break;
                }
            }
        }
    }
}

/// One of a receive queue's two rings, with its buffers.
pub(crate) struct Armed {
    pub(crate) ring: Ring,
    pub(crate) buffers: Buffers,
    /// Kind and length of each slot's buffer.
    pub(crate) words: Vec<u64>,
    /// The slot that comes back next.
    oldest: u32,
}

impl Armed {
    fn new(memory: &Memory, words: Vec<u64>) -> Self {
        let size = u32::try_from(words.len()).unwrap();
        Self {
            ring: Ring::new(memory, size),
            buffers: Buffers::new(memory, words.len() * STRIDE),
            words,
            oldest: 0,
        }
    }

    /// Arms all slots that the device does not have, but one.
    pub(crate) fn arm(&mut self) {
        while (self.ring.next + 1) % self.ring.size() != self.oldest {
            self.arm_one();
        }
    }

    pub(crate) fn arm_one(&mut self) {
        let slot = self.ring.next as usize;
        let at = self.buffers.0.iova().get() + (slot * STRIDE) as u64;
        self.ring.write([at, self.words[slot]], RX_GEN, true);
    }
}

/// A received frame.
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    /// Completions: first word and second.
    pub(crate) parts: Vec<[u64; 2]>,
}

impl Received {
    pub(crate) fn last(&self) -> [u64; 2] {
        *self.parts.last().unwrap()
    }

    /// Ring numbers of its parts: 0, 1, and 2 for the data ring.
    pub(crate) fn places(&self, queues: u64) -> Vec<u64> {
        let place = |part: &[u64; 2]| (part[0] >> 16 & 0x3ff) / queues;
        self.parts.iter().map(place).collect()
    }

    pub(crate) fn is_error(&self) -> bool {
        self.last()[1] & 1 << 14 != 0
    }
}

/// A receive queue's rings.
pub(crate) struct RxRings {
    pub(crate) rings: Vec<Armed>,
    pub(crate) completions: Ring,
    data: Option<(Buffers, usize)>,
    index: u64,
    queues: u64,
    /// Completions of a frame whose last one has not come.
    open: Vec<[u64; 2]>,
    bytes: Vec<u8>,
    /// Arms again what came back.
    pub(crate) rearms: bool,
}

impl RxRings {
    pub(crate) fn new(memory: &Memory, wish: &Wish, index: u8) -> Self {
        let per = wish.bodies + 1;
        let body = BODY | u64::from(wish.body);
        let first = (0..wish.rx_size)
            .map(|n| {
                if n % per == 0 {
                    u64::from(wish.head)
                } else {
                    body
                }
            })
            .collect();
        let second = vec![body; wish.rx2_size as usize];
        let entry = usize::from(wish.rx_data);
        let bytes = wish.rx_size as usize * entry;
        let mut rings = vec![Armed::new(memory, first)];
        if !second.is_empty() {
            rings.push(Armed::new(memory, second));
        }
        rings.iter_mut().for_each(Armed::arm);
        Self {
            completions: Ring::new(memory, wish.rx_size + wish.rx2_size),
            rings,
            data: (entry > 0).then(|| (Buffers::new(memory, bytes), entry)),
            index: u64::from(index),
            queues: u64::from(wish.rx),
            open: Vec::new(),
            bytes: Vec::new(),
            rearms: true,
        }
    }

    pub(super) fn fields(&self) -> Vec<(usize, u64)> {
        let mut fields = vec![
            (32, self.completions.words.iova().get()),
            (64, u64::from(self.completions.size())),
        ];
        for (n, armed) in self.rings.iter().enumerate() {
            fields.push((16 + 8 * n, armed.ring.words.iova().get()));
            fields.push((56 + 4 * n, u64::from(armed.ring.size())));
        }
        if let Some((data, entry)) = &self.data {
            fields.push((48, data.0.iova().get()));
            fields.push((72, (*entry as u64) << 16));
        }
        fields
    }

    /// Takes what came in.
    pub(crate) fn receive(&mut self) -> Vec<Received> {
        let mut frames = Vec::new();
        while let Some([first, second]) = self.completions.completion() {
            assert_eq!(second >> 56 & 0x7f, 3, "a receive completion");
            let is_first = first & 1 << 15 != 0;
            assert_eq!(
                is_first,
                self.open.is_empty(),
                "a frame begins when one ended"
            );
            let (queue, slot) = (first >> 16 & 0x3ff, (first & 0xfff) as usize);
            assert_eq!(queue % self.queues, self.index);
            let place = usize::try_from(queue / self.queues).unwrap();
            let len = (second & 0x3fff) as usize;
            let from = match (place, &self.data) {
                (2, Some((data, entry))) => data.read(slot * entry, len),
                _ => self.rings[place].buffers.read(slot * STRIDE, len),
            };
            self.bytes.extend(from);
            self.open.push([first, second]);
            let ring = &mut self.rings[place % 2];
            ring.oldest = u32::try_from(slot + 1).unwrap() % ring.ring.size();
            if first & 1 << 14 != 0 {
                frames.push(Received {
                    bytes: std::mem::take(&mut self.bytes),
                    parts: std::mem::take(&mut self.open),
                });
            }
        }
        if self.rearms {
            self.rings.iter_mut().for_each(Armed::arm);
        }
        frames
    }
}
