//! A device's file: its regions, its interrupts, its resets.

use std::io;

use vfio_bindings::bindings::vfio;

use super::container::capability_id;
use super::info::Answer;
use super::kernel::{Argument, Node, request, size};
use crate::mmio::MappedBar;
use crate::pci::Bdf;

/// Index of configuration space among the regions; the BARs are 0 to 5.
const CONFIG: u32 = 7;

/// An open device.
pub(super) struct Device {
    node: Box<dyn Node>,
    config: Region,
    pub(super) can_reset: bool,
}

/// A stretch of the device's file that is one of its windows.
#[derive(Debug, Clone)]
pub(super) struct Region {
    /// Where in the file it begins.
    pub(super) offset: u64,
    /// Bytes; 0 where the device has no such window.
    pub(super) size: u64,
    /// What of it can be mapped: offset in the window and bytes.
    pub(super) mappable: Vec<(u64, u64)>,
}

/// A device that a hot reset would reset too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dependent {
    /// Its IOMMU group, or its id in the iommufd.
    pub(super) owner: u32,
    pub(super) bdf: Bdf,
}

impl Device {
    /// Looks at the device behind `node`.
    pub(super) fn new(node: Box<dyn Node>) -> io::Result<Self> {
        let mut info = vfio::vfio_device_info {
            argsz: size::<vfio::vfio_device_info>(),
            ..Default::default()
        };
        node.call_on(request::DEVICE_GET_INFO, &mut info)?;
        if info.flags & vfio::VFIO_DEVICE_FLAGS_PCI == 0 || info.num_regions <= CONFIG {
            return Err(io::Error::other("it is no PCI device"));
        }
        let config = Region::of(&*node, CONFIG)?;
        Ok(Self {
            node,
            config,
            can_reset: info.flags & vfio::VFIO_DEVICE_FLAGS_RESET != 0,
        })
    }

    /// The window `index`: a BAR, 0 to 5.
    pub(super) fn region(&self, index: u8) -> io::Result<Region> {
        Region::of(&*self.node, index.into())
    }

    pub(super) fn map(&self, region: &Region, at: u64, len: u64) -> io::Result<MappedBar> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        Ok(MappedBar::new(self.node.map(region.offset + at, len)?))
    }

    pub(super) fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.node.read_at(bytes, at)
    }

    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.node.write_at(bytes, at)
    }

    /// Configuration space at `offset`; all ones past its end or from a device that is gone.
    pub(super) fn config<const N: usize>(&self, offset: u16) -> [u8; N] {
        let mut bytes = [0xff; N];
        let inside = u64::from(offset) + N as u64 <= self.config.size;
        let at = self.config.offset + u64::from(offset);
        if !inside || self.read(at, &mut bytes).is_err() {
            bytes = [0xff; N];
        }
        bytes
    }

    pub(super) fn set_config16(&self, offset: u16, value: u16) -> io::Result<()> {
        if u64::from(offset) + 2 > self.config.size {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let at = self.config.offset + u64::from(offset);
        self.write(at, &value.to_le_bytes())
    }

    pub(super) fn reset(&self) -> io::Result<()> {
        self.node.call_plain(request::DEVICE_RESET)?;
        Ok(())
    }

    /// The devices that a hot reset would reset: this one and those on its bus or slot.
    pub(super) fn dependents(&self) -> io::Result<Vec<Dependent>> {
        const HEADER: usize = 12;
        const EACH: usize = 8;
        // Asked with too little room the kernel fails and says how many there are.
        let mut room = 16;
        for _ in 0..4 {
            let mut bytes = vec![0; HEADER + EACH * room];
            let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            let argument = Argument::Bytes(&mut bytes);
            let result = self
                .node
                .call(request::DEVICE_GET_PCI_HOT_RESET_INFO, argument);
            let count = u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
            match result {
                Ok(_) => {
                    let entries = bytes[HEADER..].as_chunks::<EACH>().0;
                    return Ok(entries.iter().take(count).map(dependent).collect());
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                    room = count.clamp(room + 1, 4096);
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the number of dependent devices changes"))
    }

    /// Resets the bus or slot. `groups` are the files of the groups of all who are on it; none
    /// for a device of an iommufd.
    pub(super) fn hot_reset(&self, groups: &[i32]) -> io::Result<()> {
        let count = u32::try_from(groups.len()).map_err(io::Error::other)?;
        // argsz 4, flags 4, count 4, then the files.
        let words = [12 + 4 * count, 0, count].into_iter();
        let files = groups.iter().flat_map(|file| file.to_ne_bytes());
        let mut bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).chain(files).collect();
        self.node
            .call(request::DEVICE_PCI_HOT_RESET, Argument::Bytes(&mut bytes))?;
        Ok(())
    }

    /// How many interrupts of kind `index` there are, and the flags that say how they work.
    pub(super) fn irq_info(&self, index: u32) -> io::Result<(u32, u32)> {
        let mut info = vfio::vfio_irq_info {
            argsz: size::<vfio::vfio_irq_info>(),
            index,
            ..Default::default()
        };
        self.node.call_on(request::DEVICE_GET_IRQ_INFO, &mut info)?;
        Ok((info.count, info.flags))
    }

    /// Does `flags` to the interrupts of kind `index` from number `start` on: `files` has one
    /// event file for each, or there are `count` and no files.
    pub(super) fn set_irqs(
        &self,
        flags: u32,
        index: u32,
        start: u32,
        count: u32,
        files: &[i32],
    ) -> io::Result<()> {
        let len = u32::try_from(20 + 4 * files.len()).map_err(io::Error::other)?;
        let words = [len, flags, index, start, count].into_iter();
        let files = files.iter().flat_map(|file| file.to_ne_bytes());
        let mut bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).chain(files).collect();
        self.node
            .call(request::DEVICE_SET_IRQS, Argument::Bytes(&mut bytes))?;
        Ok(())
    }

    /// Sets the token that users of this physical function's VFs must give.
    pub(super) fn set_vf_token(&self, token: [u8; 16]) -> io::Result<()> {
        let flags = vfio::VFIO_DEVICE_FEATURE_SET | vfio::VFIO_DEVICE_FEATURE_PCI_VF_TOKEN;
        let words = [8 + 16u32, flags].into_iter();
        let mut bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).chain(token).collect();
        self.node
            .call(request::DEVICE_FEATURE, Argument::Bytes(&mut bytes))?;
        Ok(())
    }
}

/// Owner 4, segment 2, bus 1, device and function 1.
fn dependent(entry: &[u8; 8]) -> Dependent {
    let [a, b, c, d, e, f, bus, place] = *entry;
    Dependent {
        owner: u32::from_ne_bytes([a, b, c, d]),
        bdf: Bdf {
            domain: u16::from_ne_bytes([e, f]).into(),
            bus,
            device: place >> 3,
            function: place & 7,
        },
    }
}

impl Region {
    fn of(node: &dyn Node, index: u32) -> io::Result<Self> {
        // argsz 4, flags 4, index 4, offset of the first capability 4, size 8, offset 8.
        let mut question = [0; 32];
        question[8..12].copy_from_slice(&index.to_ne_bytes());
        let info = Answer::ask(node, request::DEVICE_GET_REGION_INFO, &question)?;
        let flags = info.u32(4);
        let size = info.u64(16);
        Ok(Self {
            offset: info.u64(24),
            size,
            mappable: mappable(&info, flags, size),
        })
    }
}

/// What of a region can be mapped: all of it, or the areas that the kernel lists.
fn mappable(info: &Answer, flags: u32, size: u64) -> Vec<(u64, u64)> {
    if flags & vfio::VFIO_REGION_INFO_FLAG_MMAP == 0 || size == 0 {
        return Vec::new();
    }
    let has_caps = flags & vfio::VFIO_REGION_INFO_FLAG_CAPS != 0;
    let first = if has_caps { info.u32(12) } else { 0 };
    let id = capability_id(vfio::VFIO_REGION_INFO_CAP_SPARSE_MMAP);
    let Some(at) = info.capability(first, id) else {
        return vec![(0, size)];
    };
    // Count 4, reserved 4, then pairs of offset and bytes.
    let count = info.u32(at).min(1024) as usize;
    let area = |n: usize| (info.u64(at + 8 + 16 * n), info.u64(at + 16 + 16 * n));
    (0..count)
        .map(area)
        .filter(|&(at, len)| len > 0 && at.checked_add(len).is_some_and(|end| end <= size))
        .collect()
}
