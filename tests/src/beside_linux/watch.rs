//! The recorder, on the device's side: a model whose every register access is noted in order.
//!
//! It is a [`Device`] around another, so it sees the same in whichever way its driver reaches it: in
//! process, or from a guest through vfio-user. Where a step begins is told in the same order: by a
//! read of a byte of configuration space where the devices of the family have nothing ([`mark`]).

use std::sync::{Arc, Mutex, PoisonError};

use hugemem::{SimSpace, Translator};
use models::{
    Batch, Carrier, Device, DeviceCounters, DeviceFaults, Doorbells, InterruptSink, LinkReport,
    Objections, RingPlace, WireFrame,
};

/// Bytes of configuration space that are marks: behind all capabilities, inside the first 256
/// bytes.
const MARKS: std::ops::Range<u16> = 0xf0..0x100;
/// The window with the registers.
const REGISTERS: u8 = 0;

/// The byte of configuration space whose read begins step `number`.
///
/// # Panics
/// There are 16.
#[must_use]
pub fn mark(number: usize) -> u16 {
    let offset = MARKS.start + u16::try_from(number).expect("a few");
    assert!(MARKS.contains(&offset), "there is no mark {number}");
    offset
}

/// What a driver did, or was about to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// It read the register at this offset, and found this.
    Read(u32, u32),
    /// It wrote this to the register at this offset.
    Write(u32, u32),
    /// It begins a step; the registers that are looked at hold this, by offset.
    Step(usize, Vec<(u32, u32)>),
}

/// What was noted of one device. Cloned, it is the same.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Access>>>);

impl Log {
    fn note(&self, access: Access) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(access);
    }

    /// Everything so far.
    #[must_use]
    pub fn take(&self) -> Vec<Access> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A model that is watched.
pub struct Watched {
    inner: Box<dyn Device>,
    log: Log,
    looks: Vec<u32>,
}

impl Watched {
    /// `inner`, and what is noted of it. The registers at `looks` are read at each step's beginning:
    /// reading must change none of them.
    #[must_use]
    pub fn around(inner: Box<dyn Device>, looks: Vec<u32>) -> (Box<dyn Device>, Log) {
        let log = Log::default();
        let watched = Self {
            inner,
            log: log.clone(),
            looks,
        };
        (Box::new(watched), log)
    }
}

/// Tails are written beside the device's lock.
struct WatchedBells {
    inner: Arc<dyn Doorbells>,
    log: Log,
}

impl Doorbells for WatchedBells {
    fn ring(&self, index: u8, offset: u32, width: u8, value: u32) -> bool {
        let rings = self.inner.ring(index, offset, width, value);
        // What is none is written to the device, and noted there.
        if rings {
            self.log.note(Access::Write(offset, value));
        }
        rings
    }
}

impl Device for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn space(&self) -> Arc<SimSpace> {
        self.inner.space()
    }
    fn counters(&self) -> Arc<DeviceCounters> {
        self.inner.counters()
    }
    fn faults(&self) -> Arc<DeviceFaults> {
        self.inner.faults()
    }
    fn objections(&self) -> Objections {
        self.inner.objections()
    }

    fn config_read(&mut self, offset: u16, width: u8) -> u32 {
        if width == 1 && MARKS.contains(&offset) {
            let Self { inner, looks, .. } = self;
            let found = looks
                .iter()
                .map(|&at| (at, inner.bar_read(REGISTERS, at, 4)));
            let found = found.collect();
            let number = usize::from(offset - MARKS.start);
            self.log.note(Access::Step(number, found));
            return 0;
        }
        self.inner.config_read(offset, width)
    }

    fn config_write(&mut self, offset: u16, width: u8, value: u32) {
        self.inner.config_write(offset, width, value);
    }

    fn bar_len(&self, index: u8) -> Option<u64> {
        self.inner.bar_len(index)
    }

    fn bar_read(&mut self, index: u8, offset: u32, width: u8) -> u32 {
        let value = self.inner.bar_read(index, offset, width);
        if index == REGISTERS {
            self.log.note(Access::Read(offset, value));
        }
        value
    }

    fn bar_write(&mut self, index: u8, offset: u32, width: u8, value: u32) {
        if index == REGISTERS {
            self.log.note(Access::Write(offset, value));
        }
        self.inner.bar_write(index, offset, width, value);
    }

    fn doorbells(&self) -> Arc<dyn Doorbells> {
        Arc::new(WatchedBells {
            inner: self.inner.doorbells(),
            log: self.log.clone(),
        })
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn connect_interrupts(&mut self, sink: Arc<dyn InterruptSink>) {
        self.inner.connect_interrupts(sink);
    }

    fn set_link(&mut self, link: LinkReport) {
        self.inner.set_link(link);
    }

    fn poll(&mut self) -> bool {
        self.inner.poll()
    }

    fn transmit(&mut self, batch: &mut Batch, limit: usize) {
        self.inner.transmit(batch, limit);
    }

    fn sent(&mut self) {
        self.inner.sent();
    }

    fn deliver(&mut self, frames: &[WireFrame], carrier: &mut Carrier<'_>) {
        self.inner.deliver(frames, carrier);
    }

    fn memory(&mut self) -> &mut Translator {
        self.inner.memory()
    }

    fn rings(&self) -> Vec<RingPlace> {
        self.inner.rings()
    }
}

#[cfg(test)]
mod test {
    use hw::{Bar, Function as _};
    use models::ixgbe::{Ixgbe, IxgbeOptions};
    use models::{Sim, WireOptions};

    use super::*;

    #[test]
    fn accesses_tails_and_marks_are_noted_in_their_order_and_marks_go_no_further() {
        let model = |end| Ixgbe::boxed(&format!("watched/{end}"), &IxgbeOptions::default());
        let (watched, log) = Watched::around(model(0), vec![0x4240]);
        let sim = Sim::stepped(watched, model(1), WireOptions::default());
        let function = sim.function(0);
        let bar = function.bar(0).unwrap();
        bar.store32(0x5080, 0x400);
        assert_eq!(function.config8(mark(3)), 0);
        assert_eq!(bar.load32(0x5080), 0x400);
        // A tail is written beside the device's lock.
        bar.store32(0x1018, 0);
        assert_eq!(function.config16(0), 0x8086);
        let expected = [
            Access::Write(0x5080, 0x400),
            Access::Step(3, vec![(0x4240, 0x0001_0c03)]),
            Access::Read(0x5080, 0x400),
            Access::Write(0x1018, 0),
        ];
        assert_eq!(log.take(), expected);
        assert_eq!(log.take(), []);
    }
}
