//! Interrupts as event files.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use vfio_bindings::bindings::vfio;

use super::device::Device;

/// A kind of interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptKind {
    /// The shared line. Level: it is masked when it fires, until [`Interrupts::unmask`].
    Intx,
    /// Message-signalled.
    Msi,
    /// Message-signalled, a table of vectors.
    Msix,
    /// The device reports an uncorrectable error.
    Error,
    /// The kernel wants the device back.
    Request,
}

impl InterruptKind {
    /// Its index among the kernel's kinds (`VFIO_PCI_*_IRQ_INDEX`).
    pub(super) const fn index(self) -> u32 {
        match self {
            Self::Intx => 0,
            Self::Msi => 1,
            Self::Msix => 2,
            Self::Error => 3,
            Self::Request => 4,
        }
    }
}

/// Interrupts that are on: one event file for each. Dropping it turns them off.
pub struct Interrupts {
    device: Arc<Device>,
    kind: InterruptKind,
    events: Vec<EventFd>,
    /// The kernel adds vectors only when all are off.
    fixed: bool,
}

impl Interrupts {
    /// Turns `count` interrupts of `kind` on.
    pub(super) fn enable(device: Arc<Device>, kind: InterruptKind, count: u32) -> io::Result<Self> {
        let (most, flags) = device.irq_info(kind.index())?;
        if count == 0 || count > most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the device has {most} interrupts of that kind, not {count}"),
            ));
        }
        let mut interrupts = Self {
            device,
            kind,
            events: Vec::new(),
            fixed: flags & vfio::VFIO_IRQ_INFO_NORESIZE != 0,
        };
        interrupts.add(count)?;
        Ok(interrupts)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.events.len()
    }

    /// Adds vectors until there are `count`. Where the kernel cannot add to those that are on,
    /// all are off for a moment; events in it are lost.
    ///
    /// # Errors
    /// The device has not that many.
    pub fn grow(&mut self, count: u32) -> io::Result<()> {
        let more = (count as usize).saturating_sub(self.events.len());
        let more = u32::try_from(more).map_err(io::Error::other)?;
        if more == 0 {
            return Ok(());
        }
        if self.fixed {
            self.disable()?;
        }
        self.add(more)
    }

    fn add(&mut self, count: u32) -> io::Result<()> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let had = self.events.len();
        for _ in 0..count {
            self.events.push(EventFd::from_value_and_flags(0, flags)?);
        }
        // A set that cannot grow is turned on anew, whole.
        let start = if self.fixed { 0 } else { had };
        let files: Vec<i32> = self.events[start..]
            .iter()
            .map(|event| event.as_fd().as_raw_fd())
            .collect();
        let flags = vfio::VFIO_IRQ_SET_DATA_EVENTFD | vfio::VFIO_IRQ_SET_ACTION_TRIGGER;
        let start = u32::try_from(start).map_err(io::Error::other)?;
        let all = u32::try_from(files.len()).map_err(io::Error::other)?;
        let done = self
            .device
            .set_irqs(flags, self.kind.index(), start, all, &files);
        if done.is_err() {
            self.events.truncate(had);
        }
        done
    }

    fn disable(&self) -> io::Result<()> {
        let flags = vfio::VFIO_IRQ_SET_DATA_NONE | vfio::VFIO_IRQ_SET_ACTION_TRIGGER;
        self.device.set_irqs(flags, self.kind.index(), 0, 0, &[])
    }

    /// The event file of interrupt `number`, to wait for together with others.
    #[must_use]
    pub fn file(&self, number: usize) -> Option<BorrowedFd<'_>> {
        self.events.get(number).map(AsFd::as_fd)
    }

    /// Waits until interrupt `number` fires, `limit` at most; true if it did.
    ///
    /// # Errors
    /// There is no such interrupt, or a signal came.
    pub fn wait(&self, number: usize, limit: Duration) -> io::Result<bool> {
        let event = self
            .events
            .get(number)
            .ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        let mut ready = [PollFd::new(event.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, limit)? == 0 {
            return Ok(false);
        }
        Ok(event.read().is_ok())
    }

    /// Lets the shared line fire again, once what it fired for is dealt with.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn unmask(&self) -> io::Result<()> {
        let flags = vfio::VFIO_IRQ_SET_DATA_NONE | vfio::VFIO_IRQ_SET_ACTION_UNMASK;
        self.device.set_irqs(flags, self.kind.index(), 0, 1, &[])
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        let _ = self.disable();
    }
}
