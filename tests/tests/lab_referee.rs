//! Linux's own drivers on our models, in a guest: a model that they reject is wrong.
//!
//! A device takes half a minute or more, so only some are here, and the newer kernel judges only the
//! family that no emulator has; `cargo xtask referee` has them all.

use std::path::Path;

use peers::guest::{Kernel, System};
use rig::referee::{self, Device};
use rig::runner::{Entry, Report, Verdict};

/// Has a kernel judge the models of `driver`, which lack so many of the things that are checked.
#[track_caller]
fn is_accepted(driver: &str, kernel: Kernel, lacks: usize) {
    let Some(guest) = peers::guest_or_skip(driver) else {
        return;
    };
    let system = match System::find(kernel) {
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
    let expected = referee::checks(device);
    assert_eq!(report.entries.len(), expected, "a check is missing");
    assert_eq!(report.count(Verdict::Failed), 0, "{}", report.table());
    let missing = report.count(Verdict::NotOffered);
    assert_eq!(missing, lacks, "not checked: {}", report.table());
}

#[test]
fn the_kernels_vmxnet3_accepts_the_model() {
    is_accepted("vmxnet3", Kernel::Stable, 1);
}

#[test]
fn the_kernels_ixgbe_accepts_the_model_of_the_82599() {
    is_accepted("ixgbe", Kernel::Stable, 0);
}

#[test]
fn the_kernels_ixgbevf_accepts_the_model_of_the_82599s_virtual_function() {
    is_accepted("ixgbevf", Kernel::Stable, 1);
}

#[test]
fn a_newer_kernels_ixgbe_accepts_the_model_of_the_82599() {
    is_accepted("ixgbe", Kernel::Newer, 0);
}

#[test]
fn a_newer_kernels_ixgbevf_accepts_the_model_of_the_82599s_virtual_function() {
    is_accepted("ixgbevf", Kernel::Newer, 1);
}
