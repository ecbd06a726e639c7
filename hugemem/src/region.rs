//! A region: pages of one size, from a memfd of our own.
#![expect(unsafe_code, reason = "maps memory and owns the mapping")]

use std::ffi::CStr;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::page::PageSize;

/// Why a region could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The kernel made no file for it.
    #[error("no memory file with {size} pages")]
    File {
        /// Page size asked for.
        size: PageSize,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There are not enough pages.
    #[error("{pages} pages of {size} are not free")]
    Pages {
        /// How many pages were asked for.
        pages: usize,
        /// Their size.
        size: PageSize,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Shared memory of one page size, resident and zeroed, with a file that a peer can map too.
///
/// There is no mount and no name: when the last owner goes, the pages are free again, whatever
/// killed the process.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    page: PageSize,
    file: OwnedFd,
}

// SAFETY: a region is an address range and a file; what lies inside is only reached through
// frames (owned by one thread at a time) and atomic words.
unsafe impl Send for Region {}
// SAFETY: as above; nothing in a region changes through a shared reference but atomics.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes (rounded up to whole pages) of pages of `page` bytes, on `node` where
    /// one is given.
    ///
    /// # Errors
    /// The kernel has no such pages, or not enough of them.
    pub fn new(len: usize, page: PageSize, node: Option<u32>) -> Result<Self, RegionError> {
        let len = len.max(1).next_multiple_of(page.bytes());
        let pages = len / page.bytes();
        let file = Self::open(page).map_err(|source| RegionError::File { size: page, source })?;
        let short = |source: io::Error| RegionError::Pages {
            pages,
            size: page,
            source,
        };
        nix::unistd::ftruncate(&file, i64::try_from(len).map_err(|_| short(too_large()))?)
            .map_err(|errno| short(errno.into()))?;
        let base = Self::map(&file, len).map_err(short)?;
        let region = Self {
            base,
            len,
            page,
            file,
        };
        if let Some(node) = node {
            region.bind(node);
        }
        region.populate().map_err(short)?;
        Ok(region)
    }

    fn open(page: PageSize) -> io::Result<OwnedFd> {
        const NAME: &CStr = c"rgen";
        let flags = MFdFlags::MFD_CLOEXEC
            | match page {
                PageSize::Base4K => MFdFlags::empty(),
                PageSize::Huge2M => MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB,
                PageSize::Huge1G => MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_1GB,
            };
        Ok(memfd_create(NAME, flags)?)
    }

    fn map(file: &OwnedFd, len: usize) -> io::Result<NonNull<u8>> {
        let len = NonZeroUsize::new(len).ok_or_else(too_large)?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new shared mapping at an address of the kernel's choice; nothing else uses it.
        let base = unsafe { mmap(None, len, prot, MapFlags::MAP_SHARED, file, 0) }?;
        Ok(base.cast())
    }

    /// Prefers `node` for pages that are not there yet. A kernel without NUMA refuses, and then
    /// there is nothing to prefer.
    fn bind(&self, node: u32) {
        const MPOL_PREFERRED: libc::c_int = 1;
        if node >= 64 {
            return;
        }
        let mask: u64 = 1 << node;
        // SAFETY: the range is our own mapping; the kernel reads one word of mask, which lives
        // across the call.
        let _ = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base.as_ptr(),
                self.len,
                MPOL_PREFERRED,
                &raw const mask,
                65usize,
                0usize,
            )
        };
    }

    /// Faults every page in now, so that a shortage is an error here and not a signal later.
    fn populate(&self) -> io::Result<()> {
        // SAFETY: the range is our own mapping, and populating it changes no content.
        let done = unsafe {
            libc::madvise(
                self.base.as_ptr().cast(),
                self.len,
                libc::MADV_POPULATE_WRITE,
            )
        };
        if done == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Bytes in the region.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: a region has at least one page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size of the pages it is made of.
    #[must_use]
    pub fn page(&self) -> PageSize {
        self.page
    }

    /// Its address in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// The file behind it, for a peer to map.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and ends with us; every frame, ring and view holds the
        // region's owner, so none is left.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}

fn too_large() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}
