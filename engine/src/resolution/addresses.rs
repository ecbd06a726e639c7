//! The addresses that a port answers for.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::Vlans;

/// IP addresses, as ranges, each in its VLANs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses(Vec<(Vlans, RangeInclusive<IpAddr>)>);

impl Addresses {
    /// Those of `ranges`, untagged: they are there whatever the tags of who asks.
    #[must_use]
    pub fn new(ranges: Vec<RangeInclusive<IpAddr>>) -> Self {
        let mut own = Self::default();
        own.add(Vlans::default(), ranges);
        own
    }

    /// Adds those of `ranges`, which are in `vlans`. A range whose ends are of two kinds, or in the
    /// wrong order, has none.
    pub fn add(&mut self, vlans: Vlans, ranges: Vec<RangeInclusive<IpAddr>>) {
        let is_one = |range: &RangeInclusive<IpAddr>| {
            range.start().is_ipv4() == range.end().is_ipv4() && range.start() <= range.end()
        };
        let ranges = ranges.into_iter().filter(is_one);
        self.0.extend(ranges.map(|range| (vlans, range)));
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `address` is one of them to who asks from within `vlans`.
    #[must_use]
    #[inline]
    pub fn contains(&self, vlans: Vlans, address: IpAddr) -> bool {
        // IPv4 addresses sort before all IPv6 ones, so a range of one kind holds none of the other.
        self.0
            .iter()
            .any(|(own, range)| (own.ids().is_empty() || *own == vlans) && range.contains(&address))
    }

    /// The first of each range, and the VLANs that it is in.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = (Vlans, IpAddr)> {
        self.0.iter().map(|(vlans, range)| (*vlans, *range.start()))
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
            for vlans in [Vlans::default(), Vlans::new(&[7]).unwrap()] {
                assert!(own.contains(vlans, ip(inside)), "{inside}");
            }
        }
        for outside in [
            "16.0.0.8",
            "16.0.1.4",
            "9.9.9.9",
            "5.5.5.5",
            "fd00::100",
            "::1000:9",
        ] {
            assert!(!own.contains(Vlans::default(), ip(outside)), "{outside}");
        }
    }

    #[test]
    fn addresses_in_vlans_are_there_for_those_in_the_same_alone() {
        let ip: IpAddr = "16.0.0.9".parse().unwrap();
        let vlans = |ids: &[u16]| Vlans::new(ids).unwrap();
        let mut own = Addresses::default();
        own.add(vlans(&[100]), vec![ip..=ip]);
        own.add(vlans(&[100, 5]), vec![ip..=ip]);
        assert!(own.contains(vlans(&[100]), ip) && own.contains(vlans(&[100, 5]), ip));
        for ids in [&[][..], &[5], &[100, 6], &[5, 100]] {
            assert!(!own.contains(vlans(ids), ip), "{ids:?}");
        }
    }
}
