//! A region: pages of one size, from a memfd of our own.
#![expect(unsafe_code, reason = "maps memory and owns the mapping")]

use std::ffi::CStr;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
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
        let pages = len.max(1).div_ceil(page.bytes());
        let file = Self::open(page).map_err(|source| RegionError::File { size: page, source })?;
        let short = |source: io::Error| RegionError::Pages {
            pages,
            size: page,
            source,
        };
        let len = pages
            .checked_mul(page.bytes())
            .ok_or_else(|| short(too_large()))?;
        nix::unistd::ftruncate(&file, i64::try_from(len).map_err(|_| short(too_large()))?)
            .map_err(|errno| short(errno.into()))?;
        seal(&file);
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
            | MFdFlags::MFD_ALLOW_SEALING
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

    /// Takes pages that are not there yet from `node`: hugepages from nowhere else, as one from
    /// another node would halve the rate and say nothing; small ones if there are any. A kernel
    /// without NUMA, or a node without memory, refuses, and then there is nothing to choose.
    fn bind(&self, node: u32) {
        const MPOL_PREFERRED: libc::c_int = 1;
        const MPOL_BIND: libc::c_int = 2;
        const NODES: usize = 1024;
        let mut mask = [0u64; NODES / 64];
        let Some(word) = mask.get_mut(node as usize / 64) else {
            return;
        };
        *word = 1 << (node % 64);
        let mode = if self.page == PageSize::Base4K {
            MPOL_PREFERRED
        } else {
            MPOL_BIND
        };
        // SAFETY: the range is our own mapping; the kernel reads `NODES` bits of mask, which
        // live across the call (it takes one off the number that it is given).
        let _ = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base.as_ptr(),
                self.len,
                mode,
                mask.as_ptr(),
                NODES + 1,
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
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
        // Before Linux 5.14: the file takes its pages instead, and faulting them in is left.
        let len = i64::try_from(self.len).map_err(|_| too_large())?;
        Ok(fallocate(&self.file, FallocateFlags::empty(), 0, len)?)
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

/// Nobody who is given the file can shorten it, which would turn our next access into a signal.
/// A kernel that cannot promise that (hugepages before Linux 4.16) is not asked again.
fn seal(file: &OwnedFd) {
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    let _ = fcntl(file, FcntlArg::F_ADD_SEALS(seals));
}

fn too_large() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}
