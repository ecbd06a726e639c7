//! The ixgbe driver through the real kernel's VFIO and a virtual IOMMU, on our models: they are served
//! to a guest over vfio-user, two on a wire, and the suite runs in there.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use models::ixgbe::{Ixgbe, IxgbeOptions, IxgbeVf, IxgbeVfOptions, Kind};
use models::vfio_user::serve;
use models::{Device, Sim, SimOptions, WireOptions};
use peers::{Job, Machine};

/// Runs the suite on two of `device` and wants `least` checks to pass, and none to fail.
#[track_caller]
fn conforms(what: &str, least: usize, device: impl Fn(u8) -> Box<dyn Device>) {
    let Some(guest) = peers::guest_or_skip(what) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let options = SimOptions {
        // QEMU wants both cores of a small machine.
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    let wire = WireOptions::default();
    let sim = Arc::new(Sim::with_options(device(0), device(1), wire, options));
    let served = [(0, "a"), (1, "b")].map(|(end, name)| {
        serve(sim.function(end), &folder.path().join(name)).expect("a socket can be made")
    });
    let mut machine = Machine {
        pages_2m: 160,
        ..Machine::default()
    };
    // Unposted: the suite takes a receiver's frames for armed once its tail was written, and a write
    // that is still on its way to one model would race with the frames of the other.
    let ends = machine.served_pair(["a", "b"], false).ends;
    let [first, second] = &ends;
    let job = Job {
        script: format!("./conformance --where pci:{first},{second} --lines {what}\n"),
        programs: vec![PathBuf::from(env!("CARGO_BIN_EXE_conformance"))],
        limit: Duration::from_secs(600),
    };
    let outcome = guest
        .run_in(folder.path(), &machine, &job, &mut |line| {
            println!("guest: {line}");
        })
        .unwrap_or_else(|error| panic!("{error}"));
    drop(served);
    let of = |verdict: &str| {
        let lines = outcome.output.lines();
        lines
            .filter(|line| line.contains(verdict))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(r#""verdict":"failed""#), [""; 0]);
    assert_eq!(outcome.status, 0, "{}", outcome.output);
    let passed = of(r#""verdict":"passed""#).len();
    assert!(
        passed >= least,
        "only {passed} checks passed:\n{}",
        outcome.output
    );
    let fault = outcome.console.lines().find(|line| line.contains("DMAR:"));
    assert_eq!(fault, None, "the IOMMU had to stop a device");
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn two_82599s_conform_behind_vfio() {
    conforms("ixgbe", 25, |end| {
        let mac = [0x02, 0x1b, 0x21, 0, 1, end];
        let options = IxgbeOptions::of(Kind::I82599, mac);
        Ixgbe::boxed(&format!("sim:ixgbe/{end}"), &options)
    });
}

#[test]
fn two_virtual_functions_of_82599_conform_behind_vfio() {
    conforms("ixgbevf", 15, |end| {
        let mut options = IxgbeVfOptions::of(Kind::I82599, [0x02, 0x1b, 0x21, 0, 2, end]);
        options.pf.mtu = 9710;
        options.pf.trusted = true;
        IxgbeVf::boxed(&format!("sim:ixgbevf/{end}"), &options)
    });
}
