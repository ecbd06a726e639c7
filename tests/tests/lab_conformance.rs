//! The conformance suite on the NICs that QEMU's authors wrote, behind the real kernel's VFIO.

use std::path::PathBuf;

use rig::runner::{self, Entry, Ground, ROWS, Report, Row, TAPPED, Verdict};

/// What taps do to the check that comes after the one that stops a port under load: its first frame
/// is one that the host had held.
const HELD: &str = "frame 0: 60 bytes sent, 1000 received";

/// Runs the suite on every device of the lab's that belongs to `driver`.
#[track_caller]
fn conforms(driver: &str) {
    let of_driver = |row: &&Row| !row.is_sim() && row.driver == driver;
    let rows: Vec<&Row> = ROWS.iter().filter(of_driver).collect();
    assert!(!rows.is_empty(), "no device of the lab is of {driver}");
    let Some(report) = run(driver, &rows) else {
        return;
    };
    assert_eq!(report.count(Verdict::Failed), 0, "{}", report.table());
}

/// Runs the suite on `rows`; what it found. None without a lab.
#[track_caller]
fn run(what: &str, rows: &[&Row]) -> Option<Report> {
    let guest = peers::guest_or_skip(what)?;
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
    runner::lab::run(&ground, &program, rows, None, &mut tell)
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
    Some(report)
}

#[test]
fn the_virtio_driver_conforms_with_several_queues_over_taps() {
    let rows: Vec<&Row> = TAPPED.iter().collect();
    let Some(report) = run("virtio over taps", &rows) else {
        return;
    };
    let unknown = |entry: &&Entry| entry.verdict == Verdict::Failed && entry.found != HELD;
    let failed = report.entries.iter().find(unknown);
    assert!(failed.is_none(), "{}", report.table());
    // Not offered over a hub, and here they are: RSS by the devices that were asked for it.
    let with = |what: &str| rows.iter().filter(|row| row.name.contains(what)).count();
    for (check, wanted) in [
        ("every send queue sends", rows.len()),
        ("checksums of TCP and UDP", rows.len()),
        ("flows spread over receive queues", with("RSS")),
    ] {
        let passed =
            |entry: &&Entry| entry.verdict == Verdict::Passed && entry.check.starts_with(check);
        assert_eq!(
            report.entries.iter().filter(passed).count(),
            wanted,
            "{check}"
        );
    }
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
