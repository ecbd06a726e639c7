//! The other end, for tests: a small driver of physical and virtual functions. It is not the
//! driver of `drivers/ixgbe` and knows nothing of it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use hugemem::{Dma, Memory, MemoryRequest, PageSize, Pages};
use hw::{Bar, Function};
use models::ixgbe::{Ixgbe, IxgbeOptions, IxgbeVf, IxgbeVfOptions, Kind, Pf};
use models::{Device, Sim, SimBar, SimFunction, WireOptions};

pub(crate) const MAC_A: [u8; 6] = [0x02, 0x1b, 0x21, 0, 0, 0xa];
pub(crate) const MAC_B: [u8; 6] = [0x02, 0x1b, 0x21, 0, 0, 0xb];
pub(crate) const EVERYONE: [u8; 6] = [0xff; 6];
pub(crate) const KINDS: [Kind; 3] = [Kind::I82599, Kind::X540, Kind::X550];

pub(crate) const CTRL: u32 = 0;
pub(crate) const RST: u32 = 1 << 26;
pub(crate) const LINKS: u32 = 0x42a4;
pub(crate) const LINK_UP: u32 = 1 << 30;
pub(crate) const FCTRL: u32 = 0x5080;
pub(crate) const MPE: u32 = 1 << 8;
pub(crate) const UPE: u32 = 1 << 9;
pub(crate) const BAM: u32 = 1 << 10;
pub(crate) const HLREG0: u32 = 0x4240;
pub(crate) const JUMBO: u32 = 1 << 2;
pub(crate) const MHADD: u32 = 0x4268;
pub(crate) const MRQC: u32 = 0x5818;
pub(crate) const RXCTRL: u32 = 0x3000;
pub(crate) const DMATXCTL: u32 = 0x4a80;
pub(crate) const MAILBOX: u32 = 0x2fc;
pub(crate) const MESSAGE: u32 = 0x200;

/// A queue's registers.
pub(crate) const LEN: u32 = 0x8;
pub(crate) const HEAD: u32 = 0x10;
pub(crate) const SRRCTL: u32 = 0x14;
pub(crate) const TAIL: u32 = 0x18;
pub(crate) const DCTL: u32 = 0x28;
pub(crate) const ENABLE: u32 = 1 << 25;
pub(crate) const STRIP: u32 = 1 << 30;
pub(crate) const ONE_BUFFER: u32 = 1 << 25;
pub(crate) const DROP: u32 = 1 << 28;

/// Descriptor commands, in the upper word.
pub(crate) const EOP: u64 = 1 << 24;
pub(crate) const IFCS: u64 = 1 << 25;
pub(crate) const RS: u64 = 1 << 27;
pub(crate) const DEXT: u64 = 1 << 29;
pub(crate) const VLE: u64 = 1 << 30;
pub(crate) const DONE: u64 = 1 << 32;
pub(crate) const CC: u64 = 1 << 39;

/// Bytes from one buffer to the next.
pub(crate) const STRIDE: usize = 16_384;

/// How a driver wants its device.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) slots: u32,
    pub(crate) queues: u32,
    pub(crate) fctrl: u32,
    /// Bytes of a receive buffer.
    pub(crate) buffer: u32,
    /// Legacy descriptors both ways.
    pub(crate) legacy: bool,
    pub(crate) drop: bool,
    pub(crate) strip: bool,
    /// `TXDCTL.WTHRESH`.
    pub(crate) threshold: u32,
    /// Longest frame with FCS, where jumbo frames are on.
    pub(crate) longest: Option<u32>,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            slots: 8,
            queues: 1,
            fctrl: BAM,
            buffer: 2048,
            legacy: false,
            drop: true,
            strip: false,
            threshold: 0,
            longest: None,
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
    /// First word of an advanced write-back.
    pub(crate) first: u64,
    /// Descriptors that it took.
    pub(crate) pieces: u32,
}

/// A driver of one end.
pub(crate) struct Guest {
    pub(crate) function: SimFunction,
    pub(crate) memory: Memory,
    pub(crate) bar: SimBar,
    pub(crate) is_vf: bool,
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

    fn read(&self, slot: u32, len: usize) -> Vec<u8> {
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
    pub(crate) fn attach(function: SimFunction, is_vf: bool, wish: Wish) -> Self {
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
        function.set_config16(4, 6);
        Self {
            function,
            memory,
            bar,
            is_vf,
            wish,
            rx: Vec::new(),
            tx: Vec::new(),
            seen: 0,
        }
    }

    /// Opens the device and starts it, receive buffers armed.
    pub(crate) fn open(function: SimFunction, is_vf: bool, wish: Wish, step: &dyn Fn()) -> Self {
        let mut guest = Self::attach(function, is_vf, wish);
        guest.reset(step);
        if is_vf {
            guest.say_hello(step);
            assert!(guest.order(&[8, 2], step), "version 1.1");
            assert!(guest.order(&[5, 1518], step), "the usual frames");
        }
        guest.set_up();
        guest
    }

    pub(crate) fn reset(&mut self, step: &dyn Fn()) {
        self.bar.store32(CTRL, RST);
        if self.is_vf {
            step();
            return;
        }
        self.until(CTRL, RST, 0);
        self.until(0x1_0010, 1 << 9, 1 << 9);
        self.until(0x2f00, 1 << 3, 1 << 3);
    }

    #[track_caller]
    pub(crate) fn until(&self, register: u32, mask: u32, wanted: u32) {
        let there = (0..100).any(|_| self.bar.load32(register) & mask == wanted);
        assert!(there, "{register:#x} does not become {wanted:#x}");
    }

    /// A virtual function's first message.
    pub(crate) fn say_hello(&mut self, step: &dyn Fn()) -> [u32; 4] {
        step();
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
    pub(crate) fn hear(&mut self) -> Option<[u32; 4]> {
        self.hear_more().map(|words| words[..4].try_into().unwrap())
    }

    pub(crate) fn hear_more(&mut self) -> Option<[u32; 16]> {
        if self.look_at_mailbox() & 0x10 == 0 {
            return None;
        }
        self.seen &= !0x10;
        self.bar.store32(MAILBOX, 4);
        let words =
            std::array::from_fn(|n| self.bar.load32(MESSAGE + 4 * u32::try_from(n).unwrap()));
        self.bar.store32(MAILBOX, 2);
        Some(words)
    }

    /// A message and its answer.
    pub(crate) fn ask(&mut self, words: &[u32], step: &dyn Fn()) -> Option<[u32; 4]> {
        assert!(self.tell(words));
        step();
        let acknowledged = self.look_at_mailbox() & 0x20 != 0;
        step();
        acknowledged.then(|| self.hear()).flatten()
    }

    /// True if what was asked for is granted.
    pub(crate) fn order(&mut self, words: &[u32], step: &dyn Fn()) -> bool {
        let answer = self.ask(words, step).unwrap();
        assert_eq!(answer[0] & 0xffff, words[0] & 0xffff);
        answer[0] & 0xe000_0000 == 0xa000_0000
    }

    /// Sets the rings up and switches everything on.
    pub(crate) fn set_up(&mut self) {
        self.make_rings();
        if !self.is_vf {
            let stripped = self.bar.load32(0x2f00) | 1 << 1;
            self.bar.store32(0x2f00, stripped);
            self.bar.store32(FCTRL, self.wish.fctrl);
            if let Some(longest) = self.wish.longest {
                let control = self.bar.load32(HLREG0);
                self.bar.store32(HLREG0, control | JUMBO);
                self.bar.store32(MHADD, longest << 16);
            }
            let control = self.bar.load32(DMATXCTL);
            self.bar.store32(DMATXCTL, control | 1);
        }
        for n in 0..self.wish.queues as usize {
            self.start_queue(n);
        }
        if !self.is_vf {
            self.bar.store32(0x8d00, 1 << 1 | 1);
            self.until(0x8d04, 1, 1);
            self.bar.store32(RXCTRL, 1);
            self.bar.store32(0x8d00, 1);
        }
        self.arm();
    }

    pub(crate) fn make_rings(&mut self) {
        let tx = if self.is_vf { 0x2000 } else { 0x6000 };
        let (memory, slots) = (&self.memory, self.wish.slots);
        let rings = |base: u32| {
            let ring = |n| Ring::new(memory, base + n * 0x40, slots);
            (0..self.wish.queues).map(ring).collect::<Vec<_>>()
        };
        (self.rx, self.tx) = (rings(0x1000), rings(tx));
    }

    pub(crate) fn start_queue(&mut self, n: usize) {
        for (ring, is_rx) in [(&self.rx[n], true), (&self.tx[n], false)] {
            let iova = ring.words.iova().get();
            self.bar.store32(ring.base + DCTL, 0);
            self.bar.store32(ring.base, low(iova));
            self.bar.store32(ring.base + 4, low(iova >> 32));
            self.bar.store32(ring.base + LEN, ring.slots * 16);
            self.bar.store32(ring.base + HEAD, 0);
            self.bar.store32(ring.base + TAIL, 0);
            let mut control = ENABLE;
            if is_rx {
                let drop = if self.wish.drop { DROP } else { 0 };
                let kind = if self.wish.legacy { 0 } else { ONE_BUFFER };
                let size = self.wish.buffer / 1024;
                self.bar.store32(ring.base + SRRCTL, kind | drop | size);
                control |= if self.wish.strip { STRIP } else { 0 };
            } else {
                control |= self.wish.threshold << 16;
            }
            self.bar.store32(ring.base + DCTL, control);
            self.until(ring.base + DCTL, ENABLE, ENABLE);
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
        self.bar.store32(ring.base + TAIL, ring.post);
    }

    /// The command of a plain frame of `len` bytes in one descriptor.
    pub(crate) fn command(&self, len: usize) -> u64 {
        let len = len as u64;
        let plain = len | EOP | IFCS | RS;
        if self.wish.legacy {
            plain
        } else {
            plain | DEXT | 3 << 20 | len << 46
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
        self.bar.store32(ring.base + TAIL, ring.post);
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
        let tag = u16::try_from(second >> 48).unwrap();
        let (status, len) = if self.wish.legacy {
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

pub(crate) fn options(kind: Kind, mac: [u8; 6]) -> IxgbeOptions {
    IxgbeOptions {
        // Only looking ends a reset.
        reset_lasts: Duration::from_secs(3600),
        ..IxgbeOptions::of(kind, mac)
    }
}

/// Two physical functions that move step by step, of one kind.
pub(crate) fn stepped(kind: Kind) -> Sim {
    stepped_with(&options(kind, MAC_A), &options(kind, MAC_B))
}

pub(crate) fn stepped_with(a: &IxgbeOptions, b: &IxgbeOptions) -> Sim {
    pair(Ixgbe::boxed("a", a), Ixgbe::boxed("b", b))
}

fn pair(a: Box<dyn Device>, b: Box<dyn Device>) -> Sim {
    let sim = Sim::stepped(a, b, WireOptions::default());
    // The links come up.
    sim.settle();
    sim
}

/// Two devices and their drivers, receive buffers armed.
pub(crate) fn rig(kind: Kind, wish: &Wish) -> (Sim, Guest, Guest) {
    let sim = stepped(kind);
    let (a, b) = open_both(&sim, wish);
    (sim, a, b)
}

pub(crate) fn open_both(sim: &Sim, wish: &Wish) -> (Guest, Guest) {
    let step = || {
        sim.step();
    };
    let a = Guest::open(sim.function(0), false, wish.clone(), &step);
    let b = Guest::open(sim.function(1), false, wish.clone(), &step);
    sim.settle();
    (a, b)
}

/// A sender that is an 82599 and takes everything, and a virtual function with the handle on its
/// physical one; the virtual function's driver has done nothing yet.
pub(crate) fn vf_pair(receiver: &IxgbeVfOptions) -> (Sim, Guest, Pf) {
    let vf = IxgbeVf::new("b", receiver);
    let pf = vf.pf();
    let sim = pair(
        Ixgbe::boxed("a", &options(Kind::I82599, MAC_A)),
        Box::new(vf),
    );
    let plain = Wish {
        fctrl: BAM | MPE | UPE,
        buffer: 16_384 - 1024,
        longest: Some(15_872),
        ..Wish::default()
    };
    let a = Guest::open(sim.function(0), false, plain, &|| ());
    (sim, a, pf)
}

/// As [`vf_pair`], with the virtual function's driver at work.
pub(crate) fn vf_rig(receiver: &IxgbeVfOptions, wish: &Wish) -> (Sim, Guest, Guest, Pf) {
    let (sim, a, pf) = vf_pair(receiver);
    let step = || {
        sim.step();
    };
    let b = Guest::open(sim.function(1), true, wish.clone(), &step);
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
