//! A device under test with a knee: what comes faster than a rate is lost.

use std::time::Duration;

use super::as_ps;
use super::fate::{Fate, Kind};

/// Share of a disturbed talk's frames that is lost.
const NOISE: f64 = 0.001;
/// Share of talks that are disturbed.
const DISTURBED: f64 = 0.2;
/// Share of frames beyond the rate that is lost on a slope.
const SLOPE: f64 = 0.1;
/// Part of a pause that frames may be early by.
const EARLY: u64 = 20;

/// The highest rate that a wire carries without loss, as a device behind it would have one.
///
/// It counts by *talks*: frames with no [`Knee::pause`] between them in which somebody looked and
/// found nothing. In each, as many frames pass as the rate allows since the last look at the sender
/// that found nothing (and a twentieth of a pause before that). So a sender that is held up for
/// less than a pause and then sends a clump loses nothing, and a wire whose thread is held up for
/// however long, and then takes all that has gathered, makes no loss of it: what comes no faster
/// than the rate passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knee {
    /// Frames a second, each way.
    pub rate_pps: u64,
    /// What becomes of frames beyond it.
    pub shape: KneeShape,
    /// The silence that ends a talk.
    pub pause: Duration,
}

/// How a device behaves around its knee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KneeShape {
    /// Every frame beyond the rate is lost: of a load L beyond the knee K, 1 - K / L.
    Sharp,
    /// A tenth of the frames beyond the rate is lost.
    Sloped,
    /// As sharp; and of every fifth talk, whatever its rate, a thousandth of the frames is lost.
    Noisy,
}

/// One direction's talk.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    /// Talks so far.
    talks: u64,
    /// When the allowance was nothing.
    since_ps: u64,
    /// When the last frame came.
    last_ps: u64,
    /// When somebody looked and there was none.
    idle_ps: u64,
    /// Frames that the rate allowed.
    passed: u64,
}

impl Gauge {
    /// Notes that no frame was there at `now_ps`.
    pub(super) fn note_silence(&mut self, now_ps: u64) {
        self.idle_ps = now_ps;
    }

    /// Whether frame `number` of the direction, which comes at `now_ps`, goes on.
    pub(super) fn passes(&mut self, knee: &Knee, fate: Fate, number: u64, now_ps: u64) -> bool {
        let pause_ps = as_ps(knee.pause);
        // Silence is what was heard, and not what nobody listened to.
        let silence_ps = self.idle_ps.saturating_sub(self.last_ps);
        if self.talks == 0 || silence_ps > pause_ps {
            self.talks += 1;
            let looked_ps = match self.idle_ps {
                // Before the first talk nobody may have looked.
                0 => now_ps.saturating_sub(pause_ps),
                idle_ps => idle_ps,
            };
            self.since_ps = looked_ps.saturating_sub(pause_ps / EARLY);
            self.passed = 0;
        }
        self.last_ps = now_ps;
        let noisy = knee.shape == KneeShape::Noisy;
        if noisy
            && fate.strikes(Kind::Disturbed, self.talks, DISTURBED)
            && fate.strikes(Kind::Noise, number, NOISE)
        {
            return false;
        }
        let elapsed_ps = u128::from(now_ps - self.since_ps);
        let allowed = elapsed_ps * u128::from(knee.rate_pps) / 1_000_000_000_000;
        if u128::from(self.passed) < allowed {
            self.passed += 1;
            return true;
        }
        knee.shape == KneeShape::Sloped && !fate.strikes(Kind::Slope, number, SLOPE)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const MS: u64 = 1_000_000_000;

    fn knee(shape: KneeShape) -> Knee {
        Knee {
            rate_pps: 1_000_000,
            shape,
            pause: Duration::from_millis(10),
        }
    }

    /// Frames of 100 000 lost at `load` thousand a second, in clumps of `clump`.
    fn lost(gauge: &mut Gauge, knee: &Knee, start_ps: &mut u64, load: u64, clump: u64) -> u64 {
        let fate = Fate::new(5, 0);
        let gap_ps = MS / load;
        gauge.note_silence(*start_ps);
        let passes = |n: &u64| {
            let at_ps = *start_ps + (n / clump + 1) * clump * gap_ps;
            gauge.passes(knee, fate, *n, at_ps)
        };
        let passed = (0..100_000).filter(passes).count() as u64;
        *start_ps += 100_000 * gap_ps + 20 * MS;
        100_000 - passed
    }

    #[test]
    fn what_is_beyond_the_rate_is_lost_and_nothing_below_it() {
        let (mut gauge, mut at) = (Gauge::default(), 0);
        let knee = knee(KneeShape::Sharp);
        for clump in [1, 30, 3000] {
            assert_eq!(lost(&mut gauge, &knee, &mut at, 990, clump), 0);
            // 100 000 at 1.25 million a second take 80 ms: 80 000 pass, and half a millisecond's.
            let lost = lost(&mut gauge, &knee, &mut at, 1250, clump);
            assert!((19_000..=20_000).contains(&lost), "{lost} by {clump}");
        }
    }

    #[test]
    fn a_wire_that_nobody_looks_after_for_long_makes_no_loss_of_it() {
        let knee = knee(KneeShape::Sharp);
        let fate = Fate::new(5, 0);
        let mut gauge = Gauge::default();
        // A talk below the rate; for five pauses in the midst of it the wire's thread is away.
        gauge.note_silence(MS);
        let times = (0..100_000_u64).map(|n| {
            let sent_ps = MS + n * MS / 990;
            let away_ps = 20 * MS..70 * MS;
            if away_ps.contains(&sent_ps) {
                away_ps.end
            } else {
                sent_ps
            }
        });
        let passed = times
            .enumerate()
            .filter(|&(n, at_ps)| gauge.passes(&knee, fate, n as u64, at_ps));
        assert_eq!(passed.count(), 100_000);
        assert_eq!(gauge.talks, 1);
        // Away when the next begins: since the last look there was time for all of it.
        gauge.note_silence(300 * MS);
        let late = (0..49_000).filter(|n| gauge.passes(&knee, fate, *n, 350 * MS));
        assert_eq!(late.count(), 49_000);
        assert_eq!(gauge.talks, 2);
    }

    #[test]
    fn on_a_slope_a_tenth_of_what_is_beyond_is_lost() {
        let (mut gauge, mut at) = (Gauge::default(), 0);
        let knee = knee(KneeShape::Sloped);
        assert_eq!(lost(&mut gauge, &knee, &mut at, 990, 1), 0);
        let lost = lost(&mut gauge, &knee, &mut at, 1250, 1);
        assert!((1700..2200).contains(&lost), "{lost}");
    }

    #[test]
    fn every_fifth_talk_is_disturbed_a_little() {
        let (mut gauge, mut at) = (Gauge::default(), 0);
        let knee = knee(KneeShape::Noisy);
        let talks: Vec<u64> = (0..100)
            .map(|_| lost(&mut gauge, &knee, &mut at, 900, 1))
            .collect();
        let disturbed = talks.iter().filter(|lost| **lost > 0);
        assert!((10..35).contains(&disturbed.count()), "{talks:?}");
        assert!(
            talks
                .iter()
                .all(|&lost| lost == 0 || (50..200).contains(&lost))
        );
    }
}
