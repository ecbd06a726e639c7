//! Searches on devices that are formulas: what they find is known.

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

const MAX: f64 = 14_880_952.0;

fn limits() -> Limits {
    Limits {
        max: MAX,
        ..Limits::default()
    }
}

/// Frames lost at a load, of so many.
type Device = dyn FnMut(f64, u64) -> u64;

/// Runs a search to its end; how many trials there were.
fn drive(search: &mut Search, device: &mut Device) -> u32 {
    while let Some(trial) = search.next_trial() {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a trial has some million frames"
        )]
        let asked = trial.frames() as u64;
        let lost = device(trial.load, asked);
        search.record(Finding {
            asked,
            lost,
            unsent: 0,
        });
        assert!(search.effort().0 < 10_000, "it goes on for ever");
    }
    search.effort().0
}

fn of(asked: u64, share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a number that fits"
    )]
    let frames = (asked as f64 * share.clamp(0.0, 1.0)).round() as u64;
    frames
}

/// All above `knee` frames a second are lost.
fn sharp(knee: f64) -> impl FnMut(f64, u64) -> u64 {
    move |load, asked| of(asked, 1.0 - knee / load.max(knee))
}

fn assert_brackets(found: &Found, truth: f64) {
    assert!(found.is_regular(), "{found:?}");
    let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
    assert!(
        lower.load <= truth && truth < upper.load,
        "{truth} in {found:?}"
    );
    let width = (upper.load - lower.load) / upper.load;
    assert!(width <= found.goal.width * 1.0001, "{width}");
}

#[test]
fn a_sharp_knee_is_found_within_the_width_in_a_minute_of_trials() {
    for knee in [20_000.0, 1e6, 3.3e6, 7_777_777.0, 14.8e6] {
        let mut search = Search::new(&[Goal::ndr()], limits()).unwrap();
        let trials = drive(&mut search, &mut sharp(knee));
        assert_brackets(&search.results()[0], knee);
        assert!(trials <= 65, "{trials} trials for {knee}");
    }
}

#[test]
fn two_goals_share_their_trials() {
    let knee = 5e6;
    let mut both = Search::new(&[Goal::ndr(), Goal::pdr(0.005)], limits()).unwrap();
    let together = drive(&mut both, &mut sharp(knee));
    let results = both.results();
    assert_brackets(&results[0], knee);
    assert_brackets(&results[1], knee / 0.995);
    let alone = |goal| {
        let mut search = Search::new(&[goal], limits()).unwrap();
        drive(&mut search, &mut sharp(knee))
    };
    assert!(together < alone(Goal::ndr()) + alone(Goal::pdr(0.005)));
}

#[test]
fn a_slope_has_one_place_for_each_loss() {
    // From 4 million on, loss grows by 1 % a million.
    let mut device = |load: f64, asked: u64| of(asked, (load - 4e6).max(0.0) / 1e8);
    let goals = [Goal::ndr(), Goal::pdr(0.005), Goal::pdr(0.02)];
    let mut search = Search::new(&goals, limits()).unwrap();
    drive(&mut search, &mut device);
    for (found, truth) in search.results().iter().zip([4e6, 4.5e6, 6e6]) {
        assert_brackets(found, truth);
        let lower = found.lower.unwrap();
        let passed = 1.0 - (lower.load - 4e6).max(0.0) / 1e8;
        assert!((lower.throughput / lower.load - passed).abs() < 1e-6);
    }
}

#[test]
fn a_disturbance_now_and_then_does_not_move_the_result() {
    for seed in 0..20 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let knee = 6e6;
        // One trial in five loses a thousandth of its frames at any load.
        let mut device = move |load: f64, asked: u64| {
            let noise = if rng.random_bool(0.2) { 0.001 } else { 0.0 };
            of(asked, noise + 1.0 - knee / load.max(knee))
        };
        let mut search = Search::new(&[Goal::ndr(), Goal::pdr(0.005)], limits()).unwrap();
        drive(&mut search, &mut device);
        let results = search.results();
        assert_brackets(&results[0], knee);
        let lower = results[1].lower.unwrap().load;
        assert!((0.995..=1.006).contains(&(lower / knee)), "{results:?}");
    }
}

#[test]
fn without_an_allowance_one_frame_lost_is_too_many() {
    // The fifth trial at or below the knee loses one frame.
    let mut below = 0;
    let mut device = move |load: f64, asked: u64| {
        below += u32::from(load <= 6e6);
        u64::from(below == 5) + of(asked, 1.0 - 6e6 / load.max(6e6))
    };
    let mut search = Search::new(&[Goal::rfc2544()], limits()).unwrap();
    drive(&mut search, &mut device);
    let found = search.results()[0];
    assert!(found.is_regular() && found.lower.unwrap().load < 6e6);
    let trial = Trial {
        load: 1.0,
        duration: Duration::from_secs(60),
        is_warm_up: false,
    };
    assert!(search.effort().1 >= trial.duration, "one full trial");
}

#[test]
fn the_ends_of_the_range_are_results_of_their_own() {
    let mut search = Search::new(&[Goal::ndr()], limits()).unwrap();
    let trials = drive(&mut search, &mut |_, _| 0);
    let found = search.results()[0];
    assert_eq!(found.end, End::AtMax);
    assert_eq!(found.lower.unwrap().load, MAX);
    assert_eq!(found.upper, None);
    assert!(trials <= 12 + 2, "{trials}");

    let mut search = Search::new(&[Goal::ndr()], limits()).unwrap();
    drive(&mut search, &mut |_, asked| asked);
    let found = search.results()[0];
    assert_eq!((found.end, found.lower), (End::BelowMin, None));
    assert!(!found.is_regular());
    assert_eq!(found.upper.unwrap().load, limits().min);
}

#[test]
fn a_generator_that_cannot_send_more_is_told_from_a_device_that_loses() {
    let mut search = Search::new(&[Goal::ndr()], limits()).unwrap();
    while let Some(trial) = search.next_trial() {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a trial has some million frames"
        )]
        let asked = trial.frames() as u64;
        let unsent = of(asked, 1.0 - 9e6 / trial.load.max(9e6));
        search.record(Finding {
            asked,
            lost: 0,
            unsent,
        });
    }
    let found = search.results()[0];
    assert_brackets(&found, 9e6);
    assert!(found.upper.unwrap().by_generator);

    let mut search = Search::new(&[Goal::ndr()], limits()).unwrap();
    drive(&mut search, &mut sharp(9e6));
    assert!(!search.results()[0].upper.unwrap().by_generator);
}

#[test]
fn the_first_trial_only_warms_up() {
    let mut search = Search::new(&[Goal::ndr()], limits()).unwrap();
    let first = search.next_trial().unwrap();
    assert!(first.is_warm_up && first.load == MAX);
    search.record(Finding {
        asked: 100,
        lost: 100,
        unsent: 0,
    });
    assert_eq!(search.results()[0].upper, None, "it does not count");
    let second = search.next_trial().unwrap();
    assert!(!second.is_warm_up && second.load == MAX);
    assert_eq!(search.next_trial(), Some(second), "until it is recorded");
}

#[test]
fn when_time_is_up_the_bounds_so_far_are_told_as_such() {
    let limits = Limits {
        time: Duration::from_secs(9),
        ..limits()
    };
    let mut search = Search::new(&[Goal::ndr()], limits).unwrap();
    drive(&mut search, &mut sharp(6e6));
    let found = search.results()[0];
    assert_eq!(found.end, End::TimeUp);
    assert!(!found.is_regular());
    assert!(search.effort().1 <= Duration::from_secs(10));
}

#[test]
fn nonsense_is_refused() {
    let no_range = Limits {
        min: 2e9,
        ..limits()
    };
    assert!(matches!(
        Search::new(&[Goal::ndr()], no_range),
        Err(SearchError::Range { .. })
    ));
    assert_eq!(Search::new(&[], limits()).unwrap_err(), SearchError::NoGoal);
    for goal in [
        Goal::pdr(1.0),
        Goal::pdr(f64::NAN),
        Goal {
            width: 0.0,
            ..Goal::ndr()
        },
        Goal {
            exceed_ratio: 1.0,
            ..Goal::ndr()
        },
        Goal {
            expansion: 1.0,
            ..Goal::ndr()
        },
    ] {
        let answer = Search::new(&[goal], limits());
        assert!(matches!(answer, Err(SearchError::Goal { .. })), "{goal:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a device does, a search ends, and what it calls bounds were measured.
    #[test]
    fn any_device_is_searched_to_an_end(seed in any::<u64>(), share in 0.0..1.0_f64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut device = move |_: f64, asked: u64| {
            if rng.random_bool(share) { asked / 100 } else { 0 }
        };
        let mut search = Search::new(&[Goal::ndr(), Goal::pdr(0.02)], limits()).unwrap();
        drive(&mut search, &mut device);
        for found in search.results() {
            prop_assert!(found.end != End::Searching);
            if let (Some(lower), Some(upper)) = (found.lower, found.upper) {
                prop_assert!(lower.load < upper.load);
            }
        }
    }
}
