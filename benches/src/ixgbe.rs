//! An 82599 that does nothing but complete, in the thread of whoever writes the tail.
//!
//! The driver is the real one. Its device is a table of registers; a write to the send tail sets
//! *done* wherever a report was asked for, without a look at the frames, and that is timed where
//! it is to be taken off. So a run over this port costs the engine, the driver, and a share of the
//! device that is known. Receiving, it fills what is armed when it is told to.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hugemem::{DmaSpace, Iova, SimSpace, SimWords};
use hw::Bar;
use hw::function::{BarError, COMMAND, Function};
use models::consumer::Share;
use port::Port;

/// Bytes of registers.
const REGISTERS: u32 = 0x2_0000;
const CTRL: u32 = 0;
/// The bits of CTRL that clear themselves.
const RESETS: u32 = 1 << 26 | 1 << 3;
/// Send queue 0: its ring, the ring's bytes, its tail.
const TDBAL: u32 = 0x6000;
const TDLEN: u32 = 0x6008;
const TDT: u32 = 0x6018;
/// Receive queue 0: its ring, the ring's bytes, its tail.
const RDBAL: u32 = 0x1000;
const RDLEN: u32 = 0x1008;
const RDT: u32 = 0x1018;
/// In a receive descriptor that is filled: done, and the packet's end.
const FILLED: u64 = 0b11;
/// Frames sent, cleared by reading.
const GPTC: u32 = 0x4080;
/// In a send descriptor: report asked for, and done.
const REPORT: u64 = 1 << 27;
const DONE: u64 = 1 << 32;

/// The ring, and how far the device is.
struct Ring {
    slots: SimWords<[AtomicU64; 2]>,
    head: usize,
}

struct Inner {
    registers: Box<[AtomicU32]>,
    command: AtomicU16,
    space: Arc<SimSpace>,
    ring: Mutex<Option<Ring>>,
    /// The receive ring, once something is filled.
    receives: Mutex<Option<Ring>>,
    timed: AtomicBool,
    share: Mutex<Share>,
    /// What two readings of the clock cost.
    overhead: Duration,
}

/// The device: its registers and its PCI function.
#[derive(Clone)]
struct Nic(Arc<Inner>);

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nic")
    }
}

impl Nic {
    fn new() -> Self {
        let registers: Box<[AtomicU32]> = (0..REGISTERS / 4).map(|_| AtomicU32::new(0)).collect();
        // EEC.ARD, RDRXCTL.DMAIDONE, SECRXSTAT.RDY, an address, and a link of 10 Gb/s.
        for (offset, value) in [
            (0x1_0010, 1 << 9),
            (0x2f00, 1 << 3),
            (0x8d04, 1),
            (0x5400, 0x0000_0002),
            (0x5404, 1 << 31 | 0x0100),
            (0x42a4, 1 << 30 | 3 << 28),
        ] {
            registers[offset / 4].store(value, Ordering::Relaxed);
        }
        let mut gaps: Vec<_> = (0..101).map(|_| Instant::now().elapsed()).collect();
        gaps.sort_unstable();
        Self(Arc::new(Inner {
            registers,
            command: AtomicU16::new(0),
            space: SimSpace::new(),
            ring: Mutex::new(None),
            receives: Mutex::new(None),
            timed: AtomicBool::new(false),
            share: Mutex::default(),
            overhead: gaps[50],
        }))
    }

    fn register(&self, offset: u32) -> &AtomicU32 {
        &self.0.registers[offset as usize / 4]
    }

    /// Finds the ring that the driver has shown: its address and its bytes are in registers at
    /// `base` and `bytes`.
    fn open_ring(&self, base: u32, bytes: u32) -> Ring {
        let half = |offset| u64::from(self.register(offset).load(Ordering::Relaxed));
        let base = half(base) | half(base + 4) << 32;
        let slots = self.register(bytes).load(Ordering::Relaxed) as usize / 16;
        let words = self
            .0
            .space
            .translator()
            .words(Iova::from_device(base), slots);
        Ring {
            slots: words.expect("the driver's ring is mapped"),
            head: 0,
        }
    }

    /// True once something was posted.
    fn has_begun(&self) -> bool {
        let ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.is_some()
    }

    /// Completes everything up to `tail`.
    fn drain(&self, tail: usize) {
        let mut ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = ring.get_or_insert_with(|| self.open_ring(TDBAL, TDLEN));
        let started = self.0.timed.load(Ordering::Relaxed).then(Instant::now);
        let mut frames = 0;
        while ring.head != tail {
            let word = &ring.slots[ring.head][1];
            let now = word.load(Ordering::Relaxed);
            if now & REPORT != 0 {
                word.store(now | DONE, Ordering::Release);
            }
            frames += 1;
            ring.head = (ring.head + 1) & (ring.slots.len() - 1);
        }
        if let Some(started) = started {
            let took = started.elapsed().saturating_sub(self.0.overhead);
            let mut share = self.0.share.lock().unwrap_or_else(PoisonError::into_inner);
            share.frames += u64::from(frames);
            share.time += took;
        }
        self.register(GPTC).fetch_add(frames, Ordering::Relaxed);
    }
}

impl Nic {
    /// Fills every buffer that is armed with a frame of 60 bytes; how many.
    fn fill(&self) -> usize {
        let mut ring = self
            .0
            .receives
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ring = ring.get_or_insert_with(|| self.open_ring(RDBAL, RDLEN));
        let tail = self.register(RDT).load(Ordering::Relaxed) as usize;
        let mut frames = 0;
        while ring.head != tail {
            let [first, second] = &ring.slots[ring.head];
            first.store(0, Ordering::Relaxed);
            second.store(60 << 32 | FILLED, Ordering::Release);
            frames += 1;
            ring.head = (ring.head + 1) & (ring.slots.len() - 1);
        }
        frames
    }
}

impl Bar for Nic {
    fn len(&self) -> u64 {
        u64::from(REGISTERS)
    }
    fn load8(&self, _offset: u32) -> u8 {
        0
    }
    fn load16(&self, _offset: u32) -> u16 {
        0
    }
    fn load32(&self, offset: u32) -> u32 {
        if offset == GPTC {
            return self.register(GPTC).swap(0, Ordering::Relaxed);
        }
        self.register(offset).load(Ordering::Relaxed)
    }
    fn store8(&self, _offset: u32, _value: u8) {}
    fn store16(&self, _offset: u32, _value: u16) {}
    fn store32(&self, offset: u32, value: u32) {
        let value = if offset == CTRL {
            value & !RESETS
        } else {
            value
        };
        self.register(offset).store(value, Ordering::Relaxed);
        // Zero may be the ring's end, or what is written before the ring is shown.
        if offset == TDT && (value != 0 || self.has_begun()) {
            self.drain(value as usize);
        }
    }
}

impl Function for Nic {
    type Bar = Self;

    fn name(&self) -> &str {
        "sim:82599"
    }
    fn config8(&self, _offset: u16) -> u8 {
        0
    }
    fn config16(&self, offset: u16) -> u16 {
        match offset {
            0 => 0x8086,
            2 => 0x10fb,
            COMMAND => self.0.command.load(Ordering::Relaxed),
            _ => 0,
        }
    }
    fn config32(&self, _offset: u16) -> u32 {
        0
    }
    fn set_config16(&self, offset: u16, value: u16) {
        if offset == COMMAND {
            self.0.command.store(value, Ordering::Relaxed);
        }
    }
    fn bar(&self, _index: u8) -> Result<Self, BarError> {
        Ok(self.clone())
    }
    fn space(&self) -> Arc<dyn DmaSpace> {
        self.0.space.clone()
    }
    fn reset(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The device behind such a port: what its part of a run cost, once that is over.
#[derive(Debug, Clone)]
pub struct NicShare(Nic);

impl NicShare {
    /// Fills every receive buffer that is armed; how many.
    pub(crate) fn fill(&self) -> usize {
        self.0.fill()
    }

    /// Nanoseconds a frame.
    #[must_use]
    pub fn ns_per_frame(&self) -> f64 {
        let share = self
            .0
            .0
            .share
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        share.ns_per_frame()
    }
}

/// A port of the ixgbe driver on a device that only completes. With `timed`, what the device does
/// is timed; that costs two readings of the clock a burst.
///
/// # Panics
/// The driver does not open it.
#[must_use]
pub fn ixgbe(timed: bool) -> (Box<dyn Port>, NicShare) {
    let nic = Nic::new();
    nic.0.timed.store(timed, Ordering::Relaxed);
    let port = ixgbe::open_pci(nic.clone(), &ixgbe::Options::default());
    (port.expect("the device answers"), NicShare(nic))
}
