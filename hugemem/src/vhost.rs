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

#[cfg(test)]
mod test {
    use super::*;
    use crate::{PageSize, Region};

    #[test]
    fn a_vhost_peers_table_holds_eight_regions_and_no_more() {
        let region = Region::new(4096, PageSize::Base4K, None).unwrap();
        let space = VhostSpace::new();
        let area = |n: u64| Area {
            iova: Iova::from_device(n << 30),
            address: region.address() + n,
            len: 4096,
            file: region.file(),
            offset: n << 12,
        };
        assert_eq!(space.area_limit(), 8);
        for n in 0..8 {
            space.map(&area(n)).unwrap();
        }
        assert!(matches!(
            space.map(&area(8)),
            Err(MapError::Scattered { areas: 9 })
        ));
        space.unmap(Iova::from_device(3 << 30), 4096);
        space.map(&area(8)).unwrap();
        let table = space.table();
        let guests: Vec<u64> = table.iter().map(|row| row.guest >> 30).collect();
        assert_eq!(guests, [0, 1, 2, 4, 5, 6, 7, 8]);
        let last = &table[7];
        assert_eq!(
            (last.user, last.offset, last.len),
            (region.address() + 8, 8 << 12, 4096)
        );
        let same = std::os::fd::AsRawFd::as_raw_fd(&*last.file);
        let link = std::fs::read_link(format!("/proc/self/fd/{same}")).unwrap();
        assert!(link.to_string_lossy().contains("rgen"), "{link:?}");
    }
}
