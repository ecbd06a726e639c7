//! The driver of 82576's virtual functions under Linux's own igb, which has QEMU's physical
//! function: two of its VFs, which its switch joins.

use std::path::PathBuf;
use std::time::Duration;

use peers::{Job, Machine};

/// What QEMU's switch between VFs does not do: with all-multicast mode granted by igb
/// (`VMOLR.MPME`), groups outside the hash table still do not arrive. That is QEMU's fault: its
/// `igb_receive_assign` (`hw/net/igb_core.c`) gives a group to the pools with `ROMPE` where the hash
/// table has it, broadcasts to those with `BAM`, and looks at `MPME` nowhere; the data sheet has
/// `MPME` let every group in (82576, VMOLR). Groups that a VF names do arrive, and are checked.
const NOT_IN_QEMU: &str = "all multicast true, and a group's frame received: false";

#[test]
fn two_virtual_functions_of_linux_igb_conform_but_for_all_multicast_mode() {
    let Some(guest) = peers::guest_or_skip("igbvf") else {
        return;
    };
    let mut machine = Machine {
        pages_2m: 160,
        modules: vec!["igb".into()],
        ..Machine::default()
    };
    let wire = machine.pair("igb", "igb");
    let pf = &wire.ends[0];
    let bus = pf.trim_end_matches("00.0");
    // VFs begin 80h behind their PF, two apart (82576 §9.6.4).
    let script = format!(
        "for link in /sys/bus/pci/devices/{pf}/net/*; do ip link set ${{link##*/}} up; done\n\
         echo 2 > /sys/bus/pci/devices/{pf}/sriov_numvfs || exit 9\n\
         tries=0\n\
         until grep -q 1 /sys/bus/pci/devices/{pf}/net/*/carrier || [ $tries -gt 100 ]; do\n\
         tries=$((tries + 1)); sleep 0.1; done\n\
         ./conformance --where pci:{bus}10.0,{bus}10.2 --lines igbvf\n"
    );
    let job = Job {
        script,
        programs: vec![PathBuf::from(env!("CARGO_BIN_EXE_conformance"))],
        limit: Duration::from_secs(600),
    };
    let outcome = guest
        .run(&machine, &job, &mut |line| println!("guest: {line}"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.status <= 1, "{}", outcome.output);
    let of = |verdict: &str| {
        let lines = outcome.output.lines();
        lines
            .filter(|line| line.contains(verdict))
            .collect::<Vec<_>>()
    };
    let failed = of(r#""verdict":"failed""#);
    let unknown = failed.iter().find(|line| !line.contains(NOT_IN_QEMU));
    assert_eq!(unknown, None);
    let passed = of(r#""verdict":"passed""#).len();
    assert!(
        passed >= 25,
        "only {passed} checks passed:\n{}",
        outcome.output
    );
    let fault = outcome.console.lines().find(|line| line.contains("DMAR:"));
    assert_eq!(fault, None, "the IOMMU had to stop a device");
}
