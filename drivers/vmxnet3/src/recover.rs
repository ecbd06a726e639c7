//! The control thread's turn: events, and starting over a device that has stopped a queue.

use std::time::Duration;

use hw::Function;
use port::{PortError, Signal};

use crate::area::{at, queue};
use crate::port::{Run, Stage, Vmxnet3};
use crate::regs::{Events, command};

/// How long a device that reports nothing is left alone. Behind its registers is a hypervisor,
/// which moves no frame while it answers: QEMU does both under one lock, for which a sender then
/// waits.
const ALONE: Duration = Duration::from_millis(100);
/// Starts over in mid-run before a device counts as broken.
const RECOVERIES_MAX: u64 = 1000;

impl<F: Function> Vmxnet3<F> {
    /// True if there is no need to ask the device: it reports what happens to it, and links that
    /// change, in memory. What cannot report, as it is gone, is found out when it is looked at.
    pub(crate) fn is_quiet(&self) -> bool {
        let reports =
            |run: &Run| run.stage == Stage::Clearing || run.parts.area.get(at::EVENTS) != 0;
        let was_looked_at = self.looked.is_some_and(|looked| looked.elapsed() < ALONE);
        was_looked_at && !self.run.as_ref().is_some_and(reports)
    }

    /// One step of a run's life.
    pub(crate) fn advance(&mut self, events: &mut Vec<String>) -> Result<(), PortError> {
        self.device.check()?;
        let Some(run) = &self.run else {
            return Ok(());
        };
        if run.stage == Stage::Clearing {
            return self.come_back(events);
        }
        let found = Events::from_bits_retain(run.parts.area.get(at::EVENTS));
        if found.is_empty() {
            return Ok(());
        }
        self.device.acknowledge(found);
        if found.contains(Events::DIC) {
            events.push("the device was moved to another host".into());
        }
        if found.intersects(Events::TQERR | Events::RQERR) {
            self.device.command(command::GET_QUEUE_STATUS)?;
            events.extend(self.stopped_queues());
            self.start_over()?;
        }
        Ok(())
    }

    /// The queues that the device has stopped, and why.
    fn stopped_queues(&self) -> Vec<String> {
        let Some(run) = &self.run else {
            return Vec::new();
        };
        let tx = run.parts.tx.iter().enumerate();
        let rx = run.parts.rx.iter().enumerate();
        tx.map(|(number, memory)| ("send", number, &memory.area))
            .chain(rx.map(|(number, memory)| ("receive", number, &memory.area)))
            .filter(|(_, _, area)| area.get(queue::STOPPED) & 0xff != 0)
            .map(|(kind, number, area)| {
                let why = reason(area.get(queue::ERROR));
                format!("the device stopped {kind} queue {number}: {why}")
            })
            .collect()
    }

    /// Resets the device in mid-run, and has the queues clear their rings.
    fn start_over(&mut self) -> Result<(), PortError> {
        self.recoveries += 1;
        if self.recoveries > RECOVERIES_MAX {
            let what = format!("it had to be started over {RECOVERIES_MAX} times");
            return Err(PortError::Broken {
                port: self.name(),
                what,
            });
        }
        self.halt_device()?;
        if let Some(run) = &mut self.run {
            run.round += 1;
            run.stage = Stage::Clearing;
            run.shared.set(Signal::pause(run.round));
        }
        Ok(())
    }

    /// Starts the device again once every ring is clear.
    fn come_back(&mut self, events: &mut Vec<String>) -> Result<(), PortError> {
        let Some(run) = &self.run else {
            return Ok(());
        };
        if !run.shared.all_clear(run.round) {
            return Ok(());
        }
        self.activate()?;
        if let Some(run) = &mut self.run {
            run.stage = Stage::Running;
            run.shared.set(Signal::run(run.round));
        }
        events.push("the device is back".into());
        Ok(())
    }
}

/// Why a queue stopped (defs: `VMXNET3_ERR_*`).
fn reason(error: u32) -> String {
    let words = match error {
        0x8000_0000 => "a frame without end",
        0x8000_0001 => "a slot used again before it was completed",
        0x8000_0002 => "a frame in too many buffers",
        0x8000_0003 => "a kind of descriptor that it does not know",
        0x8000_0004 => "a head that is too small",
        0x8000_0005 => "a fault was injected",
        0x8000_0006 => "it could not change its mode",
        0x8000_0007 => "an invalid descriptor",
        _ => return format!("error {error:#x}"),
    };
    words.into()
}
