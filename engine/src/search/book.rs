//! Every trial so far, by load, and what they say of it.

use super::goal::Target;

/// What a trial came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Noted {
    /// How long it was to be, in seconds.
    pub(super) seconds: f64,
    /// Share of the frames asked for that did not arrive, sent or not.
    pub(super) loss_ratio: f64,
    /// Share of the frames asked for that were sent and did not arrive.
    pub(super) lost_ratio: f64,
}

/// What the trials at a load say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is good, whatever more trials may show.
    Lower,
    /// It is bad, whatever more trials may show.
    Upper,
    /// More trials would tell.
    Undecided,
}

/// The trials at one load.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) load: f64,
    pub(super) trials: Vec<Noted>,
}

/// Seconds at a load, by what they were.
#[derive(Debug, Clone, Copy)]
struct Tally {
    bad: f64,
    missing: f64,
    whole: f64,
}

impl Entry {
    /// Full-length trials count in full. Of shorter ones counts only by how much the bad ones
    /// outweigh the good ones, as a short good trial proves little.
    fn tally(&self, target: &Target) -> Tally {
        let [mut good, mut bad, mut short_good, mut short_bad] = [0.0; 4];
        for trial in &self.trials {
            let is_full = trial.seconds >= target.trial * (1.0 - 1e-9);
            let is_bad = trial.loss_ratio > target.loss_ratio;
            *match (is_full, is_bad) {
                (true, false) => &mut good,
                (true, true) => &mut bad,
                (false, false) => &mut short_good,
                (false, true) => &mut short_bad,
            } += trial.seconds;
        }
        let exceed = target.exceed_ratio;
        bad += (short_bad - short_good * exceed / (1.0 - exceed)).max(0.0);
        let whole = target.sum.max(good + bad);
        Tally {
            bad,
            missing: whole - good - bad,
            whole,
        }
    }

    /// The load is an upper bound if it is bad even where all that was not measured were good, and
    /// a lower bound if it is good even where that were bad.
    pub(super) fn verdict(&self, target: &Target) -> Verdict {
        let Tally {
            bad,
            missing,
            whole,
        } = self.tally(target);
        let limit = target.exceed_ratio * whole * (1.0 + 1e-9);
        if bad > limit {
            Verdict::Upper
        } else if bad + missing <= limit + whole * 1e-9 {
            Verdict::Lower
        } else {
            Verdict::Undecided
        }
    }

    /// The load less the loss of the trial at the quantile that the goal allows to exceed: what
    /// certainly got through ("conditional throughput").
    pub(super) fn throughput(&self, target: &Target) -> f64 {
        let full = self.trials.iter();
        let full = full.filter(|trial| trial.seconds >= target.trial * (1.0 - 1e-9));
        let mut sorted: Vec<_> = full.collect();
        sorted.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
        let total: f64 = sorted.iter().map(|trial| trial.seconds).sum();
        let mut left = target.sum.max(total) * (1.0 - target.exceed_ratio);
        for trial in sorted {
            left -= trial.seconds;
            if left <= target.sum * 1e-9 {
                return self.load * (1.0 - trial.loss_ratio);
            }
        }
        0.0
    }

    /// True if the load is bad only because the generator did not send what was asked.
    pub(super) fn is_generators_fault(&self, target: &Target) -> bool {
        self.verdict(target) == Verdict::Upper
            && self
                .trials
                .iter()
                .all(|trial| trial.lost_ratio <= target.loss_ratio)
    }
}

/// Every trial so far, by load, the lowest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Book(Vec<Entry>);

impl Book {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn note(&mut self, load: f64, trial: Noted) {
        match self.0.binary_search_by(|entry| entry.load.total_cmp(&load)) {
            Ok(at) => self.0[at].trials.push(trial),
            Err(at) => self.0.insert(
                at,
                Entry {
                    load,
                    trials: vec![trial],
                },
            ),
        }
    }

    pub(super) fn entry(&self, load: f64) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.load == load)
    }

    pub(super) fn verdict(&self, load: f64, target: &Target) -> Verdict {
        self.entry(load)
            .map_or(Verdict::Undecided, |entry| entry.verdict(target))
    }

    /// The bounds that matter: the smallest upper one, and the largest lower one below it.
    pub(super) fn bounds(&self, target: &Target) -> (Option<&Entry>, Option<&Entry>) {
        let is = |entry: &&Entry, verdict| entry.verdict(target) == verdict;
        let upper = self.0.iter().find(|entry| is(entry, Verdict::Upper));
        let below = |entry: &&Entry| upper.is_none_or(|upper| entry.load < upper.load);
        let mut lower = self.0.iter().rev().filter(below);
        let lower = lower.find(|entry| is(entry, Verdict::Lower));
        (lower, upper)
    }
}

#[cfg(test)]
mod test {
    use super::super::Goal;
    use super::*;

    fn target(goal: &Goal) -> Target {
        *goal.targets().last().unwrap()
    }

    fn entry(trials: &[(f64, f64)]) -> Entry {
        let noted = |&(seconds, loss_ratio): &(f64, f64)| Noted {
            seconds,
            loss_ratio,
            lost_ratio: loss_ratio,
        };
        Entry {
            load: 100.0,
            trials: trials.iter().map(noted).collect(),
        }
    }

    #[test]
    fn half_of_21_seconds_decides_either_way() {
        let ndr = target(&Goal::ndr());
        let mut trials = vec![(1.0, 0.0); 10];
        assert_eq!(entry(&trials).verdict(&ndr), Verdict::Undecided);
        trials.push((1.0, 0.0));
        assert_eq!(entry(&trials).verdict(&ndr), Verdict::Lower);
        let mut trials = vec![(1.0, 0.1); 10];
        assert_eq!(entry(&trials).verdict(&ndr), Verdict::Undecided);
        trials.push((1.0, 0.1));
        assert_eq!(entry(&trials).verdict(&ndr), Verdict::Upper);
    }

    #[test]
    fn exactly_the_share_that_may_exceed_is_good() {
        let goal = Goal {
            duration_sum: std::time::Duration::from_secs(20),
            ..Goal::ndr()
        };
        let mut trials = vec![(1.0, 0.5); 10];
        trials.extend([(1.0, 0.0); 10]);
        assert_eq!(entry(&trials).verdict(&target(&goal)), Verdict::Lower);
        trials.push((1.0, 0.5));
        assert_eq!(entry(&trials).verdict(&target(&goal)), Verdict::Upper);
    }

    #[test]
    fn without_an_allowance_one_bad_trial_is_enough_and_a_full_one_is_needed() {
        let strict = target(&Goal::rfc2544());
        assert_eq!(entry(&[(60.0, 0.0)]).verdict(&strict), Verdict::Lower);
        assert_eq!(entry(&[(59.0, 0.0)]).verdict(&strict), Verdict::Undecided);
        let one_bad = entry(&[(60.0, 0.0), (60.0, 1e-9)]);
        assert_eq!(one_bad.verdict(&strict), Verdict::Upper);
        assert_eq!(entry(&[(1.0, 1e-9)]).verdict(&strict), Verdict::Upper);
    }

    #[test]
    fn short_bad_trials_count_by_what_they_outweigh_short_good_ones() {
        let goal = target(&Goal::tst009());
        let short = |good: usize, bad: usize| {
            let mut trials = vec![(10.0, 0.0); good];
            trials.extend(vec![(10.0, 1.0); bad]);
            entry(&trials).verdict(&goal)
        };
        assert_eq!(short(0, 6), Verdict::Undecided);
        assert_eq!(short(0, 7), Verdict::Upper, "70 s of 120");
        assert_eq!(short(1, 7), Verdict::Undecided, "60 s of 120");
        assert_eq!(short(99, 0), Verdict::Undecided, "none was long enough");
    }

    #[test]
    fn throughput_is_what_passed_at_the_allowed_quantile() {
        let pdr = target(&Goal::pdr(0.005));
        let mut trials = vec![(1.0, 0.001); 8];
        trials.extend([(1.0, 0.004); 5]);
        trials.extend([(1.0, 0.9); 8]);
        let passed = entry(&trials).throughput(&pdr);
        assert!((passed - 99.6).abs() < 1e-9, "{passed}");
        assert!(entry(&[(1.0, 0.0)]).throughput(&pdr).abs() < 1e-9);
    }

    #[test]
    fn a_lower_bound_above_an_upper_one_does_not_matter() {
        let ndr = target(&Goal::ndr());
        let mut book = Book::default();
        for (load, loss_ratio) in [(10.0, 0.0), (20.0, 0.5), (30.0, 0.0)] {
            for _ in 0..21 {
                let noted = Noted {
                    seconds: 1.0,
                    loss_ratio,
                    lost_ratio: loss_ratio,
                };
                book.note(load, noted);
            }
        }
        let (lower, upper) = book.bounds(&ndr);
        assert_eq!(lower.map(|entry| entry.load), Some(10.0));
        assert_eq!(upper.map(|entry| entry.load), Some(20.0));
    }
}
