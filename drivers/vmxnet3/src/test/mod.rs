//! Queues against the other end of their rings, scripted by hand.

mod receive;
mod send;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hugemem::{DmaSpace, Iova, Memory, MemoryRequest, PageSize, Pages, Pool, SimSpace};
use hw::Bar;

use crate::desc::Words;
use crate::plan::{Parts, Shape};
use port::QueueId;

use crate::shared::{Follower, Shared};

/// A window that remembers what was written where.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<(u32, u32)>>>);

impl Writes {
    /// What was written since the last look.
    fn take(&self) -> Vec<(u32, u32)> {
        std::mem::take(&mut *self.0.lock().expect("no test panics with the lock held"))
    }
}

impl Bar for Writes {
    fn len(&self) -> u64 {
        4096
    }
    fn load8(&self, _: u32) -> u8 {
        0
    }
    fn load16(&self, _: u32) -> u16 {
        0
    }
    fn load32(&self, _: u32) -> u32 {
        0
    }
    fn store8(&self, _: u32, _: u8) {}
    fn store16(&self, _: u32, _: u16) {}
    fn store32(&self, offset: u32, value: u32) {
        let mut writes = self.0.lock().expect("no test panics with the lock held");
        writes.push((offset, value));
    }
}

/// One queue of each kind, with its memory and frames.
struct Rig {
    parts: Parts,
    shared: Arc<Shared>,
    space: Arc<SimSpace>,
    pool: Pool,
    bar: Writes,
}

impl Rig {
    /// Rings of `slots`, and `frames` frames of `capacity` bytes.
    fn new(slots: usize, frames: usize, capacity: usize, data: bool) -> Self {
        let shape = Shape {
            rx_queues: 1,
            tx_queues: 1,
            rx_slots: slots,
            tx_slots: slots,
            data_ring: data,
            rx_data_ring: data,
            chain: 4,
            mtu: 1500,
        };
        let space = SimSpace::new();
        let spaces: Vec<Arc<dyn DmaSpace>> = vec![Arc::clone(&space) as _];
        let memory = Memory::new(&MemoryRequest {
            bytes: shape.bytes() + Pool::footprint(frames + 64, capacity),
            pages: Pages::Only(PageSize::Base4K),
            node: None,
            spaces,
        })
        .expect("base pages are always there");
        let parts = shape.carve(&memory).expect("the memory was sized for it");
        parts.clear();
        Self {
            parts,
            shared: Shared::new(1, 1),
            space,
            pool: Pool::new(&memory, frames, capacity).expect("the memory was sized for it"),
            bar: Writes::default(),
        }
    }

    fn follower(&self, queue: QueueId) -> Follower {
        Follower::new(&self.shared, queue)
    }

    /// The bytes that the device finds at an address.
    fn read(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.space
            .translator()
            .read(Iova::from_device(address), &mut bytes)
            .expect("every address in a ring is mapped");
        bytes
    }

    /// Puts `bytes` at an address, as the device does.
    fn write(&self, address: u64, bytes: &[u8]) {
        self.space
            .translator()
            .write(Iova::from_device(address), bytes)
            .expect("every address in a ring is mapped");
    }
}

/// A slot's words.
fn load(slot: &Words) -> (u64, u64) {
    let word = |word: &AtomicU64| u64::from_le(word.load(Ordering::Acquire));
    (word(&slot[0]), word(&slot[1]))
}

fn store(slot: &Words, first: u64, second: u64) {
    slot[0].store(first.to_le(), Ordering::Relaxed);
    slot[1].store(second.to_le(), Ordering::Release);
}

/// The generation bit of the lap in which slot number `count`, counted for ever, is.
fn generation(count: usize, slots: usize) -> u64 {
    u64::from((count / slots).is_multiple_of(2))
}
