//! The memory of a run: regions, their bus addresses, and their mappings.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dma::{Dma, DmaWord};
use crate::iova::{Claim, Iova, IovaRange};
use crate::page::{PageSize, Pages, promised, survey};
use crate::region::{Region, RegionError};
use crate::space::{Addressing, Area, DmaSpace, MapError, PageMap, physical_pages};

/// Why a run's memory could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Too few free hugepages.
    #[error(
        "{missing} more free hugepages of {size} are needed{} ({needed} in all)",
        node.map_or(String::new(), |node| format!(" on NUMA node {node}"))
    )]
    Short {
        /// How many pages the run needs.
        needed: u64,
        /// How many of them are not free.
        missing: u64,
        /// Their size.
        size: PageSize,
        /// The node they should be on, if one was asked for.
        node: Option<u32>,
        /// How many pages to reserve in all, for the cure.
        reserve: u64,
    },
    /// The region could not be made, though pages seemed free.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A device cannot reach it.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The memory is used up: the run asked for less than it now needs.
    #[error("{bytes} bytes do not fit in what is left of the run's memory ({left} bytes)")]
    Full {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes left.
        left: usize,
    },
}

impl MemoryError {
    /// A command that would let the call succeed, where one is known.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Short {
                size,
                node,
                reserve,
                ..
            } => {
                let name = size.sysfs_name()?;
                let base = node.map_or("/sys/kernel/mm".to_owned(), |node| {
                    format!("/sys/devices/system/node/node{node}")
                });
                Some(format!(
                    "rgen hugepages --reserve {reserve} --size {}, or: \
                     echo {reserve} > {base}/hugepages/{name}/nr_hugepages",
                    if *size == PageSize::Huge1G {
                        "1G"
                    } else {
                        "2M"
                    },
                ))
            }
            Self::Map(map) => map.remedy(),
            Self::Region(_) | Self::Full { .. } => None,
        }
    }
}

/// What a run's memory should be.
#[derive(Clone)]
pub struct MemoryRequest {
    /// Bytes in all.
    pub bytes: usize,
    /// What to make it of.
    pub pages: Pages,
    /// NUMA node to be on, where it matters.
    pub node: Option<u32>,
    /// Spaces that must be able to reach it.
    pub spaces: Vec<Arc<dyn DmaSpace>>,
}

/// What the kernel says of its memory; tests say it themselves.
struct Tables<'a> {
    /// `/sys`.
    sys: &'a Path,
    /// Where pages are.
    page_map: &'a PageMap<'a>,
    /// It moves small pages about as it likes.
    small_pages_move: bool,
}

/// Memory that every device of the run can reach; a cheap handle on it.
///
/// It stays mapped until the last ring, pool and frame of it is gone.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

pub(crate) struct Inner {
    // Order matters: mappings go before the region and before the addresses are free again.
    mappings: Vec<Mapping>,
    region: Region,
    layout: Layout,
    used: Mutex<usize>,
}

/// How offsets in the region become bus addresses.
enum Layout {
    /// One stretch from here.
    Flat(Claim),
    /// The physical address of each page.
    Physical(Vec<u64>),
}

struct Mapping {
    space: Arc<dyn DmaSpace>,
    iova: Iova,
    len: u64,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.space.unmap(self.iova, self.len);
    }
}

impl Memory {
    /// Gets memory as asked, and maps it in every space.
    ///
    /// # Errors
    /// Pages are missing (the error says how many of which size, and how to reserve them), or a
    /// space cannot map them.
    pub fn new(request: &MemoryRequest) -> Result<Self, MemoryError> {
        let tables = Tables {
            sys: Path::new("/sys"),
            page_map: &crate::space::page_entry,
            small_pages_move: true,
        };
        Self::build(request, &tables)
    }

    fn build(request: &MemoryRequest, tables: &Tables<'_>) -> Result<Self, MemoryError> {
        let region = get_region(request, tables.sys)?;
        let spaces = distinct(&request.spaces);
        let layout = Layout::plan(&region, &spaces, tables)?;
        // Mappings that were made go again when one of the next is refused.
        let mut mappings = Vec::new();
        let areas = layout.areas(&region);
        for space in spaces {
            if areas.len() > space.area_limit() {
                return Err(MapError::Scattered { areas: areas.len() }.into());
            }
            for area in &areas {
                space.map(area)?;
                let mapping = Mapping {
                    space: Arc::clone(&space),
                    iova: area.iova,
                    len: area.len,
                };
                mappings.push(mapping);
            }
        }
        Ok(Self(Arc::new(Inner {
            mappings,
            region,
            layout,
            used: Mutex::new(0),
        })))
    }

    /// Bytes not carved yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.0.region.len() - *self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.region.len()
    }

    /// Size of the pages it is made of.
    #[must_use]
    pub fn page(&self) -> PageSize {
        self.0.region.page()
    }

    /// How many mappings it has, over all spaces.
    #[must_use]
    pub fn mappings(&self) -> usize {
        self.0.mappings.len()
    }

    /// Zeroed words for a ring: `count` of `T` on an `align`-byte boundary, contiguous on the bus.
    ///
    /// # Errors
    /// The run's memory is used up.
    pub fn carve<T: DmaWord>(&self, count: usize, align: usize) -> Result<Dma<T>, MemoryError> {
        let bytes = count.saturating_mul(size_of::<T>());
        let offset = self.take(bytes, align.max(align_of::<T>()))?;
        Ok(Dma::new(Arc::clone(&self.0), offset, count))
    }

    /// Takes `bytes` off the region. On the bus they are one stretch: physical pages are joined
    /// only where they are neighbours.
    pub(crate) fn take(&self, bytes: usize, align: usize) -> Result<usize, MemoryError> {
        let offsets = self.take_any(1, bytes, align, false)?;
        Ok(offsets[0])
    }

    /// Takes `count` stretches of `bytes` each, or none at all. None of them lies across two
    /// hugepages: a device that maps what it reads (QEMU's `net_tx_pkt`, under e1000e, igb and
    /// vmxnet3) takes a buffer for lost that is not one stretch of the guest's own memory, and
    /// neighbours on the bus need not be neighbours there.
    pub(crate) fn take_many(
        &self,
        count: usize,
        bytes: usize,
        align: usize,
    ) -> Result<Vec<usize>, MemoryError> {
        self.take_any(count, bytes, align, true)
    }

    fn take_any(
        &self,
        count: usize,
        bytes: usize,
        align: usize,
        whole: bool,
    ) -> Result<Vec<usize>, MemoryError> {
        let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        let full = || MemoryError::Full {
            bytes: bytes.saturating_mul(count),
            left: self.0.region.len() - *used,
        };
        // Without this, a count beyond all memory would be allocated before it is refused.
        if bytes.saturating_mul(count) > self.0.region.len() {
            return Err(full());
        }
        let mut offsets = Vec::with_capacity(count);
        let mut end = *used;
        for _ in 0..count {
            let offset = self.0.place(end, bytes, align, whole).ok_or_else(full)?;
            offsets.push(offset);
            end = offset + bytes;
        }
        *used = end;
        Ok(offsets)
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("bytes", &self.bytes())
            .field("left", &self.left())
            .finish()
    }
}

impl Inner {
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn iova(&self, offset: usize) -> Iova {
        self.layout.iova(offset, self.region.page())
    }

    /// The first place from `from` on, on an `align` boundary, where `bytes` lie in one stretch.
    fn place(&self, from: usize, bytes: usize, align: usize, whole: bool) -> Option<usize> {
        let page = self.region.page();
        let mut offset = from.checked_next_multiple_of(align)?;
        loop {
            let end = offset.checked_add(bytes)?;
            if end > self.region.len() {
                return None;
            }
            let across = whole.then(|| next_page(offset..end, page)).flatten();
            match across.or_else(|| self.layout.seam(offset..end, page)) {
                Some(next) => offset = next.checked_next_multiple_of(align)?,
                None => return Some(offset),
            }
        }
    }
}

/// Where the next hugepage begins, for what would lie across two of them and fits into one.
fn next_page(range: Range<usize>, page: PageSize) -> Option<usize> {
    let size = page.bytes();
    let next = range.start / size * size + size;
    let is_across = range.end > next && range.len() <= size;
    (page != PageSize::Base4K && is_across).then_some(next)
}

impl Layout {
    fn plan(
        region: &Region,
        spaces: &[Arc<dyn DmaSpace>],
        tables: &Tables<'_>,
    ) -> Result<Self, MapError> {
        let (physical, translated): (Vec<_>, Vec<_>) = spaces
            .iter()
            .partition(|space| space.addressing() == Addressing::Physical);
        let windows: Vec<Vec<IovaRange>> = translated.iter().map(|space| space.windows()).collect();
        if !physical.is_empty() {
            if tables.small_pages_move && region.page() == PageSize::Base4K {
                return Err(MapError::Movable);
            }
            let layout = Self::Physical(physical_pages(region, tables.page_map)?);
            let reachable = layout.areas(region).iter().all(|area| {
                let last = area.iova.get().saturating_add(area.len - 1);
                windows.iter().all(|list| {
                    list.iter()
                        .any(|window| window.holds(area.iova.get(), last))
                })
            });
            let bytes = region.len() as u64;
            return reachable
                .then_some(layout)
                .ok_or(MapError::NoAddresses { bytes });
        }
        let len = region.len() as u64;
        // On a boundary of the largest page, so that the IOMMU can use large entries too.
        let align = PageSize::Huge1G.bytes() as u64;
        let claim = Claim::find(&windows, len, align)
            .or_else(|| Claim::find(&windows, len, region.page().bytes() as u64))
            .ok_or(MapError::NoAddresses { bytes: len })?;
        Ok(Self::Flat(claim))
    }

    fn iova(&self, offset: usize, page: PageSize) -> Iova {
        match self {
            Self::Flat(claim) => Iova::new(claim.first() + offset as u64),
            Self::Physical(pages) => {
                let inside = (offset % page.bytes()) as u64;
                Iova::new(pages[offset / page.bytes()] + inside)
            }
        }
    }

    /// Where the first page begins that does not follow its neighbour on the bus, if the range
    /// crosses one.
    fn seam(&self, range: Range<usize>, page: PageSize) -> Option<usize> {
        let Self::Physical(pages) = self else {
            return None;
        };
        let size = page.bytes();
        let last = range.end.saturating_sub(1) / size;
        (range.start / size + 1..=last)
            .find(|&n| n < pages.len() && pages[n] != pages[n - 1] + size as u64)
            .map(|n| n * size)
    }

    fn areas<'a>(&self, region: &'a Region) -> Vec<Area<'a>> {
        let area = |iova: u64, offset: u64, len: u64| Area {
            iova: Iova::new(iova),
            address: region.address() + offset,
            len,
            file: region.file(),
            offset,
        };
        match self {
            Self::Flat(claim) => vec![area(claim.first(), 0, region.len() as u64)],
            Self::Physical(pages) => {
                let size = region.page().bytes() as u64;
                let mut areas: Vec<Area<'a>> = Vec::new();
                for (offset, &page) in (0..).step_by(region.page().bytes()).zip(pages) {
                    match areas.last_mut() {
                        // Neighbours on the bus need one entry together.
                        Some(last) if last.iova.get() + last.len == page => last.len += size,
                        _ => areas.push(area(page, offset, size)),
                    }
                }
                areas
            }
        }
    }
}

/// The spaces, each once: ports of one container share theirs, and the kernel refuses to map
/// memory there twice.
fn distinct(spaces: &[Arc<dyn DmaSpace>]) -> Vec<Arc<dyn DmaSpace>> {
    let mut found: Vec<Arc<dyn DmaSpace>> = Vec::new();
    for space in spaces {
        // Addresses of the objects alone: the same type may have two tables of methods.
        let same =
            |other: &Arc<dyn DmaSpace>| std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(space));
        if !found.iter().any(same) {
            found.push(Arc::clone(space));
        }
    }
    found
}

/// A region of the best page size that the request allows.
fn get_region(request: &MemoryRequest, sys: &Path) -> Result<Region, MemoryError> {
    let sizes: &[PageSize] = match request.pages {
        Pages::Only(PageSize::Base4K) => &[PageSize::Base4K],
        Pages::Only(PageSize::Huge2M) => &[PageSize::Huge2M],
        Pages::Only(PageSize::Huge1G) => &[PageSize::Huge1G],
        Pages::Huge => &[PageSize::Huge1G, PageSize::Huge2M],
        Pages::HugeOrBase => &[PageSize::Huge1G, PageSize::Huge2M, PageSize::Base4K],
    };
    let mut failure = None;
    for &size in sizes {
        match Region::new(request.bytes, size, request.node) {
            Ok(region) => return Ok(region),
            Err(error) => failure = Some((size, error)),
        }
    }
    let (size, error) = failure.expect("every list of sizes has at least one");
    Err(shortage(request, size, sys).unwrap_or(MemoryError::Region(error)))
}

/// The shortage in numbers, where the kernel's own counts show one.
fn shortage(request: &MemoryRequest, size: PageSize, sys: &Path) -> Option<MemoryError> {
    size.sysfs_name()?;
    let needed = request.bytes.max(1).div_ceil(size.bytes()) as u64;
    let here = survey(sys)
        .into_iter()
        .filter(|count| count.size == size)
        .filter(|count| request.node.is_none_or(|node| node == count.node));
    let (free, total) = here.fold((0, 0), |(f, t), count| (f + count.free, t + count.total));
    // Pages that another process has mapped and not touched yet still count as free.
    let promised = promised(sys, size);
    let missing = needed.saturating_sub(u64::saturating_sub(free, promised));
    (missing > 0).then_some(MemoryError::Short {
        needed,
        missing,
        size,
        node: request.node,
        reserve: total + missing,
    })
}

#[cfg(test)]
mod test;
