//! Bus addresses, and where in the bus's address space they may lie.

use std::fmt;
use std::sync::Mutex;

/// An address that a device uses.
///
/// Drivers get theirs from this crate, for memory that is mapped for DMA, so that no other number
/// ends up in a ring's base register by mistake. (A model of a device reads addresses out of
/// rings and registers; it gets its own with [`Iova::from_device`].)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Iova(u64);

impl Iova {
    pub(crate) const fn new(address: u64) -> Self {
        Self(address)
    }

    /// The address as a device reads it from a ring or a register: for models only.
    #[must_use]
    pub const fn from_device(address: u64) -> Self {
        Self(address)
    }

    /// The address as a number, for a register or a descriptor.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The address `bytes` further on.
    #[must_use]
    pub const fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }

    /// The address `bytes` before, as for a header that precedes a frame.
    #[must_use]
    pub const fn back(self, bytes: u64) -> Self {
        Self(self.0 - bytes)
    }
}

impl fmt::Display for Iova {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Bus addresses from `first` to `last`, both included (`last` may be the highest there is).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IovaRange {
    /// Lowest address.
    pub first: u64,
    /// Highest address.
    pub last: u64,
}

impl IovaRange {
    /// Every address.
    pub const ALL: Self = Self {
        first: 0,
        last: u64::MAX,
    };

    pub(crate) fn holds(self, first: u64, last: u64) -> bool {
        self.first <= first && last <= self.last
    }

    fn meets(self, first: u64, last: u64) -> bool {
        self.first <= last && first <= self.last
    }
}

/// Bus addresses below this one are left to what firmware and legacy devices put there.
const FLOOR: u64 = 1 << 32;

/// Addresses in use by this process, in any space: a frame that strays to a device which does
/// not have it mapped then hits nothing, instead of somebody else's memory.
static TAKEN: Mutex<Vec<IovaRange>> = Mutex::new(Vec::new());

/// Bus addresses taken from the process's one plan, given back on drop.
#[derive(Debug)]
pub(crate) struct Claim(IovaRange);

impl Claim {
    /// Finds `len` bytes on an `align` boundary that lie inside one window of every list.
    pub(crate) fn find(windows: &[Vec<IovaRange>], len: u64, align: u64) -> Option<Self> {
        let mut taken = TAKEN
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let range = choose(windows, &taken, len, align)?;
        taken.push(range);
        Some(Self(range))
    }

    pub(crate) fn first(&self) -> u64 {
        self.0.first
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut taken = TAKEN
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        taken.retain(|range| *range != self.0);
    }
}

/// The place for `len` bytes beside what is taken.
fn choose(
    windows: &[Vec<IovaRange>],
    taken: &[IovaRange],
    len: u64,
    align: u64,
) -> Option<IovaRange> {
    candidates(windows, taken, align)
        .into_iter()
        .find(|&first| fits(first, len, windows, taken))
        .map(|first| IovaRange {
            first,
            last: first + (len - 1),
        })
}

/// Aligned places where a free stretch can begin: after a window's start or a taken range's
/// end, those above the floor first, each group from low to high (39-bit spaces exist).
fn candidates(windows: &[Vec<IovaRange>], taken: &[IovaRange], align: u64) -> Vec<u64> {
    let starts = windows.iter().flatten().map(|window| window.first);
    let ends = taken.iter().filter_map(|range| range.last.checked_add(1));
    let mut firsts: Vec<u64> = starts
        .chain(ends)
        .chain([FLOOR, align])
        .filter_map(|first| first.checked_next_multiple_of(align))
        .collect();
    firsts.sort_unstable_by_key(|&first| (first < FLOOR, first));
    firsts.dedup();
    firsts
}

fn fits(first: u64, len: u64, windows: &[Vec<IovaRange>], taken: &[IovaRange]) -> bool {
    let Some(last) = first.checked_add(len - 1) else {
        return false;
    };
    // Address 0 is what an unset register holds; nothing of ours lives there.
    first > 0
        && windows
            .iter()
            .all(|list| list.iter().any(|window| window.holds(first, last)))
        && !taken.iter().any(|range| range.meets(first, last))
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn addresses_lie_in_a_window_of_every_space_and_never_overlap() {
        let narrow = vec![
            IovaRange {
                first: 0,
                last: 0xfedf_ffff,
            },
            IovaRange {
                first: 0xfef0_0000,
                last: (1 << 39) - 1,
            },
        ];
        let windows = [narrow, vec![IovaRange::ALL]];
        let a = Claim::find(&windows, 3 * GIB, GIB).unwrap();
        let b = Claim::find(&windows, GIB, GIB).unwrap();
        for claim in [&a, &b] {
            assert!(claim.0.first >= FLOOR && claim.0.last < 1 << 39);
            assert_eq!(claim.0.first % GIB, 0);
        }
        assert!(!a.0.meets(b.0.first, b.0.last));
    }

    #[test]
    fn a_space_that_ends_below_the_floor_is_served_from_below() {
        let windows = [vec![IovaRange {
            first: 0,
            last: 2 * GIB - 1,
        }]];
        let claim = Claim::find(&windows, GIB, GIB).unwrap();
        assert_eq!(claim.0.first, GIB);
        assert!(
            Claim::find(&windows, GIB, GIB).is_none(),
            "the rest is taken or address 0"
        );
        drop(claim);
        assert!(Claim::find(&windows, GIB, GIB).is_some(), "given back");
    }

    /// Windows and taken ranges in units of a page, few and small, so that every place can be
    /// tried.
    fn ranges(most: usize) -> impl Strategy<Value = Vec<IovaRange>> {
        let range = (0u64..60, 1u64..25).prop_map(|(first, len)| IovaRange {
            first: first << 12,
            last: ((first + len) << 12) - 1,
        });
        prop::collection::vec(range, 0..most)
    }

    proptest! {
        #[test]
        fn a_place_is_right_and_found_if_there_is_one(
            windows in prop::collection::vec(ranges(4), 0..3),
            taken in ranges(5),
            pages in 1u64..12,
            align_bits in 12u32..16,
        ) {
            let (len, align) = (pages << 12, 1u64 << align_bits);
            let right = |first: u64| {
                let last = first + len - 1;
                let inside = |list: &Vec<IovaRange>| list.iter().any(|w| w.first <= first && last <= w.last);
                first > 0
                    && first.is_multiple_of(align)
                    && windows.iter().all(inside)
                    && !taken.iter().any(|t| t.first <= last && first <= t.last)
            };
            match choose(&windows, &taken, len, align) {
                Some(range) => {
                    prop_assert!(right(range.first), "{range:?}");
                    prop_assert_eq!(range.last, range.first + len - 1);
                }
                None => {
                    prop_assert!(!windows.is_empty());
                    let missed = (0..100u64).map(|n| n << 12).find(|&first| right(first));
                    prop_assert_eq!(missed, None);
                }
            }
        }

        #[test]
        fn no_input_overflows(
            first: u64, last: u64, taken_first: u64, taken_last: u64,
            len in 1u64.., bits in 12u32..31,
        ) {
            let windows = [vec![IovaRange { first, last }]];
            let taken = [IovaRange { first: taken_first, last: taken_last }];
            if let Some(range) = choose(&windows, &taken, len, 1 << bits) {
                prop_assert!(first <= range.first && range.last <= last);
            }
        }
    }

    #[test]
    fn the_top_of_the_address_space_can_be_used() {
        let windows = [vec![IovaRange {
            first: u64::MAX - GIB + 1,
            last: u64::MAX,
        }]];
        let range = choose(&windows, &[], GIB, GIB).unwrap();
        assert_eq!(range.last, u64::MAX);
        assert_eq!(
            choose(&windows, &[range], 4096, 4096),
            None,
            "nothing comes after it"
        );
    }
}
