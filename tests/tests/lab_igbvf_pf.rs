//! What the physical function does to its virtual ones, and what they may do to it: two VFs of
//! QEMU's 82576, whose physical function Linux's own igb has.
//!
//! What runs in the guest is `src/bin/in_guest_vf.rs`.

use std::path::PathBuf;
use std::time::Duration;

use peers::{Job, Machine};

/// A program of this machine, if it has it.
fn program(name: &str) -> PathBuf {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let mut paths = folders
        .iter()
        .map(|folder| PathBuf::from(folder).join(name));
    let found = paths.find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is missing: apt-get install iproute2 util-linux"))
}

/// Runs commands in a guest with two VFs; `{pf}` in them is the physical function.
#[track_caller]
fn succeeds(test: &str, commands: &[&str], more: &[PathBuf]) {
    let Some(guest) = peers::guest_or_skip(test) else {
        return;
    };
    let mut machine = Machine {
        pages_2m: 160,
        modules: vec!["igb".into()],
        ..Machine::default()
    };
    let wire = machine.pair("igb", "igb");
    let pf = &wire.ends[0];
    let mut script = format!(
        "for link in /sys/bus/pci/devices/{pf}/net/*; do ip link set ${{link##*/}} up; done\n\
         echo 2 > /sys/bus/pci/devices/{pf}/sriov_numvfs || exit 9\n\
         tries=0\n\
         until grep -q 1 /sys/bus/pci/devices/{pf}/net/*/carrier || [ $tries -gt 100 ]; do\n\
         tries=$((tries + 1)); sleep 0.1; done\n"
    );
    for command in commands {
        script.push_str(&format!("{} || exit 1\n", command.replace("{pf}", pf)));
    }
    let mut programs = vec![
        PathBuf::from(env!("CARGO_BIN_EXE_in_guest_vf")),
        program("ip"),
    ];
    programs.extend_from_slice(more);
    let job = Job {
        script,
        programs,
        limit: Duration::from_secs(240),
    };
    let outcome = guest
        .run(&machine, &job, &mut |line| println!("guest: {line}"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.status, 0, "{}", outcome.output);
    let fault = outcome.console.lines().find(|line| line.contains("DMAR:"));
    assert_eq!(fault, None, "the IOMMU had to stop a device");
}

#[test]
fn a_physical_functions_mtu_is_raised_when_needed_and_restored_however_rgen_ends() {
    let commands = [
        "./in_guest_vf mtu {pf}",
        "./setpriv --bounding-set -net_admin --inh-caps -net_admin ./in_guest_vf denied {pf}",
        "unshare -n -m sh -c 'umount -l /sys; mount -t sysfs sysfs /sys && ./in_guest_vf elsewhere {pf}'",
        "./in_guest_vf exits {pf}",
    ];
    let more = [program("setpriv"), rig::rgen::path().to_owned()];
    succeeds("the PF's MTU", &commands, &more);
}

#[test]
fn virtual_functions_survive_their_pfs_resets_and_keep_to_what_it_has_set() {
    let commands = [
        "./in_guest_vf resets {pf}",
        "./in_guest_vf spoofing {pf}",
        "./in_guest_vf vlans {pf}",
        "./in_guest_vf address {pf}",
    ];
    succeeds("the PF's rules", &commands, &[]);
}
