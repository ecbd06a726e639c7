//! Linux's ixgbe and ixgbevf still do to our models what was recorded of them.

use peers::guest::{Kernel, System};
use rig::beside_linux::allowed::BY_CHANCE;
use rig::beside_linux::{linux, recorded, tell};
use rig::differential::compare;

#[test]
fn linux_does_to_our_models_what_was_recorded() {
    let what = "Linux's ixgbe beside ours";
    let Some(guest) = peers::guest_or_skip(what) else {
        return;
    };
    let system = match System::find(Kernel::Stable) {
        Ok(system) => system,
        Err(missing) => {
            peers::skip(what, &missing);
            return;
        }
    };
    let noted = linux::record(&guest, &system).unwrap_or_else(|error| panic!("{error}"));
    let mut found = Vec::new();
    for (subject, noted) in noted {
        let recorded = recorded::recorded(subject).expect("there is a recording");
        let differences = compare(&recorded, &tell(subject, &noted), BY_CHANCE).differences;
        let named = |difference| format!("{}: recorded as theirs: {difference}", subject.name);
        found.extend(differences.iter().map(named));
    }
    assert!(
        found.is_empty(),
        "{}\nif Linux is another: cargo run -p rig --bin traces -- record",
        found.join("\n")
    );
}
