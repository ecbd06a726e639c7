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
mod shapes;
pub mod subject;
pub mod tell;
pub mod watch;

use std::fmt::Write as _;

pub use subject::{SUBJECTS, Subject};
pub use tell::tell;

use crate::conformance::Failure;
use crate::differential::allowed::Allowed;
use crate::differential::{Trace, compare};

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
    let mut text = String::new();
    for objection in objections {
        let _ = writeln!(text, "{}: the model objects: {objection}", subject.name);
    }
    text.push_str(&differences(
        subject,
        &theirs,
        &ours,
        &allowed::of(subject.name),
    ));
    Ok(text)
}

/// In what two tellings of `subject` differ that no rule allows, and which rules were not needed.
fn differences(subject: &Subject, theirs: &Trace, ours: &Trace, rules: &[&Allowed]) -> String {
    let mut text = String::new();
    let found = compare(theirs, ours, rules);
    for difference in found.differences {
        let _ = writeln!(text, "{}: {difference}", subject.name);
    }
    for (rule, used) in rules.iter().zip(found.used) {
        if used == 0 && !rule.sometimes {
            let _ = writeln!(text, "{}: not needed any more: {rule:?}", subject.name);
        }
    }
    text
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_difference_that_no_rule_allows_and_a_rule_that_nothing_needs_are_both_told() {
        let subject = &SUBJECTS[0];
        let theirs = Trace::parse("## up: send\nW MTQC\nW TDLEN\n");
        let ours = Trace::parse("## up: send\nW TDLEN\nW MTQC\n");
        assert_eq!(differences(subject, &theirs, &theirs, &[]), "");
        let told = differences(subject, &theirs, &ours, &[]);
        assert_eq!(told.lines().count(), 2, "one here, one there: {told}");
        let rule = Allowed::new(&["82599"], ("up: send", "W MTQC", ""), ("*", "*"), "");
        assert_eq!(differences(subject, &theirs, &ours, &[&rule]), "");
        let told = differences(subject, &theirs, &theirs, &[&rule]);
        assert!(told.contains("not needed any more"), "{told}");
    }
}
