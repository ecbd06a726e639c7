//! Scenarios of the program `in_guest`, run in a guest for a test.

use std::path::Path;
use std::time::Duration;

use peers::{Guest, Job, Machine};

/// A scenario by name, on the two ends of a wire.
#[must_use]
pub fn scenario(name: &str, ends: &[String; 2], more: &str) -> String {
    format!("{name} {} {} {more}", ends[0], ends[1])
}

/// Runs `scenarios` one after the other in one guest. `program` is `in_guest`; `prelude` comes
/// before them in the job's script.
///
/// # Panics
/// One failed, or the IOMMU had to stop a device: its faults are on the kernel's console.
#[track_caller]
pub fn succeed(
    guest: &Guest,
    machine: &Machine,
    program: &Path,
    prelude: &str,
    scenarios: &[String],
) {
    let mut script = prelude.to_owned();
    for scenario in scenarios {
        script.push_str(&format!("./in_guest {scenario} || exit 1\n"));
    }
    let job = Job {
        script,
        programs: vec![program.to_owned()],
        limit: Duration::from_secs(280),
    };
    let outcome = guest
        .run(machine, &job, &mut |line| println!("guest: {line}"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.status, 0, "{}", outcome.output);
    let fault = outcome.console.lines().find(|line| line.contains("DMAR:"));
    assert_eq!(fault, None, "the IOMMU had to stop a device");
}
