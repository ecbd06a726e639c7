//! Counters that run freely.

/// How far a counter of as many bits as `mask` has went from `last` to `now`.
///
/// A counter that shows less than before went round its end, or was reset and began again at zero.
/// It is read so often (every two seconds) that it can have gone round only from the last quarter of
/// its range; anywhere else it was reset, and what it shows is what it counted since.
#[must_use]
pub(crate) const fn went(last: u64, now: u64, mask: u64) -> u64 {
    if now >= last || last > mask - mask / 4 {
        now.wrapping_sub(last) & mask
    } else {
        now
    }
}

#[cfg(test)]
mod test {
    use super::went;

    #[test]
    fn a_counter_goes_on_round_its_end_or_begins_anew() {
        for mask in [u64::from(u32::MAX), (1 << 36) - 1] {
            assert_eq!(went(5, 5, mask), 0);
            assert_eq!(went(5, 700, mask), 695);
            assert_eq!(went(mask - 9, 20, mask), 30, "round the end");
            assert_eq!(went(1_000_000, 0, mask), 0, "reset, and nothing since");
            assert_eq!(went(1_000_000, 300, mask), 300, "reset, and 300 since");
        }
    }
}
