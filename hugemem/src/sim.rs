//! The IOMMU of simulated devices: refuses what was not mapped.
#![expect(unsafe_code, reason = "is the device's end of DMA")]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use memmap2::{MmapOptions, MmapRaw};

use crate::dma::DmaWord;
use crate::iova::{Iova, IovaRange};
use crate::space::{Area, DmaSpace, MapError};

/// A device touched an address that was not mapped for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("DMA of {len} bytes at {iova}, which is not mapped")]
pub struct IommuFault {
    /// First byte of the access.
    pub iova: Iova,
    /// Its length in bytes.
    pub len: usize,
}

/// The DMA space of simulated devices.
///
/// It maps the memory's file anew, as a peer in another process would, so the device sees it at
/// addresses of its own.
#[derive(Debug)]
pub struct SimSpace {
    windows: Vec<IovaRange>,
    maps: RwLock<Arc<[Entry]>>,
    epoch: AtomicU64,
}

#[derive(Debug, Clone)]
struct Entry {
    first: u64,
    len: u64,
    map: Arc<MmapRaw>,
}

impl SimSpace {
    /// A space that translates 39 bits but the interrupt window, as many real ones do.
    #[must_use]
    pub fn new() -> Arc<Self> {
        const INTERRUPTS: IovaRange = IovaRange {
            first: 0xfee0_0000,
            last: 0xfeef_ffff,
        };
        Self::with_windows(vec![
            IovaRange {
                first: 0,
                last: INTERRUPTS.first - 1,
            },
            IovaRange {
                first: INTERRUPTS.last + 1,
                last: (1 << 39) - 1,
            },
        ])
    }

    /// A space that translates `windows`.
    #[must_use]
    pub fn with_windows(windows: Vec<IovaRange>) -> Arc<Self> {
        let maps = RwLock::new(Arc::from([]));
        Arc::new(Self {
            windows,
            maps,
            epoch: AtomicU64::new(0),
        })
    }

    /// What a device walks memory with. Each thread of a device has its own.
    #[must_use]
    pub fn translator(self: &Arc<Self>) -> Translator {
        let mut translator = Translator {
            space: Arc::clone(self),
            epoch: 0,
            maps: Arc::from([]),
            last: 0,
        };
        translator.refresh();
        translator
    }

    /// Maps memory that another process owns: `len` bytes at `offset` of `file`, under bus address
    /// `iova`. It is a shared map of its own, so nothing of this process lies under it. A page that
    /// the owner cuts off the file ends this process when a device touches it (`SIGBUS`): `file`
    /// is to be a peer's that does not do that, such as an emulator's memory of its guest.
    ///
    /// # Errors
    /// What the kernel says of the map: not a file, not writable, not that long.
    pub fn map_foreign(&self, iova: u64, len: u64, file: &File, offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(len).map_err(io::Error::other)?;
        let end = offset.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
        if bytes == 0 || iova.checked_add(len).is_none() || end > file.metadata()?.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let map = MmapOptions::new().offset(offset).len(bytes).map_raw(file)?;
        let entry = Entry {
            first: iova,
            len,
            map: Arc::new(map),
        };
        self.change(|entries| entries.push(entry));
        Ok(())
    }

    /// Unmaps everything that lies in the `len` bytes from `first` on; what only reaches into
    /// them stays. Says how many maps that were.
    pub fn unmap_within(&self, first: u64, len: u64) -> usize {
        let end = u128::from(first) + u128::from(len);
        let inside = |entry: &Entry| {
            entry.first >= first && u128::from(entry.first) + u128::from(entry.len) <= end
        };
        let mut gone = 0;
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|entry| !inside(entry));
            gone = before - entries.len();
        });
        gone
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Entry>)) {
        let mut maps = self.maps.write().unwrap_or_else(PoisonError::into_inner);
        let mut entries = maps.to_vec();
        change(&mut entries);
        *maps = entries.into();
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

impl DmaSpace for SimSpace {
    fn windows(&self) -> Vec<IovaRange> {
        self.windows.clone()
    }

    fn map(&self, area: &Area<'_>) -> Result<(), MapError> {
        let (iova, bytes) = (area.iova, area.len);
        let refused = |source: io::Error| MapError::Kernel {
            iova,
            bytes,
            source,
        };
        let len = usize::try_from(bytes).map_err(|error| refused(io::Error::other(error)))?;
        let map = MmapOptions::new()
            .offset(area.offset)
            .len(len)
            .map_raw(&area.file)
            .map_err(refused)?;
        let entry = Entry {
            first: iova.get(),
            len: bytes,
            map: Arc::new(map),
        };
        self.change(|entries| entries.push(entry));
        Ok(())
    }

    fn unmap(&self, iova: Iova, _len: u64) {
        self.change(|entries| entries.retain(|entry| entry.first != iova.get()));
    }
}

/// A device's way into memory: every address is checked against what is mapped now.
///
/// That a buffer is the device's while it is read or written is not checked: it is the driver's
/// promise, as on hardware. One that breaks it makes a race of two plain accesses.
#[derive(Debug)]
pub struct Translator {
    space: Arc<SimSpace>,
    epoch: u64,
    maps: Arc<[Entry]>,
    last: usize,
}

impl Translator {
    /// Reads memory at `iova` into `out`.
    ///
    /// # Errors
    /// Not all of it is mapped.
    #[inline]
    pub fn read(&mut self, iova: Iova, out: &mut [u8]) -> Result<(), IommuFault> {
        let from = self.resolve(iova, out.len())?;
        // SAFETY: `resolve` found the whole range inside one mapping, which the entry keeps;
        // `out` is borrowed for writing. Who else writes to the mapping is the driver, and it
        // does not while the buffer is the device's.
        unsafe { std::ptr::copy_nonoverlapping(from.cast_const(), out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Writes `content` to memory at `iova`.
    ///
    /// # Errors
    /// Not all of it is mapped; nothing is written then.
    #[inline]
    pub fn write(&mut self, iova: Iova, content: &[u8]) -> Result<(), IommuFault> {
        let to = self.resolve(iova, content.len())?;
        // SAFETY: as for `read`, in the other direction; `content` may be what `peek` gave of the
        // same memory, so the two may overlap.
        unsafe { std::ptr::copy(content.as_ptr(), to, content.len()) };
        Ok(())
    }

    /// The bytes of `len` at `iova`, to look at for a moment without copying them.
    ///
    /// # Errors
    /// Not all of it is mapped.
    #[inline]
    pub fn peek(&mut self, iova: Iova, len: usize) -> Result<&[u8], IommuFault> {
        let from = self.resolve(iova, len)?;
        // SAFETY: `resolve` found the range inside one mapping, which `self` keeps; the buffer is
        // the device's, so the driver does not write it while it is looked at.
        Ok(unsafe { std::slice::from_raw_parts(from.cast_const(), len) })
    }

    /// `count` words at `iova`, to keep: a ring. They stay readable after the memory is
    /// unmapped, so a device checks [`Translator::covers`] before it uses them again.
    ///
    /// # Errors
    /// Not all of it is mapped, or `iova` is not on the words' boundary.
    pub fn words<T: DmaWord>(
        &mut self,
        iova: Iova,
        count: usize,
    ) -> Result<SimWords<T>, IommuFault> {
        let len = count.saturating_mul(size_of::<T>());
        let first = self.resolve(iova, len)?;
        if !first.addr().is_multiple_of(align_of::<T>()) {
            return Err(IommuFault { iova, len });
        }
        let words = std::ptr::slice_from_raw_parts(first.cast_const().cast::<T>(), count);
        Ok(SimWords {
            _map: Arc::clone(&self.maps[self.last].map),
            words,
            iova,
            len,
        })
    }

    /// True while all of `len` bytes at `iova` are mapped.
    pub fn covers(&mut self, iova: Iova, len: usize) -> bool {
        self.resolve(iova, len).is_ok()
    }

    #[inline]
    fn resolve(&mut self, iova: Iova, len: usize) -> Result<*mut u8, IommuFault> {
        if self.space.epoch.load(Ordering::Acquire) != self.epoch {
            self.refresh();
        }
        let fault = IommuFault { iova, len };
        let inside = |entry: &Entry| {
            let at = iova.get().checked_sub(entry.first)?;
            (at.checked_add(len as u64)? <= entry.len).then_some(at)
        };
        let hit = self.maps.get(self.last).and_then(inside);
        let at = match hit {
            Some(at) => at,
            None => self.search(inside).ok_or(fault)?,
        };
        let at = usize::try_from(at).map_err(|_| fault)?;
        Ok(self.maps[self.last].map.as_mut_ptr().wrapping_add(at))
    }

    #[cold]
    fn search(&mut self, inside: impl Fn(&Entry) -> Option<u64>) -> Option<u64> {
        let found = self
            .maps
            .iter()
            .enumerate()
            .find_map(|(n, entry)| Some((n, inside(entry)?)));
        let (n, at) = found?;
        self.last = n;
        Some(at)
    }

    #[cold]
    fn refresh(&mut self) {
        let maps = self
            .space
            .maps
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        self.epoch = self.space.epoch.load(Ordering::Acquire);
        self.maps = Arc::clone(&maps);
        self.last = 0;
    }
}

/// Words of a ring as a simulated device sees them.
#[derive(Debug)]
pub struct SimWords<T> {
    _map: Arc<MmapRaw>,
    words: *const [T],
    /// Where they are on the bus.
    pub iova: Iova,
    /// Their length in bytes.
    pub len: usize,
}

// SAFETY: a view of `Sync` words, with a shared owner of the mapping they are in.
unsafe impl<T: DmaWord> Send for SimWords<T> {}
// SAFETY: as above.
unsafe impl<T: DmaWord> Sync for SimWords<T> {}

impl<T: DmaWord> Deref for SimWords<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `words` checked the range and the boundary; the mapping is kept; any content
        // is valid for a `DmaWord` and may change under a shared reference.
        unsafe { &*self.words }
    }
}

#[cfg(test)]
mod test {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn foreign_memory_is_written_through_and_unmapped_by_ranges() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(0x6000).unwrap();
        let space = SimSpace::new();
        space.map_foreign(0x1_0000, 0x2000, &file, 0).unwrap();
        space.map_foreign(0x2_0000, 0x4000, &file, 0x2000).unwrap();
        let beyond = space.map_foreign(0x9_0000, 0x4000, &file, 0x4000);
        assert!(beyond.is_err(), "the file ends before");

        let mut memory = space.translator();
        let at = |iova| Iova::from_device(iova);
        memory.write(at(0x2_3ffe), &[7, 8]).unwrap();
        let mut found = [0; 2];
        file.read_exact_at(&mut found, 0x5ffe).unwrap();
        assert_eq!(found, [7, 8]);
        file.write_all_at(&[5], 0x1fff).unwrap();
        assert_eq!(memory.peek(at(0x1_1fff), 1).unwrap(), [5]);

        assert_eq!(space.unmap_within(0x1_1000, u64::MAX), 1, "the second only");
        assert!(!memory.covers(at(0x2_0000), 1));
        assert!(memory.covers(at(0x1_0000), 0x2000));
        assert_eq!(space.unmap_within(0, u64::MAX), 1);
        assert!(!memory.covers(at(0x1_0000), 1));
    }
}
