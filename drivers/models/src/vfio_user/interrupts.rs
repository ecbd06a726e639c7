//! Interrupts as VFIO has them: eventfds for vectors and for the line.

use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_MASKABLE,
    VFIO_IRQ_SET_ACTION_MASK, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_UNMASK,
    VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE, VFIO_PCI_INTX_IRQ_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS,
};
use vfio_user::IrqInfo;

use crate::interrupt::InterruptSink;

/// How many interrupts of each kind a function has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Lines of INTx: none or one.
    pub(super) line: u32,
    /// Vectors of MSI-X.
    pub(super) vectors: u32,
}

/// Every index that VFIO numbers, in order. MSI is not served: whoever has it has MSI-X too, or
/// the line.
pub(super) fn info(counts: Counts) -> Vec<IrqInfo> {
    let one = |index| {
        let (count, flags) = match index {
            VFIO_PCI_INTX_IRQ_INDEX => (
                counts.line,
                VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED,
            ),
            VFIO_PCI_MSIX_IRQ_INDEX => (counts.vectors, VFIO_IRQ_INFO_EVENTFD),
            _ => (0, 0),
        };
        IrqInfo {
            index,
            flags,
            count,
        }
    };
    (0..VFIO_PCI_NUM_IRQS).map(one).collect()
}

/// Where interrupts go.
#[derive(Default)]
pub(super) struct Interrupts(Mutex<State>);

#[derive(Default)]
struct State {
    vectors: Vec<Option<File>>,
    line: Option<File>,
    /// The line is masked: by request, or by having been sent.
    masked: bool,
    high: bool,
}

impl Interrupts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `VFIO_DEVICE_SET_IRQS`: `count` interrupts of `index` from `start` on. False for what is
    /// not understood.
    pub(super) fn set(
        &self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        files: Vec<File>,
    ) -> bool {
        let mut state = self.lock();
        match index {
            VFIO_PCI_INTX_IRQ_INDEX => state.set_line(flags, count, files),
            VFIO_PCI_MSIX_IRQ_INDEX => state.set_vectors(flags, start, count, files),
            // There are none; to switch none off is no mistake.
            _ => count == 0,
        }
    }
}

impl State {
    fn set_line(&mut self, flags: u32, count: u32, files: Vec<File>) -> bool {
        if flags & VFIO_IRQ_SET_ACTION_TRIGGER != 0 {
            // No eventfd: from now on nobody is told.
            self.line = files.into_iter().next();
            self.masked = false;
            self.send_line();
            return true;
        }
        // An eventfd here would be told when QEMU does the masking itself (resampling).
        if flags & VFIO_IRQ_SET_DATA_NONE == 0 || count != 1 {
            return false;
        }
        if flags & VFIO_IRQ_SET_ACTION_MASK != 0 {
            self.masked = true;
        } else if flags & VFIO_IRQ_SET_ACTION_UNMASK != 0 {
            self.masked = false;
            self.send_line();
        }
        true
    }

    /// Level: it is sent again when it is unmasked and still high.
    fn send_line(&mut self) {
        if self.high && !self.masked && self.line.is_some() {
            self.masked = true;
            send(self.line.as_ref());
        }
    }

    fn set_vectors(&mut self, flags: u32, start: u32, count: u32, files: Vec<File>) -> bool {
        if flags & VFIO_IRQ_SET_ACTION_TRIGGER == 0 {
            return false;
        }
        let (Ok(start), Ok(count)) = (usize::try_from(start), usize::try_from(count)) else {
            return false;
        };
        if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
            // Fewer files than vectors: which they are for is not said (the protocol has one
            // descriptor a vector, or none at all).
            if start + count > MOST_VECTORS || (!files.is_empty() && files.len() != count) {
                return false;
            }
            if self.vectors.len() < start + count {
                self.vectors.resize_with(start + count, || None);
            }
            let mut files = files.into_iter();
            for slot in &mut self.vectors[start..start + count] {
                *slot = files.next();
            }
        } else if count == 0 {
            self.vectors.clear();
        } else {
            // A vector that is sent by request.
            let vectors = self.vectors.iter().skip(start).take(count);
            vectors.for_each(|file| send(file.as_ref()));
        }
        true
    }
}

/// Vectors of the largest MSI-X table (PCI 3.0 §6.8.2.3).
const MOST_VECTORS: usize = 2048;

fn send(file: Option<&File>) {
    if let Some(mut file) = file {
        // It fails only when its count is full: then the other side has not looked at the ones
        // before.
        let _ = file.write(&1u64.to_ne_bytes());
    }
}

impl InterruptSink for Interrupts {
    fn message(&self, vector: u16) {
        let state = self.lock();
        send(
            state
                .vectors
                .get(usize::from(vector))
                .and_then(Option::as_ref),
        );
    }

    fn line(&self, high: bool) {
        let mut state = self.lock();
        state.high = high;
        state.send_line();
    }
}
