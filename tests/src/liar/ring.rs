//! The device's side of a ring, by hand: first honest, then not.
//!
//! Split rings: virtio 1.2 §2.7; packed rings: §2.8. Plain reads and writes of the driver's
//! memory, with nothing checked: it is the driver that is on trial.

use std::sync::atomic::Ordering;

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::RingLie;

/// Bytes of the header before each frame.
const HEADER: usize = 12;
/// The chain goes on.
const NEXT: u16 = 1;
/// Packed rings: toggled by the driver, and by the device.
const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;

/// A ring, as the driver's messages describe it.
#[derive(Debug, Default)]
pub(super) struct Ring {
    pub(super) packed: bool,
    pub(super) size: u16,
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
    /// Kicked, and not stopped.
    pub(super) started: bool,
    pub(super) enabled: bool,
    next_available: u16,
    next_used: u16,
    wrap: bool,
    lied: bool,
}

/// A chain that the driver made available.
#[derive(Debug, Clone, Copy)]
struct Chain {
    /// Split: its head's index. Packed: the buffer id.
    id: u16,
    /// Packed: where it starts, and how many slots it takes.
    at: u16,
    slots: u16,
    /// Its first buffer.
    address: u64,
    len: u32,
}

impl Ring {
    /// Starts from the beginning, with the base that the driver set.
    pub(super) fn set_base(&mut self, base: u32) {
        let low = u16::try_from(base & 0xffff).unwrap_or(0);
        (self.next_available, self.next_used) = (low & 0x7fff, 0);
        self.wrap = !self.packed || base & 0x8000 != 0;
        self.lied = false;
    }

    /// Where it stopped, for the driver.
    pub(super) fn base(&self) -> u32 {
        let wrap = if self.packed {
            u32::from(self.wrap) << 15
        } else {
            0
        };
        u32::from(self.next_available) | wrap
    }

    pub(super) fn runs(&self) -> bool {
        self.started && self.enabled && self.size > 0
    }

    /// Uses all that is available, as a sink does; how many chains.
    pub(super) fn sink(&mut self, memory: &GuestMemoryMmap, most: u64) -> u64 {
        let mut taken = 0;
        while taken < most
            && let Some(chain) = self.take(memory)
        {
            self.give_back(memory, chain, u32::from(chain.id), 0);
            taken += 1;
        }
        taken
    }

    /// Receives one frame of `len` bytes into the next buffer, honestly; false if there is none.
    pub(super) fn source(&mut self, memory: &GuestMemoryMmap, len: usize) -> bool {
        let Some(chain) = self.take(memory) else {
            return false;
        };
        self.fill(memory, chain, 1, len);
        let written = u32::try_from(HEADER + len).unwrap_or(0);
        self.give_back(memory, chain, u32::from(chain.id), written);
        true
    }

    /// Tells one lie, if it can be told now and was not told yet; true if it was told.
    pub(super) fn tell(&mut self, memory: &GuestMemoryMmap, lie: RingLie) -> bool {
        if let RingLie::Scribble { seed } = lie {
            self.scribble(memory, seed);
            return true;
        }
        if self.lied || lie == RingLie::NeverUses {
            return self.lied;
        }
        if lie == RingLie::UsesWhatIsNotAvailable {
            self.lied = true;
            self.use_everything(memory);
            return true;
        }
        let Some(chain) = self.take(memory) else {
            return false;
        };
        self.lied = true;
        let id = u32::from(chain.id);
        let frame = 60;
        let honest = u32::try_from(HEADER + frame).unwrap_or(0);
        match lie {
            RingLie::IdOutOfRange => self.give_back(memory, chain, 0xffff_ffff, honest),
            RingLie::IdJustOutOfRange => {
                self.give_back(memory, chain, u32::from(self.size), honest);
            }
            RingLie::IdTwice => {
                self.fill(memory, chain, 1, frame);
                self.give_back(memory, chain, id, honest);
                // The second time in the place of the next chain, if there is one.
                let next = self.take(memory).unwrap_or(chain);
                self.give_back(memory, next, id, honest);
            }
            RingLie::Length(len) => {
                self.fill(memory, chain, 1, frame);
                self.give_back(memory, chain, id, len);
            }
            RingLie::Buffers(count) => {
                self.fill(memory, chain, count, frame);
                self.give_back(memory, chain, id, honest);
            }
            RingLie::UsesWhatIsNotAvailable | RingLie::NeverUses | RingLie::Scribble { .. } => {}
        }
        true
    }

    /// The next chain that the driver made available.
    fn take(&mut self, memory: &GuestMemoryMmap) -> Option<Chain> {
        if self.packed {
            return self.take_packed(memory);
        }
        let index: u16 = load(memory, self.available + 2);
        if index == self.next_available {
            return None;
        }
        let at = u64::from(self.next_available % self.size);
        let id: u16 = load(memory, self.available + 4 + 2 * at);
        self.next_available = self.next_available.wrapping_add(1);
        let slot = self.descriptors + 16 * u64::from(id % self.size);
        Some(Chain {
            id,
            at: 0,
            slots: 1,
            address: load(memory, slot),
            len: load(memory, slot + 8),
        })
    }

    fn take_packed(&mut self, memory: &GuestMemoryMmap) -> Option<Chain> {
        let at = self.next_available % self.size;
        let slot = |number: u16| self.descriptors + 16 * u64::from(number % self.size);
        let mut flags: u16 = load(memory, slot(at) + 14);
        let is_available = (flags & AVAIL != 0) == self.wrap && (flags & USED != 0) != self.wrap;
        if !is_available {
            return None;
        }
        let mut slots = 1;
        while flags & NEXT != 0 && slots < self.size {
            flags = load(memory, slot(at + slots) + 14);
            slots += 1;
        }
        let chain = Chain {
            id: load(memory, slot(at + slots - 1) + 12),
            at,
            slots,
            address: load(memory, slot(at)),
            len: load(memory, slot(at) + 8),
        };
        self.next_available = at + slots;
        Some(chain)
    }

    /// Marks `chain` as used, under the name `id` and with `len` bytes written.
    fn give_back(&mut self, memory: &GuestMemoryMmap, chain: Chain, id: u32, len: u32) {
        if !self.packed {
            let slot = self.used + 4 + 8 * u64::from(self.next_used % self.size);
            store(memory, slot, id);
            store(memory, slot + 4, len);
            self.next_used = self.next_used.wrapping_add(1);
            store(memory, self.used + 2, self.next_used);
            return;
        }
        let slot = self.descriptors + 16 * u64::from(chain.at);
        store(memory, slot + 8, len);
        store(memory, slot + 12, u16::try_from(id & 0xffff).unwrap_or(0));
        store(
            memory,
            slot + 14,
            if self.wrap { AVAIL | USED } else { 0_u16 },
        );
        if self.next_available >= self.size {
            self.next_available -= self.size;
            self.wrap = !self.wrap;
        }
        let _ = chain.slots;
    }

    /// Writes a header that says `buffers`, and a frame of `len` bytes, into the first buffer.
    fn fill(&self, memory: &GuestMemoryMmap, chain: Chain, buffers: u16, len: usize) {
        let mut bytes = vec![0xab; HEADER + len];
        bytes[..10].fill(0);
        bytes[10..12].copy_from_slice(&buffers.to_le_bytes());
        bytes.truncate(chain.len as usize);
        // A bad address is the driver's fault, and shows when it finds the frame empty.
        let _ = memory.write_slice(&bytes, GuestAddress(chain.address));
    }

    /// Claims to have used more than there ever was.
    fn use_everything(&mut self, memory: &GuestMemoryMmap) {
        if !self.packed {
            let index: u16 = load(memory, self.available + 2);
            store(
                memory,
                self.used + 2,
                index.wrapping_add(self.size).wrapping_add(1),
            );
            return;
        }
        for number in 0..self.size {
            let slot = self.descriptors + 16 * u64::from(number);
            store(
                memory,
                slot + 14,
                if self.wrap { AVAIL | USED } else { 0_u16 },
            );
        }
    }

    /// Writes noise over all that a device may write, and over the descriptors too.
    fn scribble(&self, memory: &GuestMemoryMmap, seed: u64) {
        let mut random = SmallRng::seed_from_u64(seed);
        let size = u64::from(self.size);
        let mut noise = |first: u64, bytes: u64| {
            for _ in 0..64 {
                let at = first + 2 * random.random_range(0..bytes / 2);
                let value = u16::try_from(random.next_u32() & 0xffff).unwrap_or(0);
                // Half of it near zero, where indices and ids are.
                let value = if random.random() { value } else { value & 0xff };
                store(memory, at, value);
            }
        };
        noise(self.descriptors, 16 * size);
        if !self.packed {
            noise(self.used, 4 + 8 * size);
        }
    }
}

fn load<T: vm_memory::AtomicAccess + Default>(memory: &GuestMemoryMmap, at: u64) -> T {
    let loaded = memory.load(GuestAddress(at), Ordering::Acquire);
    loaded.unwrap_or_default()
}

fn store<T: vm_memory::AtomicAccess>(memory: &GuestMemoryMmap, at: u64, value: T) {
    let _ = memory.store(value, GuestAddress(at), Ordering::Release);
}
