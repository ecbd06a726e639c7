//! Internet mixes: tables of frame sizes by name.

/// A table of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imix {
    /// Its name.
    pub name: &'static str,
    /// Where it is from.
    pub from: &'static str,
    /// Sizes in bytes, with FCS, and how many frames of each there are in a round.
    pub parts: &'static [(usize, usize)],
}

/// The tables. TRex's published IMIX figures (25.03 Mpps at 80.03 Gbit/s of line, which is
/// 379.7 bytes a frame) are of `trex-2017`, not of today's.
pub const TABLES: &[Imix] = &[
    Imix {
        name: "trex",
        from: "TRex's imix profile (sizes written without FCS there)",
        parts: &[(64, 28), (594, 16), (1518, 4)],
    },
    Imix {
        name: "bench",
        from: "TRex's bench profile since March 2021",
        parts: &[(68, 28), (590, 16), (1514, 4)],
    },
    Imix {
        name: "trex-2017",
        from: "TRex's imix profile before it went to 28:16:4, and its published XL710 results",
        parts: &[(64, 28), (594, 20), (1518, 4)],
    },
    Imix {
        name: "bench-2017",
        from: "TRex's bench profile until March 2021 (its 60 bytes padded on the wire)",
        parts: &[(64, 28), (590, 20), (1514, 4)],
    },
    Imix {
        name: "csit",
        from: "FD.io CSIT, IMIX_v4_1",
        parts: &[(64, 28), (570, 16), (1518, 4)],
    },
    Imix {
        name: "csit6",
        from: "FD.io CSIT, IMIX_v4_1 with the smallest frame that its IPv6 tests use",
        parts: &[(78, 28), (570, 16), (1518, 4)],
    },
];

impl Imix {
    /// The table called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLES
            .iter()
            .find(|table| table.name.eq_ignore_ascii_case(name))
    }

    /// Frames in a round.
    #[must_use]
    pub fn round(&self) -> usize {
        self.parts.iter().map(|(_, count)| count).sum()
    }

    /// The mean size in bytes, with FCS.
    #[must_use]
    pub fn mean_size(&self) -> f64 {
        let bytes: usize = self.parts.iter().map(|(size, count)| size * count).sum();
        bytes as f64 / self.round() as f64
    }

    /// Whose turn it is, by number of the part, in the shortest round.
    #[must_use]
    pub fn schedule(&self) -> Vec<usize> {
        let counts: Vec<_> = self.parts.iter().map(|(_, count)| *count).collect();
        schedule(&counts)
    }
}

/// An order in which things take turns, `counts[n]` times each in a round: as streams of those
/// rates do that start together, the first slightly before the second, and so on. (TRex's
/// profiles start them 0.1 µs apart.)
#[must_use]
pub fn schedule(counts: &[usize]) -> Vec<usize> {
    let gcd = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let common = counts.iter().copied().fold(0, gcd).max(1);
    // Frame k of a part is due at k / count of the round.
    let mut due: Vec<(usize, usize, usize)> = Vec::new();
    for (part, count) in counts.iter().map(|count| count / common).enumerate() {
        due.extend((0..count).map(|k| (k, count, part)));
    }
    due.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)).then(a.2.cmp(&b.2)));
    due.into_iter().map(|(_, _, part)| part).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_mean_sizes_are_those_of_the_published_tables() {
        let mean = |name| Imix::named(name).unwrap().mean_size();
        let close = |a: f64, b: f64| (a - b).abs() < 0.005;
        assert!(close(mean("trex"), 361.83));
        assert!(close(mean("bench"), 362.50));
        // (28 x 64 + 20 x 594 + 4 x 1518) / 52, and with 590 and 1514.
        assert!(close(mean("trex-2017"), 379.69));
        assert!(close(mean("bench-2017"), 377.85));
        assert!(close(mean("csit"), 353.83));
    }

    #[test]
    fn sizes_take_turns_as_streams_of_their_rates_do() {
        // 7 : 4 : 1 in a round of 84 ticks: small ones at 0, 12, 24, 36, 48, 60, 72, middle ones
        // at 0, 21, 42, 63, the large one at 0.
        assert_eq!(
            Imix::named("bench").unwrap().schedule(),
            [0, 1, 2, 0, 1, 0, 0, 1, 0, 0, 1, 0]
        );
        let old = Imix::named("trex-2017").unwrap().schedule();
        let count = |part| old.iter().filter(|&&turn| turn == part).count();
        assert_eq!((count(0), count(1), count(2)), (7, 5, 1));
    }
}
