//! What translates a device's addresses.
#![expect(unsafe_code, reason = "an area is a promise that memory is there")]

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;

use crate::iova::{Iova, IovaRange};
use crate::region::Region;

/// Why memory could not be mapped for a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// No stretch of addresses is free that every device of the run can reach.
    #[error("no {bytes} bytes of bus addresses that every device can reach")]
    NoAddresses {
        /// Bytes asked for.
        bytes: u64,
    },
    /// Ports that take physical addresses and ports that translate them cannot share memory.
    #[error("physical addresses are too scattered for a port of this run ({areas} areas)")]
    Scattered {
        /// How many separate stretches of physical memory there are.
        areas: usize,
    },
    /// The lock limit is too low to pin the pages.
    #[error("pinning {bytes} bytes exceeds the memory lock limit")]
    LockLimit {
        /// Bytes to pin.
        bytes: u64,
    },
    /// The kernel holds no more mappings for this process.
    #[error("the kernel's limit of DMA mappings is reached")]
    Entries,
    /// Without an IOMMU, memory must stay where it is, and small pages don't.
    #[error("4 KiB pages may move under a device that has no IOMMU")]
    Movable,
    /// The kernel hides physical addresses from this process.
    #[error("physical addresses cannot be read")]
    NoPhysical,
    /// The kernel refused.
    #[error("cannot map {bytes} bytes at bus address {iova}")]
    Kernel {
        /// Where.
        iova: Iova,
        /// How much.
        bytes: u64,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl MapError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::LockLimit { bytes } => Some(format!(
                "raise the limit: ulimit -l {} (KiB), or LimitMEMLOCK= in the unit",
                bytes.div_ceil(1024)
            )),
            Self::Movable => Some("reserve hugepages: rgen hugepages --help".into()),
            Self::NoPhysical => Some("run as root (CAP_SYS_ADMIN) for no-IOMMU mode".into()),
            Self::Entries => Some(
                "use 1 GiB pages (rgen hugepages --help), or load vfio_iommu_type1 with a higher \
                 dma_entry_limit"
                    .into(),
            ),
            Self::Scattered { .. } => Some("use 1 GiB pages: rgen hugepages --help".into()),
            Self::NoAddresses { .. } | Self::Kernel { .. } => None,
        }
    }
}

/// A stretch of memory as devices see it: memory that is there, as only this crate can promise.
#[derive(Debug, Clone, Copy)]
pub struct Area<'a> {
    pub(crate) iova: Iova,
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) file: BorrowedFd<'a>,
    pub(crate) offset: u64,
}

impl<'a> Area<'a> {
    /// The `len` bytes at `address` in this process, which are those at `offset` of `file`, under
    /// bus address `iova`.
    ///
    /// # Safety
    /// A space that maps the area lets devices write to it: the memory is there as long as it is
    /// mapped, and nothing but [`Dma`](crate::Dma) cells and frames refers to it.
    #[must_use]
    pub const unsafe fn new(
        iova: Iova,
        address: u64,
        len: u64,
        file: BorrowedFd<'a>,
        offset: u64,
    ) -> Self {
        Self {
            iova,
            address,
            len,
            file,
            offset,
        }
    }

    /// First bus address.
    #[must_use]
    pub const fn iova(&self) -> Iova {
        self.iova
    }

    /// First address in this process.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.len
    }

    /// The file that holds the memory.
    #[must_use]
    pub const fn file(&self) -> BorrowedFd<'a> {
        self.file
    }

    /// Where in the file the area begins.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }
}

/// How a space turns bus addresses into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// By a table of ours: any address in its windows will do.
    Translated,
    /// Not at all: bus addresses are physical ones.
    Physical,
}

/// Translation of one or more devices' addresses: an IOMMU, a peer's memory table, a model's.
pub trait DmaSpace: Send + Sync {
    /// Addresses that can be mapped.
    fn windows(&self) -> Vec<IovaRange>;

    /// How addresses are translated.
    fn addressing(&self) -> Addressing {
        Addressing::Translated
    }

    /// How many areas it can hold.
    fn area_limit(&self) -> usize {
        usize::MAX
    }

    /// Lets the devices of this space reach `area`.
    ///
    /// # Errors
    /// The kernel or the peer refused; nothing is mapped then.
    fn map(&self, area: &Area<'_>) -> Result<(), MapError>;

    /// Takes it away again. The area is one that was mapped, whole.
    fn unmap(&self, iova: Iova, len: u64);
}

/// The space of a port that has no device: nothing ever reads or writes through it, so
/// everything can be mapped there.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDevice;

impl DmaSpace for NoDevice {
    fn windows(&self) -> Vec<IovaRange> {
        vec![IovaRange::ALL]
    }

    fn map(&self, _area: &Area<'_>) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap(&self, _iova: Iova, _len: u64) {}
}

/// Reads the kernel's page map: the entry of the 4 KiB page of that number.
pub(crate) type PageMap<'a> = dyn Fn(u64) -> io::Result<u64> + 'a;

/// Size of the pages that the page map counts in.
const SMALL: u64 = 4096;

/// An entry of this process's page map.
pub(crate) fn page_entry(page: u64) -> io::Result<u64> {
    let mut entry = [0; 8];
    File::open("/proc/self/pagemap")?.read_exact_at(&mut entry, page * 8)?;
    Ok(u64::from_le_bytes(entry))
}

/// The physical address of each page of `region`, from the kernel's page map.
///
/// Each entry is 8 bytes for 4 KiB: bit 63 present, bits 54:0 the frame number, which reads as
/// zero without `CAP_SYS_ADMIN` (Linux, `Documentation/admin-guide/mm/pagemap.rst`). Only
/// hugepages stay where they are; the kernel moves small ones about.
pub(crate) fn physical_pages(region: &Region, map: &PageMap<'_>) -> Result<Vec<u64>, MapError> {
    const PRESENT: u64 = 1 << 63;
    const NUMBER: u64 = (1 << 55) - 1;
    (0..region.len())
        .step_by(region.page().bytes())
        .map(|offset| {
            let page = (region.address() + offset as u64) / SMALL;
            let entry = map(page).map_err(|_| MapError::NoPhysical)?;
            let number = entry & NUMBER;
            if entry & PRESENT == 0 || number == 0 {
                return Err(MapError::NoPhysical);
            }
            Ok(number * SMALL)
        })
        .collect()
}
