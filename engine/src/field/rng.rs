//! Random numbers for the data path.

/// A generator of 64-bit numbers: wyrand, of Wang Yi's wyhash (public domain). One addition and
/// one wide multiplication a number; passes `BigCrush` and `PractRand`.
///
/// The standard crates' generators are as good, but none is promised to give the same numbers
/// for the same seed in the next version, and a result must be repeatable by its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rng(u64);

impl Rng {
    /// A generator whose numbers follow from `seed` alone.
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for one variable on one core: neighbouring parts give unrelated numbers.
    pub(super) fn of(seed: u64, parts: &[usize]) -> Self {
        let mix =
            |state: u64, part: &usize| Self(state ^ (*part as u64 + 1).rotate_left(32)).next();
        Self(parts.iter().fold(Self(seed).next(), mix))
    }

    /// The next number.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let (low, high) = wide(self.0, self.0 ^ 0xe703_7ed1_a0b4_28db);
        low ^ high
    }

    /// A number below `range`, each equally likely to within 2^-64 of `range`; any number at all
    /// for a range of 0.
    #[inline]
    pub(super) fn below(&mut self, range: u64) -> u64 {
        let number = self.next();
        if range == 0 {
            number
        } else {
            wide(number, range).1
        }
    }
}

/// The product's low and high half.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the two halves of the product"
)]
const fn wide(a: u64, b: u64) -> (u64, u64) {
    let product = a as u128 * b as u128;
    (product as u64, (product >> 64) as u64)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_the_definition() {
        // Worked out apart from this code, with arbitrary-precision arithmetic.
        let mut rng = Rng::new(0);
        let first = [(); 3].map(|()| rng.next());
        assert_eq!(
            first,
            [
                0x111c_b3a7_8f59_a58e,
                0xceab_d938_ff4e_856d,
                0x61fb_5131_8f47_d2a4
            ]
        );
        let mut rng = Rng::new(7);
        assert_eq!(
            [rng.next(), rng.next()],
            [0xe21b_87e1_e24a_18c1, 0xdaf7_cca9_fc31_c738]
        );
    }

    #[test]
    fn every_value_of_a_range_comes_about_equally_often() {
        let mut rng = Rng::new(7);
        let mut seen = [0_u32; 251];
        for _ in 0..251_000 {
            seen[usize::try_from(rng.below(251)).unwrap()] += 1;
        }
        // Binomial: mean 1000, standard deviation 31.6; six of those is one in 10^9.
        assert!(
            seen.iter().all(|&count| (810..1190).contains(&count)),
            "{seen:?}"
        );
    }

    #[test]
    fn parts_and_seeds_give_different_numbers() {
        let first: Vec<_> = (0..64)
            .flat_map(|part| {
                [
                    Rng::of(1, &[0, part]).next(),
                    Rng::of(1, &[part + 1, 0]).next(),
                ]
            })
            .chain([Rng::of(2, &[0, 0]).next()])
            .collect();
        let mut unique = first.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), first.len());
    }
}
