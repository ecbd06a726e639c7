//! A queue's registers and its ring (82599 §7.1.9, §7.2.3.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam::utils::CachePadded;
use hugemem::{Iova, SimWords, Translator};

use super::bits::{low, ring};
use crate::counters::{DeviceCounters, DeviceCounts};
use crate::device::Doorbells;

/// Bytes of a descriptor.
const SLOT: u32 = 16;
/// A ring's length is a multiple of this, and its address too.
const LENGTH_UNIT: u32 = 128;
/// A ring's length has this many bits.
const LENGTH_MASK: u32 = 0xf_ffff;

/// The direction of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Rx,
    Tx,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rx => "receive",
            Self::Tx => "transmit",
        }
    }
}

/// Where the queues' registers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// A physical function's: 128 queues each way.
    Pf,
    /// A virtual function's: eight.
    Vf,
}

impl Layout {
    /// Queues each way that have registers.
    pub(super) fn queues(self) -> u32 {
        match self {
            Self::Pf => 128,
            Self::Vf => 8,
        }
    }

    /// Which queue's which register is at `offset`, if one is. The first sixteen receive queues
    /// have two of theirs at older places too (82599 §8.2.3.8.7, §8.2.3.11.1).
    #[inline]
    pub(super) fn locate(self, offset: u32) -> Option<(Side, u32, u32)> {
        let block = |base: u32| ((offset - base) / 0x40, offset % 0x40);
        let (side, (queue, register)) = match (self, offset) {
            (Self::Pf, 0x1000..0x2000) | (Self::Vf, 0x1000..0x1200) => (Side::Rx, block(0x1000)),
            (Self::Pf, 0x2100..0x2140) => (Side::Rx, ((offset - 0x2100) / 4, ring::SRRCTL)),
            (Self::Pf, 0x2200..0x2240) => (Side::Rx, ((offset - 0x2200) / 4, ring::DCA)),
            (Self::Pf, 0xd000..0xe000) => {
                let (queue, register) = block(0xd000);
                (Side::Rx, (queue + 64, register))
            }
            (Self::Pf, 0x6000..0x8000) => (Side::Tx, block(0x6000)),
            (Self::Vf, 0x2000..0x2200) => (Side::Tx, block(0x2000)),
            _ => return None,
        };
        let known = match register {
            ring::BAL
            | ring::BAH
            | ring::LEN
            | ring::DCA
            | ring::HEAD
            | ring::TAIL
            | ring::DCTL => true,
            ring::SRRCTL | ring::RSCCTL => side == Side::Rx,
            ring::WBAL | ring::WBAH => side == Side::Tx,
            _ => false,
        };
        known.then_some((side, queue, register))
    }
}

/// A tail, which the driver writes beside the device's lock.
#[derive(Default)]
struct Tail {
    value: AtomicU32,
    /// Slots of its ring; 0 while writes must be looked at more closely.
    slots: AtomicU32,
}

/// The tails of all queues.
pub(super) struct Tails {
    layout: Layout,
    rx: Box<[CachePadded<Tail>]>,
    tx: Box<[CachePadded<Tail>]>,
    counters: Arc<DeviceCounters>,
}

impl Tails {
    pub(super) fn new(layout: Layout, counters: Arc<DeviceCounters>) -> Arc<Self> {
        let tails = || {
            (0..layout.queues())
                .map(|_| CachePadded::default())
                .collect()
        };
        Arc::new(Self {
            layout,
            rx: tails(),
            tx: tails(),
            counters,
        })
    }

    fn tail(&self, side: Side, queue: u32) -> Option<&Tail> {
        let tails = match side {
            Side::Rx => &self.rx,
            Side::Tx => &self.tx,
        };
        tails.get(queue as usize).map(|tail| &**tail)
    }

    /// What was written last.
    #[inline]
    pub(super) fn get(&self, side: Side, queue: u32) -> u32 {
        self.tail(side, queue)
            .map_or(0, |tail| tail.value.load(Ordering::Acquire))
    }

    pub(super) fn set(&self, side: Side, queue: u32, value: u32) {
        if let Some(tail) = self.tail(side, queue) {
            tail.value.store(value, Ordering::Release);
        }
    }

    /// Lets writes below `slots` pass without a look; none with 0.
    pub(super) fn pass(&self, side: Side, queue: u32, slots: u32) {
        if let Some(tail) = self.tail(side, queue) {
            tail.slots.store(slots, Ordering::Release);
        }
    }

    /// Everything as after a reset.
    pub(super) fn reset(&self) {
        for tail in self.rx.iter().chain(&self.tx) {
            tail.slots.store(0, Ordering::Release);
            tail.value.store(0, Ordering::Release);
        }
    }
}

impl Doorbells for Tails {
    fn ring(&self, index: u8, offset: u32, width: u8, value: u32) -> bool {
        if index != super::pci::REGISTERS || width != 4 {
            return false;
        }
        let Some((side, queue, ring::TAIL)) = self.layout.locate(offset) else {
            return false;
        };
        let tail = self.tail(side, queue);
        let Some(tail) = tail.filter(|tail| value < tail.slots.load(Ordering::Acquire)) else {
            return false;
        };
        tail.value.store(value, Ordering::Release);
        self.counters.add(&DeviceCounts {
            kicks: 1,
            ..DeviceCounts::default()
        });
        true
    }
}

/// One queue: its registers but the tail, and its ring once there is one.
pub(super) struct Queue {
    pub(super) side: Side,
    pub(super) index: u32,
    base: u64,
    len: u32,
    /// The first descriptor that the device is not done with.
    pub(super) head: u32,
    /// The next descriptor to be read; those from the head to here are being worked on.
    pub(super) next: u32,
    /// Behind the last descriptor that was written back.
    pub(super) written: u32,
    pub(super) control: u32,
    /// How often the control register still shows the old enable bit.
    lag: u32,
    pub(super) srrctl: u32,
    dca: u32,
    rscctl: u32,
    /// Where the head is written to memory; bit 0 says that it is.
    pub(super) write_back: u64,
    ring: Option<SimWords<[AtomicU64; 2]>>,
    /// The call of the device in which it was last found mapped.
    found: u64,
    /// It did what it must not, and stands still until it is set up again.
    pub(super) broken: bool,
}

impl Queue {
    pub(super) fn new(side: Side, index: u32) -> Self {
        Self {
            side,
            index,
            base: 0,
            len: 0,
            head: 0,
            next: 0,
            written: 0,
            control: 0,
            lag: 0,
            // 2 KiB after a reset (82599 §8.2.3.8.7).
            srrctl: if side == Side::Rx { 0x402 } else { 0 },
            dca: 0,
            rscctl: 0,
            write_back: 0,
            ring: None,
            found: 0,
            broken: false,
        }
    }

    /// Slots of the ring.
    #[inline]
    pub(super) fn slots(&self) -> u32 {
        self.len / SLOT
    }

    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        self.control & ring::ENABLE != 0
    }

    /// Frames that wait for others before they are written back (`WTHRESH`); 0: written back
    /// when asked for.
    #[inline]
    pub(super) fn threshold(&self) -> u32 {
        self.control >> 16 & 0x7f
    }

    /// Bytes of a receive buffer (`BSIZEPACKET`).
    #[inline]
    pub(super) fn buffer_size(&self) -> u32 {
        (self.srrctl & 0x1f) * 1024
    }

    /// Reads a register other than the tail.
    pub(super) fn read(&mut self, register: u32) -> u32 {
        match register {
            ring::BAL => low(self.base),
            ring::BAH => low(self.base >> 32),
            ring::LEN => self.len,
            ring::SRRCTL => self.srrctl,
            ring::HEAD => self.head,
            ring::DCA => self.dca,
            ring::DCTL if self.lag > 0 => {
                self.lag -= 1;
                self.control ^ ring::ENABLE
            }
            ring::DCTL => self.control,
            ring::RSCCTL => self.rscctl,
            ring::WBAL => low(self.write_back),
            ring::WBAH => low(self.write_back >> 32),
            _ => 0,
        }
    }

    /// Writes a register other than tail and control. What may not be written so is the error.
    pub(super) fn write(&mut self, register: u32, value: u32) -> Result<(), String> {
        // Whether a queue drops may change at any time: Linux's driver does so with the link.
        let layout = register == ring::SRRCTL && (value ^ self.srrctl) & !ring::DROP_EN != 0;
        let moves = matches!(register, ring::BAL | ring::BAH | ring::LEN);
        let moves = moves || layout || register == ring::HEAD && value != self.head;
        let running = self.is_enabled();
        let wide = u64::from(value);
        let upper = u64::from(u32::MAX) << 32;
        let mut odd = Ok(());
        match register {
            ring::BAL => {
                self.base = self.base & upper | wide & !0x7f;
                self.forget();
                if value & 0x7f != 0 {
                    odd = Err(format!("a ring at {value:#x}, not on a boundary of 128"));
                }
            }
            ring::BAH => {
                self.base = self.base & !upper | wide << 32;
                self.forget();
            }
            ring::LEN => {
                self.len = value & LENGTH_MASK & !(LENGTH_UNIT - 1);
                self.forget();
                if value != self.len {
                    odd = Err(format!(
                        "a ring of {value} bytes, not a multiple of {LENGTH_UNIT} below 1 MiB"
                    ));
                }
            }
            ring::HEAD => {
                self.head = value & 0xffff;
                (self.next, self.written) = (self.head, self.head);
                self.broken = false;
            }
            ring::SRRCTL => self.srrctl = value,
            ring::DCA => self.dca = value,
            ring::RSCCTL => {
                self.rscctl = value;
            }
            ring::WBAL => self.write_back = self.write_back & upper | wide,
            ring::WBAH => self.write_back = self.write_back & !upper | wide << 32,
            _ => {}
        }
        if moves && running {
            return Err(format!(
                "register {register:#x} of {} queue {} written while it runs",
                self.side.name(),
                self.index
            ));
        }
        odd
    }

    /// The control register is written; its enable bit shows only some reads later.
    pub(super) fn set_control(&mut self, value: u32, reads: u32) {
        let turned = (value ^ self.control) & ring::ENABLE != 0;
        self.control = value & !ring::FLUSH;
        if turned {
            self.lag = reads;
            // What was read and not sent is forgotten with the descriptors on chip.
            (self.next, self.written) = (self.head, self.head);
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.ring = None;
        self.broken = false;
    }

    /// The ring, mapped now and as large as it is said to be; looked for once in each `call` of
    /// the device, as a round has many frames.
    #[inline]
    pub(super) fn ring(
        &mut self,
        memory: &mut Translator,
        call: u64,
    ) -> Result<&[[AtomicU64; 2]], String> {
        if self.found != call || self.ring.is_none() {
            self.look_for_ring(memory)?;
            self.found = call;
        }
        Ok(self.ring.as_deref().unwrap_or_default())
    }

    fn look_for_ring(&mut self, memory: &mut Translator) -> Result<(), String> {
        let slots = self.slots() as usize;
        let base = self.base;
        let lost = || {
            let base = Iova::from_device(base);
            format!("the ring of {slots} descriptors at {base} is not mapped (not all of it)")
        };
        match &self.ring {
            None => {
                let words = memory.words(Iova::from_device(base), slots);
                self.ring = Some(words.map_err(|_| lost())?);
            }
            Some(ring) if !memory.covers(ring.iova, ring.len) => return Err(lost()),
            Some(_) => {}
        }
        Ok(())
    }

    /// Where the head is written to, if it is (§7.2.3.5.2).
    pub(super) fn head_write_back(&self) -> Option<Iova> {
        (self.write_back & 1 != 0).then(|| Iova::from_device(self.write_back & !3))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn all_128_queues_are_found_and_the_first_sixteen_at_both_places() {
        let pf = Layout::Pf;
        assert_eq!(pf.locate(0x1fd8), Some((Side::Rx, 63, ring::TAIL)));
        assert_eq!(pf.locate(0xd018), Some((Side::Rx, 64, ring::TAIL)));
        assert_eq!(pf.locate(0xdfe8), Some((Side::Rx, 127, ring::DCTL)));
        assert_eq!(pf.locate(0x7fe8), Some((Side::Tx, 127, ring::DCTL)));
        for queue in 0..16 {
            let old = pf.locate(0x2100 + queue * 4);
            assert_eq!(old, pf.locate(0x1014 + queue * 0x40));
            assert_eq!(old, Some((Side::Rx, queue, ring::SRRCTL)));
        }
        assert_eq!(pf.locate(0x1030), None, "QPRC");
        assert_eq!(pf.locate(0x6014), None, "no SRRCTL to send with");
    }

    #[test]
    fn a_virtual_function_has_eight_and_its_counters_between() {
        let vf = Layout::Vf;
        assert_eq!(vf.locate(0x11d8), Some((Side::Rx, 7, ring::TAIL)));
        assert_eq!(vf.locate(0x2018), Some((Side::Tx, 0, ring::TAIL)));
        assert_eq!(vf.locate(0x1200), None);
        for counter in [0x101c, 0x1020, 0x1024, 0x1034, 0x201c, 0x2020, 0x2024] {
            assert_eq!(vf.locate(counter), None, "{counter:#x}");
        }
    }
}
