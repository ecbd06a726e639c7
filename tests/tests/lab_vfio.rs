//! VFIO as a real kernel has it, in a guest behind a virtual IOMMU, with QEMU's devices.
//!
//! What runs in the guest is `src/bin/in_guest.rs`. Whatever it does, the IOMMU must never have
//! to stop a device: its faults are on the kernel's console, and fail the test.

use std::path::Path;

use peers::Machine;
use rig::runner::scenarios::{scenario, succeed};

/// How a virtio device keeps to the IOMMU.
const VIRTIO: &str = "virtio-net-pci,iommu_platform=on,disable-legacy=on";

/// Runs scenarios of `in_guest`, one after the other, in one guest.
#[track_caller]
fn succeeds(test: &str, machine: &Machine, scenarios: &[String]) {
    if let Some(guest) = peers::guest_or_skip(test) {
        let program = Path::new(env!("CARGO_BIN_EXE_in_guest"));
        succeed(&guest, machine, program, "", scenarios);
    }
}

#[test]
fn two_devices_share_one_container_behind_an_iommu_of_39_bits() {
    let mut machine = Machine::default();
    let wire = machine.pair(VIRTIO, VIRTIO);
    let share = scenario("share", &wire.ends, "39 2M");
    succeeds("39 bits, pages of 2 MiB", &machine, &[share]);
}

#[test]
fn two_devices_share_one_container_behind_an_iommu_of_48_bits_in_pages_of_1_gib() {
    let mut machine = Machine {
        address_bits: 48,
        // Half of it lies above 4 GiB, in one piece; what is below is cut up by the firmware.
        memory_mib: 4096,
        pages_2m: 0,
        pages_1g: 1,
        ..Machine::default()
    };
    let wire = machine.pair(
        VIRTIO,
        "virtio-net-pci,iommu_platform=on,disable-legacy=on,packed=on",
    );
    let share = scenario("share", &wire.ends, "48 1G");
    succeeds("48 bits, pages of 1 GiB", &machine, &[share]);
}

#[test]
fn a_device_goes_to_vfio_and_back_to_the_kernels_driver_unless_it_is_in_use() {
    let mut machine = Machine {
        modules: vec!["virtio_pci".into(), "virtio_net".into()],
        ..Machine::default()
    };
    let wire = machine.pair(VIRTIO, VIRTIO);
    let drivers = scenario("drivers", &wire.ends, "virtio-pci");
    succeeds("bind and unbind", &machine, &[drivers]);
}

#[test]
fn a_process_killed_under_load_is_named_before_and_leaves_everything_behind_it_usable() {
    let mut machine = Machine::default();
    let wire = machine.pair(VIRTIO, VIRTIO);
    let holder = scenario("holder", &wire.ends, "");
    succeeds("kill under load", &machine, &[holder]);
}

#[test]
fn a_port_closed_under_load_is_silent_and_one_that_goes_around_the_iommu_is_not_opened() {
    let mut machine = Machine::default();
    let wire = machine.pair(VIRTIO, VIRTIO);
    let legacy = machine.pair("virtio-net-pci", "virtio-net-pci,disable-legacy=on");
    let transitional = machine.pair("virtio-net-pci,disable-modern=on", "virtio-net-pci");
    let scenarios = [
        scenario("close", &wire.ends, ""),
        scenario("around", &legacy.ends, ""),
        scenario("around", &transitional.ends, ""),
    ];
    succeeds("close under load", &machine, &scenarios);
}
