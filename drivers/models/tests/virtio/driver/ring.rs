//! Rings from the driver's side.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use hugemem::{Dma, Memory};

use super::{EVENT_IDX, IN_ORDER, PACKED};

/// A buffer to post.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) iova: u64,
    pub(crate) len: u32,
    pub(crate) flags: u16,
}

impl Part {
    pub(crate) fn read(iova: u64, len: u32) -> Self {
        Self {
            iova,
            len,
            flags: 0,
        }
    }

    pub(crate) fn write(iova: u64, len: u32) -> Self {
        Self {
            iova,
            len,
            flags: 2,
        }
    }
}

struct InFlight {
    id: u16,
    slots: u16,
    tag: usize,
}

pub(crate) enum Kind {
    Split {
        table: Dma<[AtomicU64; 2]>,
        avail: Dma<AtomicU16>,
        used_head: Dma<AtomicU16>,
        used: Dma<AtomicU32>,
        avail_event: Dma<AtomicU16>,
        posted: u16,
        reaped: u16,
    },
    Packed {
        ring: Dma<[AtomicU64; 2]>,
        driver: Dma<AtomicU16>,
        device: Dma<AtomicU16>,
        wrap: bool,
        used: u16,
        used_wrap: bool,
        next_id: u16,
    },
}

/// A ring as its driver has it. Descriptors are taken in ring order, always.
pub(crate) struct Ring {
    pub(crate) index: u16,
    pub(crate) size: u16,
    pub(crate) kind: Kind,
    /// Where the next descriptor goes.
    pub(crate) at: u16,
    in_order: bool,
    event_idx: bool,
    in_flight: VecDeque<InFlight>,
    used_slots: u16,
    /// What was posted when doorbells were last thought of.
    told: u16,
}

impl Ring {
    pub(crate) fn new(memory: &Memory, index: u16, size: u16, features: u64) -> Self {
        let count = usize::from(size);
        let kind = if features & PACKED != 0 {
            let driver = memory.carve::<AtomicU16>(2, 4).unwrap();
            // No interrupts.
            driver[1].store(1, Ordering::Relaxed);
            Kind::Packed {
                ring: memory.carve(count, 16).unwrap(),
                driver,
                device: memory.carve(2, 4).unwrap(),
                wrap: true,
                used: 0,
                used_wrap: true,
                next_id: 0,
            }
        } else {
            let used = memory.carve::<AtomicU16>(4 * count + 3, 4).unwrap();
            Self::split(
                memory.carve(count, 16).unwrap(),
                memory.carve(count + 3, 2).unwrap(),
                &used,
                count,
            )
        };
        Self::with_kind(kind, index, size, features)
    }

    /// The legacy layout: one stretch, the used ring on a page of its own.
    pub(crate) fn legacy(memory: &Memory, index: u16, size: u16, features: u64) -> Self {
        let count = usize::from(size);
        let avail = 16 * count;
        let used = (avail + 6 + 2 * count).next_multiple_of(4096);
        let all = memory
            .carve::<AtomicU16>((used + 6 + 8 * count) / 2, 4096)
            .unwrap();
        let kind = Self::split(
            all.view(0, count),
            all.view(avail, count + 3),
            &all.view(used, 4 * count + 3),
            count,
        );
        Self::with_kind(kind, index, size, features)
    }

    fn split(
        table: Dma<[AtomicU64; 2]>,
        avail: Dma<AtomicU16>,
        used: &Dma<AtomicU16>,
        count: usize,
    ) -> Kind {
        avail[0].store(1, Ordering::Relaxed);
        Kind::Split {
            table,
            avail,
            used_head: used.part(0..2),
            used: used.view(4, 2 * count),
            avail_event: used.part(2 + 4 * count..3 + 4 * count),
            posted: 0,
            reaped: 0,
        }
    }

    fn with_kind(kind: Kind, index: u16, size: u16, features: u64) -> Self {
        Self {
            index,
            size,
            kind,
            at: 0,
            in_order: features & IN_ORDER != 0,
            event_idx: features & EVENT_IDX != 0,
            in_flight: VecDeque::new(),
            used_slots: 0,
            told: 0,
        }
    }

    pub(crate) fn addresses(&self) -> [u64; 3] {
        match &self.kind {
            Kind::Split {
                table,
                avail,
                used_head,
                ..
            } => [
                table.iova().get(),
                avail.iova().get(),
                used_head.iova().get(),
            ],
            Kind::Packed {
                ring,
                driver,
                device,
                ..
            } => [ring.iova().get(), driver.iova().get(), device.iova().get()],
        }
    }

    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.kind, Kind::Packed { .. })
    }

    pub(crate) fn free(&self) -> u16 {
        self.size - self.used_slots
    }

    pub(crate) fn post_table(&mut self, table: &(u64, u32, Dma<[AtomicU64; 2]>), tag: usize) {
        let part = Part {
            iova: table.0,
            len: table.1,
            flags: 4,
        };
        self.post(&[part], tag);
    }

    /// Posts buffers as one chain.
    pub(crate) fn post(&mut self, parts: &[Part], tag: usize) {
        let slots = u16::try_from(parts.len()).unwrap();
        assert!(slots <= self.free());
        let head = self.at;
        let id = match &mut self.kind {
            Kind::Split {
                table,
                avail,
                posted,
                ..
            } => {
                for (n, part) in parts.iter().enumerate() {
                    let at = (usize::from(head) + n) % table.len();
                    let more = n + 1 < parts.len();
                    let next = if more { (at + 1) % table.len() } else { 0 };
                    let flags = part.flags | u16::from(more);
                    let rest = u64::from(part.len)
                        | u64::from(flags) << 32
                        | u64::try_from(next).unwrap() << 48;
                    table[at][0].store(part.iova, Ordering::Relaxed);
                    table[at][1].store(rest, Ordering::Relaxed);
                }
                let slot = usize::from(*posted) % table.len();
                avail[2 + slot].store(head, Ordering::Relaxed);
                *posted = posted.wrapping_add(1);
                avail[1].store(*posted, Ordering::Release);
                self.at = (head + slots) % self.size;
                head
            }
            Kind::Packed {
                ring,
                wrap,
                next_id,
                ..
            } => {
                let id = *next_id;
                *next_id = (id + 1) % self.size;
                let mut words = Vec::new();
                let mut lap = *wrap;
                for (n, part) in parts.iter().enumerate() {
                    let at = (usize::from(head) + n) % ring.len();
                    if n > 0 && at == 0 {
                        lap = !lap;
                    }
                    let more = u16::from(n + 1 < parts.len());
                    let turn = if lap { 1 << 7 } else { 1 << 15 };
                    let flags = part.flags | more | turn;
                    let word = u64::from(part.len) | u64::from(id) << 32 | u64::from(flags) << 48;
                    ring[at][0].store(part.iova, Ordering::Relaxed);
                    words.push((at, word));
                }
                // The first one last.
                for (at, word) in words.into_iter().rev() {
                    ring[at][1].store(word, Ordering::Release);
                }
                self.at = head + slots;
                if self.at >= self.size {
                    self.at -= self.size;
                    *wrap = !*wrap;
                }
                id
            }
        };
        self.used_slots += slots;
        self.in_flight.push_back(InFlight { id, slots, tag });
    }

    /// What the device has used: tags and lengths.
    pub(crate) fn reap(&mut self) -> Vec<(usize, u32)> {
        let mut done = Vec::new();
        while let Some((id, len)) = self.next_used() {
            let mut slots = 0;
            let mut chains = 0;
            loop {
                let position = if self.in_order {
                    0
                } else {
                    let find = |flight: &InFlight| flight.id == id;
                    self.in_flight.iter().position(find).expect("a known id")
                };
                let flight = self.in_flight.remove(position).expect("a known id");
                slots += flight.slots;
                chains += 1;
                done.push((flight.tag, len));
                if flight.id == id {
                    break;
                }
            }
            self.used_slots -= slots;
            match &mut self.kind {
                Kind::Split { reaped, .. } => *reaped = reaped.wrapping_add(chains),
                Kind::Packed {
                    used, used_wrap, ..
                } => {
                    *used += slots;
                    if *used >= self.size {
                        *used -= self.size;
                        *used_wrap = !*used_wrap;
                    }
                }
            }
        }
        done
    }

    /// The next used entry, still there.
    pub(crate) fn next_used(&self) -> Option<(u16, u32)> {
        match &self.kind {
            Kind::Split {
                used_head,
                used,
                reaped,
                ..
            } => {
                if used_head[1].load(Ordering::Acquire) == *reaped {
                    return None;
                }
                let slot = usize::from(*reaped % self.size) * 2;
                let id = used[slot].load(Ordering::Relaxed);
                Some((
                    u16::try_from(id).unwrap(),
                    used[slot + 1].load(Ordering::Relaxed),
                ))
            }
            Kind::Packed {
                ring,
                used,
                used_wrap,
                ..
            } => {
                let word = ring[usize::from(*used)][1].load(Ordering::Acquire);
                let turn = if *used_wrap { 0x8080 } else { 0 };
                (word >> 48 & 0x8080 == turn).then(|| {
                    // WRITE says that something was written (virtio 1.2 §2.8.10).
                    let written = word >> 49 & 1 == 1;
                    assert_eq!(written, word & 0xffff_ffff > 0);
                    (
                        u16::try_from(word >> 32 & 0xffff).unwrap(),
                        u32::try_from(word & 0xffff_ffff).unwrap(),
                    )
                })
            }
        }
    }

    /// True if the device wants its doorbell rung for what was posted since the last call.
    pub(crate) fn wants_kick(&mut self) -> bool {
        fence(Ordering::SeqCst);
        match &self.kind {
            Kind::Split {
                used_head,
                avail_event,
                posted,
                ..
            } => {
                let old = std::mem::replace(&mut self.told, *posted);
                if self.event_idx {
                    let event = avail_event[0].load(Ordering::Relaxed);
                    let since = posted.wrapping_sub(event).wrapping_sub(1);
                    return since < posted.wrapping_sub(old);
                }
                used_head[0].load(Ordering::Relaxed) & 1 == 0
            }
            Kind::Packed { device, .. } => device[1].load(Ordering::Relaxed) != 1,
        }
    }

    /// A word of the first descriptor of the ring, to spoil.
    pub(crate) fn descriptor(&self, at: usize) -> &[AtomicU64; 2] {
        match &self.kind {
            Kind::Split { table, .. } => &table[at],
            Kind::Packed { ring, .. } => &ring[at],
        }
    }
}

/// A table of descriptors outside the ring: address, bytes, and what keeps it.
pub(crate) fn table(
    memory: &Memory,
    parts: &[Part],
    packed: bool,
) -> (u64, u32, Dma<[AtomicU64; 2]>) {
    let table = memory.carve::<[AtomicU64; 2]>(parts.len(), 16).unwrap();
    for (n, part) in parts.iter().enumerate() {
        let more = n + 1 < parts.len();
        let rest = if packed {
            u64::from(part.flags) << 48
        } else {
            let next = if more { n as u64 + 1 } else { 0 };
            u64::from(part.flags | u16::from(more)) << 32 | next << 48
        };
        table[n][0].store(part.iova, Ordering::Relaxed);
        table[n][1].store(u64::from(part.len) | rest, Ordering::Relaxed);
    }
    let len = u32::try_from(parts.len() * 16).unwrap();
    (table.iova().get(), len, table)
}
