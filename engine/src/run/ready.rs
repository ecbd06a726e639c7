//! Whose frames are where: those that wait to be posted, and those that were.

use hugemem::BURST;

/// The lane and the size, with FCS, of each frame that is ready, in the order of the burst. Kept
/// only where a queue has several lanes.
pub(super) struct Owners {
    entries: [(u32, u32); BURST],
    len: usize,
}

impl Owners {
    pub(super) const fn new() -> Self {
        Self {
            entries: [(0, 0); BURST],
            len: 0,
        }
    }

    /// Notes one more frame at the end.
    #[inline]
    pub(super) fn push(&mut self, lane: u32, size: u32) {
        debug_assert!(self.len < BURST, "a burst holds no more");
        if let Some(entry) = self.entries.get_mut(self.len) {
            *entry = (lane, size);
            self.len += 1;
        }
    }

    /// The lane of the frame at `index`: the first, where nothing is noted.
    #[inline]
    pub(super) fn lane(&self, index: usize) -> usize {
        self.entries[..self.len]
            .get(index)
            .map_or(0, |entry| entry.0 as usize)
    }

    /// The size of the frame at `index`.
    #[inline]
    pub(super) fn size(&self, index: usize) -> u64 {
        self.entries[..self.len]
            .get(index)
            .map_or(0, |entry| entry.1.into())
    }

    /// Forgets the first `count` frames.
    #[inline]
    pub(super) fn remove(&mut self, count: usize) {
        let count = count.min(self.len);
        if count < self.len {
            self.entries.copy_within(count..self.len, 0);
        }
        self.len -= count;
    }
}

/// Frames of the resident set that wait to be posted together, by number.
pub(super) struct Picked {
    numbers: [u32; BURST],
    owners: Owners,
}

impl Picked {
    pub(super) const fn new() -> Self {
        Self {
            numbers: [0; BURST],
            owners: Owners::new(),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.owners.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.owners.len == 0
    }

    /// Adds frame `number` of the set, which is `lane`'s and `size` bytes long with FCS.
    #[inline]
    pub(super) fn push(&mut self, number: u32, lane: u32, size: u32) {
        if let Some(entry) = self.numbers.get_mut(self.owners.len) {
            *entry = number;
            self.owners.push(lane, size);
        }
    }

    #[inline]
    pub(super) fn numbers(&self) -> &[u32] {
        &self.numbers[..self.owners.len]
    }

    #[inline]
    pub(super) fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Forgets the first `count` frames.
    #[inline]
    pub(super) fn remove(&mut self, count: usize) {
        self.numbers
            .copy_within(count.min(self.owners.len)..self.owners.len, 0);
        self.owners.remove(count);
    }
}

/// The lanes of the frames posted last, as many as a ring holds: to know whose were with a device
/// that was reset. A device is reset with everything it has, which is what was posted last.
pub(super) struct Log {
    lanes: Box<[u32]>,
    posted: usize,
}

impl Log {
    /// For a ring of `slots`; 0 to keep nothing.
    pub(super) fn new(slots: usize) -> Self {
        let len = if slots == 0 {
            0
        } else {
            slots.next_power_of_two()
        };
        Self {
            lanes: vec![0; len].into(),
            posted: 0,
        }
    }

    /// Notes `count` frames of `lane`.
    #[inline]
    pub(super) fn add(&mut self, lane: u32, count: usize) {
        let Some(mask) = self.lanes.len().checked_sub(1) else {
            return;
        };
        for _ in 0..count {
            self.lanes[self.posted & mask] = lane;
            self.posted = self.posted.wrapping_add(1);
        }
    }

    /// The lanes of the last `count` frames; forgets them.
    pub(super) fn take_last(&mut self, count: u64) -> impl Iterator<Item = usize> {
        let mask = self.lanes.len().wrapping_sub(1);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let count = count.min(self.lanes.len()).min(self.posted);
        let end = self.posted;
        self.posted -= count;
        (end - count..end).map(move |at| self.lanes[at & mask] as usize)
    }
}
