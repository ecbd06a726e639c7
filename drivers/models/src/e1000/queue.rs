//! A queue's registers and its ring (82540 §3.2.6, §3.4.3; 82576 §7.1.4, §7.2.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam::utils::CachePadded;
use hugemem::{Iova, SimWords, Translator};

use super::bits::ring;
use super::options::Kind;
use super::stats::low;
use crate::counters::{DeviceCounters, DeviceCounts};
use crate::device::Doorbells;

/// Bytes of a descriptor.
const SLOT: u32 = 16;
/// A ring's length is a multiple of this.
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

/// Which queue's which register is at `offset`, if one is. The 82576 has its first four queues at
/// the old places too (§8.1.3).
pub(super) fn locate(kind: Kind, queues: u32, offset: u32) -> Option<(Side, u32, u32)> {
    let old = |base: u32| ((offset - base) / 0x100, offset % 0x100);
    let new = |base: u32| ((offset - base) / 0x40, offset % 0x40);
    let (side, (queue, register)) = match offset {
        0x2800..0x2c00 => (Side::Rx, old(0x2800)),
        0x3800..0x3c00 => (Side::Tx, old(0x3800)),
        0xc000..0xc400 if kind == Kind::Igb => (Side::Rx, new(0xc000)),
        0xe000..0xe400 if kind == Kind::Igb => (Side::Tx, new(0xe000)),
        _ => return None,
    };
    let common = matches!(
        register,
        ring::BAL | ring::BAH | ring::LEN | ring::HEAD | ring::TAIL | ring::DCTL
    );
    let further = match side {
        Side::Rx => matches!(register, ring::SRRCTL | ring::DCA | ring::RQDPC),
        Side::Tx => matches!(register, ring::DCA | ring::WBAL | ring::WBAH),
    };
    let known = common || further && kind.is_advanced();
    (known && queue < queues).then_some((side, queue, register))
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
    kind: Kind,
    rx: Box<[CachePadded<Tail>]>,
    tx: Box<[CachePadded<Tail>]>,
    counters: Arc<DeviceCounters>,
}

impl Tails {
    pub(super) fn new(kind: Kind, queues: u16, counters: Arc<DeviceCounters>) -> Arc<Self> {
        let tails = || (0..queues).map(|_| CachePadded::default()).collect();
        Arc::new(Self {
            kind,
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
        let queue = usize::try_from(queue).ok()?;
        tails.get(queue).map(|tail| &**tail)
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
        let queues = u32::try_from(self.rx.len()).unwrap_or(0);
        let Some((side, queue, ring::TAIL)) = locate(self.kind, queues, offset) else {
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
    pub(super) head: u32,
    /// The next descriptor to be read; those from the head to here are being worked on.
    pub(super) next: u32,
    pub(super) control: u32,
    /// How often the control register still shows the old enable bit.
    lag: u32,
    pub(super) srrctl: u32,
    dca: u32,
    /// Frames dropped for want of a descriptor (82576 §8.10.10): twelve bits.
    pub(super) dropped: u32,
    /// Where the head is written to memory; bit 0 says that it is.
    write_back: u64,
    ring: Option<SimWords<[AtomicU64; 2]>>,
    /// The length is kept in units of a descriptor (82576), not of 128 bytes.
    keeps_units: bool,
    /// Descriptors take two slots: they have four buffers each (82574's packet split).
    pub(super) splits: bool,
    /// It did what it must not, and stands still until it is set up again.
    pub(super) broken: bool,
}

impl Queue {
    pub(super) fn new(kind: Kind, side: Side, index: u32) -> Self {
        // The write-back threshold is 1 after a reset on the later receive queues.
        let control = match side {
            Side::Rx if kind != Kind::E1000 => 1 << 16,
            _ => 0,
        };
        // Queue 0 of the 82576 is enabled from the start (§8.10.8), though it has no ring.
        let enabled = if kind == Kind::Igb && index == 0 {
            ring::ENABLE
        } else {
            0
        };
        Self {
            side,
            index,
            base: 0,
            len: 0,
            head: 0,
            next: 0,
            control: control | enabled,
            lag: 0,
            srrctl: 0,
            dca: 0,
            dropped: 0,
            write_back: 0,
            ring: None,
            keeps_units: kind.is_advanced(),
            splits: false,
            broken: false,
        }
    }

    /// Slots of the ring.
    pub(super) fn slots(&self) -> u32 {
        self.len / SLOT
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.control & ring::ENABLE != 0
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
            ring::RQDPC => std::mem::take(&mut self.dropped),
            ring::WBAL => low(self.write_back),
            ring::WBAH => low(self.write_back >> 32),
            _ => 0,
        }
    }

    /// Writes a register other than the tail; `running` while the device looks at the ring.
    /// What may not be written so is the error.
    pub(super) fn write(&mut self, register: u32, value: u32, running: bool) -> Result<(), String> {
        // Linux's e1000e leaves the 82574's receiver on while it sets the ring up: a head that
        // stays where it is moves nothing.
        let moves = matches!(register, ring::BAL | ring::BAH | ring::LEN | ring::SRRCTL)
            || register == ring::HEAD && value != self.head;
        // It is kept all the same: the test of Linux's e1000e looks.
        let moved = moves && running && self.len > 0;
        let wide = u64::from(value);
        let upper = u64::from(u32::MAX) << 32;
        match register {
            ring::BAL => {
                self.base = self.base & upper | wide & !0xf;
                self.forget();
                if value & 0xf != 0 {
                    return Err(format!("a ring at {value:#x}, not on a boundary of 16"));
                }
            }
            ring::BAH => {
                self.base = self.base & !upper | wide << 32;
                self.forget();
            }
            ring::LEN => {
                // The 82576 keeps more bits than may be set: its drivers' tests look.
                let unit = if self.keeps_units { SLOT } else { LENGTH_UNIT };
                self.len = value & LENGTH_MASK & !(unit - 1);
                self.forget();
                if value != self.len || !value.is_multiple_of(LENGTH_UNIT) {
                    return Err(format!(
                        "a ring of {value} bytes, not a multiple of {LENGTH_UNIT} below 1 MiB"
                    ));
                }
            }
            ring::HEAD => {
                self.head = value & 0xffff;
                self.next = self.head;
                self.broken = false;
            }
            ring::SRRCTL => self.srrctl = value,
            ring::DCA => self.dca = value,
            ring::WBAL => self.write_back = self.write_back & upper | wide,
            ring::WBAH => self.write_back = self.write_back & !upper | wide << 32,
            _ => {
                return Err(format!(
                    "register {register:#x} of a {} queue is read-only",
                    self.side.name()
                ));
            }
        }
        if moved {
            return Err(format!(
                "register {register:#x} of {} queue {} written while it runs",
                self.side.name(),
                self.index
            ));
        }
        Ok(())
    }

    /// The control register is written; its enable bit shows only some reads later.
    pub(super) fn set_control(&mut self, value: u32, reads: u32) {
        let turned = (value ^ self.control) & ring::ENABLE != 0;
        self.control = value & !ring::FLUSH;
        if turned {
            self.lag = reads;
            self.next = self.head;
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.ring = None;
        self.broken = false;
    }

    /// The ring, mapped now and as large as it is said to be.
    pub(super) fn ring(&mut self, memory: &mut Translator) -> Result<&[[AtomicU64; 2]], String> {
        let slots = usize::try_from(self.len / SLOT).expect("a ring is smaller than 1 MiB");
        let base = Iova::from_device(self.base);
        let lost =
            || format!("the ring of {slots} descriptors at {base} is not mapped (not all of it)");
        match &self.ring {
            None => self.ring = Some(memory.words(base, slots).map_err(|_| lost())?),
            Some(ring) if !memory.covers(ring.iova, ring.len) => return Err(lost()),
            Some(_) => {}
        }
        Ok(self.ring.as_deref().unwrap_or_default())
    }

    /// Where the head is written to, if it is (82576 §7.2.3.5.2).
    pub(super) fn head_write_back(&self) -> Option<Iova> {
        (self.write_back & 1 != 0).then(|| Iova::from_device(self.write_back & !3))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_first_four_queues_of_the_82576_are_at_two_places() {
        for queue in 0..4 {
            for register in [ring::BAL, ring::TAIL, ring::DCTL] {
                let old = locate(Kind::Igb, 16, 0x2800 + queue * 0x100 + register);
                let new = locate(Kind::Igb, 16, 0xc000 + queue * 0x40 + register);
                assert_eq!(old, new);
                assert_eq!(old, Some((Side::Rx, queue, register)));
            }
        }
        let last = locate(Kind::Igb, 16, 0xe000 + 15 * 0x40 + ring::TAIL);
        assert_eq!(last, Some((Side::Tx, 15, ring::TAIL)));
        assert_eq!(locate(Kind::E1000e, 2, 0xc000), None);
        assert_eq!(locate(Kind::E1000, 1, 0x2900), None, "one queue");
        assert_eq!(locate(Kind::E1000, 1, 0x280c), None, "no SRRCTL");
    }
}
