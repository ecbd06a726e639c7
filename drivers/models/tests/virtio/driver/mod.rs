//! The other end, for tests: a small driver of virtio-net that does what a script tells it, right
//! or wrong. It is not the driver of `drivers/virtio` and knows nothing of it.

pub(crate) mod ring;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hugemem::{Dma, DmaSpace, Memory, MemoryRequest, PageSize, Pages};
use hw::{Bar, Function};
use models::virtio::{VirtioNet, VirtioOptions};
use models::{Sim, SimBar, SimFunction, WireOptions};

use ring::{Part, Ring};

pub(crate) const CSUM: u64 = 1 << 0;
pub(crate) const GUEST_CSUM: u64 = 1 << 1;
pub(crate) const MRG: u64 = 1 << 15;
pub(crate) const CTRL: u64 = 1 << 17;
pub(crate) const CTRL_RX: u64 = 1 << 18;
pub(crate) const CTRL_VLAN: u64 = 1 << 19;
pub(crate) const CTRL_RX_EXTRA: u64 = 1 << 20;
pub(crate) const MQ: u64 = 1 << 22;
pub(crate) const CTRL_MAC: u64 = 1 << 23;
pub(crate) const ANY_LAYOUT: u64 = 1 << 27;
pub(crate) const INDIRECT: u64 = 1 << 28;
pub(crate) const EVENT_IDX: u64 = 1 << 29;
pub(crate) const VERSION_1: u64 = 1 << 32;
pub(crate) const ACCESS: u64 = 1 << 33;
pub(crate) const PACKED: u64 = 1 << 34;
pub(crate) const IN_ORDER: u64 = 1 << 35;
pub(crate) const NOTIFICATION_DATA: u64 = 1 << 38;
pub(crate) const RING_RESET: u64 = 1 << 40;
pub(crate) const HASH_REPORT: u64 = 1 << 57;
pub(crate) const RSS: u64 = 1 << 60;
/// What a driver must accept.
pub(crate) const BASE: u64 = VERSION_1 | ACCESS;

const NOTIFY: u32 = 0x3000;
/// Bytes from one buffer to the next.
pub(crate) const STRIDE: usize = 2048;

/// Buffers of one queue.
pub(crate) struct Buffers {
    bytes: Dma<AtomicU8>,
}

impl Buffers {
    pub(crate) fn new(memory: &Memory, count: usize) -> Self {
        let bytes = memory.carve(count * STRIDE, 64).unwrap();
        Self { bytes }
    }

    pub(crate) fn iova(&self, n: usize) -> u64 {
        self.bytes.iova().get() + (n * STRIDE) as u64
    }

    pub(crate) fn write(&self, n: usize, at: usize, bytes: &[u8]) {
        for (cell, &byte) in self.bytes[n * STRIDE + at..].iter().zip(bytes) {
            cell.store(byte, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self, n: usize, at: usize, len: usize) -> Vec<u8> {
        let cells = &self.bytes[n * STRIDE + at..][..len];
        cells
            .iter()
            .map(|cell| cell.load(Ordering::Relaxed))
            .collect()
    }
}

/// How a driver wants its device.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) features: u64,
    pub(crate) legacy: bool,
    pub(crate) size: u16,
    pub(crate) pairs: u16,
    /// Bytes of a receive buffer, header included.
    pub(crate) buffer: u32,
    /// Sends by way of a table outside the ring.
    pub(crate) indirect: bool,
    /// Header and frame in buffers of their own.
    pub(crate) apart: bool,
    /// Rings doorbells.
    pub(crate) kicks: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            features: BASE | MRG,
            legacy: false,
            size: 8,
            pairs: 1,
            buffer: 1600,
            indirect: false,
            apart: false,
            kicks: false,
        }
    }
}

/// A queue with buffers.
pub(crate) struct Queue {
    pub(crate) ring: Ring,
    pub(crate) buffers: Buffers,
    pub(crate) next: usize,
}

/// A driver of one end.
pub(crate) struct Driver {
    pub(crate) function: SimFunction,
    pub(crate) memory: Memory,
    pub(crate) bar: SimBar,
    pub(crate) wish: Wish,
    pub(crate) rx: Vec<Queue>,
    pub(crate) tx: Vec<Queue>,
    pub(crate) control: Option<Queue>,
    /// Sent buffers that came back.
    pub(crate) completed: u64,
}

pub(crate) fn memory(space: Arc<dyn DmaSpace>, bytes: usize) -> Memory {
    Memory::new(&MemoryRequest {
        bytes,
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: vec![space],
    })
    .unwrap()
}

impl Driver {
    /// Opens the device up to `FEATURES_OK`, not yet checked.
    pub(crate) fn negotiate(function: SimFunction, wish: Wish) -> Self {
        let memory = memory(function.space(), 6 << 20);
        let bar = function.bar(if wish.legacy { 0 } else { 4 }).unwrap();
        function.set_config16(4, 7);
        let driver = Self {
            function,
            memory,
            bar,
            wish,
            rx: Vec::new(),
            tx: Vec::new(),
            control: None,
            completed: 0,
        };
        driver.reset();
        driver.set_status(1);
        driver.set_status(3);
        let features = driver.wish.features;
        if driver.wish.legacy {
            driver.bar.store32(4, half(features, 0));
        } else {
            for n in 0..2 {
                driver.bar.store32(8, n);
                driver.bar.store32(12, half(features, n));
            }
            driver.set_status(11);
        }
        driver
    }

    /// Opens the device and starts it.
    pub(crate) fn open(function: SimFunction, wish: Wish) -> Self {
        let mut driver = Self::negotiate(function, wish);
        driver.set_up();
        driver.run();
        driver
    }

    /// Sets all queues up.
    pub(crate) fn set_up(&mut self) {
        for pair in 0..self.wish.pairs {
            let rx = self.queue(pair * 2);
            self.rx.push(rx);
            let tx = self.queue(pair * 2 + 1);
            self.tx.push(tx);
        }
        if self.wish.features & CTRL != 0 {
            let index = if self.wish.features & (MQ | RSS) != 0 {
                self.most_pairs() * 2
            } else {
                2
            };
            self.control = Some(self.queue(index));
        }
    }

    /// The most pairs that the configuration says the device has.
    fn most_pairs(&self) -> u16 {
        self.bar.load16(if self.wish.legacy { 28 } else { 0x2008 })
    }

    pub(crate) fn run(&self) {
        if !self.wish.legacy {
            assert_eq!(self.status(), 11, "the features stick");
        }
        let ok = if self.wish.legacy { 7 } else { 15 };
        self.set_status(ok);
        assert_eq!(self.status(), ok);
    }

    pub(crate) fn queue(&mut self, index: u16) -> Queue {
        let ring = if self.wish.legacy {
            self.bar.store16(14, index);
            let size = self.bar.load16(12);
            let ring = Ring::legacy(&self.memory, index, size, self.wish.features);
            let page = u32::try_from(ring.addresses()[0] / 4096).unwrap();
            self.bar.store32(8, page);
            ring
        } else {
            let ring = Ring::new(&self.memory, index, self.wish.size, self.wish.features);
            self.set_queue(index, self.wish.size, ring.addresses());
            self.bar.store16(28, 1);
            ring
        };
        let buffers = Buffers::new(&self.memory, usize::from(ring.size));
        Queue {
            ring,
            buffers,
            next: 0,
        }
    }

    /// Tells the device where a ring is, without enabling it.
    pub(crate) fn set_queue(&self, index: u16, size: u16, addresses: [u64; 3]) {
        self.bar.store16(22, index);
        self.bar.store16(24, size);
        for (n, address) in (0..).zip(addresses) {
            self.bar.store32(32 + 8 * n, half(address, 0));
            self.bar.store32(36 + 8 * n, half(address, 1));
        }
    }

    pub(crate) fn status(&self) -> u8 {
        self.bar.load8(if self.wish.legacy { 18 } else { 20 })
    }

    pub(crate) fn set_status(&self, status: u8) {
        self.bar
            .store8(if self.wish.legacy { 18 } else { 20 }, status);
    }

    pub(crate) fn reset(&self) {
        self.set_status(0);
        for _ in 0..1000 {
            if self.status() == 0 {
                return;
            }
        }
        panic!("the reset does not end");
    }

    pub(crate) fn kick(&self, queue: u16) {
        if self.wish.legacy {
            self.bar.store16(16, queue);
        } else {
            self.bar.store16(NOTIFY + u32::from(queue) * 4, queue);
        }
    }

    pub(crate) fn header_len(&self) -> usize {
        if self.wish.features & HASH_REPORT != 0 {
            20
        } else if self.wish.features & (VERSION_1 | MRG) == 0 {
            10
        } else {
            12
        }
    }

    /// Arms every free receive buffer of every queue.
    pub(crate) fn arm(&mut self) {
        for n in 0..self.rx.len() {
            self.arm_some(n, usize::MAX);
        }
    }

    /// Arms up to `count` receive buffers of one queue.
    pub(crate) fn arm_some(&mut self, pair: usize, count: usize) {
        let (len, header) = (self.wish.buffer, self.header_len());
        let legacy = self.wish.features & (VERSION_1 | ANY_LAYOUT) == 0;
        let queue = &mut self.rx[pair];
        for _ in 0..count {
            let slots = if legacy { 2 } else { 1 };
            if queue.ring.free() < slots {
                break;
            }
            let n = queue.next;
            let iova = queue.buffers.iova(n);
            if legacy {
                let header = u32::try_from(header).unwrap();
                let apart = [
                    Part::write(iova, header),
                    Part::write(iova + u64::from(header), len - header),
                ];
                queue.ring.post(&apart, n);
            } else {
                queue.ring.post(&[Part::write(iova, len)], n);
            }
            queue.next = (n + 1) % usize::from(queue.ring.size);
        }
        let (index, wanted) = (queue.ring.index, queue.ring.wants_kick());
        if self.wish.kicks && wanted {
            self.kick(index);
        }
    }

    /// Posts a frame on pair `pair`; false if the ring is full.
    pub(crate) fn send_on(&mut self, pair: usize, header: &[u8], frame: &[u8]) -> bool {
        self.reap();
        let (indirect, apart) = (self.wish.indirect, self.wish.apart);
        let queue = &mut self.tx[pair];
        let n = queue.next;
        let slots = if apart && !indirect { 2 } else { 1 };
        if queue.ring.free() < slots {
            return false;
        }
        let bytes = [header, frame].concat();
        assert!(bytes.len() <= STRIDE);
        queue.buffers.write(n, 0, &bytes);
        let iova = queue.buffers.iova(n);
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let parts = if apart {
            let data = iova + u64::from(len(header));
            vec![Part::read(iova, len(header)), Part::read(data, len(frame))]
        } else {
            vec![Part::read(iova, len(&bytes))]
        };
        if indirect {
            let table = ring::table(&self.memory, &parts, queue.ring.is_packed());
            queue.ring.post_table(&table, n);
        } else {
            queue.ring.post(&parts, n);
        }
        queue.next = (n + 1) % usize::from(queue.ring.size);
        let (index, wanted) = (queue.ring.index, queue.ring.wants_kick());
        if self.wish.kicks && wanted {
            self.kick(index);
        }
        true
    }

    /// Posts a plain frame; false if the ring is full.
    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        let header = vec![0; self.header_len()];
        self.send_on(0, &header, frame)
    }

    pub(crate) fn reap(&mut self) {
        for queue in &mut self.tx {
            self.completed += queue.ring.reap().len() as u64;
        }
    }

    /// Takes what came in on one queue, header and frame, and arms the buffers again.
    pub(crate) fn receive_on(&mut self, pair: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let header = self.header_len();
        let queue = &mut self.rx[pair];
        let mut done = queue.ring.reap().into_iter();
        let mut frames = Vec::new();
        while let Some((n, len)) = done.next() {
            let mut bytes = queue.buffers.read(n, 0, len as usize);
            let buffers = if header >= 12 { bytes[10] } else { 1 };
            for _ in 1..buffers {
                let (n, len) = done.next().expect("all buffers of a frame come together");
                bytes.extend(queue.buffers.read(n, 0, len as usize));
            }
            let frame = bytes.split_off(header);
            frames.push((bytes, frame));
        }
        self.arm_some(pair, usize::MAX);
        frames
    }

    pub(crate) fn receive(&mut self) -> Vec<Vec<u8>> {
        let frames = self.receive_on(0);
        frames.into_iter().map(|(_, frame)| frame).collect()
    }

    /// A command; its answer, once `step` has run the device.
    pub(crate) fn command(
        &mut self,
        class: u8,
        number: u8,
        data: &[u8],
        step: &dyn Fn(),
    ) -> Option<u8> {
        let kicks = self.wish.kicks;
        let queue = self.control.as_mut().unwrap();
        let bytes = [&[class, number], data].concat();
        queue.buffers.write(0, 0, &bytes);
        queue.buffers.write(0, STRIDE - 1, &[0xee]);
        let iova = queue.buffers.iova(0);
        let parts = [
            Part::read(iova, 2),
            Part::read(iova + 2, u32::try_from(data.len()).unwrap()),
            Part::write(iova + STRIDE as u64 - 1, 1),
        ];
        let parts: Vec<Part> = parts.into_iter().filter(|part| part.len > 0).collect();
        queue.ring.post(&parts, 0);
        let index = queue.ring.index;
        if kicks {
            self.kick(index);
        }
        step();
        let queue = self.control.as_mut().unwrap();
        if queue.ring.reap().is_empty() {
            return None;
        }
        Some(queue.buffers.read(0, STRIDE - 1, 1)[0])
    }
}

pub(crate) fn half(value: u64, n: u32) -> u32 {
    u32::try_from(value >> (32 * n) & u64::from(u32::MAX)).unwrap()
}

/// An Ethernet frame of `len` bytes with content that its number decides.
pub(crate) fn frame(number: u64, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    let bytes = (0u64..).map(|n| {
        let mixed = (number * 1000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        u8::try_from(mixed >> 56).unwrap()
    });
    frame.extend(bytes.take(len - 14));
    frame
}

/// Two devices that move step by step.
pub(crate) fn stepped(options: &VirtioOptions, wire: WireOptions) -> Sim {
    Sim::stepped(
        VirtioNet::boxed("a", options),
        VirtioNet::boxed("b", options),
        wire,
    )
}

/// Two devices and their drivers, receive buffers armed.
pub(crate) fn rig(
    options: &VirtioOptions,
    wish: &Wish,
    wire: WireOptions,
) -> (Sim, Driver, Driver) {
    let sim = stepped(options, wire);
    let mut a = Driver::open(sim.function(0), wish.clone());
    let mut b = Driver::open(sim.function(1), wish.clone());
    a.arm();
    b.arm();
    (sim, a, b)
}
