//! Doorbells: what the driver writes while frames move, beside the device's lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crossbeam::utils::CachePadded;

use super::{LEGACY_BAR, MODERN_BAR, NOTIFY};
use crate::counters::{DeviceCounters, DeviceCounts};
use crate::device::Doorbells;
use crate::objections::Objections;

/// Offset of the legacy doorbell (§4.1.4.8).
const LEGACY_NOTIFY: u32 = 16;

/// One queue's doorbell.
#[derive(Default)]
pub(super) struct Bell {
    /// Rung since the device last looked.
    pub(super) rung: AtomicBool,
    enabled: AtomicBool,
}

/// What doorbells must know of the device.
pub(super) struct Bells {
    bells: Box<[CachePadded<Bell>]>,
    multiplier: u32,
    /// `DRIVER_OK` is set.
    running: AtomicBool,
    /// The driver uses the legacy interface.
    legacy: AtomicBool,
    /// Doorbells carry the ring's position.
    with_data: AtomicBool,
    /// Position of the last doorbell with data, for the curious.
    last: AtomicU32,
    has_legacy: bool,
    counters: Arc<DeviceCounters>,
    objections: Objections,
}

impl Bells {
    pub(super) fn new(
        queues: u16,
        multiplier: u32,
        has_legacy: bool,
        counters: Arc<DeviceCounters>,
        objections: Objections,
    ) -> Arc<Self> {
        Arc::new(Self {
            bells: (0..queues).map(|_| CachePadded::default()).collect(),
            multiplier,
            running: AtomicBool::new(false),
            legacy: AtomicBool::new(false),
            with_data: AtomicBool::new(false),
            last: AtomicU32::new(0),
            has_legacy,
            counters,
            objections,
        })
    }

    pub(super) fn bell(&self, queue: u16) -> Option<&Bell> {
        self.bells.get(usize::from(queue)).map(|bell| &**bell)
    }

    pub(super) fn set_enabled(&self, queue: u16, enabled: bool) {
        if let Some(bell) = self.bell(queue) {
            bell.enabled.store(enabled, Ordering::Release);
            bell.rung.store(false, Ordering::Release);
        }
    }

    pub(super) fn set_state(&self, running: bool, legacy: bool, with_data: bool) {
        self.running.store(running, Ordering::Release);
        self.legacy.store(legacy, Ordering::Release);
        self.with_data.store(with_data, Ordering::Release);
    }

    /// A write of `value` to the doorbell area at `offset` (§4.1.4.4, §4.1.5.2).
    fn modern(&self, offset: u32, width: u8, value: u32) {
        let with_data = self.with_data.load(Ordering::Acquire);
        let wanted = if with_data { 4 } else { 2 };
        if width != wanted {
            self.objections.raise(format!(
                "doorbell written with {width} bytes instead of {wanted} (§4.1.4.4)"
            ));
            return;
        }
        // With data: the queue in the low half, the ring's position in the high one (§2.9).
        let queue = value & 0xffff;
        if offset != queue * self.multiplier {
            self.objections.raise(format!(
                "doorbell of queue {queue} written at {offset:#x} instead of {:#x}",
                queue * self.multiplier
            ));
            return;
        }
        self.last.store(value, Ordering::Relaxed);
        self.pull(queue);
    }

    fn pull(&self, queue: u32) {
        let bell = u16::try_from(queue).ok().and_then(|queue| self.bell(queue));
        let Some(bell) = bell.filter(|bell| bell.enabled.load(Ordering::Acquire)) else {
            self.objections
                .raise(format!("doorbell of queue {queue}, which is not enabled"));
            return;
        };
        // Legacy drivers were allowed to start before they said so (§3.1.2).
        if !self.running.load(Ordering::Acquire) && !self.legacy.load(Ordering::Acquire) {
            self.objections.raise(format!(
                "doorbell of queue {queue} before DRIVER_OK (§2.1.2)"
            ));
            return;
        }
        self.counters.add(&DeviceCounts {
            kicks: 1,
            ..DeviceCounts::default()
        });
        bell.rung.store(true, Ordering::Release);
    }
}

impl Doorbells for Bells {
    fn ring(&self, index: u8, offset: u32, width: u8, value: u32) -> bool {
        if index == MODERN_BAR && NOTIFY.contains(&offset) {
            self.modern(offset - NOTIFY.start, width, value);
            return true;
        }
        if index == LEGACY_BAR && self.has_legacy && offset == LEGACY_NOTIFY && width == 2 {
            self.pull(value);
            return true;
        }
        false
    }
}
