//! The memory table that a vhost-user peer is given.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use crate::iova::{Iova, IovaRange};
use crate::space::{Area, DmaSpace, MapError};

/// Most regions in a vhost-user memory table (`SET_MEM_TABLE`).
const REGIONS: usize = 8;

/// A row of the table: where the peer finds guest addresses.
#[derive(Debug, Clone)]
pub struct TableRow {
    /// First guest address; ours are bus addresses.
    pub guest: u64,
    /// Bytes.
    pub len: u64,
    /// The same place in this process: vhost-user names rings by it.
    pub user: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file that holds the memory.
    pub file: Arc<OwnedFd>,
}

/// The space of a vhost-user peer: rows that the front end sends to it.
#[derive(Debug, Default)]
pub struct VhostSpace(Mutex<Vec<TableRow>>);

impl VhostSpace {
    /// A space with an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The table as it is now.
    #[must_use]
    pub fn table(&self) -> Vec<TableRow> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl DmaSpace for VhostSpace {
    fn windows(&self) -> Vec<IovaRange> {
        // What any peer's address arithmetic stands: positive 64-bit numbers.
        vec![IovaRange {
            first: 0,
            last: i64::MAX as u64,
        }]
    }

    fn area_limit(&self) -> usize {
        REGIONS
    }

    fn map(&self, area: &Area<'_>) -> Result<(), MapError> {
        let refused = |source: io::Error| MapError::Kernel {
            iova: area.iova,
            bytes: area.len,
            source,
        };
        let file = area.file.try_clone_to_owned().map_err(refused)?;
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() == REGIONS {
            return Err(MapError::Scattered { areas: REGIONS + 1 });
        }
        table.push(TableRow {
            guest: area.iova.get(),
            len: area.len,
            user: area.address,
            offset: area.offset,
            file: Arc::new(file),
        });
        Ok(())
    }

    fn unmap(&self, iova: Iova, _len: u64) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|row| row.guest != iova.get());
    }
}
