//! The addresses that a port answers for.

use std::net::IpAddr;
use std::ops::RangeInclusive;

/// IP addresses, as ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses(Vec<RangeInclusive<IpAddr>>);

impl Addresses {
    /// Those of `ranges`. One whose ends are of two kinds, or in the wrong order, has none.
    #[must_use]
    pub fn new(ranges: Vec<RangeInclusive<IpAddr>>) -> Self {
        let one_kind =
            |range: &RangeInclusive<IpAddr>| range.start().is_ipv4() == range.end().is_ipv4();
        Self(
            ranges
                .into_iter()
                .filter(|range| one_kind(range) && range.start() <= range.end())
                .collect(),
        )
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `address` is one of them.
    #[must_use]
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        // IPv4 addresses sort before all IPv6 ones, so a range of one kind holds none of the other.
        self.0.iter().any(|range| range.contains(&address))
    }

    /// The first of each range.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = IpAddr> {
        self.0.iter().map(|range| *range.start())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ranges_hold_their_ends_and_no_address_of_the_other_kind() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let own = Addresses::new(vec![
            ip("16.0.0.9")..=ip("16.0.1.3"),
            ip("fd00::1")..=ip("fd00::ff"),
            ip("9.9.9.9")..=ip("1.1.1.1"),
            ip("0.0.0.0")..=ip("::"),
        ]);
        for inside in ["16.0.0.9", "16.0.0.255", "16.0.1.3", "fd00::1", "fd00::ff"] {
            assert!(own.contains(ip(inside)), "{inside}");
        }
        for outside in [
            "16.0.0.8",
            "16.0.1.4",
            "9.9.9.9",
            "5.5.5.5",
            "fd00::100",
            "::1000:9",
        ] {
            assert!(!own.contains(ip(outside)), "{outside}");
        }
    }
}
