//! Groups, containers and address spaces: who may map what, and when.
#![expect(unsafe_code, reason = "answers where the caller points to")]

use std::io;
use std::os::fd::RawFd;

use super::{File, State, errno, put, sized, u32_at, u64_at};

/// What is mapped: first address and bytes of each area.
#[derive(Default)]
pub(in super::super) struct AddressSpace {
    pub(in super::super) maps: Vec<(u64, u64)>,
}

#[derive(Default)]
pub(in super::super) struct MockContainer {
    pub(in super::super) groups: Vec<u32>,
    /// The kind of IOMMU that was set.
    pub(in super::super) iommu: Option<u32>,
    pub(in super::super) space: AddressSpace,
}

impl AddressSpace {
    /// True if all of `len` bytes at `at` are inside one mapping.
    pub(in super::super) fn covers(&self, at: u64, len: u64) -> bool {
        let inside = |&(first, bytes): &(u64, u64)| at >= first && at + len <= first + bytes;
        self.maps.iter().any(inside)
    }

    fn meets(&self, at: u64, len: u64) -> bool {
        let meets = |&(first, bytes): &(u64, u64)| at < first + bytes && first < at + len;
        self.maps.iter().any(meets)
    }
}

impl State {
    /// What may be mapped besides what is: the rules that containers and iommufd share.
    fn may_map(&self, space: &AddressSpace, at: u64, len: u64) -> io::Result<()> {
        let aligned = at.is_multiple_of(4096) && len.is_multiple_of(4096) && len > 0;
        let Some(last) = at.checked_add(len.wrapping_sub(1)).filter(|_| aligned) else {
            return errno(libc::EINVAL);
        };
        if space.meets(at, len) {
            return errno(libc::EEXIST);
        }
        if !self.windows.iter().any(|&(a, b)| a <= at && last <= b) {
            return errno(libc::EINVAL);
        }
        let pinned: u64 = space.maps.iter().map(|(_, bytes)| bytes).sum();
        if pinned + len > self.lock_limit {
            return errno(libc::ENOMEM);
        }
        Ok(())
    }

    fn container(&mut self, file: RawFd) -> &mut MockContainer {
        match self.files.get_mut(&file) {
            Some(File::Container(container)) => container,
            _ => panic!("file {file} is no container"),
        }
    }

    pub(super) fn container_call(
        &mut self,
        file: RawFd,
        request: u32,
        bytes: &mut [u8],
        number: u32,
    ) -> io::Result<u32> {
        match request {
            100 => Ok(self.version),
            101 => Ok(u32::from(self.extensions.contains(&number))),
            102 => self.set_iommu(file, number),
            112 => self.iommu_info(file, bytes),
            113 => self.map_dma(file, bytes),
            114 => self.unmap_dma(file, bytes),
            _ => errno(libc::ENOTTY),
        }
    }

    fn set_iommu(&mut self, file: RawFd, kind: u32) -> io::Result<u32> {
        self.calls.push(format!("set IOMMU {kind}"));
        let container = self.container(file);
        if container.groups.is_empty() || container.iommu.is_some() {
            return errno(libc::EINVAL);
        }
        let first = container.groups[0];
        if self.groups[&first].no_iommu != (kind == 8) || !self.extensions.contains(&kind) {
            return errno(libc::EINVAL);
        }
        if kind != 8 && self.forgeable_interrupts {
            return errno(libc::EPERM);
        }
        self.container(file).iommu = Some(kind);
        Ok(0)
    }

    /// `argsz` 4, flags 4, page sizes 8, first capability 4, padding 4; then capabilities.
    fn iommu_info(&mut self, file: RawFd, bytes: &mut [u8]) -> io::Result<u32> {
        let says = sized(bytes, 16)?;
        match self.container(file).iommu {
            None => return errno(libc::EINVAL),
            Some(8) => return errno(libc::ENOTTY),
            Some(_) => {}
        }
        put(bytes, 4, 1u32.to_ne_bytes());
        put(bytes, 8, 0x4020_1000u64.to_ne_bytes());
        if self.hides_windows {
            return Ok(0);
        }
        let ranges = 8 + 8 + 16 * self.windows.len();
        let all = 24 + ranges + 12;
        put(bytes, 4, 3u32.to_ne_bytes());
        put(bytes, 0, u32::try_from(all).expect("small").to_ne_bytes());
        put(bytes, 16, 0u32.to_ne_bytes());
        if (says as usize) < all {
            return Ok(0);
        }
        put(bytes, 16, 24u32.to_ne_bytes());
        // DMA_AVAIL (3) first, so that the chain is walked; then IOVA_RANGE (1).
        let available = self.entry_limit - self.container(file).space.maps.len();
        put(bytes, 24, 3u16.to_ne_bytes());
        put(bytes, 26, 1u16.to_ne_bytes());
        put(bytes, 28, 36u32.to_ne_bytes());
        put(
            bytes,
            32,
            u32::try_from(available).expect("small").to_ne_bytes(),
        );
        put(bytes, 36, 1u16.to_ne_bytes());
        put(bytes, 38, 1u16.to_ne_bytes());
        put(bytes, 40, 0u32.to_ne_bytes());
        let count = u32::try_from(self.windows.len()).expect("few");
        put(bytes, 44, count.to_ne_bytes());
        for (n, (first, last)) in self.windows.iter().enumerate() {
            put(bytes, 52 + 16 * n, first.to_ne_bytes());
            put(bytes, 60 + 16 * n, last.to_ne_bytes());
        }
        Ok(0)
    }

    /// `argsz` 4, flags 4, address 8, bus address 8, bytes 8.
    fn map_dma(&mut self, file: RawFd, bytes: &[u8]) -> io::Result<u32> {
        sized(bytes, 32)?;
        let (at, len) = (u64_at(bytes, 16)?, u64_at(bytes, 24)?);
        self.calls.push(format!("map {at:#x} {len:#x}"));
        match self.container(file).iommu {
            None => return errno(libc::EINVAL),
            Some(8) => return errno(libc::ENOTTY),
            Some(_) => {}
        }
        if u32_at(bytes, 4)? != 3 || u64_at(bytes, 8)? == 0 {
            return errno(libc::EINVAL);
        }
        let space = std::mem::take(&mut self.container(file).space);
        let result = self.may_map(&space, at, len);
        let full = space.maps.len() >= self.entry_limit;
        self.container(file).space = space;
        if full {
            return errno(libc::ENOSPC);
        }
        result?;
        self.container(file).space.maps.push((at, len));
        Ok(0)
    }

    /// `argsz` 4, flags 4, bus address 8, bytes 8. Version 2 never splits a mapping.
    fn unmap_dma(&mut self, file: RawFd, bytes: &mut [u8]) -> io::Result<u32> {
        sized(bytes, 24)?;
        let (at, len) = (u64_at(bytes, 8)?, u64_at(bytes, 16)?);
        self.calls.push(format!("unmap {at:#x} {len:#x}"));
        if self.container(file).iommu.is_none() {
            return errno(libc::EINVAL);
        }
        let space = &mut self.container(file).space;
        let had = space.maps.len();
        space.maps.retain(|&map| map != (at, len));
        if space.maps.len() == had {
            return errno(libc::EINVAL);
        }
        Ok(0)
    }

    pub(super) fn group_call(
        &mut self,
        number: u32,
        request: u32,
        bytes: &mut [u8],
    ) -> io::Result<u32> {
        match request {
            103 => {
                sized(bytes, 8)?;
                let group = &self.groups[&number];
                let flags = u32::from(group.viable) | u32::from(group.container.is_some()) << 1;
                put(bytes, 4, flags.to_ne_bytes());
                Ok(0)
            }
            104 => {
                let file = RawFd::from_ne_bytes(bytes.try_into().expect("a file's number"));
                self.join(number, file)
            }
            _ => errno(libc::ENOTTY),
        }
    }

    fn join(&mut self, number: u32, file: RawFd) -> io::Result<u32> {
        self.calls.push(format!("group {number} joins"));
        let group = &self.groups[&number];
        let no_iommu = group.no_iommu;
        if group.container.is_some() {
            return errno(libc::EINVAL);
        }
        if !group.viable {
            return errno(libc::EPERM);
        }
        let nothing_shared = self.nothing_shared;
        let Some(File::Container(container)) = self.files.get_mut(&file) else {
            return errno(libc::EBADF);
        };
        // Groups of an IOMMU and stand-ins do not mix.
        if container.iommu.is_some_and(|kind| (kind == 8) != no_iommu) {
            return errno(libc::EPERM);
        }
        if container.iommu.is_some() && nothing_shared {
            return errno(libc::EINVAL);
        }
        container.groups.push(number);
        self.groups.get_mut(&number).expect("there").container = Some(file);
        Ok(0)
    }

    /// A group's file is closed. A container whose last group leaves loses IOMMU and mappings.
    pub(super) fn leave(&mut self, number: u32) {
        let group = self.groups.get_mut(&number).expect("there");
        group.open = false;
        if let Some(file) = group.container.take()
            && let Some(File::Container(container)) = self.files.get_mut(&file)
        {
            container.groups.retain(|held| *held != number);
            if container.groups.is_empty() {
                *container = MockContainer::default();
            }
        }
    }

    pub(super) fn iommufd_call(
        &mut self,
        file: RawFd,
        request: u32,
        bytes: &mut [u8],
    ) -> io::Result<u32> {
        match request {
            0x80 => self.destroy(file, bytes),
            0x81 => {
                sized(bytes, 12)?;
                self.calls.push("alloc an address space".into());
                let spaces = self.spaces(file);
                let id = spaces.keys().max().map_or(1, |last| last + 1);
                spaces.insert(id, AddressSpace::default());
                put(bytes, 8, id.to_ne_bytes());
                Ok(0)
            }
            0x84 => self.ranges(file, bytes),
            0x85 => self.ioas_map(file, bytes),
            0x86 => self.ioas_unmap(file, bytes),
            _ => errno(libc::ENOTTY),
        }
    }

    pub(super) fn spaces(
        &mut self,
        file: RawFd,
    ) -> &mut std::collections::BTreeMap<u32, AddressSpace> {
        match self.files.get_mut(&file) {
            Some(File::Iommufd(spaces)) => spaces,
            _ => panic!("file {file} is no iommufd"),
        }
    }

    /// Size 4, id 4. An address space that a device uses stays.
    fn destroy(&mut self, file: RawFd, bytes: &[u8]) -> io::Result<u32> {
        sized(bytes, 8)?;
        let id = u32_at(bytes, 4)?;
        self.calls.push(format!("destroy {id}"));
        if self
            .devices
            .values()
            .any(|device| device.attached == Some((file, id)))
        {
            return errno(libc::EBUSY);
        }
        match self.spaces(file).remove(&id) {
            Some(_) => Ok(0),
            None => errno(libc::ENOENT),
        }
    }

    /// Size 4, id 4, count 4, reserved 4, address of the ranges 8, alignment 8.
    fn ranges(&mut self, file: RawFd, bytes: &mut [u8]) -> io::Result<u32> {
        sized(bytes, 32)?;
        if !self.spaces(file).contains_key(&u32_at(bytes, 4)?) {
            return errno(libc::ENOENT);
        }
        let room = u32_at(bytes, 8)? as usize;
        let count = u32::try_from(self.windows.len()).expect("few");
        put(bytes, 8, count.to_ne_bytes());
        put(bytes, 24, 4096u64.to_ne_bytes());
        if room < self.windows.len() {
            return errno(libc::EMSGSIZE);
        }
        let target = usize::try_from(u64_at(bytes, 16)?).expect("an address");
        let target = std::ptr::with_exposed_provenance_mut::<[u64; 2]>(target);
        for (n, &(first, last)) in self.windows.iter().enumerate() {
            // SAFETY: the caller has room for `room` pairs there, which is at least as many.
            unsafe { target.wrapping_add(n).write_unaligned([first, last]) };
        }
        Ok(0)
    }

    /// Size 4, flags 4, id 4, reserved 4, address 8, bytes 8, bus address 8.
    fn ioas_map(&mut self, file: RawFd, bytes: &[u8]) -> io::Result<u32> {
        sized(bytes, 40)?;
        let id = u32_at(bytes, 8)?;
        let (len, at) = (u64_at(bytes, 24)?, u64_at(bytes, 32)?);
        self.calls.push(format!("map {at:#x} {len:#x}"));
        // Fixed address, writeable, readable; reserved must be zero.
        if u32_at(bytes, 4)? != 7 || u32_at(bytes, 12)? != 0 || u64_at(bytes, 16)? == 0 {
            return errno(libc::EINVAL);
        }
        let Some(space) = self.spaces(file).remove(&id) else {
            return errno(libc::ENOENT);
        };
        let result = self.may_map(&space, at, len);
        self.spaces(file).insert(id, space);
        result?;
        let space = self.spaces(file).get_mut(&id).expect("just put back");
        space.maps.push((at, len));
        Ok(0)
    }

    /// Size 4, id 4, bus address 8, bytes 8.
    fn ioas_unmap(&mut self, file: RawFd, bytes: &[u8]) -> io::Result<u32> {
        sized(bytes, 24)?;
        let (at, len) = (u64_at(bytes, 8)?, u64_at(bytes, 16)?);
        self.calls.push(format!("unmap {at:#x} {len:#x}"));
        let Some(space) = self.spaces(file).get_mut(&u32_at(bytes, 4)?) else {
            return errno(libc::ENOENT);
        };
        let had = space.maps.len();
        space.maps.retain(|&map| map != (at, len));
        if space.maps.len() == had {
            return errno(libc::ENOENT);
        }
        Ok(0)
    }
}
