//! Register windows of a VFIO device.

use std::sync::Arc;

use super::device::{Device, Region};
use crate::mmio::{Bar, MappedBar};

/// A register window of a VFIO device: mapped where the kernel allows, else reached by system
/// calls (I/O ports always are).
#[derive(Clone, Debug)]
pub struct VfioBar(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// All of it.
    Mapped(MappedBar),
    /// None of it.
    Calls(RegionBar),
    /// Stretches of it: where each begins, its bytes; the rest by calls.
    Sparse(Arc<[(u32, MappedBar)]>, RegionBar),
}

impl VfioBar {
    pub(super) fn mapped(bar: MappedBar) -> Self {
        Self(Kind::Mapped(bar))
    }

    pub(super) fn by_calls(device: Arc<Device>, region: Region) -> Self {
        Self(Kind::Calls(RegionBar { device, region }))
    }

    pub(super) fn sparse(
        areas: Vec<(u32, MappedBar)>,
        device: Arc<Device>,
        region: Region,
    ) -> Self {
        Self(Kind::Sparse(areas.into(), RegionBar { device, region }))
    }

    /// True if every register is reached without a system call.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Kind::Mapped(_))
    }
}

/// The mapped stretch that holds `size` bytes at `offset`, and where in it they are.
fn stretch(areas: &[(u32, MappedBar)], offset: u32, size: u64) -> Option<(&MappedBar, u32)> {
    areas.iter().find_map(|(first, bar)| {
        let at = offset.checked_sub(*first)?;
        (u64::from(at) + size <= bar.len()).then_some((bar, at))
    })
}

macro_rules! dispatch {
    ($($load:ident $store:ident $int:ty: $bytes:literal),*) => { $(
        #[inline]
        fn $load(&self, offset: u32) -> $int {
            match &self.0 {
                Kind::Mapped(bar) => bar.$load(offset),
                Kind::Calls(bar) => <$int>::from_le_bytes(bar.load(offset)),
                Kind::Sparse(areas, rest) => match stretch(areas, offset, $bytes) {
                    Some((bar, at)) => bar.$load(at),
                    None => <$int>::from_le_bytes(rest.load(offset)),
                },
            }
        }
        #[inline]
        fn $store(&self, offset: u32, value: $int) {
            match &self.0 {
                Kind::Mapped(bar) => bar.$store(offset, value),
                Kind::Calls(bar) => bar.store(offset, value.to_le_bytes()),
                Kind::Sparse(areas, rest) => match stretch(areas, offset, $bytes) {
                    Some((bar, at)) => bar.$store(at, value),
                    None => rest.store(offset, value.to_le_bytes()),
                },
            }
        }
    )* };
}

impl Bar for VfioBar {
    fn len(&self) -> u64 {
        match &self.0 {
            Kind::Mapped(bar) => bar.len(),
            Kind::Calls(bar) | Kind::Sparse(_, bar) => bar.region.size,
        }
    }
    dispatch!(load8 store8 u8: 1, load16 store16 u16: 2, load32 store32 u32: 4);
}

/// A register window reached by system calls, one for each access, of its exact width.
#[derive(Clone)]
struct RegionBar {
    device: Arc<Device>,
    region: Region,
}

impl RegionBar {
    /// What is read of a device that is gone is all ones, as on the bus.
    fn load<const N: usize>(&self, offset: u32) -> [u8; N] {
        let mut bytes = [0xff; N];
        if self.device.read(self.at(offset, N), &mut bytes).is_err() {
            bytes = [0xff; N];
        }
        bytes
    }

    /// What is written to a device that is gone is lost, as on the bus.
    fn store<const N: usize>(&self, offset: u32, bytes: [u8; N]) {
        let _ = self.device.write(self.at(offset, N), &bytes);
    }

    fn at(&self, offset: u32, size: usize) -> u64 {
        assert!(
            (offset as usize).is_multiple_of(size),
            "register {offset:#x} is not aligned"
        );
        assert!(
            u64::from(offset) + size as u64 <= self.region.size,
            "register {offset:#x} is past the window"
        );
        self.region.offset + u64::from(offset)
    }
}

impl std::fmt::Debug for RegionBar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RegionBar({} bytes)", self.region.size)
    }
}
