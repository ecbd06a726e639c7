//! Our driver beside Linux's, on the same model: what each does to 82599, X540 and X550 and to
//! their virtual functions.
//!
//! Linux's `ixgbe` and `ixgbevf` drive our models in a guest ([`linux`]), our driver drives them in
//! this process, through the same steps ([`scenario`]); the models note every access ([`watch`]).
//! What was noted is told in landmarks, values and messages ([`mod@tell`]), and the two tellings are
//! compared line by line by what compares QEMU's devices with our models
//! ([`crate::differential`]). What may differ is listed with its reason ([`mod@allowed`]).
//!
//! A guest is slow, so Linux's tellings are recorded ([`mod@recorded`]): every run of the tests
//! compares with those, and the lab's test that they still are what Linux does.

pub mod allowed;
pub mod landmarks;
pub mod linux;
mod messages;
pub mod recorded;
pub mod registers;
pub mod scenario;
pub mod subject;
pub mod tell;
pub mod watch;

use std::fmt::Write as _;

pub use subject::{SUBJECTS, Subject};
pub use tell::tell;

use crate::conformance::Failure;
use crate::differential::{Found, compare};

/// Plays the scenario with our driver on `subject`, and says in lines in what it differs from
/// Linux's and is not allowed to, what the model objects to, and which rules are not needed any more.
/// Empty is good.
///
/// # Errors
/// The scenario could not be carried out, or there is no recording of Linux's.
pub fn compare_all(subject: &Subject) -> Result<String, Failure> {
    let (noted, objections) = scenario::ours(subject)?;
    let ours = tell(subject, &noted);
    let theirs = recorded::recorded(subject).map_err(|error| {
        Failure::Found(format!("{}: {error}", recorded::path(subject).display()))
    })?;
    let rules = allowed::of(subject.name);
    let Found {
        differences, used, ..
    } = compare(&theirs, &ours, &rules);
    let mut text = String::new();
    for objection in objections {
        let _ = writeln!(text, "{}: the model objects: {objection}", subject.name);
    }
    for difference in differences {
        let _ = writeln!(text, "{}: {difference}", subject.name);
    }
    for (rule, used) in rules.iter().zip(used) {
        if used == 0 && !rule.sometimes {
            let _ = writeln!(text, "{}: not needed any more: {rule:?}", subject.name);
        }
    }
    Ok(text)
}
