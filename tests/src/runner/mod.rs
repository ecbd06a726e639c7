//! The conformance suite as a command: where it runs, on which ports, and what it found.
//!
//! [`rows`] lists the kinds of ports; [`suite`] runs the checks on two ports of one kind; [`lab`]
//! does so in a guest, where this very program runs again; [`borrow`] takes two PCI devices for
//! it and gives them back as they were. [`way`] is how devices are reached in a guest, and
//! [`scenarios`] what else than the suite runs there.

pub mod borrow;
pub mod lab;
pub mod pair;
pub mod report;
pub mod rows;
pub mod scenarios;
pub mod way;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

pub use borrow::Borrowed;
pub use report::{Entry, Report, Verdict};
pub use rows::{Place, ROWS, Row, TAPPED};
pub use way::{Ground, Way};

use crate::conformance::{self, Check, Failure};

/// Checks whose name contains `wanted`; all of them if nothing is.
#[must_use]
pub fn checks(wanted: Option<&str>) -> Vec<Check> {
    let mut checks = conformance::checks();
    checks.retain(|check| wanted.is_none_or(|text| check.name.contains(text)));
    checks
}

/// Runs checks on pairs of ports that `ports` name, each on a pair that was opened for it. `tell`
/// gets what became of each, and says whether to go on.
pub fn suite(on: &str, ports: &[String; 2], checks: &[Check], tell: &mut dyn FnMut(Entry) -> bool) {
    for check in checks {
        let started = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| check.run(&|| pair::open(ports))));
        let (verdict, found) = verdict(ran.unwrap_or_else(|panic| Err(panicked(&*panic))));
        let go_on = tell(Entry {
            on: on.to_owned(),
            check: check.name.to_owned(),
            verdict,
            found,
            took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        if !go_on {
            return;
        }
    }
}

fn verdict(ran: Result<conformance::Verdict, Failure>) -> (Verdict, String) {
    match ran {
        Ok(conformance::Verdict::Passed) => (Verdict::Passed, String::new()),
        Ok(conformance::Verdict::NotOffered(what)) => (Verdict::NotOffered, what.to_owned()),
        Err(failure) => (Verdict::Failed, pair::with_causes(&failure)),
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let said = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    Failure::Found(format!("it panicked: {}", said.unwrap_or("no words")))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn checks_are_picked_by_a_part_of_their_name() {
        assert!(checks(None).len() >= 20);
        let some = checks(Some("three laps"));
        assert_eq!(some.len(), 1);
        assert!(checks(Some("no such check")).is_empty());
    }

    #[test]
    fn a_pair_that_does_not_open_fails_every_check_and_a_no_ends_the_suite() {
        let ports = ["sim:nothing", "sim:nothing"].map(str::to_owned);
        let mut entries = Vec::new();
        suite("x", &ports, &checks(None), &mut |entry| {
            entries.push(entry);
            entries.len() < 3
        });
        assert_eq!(entries.len(), 3);
        let failed = |e: &Entry| e.verdict == Verdict::Failed && e.found.contains("no driver");
        assert!(entries.iter().all(failed), "{entries:?}");
    }
}
