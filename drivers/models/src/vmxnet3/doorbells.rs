//! Doorbells: what the driver writes while frames move, beside the device's lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crossbeam::utils::CachePadded;

use super::bits::{doorbell, limit};
use super::pci::PT;
use crate::counters::{DeviceCounters, DeviceCounts};
use crate::device::Doorbells;
use crate::objections::Objections;

/// Rung since the device last looked; the rest of the word is the slot.
const RUNG: u32 = 1 << 31;
/// Kinds of doorbell.
const KINDS: usize = 3;

/// What a doorbell is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bell {
    Tx = 0,
    Rx = 1,
    Rx2 = 2,
}

impl Bell {
    const ALL: [Self; KINDS] = [Self::Tx, Self::Rx, Self::Rx2];

    fn name(self) -> &'static str {
        match self {
            Self::Tx => "TXPROD",
            Self::Rx => "RXPROD",
            Self::Rx2 => "RXPROD2",
        }
    }

    fn offset(self, large: bool) -> u32 {
        match (self, large) {
            (Self::Tx, false) => doorbell::TXPROD,
            (Self::Rx, false) => doorbell::RXPROD,
            (Self::Rx2, false) => doorbell::RXPROD2,
            (Self::Tx, true) => doorbell::LARGE_TXPROD,
            (Self::Rx, true) => doorbell::LARGE_RXPROD,
            (Self::Rx2, true) => doorbell::LARGE_RXPROD2,
        }
    }
}

/// One register.
#[derive(Default)]
struct Line {
    value: AtomicU32,
    /// Slots of the ring it is about; 0: it is not in use.
    size: AtomicU32,
}

/// All doorbells.
pub(super) struct Bells {
    lines: [Box<[CachePadded<Line>]>; KINDS],
    active: AtomicBool,
    large: AtomicBool,
    counters: Arc<DeviceCounters>,
    objections: Objections,
}

impl Bells {
    pub(super) fn new(counters: Arc<DeviceCounters>, objections: Objections) -> Arc<Self> {
        let queues = usize::from(limit::EXT_QUEUES);
        let lines = || (0..queues).map(|_| CachePadded::default()).collect();
        Arc::new(Self {
            lines: [lines(), lines(), lines()],
            active: AtomicBool::new(false),
            large: AtomicBool::new(false),
            counters,
            objections,
        })
    }

    /// A ring of `size` slots begins to be used.
    pub(super) fn open(&self, bell: Bell, queue: usize, size: u32) {
        if let Some(line) = self.lines[bell as usize].get(queue) {
            line.value.store(0, Ordering::Relaxed);
            line.size.store(size, Ordering::Release);
        }
    }

    pub(super) fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Release);
    }

    /// No ring is in use any more.
    pub(super) fn close(&self) {
        self.set_active(false);
        for line in self.lines.iter().flatten() {
            line.size.store(0, Ordering::Release);
        }
    }

    /// Doorbells lie behind the first page.
    pub(super) fn set_large(&self, large: bool) {
        self.large.store(large, Ordering::Release);
    }

    /// The slot that was written since the last call.
    #[inline]
    pub(super) fn take(&self, bell: Bell, queue: usize) -> Option<u32> {
        let line = self.lines[bell as usize].get(queue)?;
        // A look first, as looks are many and rings are few.
        if line.value.load(Ordering::Relaxed) & RUNG == 0 {
            return None;
        }
        let value = line.value.fetch_and(!RUNG, Ordering::Acquire);
        Some(value & !RUNG)
    }

    /// The doorbell at `offset`, and its queue.
    fn find(offset: u32, large: bool) -> Option<(Bell, u32)> {
        let span = u32::from(limit::EXT_QUEUES) * doorbell::STRIDE;
        Bell::ALL.into_iter().find_map(|bell| {
            let behind = offset.checked_sub(bell.offset(large))?;
            (behind < span && behind.is_multiple_of(doorbell::STRIDE))
                .then_some((bell, behind / doorbell::STRIDE))
        })
    }

    /// True for the offset of a doorbell, used or not.
    pub(super) fn is_one(offset: u32) -> bool {
        [false, true]
            .into_iter()
            .any(|large| Self::find(offset, large).is_some())
    }

    fn pull(&self, bell: Bell, queue: u32, width: u8, value: u32) {
        let name = bell.name();
        if width != 4 {
            self.objections
                .raise(format!("{name} written with {width} bytes instead of 4"));
            return;
        }
        if !self.active.load(Ordering::Acquire) {
            self.objections
                .raise(format!("{name} of queue {queue} before ACTIVATE_DEV"));
            return;
        }
        let line = &self.lines[bell as usize][queue as usize];
        let size = line.size.load(Ordering::Acquire);
        if size == 0 {
            self.objections
                .raise(format!("{name} of queue {queue}, which is not set up"));
        } else if value >= size {
            self.objections.raise(format!(
                "{name} of queue {queue}: slot {value} of a ring of {size}"
            ));
        } else {
            line.value.store(value | RUNG, Ordering::Release);
            self.counters.add(&DeviceCounts {
                kicks: 1,
                ..DeviceCounts::default()
            });
        }
    }
}

impl Doorbells for Bells {
    fn ring(&self, index: u8, offset: u32, width: u8, value: u32) -> bool {
        if index != PT {
            return false;
        }
        let large = self.large.load(Ordering::Acquire);
        let Some((bell, queue)) = Self::find(offset, large) else {
            return false;
        };
        self.pull(bell, queue, width, value);
        true
    }
}
