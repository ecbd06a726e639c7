//! IOMMU groups in a container: VFIO's first way to share one DMA space among devices.
//!
//! The kernel wants an order: a container has no IOMMU until a group is in it, and maps nothing
//! before it has one; a group gives out its devices only once it is in a container that has.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hugemem::{Addressing, Area, DmaSpace, Iova, IovaRange, MapError};
use vfio_bindings::bindings::vfio;

use super::error::OpenError;
use super::info::Answer;
use super::kernel::{Argument, Kernel, Node, request, size};
use super::pinned::Pinned;
use crate::pci::Bdf;

/// A container, the groups in it and what is mapped there.
pub(super) struct Container {
    // Order matters: the groups leave before the container goes. They stay as long as it does,
    // because a container whose last group left has lost its mappings.
    groups: Mutex<Vec<Group>>,
    node: Box<dyn Node>,
    no_iommu: bool,
    pinned: Pinned,
}

/// An IOMMU group. It can be opened once, so all devices of it share this.
pub(super) struct Group {
    pub(super) number: u32,
    node: Box<dyn Node>,
}

impl Group {
    /// Opens the group's file; `busy` says who has it, where somebody has.
    pub(super) fn open(
        kernel: &dyn Kernel,
        path: &Path,
        number: u32,
        bdf: Bdf,
        busy: impl FnOnce() -> OpenError,
    ) -> Result<Self, OpenError> {
        let node = kernel
            .open(path)
            .map_err(|source| match source.raw_os_error() {
                Some(libc::EBUSY) => busy(),
                Some(libc::EPERM) => OpenError::RawIo { bdf },
                _ => open_error(path, bdf, source),
            })?;
        Ok(Self { number, node })
    }

    /// True if every device of the group is free for VFIO.
    pub(super) fn is_viable(&self) -> io::Result<bool> {
        let mut status = vfio::vfio_group_status {
            argsz: size::<vfio::vfio_group_status>(),
            ..Default::default()
        };
        self.node.call_on(request::GROUP_GET_STATUS, &mut status)?;
        Ok(status.flags & vfio::VFIO_GROUP_FLAGS_VIABLE != 0)
    }
}

/// What went wrong with a file of `/dev`.
pub(super) fn open_error(path: &Path, bdf: Bdf, source: io::Error) -> OpenError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => OpenError::NoVfio { path },
        io::ErrorKind::PermissionDenied => OpenError::Denied { path },
        _ => OpenError::Kernel {
            bdf,
            step: "opening its file",
            source,
        },
    }
}

impl Container {
    /// An empty container, checked to be of the kind that is wanted.
    pub(super) fn open(
        kernel: &Arc<dyn Kernel>,
        path: &Path,
        bdf: Bdf,
        no_iommu: bool,
    ) -> Result<Self, OpenError> {
        let node = kernel
            .open(path)
            .map_err(|source| open_error(path, bdf, source))?;
        let failed = |step| move |source| OpenError::Kernel { bdf, step, source };
        let version = node
            .call_plain(request::GET_API_VERSION)
            .map_err(failed("asking for VFIO's version"))?;
        if version != 0 {
            return Err(OpenError::Unsupported {
                what: "version 0 of its interface",
            });
        }
        let (kind, what) = if no_iommu {
            (vfio::VFIO_NOIOMMU_IOMMU, "mode without an IOMMU")
        } else {
            (vfio::VFIO_TYPE1v2_IOMMU, "IOMMU of type 1 version 2")
        };
        let has = node
            .call(request::CHECK_EXTENSION, Argument::Number(kind))
            .map_err(failed("asking what VFIO can do"))?;
        if has == 0 {
            return Err(OpenError::Unsupported { what });
        }
        Ok(Self {
            groups: Mutex::default(),
            node,
            no_iommu,
            pinned: Pinned::new(Arc::clone(kernel)),
        })
    }

    pub(super) fn is_no_iommu(&self) -> bool {
        self.no_iommu
    }

    fn groups(&self) -> MutexGuard<'_, Vec<Group>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if it has that group.
    pub(super) fn holds(&self, group: u32) -> bool {
        self.groups().iter().any(|held| held.number == group)
    }

    /// Takes `group` in. The kernel repeats what is mapped for it; refused, the group comes back
    /// with the reason, as another container may still suit it.
    pub(super) fn take_in(&self, group: Group) -> Result<(), (Group, io::Error)> {
        let mut groups = self.groups();
        let mut fd = self.node.number().to_ne_bytes();
        let argument = Argument::Bytes(&mut fd);
        if let Err(error) = group.node.call(request::GROUP_SET_CONTAINER, argument) {
            return Err((group, error));
        }
        groups.push(group);
        if groups.len() == 1
            && let Err(error) = self.set_iommu()
            && let Some(group) = groups.pop()
        {
            return Err((group, error));
        }
        Ok(())
    }

    fn set_iommu(&self) -> io::Result<()> {
        let kind = if self.no_iommu {
            vfio::VFIO_NOIOMMU_IOMMU
        } else {
            vfio::VFIO_TYPE1v2_IOMMU
        };
        self.node.call(request::SET_IOMMU, Argument::Number(kind))?;
        Ok(())
    }

    /// Opens a device of a group that is in the container.
    pub(super) fn open_device(
        &self,
        group: u32,
        name: &std::ffi::CStr,
    ) -> io::Result<Box<dyn Node>> {
        let groups = self.groups();
        let group = groups.iter().find(|held| held.number == group);
        group
            .ok_or(io::Error::from(io::ErrorKind::NotFound))?
            .node
            .open_device(name)
    }

    /// The numbers of the groups' files, by which a hot reset names what this process owns.
    pub(super) fn group_files(&self) -> Vec<(u32, i32)> {
        let groups = self.groups();
        groups
            .iter()
            .map(|group| (group.number, group.node.number()))
            .collect()
    }

    fn info(&self) -> io::Result<Answer> {
        // argsz 4, flags 4, page sizes 8, offset of the first capability 4, padding 4.
        Answer::ask(&*self.node, request::IOMMU_GET_INFO, &[0; 24])
    }

    /// Offset of the first capability of `info`, if it has any.
    fn first_capability(info: &Answer) -> u32 {
        let has = info.u32(4) & vfio::VFIO_IOMMU_INFO_CAPS != 0;
        if has { info.u32(16) } else { 0 }
    }
}

/// What an IOMMU translates whose kernel does not say: 39 bits but the interrupt window.
fn unstated_windows() -> Vec<IovaRange> {
    let range = |first, last| IovaRange { first, last };
    vec![
        range(0x1_0000, 0xfedf_ffff),
        range(0xfef0_0000, (1 << 39) - 1),
    ]
}

impl DmaSpace for Container {
    fn windows(&self) -> Vec<IovaRange> {
        if self.no_iommu {
            return vec![IovaRange::ALL];
        }
        let Ok(info) = self.info() else {
            return Vec::new();
        };
        let id = capability_id(vfio::VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE);
        let Some(at) = info.capability(Self::first_capability(&info), id) else {
            return unstated_windows();
        };
        // Count 4, reserved 4, then pairs of first and last.
        let pair = |n: usize| IovaRange {
            first: info.u64(at + 8 + 16 * n),
            last: info.u64(at + 16 + 16 * n),
        };
        let count = info.u32(at).min(4096) as usize;
        (0..count)
            .map(pair)
            .filter(|range| range.first < range.last)
            .collect()
    }

    fn addressing(&self) -> Addressing {
        if self.no_iommu {
            Addressing::Physical
        } else {
            Addressing::Translated
        }
    }

    fn area_limit(&self) -> usize {
        if self.no_iommu {
            return usize::MAX;
        }
        let available = self.info().ok().and_then(|info| {
            let id = capability_id(vfio::VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL);
            let at = info.capability(Self::first_capability(&info), id)?;
            Some(info.u32(at) as usize)
        });
        available.unwrap_or(usize::MAX)
    }

    fn map(&self, area: &Area<'_>) -> Result<(), MapError> {
        // Without an IOMMU there is nothing to tell: the device uses physical addresses.
        if self.no_iommu {
            return Ok(());
        }
        self.pinned.map(area, || {
            let mut map = vfio::vfio_iommu_type1_dma_map {
                argsz: size::<vfio::vfio_iommu_type1_dma_map>(),
                flags: vfio::VFIO_DMA_MAP_FLAG_READ | vfio::VFIO_DMA_MAP_FLAG_WRITE,
                vaddr: area.address(),
                iova: area.iova().get(),
                size: area.bytes(),
            };
            self.node.call_on(request::IOMMU_MAP_DMA, &mut map)
        })
    }

    fn unmap(&self, iova: Iova, len: u64) {
        if self.no_iommu {
            return;
        }
        self.pinned.unmap(iova, len, || {
            let mut unmap = vfio::vfio_iommu_type1_dma_unmap {
                argsz: size::<vfio::vfio_iommu_type1_dma_unmap>(),
                iova: iova.get(),
                size: len,
                ..Default::default()
            };
            self.node.call_on(request::IOMMU_UNMAP_DMA, &mut unmap)
        });
    }
}

/// Capability ids have 16 bits on the wire, and more in the header's constants.
pub(super) fn capability_id(id: u32) -> u16 {
    u16::try_from(id).expect("the header's ids are small numbers")
}
