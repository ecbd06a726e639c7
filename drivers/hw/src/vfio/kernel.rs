//! The seam to the kernel: files of VFIO and the calls on them.
//!
//! Everything above speaks in bytes that the kernel's headers lay out. The one implementation
//! here makes the system calls; the tests' holds the kernel's rules and writes down every call.
#![expect(
    unsafe_code,
    reason = "makes system calls, and sees their structures as bytes"
)]

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use iommufd_bindings as iommufd;
use memmap2::{MmapOptions, MmapRaw};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use vfio_bindings::bindings::vfio;

/// Numbers of the calls, in the type `;` that VFIO and iommufd share.
pub(super) mod request {
    use iommufd_bindings as iommufd;
    use vfio_bindings::bindings::vfio::VFIO_BASE;

    const fn vfio(number: u32) -> u32 {
        VFIO_BASE + number
    }

    pub(crate) const GET_API_VERSION: u32 = vfio(0);
    pub(crate) const CHECK_EXTENSION: u32 = vfio(1);
    pub(crate) const SET_IOMMU: u32 = vfio(2);
    pub(crate) const GROUP_GET_STATUS: u32 = vfio(3);
    pub(crate) const GROUP_SET_CONTAINER: u32 = vfio(4);
    pub(crate) const GROUP_GET_DEVICE_FD: u32 = vfio(6);
    pub(crate) const DEVICE_GET_INFO: u32 = vfio(7);
    pub(crate) const DEVICE_GET_REGION_INFO: u32 = vfio(8);
    pub(crate) const DEVICE_GET_IRQ_INFO: u32 = vfio(9);
    pub(crate) const DEVICE_SET_IRQS: u32 = vfio(10);
    pub(crate) const DEVICE_RESET: u32 = vfio(11);
    pub(crate) const DEVICE_GET_PCI_HOT_RESET_INFO: u32 = vfio(12);
    pub(crate) const DEVICE_PCI_HOT_RESET: u32 = vfio(13);
    /// The same number as the one above, on a container.
    pub(crate) const IOMMU_GET_INFO: u32 = vfio(12);
    /// As above.
    pub(crate) const IOMMU_MAP_DMA: u32 = vfio(13);
    pub(crate) const IOMMU_UNMAP_DMA: u32 = vfio(14);
    pub(crate) const DEVICE_FEATURE: u32 = vfio(17);
    pub(crate) const DEVICE_BIND_IOMMUFD: u32 = vfio(18);
    pub(crate) const DEVICE_ATTACH_IOMMUFD_PT: u32 = vfio(19);
    pub(crate) const IOMMUFD_DESTROY: u32 = iommufd::IOMMUFD_CMD_DESTROY;
    pub(crate) const IOAS_ALLOC: u32 = iommufd::IOMMUFD_CMD_IOAS_ALLOC;
    pub(crate) const IOAS_IOVA_RANGES: u32 = iommufd::IOMMUFD_CMD_IOAS_IOVA_RANGES;
    pub(crate) const IOAS_MAP: u32 = iommufd::IOMMUFD_CMD_IOAS_MAP;
    pub(crate) const IOAS_UNMAP: u32 = iommufd::IOMMUFD_CMD_IOAS_UNMAP;
}

/// What opens files of VFIO.
pub(super) trait Kernel: Send + Sync {
    /// Opens a file under `/dev`, to read and write.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Node>>;

    /// Raises the limit of locked memory as far as this user may; true if that was any.
    fn raise_lock_limit(&self) -> bool;
}

/// The argument of a call.
pub(super) enum Argument<'a> {
    /// A number, or nothing.
    Number(u32),
    /// A structure, which the kernel may change. One that begins with its size is at least that
    /// long.
    Bytes(&'a mut [u8]),
}

/// An open file of VFIO or iommufd.
pub(super) trait Node: Send + Sync {
    /// Its number, by which calls on other files name it.
    fn number(&self) -> RawFd;

    /// Makes the call `request` (of type `;`).
    fn call(&self, request: u32, argument: Argument<'_>) -> io::Result<u32>;

    /// Opens a device of this group.
    fn open_device(&self, name: &CStr) -> io::Result<Box<dyn Node>>;

    /// Reads all of `bytes` at `offset`, in one access.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`, in one access.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Maps `len` bytes at `offset`, shared.
    fn map(&self, offset: u64, len: usize) -> io::Result<MmapRaw>;
}

impl dyn Node + '_ {
    /// Makes a call without an argument.
    pub(super) fn call_plain(&self, request: u32) -> io::Result<u32> {
        self.call(request, Argument::Number(0))
    }

    /// Makes a call on a structure.
    pub(super) fn call_on<T: Plain>(&self, request: u32, structure: &mut T) -> io::Result<u32> {
        self.call(request, Argument::Bytes(bytes_of(structure)))
    }
}

/// The system calls.
pub(super) struct Linux;

impl Kernel for Linux {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Node>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Box::new(LinuxNode(file)))
    }

    fn raise_lock_limit(&self) -> bool {
        let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_MEMLOCK) else {
            return false;
        };
        soft < hard && setrlimit(Resource::RLIMIT_MEMLOCK, hard, hard).is_ok()
    }
}

struct LinuxNode(File);

impl LinuxNode {
    fn result(result: libc::c_int) -> io::Result<u32> {
        u32::try_from(result).map_err(|_| io::Error::last_os_error())
    }
}

const fn code(request: u32) -> libc::c_ulong {
    assert!(request < 256, "the number of a call has eight bits");
    // _IO(';', number): no direction, no size (VFIO and iommufd structures carry their own).
    (vfio::VFIO_TYPE as libc::c_ulong) << 8 | request as libc::c_ulong
}

const _: () = assert!(vfio::VFIO_TYPE == iommufd::IOMMUFD_TYPE);

impl Node for LinuxNode {
    fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn call(&self, request: u32, argument: Argument<'_>) -> io::Result<u32> {
        let fd = self.0.as_raw_fd();
        let result = match argument {
            Argument::Number(number) => {
                // SAFETY: the call takes no pointer, so the kernel touches no memory of ours.
                unsafe { libc::ioctl(fd, code(request), libc::c_ulong::from(number)) }
            }
            Argument::Bytes(bytes) => {
                // SAFETY: the kernel reads and writes as many bytes as the structure's own first
                // field says, which the callers in this module's siblings set to the slice's
                // length; addresses inside name memory that outlives what the call makes of it:
                // a mapping's region ([`hugemem::DmaSpace`]), or a local of the caller.
                unsafe { libc::ioctl(fd, code(request), bytes.as_mut_ptr()) }
            }
        };
        Self::result(result)
    }

    fn open_device(&self, name: &CStr) -> io::Result<Box<dyn Node>> {
        let request = code(request::GROUP_GET_DEVICE_FD);
        // SAFETY: the kernel reads a string that ends in zero, which `name` is.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request, name.as_ptr()) };
        Self::result(result)?;
        // SAFETY: the call made this descriptor and gave it to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(result) };
        Ok(Box::new(LinuxNode(File::from(fd))))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        whole(self.0.read_at(bytes, offset)?, bytes.len())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        whole(self.0.write_at(bytes, offset)?, bytes.len())
    }

    fn map(&self, offset: u64, len: usize) -> io::Result<MmapRaw> {
        MmapOptions::new().offset(offset).len(len).map_raw(&self.0)
    }
}

/// An access of a register is whole or it was none.
fn whole(done: usize, asked: usize) -> io::Result<()> {
    if done == asked {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// A structure of the kernel's that is bytes and nothing else.
///
/// # Safety
/// It has no padding, and any bytes are one of its values.
pub(super) unsafe trait Plain: Default {}

macro_rules! plain {
    ($($structure:ty: $bytes:literal),* $(,)?) => { $(
        // SAFETY: the size (checked below) is the sum of the sizes of its fields, which are
        // integers.
        unsafe impl Plain for $structure {}
        const _: () = assert!(size_of::<$structure>() == $bytes);
    )* };
}

plain! {
    vfio::vfio_group_status: 8,
    vfio::vfio_device_info: 24,
    vfio::vfio_irq_info: 16,
    vfio::vfio_device_bind_iommufd: 24,
    vfio::vfio_device_attach_iommufd_pt: 16,
    vfio::vfio_iommu_type1_dma_map: 32,
    vfio::vfio_iommu_type1_dma_unmap: 24,
    iommufd::iommu_destroy: 8,
    iommufd::iommu_ioas_alloc: 12,
    iommufd::iommu_ioas_iova_ranges: 32,
    iommufd::iommu_ioas_map: 40,
    iommufd::iommu_ioas_unmap: 24,
}

/// The bytes of a structure.
fn bytes_of<T: Plain>(structure: &mut T) -> &mut [u8] {
    let first = std::ptr::from_mut(structure).cast::<u8>();
    // SAFETY: they are the structure's, borrowed with it; `Plain` says that all are initialised
    // and may take any value.
    unsafe { std::slice::from_raw_parts_mut(first, size_of::<T>()) }
}

/// A structure's size, as it says itself.
pub(super) const fn size<T: Plain>() -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the largest has 40 bytes")]
    let size = size_of::<T>() as u32;
    size
}

#[cfg(test)]
mod test {
    use super::*;

    /// Any file will do for what is the same for all: VFIO's own need a device.
    fn node() -> LinuxNode {
        let file = tempfile::tempfile().expect("a temporary file can be made");
        file.write_all_at(b"0123456789abcdef", 4096).expect("ours");
        LinuxNode(file)
    }

    #[test]
    fn an_access_is_whole_or_fails() {
        let node = node();
        let mut word = [0; 4];
        node.read_at(&mut word, 4106).unwrap();
        assert_eq!(&word, b"abcd");
        assert!(
            node.read_at(&mut word, 4110).is_err(),
            "half of it is past the end"
        );
        node.write_at(b"WXYZ", 4096).unwrap();
        let map = node.map(4096, 16).unwrap();
        // SAFETY: the mapping is 16 bytes long, and nobody else has the file.
        assert_eq!(unsafe { *map.as_ptr().cast::<[u8; 4]>() }, *b"WXYZ");
    }

    #[test]
    fn a_file_that_is_no_vfio_refuses_every_call_with_its_error() {
        let node: Box<dyn Node> = Box::new(node());
        let refused = |result: io::Result<u32>| {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        };
        refused(node.call_plain(request::GET_API_VERSION));
        refused(node.call(request::SET_IOMMU, Argument::Number(3)));
        let mut status = vfio::vfio_group_status::default();
        refused(node.call_on(request::GROUP_GET_STATUS, &mut status));
        refused(node.open_device(c"0000:3b:00.0").map(|_| 0));
        assert!(Linux.open(Path::new("/dev/no-such-file")).is_err());
    }

    #[test]
    fn calls_have_the_numbers_of_the_kernels_headers() {
        // `_IO(';', 100)` and `_IO(';', 0x85)`, as a C compiler gives them.
        assert_eq!(code(request::GET_API_VERSION), 0x3b64);
        assert_eq!(code(request::DEVICE_ATTACH_IOMMUFD_PT), 0x3b77);
        assert_eq!(code(request::IOAS_MAP), 0x3b85);
    }

    #[test]
    fn the_lock_limit_goes_no_higher_than_it_may() {
        Linux.raise_lock_limit();
        assert!(!Linux.raise_lock_limit(), "once is all there is");
        let (soft, hard) = getrlimit(Resource::RLIMIT_MEMLOCK).unwrap();
        assert_eq!(soft, hard);
    }
}
