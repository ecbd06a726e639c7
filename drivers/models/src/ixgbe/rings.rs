//! What physical and virtual function have in common: rings, and frames that go through them.

mod receive;
mod segment;
mod send;

use std::sync::Arc;

use hugemem::{SimSpace, Translator};

use super::bits::ring;
use super::descriptor::{CONTEXTS, Context};
use super::queue::{Layout, Queue, Side, Tails};
use crate::counters::DeviceCounters;
use crate::faults::{DeviceFaults, Fault};
use crate::frames::Segment;

pub(super) use receive::{Outcome, Report};
pub(super) use send::{Head, SendRules, Taken};

/// What a queue knows while it sends.
#[derive(Default)]
struct Sender {
    contexts: [Option<Context>; CONTEXTS],
}

/// All queues of a function, and its way into memory.
pub(super) struct Rings {
    pub(super) layout: Layout,
    pub(super) rx: Vec<Queue>,
    pub(super) tx: Vec<Queue>,
    senders: Vec<Sender>,
    /// Transmit queues that are enabled.
    pub(super) senders_on: Vec<u32>,
    pub(super) tails: Arc<Tails>,
    pub(super) memory: Translator,
    faults: Arc<DeviceFaults>,
    /// Buffers of the frame at hand; kept, so that nothing is allocated.
    segments: Vec<Segment>,
    /// Bytes of the frame that is being cut into segments.
    whole: Vec<u8>,
    /// Calls of the device so far.
    call: u64,
}

impl Rings {
    pub(super) fn new(
        layout: Layout,
        space: &Arc<SimSpace>,
        counters: Arc<DeviceCounters>,
        faults: Arc<DeviceFaults>,
    ) -> Self {
        let mut rings = Self {
            layout,
            rx: Vec::new(),
            tx: Vec::new(),
            senders: Vec::new(),
            senders_on: Vec::new(),
            tails: Tails::new(layout, counters),
            memory: space.translator(),
            faults,
            segments: Vec::with_capacity(64),
            whole: Vec::new(),
            call: 0,
        };
        rings.reset();
        rings
    }

    /// Everything as after a reset.
    pub(super) fn reset(&mut self) {
        self.tails.reset();
        let count = self.layout.queues();
        let queues = |side| (0..count).map(move |index| Queue::new(side, index));
        self.rx = queues(Side::Rx).collect();
        self.tx = queues(Side::Tx).collect();
        self.senders = (0..count).map(|_| Sender::default()).collect();
        self.senders_on.clear();
    }

    /// The device is called: rings may be somewhere else than last time.
    pub(super) fn begin(&mut self) {
        self.call += 1;
    }

    pub(super) fn queue_mut(&mut self, side: Side, queue: u32) -> Option<&mut Queue> {
        let queues = match side {
            Side::Rx => &mut self.rx,
            Side::Tx => &mut self.tx,
        };
        queues.get_mut(queue as usize)
    }

    /// A queue did what it must not: it stands still from now on.
    pub(super) fn stop(&mut self, side: Side, queue: u32) {
        if let Some(queue) = self.queue_mut(side, queue) {
            queue.broken = true;
        }
    }

    pub(super) fn read(&mut self, side: Side, index: u32, register: u32) -> u32 {
        if register == ring::TAIL {
            return self.tails.get(side, index);
        }
        let untrue = register == ring::HEAD && self.faults.strikes(Fault::IndexOutOfRange);
        let Some(queue) = self.queue_mut(side, index) else {
            return 0;
        };
        if untrue {
            return queue.slots() + 7;
        }
        queue.read(register)
    }

    /// Writes a register; an enable bit follows after `reads` reads. What may not be written so
    /// is the error, and is written all the same where hardware would.
    pub(super) fn write(
        &mut self,
        side: Side,
        index: u32,
        register: u32,
        value: u32,
        reads: u32,
    ) -> Result<(), String> {
        if register == ring::TAIL {
            return self.write_tail(side, index, value);
        }
        let Some(queue) = self.queue_mut(side, index) else {
            return Ok(());
        };
        let result = if register == ring::DCTL {
            queue.set_control(value, reads);
            if queue.is_enabled() && queue.slots() == 0 {
                let name = side.name();
                Err(format!("{name} queue {index} enabled without a ring"))
            } else {
                Ok(())
            }
        } else {
            queue.write(register, value)
        };
        let slots = if queue.is_enabled() { queue.slots() } else { 0 };
        self.tails.pass(side, index, slots);
        if register == ring::DCTL && side == Side::Tx {
            // What a queue was told before it stopped, nobody says that it still knows.
            self.senders[index as usize] = Sender::default();
            let on = self.tx.iter().filter(|queue| queue.is_enabled());
            self.senders_on.clear();
            self.senders_on.extend(on.map(|queue| queue.index));
        }
        result
    }

    /// A tail that was not simply taken over: before there is a ring, or past its end.
    fn write_tail(&mut self, side: Side, index: u32, value: u32) -> Result<(), String> {
        let Some(queue) = self.queue_mut(side, index) else {
            return Ok(());
        };
        let (enabled, slots) = (queue.is_enabled(), queue.slots());
        let name = side.name();
        if value == 0 {
            // Every driver clears it while it sets the queue up.
            self.tails.set(side, index, 0);
            Ok(())
        } else if !enabled {
            Err(format!(
                "tail of {name} queue {index} written with {value} before the queue was enabled: \
                 ignored"
            ))
        } else {
            self.tails.set(side, index, value & 0xffff);
            Err(format!(
                "tail of {name} queue {index} written with {value}, past its {slots} descriptors"
            ))
        }
    }
}
