//! What decides about a frame: a hash of the seed, the direction, the frame's number and the
//! question.

/// The questions. Their answers do not depend on each other.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Loss = 1,
    Corrupt,
    BadFcs,
    Duplicate,
    Reorder,
    Delay,
    Bit,
    Disturbed,
    Noise,
    Slope,
}

/// The fate of one direction's frames.
#[derive(Clone, Copy)]
pub(super) struct Fate {
    base: u64,
}

impl Fate {
    pub(super) fn new(seed: u64, direction: u64) -> Self {
        Self {
            base: mix(mix(seed) ^ direction),
        }
    }

    /// Whether `kind`, which strikes a `share` of frames, strikes the frame with this number.
    pub(super) fn strikes(self, kind: Kind, number: u64, share: f64) -> bool {
        // 53 bits are what an f64 holds exactly.
        const STEPS: f64 = (1u64 << 53) as f64;
        share > 0.0 && ((self.hash(kind, number) >> 11) as f64) < share * STEPS
    }

    /// Turns one bit of `bytes`, behind the addresses and the type where there is room, so that
    /// the frame arrives where it should.
    pub(super) fn turn_a_bit(self, number: u64, bytes: &mut [u8]) {
        const HEADER: usize = 14;
        let first = if bytes.len() > HEADER { HEADER } else { 0 };
        let bits = (bytes.len() - first) as u64 * 8;
        if bits == 0 {
            return;
        }
        let bit = self.hash(Kind::Bit, number) % bits;
        let at = first + usize::try_from(bit / 8).expect("an index into a slice");
        bytes[at] ^= 1 << (bit % 8);
    }

    fn hash(self, kind: Kind, number: u64) -> u64 {
        mix(mix(self.base ^ number) ^ kind as u64)
    }
}

/// Spreads each bit of `x` over all bits (the finalizer of SplitMix64; Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_share_of_frames_is_struck_and_the_seed_says_which() {
        let hit = |seed, direction| -> Vec<u64> {
            let fate = Fate::new(seed, direction);
            (0..100_000)
                .filter(|&n| fate.strikes(Kind::Loss, n, 0.01))
                .collect()
        };
        let first = hit(7, 0);
        assert_eq!(first, hit(7, 0));
        assert_ne!(first, hit(8, 0));
        assert_ne!(first, hit(7, 1));
        assert!((900..1100).contains(&first.len()), "{}", first.len());
    }

    #[test]
    fn no_share_strikes_nothing_and_all_strikes_all() {
        let fate = Fate::new(1, 0);
        assert!((0..1000).all(|n| !fate.strikes(Kind::Delay, n, 0.0)));
        assert!((0..1000).all(|n| fate.strikes(Kind::Delay, n, 1.0)));
    }

    #[test]
    fn one_bit_behind_the_header_is_turned() {
        let fate = Fate::new(3, 1);
        for number in 0..1000 {
            let mut bytes = [0; 60];
            fate.turn_a_bit(number, &mut bytes);
            assert!(bytes[..14].iter().all(|&b| b == 0));
            assert_eq!(bytes.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
        }
    }
}
