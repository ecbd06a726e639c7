//! The other end, for tests: a small driver of vmxnet3 that does what a script tells it, right or
//! wrong. It is not the driver of `drivers/vmxnet3` and knows nothing of it.

pub(crate) mod ring;

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use hugemem::{Dma, Memory, MemoryRequest, PageSize, Pages};
use hw::{Bar, Function};
use models::vmxnet3::{Vmxnet3, Vmxnet3Options};
use models::{Sim, SimBar, SimFunction, WireOptions};

use ring::{RxRings, TxRings};

pub(crate) const VRRS: u32 = 0x00;
pub(crate) const UVRS: u32 = 0x08;
pub(crate) const DSAL: u32 = 0x10;
pub(crate) const DSAH: u32 = 0x18;
pub(crate) const CMD: u32 = 0x20;
pub(crate) const MACL: u32 = 0x28;
pub(crate) const MACH: u32 = 0x30;
pub(crate) const ICR: u32 = 0x38;
pub(crate) const ECR: u32 = 0x40;
pub(crate) const TXPROD: u32 = 0x600;
pub(crate) const RXPROD: u32 = 0x800;
pub(crate) const RXPROD2: u32 = 0xa00;

pub(crate) const ACTIVATE: u32 = 0xcafe_0000;
pub(crate) const QUIESCE: u32 = 0xcafe_0001;
pub(crate) const RESET: u32 = 0xcafe_0002;
pub(crate) const RX_MODE: u32 = 0xcafe_0003;
pub(crate) const MAC_FILTERS: u32 = 0xcafe_0004;
pub(crate) const VLAN_FILTERS: u32 = 0xcafe_0005;
pub(crate) const QUEUE_STATUS: u32 = 0xf00d_0000;
pub(crate) const STATS: u32 = 0xf00d_0001;
pub(crate) const LINK: u32 = 0xf00d_0002;

pub(crate) const RXCSUM: u64 = 1;
pub(crate) const RSS: u64 = 2;
pub(crate) const RXVLAN: u64 = 4;

/// Unicast, multicast by the table, broadcast: as a driver begins.
pub(crate) const ORDINARY: u32 = 7;
pub(crate) const PROMISCUOUS: u32 = 0x10;

/// Where things are in the shared area, in bytes.
pub(crate) const AT_FEATURES: usize = 24;
pub(crate) const AT_MTU: usize = 56;
pub(crate) const AT_INTERRUPTS: usize = 80;
pub(crate) const AT_INTR_CTRL: usize = 108;
pub(crate) const AT_RX_MODE: usize = 120;
pub(crate) const AT_MF_LEN: usize = 124;
pub(crate) const AT_MF_PA: usize = 128;
pub(crate) const AT_VLANS: usize = 136;
pub(crate) const AT_RSS: usize = 648;
pub(crate) const AT_ECR: usize = 696;
pub(crate) const AT_INFO: usize = 704;

/// How a guest wants its device.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) revision: u8,
    pub(crate) features: u64,
    pub(crate) mode: u32,
    pub(crate) tx: u8,
    pub(crate) rx: u8,
    pub(crate) tx_size: u32,
    pub(crate) rx_size: u32,
    pub(crate) rx2_size: u32,
    /// Bytes of a head and of a body.
    pub(crate) head: u32,
    pub(crate) body: u32,
    /// Bodies behind each head of the first ring.
    pub(crate) bodies: u32,
    pub(crate) mtu: u32,
    pub(crate) sg: u16,
    /// Bytes of an entry in the transmit data ring; 0: there is none.
    pub(crate) tx_data: u16,
    /// Bytes of an entry in the receive data ring; 0: there is none.
    pub(crate) rx_data: u16,
    /// Queues in the table that spreads frames.
    pub(crate) table: Vec<u8>,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            revision: 4,
            features: 0,
            mode: PROMISCUOUS | ORDINARY,
            tx: 1,
            rx: 1,
            tx_size: 32,
            rx_size: 32,
            rx2_size: 32,
            head: 2048,
            body: 2048,
            bodies: 0,
            mtu: 1500,
            sg: 1,
            tx_data: 0,
            rx_data: 0,
            table: vec![0],
        }
    }
}

/// A guest of one end.
pub(crate) struct Guest {
    pub(crate) function: SimFunction,
    /// Keeps it mapped.
    _memory: Memory,
    pub(crate) pt: SimBar,
    pub(crate) vd: SimBar,
    pub(crate) wish: Wish,
    pub(crate) shared: Dma<AtomicU32>,
    pub(crate) queues: Dma<AtomicU32>,
    pub(crate) tx: Vec<TxRings>,
    pub(crate) rx: Vec<RxRings>,
    /// Tables that commands name.
    pub(crate) tables: Dma<AtomicU8>,
}

impl Guest {
    /// Lays everything out, and does not say so yet.
    pub(crate) fn lay_out(function: SimFunction, wish: Wish) -> Self {
        let memory = Memory::new(&MemoryRequest {
            bytes: 16 << 20,
            pages: Pages::Only(PageSize::Base4K),
            node: None,
            spaces: vec![function.space()],
        })
        .unwrap();
        let [pt, vd] = [0, 1].map(|index| function.bar(index).unwrap());
        function.set_config16(4, 6);
        vd.store32(VRRS, 1 << (wish.revision - 1));
        vd.store32(UVRS, 1);
        let count = (usize::from(wish.tx) + usize::from(wish.rx)) * 64;
        let mut guest = Self {
            shared: memory.carve(200, 512).unwrap(),
            queues: memory.carve(count, 512).unwrap(),
            tables: memory.carve(4096, 64).unwrap(),
            tx: (0..wish.tx).map(|_| TxRings::new(&memory, &wish)).collect(),
            rx: (0..wish.rx)
                .map(|n| RxRings::new(&memory, &wish, n))
                .collect(),
            function,
            _memory: memory,
            pt,
            vd,
            wish,
        };
        guest.describe();
        guest
    }

    /// Lays everything out and has the device begin.
    pub(crate) fn open(function: SimFunction, wish: Wish) -> Self {
        let guest = Self::lay_out(function, wish);
        assert_eq!(guest.activate(), 0);
        guest
    }

    /// Writes the shared area and the queue descriptors.
    fn describe(&mut self) {
        let wish = self.wish.clone();
        self.set(0, 0xbabe_fee1);
        self.set(8, 0x0001_0000);
        self.set(12, 2 | 1 << 2);
        self.set(16, 1);
        self.set(20, 1);
        self.set64(AT_FEATURES, wish.features);
        self.set64(40, self.queues.iova().get());
        self.set(52, (u32::from(wish.tx) + u32::from(wish.rx)) * 256);
        self.set(AT_MTU, wish.mtu);
        let counts = u32::from(wish.tx) << 16 | u32::from(wish.rx) << 24;
        self.set(60, u32::from(wish.sg) | counts);
        // Two interrupts: queues on 0, events on 1, all masked by hand.
        self.set(AT_INTERRUPTS, 2 << 8 | 1 << 16);
        self.set(AT_INTR_CTRL, 1);
        self.set(AT_RX_MODE, wish.mode);
        for n in 0..128 {
            self.set(AT_VLANS + 4 * n, u32::MAX);
        }
        self.describe_rss();
        for n in 0..self.tx.len() {
            let fields = self.tx[n].fields();
            self.describe_queue(n, &fields);
        }
        for n in 0..self.rx.len() {
            let fields = self.rx[n].fields();
            self.describe_queue(self.tx.len() + n, &fields);
        }
    }

    fn describe_queue(&self, n: usize, fields: &[(usize, u64)]) {
        for &(at, value) in fields {
            let word = n * 64 + at / 4;
            self.queues[word].store(half(value, 0).to_le(), Ordering::Relaxed);
            if value > u64::from(u32::MAX) {
                self.queues[word + 1].store(half(value, 1).to_le(), Ordering::Relaxed);
            }
        }
    }

    fn describe_rss(&self) {
        let key: Vec<u8> = (0..40u8).map(|n| n.wrapping_mul(37) ^ 0x5a).collect();
        let mut conf = Vec::new();
        let entries = u16::try_from(self.wish.table.len()).unwrap();
        for word in [0xf, 1, 40, entries] {
            conf.extend(u16::to_le_bytes(word));
        }
        conf.extend(key);
        conf.extend(&self.wish.table);
        conf.resize(176, 0);
        self.set_table(1024, &conf);
        self.set(AT_RSS, 1);
        self.set(AT_RSS + 4, 176);
        self.set64(AT_RSS + 8, self.tables.iova().get() + 1024);
    }

    /// Says where the shared area is, and has the device begin; its answer.
    pub(crate) fn activate(&self) -> u32 {
        let at = self.shared.iova().get();
        self.vd.store32(DSAL, half(at, 0));
        self.vd.store32(DSAH, half(at, 1));
        self.command(ACTIVATE)
    }

    pub(crate) fn command(&self, number: u32) -> u32 {
        self.vd.store32(CMD, number);
        self.vd.load32(CMD)
    }

    pub(crate) fn set(&self, at: usize, value: u32) {
        self.shared[at / 4].store(value.to_le(), Ordering::Release);
    }

    pub(crate) fn set64(&self, at: usize, value: u64) {
        self.set(at, half(value, 0));
        self.set(at + 4, half(value, 1));
    }

    pub(crate) fn get(&self, at: usize) -> u32 {
        u32::from_le(self.shared[at / 4].load(Ordering::Acquire))
    }

    pub(crate) fn set_table(&self, at: usize, bytes: &[u8]) {
        for (cell, &byte) in self.tables[at..].iter().zip(bytes) {
            cell.store(byte, Ordering::Relaxed);
        }
    }

    /// A word of queue descriptor `n`, transmit queues first.
    pub(crate) fn queue_word(&self, n: usize, at: usize) -> u32 {
        u32::from_le(self.queues[n * 64 + at / 4].load(Ordering::Acquire))
    }

    pub(crate) fn set_queue_word(&self, n: usize, at: usize, value: u32) {
        self.queues[n * 64 + at / 4].store(value.to_le(), Ordering::Release);
    }

    /// Counter number `n` of queue descriptor `queue`, as last asked for.
    pub(crate) fn stat(&self, queue: usize, n: usize) -> u64 {
        let low = self.queue_word(queue, 88 + 8 * n);
        let high = self.queue_word(queue, 92 + 8 * n);
        u64::from(high) << 32 | u64::from(low)
    }

    /// Status of queue descriptor `queue`, as last asked for: stopped, and why.
    pub(crate) fn status(&self, queue: usize) -> (u32, u32) {
        (
            self.queue_word(queue, 80) & 0xff,
            self.queue_word(queue, 84),
        )
    }

    /// Sends a frame and rings; false if the ring is full.
    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        self.send_as(0, &[frame], 0)
    }

    /// Sends a frame of several parts on queue `n`, with `offload` in its first slot.
    pub(crate) fn send_as(&mut self, n: usize, parts: &[&[u8]], offload: u64) -> bool {
        self.tx[n].reap();
        let posted = self.tx[n].post(parts, offload);
        if posted {
            self.ring_tx(n);
        }
        posted
    }

    pub(crate) fn ring_tx(&self, n: usize) {
        let next = self.tx[n].ring.next;
        self.pt
            .store32(TXPROD + 8 * u32::try_from(n).unwrap(), next);
    }

    /// Says how far queue `n` is armed.
    pub(crate) fn ring_rx(&self, n: usize) {
        let at = 8 * u32::try_from(n).unwrap();
        let rings = &self.rx[n].rings;
        self.pt.store32(RXPROD + at, rings[0].ring.next);
        if let Some(second) = rings.get(1) {
            self.pt.store32(RXPROD2 + at, second.ring.next);
        }
    }

    /// Takes what came in on queue 0, and arms its buffers again.
    pub(crate) fn receive(&mut self) -> Vec<Vec<u8>> {
        let frames = self.rx[0].receive();
        frames.into_iter().map(|frame| frame.bytes).collect()
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
pub(crate) fn stepped(options: &Vmxnet3Options) -> Sim {
    Sim::stepped(
        Vmxnet3::boxed("a", options),
        Vmxnet3::boxed("b", options),
        WireOptions::default(),
    )
}

/// Two devices and their guests.
pub(crate) fn rig(options: &Vmxnet3Options, wish: &Wish) -> (Sim, Guest, Guest) {
    let sim = stepped(options);
    let a = Guest::open(sim.function(0), wish.clone());
    let b = Guest::open(sim.function(1), wish.clone());
    (sim, a, b)
}

/// Nothing was objected to, and every frame is accounted for.
#[track_caller]
pub(crate) fn all_is_well(sim: &Sim) {
    assert_eq!(sim.objections(), [""; 0]);
    assert_eq!([0, 1].map(|end| sim.unaccounted(end)), [0, 0]);
}
