//! What every port must do, as a list of named checks on a pair of ports joined by a wire.
//!
//! A check knows nothing of a driver: it opens a pair, starts it, moves frames, and compares.
//! What a device does not offer ([`port::Caps`]) is not checked, and the verdict says so. The
//! same list runs on models (`tests/sim_*.rs`), in the lab, and on real hardware.

mod filters;
mod life;
mod line;
mod mtu;
mod offloads;
pub(crate) mod packet;
mod queues;
mod rings;
mod sizes;
mod spread;
mod vlan;

use port::Port;

pub use line::{End, Failure, Line, PATIENCE, Received, Watch, frame, memory_bytes, same};

/// A pair of ports, freshly opened.
pub struct Pair {
    /// The ports: what one sends, the other receives.
    pub ports: [Box<dyn Port>; 2],
    /// What the devices object to, if they are models that can.
    pub objections: Box<dyn Fn() -> Vec<String>>,
}

/// What became of a check.
#[derive(Debug)]
pub enum Verdict {
    /// It holds.
    Passed,
    /// The device does not offer what it is about.
    NotOffered(&'static str),
}

/// Opens a pair.
pub type Open<'a> = dyn Fn() -> Result<Pair, Failure> + 'a;

/// A named check.
pub struct Check {
    /// A sentence that is true if it passes.
    pub name: &'static str,
    run: Run,
}

impl Check {
    /// Opens a pair and runs the check on it.
    ///
    /// # Errors
    /// It does not hold, or a device objected to what the driver did.
    pub fn run(&self, open: &Open<'_>) -> Result<Verdict, Failure> {
        let Pair { ports, objections } = open()?;
        let verdict = (self.run)(ports);
        let objections = objections();
        match verdict {
            Err(failure) if objections.is_empty() => Err(failure),
            Err(failure) => Err(Failure::Found(format!(
                "{failure}; the devices object: {}",
                objections.join("; ")
            ))),
            Ok(verdict) => {
                crate::require!(
                    objections.is_empty(),
                    "the devices object: {}",
                    objections.join("; ")
                );
                Ok(verdict)
            }
        }
    }
}

/// Every check there is.
#[must_use]
pub fn checks() -> Vec<Check> {
    [
        life::CHECKS,
        sizes::CHECKS,
        rings::CHECKS,
        filters::CHECKS,
        queues::CHECKS,
        offloads::CHECKS,
        vlan::CHECKS,
        mtu::CHECKS,
        spread::CHECKS,
    ]
    .concat()
    .into_iter()
    .map(|(name, run)| Check { name, run })
    .collect()
}

/// A name and what it stands for, as each module lists them.
type Named = (&'static str, Run);

/// The check itself: takes the two ends of a wire, not started.
type Run = fn([Box<dyn Port>; 2]) -> Result<Verdict, Failure>;

/// Runs every check on pairs that `open` opens, and says how each went.
///
/// # Errors
/// The checks that failed, each on a line.
pub fn run_all(open: &Open<'_>) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let mut failures = Vec::new();
    for check in checks() {
        match check.run(open) {
            Ok(Verdict::Passed) => lines.push(format!("ok: {}", check.name)),
            Ok(Verdict::NotOffered(what)) => {
                lines.push(format!("not offered: {} ({what})", check.name));
            }
            Err(failure) => failures.push(format!("FAILED: {}: {failure}", check.name)),
        }
    }
    if failures.is_empty() {
        Ok(lines)
    } else {
        Err(failures.join("\n"))
    }
}
