//! rgen and DPDK's testpmd on the NICs that QEMU's authors wrote, an end each of one wire: each
//! sends, each receives, testpmd sends back, and both count the same.
//!
//! What runs in the guest is `src/bin/beside`.

use std::path::PathBuf;
use std::time::Duration;

use peers::guest::testpmd;
use peers::{Guest, Job, Lab, Machine};

/// What the scenarios say at their end, one line each.
const SAID: [&str; 5] = [
    "testpmd counts what rgen sent: ",
    "frames of size=imix, ",
    "rgen counts what testpmd sent: ",
    "by macswap: ",
    "by io: ",
];

/// What DPDK's drivers count of a frame's bytes. That for 8254x and 82574 hands on what the device
/// counts, and the registers for the octets of good frames include the check sequence
/// (developer's manual §13.7); that for 82576 takes it off.
const WITH_FCS: &str = "4";
const WITHOUT_FCS: &str = "0";
/// QEMU's 8254x leaves those registers at zero.
const NO_BYTES: &str = "none";

/// Runs all scenarios on two of QEMU's `device`, of whose frames' bytes testpmd counts `bytes`.
#[track_caller]
fn counts_agree(device: &str, bytes: &str) {
    let Some((lab, guest)) = lab(device) else {
        return;
    };
    let mut machine = Machine {
        memory_mib: 1536,
        pages_2m: 256,
        files: testpmd::files(&lab).unwrap_or_else(|error| panic!("{error}")),
        ..Machine::default()
    };
    let wire = machine.pair(device, device);
    let [first, second] = &wire.ends;
    let home = testpmd::HOME;
    let mac = Machine::mac(0, 0);
    let job = Job {
        script: format!(
            "RGEN_LAB={home} RGEN_BIN=/job/rgen ./beside counts {first} {second} {mac} {bytes}\n"
        ),
        programs: vec![
            PathBuf::from(env!("CARGO_BIN_EXE_beside")),
            rig::rgen::path().to_owned(),
        ],
        limit: Duration::from_secs(240),
    };
    let outcome = guest
        .run(&machine, &job, &mut |line| println!("guest: {line}"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.status, 0, "{}", outcome.output);
    for said in SAID {
        assert!(outcome.output.contains(said), "{said}: {}", outcome.output);
    }
    let mut faults = outcome
        .console
        .lines()
        .filter(|line| line.contains("DMAR:"));
    faults.clone().for_each(|line| println!("console: {line}"));
    // What DPDK's driver leaves behind is its own affair.
    let ours = format!("[{}]", first.trim_start_matches("0000:"));
    let fault = faults.find(|line| line.contains(&ours));
    assert_eq!(fault, None, "the IOMMU had to stop rgen's device");
}

fn lab(test: &str) -> Option<(Lab, Guest)> {
    Some((peers::lab_or_skip(test)?, peers::guest_or_skip(test)?))
}

#[test]
fn rgen_and_testpmd_count_the_same_on_qemus_82540em() {
    counts_agree("e1000", NO_BYTES);
}

#[test]
fn rgen_and_testpmd_count_the_same_on_qemus_82574l() {
    counts_agree("e1000e", WITH_FCS);
}

#[test]
fn rgen_and_testpmd_count_the_same_on_qemus_82576() {
    counts_agree("igb", WITHOUT_FCS);
}

#[test]
fn rgen_and_testpmd_count_the_same_on_qemus_vmxnet3() {
    counts_agree("vmxnet3", WITHOUT_FCS);
}

#[test]
fn rgen_and_testpmd_count_the_same_on_qemus_virtio_net() {
    counts_agree(
        "virtio-net-pci,iommu_platform=on,disable-legacy=on",
        WITHOUT_FCS,
    );
}
