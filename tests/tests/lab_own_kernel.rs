//! The ways of VFIO that no kernel of Debian's has, on a real kernel: iommufd with a file for each
//! device, and no IOMMU at all. The kernel is built by `cargo xtask lab --own-kernel`.
//!
//! The checks are those of `lab_vfio.rs` and of the conformance suite. Groups in a container run
//! on this kernel too, so that what differs is the way and not the kernel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use peers::Job;
use rig::runner::scenarios::{scenario, succeed};
use rig::runner::{self, Entry, Ground, Place, ROWS, Report, Row, Verdict, Way};

/// How a virtio device keeps to the IOMMU.
const VIRTIO: &str = "virtio-net-pci,iommu_platform=on,disable-legacy=on";

/// A guest with the kernel of our own, or a note that the test was skipped for want of it.
fn ground_or_skip(test: &str, way: Way) -> Option<Ground> {
    let (guest, system) = peers::own_guest_or_skip(test)?;
    let system = Some(system);
    Some(Ground { guest, system, way })
}

fn in_guest() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_in_guest"))
}

/// Everything that two devices of one process can meet, one after the other in one guest.
#[track_caller]
fn devices_are_shared_held_and_closed(ground: &Ground) {
    let mut machine = ground.machine();
    let wire = machine.pair(VIRTIO, VIRTIO);
    let (prelude, first) = match ground.way {
        // The scenario switches it on itself: without that nothing is given away.
        Way::NoIommu => ("", scenario("unprotected", &wire.ends, "")),
        _ => (ground.prelude(), scenario("share", &wire.ends, "39 2M")),
    };
    let name = match ground.way {
        Way::Container => "container",
        Way::Iommufd => "iommufd",
        Way::NoIommu => "none",
    };
    let scenarios = [
        first,
        scenario("way", &wire.ends, name),
        scenario("holder", &wire.ends, ""),
        scenario("close", &wire.ends, ""),
    ];
    succeed(&ground.guest, &machine, &in_guest(), prelude, &scenarios);
}

/// A device goes from the kernel's driver and back, three times, unless it is in use.
#[track_caller]
fn drivers_get_their_devices_back(ground: &Ground) {
    let mut machine = ground.machine();
    machine.modules = vec!["virtio_pci".into(), "virtio_net".into()];
    let wire = machine.pair(VIRTIO, VIRTIO);
    let scenarios = [scenario("drivers", &wire.ends, "virtio-pci")];
    succeed(
        &ground.guest,
        &machine,
        &in_guest(),
        ground.prelude(),
        &scenarios,
    );
}

#[test]
fn by_groups_devices_are_shared_held_and_closed_as_on_debians_kernel() {
    if let Some(ground) = ground_or_skip("own kernel, groups", Way::Container) {
        devices_are_shared_held_and_closed(&ground);
    }
}

#[test]
fn by_iommufd_two_devices_share_an_address_space_name_their_holder_and_close_silently() {
    if let Some(ground) = ground_or_skip("own kernel, iommufd", Way::Iommufd) {
        devices_are_shared_held_and_closed(&ground);
    }
}

#[test]
fn by_iommufd_48_bits_and_pages_of_1_gib_are_used() {
    let Some(ground) = ground_or_skip("own kernel, iommufd, 48 bits", Way::Iommufd) else {
        return;
    };
    let mut machine = ground.machine();
    machine.address_bits = 48;
    // Half of it lies above 4 GiB, in one piece.
    machine.memory_mib = 4096;
    (machine.pages_2m, machine.pages_1g) = (0, 1);
    let wire = machine.pair(VIRTIO, VIRTIO);
    let scenarios = [scenario("share", &wire.ends, "48 1G")];
    succeed(
        &ground.guest,
        &machine,
        &in_guest(),
        ground.prelude(),
        &scenarios,
    );
}

#[test]
fn by_iommufd_a_device_that_goes_around_the_iommu_is_refused() {
    let Some(ground) = ground_or_skip("own kernel, iommufd, around", Way::Iommufd) else {
        return;
    };
    let mut machine = ground.machine();
    let wire = machine.pair("virtio-net-pci", "virtio-net-pci,disable-legacy=on");
    let scenarios = [scenario("around", &wire.ends, "")];
    succeed(
        &ground.guest,
        &machine,
        &in_guest(),
        ground.prelude(),
        &scenarios,
    );
}

#[test]
fn by_iommufd_a_device_goes_to_vfio_and_back_to_the_kernels_driver_unless_it_is_in_use() {
    if let Some(ground) = ground_or_skip("own kernel, iommufd, drivers", Way::Iommufd) {
        drivers_get_their_devices_back(&ground);
    }
}

#[test]
fn without_an_iommu_devices_are_given_away_only_when_told_and_use_physical_addresses() {
    if let Some(ground) = ground_or_skip("own kernel, no IOMMU", Way::NoIommu) {
        devices_are_shared_held_and_closed(&ground);
    }
}

#[test]
fn without_an_iommu_a_device_goes_to_vfio_and_back_unless_it_is_in_use() {
    if let Some(ground) = ground_or_skip("own kernel, no IOMMU, drivers", Way::NoIommu) {
        drivers_get_their_devices_back(&ground);
    }
}

#[test]
fn without_an_iommu_rgen_refuses_until_told_and_then_says_so_aloud() {
    let Some(ground) = ground_or_skip("own kernel, no IOMMU, rgen", Way::NoIommu) else {
        return;
    };
    let mut machine = ground.machine();
    let wire = machine.pair(VIRTIO, VIRTIO);
    let [a, b] = &wire.ends;
    let switch = ground.prelude();
    // 6: emulated cores may be too slow, which is not what this is about.
    let script = format!(
        "./rgen bind {a} {b} && exit 11\n\
         {switch}./rgen bind {a} {b} || exit 12\n\
         echo [bound]\n\
         ./rgen doctor\n\
         echo [looked]\n\
         ./rgen run bench -t size=64 -m 1kpps -p {a} -p {b} -d 1s\n\
         case $? in 0 | 6) ;; *) exit 13 ;; esac\n"
    );
    let job = Job {
        script,
        programs: vec![rig::rgen::path().to_owned()],
        limit: Duration::from_secs(120),
    };
    let outcome = ground
        .guest
        .run(&machine, &job, &mut |line| println!("guest: {line}"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.status, 0, "{}", outcome.output);
    let parts: Vec<&str> = outcome.output.split("[bound]\n").collect();
    let [refused, rest] = parts[..] else {
        panic!("{}", outcome.output);
    };
    assert!(refused.contains("enable_unsafe_noiommu_mode"), "{refused}");
    let (doctor, run) = rest.split_once("[looked]\n").expect("the script says so");
    assert!(doctor.contains("the no-IOMMU mode is on"), "{doctor}");
    for end in &wire.ends {
        let warning = format!("{end}: no IOMMU stands before it");
        assert!(run.contains(&warning), "{run}");
    }
}

/// The rows of the lab with these families and names.
fn rows(wanted: &[(&str, &str)]) -> Vec<Row> {
    let is_wanted = |row: &&Row| !row.is_sim() && wanted.contains(&(row.driver, row.name));
    let rows: Vec<Row> = ROWS.iter().filter(is_wanted).copied().collect();
    assert_eq!(rows.len(), wanted.len(), "a row is missing: {wanted:?}");
    rows
}

/// Runs the suite on `rows`, reached by `way`.
#[track_caller]
fn conform(ground: &Ground, rows: &[Row]) {
    let program = Path::new(env!("CARGO_BIN_EXE_conformance"));
    let rows: Vec<&Row> = rows.iter().collect();
    let mut report = Report::default();
    let mut tell = |entry: Entry| {
        let Entry {
            on, check, found, ..
        } = &entry;
        println!("{:?}: {on}: {check} {found}", entry.verdict);
        report.entries.push(entry);
    };
    runner::lab::run(ground, program, &rows, None, &mut tell)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(report.entries.len() >= rows.len() * runner::checks(None).len());
    assert!(report.count(Verdict::Passed) >= rows.len() * 12);
    assert_eq!(report.count(Verdict::Failed), 0, "{}", report.table());
}

#[test]
fn by_iommufd_virtio_and_the_82574l_conform() {
    let Some(ground) = ground_or_skip("own kernel, iommufd, suite", Way::Iommufd) else {
        return;
    };
    let rows = rows(&[
        ("virtio", "split"),
        ("virtio", "packed"),
        ("e1000e", "82574L"),
    ]);
    conform(&ground, &rows);
}

#[test]
fn without_an_iommu_virtio_of_every_age_and_the_82574l_conform() {
    let Some(ground) = ground_or_skip("own kernel, no IOMMU, suite", Way::NoIommu) else {
        return;
    };
    // Behind an IOMMU these two are refused: they take bus addresses for physical ones.
    let around = |name, device| Row {
        driver: "virtio",
        name,
        place: Place::Lab {
            device,
            options: "",
            tapped: 0,
        },
    };
    let mut rows = rows(&[("virtio", "split"), ("e1000e", "82574L")]);
    rows.push(around("legacy", "virtio-net-pci,disable-modern=on"));
    rows.push(around("transitional", "virtio-net-pci"));
    conform(&ground, &rows);
}
