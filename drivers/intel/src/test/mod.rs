//! Queues against hand-made ends: rings in memory whose device is the test, a register that notes
//! what it was told, and descriptors of the test's own.

mod receive;
mod send;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use hugemem::{Burst, Dma, Frame, Memory, MemoryRequest, Pages, Pool, SimSpace};
use hw::Bar;
use hw::mmio::Reg;
use port::{Headers, QueueId, RxFlags};

use crate::{
    Asks, Completion, DONE, Follower, Piece, REPORT, ReceiveFormat, Ring, SendFormat, Shared, Slot,
    Words,
};

/// Where the tail of the one ring under test is.
const TAIL: u32 = 0x18;

/// The one register of a device: what it was told.
#[derive(Clone, Default)]
struct Registers(Arc<Mutex<Vec<u32>>>);

impl Registers {
    fn told(&self) -> Vec<u32> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Bar for Registers {
    fn len(&self) -> u64 {
        0x1000
    }
    fn load8(&self, _offset: u32) -> u8 {
        panic!("queues read no register")
    }
    fn load16(&self, _offset: u32) -> u16 {
        panic!("queues read no register")
    }
    fn load32(&self, _offset: u32) -> u32 {
        panic!("queues read no register")
    }
    fn store8(&self, _offset: u32, _value: u8) {
        panic!("a tail has four bytes")
    }
    fn store16(&self, _offset: u32, _value: u16) {
        panic!("a tail has four bytes")
    }
    fn store32(&self, offset: u32, value: u32) {
        assert_eq!(offset, TAIL, "queues write the tail only");
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(value);
    }
}

/// Descriptors of the test's own. Sending, second word: bytes, and those of the packet from bit 46
/// on; receiving: bytes from bit 32 on, a tag from bit 48 on.
#[derive(Debug, Clone, Copy)]
struct Simple {
    /// Says something before the first packet.
    greets: bool,
}

const SIMPLE: Simple = Simple { greets: false };
/// What it says first.
const GREETING: Words = [0x9ee7, 1 << 20];
/// Bits of the second word when sending.
const END: u64 = 1 << 24;
const TAGGED: u64 = 1 << 25;
const IPV4: u64 = 1 << 40;
const L4: u64 = 1 << 41;
const CONTEXT: u64 = 1 << 21;
/// Bits of the second word when receiving.
const FILLED: u64 = 1;
const LAST: u64 = 1 << 1;
const STRIPPED: u64 = 1 << 2;
const BAD_IPV4: u64 = 1 << 3;
const BAD_L4: u64 = 1 << 4;
/// Bit of the first word when receiving.
const UDP: u64 = 1;

impl SendFormat for Simple {
    const SEGMENTS: usize = 16;

    fn first(self) -> Option<Words> {
        self.greets.then_some(GREETING)
    }
    fn plain(self, iova: u64, len: u32) -> Words {
        let len = u64::from(len);
        [iova, len | END | len << 46]
    }
    fn reaches(self, headers: &Headers) -> bool {
        headers.l4 < 100
    }
    fn context(self, asks: &Asks) -> Option<Words> {
        let vlan = u64::from(asks.vlan.unwrap_or(0));
        let l4 = asks.headers.map_or(0, |headers| u64::from(headers.l4));
        (vlan | l4 != 0).then_some([l4 << 16 | vlan, CONTEXT])
    }
    fn piece(self, piece: &Piece, asks: &Asks) -> Words {
        let mut second = u64::from(piece.len) | u64::from(piece.total) << 46;
        for (bit, is_set) in [
            (END, piece.last),
            (TAGGED, asks.vlan.is_some()),
            (IPV4, asks.ipv4),
            (L4, asks.l4),
        ] {
            second |= if is_set { bit } else { 0 };
        }
        [piece.iova, second]
    }
}

impl ReceiveFormat for Simple {
    fn is_filled(second: u64) -> bool {
        second & FILLED != 0
    }
    fn completion(first: impl FnOnce() -> u64, second: u64) -> Completion {
        let half = |value: u64| u16::try_from(value & 0xffff).expect("16 bits");
        let mut flags = RxFlags::empty();
        flags.set(RxFlags::VLAN, second & STRIPPED != 0);
        flags.set(RxFlags::IPV4_BAD, second & BAD_IPV4 != 0);
        flags.set(RxFlags::L4_BAD, second & BAD_L4 != 0);
        Completion {
            len: half(second >> 32),
            last: second & LAST != 0,
            udp: first() & UDP != 0,
            vlan: half(second >> 48),
            hash: 7,
            flags,
        }
    }
}

/// A ring, its memory, and frames.
struct Rig {
    slots: Dma<Slot>,
    registers: Registers,
    shared: Arc<Shared>,
    pool: Pool,
}

impl Rig {
    /// A ring of `slots` slots and a pool of `frames` frames that hold `capacity` bytes.
    fn new(slots: usize, frames: usize, capacity: usize) -> Self {
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

    fn ring(&self) -> Ring<Registers> {
        Ring::new(self.slots.clone(), self.registers.clone(), Reg::at(TAIL))
    }

    /// For the one queue, of whichever kind: to what is shared they are alike.
    fn follower(&self) -> Follower {
        Follower::new(&self.shared, QueueId::Rx(0))
    }

    /// Every value that the tail was given.
    fn tails(&self) -> Vec<u32> {
        self.registers.told()
    }

    fn words(&self, index: usize) -> Words {
        let [first, second] = &self.slots[index];
        [
            first.load(Ordering::Acquire),
            second.load(Ordering::Acquire),
        ]
    }

    fn set(&self, index: usize, [first, second]: Words) {
        self.slots[index][0].store(first, Ordering::Relaxed);
        self.slots[index][1].store(second, Ordering::Release);
    }

    /// The device's part of sending: writes *done*, and nothing else that was there, where a report
    /// was asked for (82599 datasheet §7.2.3.2.4), from slot `from` up to the tail; the slots that
    /// it went over.
    fn send_all(&self, from: &mut usize) -> Vec<usize> {
        let tail = self.tails().last().copied().unwrap_or(0) as usize;
        let mut seen = Vec::new();
        while *from != tail {
            let [_, second] = self.words(*from);
            assert_eq!(second & DONE, 0, "slot {from} was written with done set");
            if second & REPORT != 0 {
                self.set(*from, [0, DONE]);
            }
            seen.push(*from);
            *from = (*from + 1) % self.slots.len();
        }
        seen
    }

    /// A burst of `lens.len()` frames, each of `len` bytes and with its number in front.
    fn burst(&self, lens: impl IntoIterator<Item = usize>) -> Burst {
        let mut burst = Burst::new();
        for len in lens {
            let mut frame = self.take();
            frame.set_len(len);
            frame.bytes_mut().fill(0xa5);
            burst.push(frame).expect("a burst holds 64");
        }
        burst
    }

    fn take(&self) -> Frame {
        self.pool.take().expect("the pool has frames left")
    }
}
