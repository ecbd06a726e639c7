//! The conformance suite on the NICs that QEMU's authors wrote, behind the real kernel's VFIO.

use std::path::PathBuf;

use rig::runner::{self, Entry, Ground, ROWS, Report, Row, Verdict};

/// Runs the suite on every device of the lab's that belongs to `driver`.
#[track_caller]
fn conforms(driver: &str) {
    let Some(guest) = peers::guest_or_skip(driver) else {
        return;
    };
    let of_driver = |row: &&Row| !row.is_sim() && row.driver == driver;
    let rows: Vec<&Row> = ROWS.iter().filter(of_driver).collect();
    assert!(!rows.is_empty(), "no device of the lab is of {driver}");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_conformance"));
    let mut report = Report::default();
    let mut tell = |entry: Entry| {
        println!(
            "{:?}: {}: {} {}",
            entry.verdict, entry.on, entry.check, entry.found
        );
        report.entries.push(entry);
    };
    let ground = Ground::debian(guest);
    runner::lab::run(&ground, &program, &rows, None, &mut tell)
        .unwrap_or_else(|error| panic!("{error}"));
    let checks = runner::checks(None).len();
    // One more: what the IOMMU saw.
    assert_eq!(
        report.entries.len(),
        rows.len() * (checks + 1),
        "a check is missing"
    );
    assert!(
        report.count(Verdict::Passed) >= rows.len() * 12,
        "hardly anything was checked"
    );
    assert_eq!(report.count(Verdict::Failed), 0, "{}", report.table());
}

#[test]
fn the_virtio_driver_conforms_on_qemus_devices() {
    conforms("virtio");
}

#[test]
fn the_vmxnet3_driver_conforms_on_qemus_device() {
    conforms("vmxnet3");
}

#[test]
fn the_e1000_driver_conforms_on_qemus_82574l() {
    conforms("e1000e");
}

#[test]
fn the_e1000_driver_conforms_on_qemus_82576() {
    conforms("igb");
}

#[test]
fn the_e1000_driver_conforms_on_qemus_82540em_and_82545em() {
    conforms("e1000");
}
