//! The other end, for tests: a small driver of the four devices. It is not the driver of
//! `drivers/e1000` and knows nothing of it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use hugemem::{Dma, Memory, MemoryRequest, PageSize, Pages};
use hw::{Bar, Function};
use models::e1000::{E1000, E1000Options, Kind, Pf};
use models::{Sim, SimBar, SimFunction, WireOptions};

pub(crate) const MAC_A: [u8; 6] = [0x52, 0x54, 0, 0, 0, 0xa];
pub(crate) const MAC_B: [u8; 6] = [0x52, 0x54, 0, 0, 0, 0xb];
pub(crate) const EVERYONE: [u8; 6] = [0xff; 6];

pub(crate) const CTRL: u32 = 0;
pub(crate) const STATUS: u32 = 8;
pub(crate) const ICR: u32 = 0xc0;
pub(crate) const IMS: u32 = 0xd0;
pub(crate) const RCTL: u32 = 0x100;
pub(crate) const TCTL: u32 = 0x400;
pub(crate) const MAILBOX: u32 = 0xc40;
pub(crate) const MESSAGE: u32 = 0x800;

/// RCTL: on, broadcasts, FCS cut off.
pub(crate) const RECEIVE: u32 = 1 << 1 | 1 << 15 | 1 << 26;
pub(crate) const LONG: u32 = 1 << 5;
pub(crate) const PROMISCUOUS: u32 = 1 << 3;
pub(crate) const ALL_MULTICAST: u32 = 1 << 4;
pub(crate) const VLAN_FILTER: u32 = 1 << 18;
/// CTRL: link up, tags cut out.
pub(crate) const LINK_UP: u32 = 1 << 6;
pub(crate) const STRIP: u32 = 1 << 30;
/// A queue's enable bit.
pub(crate) const ENABLE: u32 = 1 << 25;
/// SRRCTL: one buffer; drop what has none.
pub(crate) const ONE_BUFFER: u32 = 1 << 25;
pub(crate) const DROP: u32 = 1 << 31;

/// Descriptor commands, in the upper word.
pub(crate) const EOP: u64 = 1 << 24;
pub(crate) const IFCS: u64 = 1 << 25;
pub(crate) const RS: u64 = 1 << 27;
pub(crate) const DEXT: u64 = 1 << 29;
pub(crate) const VLE: u64 = 1 << 30;
const DONE: u64 = 1 << 32;

/// Bytes from one buffer to the next.
pub(crate) const STRIDE: usize = 16_384;

/// How a driver wants its device.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) slots: u32,
    pub(crate) queues: u32,
    pub(crate) rctl: u32,
    pub(crate) ctrl: u32,
    /// Bytes of a receive buffer, as the registers then say it.
    pub(crate) buffer: u32,
    /// Extended descriptors on the 82574; advanced ones are a matter of course on the 82576.
    pub(crate) extended: bool,
    pub(crate) drop: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            slots: 8,
            queues: 1,
            rctl: RECEIVE,
            ctrl: LINK_UP,
            buffer: 2048,
            extended: false,
            drop: true,
        }
    }
}

/// A ring and its buffers.
pub(crate) struct Ring {
    pub(crate) base: u32,
    pub(crate) words: Dma<[AtomicU64; 2]>,
    pub(crate) bytes: Dma<AtomicU8>,
    pub(crate) slots: u32,
    /// Next slot to post, and next to look at.
    pub(crate) post: u32,
    pub(crate) look: u32,
}

/// A received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    /// Status in the low bits, errors from 24 on.
    pub(crate) status: u32,
    pub(crate) tag: u16,
    /// First word of a later format's write-back.
    pub(crate) first: u64,
    /// Descriptors that it took.
    pub(crate) pieces: u32,
}

/// A driver of one end.
pub(crate) struct Guest {
    pub(crate) function: SimFunction,
    pub(crate) memory: Memory,
    pub(crate) bar: SimBar,
    pub(crate) kind: Kind,
    pub(crate) wish: Wish,
    pub(crate) rx: Vec<Ring>,
    pub(crate) tx: Vec<Ring>,
    /// Bits of the mailbox that are gone once read.
    pub(crate) seen: u32,
}

pub(crate) fn low(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap()
}

impl Ring {
    fn new(memory: &Memory, base: u32, slots: u32) -> Self {
        let count = slots as usize;
        Self {
            base,
            words: memory.carve(count, 128).unwrap(),
            bytes: memory.carve(count * STRIDE, 64).unwrap(),
            slots,
            post: 0,
            look: 0,
        }
    }

    pub(crate) fn buffer(&self, slot: u32) -> u64 {
        self.bytes.iova().get() + slot as u64 * STRIDE as u64
    }

    pub(crate) fn write(&self, slot: u32, bytes: &[u8]) {
        for (cell, &byte) in self.bytes[slot as usize * STRIDE..].iter().zip(bytes) {
            cell.store(byte, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self, slot: u32, len: usize) -> Vec<u8> {
        let cells = &self.bytes[slot as usize * STRIDE..][..len];
        cells
            .iter()
            .map(|cell| cell.load(Ordering::Relaxed))
            .collect()
    }

    pub(crate) fn set(&self, slot: u32, words: [u64; 2]) {
        let cells = &self.words[slot as usize];
        cells[0].store(words[0].to_le(), Ordering::Relaxed);
        cells[1].store(words[1].to_le(), Ordering::Release);
    }

    pub(crate) fn get(&self, slot: u32) -> [u64; 2] {
        let cells = &self.words[slot as usize];
        let second = u64::from_le(cells[1].load(Ordering::Acquire));
        [u64::from_le(cells[0].load(Ordering::Acquire)), second]
    }

    pub(crate) fn after(&self, slot: u32) -> u32 {
        (slot + 1) % self.slots
    }

    /// Slots that may still be posted.
    pub(crate) fn free(&self) -> u32 {
        self.slots - 1 - (self.post + self.slots - self.look) % self.slots
    }
}

impl Guest {
    /// A driver that has done nothing yet but switch bus mastering on.
    pub(crate) fn attach(function: SimFunction, kind: Kind, wish: Wish) -> Self {
        // Set up twice at most, and a little.
        let buffers = wish.queues as usize * wish.slots as usize * 2 * STRIDE;
        let memory = Memory::new(&MemoryRequest {
            bytes: 2 * buffers + (64 << 10),
            pages: Pages::Only(PageSize::Base4K),
            node: None,
            spaces: vec![function.space()],
        })
        .unwrap();
        let bar = function.bar(0).unwrap();
        function.set_config16(4, 7);
        Self {
            function,
            memory,
            bar,
            kind,
            wish,
            rx: Vec::new(),
            tx: Vec::new(),
            seen: 0,
        }
    }

    /// Opens the device and starts it, receive buffers armed.
    pub(crate) fn open(function: SimFunction, kind: Kind, wish: Wish, step: &dyn Fn()) -> Self {
        let mut guest = Self::attach(function, kind, wish);
        guest.reset(step);
        guest.set_up();
        guest
    }

    pub(crate) fn is_advanced(&self) -> bool {
        matches!(self.kind, Kind::Igb | Kind::IgbVf)
    }

    pub(crate) fn reset(&mut self, step: &dyn Fn()) {
        self.bar.store32(CTRL, 1 << 26);
        if self.kind == Kind::IgbVf {
            self.say_hello(step);
            return;
        }
        for _ in 0..1000 {
            if self.bar.load32(CTRL) & 1 << 26 == 0 {
                return;
            }
        }
        panic!("the reset does not end");
    }

    /// A virtual function's first message.
    pub(crate) fn say_hello(&mut self, step: &dyn Fn()) -> [u32; 3] {
        step();
        self.seen = 0;
        self.look_at_mailbox();
        self.seen = 0;
        self.ask(&[1], step).unwrap()
    }

    pub(crate) fn look_at_mailbox(&mut self) -> u32 {
        let value = self.bar.load32(MAILBOX);
        self.seen |= value & 0xb0;
        value | self.seen
    }

    /// Puts a message into the mailbox; true if the mailbox could be had.
    pub(crate) fn tell(&mut self, words: &[u32]) -> bool {
        self.bar.store32(MAILBOX, 4);
        if self.look_at_mailbox() & 4 == 0 {
            return false;
        }
        self.seen &= !0x30;
        for (at, &word) in (MESSAGE..).step_by(4).zip(words) {
            self.bar.store32(at, word);
        }
        self.bar.store32(MAILBOX, 1);
        true
    }

    /// Takes the physical function's message, if there is one.
    pub(crate) fn hear(&mut self) -> Option<[u32; 3]> {
        if self.look_at_mailbox() & 0x10 == 0 {
            return None;
        }
        self.seen &= !0x10;
        self.bar.store32(MAILBOX, 4);
        let words = [0, 4, 8].map(|at| self.bar.load32(MESSAGE + at));
        self.bar.store32(MAILBOX, 2);
        Some(words)
    }

    /// A message and its answer.
    pub(crate) fn ask(&mut self, words: &[u32], step: &dyn Fn()) -> Option<[u32; 3]> {
        assert!(self.tell(words));
        step();
        let acknowledged = self.look_at_mailbox() & 0x20 != 0;
        step();
        acknowledged.then(|| self.hear()).flatten()
    }

    /// Sets the rings up and switches everything on.
    pub(crate) fn set_up(&mut self) {
        self.make_rings();
        for n in 0..self.wish.queues as usize {
            self.start_queue(n);
        }
        if self.kind != Kind::IgbVf {
            if self.wish.extended && self.kind == Kind::E1000e {
                self.bar.store32(0x5008, 1 << 15);
            }
            let sizes = match self.wish.buffer {
                256 => 3,
                512 => 2,
                1024 => 1,
                4096 => 3 | 1 << 9,
                8192 => 2 | 1 << 9,
                16_384 => 1 | 1 << 9,
                _ => 0,
            };
            let sizes = if self.is_advanced() { 0 } else { sizes };
            self.bar.store32(0x38, 0x8100);
            self.bar.store32(CTRL, self.wish.ctrl | 1);
            self.bar.store32(RCTL, self.wish.rctl | sizes << 16);
            self.bar
                .store32(TCTL, 1 << 1 | 1 << 3 | 0xf << 4 | 0x40 << 12);
        }
        self.arm();
    }

    pub(crate) fn make_rings(&mut self) {
        let (stride, rx, tx) = match self.kind {
            Kind::Igb => (0x40, 0xc000, 0xe000),
            _ => (0x100, 0x2800, 0x3800),
        };
        let (memory, slots) = (&self.memory, self.wish.slots);
        let rings = |base: u32| {
            let ring = |n| Ring::new(memory, base + n * stride, slots);
            (0..self.wish.queues).map(ring).collect::<Vec<_>>()
        };
        (self.rx, self.tx) = (rings(rx), rings(tx));
    }

    pub(crate) fn start_queue(&mut self, n: usize) {
        for (ring, is_rx) in [(&self.rx[n], true), (&self.tx[n], false)] {
            let iova = ring.words.iova().get();
            if self.is_advanced() {
                self.bar.store32(ring.base + 0x28, 0);
            }
            self.bar.store32(ring.base, low(iova));
            self.bar.store32(ring.base + 4, low(iova >> 32));
            self.bar.store32(ring.base + 8, ring.slots * 16);
            self.bar.store32(ring.base + 0x10, 0);
            self.bar.store32(ring.base + 0x18, 0);
            if !self.is_advanced() {
                continue;
            }
            if is_rx {
                let drop = if self.wish.drop { DROP } else { 0 };
                let size = self.wish.buffer / 1024;
                self.bar.store32(ring.base + 0xc, ONE_BUFFER | drop | size);
            }
            self.bar.store32(ring.base + 0x28, ENABLE);
            let enabled = (0..10).any(|_| self.bar.load32(ring.base + 0x28) & ENABLE != 0);
            assert!(enabled, "the queue does not start");
        }
    }

    /// Arms every free receive buffer of every queue.
    pub(crate) fn arm(&mut self) {
        for n in 0..self.rx.len() {
            self.arm_some(n, u32::MAX);
        }
    }

    pub(crate) fn arm_some(&mut self, queue: usize, count: u32) {
        let ring = &mut self.rx[queue];
        for _ in 0..count.min(ring.free()) {
            ring.set(ring.post, [ring.buffer(ring.post), 0]);
            ring.post = ring.after(ring.post);
        }
        self.bar.store32(ring.base + 0x18, ring.post);
    }

    /// The command of a plain frame of `len` bytes in one descriptor.
    pub(crate) fn command(&self, len: usize) -> u64 {
        let len = len as u64;
        let plain = len | EOP | IFCS | RS;
        if self.is_advanced() {
            plain | DEXT | 3 << 20 | len << 46
        } else {
            plain
        }
    }

    /// Posts a descriptor on queue `n`, its buffer holding `bytes`; false if there is no room.
    pub(crate) fn post(&mut self, n: usize, bytes: &[u8], command: u64) -> bool {
        self.reap(n);
        let ring = &mut self.tx[n];
        if ring.free() == 0 {
            return false;
        }
        let slot = ring.post;
        ring.write(slot, bytes);
        ring.set(slot, [ring.buffer(slot), command]);
        ring.post = ring.after(slot);
        true
    }

    /// Posts a context descriptor.
    pub(crate) fn context(&mut self, n: usize, words: [u64; 2]) {
        self.reap(n);
        let ring = &mut self.tx[n];
        assert!(ring.free() > 0);
        ring.set(ring.post, words);
        ring.post = ring.after(ring.post);
    }

    pub(crate) fn ring_bell(&self, n: usize) {
        let ring = &self.tx[n];
        self.bar.store32(ring.base + 0x18, ring.post);
    }

    pub(crate) fn send_on(&mut self, n: usize, frame: &[u8]) -> bool {
        let command = self.command(frame.len());
        let posted = self.post(n, frame, command);
        self.ring_bell(n);
        posted
    }

    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        self.send_on(0, frame)
    }

    /// Takes sent descriptors back, as far as the last that says so.
    pub(crate) fn reap(&mut self, n: usize) -> u32 {
        let ring = &mut self.tx[n];
        let (mut at, mut done, mut passed) = (ring.look, ring.look, 0);
        let mut reaped = 0;
        while at != ring.post {
            let word = ring.get(at)[1];
            at = ring.after(at);
            passed += 1;
            if word & DONE != 0 {
                (done, reaped) = (at, passed);
            } else if word & RS != 0 {
                break;
            }
        }
        ring.look = done;
        reaped
    }

    fn done(&self, n: usize, slot: u32) -> Option<(u32, u16, usize, u64)> {
        let [first, second] = self.rx[n].get(slot);
        let legacy = match self.kind {
            Kind::E1000 => true,
            Kind::E1000e => !self.wish.extended,
            Kind::Igb | Kind::IgbVf => false,
        };
        let tag = u16::try_from(second >> 48).unwrap();
        let (status, len) = if legacy {
            let errors = low(second >> 40 & 0xff);
            (low(second >> 32 & 0xff) | errors << 24, second & 0xffff)
        } else {
            (low(second), second >> 32 & 0xffff)
        };
        let len = usize::try_from(len).unwrap();
        (status & 1 == 1).then_some((status, tag, len, first))
    }

    /// Takes what came in on one queue, and arms the buffers again.
    pub(crate) fn receive_on(&mut self, n: usize) -> Vec<Received> {
        let mut all = Vec::new();
        let mut bytes = Vec::new();
        let mut pieces = 0;
        let mut look = self.rx[n].look;
        while look != self.rx[n].post {
            let Some((status, tag, len, first)) = self.done(n, look) else {
                break;
            };
            bytes.extend(self.rx[n].read(look, len.min(STRIDE)));
            pieces += 1;
            look = self.rx[n].after(look);
            if status & 2 == 0 {
                continue;
            }
            all.push(Received {
                bytes: std::mem::take(&mut bytes),
                status,
                tag,
                first,
                pieces: std::mem::take(&mut pieces),
            });
            self.rx[n].look = look;
        }
        self.arm_some(n, u32::MAX);
        all
    }

    pub(crate) fn receive(&mut self) -> Vec<Vec<u8>> {
        let all = self.receive_on(0).into_iter();
        all.map(|received| received.bytes).collect()
    }
}

/// An Ethernet frame of `len` bytes from A to B with content that its number decides.
pub(crate) fn frame(number: u64, len: usize) -> Vec<u8> {
    let mut frame = [&MAC_B[..], &MAC_A, &[0x88, 0xb5]].concat();
    let bytes = (0u64..).map(|n| {
        let mixed = (number * 1000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        u8::try_from(mixed >> 56).unwrap()
    });
    frame.extend(bytes.take(len - 14));
    frame
}

pub(crate) fn to(mac: [u8; 6]) -> Vec<u8> {
    let mut frame = frame(1, 80);
    frame[..6].copy_from_slice(&mac);
    frame
}

/// The same frame with a VLAN tag.
pub(crate) fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    let [a, b] = tag.to_be_bytes();
    [&frame[..12], &[0x81, 0, a, b], &frame[12..]].concat()
}

pub(crate) fn options(kind: Kind, mac: [u8; 6]) -> E1000Options {
    E1000Options {
        // Only looking ends a reset.
        reset_lasts: Duration::from_secs(3600),
        ..E1000Options::of(kind, mac)
    }
}

/// Two devices that move step by step, of one kind.
pub(crate) fn stepped(kind: Kind) -> Sim {
    stepped_with(&options(kind, MAC_A), &options(kind, MAC_B))
}

pub(crate) fn stepped_with(a: &E1000Options, b: &E1000Options) -> Sim {
    let wire = WireOptions {
        speed_bps: 1_000_000_000,
        ..WireOptions::default()
    };
    Sim::stepped(E1000::boxed("a", a), E1000::boxed("b", b), wire)
}

/// Two devices and their drivers, receive buffers armed.
pub(crate) fn rig(kind: Kind, wish: &Wish) -> (Sim, Guest, Guest) {
    let sim = stepped(kind);
    let (a, b) = open_both(&sim, kind, wish);
    (sim, a, b)
}

pub(crate) fn open_both(sim: &Sim, kind: Kind, wish: &Wish) -> (Guest, Guest) {
    let step = || {
        sim.step();
    };
    let a = Guest::open(sim.function(0), kind, wish.clone(), &step);
    let b = Guest::open(sim.function(1), kind, wish.clone(), &step);
    (a, b)
}

/// A sender that is an 82540, and a virtual function with the handle on its physical one.
pub(crate) fn vf_rig(receiver: &E1000Options, wish: &Wish) -> (Sim, Guest, Guest, Pf) {
    let vf = E1000::new("b", receiver);
    let pf = vf.pf();
    let a = E1000::boxed("a", &options(Kind::E1000, MAC_A));
    let sim = Sim::stepped(a, Box::new(vf), WireOptions::default());
    let step = || {
        sim.step();
    };
    let plain = Wish {
        rctl: RECEIVE | PROMISCUOUS | LONG,
        buffer: 16_384,
        ..Wish::default()
    };
    let a = Guest::open(sim.function(0), Kind::E1000, plain, &step);
    let b = Guest::open(sim.function(1), Kind::IgbVf, wish.clone(), &step);
    (sim, a, b, pf)
}

/// Which of `frames` arrive at `b`.
pub(crate) fn arriving(sim: &Sim, a: &mut Guest, b: &mut Guest, frames: &[Vec<u8>]) -> Vec<bool> {
    let arrives = |frame: &Vec<u8>| {
        assert!(a.send(frame));
        sim.settle();
        !b.receive().is_empty()
    };
    frames.iter().map(arrives).collect()
}

/// Nothing was objected to, and no frame is unaccounted for.
#[track_caller]
pub(crate) fn assert_clean(sim: &Sim) {
    assert_eq!(sim.objections(), [""; 0]);
    assert_eq!((sim.unaccounted(0), sim.unaccounted(1)), (0, 0));
}
