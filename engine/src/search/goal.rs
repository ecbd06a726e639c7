//! What is searched for, and by which steps.

use std::time::Duration;

/// What makes a load good, for how long it is looked at, and how finely it is searched: a search
/// goal of MLRsearch (draft-ietf-bmwg-mlrsearch, "Search Goal"; defaults are FD.io CSIT's).
///
/// ```
/// use engine::search::Goal;
///
/// let pdr = Goal::pdr(0.005);
/// assert_eq!((pdr.loss_ratio, pdr.exceed_ratio, pdr.width), (0.005, 0.5, 0.005));
/// assert_eq!(pdr.duration_sum.as_secs(), 21);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Share of the frames asked for that may be lost in a trial that is still good, 0 to 1.
    pub loss_ratio: f64,
    /// Share of the time at a load that may be bad, while the load still is a lower bound; below 1.
    pub exceed_ratio: f64,
    /// Distance of the bounds at which the search ends, as a share of the upper one.
    pub width: f64,
    /// Length of the first, coarse trials.
    pub initial_trial: Duration,
    /// Length of a trial that counts in full.
    pub final_trial: Duration,
    /// For how long a load is looked at before it is said to be good.
    pub duration_sum: Duration,
    /// Coarser searches before the final one, each with shorter trials and wider bounds.
    pub preceding: u32,
    /// How many times wider each of them is, and how fast a bound is looked for far away.
    pub expansion: f64,
}

impl Goal {
    /// No drop rate: not one frame is lost in half of 21 s at least.
    #[must_use]
    pub const fn ndr() -> Self {
        Self::pdr(0.0)
    }

    /// Partial drop rate: as [`Goal::ndr`], with a share of frames that may be lost.
    #[must_use]
    pub const fn pdr(loss_ratio: f64) -> Self {
        Self {
            loss_ratio,
            exceed_ratio: 0.5,
            width: 0.005,
            initial_trial: Duration::from_secs(1),
            final_trial: Duration::from_secs(1),
            duration_sum: Duration::from_secs(21),
            preceding: 2,
            expansion: 2.0,
        }
    }

    /// RFC 2544 §26.1 with §24: no loss in a trial of 60 s; shorter trials on the way there.
    #[must_use]
    pub const fn rfc2544() -> Self {
        Self {
            exceed_ratio: 0.0,
            final_trial: Duration::from_secs(60),
            duration_sum: Duration::from_secs(60),
            ..Self::ndr()
        }
    }

    /// ETSI GS NFV-TST 009 §12.3.3, binary search with loss verification at most twice: one of two
    /// trials of 60 s may lose frames.
    #[must_use]
    pub const fn tst009() -> Self {
        Self {
            exceed_ratio: 0.5,
            final_trial: Duration::from_secs(60),
            duration_sum: Duration::from_secs(120),
            ..Self::ndr()
        }
    }

    /// The searches that lead to the goal, coarse ones first; the last is the goal itself.
    pub(super) fn targets(&self) -> Vec<Target> {
        let seconds = |time: Duration| time.as_secs_f64();
        let (first, last) = (seconds(self.initial_trial), seconds(self.final_trial));
        let sum = seconds(self.duration_sum).max(last);
        (0..=self.preceding)
            .map(|number| {
                let coarser = f64::from(self.preceding - number);
                let share = match self.preceding {
                    0 => 1.0,
                    steps => f64::from(number) / f64::from(steps),
                };
                Target {
                    loss_ratio: self.loss_ratio,
                    exceed_ratio: self.exceed_ratio,
                    width: -(1.0 - self.width).ln() * self.expansion.powf(coarser),
                    trial: first * (last / first).powf(share),
                    sum: first * (sum / first).powf(share),
                    expansion: self.expansion,
                }
            })
            .collect()
    }
}

/// One of the searches that lead to a goal. Times are in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) loss_ratio: f64,
    pub(super) exceed_ratio: f64,
    /// Distance of the bounds at which it ends: the logarithm of their ratio.
    pub(super) width: f64,
    /// Length of a trial.
    pub(super) trial: f64,
    /// For how long a load is looked at.
    pub(super) sum: f64,
    pub(super) expansion: f64,
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn csits_goal_has_its_three_targets() {
        let targets = Goal::ndr().targets();
        let sums: Vec<_> = targets.iter().map(|t| (t.sum * 100.0).round()).collect();
        assert_eq!(sums, [100.0, 458.0, 2100.0]);
        assert!(targets.iter().all(|target| target.trial == 1.0));
        let last = targets[2].width;
        let ratios: Vec<_> = targets.iter().map(|t| t.width / last).collect();
        assert_eq!(ratios, [4.0, 2.0, 1.0]);
        assert!((1.0 - (-last).exp() - 0.005).abs() < 1e-12);
    }

    #[test]
    fn trials_grow_to_the_length_that_counts() {
        let goal = Goal::rfc2544();
        let trials: Vec<_> = goal.targets().iter().map(|t| t.trial.round()).collect();
        assert_eq!(trials, [1.0, 8.0, 60.0]);
        let alone = Goal {
            preceding: 0,
            ..goal
        };
        assert_eq!(alone.targets().len(), 1);
        assert!((alone.targets()[0].trial - 60.0).abs() < 1e-9);
    }
}
