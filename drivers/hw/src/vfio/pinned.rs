//! What a space has pinned in memory, and why the kernel would pin no more.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hugemem::{Area, Iova, MapError};

use super::kernel::Kernel;

/// Bytes pinned in one space.
pub(super) struct Pinned {
    kernel: Arc<dyn Kernel>,
    bytes: AtomicU64,
}

impl Pinned {
    pub(super) fn new(kernel: Arc<dyn Kernel>) -> Self {
        Self {
            kernel,
            bytes: AtomicU64::new(0),
        }
    }

    /// Maps `area` with `call`; again with a higher lock limit if that was what was in the way.
    pub(super) fn map(
        &self,
        area: &Area<'_>,
        call: impl Fn() -> io::Result<u32>,
    ) -> Result<(), MapError> {
        let mut result = call();
        // Pinned pages count as locked, hugepages too (CAP_IPC_LOCK is exempt).
        let locked = |result: &io::Result<u32>| {
            result
                .as_ref()
                .is_err_and(|error| error.raw_os_error() == Some(libc::ENOMEM))
        };
        if locked(&result) && self.kernel.raise_lock_limit() {
            result = call();
        }
        match result {
            Ok(_) => {
                self.bytes.fetch_add(area.bytes(), Ordering::Relaxed);
                Ok(())
            }
            Err(source) => Err(self.refused(area, source)),
        }
    }

    /// Takes the area at `iova` away with `call`.
    pub(super) fn unmap(&self, iova: Iova, len: u64, call: impl Fn() -> io::Result<u32>) {
        match call() {
            Ok(_) => {
                self.bytes.fetch_sub(len, Ordering::Relaxed);
            }
            Err(error) => tracing::error!("cannot unmap {len} bytes at {iova}: {error}"),
        }
    }

    fn refused(&self, area: &Area<'_>, source: io::Error) -> MapError {
        match source.raw_os_error() {
            Some(libc::ENOMEM) => MapError::LockLimit {
                bytes: self.bytes.load(Ordering::Relaxed) + area.bytes(),
            },
            Some(libc::ENOSPC) => MapError::Entries,
            _ => MapError::Kernel {
                iova: area.iova(),
                bytes: area.bytes(),
                source,
            },
        }
    }
}
