//! Which lane is due next: flat cost, whatever their number.
//!
//! A calendar: a ring of slots, each a short stretch of time with a list of the lanes that are due
//! in it (or whole laps later). Finding what is due means walking the slots that time has passed;
//! putting a lane back is one push. With about as many slots as lanes, and slots about as long as
//! the mean gap between frames, a walk meets about one lane a slot: as cheap for ten thousand
//! streams as for ten.

use std::mem;

/// No lane: the end of a list.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    due_ns: u64,
    after: u32,
}

/// Lanes by when they are due.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The first lane of each slot.
    heads: Box<[u32]>,
    /// The last one of each slot that has any.
    tails: Box<[u32]>,
    /// By lane: when it is due, and the lane after it.
    entries: Box<[Entry]>,
    /// Slots are `1 << shift` nanoseconds long.
    shift: u32,
    /// The slot that is being walked, counted from the beginning of time.
    cursor: u64,
    /// The lane in it before the next one to look at; none at its head.
    before: u32,
    /// The time of the walk.
    walked_ns: u64,
    /// Nothing is due before this.
    quiet_until: u64,
    /// The smallest due time met since the walk of this slot began.
    met: u64,
}

impl Schedule {
    /// For lanes numbered below `lanes`, of which one is due every `gap_ns` in the mean.
    pub(super) fn new(lanes: usize, gap_ns: u64) -> Self {
        let slots = (lanes * 2).next_power_of_two().clamp(64, 1 << 16);
        let shift = gap_ns.clamp(64, 1 << 20).next_power_of_two().ilog2();
        Self {
            heads: vec![NONE; slots].into(),
            tails: vec![NONE; slots].into(),
            entries: vec![
                Entry {
                    due_ns: u64::MAX,
                    after: NONE
                };
                lanes
            ]
            .into(),
            shift,
            cursor: 0,
            before: NONE,
            walked_ns: 0,
            quiet_until: 0,
            met: u64::MAX,
        }
    }

    /// Puts `lane`, which is not in it, where it is due, behind the others of its slot: lanes that
    /// are overdue take turns.
    #[inline]
    pub(super) fn insert(&mut self, lane: u32, due_ns: u64) {
        if due_ns == u64::MAX {
            return;
        }
        let slot = self.place((due_ns >> self.shift).max(self.cursor));
        // The end of a list is in front of a walker, never behind: it may be due still.
        let last = match self.heads[slot] {
            NONE => NONE,
            _ => self.tails[slot],
        };
        self.link(slot, last, lane, due_ns);
    }

    /// Puts back `lane`, just taken out, so that it is the next to be taken out again.
    #[inline]
    pub(super) fn put_back(&mut self, lane: u32, due_ns: u64) {
        if due_ns == u64::MAX {
            return;
        }
        // It was due: its slot is the one that is being walked, or one before.
        self.link(self.place(self.cursor), self.before, lane, due_ns);
    }

    /// Puts `lane` into the list of `slot`, after `before`; at its head if that is none.
    #[inline]
    fn link(&mut self, slot: usize, before: u32, lane: u32, due_ns: u64) {
        let link = match before {
            NONE => &mut self.heads[slot],
            before => &mut self.entries[before as usize].after,
        };
        let after = mem::replace(link, lane);
        self.entries[lane as usize] = Entry { due_ns, after };
        if after == NONE {
            self.tails[slot] = lane;
        }
        self.met = self.met.min(due_ns);
        self.quiet_until = self.quiet_until.min(due_ns);
    }

    /// Takes out a lane that is due by `now_ns`.
    #[inline]
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<u32> {
        if now_ns < self.quiet_until {
            return None;
        }
        if now_ns != self.walked_ns {
            // A walk that was left in the middle: what was not due then may be now.
            self.walked_ns = now_ns;
            self.restart();
        }
        let last = now_ns >> self.shift;
        let slots = self.heads.len() as u64;
        if last - self.cursor.min(last) > slots {
            // Each slot once is enough.
            self.cursor = last - slots;
            self.restart();
        }
        loop {
            if let Some(lane) = self.walk(now_ns) {
                return Some(lane);
            }
            if self.cursor >= last {
                // The rest of this slot, or what comes after it.
                self.quiet_until = self.met.min((self.cursor + 1) << self.shift);
                self.restart();
                return None;
            }
            self.cursor += 1;
            self.restart();
        }
    }

    fn restart(&mut self) {
        self.before = NONE;
        self.met = u64::MAX;
    }

    /// Goes on through the slot at the cursor until it meets a lane that is due.
    #[inline]
    fn walk(&mut self, now_ns: u64) -> Option<u32> {
        let slot = self.place(self.cursor);
        loop {
            let lane = match self.before {
                NONE => self.heads[slot],
                before => self.entries[before as usize].after,
            };
            if lane == NONE {
                return None;
            }
            let Entry { due_ns, after } = self.entries[lane as usize];
            if due_ns <= now_ns {
                match self.before {
                    NONE => self.heads[slot] = after,
                    before => self.entries[before as usize].after = after,
                }
                if after == NONE {
                    self.tails[slot] = self.before;
                }
                return Some(lane);
            }
            self.met = self.met.min(due_ns);
            self.before = lane;
        }
    }

    #[inline]
    fn place(&self, slot: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
        let place = (slot & (self.heads.len() as u64 - 1)) as usize;
        place
    }
}
