//! A device as a PCI function that a driver opens.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hugemem::{DmaSpace, SimSpace};
use hw::pci::{MtuError, RaisedMtu};
use hw::{Bar, BarError, Function};

use crate::counters::DeviceCounters;
use crate::device::{Device, Doorbells, RingPlace};
use crate::faults::{DeviceFaults, Fault};
use crate::objections::Objections;

/// One end of a [`Sim`](crate::Sim): a device, its lock, and what is reached beside the lock.
pub(crate) struct End {
    name: String,
    device: Mutex<Box<dyn Device>>,
    /// Control threads that want the lock: the model's thread lets them have it first.
    waiting: AtomicU32,
    doorbells: Arc<dyn Doorbells>,
    pub(crate) space: Arc<SimSpace>,
    pub(crate) counters: Arc<DeviceCounters>,
    pub(crate) faults: Arc<DeviceFaults>,
    pub(crate) objections: Objections,
}

impl End {
    pub(crate) fn new(device: Box<dyn Device>) -> Arc<Self> {
        Arc::new(Self {
            name: device.name().to_owned(),
            waiting: AtomicU32::new(0),
            doorbells: device.doorbells(),
            space: device.space(),
            counters: device.counters(),
            faults: device.faults(),
            objections: device.objections(),
            device: Mutex::new(device),
        })
    }

    /// The device, for the control thread.
    pub(crate) fn control(&self) -> MutexGuard<'_, Box<dyn Device>> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        device
    }

    /// The device, for a round of the model's thread. A mutex of the standard library may be
    /// taken again by whoever has just let go of it; so the round steps aside for who waits.
    pub(crate) fn round(&self) -> MutexGuard<'_, Box<dyn Device>> {
        while self.waiting.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// True once the device was pulled out. The control thread that sees it may free memory at
    /// once, so it waits for the round that may still be going on; the next one sees it too.
    fn is_gone_for_good(&self) -> bool {
        let gone = self.is_gone();
        if gone {
            drop(self.control());
        }
        gone
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.faults.any() && self.faults.is_on(Fault::Removed)
    }
}

/// A PCI function whose device is a model.
#[derive(Clone)]
pub struct SimFunction {
    end: Arc<End>,
}

impl SimFunction {
    pub(crate) fn new(end: Arc<End>) -> Self {
        Self { end }
    }

    /// What the device counts.
    #[must_use]
    pub fn counters(&self) -> Arc<DeviceCounters> {
        Arc::clone(&self.end.counters)
    }

    /// What goes wrong with the device, to be switched on and off.
    #[must_use]
    pub fn faults(&self) -> Arc<DeviceFaults> {
        Arc::clone(&self.end.faults)
    }

    /// What the device objects to.
    #[must_use]
    pub fn objections(&self) -> Objections {
        self.end.objections.clone()
    }

    /// The frame rings that the driver has set up ([`crate::consumer`]).
    #[must_use]
    pub fn rings(&self) -> Vec<RingPlace> {
        self.end.control().rings()
    }

    pub(crate) fn end(&self) -> &Arc<End> {
        &self.end
    }

    pub(crate) fn set_config(&self, offset: u16, width: u8, value: u32) {
        if !self.end.is_gone_for_good() {
            self.end.control().config_write(offset, width, value);
        }
    }

    pub(crate) fn config(&self, offset: u16, width: u8) -> u32 {
        if self.end.is_gone_for_good() {
            return u32::MAX;
        }
        self.end.control().config_read(offset, width)
    }
}

/// The low bytes of `value`: what an access of that width sees.
const fn low16(value: u32) -> u16 {
    let [a, b, _, _] = value.to_le_bytes();
    u16::from_le_bytes([a, b])
}

const fn low8(value: u32) -> u8 {
    let [a, _, _, _] = value.to_le_bytes();
    a
}

impl Function for SimFunction {
    type Bar = SimBar;

    fn name(&self) -> &str {
        &self.end.name
    }
    fn config8(&self, offset: u16) -> u8 {
        low8(self.config(offset, 1))
    }
    fn config16(&self, offset: u16) -> u16 {
        low16(self.config(offset, 2))
    }
    fn config32(&self, offset: u16) -> u32 {
        self.config(offset, 4)
    }
    fn set_config16(&self, offset: u16, value: u16) {
        self.set_config(offset, 2, u32::from(value));
    }

    fn bar(&self, index: u8) -> Result<SimBar, BarError> {
        let len = self.end.control().bar_len(index);
        let len = len.ok_or(BarError::Absent { index })?;
        Ok(SimBar {
            end: Arc::clone(&self.end),
            index,
            len,
        })
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        Arc::clone(&self.end.space) as _
    }

    /// A simulated physical function keeps the MTU that it was given: to change it is the user's.
    fn raise_pf_mtu(&self, mtu: u32) -> Result<Option<RaisedMtu>, MtuError> {
        match self.end.control().pf_mtu() {
            Some(now) if now < mtu => Err(MtuError::Simulated { now, mtu }),
            _ => Ok(None),
        }
    }

    fn reset(&self) -> io::Result<()> {
        if self.end.is_gone_for_good() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.end.control().reset();
        Ok(())
    }
}

/// A register window of a [`SimFunction`]: each access is a call into the model.
#[derive(Clone)]
pub struct SimBar {
    end: Arc<End>,
    index: u8,
    len: u64,
}

impl SimBar {
    pub(crate) fn load(&self, offset: u32, width: u8) -> u32 {
        if self.end.is_gone_for_good() || !self.holds(offset, width) {
            return u32::MAX;
        }
        self.end.control().bar_read(self.index, offset, width)
    }

    pub(crate) fn store(&self, offset: u32, width: u8, value: u32) {
        if self.end.is_gone_for_good() || !self.holds(offset, width) {
            return;
        }
        if !self.end.doorbells.ring(self.index, offset, width, value) {
            self.end
                .control()
                .bar_write(self.index, offset, width, value);
        }
    }

    fn holds(&self, offset: u32, width: u8) -> bool {
        let inside = u64::from(offset) + u64::from(width) <= self.len;
        let fits = inside && offset.is_multiple_of(u32::from(width));
        if !fits {
            self.end.objections.raise(format!(
                "access of {width} bytes at {offset:#x} of BAR {}, which has {} bytes",
                self.index, self.len
            ));
        }
        fits
    }
}

impl Bar for SimBar {
    fn len(&self) -> u64 {
        self.len
    }
    fn load8(&self, offset: u32) -> u8 {
        low8(self.load(offset, 1))
    }
    fn load16(&self, offset: u32) -> u16 {
        low16(self.load(offset, 2))
    }
    fn load32(&self, offset: u32) -> u32 {
        self.load(offset, 4)
    }
    fn store8(&self, offset: u32, value: u8) {
        self.store(offset, 1, u32::from(value));
    }
    fn store16(&self, offset: u32, value: u16) {
        self.store(offset, 2, u32::from(value));
    }
    fn store32(&self, offset: u32, value: u32) {
        self.store(offset, 4, value);
    }
}
