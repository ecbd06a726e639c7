//! An address space of iommufd: VFIO's second way to share one DMA space among devices.
//!
//! A device is opened by its own file, bound to an iommufd, and attached to an address space of
//! it. Before it is bound the kernel answers nothing about it.

use std::io;
use std::sync::Arc;

use hugemem::{Area, DmaSpace, Iova, IovaRange, MapError};
use iommufd_bindings as iommufd;
use vfio_bindings::bindings::vfio;

use super::Token;
use super::kernel::{Kernel, Node, request, size};
use super::pinned::Pinned;

/// An address space.
pub(super) struct Ioas {
    node: Arc<dyn Node>,
    id: u32,
    pinned: Pinned,
}

/// Binds a device to `iommufd`.
pub(super) fn bind(device: &dyn Node, iommufd: &dyn Node, token: Option<Token>) -> io::Result<()> {
    let token = token.map(|token| token.0);
    let mut bind = vfio::vfio_device_bind_iommufd {
        argsz: size::<vfio::vfio_device_bind_iommufd>(),
        iommufd: iommufd.number(),
        ..Default::default()
    };
    if let Some(token) = &token {
        bind.flags = vfio::VFIO_DEVICE_BIND_FLAG_TOKEN;
        bind.token_uuid_ptr = token.as_ptr() as u64;
    }
    device.call_on(request::DEVICE_BIND_IOMMUFD, &mut bind)?;
    Ok(())
}

impl Ioas {
    /// A new address space of `node`, an iommufd.
    pub(super) fn new(kernel: &Arc<dyn Kernel>, node: Arc<dyn Node>) -> io::Result<Self> {
        let mut alloc = iommufd::iommu_ioas_alloc {
            size: size::<iommufd::iommu_ioas_alloc>(),
            ..Default::default()
        };
        node.call_on(request::IOAS_ALLOC, &mut alloc)?;
        Ok(Self {
            node,
            id: alloc.out_ioas_id,
            pinned: Pinned::new(Arc::clone(kernel)),
        })
    }

    /// The iommufd that it is a part of.
    pub(super) fn node(&self) -> &Arc<dyn Node> {
        &self.node
    }

    /// Lets a bound device use it. What is mapped becomes reachable, or the kernel refuses.
    pub(super) fn attach(&self, device: &dyn Node) -> io::Result<()> {
        let mut attach = vfio::vfio_device_attach_iommufd_pt {
            argsz: size::<vfio::vfio_device_attach_iommufd_pt>(),
            pt_id: self.id,
            ..Default::default()
        };
        device.call_on(request::DEVICE_ATTACH_IOMMUFD_PT, &mut attach)?;
        Ok(())
    }

    /// The ranges, given room for `room` of them; or how many there are.
    fn ranges(&self, room: u32) -> Result<Vec<IovaRange>, Option<u32>> {
        let mut ranges = vec![iommufd::iommu_iova_range::default(); room as usize];
        let mut ask = iommufd::iommu_ioas_iova_ranges {
            size: size::<iommufd::iommu_ioas_iova_ranges>(),
            ioas_id: self.id,
            num_iovas: room,
            allowed_iovas: ranges.as_mut_ptr() as u64,
            ..Default::default()
        };
        match self.node.call_on(request::IOAS_IOVA_RANGES, &mut ask) {
            Ok(_) => {
                ranges.truncate(ask.num_iovas as usize);
                let range = |r: &iommufd::iommu_iova_range| IovaRange {
                    first: r.start,
                    last: r.last,
                };
                Ok(ranges.iter().map(range).collect())
            }
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => Err(Some(ask.num_iovas)),
            Err(_) => Err(None),
        }
    }
}

impl Drop for Ioas {
    fn drop(&mut self) {
        let mut destroy = iommufd::iommu_destroy {
            size: size::<iommufd::iommu_destroy>(),
            id: self.id,
        };
        // Refused while a register window keeps a device open; then it goes with that.
        let _ = self.node.call_on(request::IOMMUFD_DESTROY, &mut destroy);
    }
}

impl DmaSpace for Ioas {
    fn windows(&self) -> Vec<IovaRange> {
        match self.ranges(16) {
            Ok(ranges) => ranges,
            Err(Some(more)) => self.ranges(more.min(4096)).unwrap_or_default(),
            Err(None) => Vec::new(),
        }
    }

    fn map(&self, area: &Area<'_>) -> Result<(), MapError> {
        self.pinned.map(area, || {
            let mut map = iommufd::iommu_ioas_map {
                size: size::<iommufd::iommu_ioas_map>(),
                flags: iommufd::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_FIXED_IOVA
                    | iommufd::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_READABLE
                    | iommufd::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_WRITEABLE,
                ioas_id: self.id,
                user_va: area.address(),
                length: area.bytes(),
                iova: area.iova().get(),
                ..Default::default()
            };
            self.node.call_on(request::IOAS_MAP, &mut map)
        })
    }

    fn unmap(&self, iova: Iova, len: u64) {
        self.pinned.unmap(iova, len, || {
            let mut unmap = iommufd::iommu_ioas_unmap {
                size: size::<iommufd::iommu_ioas_unmap>(),
                ioas_id: self.id,
                iova: iova.get(),
                length: len,
            };
            self.node.call_on(request::IOAS_UNMAP, &mut unmap)
        });
    }
}
