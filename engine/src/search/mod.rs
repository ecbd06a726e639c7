//! The highest rate with no more than a given loss: MLRsearch (draft-ietf-bmwg-mlrsearch).
//!
//! A [`Search`] is asked which [`Trial`] to run, and told what it came to; it sends nothing and
//! waits for nothing, so that it is tested against devices that are formulas. Several [`Goal`]s
//! (NDR and PDR) are searched at once and share their trials.
//!
//! A load is looked at until it is decided. It is an *upper bound* of a goal when more of its time
//! was bad than the goal lets exceed, and a *lower bound* when it stays good even if all the time
//! that the goal asks for and nobody has measured yet were bad. So one disturbance (a page that is
//! moved, a neighbour that wakes up) costs a few trials more and not the result, and a result is
//! as repeatable as its width says.
//!
//! ```
//! use engine::search::{Finding, Goal, Limits, Search};
//!
//! let limits = Limits { min: 1e4, max: 14.88e6, ..Limits::default() };
//! let mut search = Search::new(&[Goal::ndr()], limits).unwrap();
//! while let Some(trial) = search.next_trial() {
//!     // A device that forwards six million frames a second.
//!     let asked = trial.frames();
//!     let lost = asked - asked.min(6e6 * trial.duration.as_secs_f64());
//!     search.record(Finding { asked: asked as u64, lost: lost as u64, unsent: 0 });
//! }
//! let found = &search.results()[0];
//! assert!(found.is_regular());
//! let lower = found.lower.unwrap();
//! assert!(lower.load <= 6e6 && lower.load >= 6e6 * 0.99);
//! ```

mod book;
mod goal;
#[cfg(test)]
mod test;

pub use goal::Goal;

use std::time::Duration;

use book::{Book, Noted, Verdict};
use goal::Target;

/// Why a search cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// No goal.
    #[error("there is nothing to search for")]
    NoGoal,
    /// The loads are not in order, or not numbers.
    #[error("loads from {min} to {max} frames a second are no range")]
    Range {
        /// The lowest.
        min: f64,
        /// The highest.
        max: f64,
    },
    /// A goal that no load can meet or miss.
    #[error(
        "a goal with loss ratio {loss_ratio}, exceed ratio {exceed_ratio} and width {width}: \
         each is a share, width and trial times are not zero, exceed ratio is below 1, expansion above 1"
    )]
    Goal {
        /// Its loss ratio.
        loss_ratio: f64,
        /// Its exceed ratio.
        exceed_ratio: f64,
        /// Its width.
        width: f64,
    },
}

/// Where a search looks, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The lowest load, in frames a second.
    pub min: f64,
    /// The highest load, in frames a second.
    pub max: f64,
    /// The length of a trial at the highest load that comes first and does not count: tables are
    /// learned, caches filled, clocks raised. Zero for none.
    pub warm_up: Duration,
    /// Trials may take so much time in all; then the bounds so far are the result.
    pub time: Duration,
}

impl Default for Limits {
    /// CSIT's: from 9001 frames a second, warmed up for a second, 20 minutes at most.
    fn default() -> Self {
        Self {
            min: 9001.0,
            max: 9001.0,
            warm_up: Duration::from_secs(1),
            time: Duration::from_secs(1200),
        }
    }
}

/// What to measure next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Frames a second.
    pub load: f64,
    /// For how long.
    pub duration: Duration,
    /// True if it warms up only.
    pub is_warm_up: bool,
}

impl Trial {
    /// Frames that it asks for.
    #[must_use]
    pub fn frames(&self) -> f64 {
        self.load * self.duration.as_secs_f64()
    }
}

/// What a trial came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// Frames that were asked for.
    pub asked: u64,
    /// Frames that were sent and did not arrive.
    pub lost: u64,
    /// Frames that were not sent. A load that was not offered is none that passed: they count
    /// as lost, and it is told where the loss is the generator's.
    pub unsent: u64,
}

/// A load that is good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lower {
    /// Frames a second.
    pub load: f64,
    /// Frames a second that passed, in a trial that is as bad as the goal allows ("conditional
    /// throughput").
    pub throughput: f64,
}

/// A load that is bad.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Upper {
    /// Frames a second.
    pub load: f64,
    /// True if every loss there is the generator's own: it could not send so much.
    pub by_generator: bool,
}

/// How a goal's search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The bounds are as close as the goal asks.
    Found,
    /// The highest load is good.
    AtMax,
    /// The lowest load is bad.
    BelowMin,
    /// Time was up.
    TimeUp,
    /// It has not ended.
    Searching,
}

/// What is known about a goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// The goal.
    pub goal: Goal,
    /// The highest load that is good, where one was found.
    pub lower: Option<Lower>,
    /// The lowest load that is bad, where one was found.
    pub upper: Option<Upper>,
    /// How it ended.
    pub end: End,
}

impl Found {
    /// True if the lower bound is the result, as far as anybody could have looked.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        matches!(self.end, End::Found | End::AtMax)
    }
}

/// One goal's search.
#[derive(Debug)]
struct Hunt {
    goal: Goal,
    targets: Vec<Target>,
    /// What the last target found: first choices of the next.
    hints: Vec<f64>,
    end: End,
}

/// A search that goes on.
#[derive(Debug)]
pub struct Search {
    limits: Limits,
    hunts: Vec<Hunt>,
    book: Book,
    /// The step, and the goal whose turn it is.
    step: usize,
    turn: usize,
    /// The load that is looked at until it is decided.
    focus: Option<f64>,
    /// How often the bounds were looked for farther away, in this step.
    stretches: u32,
    pending: Option<Trial>,
    is_warm: bool,
    spent: Duration,
    trials: u32,
}

impl Search {
    /// A search for `goals`.
    ///
    /// # Errors
    /// See [`SearchError`].
    pub fn new(goals: &[Goal], limits: Limits) -> Result<Self, SearchError> {
        let Limits { min, max, .. } = limits;
        if goals.is_empty() {
            return Err(SearchError::NoGoal);
        }
        if !(min > 0.0 && max >= min && max.is_finite()) {
            return Err(SearchError::Range { min, max });
        }
        if let Some(bad) = goals.iter().find(|goal| !is_sound(goal)) {
            return Err(SearchError::Goal {
                loss_ratio: bad.loss_ratio,
                exceed_ratio: bad.exceed_ratio,
                width: bad.width,
            });
        }
        let hunt = |goal: &Goal| Hunt {
            goal: *goal,
            targets: goal.targets(),
            hints: Vec::new(),
            end: End::Searching,
        };
        Ok(Self {
            limits,
            hunts: goals.iter().map(hunt).collect(),
            book: Book::default(),
            step: 0,
            turn: 0,
            focus: None,
            stretches: 0,
            pending: None,
            is_warm: limits.warm_up.is_zero(),
            spent: Duration::ZERO,
            trials: 0,
        })
    }

    /// The trial to run next, the same until it is recorded; none when the search has ended.
    pub fn next_trial(&mut self) -> Option<Trial> {
        if self.pending.is_none() {
            self.pending = self.choose_trial();
        }
        self.pending
    }

    /// Notes what the trial of [`Search::next_trial`] came to.
    ///
    /// # Panics
    /// There is none.
    pub fn record(&mut self, finding: Finding) {
        let trial = self.pending.take();
        let trial = trial.expect("a trial is asked for before it is recorded");
        self.spent += trial.duration;
        self.trials += 1;
        if trial.is_warm_up {
            self.is_warm = true;
            return;
        }
        let share = |frames: u64| match finding.asked {
            0 => 1.0,
            asked => (frames as f64 / asked as f64).min(1.0),
        };
        let noted = Noted {
            seconds: trial.duration.as_secs_f64(),
            loss_ratio: share(finding.lost.saturating_add(finding.unsent)),
            lost_ratio: share(finding.lost),
        };
        if self.book.is_empty() {
            // What passes when more is offered than fits is where to begin.
            let passed = trial.load * (1.0 - noted.loss_ratio);
            let hint = passed.clamp(self.limits.min, self.limits.max);
            self.hunts
                .iter_mut()
                .for_each(|hunt| hunt.hints = vec![hint]);
        }
        self.book.note(trial.load, noted);
    }

    /// Trials that were recorded, and the time that they took.
    #[must_use]
    pub fn effort(&self) -> (u32, Duration) {
        (self.trials, self.spent)
    }

    /// What is known, by goal, in their order.
    #[must_use]
    pub fn results(&self) -> Vec<Found> {
        self.hunts.iter().map(|hunt| self.result(hunt)).collect()
    }

    fn result(&self, hunt: &Hunt) -> Found {
        let target = hunt
            .targets
            .last()
            .expect("every goal is its own last target");
        let (lower, upper) = self.book.bounds(target);
        Found {
            goal: hunt.goal,
            lower: lower.map(|entry| Lower {
                load: entry.load,
                throughput: entry.throughput(target),
            }),
            upper: upper.map(|entry| Upper {
                load: entry.load,
                by_generator: entry.is_generators_fault(target),
            }),
            end: hunt.end,
        }
    }

    fn choose_trial(&mut self) -> Option<Trial> {
        if !self.is_warm {
            return Some(Trial {
                load: self.limits.max,
                duration: self.limits.warm_up,
                is_warm_up: true,
            });
        }
        while let Some(target) = self.target() {
            if self.spent >= self.limits.time {
                self.give_up();
                return None;
            }
            match self.choose_load(&target) {
                Ok(load) => {
                    self.focus = Some(load);
                    return Some(Trial {
                        load,
                        duration: Duration::from_secs_f64(target.trial),
                        is_warm_up: false,
                    });
                }
                Err(end) => self.advance(&target, end),
            }
        }
        None
    }

    /// The target whose turn it is; none at the end.
    fn target(&mut self) -> Option<Target> {
        let steps = self.hunts.iter().map(|hunt| hunt.targets.len()).max()?;
        while self.step < steps {
            while let Some(hunt) = self.hunts.get(self.turn) {
                if let Some(target) = hunt.targets.get(self.step) {
                    return Some(*target);
                }
                self.turn += 1;
            }
            (self.step, self.turn) = (self.step + 1, 0);
        }
        None
    }

    /// The load to look at for `target`, or how its search has ended.
    fn choose_load(&mut self, target: &Target) -> Result<f64, End> {
        let Limits { min, max, .. } = self.limits;
        if self.book.is_empty() {
            return Ok(max);
        }
        if let Some(load) = self.focus
            && self.book.verdict(load, target) == Verdict::Undecided
        {
            return Ok(load);
        }
        let (lower, upper) = self.book.bounds(target);
        let (lower, upper) = (lower.map(|entry| entry.load), upper.map(|entry| entry.load));
        if lower.is_some_and(|lower| lower >= max) {
            return Err(End::AtMax);
        }
        if upper.is_some_and(|upper| upper <= min) {
            return Err(End::BelowMin);
        }
        let apart = |(lower, upper): (f64, f64)| (upper / lower).ln();
        let both = lower.zip(upper);
        if both.is_some_and(|both| apart(both) <= target.width * (1.0 + 1e-6)) {
            return Err(End::Found);
        }
        let is_inside = |load: f64| {
            lower.is_none_or(|lower| load > lower) && upper.is_none_or(|upper| load < upper)
        };
        let hints = &self.hunts[self.turn].hints;
        if let Some(&hint) = hints.iter().find(|&&hint| is_inside(hint)) {
            return Ok(hint);
        }
        let far = target.width * target.expansion.powf(f64::from(self.stretches));
        if both.is_none() {
            self.stretches += 1;
        }
        Ok(match (lower, upper) {
            (None, None) => max,
            (None, Some(upper)) => (upper * (-far).exp()).max(min),
            (Some(lower), None) => (lower * far.exp()).min(max),
            // In whole widths from above, so that the last step leaves exactly one.
            (Some(lower), Some(upper)) => {
                let widths = (apart((lower, upper)) / target.width - 1e-6).ceil();
                upper * (-target.width * (widths / 2.0).floor().max(1.0)).exp()
            }
        })
    }

    /// The target's search has ended: it is the next one's turn.
    fn advance(&mut self, target: &Target, end: End) {
        let (lower, upper) = self.book.bounds(target);
        let hints = [lower, upper].into_iter().flatten();
        let hints = hints.map(|entry| entry.load).collect();
        let hunt = &mut self.hunts[self.turn];
        hunt.hints = hints;
        if self.step + 1 == hunt.targets.len() {
            hunt.end = end;
        }
        self.turn += 1;
        self.focus = None;
        self.stretches = 0;
    }

    fn give_up(&mut self) {
        for hunt in &mut self.hunts {
            if hunt.end == End::Searching {
                hunt.end = End::TimeUp;
            }
        }
    }
}

fn is_sound(goal: &Goal) -> bool {
    let is_share = |share: f64| (0.0..1.0).contains(&share);
    is_share(goal.loss_ratio)
        && is_share(goal.exceed_ratio)
        && is_share(goal.width)
        && goal.width > 0.0
        && !goal.initial_trial.is_zero()
        && goal.final_trial >= goal.initial_trial
        && goal.expansion > 1.0
}
