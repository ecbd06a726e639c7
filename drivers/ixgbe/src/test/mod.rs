//! The driver's parts against hand-made ends: rings in memory whose device is the test, and
//! registers that are a script.

mod mailbox;
mod receive;
mod send;
mod totals;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use hugemem::{Burst, Dma, Frame, Memory, MemoryRequest, Pages, Pool, SimSpace};
use hw::Bar;
use hw::mmio::Reg;

use crate::desc::Words;
use crate::ring::{Ring, Slot};
use port::QueueId;

use crate::shared::{Follower, Shared};

/// Where the tail of the one ring under test is.
const TAIL: u32 = 0x18;

/// Registers: what was written, in order, and what reads give.
#[derive(Clone, Default)]
pub(super) struct Registers(Arc<Mutex<State>>);

/// What a scripted device does at an access: sees all registers, the offset, and the value if it
/// is a write.
type Script = Box<dyn FnMut(&mut HashMap<u32, u32>, u32, Option<u32>) + Send>;

#[derive(Default)]
pub(super) struct State {
    pub(super) values: HashMap<u32, u32>,
    pub(super) written: Vec<(u32, u32)>,
    /// Called at each access: the device.
    pub(super) device: Option<Script>,
}

impl Registers {
    pub(super) fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(
            &mut self
                .0
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        )
    }

    /// Values written to `offset`, in order.
    pub(super) fn written(&self, offset: u32) -> Vec<u32> {
        self.state(|state| {
            let of = state.written.iter().filter(|(at, _)| *at == offset);
            of.map(|(_, value)| *value).collect()
        })
    }
}

impl Bar for Registers {
    fn len(&self) -> u64 {
        0x2_0000
    }
    fn load8(&self, _offset: u32) -> u8 {
        panic!("these devices have no registers of a byte")
    }
    fn load16(&self, _offset: u32) -> u16 {
        panic!("these devices have no registers of two bytes")
    }
    fn load32(&self, offset: u32) -> u32 {
        self.state(|state| {
            let value = state.values.get(&offset).copied().unwrap_or(0);
            if let Some(device) = &mut state.device {
                device(&mut state.values, offset, None);
            }
            value
        })
    }
    fn store8(&self, _offset: u32, _value: u8) {
        panic!("these devices have no registers of a byte")
    }
    fn store16(&self, _offset: u32, _value: u16) {
        panic!("these devices have no registers of two bytes")
    }
    fn store32(&self, offset: u32, value: u32) {
        self.state(|state| {
            state.written.push((offset, value));
            state.values.insert(offset, value);
            if let Some(device) = &mut state.device {
                device(&mut state.values, offset, Some(value));
            }
        });
    }
}

/// A ring, its memory, and frames.
pub(super) struct Rig {
    pub(super) slots: Dma<Slot>,
    pub(super) registers: Registers,
    pub(super) shared: Arc<Shared>,
    pub(super) pool: Pool,
}

impl Rig {
    /// A ring of `slots` slots and a pool of `frames` frames that hold `capacity` bytes.
    pub(super) fn new(slots: usize, frames: usize, capacity: usize) -> Self {
        let memory = Memory::new(&MemoryRequest {
            bytes: Pool::footprint(frames, capacity) + slots * 16 + 4096,
            pages: Pages::HugeOrBase,
            node: None,
            spaces: vec![SimSpace::new()],
        });
        let memory = memory.expect("there is memory for a test");
        Self {
            slots: memory.carve(slots, 128).expect("the ring fits"),
            pool: Pool::new(&memory, frames, capacity).expect("the frames fit"),
            registers: Registers::default(),
            shared: Shared::new(1, 0),
        }
    }

    pub(super) fn ring(&self) -> Ring<Registers> {
        Ring::new(self.slots.clone(), self.registers.clone(), Reg::at(TAIL))
    }

    /// For the one queue, of whichever kind: to what is shared they are alike.
    pub(super) fn follower(&self) -> Follower {
        Follower::new(&self.shared, QueueId::Rx(0))
    }

    /// Every value that the tail was given.
    pub(super) fn tails(&self) -> Vec<u32> {
        self.registers.written(TAIL)
    }

    pub(super) fn words(&self, index: usize) -> Words {
        let [first, second] = &self.slots[index];
        [
            first.load(Ordering::Acquire),
            second.load(Ordering::Acquire),
        ]
    }

    pub(super) fn set(&self, index: usize, [first, second]: Words) {
        self.slots[index][0].store(first, Ordering::Relaxed);
        self.slots[index][1].store(second, Ordering::Release);
    }

    /// The device's part of sending: sets *done* where a report was asked for, from slot `from`
    /// up to the tail; the slots that it went over.
    pub(super) fn send_all(&self, from: &mut usize) -> Vec<usize> {
        let tail = self.tails().last().copied().unwrap_or(0) as usize;
        let mut seen = Vec::new();
        while *from != tail {
            let [first, second] = self.words(*from);
            assert_eq!(second & 1 << 32, 0, "slot {from} was written with done set");
            if second & 0x08 << 24 != 0 {
                self.set(*from, [first, second | 1 << 32]);
            }
            seen.push(*from);
            *from = (*from + 1) % self.slots.len();
        }
        seen
    }

    /// A burst of `lens.len()` frames, each of `len` bytes and with its number in front.
    pub(super) fn burst(&self, lens: impl IntoIterator<Item = usize>) -> Burst {
        let mut burst = Burst::new();
        for len in lens {
            let mut frame = self.take();
            frame.set_len(len);
            frame.bytes_mut().fill(0xa5);
            burst.push(frame).expect("a burst holds 64");
        }
        burst
    }

    pub(super) fn take(&self) -> Frame {
        self.pool.take().expect("the pool has frames left")
    }
}
