//! Pools: where frames come from and go home to.
#![expect(unsafe_code, reason = "makes the one handle on each buffer")]

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crossbeam::queue::ArrayQueue;

use crate::burst::Burst;
use crate::frame::{Frame, HEADROOM};
use crate::memory::{Inner, Memory, MemoryError};
use crate::page::PageSize;

/// A line of the cache.
const LINE: usize = 64;
/// Most bytes that one frame can hold: lengths are 16 bits wide.
const LARGEST: usize = u16::MAX as usize;
/// Most pools in a process.
const POOLS: usize = u16::MAX as usize;

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The run's memory does not hold it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No frame is that large.
    #[error("frames of {capacity} bytes: at most {LARGEST} are possible")]
    TooLarge {
        /// Bytes asked for.
        capacity: usize,
    },
    /// Every pool number is in use.
    #[error("more than {POOLS} pools in one process")]
    TooMany,
}

/// Frames that were not home when their pool was closed.
#[derive(Debug, thiserror::Error)]
#[error("{frames} of {total} frames did not come back")]
pub struct Leaked {
    /// How many are out.
    pub frames: usize,
    /// How many the pool has.
    pub total: usize,
}

/// Frames of one size, all in one run's memory. A cheap handle; any thread may take and give.
///
/// The buffers lie an odd number of cache lines apart, so that a ring of them spreads over all
/// sets of a cache instead of two.
pub struct Pool(Arc<Shared>);

struct Shared {
    /// How many [`Pool`]s there are of it. Its last one goes under the table's lock, so that
    /// either that one or the last frame to come home sees that the pool is over.
    handles: AtomicUsize,
    id: u16,
    total: usize,
    capacity: usize,
    home: ArrayQueue<Frame>,
    memory: Arc<Inner>,
}

/// Pools by number, so that a frame which is dropped anywhere finds its way home. A pool whose
/// handles are gone stays here until its last frame is back: no frame ever outlives its memory.
static POOL_TABLE: RwLock<Vec<Option<Arc<Shared>>>> = RwLock::new(Vec::new());

impl Pool {
    /// Bytes of memory that `frames` frames of `capacity` bytes take at most: at the end of each
    /// hugepage, less than a frame stays free.
    #[must_use]
    pub const fn footprint(frames: usize, capacity: usize) -> usize {
        let stride = Self::stride(capacity);
        let a_page = PageSize::Huge2M.bytes() / stride;
        let pages = match frames.checked_div(a_page) {
            Some(full) => full + 1,
            None => 0,
        };
        (frames + pages) * stride
    }

    /// Bytes from one buffer to the next: an odd number of lines.
    const fn stride(capacity: usize) -> usize {
        let lines = (HEADROOM + capacity).div_ceil(LINE);
        (lines | 1) * LINE
    }

    /// Makes `frames` frames that hold `capacity` bytes each (without FCS), all zero.
    ///
    /// # Errors
    /// The memory is used up, or the frames would be too large.
    pub fn new(memory: &Memory, frames: usize, capacity: usize) -> Result<Self, PoolError> {
        let held = u16::try_from(capacity).map_err(|_| PoolError::TooLarge { capacity })?;
        let stride = Self::stride(capacity);
        let offsets = memory.take_many(frames, stride, LINE)?;
        let home = ArrayQueue::new(frames.max(1));
        let mut table = POOL_TABLE.write().unwrap_or_else(PoisonError::into_inner);
        let id = free_number(&mut table)?;
        for offset in offsets {
            let first = offset + HEADROOM;
            let inner = memory.inner();
            // SAFETY: `take_many` found `first` inside the region.
            let address = unsafe { inner.region().base().add(first) };
            // SAFETY: `take_many` gave the bytes from `offset` on to this call alone; the table keeps
            // the pool, and so the region, until the frame is home.
            let frame = unsafe { Frame::new(address, inner.iova(first), held, id) };
            assert!(
                home.push(frame).is_ok(),
                "a pool has room for all its frames"
            );
        }
        let memory = Arc::clone(memory.inner());
        let shared = Arc::new(Shared {
            handles: AtomicUsize::new(1),
            id,
            total: frames,
            capacity,
            home,
            memory,
        });
        table[usize::from(id)] = Some(Arc::clone(&shared));
        Ok(Self(shared))
    }

    /// Takes a frame, of length 0 and with the bytes it last held.
    #[must_use]
    pub fn take(&self) -> Option<Frame> {
        self.0.home.pop()
    }

    /// Takes up to `count` frames into `out`, as many as it has room for; how many it took.
    pub fn take_burst(&self, out: &mut Burst, count: usize) -> usize {
        let count = count.min(out.room());
        for taken in 0..count {
            let Some(frame) = self.take() else {
                return taken;
            };
            if let Err(frame) = out.push(frame) {
                self.give(frame);
                return taken;
            }
        }
        count
    }

    /// Gives a frame back: what dropping it does, without looking for the pool.
    ///
    /// # Panics
    /// The frame is another pool's.
    pub fn give(&self, frame: Frame) {
        assert_eq!(frame.pool(), self.0.id, "a frame goes home to its own pool");
        self.0.keep(frame);
    }

    /// Gives every frame of `burst` back.
    ///
    /// # Panics
    /// One is another pool's.
    pub fn give_burst(&self, burst: &mut Burst) {
        while let Some(frame) = burst.pop() {
            self.give(frame);
        }
    }

    /// Frames in the pool, home or not.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.total
    }

    /// Frames that are home.
    #[must_use]
    pub fn free(&self) -> usize {
        self.0.home.len()
    }

    /// Bytes that each frame holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Ends the pool, and says if frames of it are still out: for the end of a run, when every
    /// queue is stopped.
    ///
    /// # Errors
    /// Some are. Their memory stays until they come home.
    pub fn close(self) -> Result<(), Leaked> {
        let (total, free) = (self.total(), self.free());
        if free < total {
            Err(Leaked {
                frames: total - free,
                total,
            })
        } else {
            Ok(())
        }
    }
}

impl Shared {
    fn keep(&self, frame: Frame) {
        // SAFETY: the line after it forgets this handle.
        let reborn = unsafe { frame.reborn() };
        mem::forget(frame);
        if let Err(frame) = self.home.push(reborn) {
            mem::forget(frame);
            unreachable!("a pool never holds more frames than it has");
        }
    }

    /// True once nobody can take a frame any more and none is out.
    fn is_over(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0 && self.home.len() == self.total
    }

    /// Lets the frames go for good: their memory is about to be freed.
    fn retire(&self) {
        while let Some(frame) = self.home.pop() {
            mem::forget(frame);
        }
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        self.0.handles.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Pool {
    /// The last handle takes the pool off the table, unless frames are still out.
    fn drop(&mut self) {
        let mut table = POOL_TABLE.write().unwrap_or_else(PoisonError::into_inner);
        self.0.handles.fetch_sub(1, Ordering::AcqRel);
        if self.0.is_over() {
            let over = table[usize::from(self.0.id)].take();
            // Freeing memory unmaps it from devices; nobody else has to wait for that.
            drop(table);
            over.iter().for_each(|shared| shared.retire());
        }
    }
}

/// Takes a dropped frame home. Slow, as the hot path gives frames back itself.
///
/// # Safety
/// The frame is not used any more.
#[cold]
pub(crate) unsafe fn bring_home(frame: &mut Frame) {
    let id = usize::from(frame.pool());
    let table = POOL_TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let Some(shared) = table.get(id).and_then(Option::as_ref) else {
        return;
    };
    // SAFETY: the caller says that this handle is not used any more.
    let reborn = unsafe { frame.reborn() };
    shared.keep(reborn);
    // This may have been the frame that the pool waited for. Two threads may both think so, and
    // the number may even be another pool's by then, so the next lock asks again.
    let over = shared.is_over();
    drop(table);
    if over {
        let mut table = POOL_TABLE.write().unwrap_or_else(PoisonError::into_inner);
        let over = table[id].take_if(|shared| shared.is_over());
        drop(table);
        over.iter().for_each(|shared| shared.retire());
    }
}

/// A pool number nobody uses, with a place in the table.
fn free_number(table: &mut Vec<Option<Arc<Shared>>>) -> Result<u16, PoolError> {
    let index = table
        .iter()
        .position(Option::is_none)
        .unwrap_or(table.len());
    let id = u16::try_from(index).map_err(|_| PoolError::TooMany)?;
    if index == table.len() {
        table.push(None);
    }
    Ok(id)
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, total, size) = (self.free(), self.total(), self.capacity());
        let page = self.0.memory.region().page();
        write!(
            f,
            "Pool({free} of {total} frames of {size} bytes on {page} pages)"
        )
    }
}
