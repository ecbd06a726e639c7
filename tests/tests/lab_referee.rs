//! Linux's own drivers on our models, in a guest: a model that they reject is wrong.
//!
//! A device takes a minute or two, so only some are here; `cargo xtask referee` has them all.

use std::path::Path;

use peers::guest::{Kernel, System};
use rig::referee::{self, Device};
use rig::runner::{Entry, Report, Verdict};

/// Has the kernel judge the models of `driver`.
#[track_caller]
fn is_accepted(driver: &str) {
    let Some(guest) = peers::guest_or_skip(driver) else {
        return;
    };
    let system = match System::find(Kernel::Stable) {
        Ok(system) => system,
        Err(missing) => {
            peers::skip(driver, &missing);
            return;
        }
    };
    let device = Device::named(driver).expect("the table has it");
    let program = Path::new(env!("CARGO_BIN_EXE_referee"));
    let mut report = Report::default();
    let mut tell = |entry: Entry| {
        println!("{:?}: {} {}", entry.verdict, entry.check, entry.found);
        report.entries.push(entry);
    };
    referee::run(&guest, &system, device, program, &mut tell)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.entries.len(), referee::CHECKS, "a check is missing");
    assert!(
        report.count(Verdict::NotOffered) <= 2,
        "hardly anything was checked: {}",
        report.table()
    );
    assert_eq!(report.count(Verdict::Failed), 0, "{}", report.table());
}

#[test]
fn the_kernels_vmxnet3_accepts_the_model() {
    is_accepted("vmxnet3");
}

#[test]
fn the_kernels_ixgbe_accepts_the_model_of_the_82599() {
    is_accepted("ixgbe");
}
