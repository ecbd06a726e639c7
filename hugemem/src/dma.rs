//! Words that a device reads and writes behind our back.
#![expect(unsafe_code, reason = "sees mapped memory as atomic words")]

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use crate::iova::Iova;
use crate::memory::{Inner, Memory};

/// A word, or a group of words, that may change at any time.
///
/// # Safety
/// The type is made of atomics alone, has no padding, and every bit pattern is one of its values.
pub unsafe trait DmaWord: Sync + 'static {}

// SAFETY: atomics take any bit pattern and have no padding.
unsafe impl DmaWord for AtomicU8 {}
// SAFETY: as above.
unsafe impl DmaWord for AtomicU16 {}
// SAFETY: as above.
unsafe impl DmaWord for AtomicU32 {}
// SAFETY: as above.
unsafe impl DmaWord for AtomicU64 {}
// SAFETY: an array adds no padding to its elements.
unsafe impl<T: DmaWord, const N: usize> DmaWord for [T; N] {}

/// A slice of atomic words in memory that devices can reach; keeps that memory mapped.
///
/// Cloning it makes a second view of the same words.
pub struct Dma<T> {
    memory: Arc<Inner>,
    words: *const [T],
    offset: usize,
}

// SAFETY: a view of `Sync` words and a shared owner of the memory they are in.
unsafe impl<T: DmaWord> Send for Dma<T> {}
// SAFETY: as above.
unsafe impl<T: DmaWord> Sync for Dma<T> {}

impl<T: DmaWord> Dma<T> {
    pub(crate) fn new(memory: Arc<Inner>, offset: usize, count: usize) -> Self {
        let region = memory.region();
        let bytes = count
            .checked_mul(size_of::<T>())
            .expect("a ring is smaller than memory");
        assert!(
            offset
                .checked_add(bytes)
                .is_some_and(|end| end <= region.len())
        );
        let first = region.base().as_ptr().wrapping_add(offset);
        assert!(
            first.addr().is_multiple_of(align_of::<T>()),
            "words lie on their boundary"
        );
        let words = std::ptr::slice_from_raw_parts(first.cast_const().cast::<T>(), count);
        Self {
            memory,
            words,
            offset,
        }
    }

    /// The bus address of the first word.
    #[must_use]
    pub fn iova(&self) -> Iova {
        self.memory.iova(self.offset)
    }

    /// Its address in this process, which vhost-user messages name rings by.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.region().address() + self.offset as u64
    }

    /// True if the words were carved out of `memory`.
    #[must_use]
    pub fn is_in(&self, memory: &Memory) -> bool {
        Arc::ptr_eq(&self.memory, memory.inner())
    }

    /// Some of the words, as a view of their own.
    ///
    /// # Panics
    /// The range is not inside the slice.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "a part lies inside"
        );
        let offset = self.offset + range.start * size_of::<T>();
        Self::new(Arc::clone(&self.memory), offset, range.end - range.start)
    }

    /// The same bytes as other words, from byte `at` on: for parts that each have one width.
    ///
    /// Bytes that threads of this process access at the same time they access in one width:
    /// atomics of different sizes that overlap are no atomics to each other. A ring's one owner
    /// keeps that; the device has a mapping of its own.
    ///
    /// # Panics
    /// They do not lie inside these ones, or not on their boundary.
    #[must_use]
    pub fn view<U: DmaWord>(&self, at: usize, count: usize) -> Dma<U> {
        let end = count
            .checked_mul(size_of::<U>())
            .and_then(|bytes| bytes.checked_add(at));
        let inside = end.is_some_and(|end| end <= self.len() * size_of::<T>());
        assert!(inside, "a view lies inside");
        Dma::new(Arc::clone(&self.memory), self.offset + at, count)
    }
}

impl<T: DmaWord> Clone for Dma<T> {
    fn clone(&self) -> Self {
        Self {
            memory: Arc::clone(&self.memory),
            words: self.words,
            offset: self.offset,
        }
    }
}

impl<T: DmaWord> Deref for Dma<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` checked that the words lie inside the region, on their boundary; the
        // region lives as long as `memory`; `DmaWord` says that any content is valid and that
        // it may change under a shared reference.
        unsafe { &*self.words }
    }
}

impl<T: DmaWord> fmt::Debug for Dma<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dma({} words at {})", self.len(), self.iova())
    }
}
