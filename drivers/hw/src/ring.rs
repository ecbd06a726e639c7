//! Where one is in a ring, and the order in which a device sees what was written.
//!
//! Driver and device own the slots of a ring in turn. Each side keeps a cursor: the slot that
//! comes next, and how often it went round. Rings of a power of two of slots use
//! [`MaskedCursor`], which is one counter; others (packed virtqueues may have any size) use
//! [`Cursor`], which also knows the wrap counter that such rings are marked with.
//!
//! ## Order
//! A slot is handed over by one store that the other side watches for: a descriptor's own flag
//! word, an index in memory, or a register. Everything that belongs to the slot must be seen
//! before it. Between cores (a model, a vhost-user peer) `Release` on that store and `Acquire`
//! on the load that saw it are enough, and the words of a [`Dma`](hugemem::Dma) slice are
//! atomics, so that is how drivers write it. A device behind PCIe is not a core, and there the
//! machine matters:
//!
//! - before a register write that hands slots over: [`publish`];
//! - between reading the word that says "done" and reading what it is about: [`observe`];
//! - between writing a word and reading one that the other side writes (are notifications
//!   wanted?): [`settle`];
//! - before a register write to a write-combined window: [`publish_combined`].
//!
//! On x86 the first two cost nothing: stores leave in order, also towards uncached registers,
//! and loads are not passed by later loads; only the compiler has to be held. On aarch64 they are
//! `dmb oshst` and `dmb oshld`, as `Release` and `Acquire` order against other cores alone.
#![expect(
    unsafe_code,
    reason = "barriers that only the machine's own instructions give"
)]

use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Every store before it is seen by the device before any register write after it.
#[inline]
pub fn publish() {
    compiler_fence(Ordering::Release);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier; it reads and writes nothing.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fence(Ordering::SeqCst);
}

/// Every load after it is made after those before it: the word that said "done" was read before
/// what it is about.
#[inline]
pub fn observe() {
    compiler_fence(Ordering::Acquire);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as for `publish`.
    unsafe {
        std::arch::asm!("dmb oshld", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fence(Ordering::SeqCst);
}

/// Every store before it is seen before any load after it is made. The dear one (some 20 ns):
/// once a burst at most, and only where a missed notification would stall the ring.
#[inline]
pub fn settle() {
    fence(Ordering::SeqCst);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as for `publish`.
    unsafe {
        std::arch::asm!("dmb osh", options(nostack, preserves_flags));
    }
}

/// As [`publish`], for a write-combined window, whose writes may overtake others.
#[inline]
pub fn publish_combined() {
    publish();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction; it reads and writes nothing.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
}

/// A place in a ring of a power of two of slots: a counter that runs freely and is masked when
/// used, so that full and empty differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskedCursor {
    count: u32,
    mask: u32,
}

impl MaskedCursor {
    /// The first slot of a ring of `slots`.
    ///
    /// # Panics
    /// `slots` is no power of two, or more than 2³¹.
    #[must_use]
    pub const fn new(slots: usize) -> Self {
        assert!(
            slots.is_power_of_two() && slots <= 1 << 31,
            "a masked ring has a power of two of slots, 2^31 at most"
        );
        #[expect(clippy::cast_possible_truncation, reason = "below 2^31, just checked")]
        let mask = (slots - 1) as u32;
        Self { count: 0, mask }
    }

    /// Slots in the ring.
    #[must_use]
    #[inline]
    pub const fn slots(self) -> usize {
        self.mask as usize + 1
    }

    /// The slot: always inside the ring.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        (self.count & self.mask) as usize
    }

    /// The counter, unmasked: what split virtqueues publish (their low 16 bits).
    #[must_use]
    #[inline]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// How often it went round. It wraps when the counter does.
    #[must_use]
    #[inline]
    pub const fn lap(self) -> u32 {
        self.count >> self.mask.count_ones()
    }

    /// Goes on by `slots`.
    #[inline]
    pub const fn advance(&mut self, slots: u32) {
        self.count = self.count.wrapping_add(slots);
    }

    /// The cursor `slots` further on.
    #[must_use]
    #[inline]
    pub const fn ahead(self, slots: u32) -> Self {
        Self {
            count: self.count.wrapping_add(slots),
            mask: self.mask,
        }
    }

    /// How far this cursor is ahead of `other`, in slots: of two cursors of one ring, what lies
    /// between them.
    #[must_use]
    #[inline]
    pub const fn since(self, other: Self) -> u32 {
        self.count.wrapping_sub(other.count)
    }

    /// The slots from here to the end of the ring, for work on stretches that do not wrap.
    #[must_use]
    #[inline]
    pub const fn to_end(self) -> usize {
        self.slots() - self.index()
    }
}

/// A place in a ring of any number of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    index: u32,
    slots: u32,
    lap: u32,
}

impl Cursor {
    /// The first slot of a ring of `slots`.
    ///
    /// # Panics
    /// There are none, or more than 2³¹.
    #[must_use]
    pub const fn new(slots: usize) -> Self {
        assert!(slots > 0 && slots <= 1 << 31, "a ring has 1 to 2^31 slots");
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most 2^31, just checked"
        )]
        let slots = slots as u32;
        Self {
            index: 0,
            slots,
            lap: 0,
        }
    }

    /// Slots in the ring.
    #[must_use]
    #[inline]
    pub const fn slots(self) -> usize {
        self.slots as usize
    }

    /// The slot: always inside the ring.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// How often it went round. It wraps after 2³² laps.
    #[must_use]
    #[inline]
    pub const fn lap(self) -> u32 {
        self.lap
    }

    /// The wrap counter of a packed virtqueue (virtio 1.2 §2.8.1): true on the first lap, and
    /// the other way round on each next.
    #[must_use]
    #[inline]
    pub const fn wrap(self) -> bool {
        self.lap & 1 == 0
    }

    /// Goes on by `slots`, once round at most.
    ///
    /// # Panics
    /// In a debug build, `slots` is more than the ring has.
    #[inline]
    pub const fn advance(&mut self, slots: u32) {
        debug_assert!(slots <= self.slots, "a cursor moves once round at most");
        // No overflow: both are at most 2^31, and `index` is less.
        let index = self.index + slots;
        if index >= self.slots {
            self.index = index - self.slots;
            self.lap = self.lap.wrapping_add(1);
        } else {
            self.index = index;
        }
    }

    /// The cursor `slots` further on, once round at most.
    #[must_use]
    #[inline]
    pub const fn ahead(mut self, slots: u32) -> Self {
        self.advance(slots);
        self
    }

    /// How far this cursor is ahead of `other`, in slots; the two are of one ring and less than
    /// 2³² slots apart.
    #[must_use]
    #[inline]
    pub const fn since(self, other: Self) -> u32 {
        let laps = self.lap.wrapping_sub(other.lap);
        laps.wrapping_mul(self.slots)
            .wrapping_add(self.index)
            .wrapping_sub(other.index)
    }

    /// The slots from here to the end of the ring, for work on stretches that do not wrap.
    #[must_use]
    #[inline]
    pub const fn to_end(self) -> usize {
        (self.slots - self.index) as usize
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_masked_cursor_goes_round_as_division_says(
            bits in 0u32..12,
            start in any::<u32>(),
            steps in prop::collection::vec(0u32..5000, 1..50),
        ) {
            let slots = 1u64 << bits;
            let mut cursor = MaskedCursor::new(1 << bits).ahead(start);
            let first = cursor;
            let mut count = u64::from(start);
            for step in steps {
                cursor.advance(step);
                count += u64::from(step);
                let wrapped = count & u64::from(u32::MAX);
                prop_assert_eq!(cursor.index() as u64, wrapped % slots);
                prop_assert_eq!(u64::from(cursor.lap()), wrapped / slots);
                prop_assert_eq!(u64::from(cursor.since(first)), count - u64::from(start));
                prop_assert_eq!(cursor.to_end() + cursor.index(), cursor.slots());
            }
        }

        #[test]
        fn a_cursor_goes_round_as_division_says(
            slots in 1u32..700,
            steps in prop::collection::vec(0.0f64..=1.0, 1..200),
        ) {
            let mut cursor = Cursor::new(slots as usize);
            let mut trailing = cursor;
            let mut count = 0u64;
            for step in steps {
                #[expect(clippy::cast_possible_truncation, reason = "a share of the ring")]
                #[expect(clippy::cast_sign_loss, reason = "a share of the ring")]
                let step = (f64::from(slots) * step) as u32;
                trailing.advance(cursor.since(trailing));
                prop_assert_eq!(trailing, cursor);
                cursor.advance(step);
                count += u64::from(step);
                prop_assert_eq!(cursor.index() as u64, count % u64::from(slots));
                prop_assert_eq!(u64::from(cursor.lap()), count / u64::from(slots));
                prop_assert_eq!(cursor.wrap(), (count / u64::from(slots)).is_multiple_of(2));
                prop_assert_eq!(cursor.since(trailing), step);
                prop_assert_eq!(cursor.to_end() + cursor.index(), cursor.slots());
            }
        }
    }

    #[test]
    fn slot_by_slot_a_cursor_visits_each_once_a_lap_and_turns_its_wrap() {
        let mut cursor = Cursor::new(3);
        let mut seen = Vec::new();
        for _ in 0..9 {
            seen.push((cursor.index(), cursor.wrap()));
            cursor.advance(1);
        }
        let lap = |wrap| [(0, wrap), (1, wrap), (2, wrap)];
        assert_eq!(seen, [lap(true), lap(false), lap(true)].concat());
    }

    #[test]
    fn a_full_ring_is_not_an_empty_one() {
        let tail = MaskedCursor::new(8);
        assert_eq!(tail.ahead(8).since(tail), 8);
        assert_eq!(tail.ahead(8).index(), tail.index());
        let tail = Cursor::new(5).ahead(3);
        assert_eq!(tail.ahead(5).since(tail), 5);
    }

    #[test]
    #[should_panic(expected = "power of two")]
    fn a_masked_ring_of_another_size_is_refused() {
        let _ = MaskedCursor::new(12);
    }

    #[test]
    fn what_is_published_is_observed_with_all_before_it() {
        use std::sync::atomic::AtomicU64;
        let (data, flag) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for n in 1..=10_000 {
                    data.store(n, Ordering::Relaxed);
                    publish();
                    flag.store(n, Ordering::Release);
                }
            });
            loop {
                let n = flag.load(Ordering::Acquire);
                observe();
                assert!(data.load(Ordering::Relaxed) >= n);
                if n == 10_000 {
                    break;
                }
                std::thread::yield_now();
            }
        });
        settle();
        publish_combined();
    }
}
