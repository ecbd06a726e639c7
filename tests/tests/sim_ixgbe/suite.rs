//! The whole conformance suite, on each device.

use std::sync::Arc;

use ixgbe::Options;
use models::ixgbe::{Api, Ixgbe, IxgbeOptions, IxgbeVf, IxgbeVfOptions, Kind, Module, VfMac};
use models::{Device, Sim, SimOptions, WireOptions};
use rig::conformance::{Failure, Pair, run_all};

use super::address;

/// Two devices on a wire, and the driver on each.
fn pair(device: &dyn Fn(u8) -> Box<dyn Device>) -> Result<Pair, Failure> {
    let options = SimOptions {
        // Tests run side by side, so a model gives its core away when it has nothing to do.
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    let wire = WireOptions::default();
    let sim = Arc::new(Sim::with_options(device(0), device(1), wire, options));
    let open = |end| {
        let opened = ixgbe::open_pci(sim.function(end), &Options::default());
        opened.map_err(|error| Failure::Found(error.to_string()))
    };
    Ok(Pair {
        ports: [open(0)?, open(1)?],
        objections: Box::new(move || {
            let mut objections = sim.objections();
            for end in [0, 1] {
                // While nothing moves; a check leaves with both ports stopped.
                let lost = sim.unaccounted(end);
                if lost != 0 {
                    objections.push(format!("{lost} frames from end {end} are unaccounted for"));
                }
            }
            objections
        }),
    })
}

#[track_caller]
fn conforms(held_at_least: usize, device: &dyn Fn(u8) -> Box<dyn Device>) {
    match run_all(&|| pair(device)) {
        Ok(lines) => {
            let held = lines.iter().filter(|line| line.starts_with("ok: ")).count();
            assert!(
                held >= held_at_least,
                "hardly anything was checked:\n{}",
                lines.join("\n")
            );
            println!("{}", lines.join("\n"));
        }
        Err(failures) => panic!("{failures}"),
    }
}

#[track_caller]
fn pf_conforms(kind: Kind, change: impl Fn(&mut IxgbeOptions)) {
    conforms(25, &|end| {
        let mut options = IxgbeOptions::of(kind, address(end));
        change(&mut options);
        Ixgbe::boxed(&format!("sim:{kind:?}/{end}"), &options)
    });
}

#[track_caller]
fn vf_conforms(held_at_least: usize, kind: Kind, change: impl Fn(&mut IxgbeVfOptions)) {
    conforms(held_at_least, &|end| {
        let mut options = IxgbeVfOptions::of(kind, address(end));
        change(&mut options);
        IxgbeVf::boxed(&format!("sim:{kind:?} VF/{end}"), &options)
    });
}

#[test]
fn an_82599_conforms() {
    pf_conforms(Kind::I82599, |_| {});
}

#[test]
fn an_82599_with_a_direct_attach_cable_conforms() {
    pf_conforms(Kind::I82599, |options| options.module = Module::Cable);
}

#[test]
fn an_x540_conforms() {
    pf_conforms(Kind::X540, |_| {});
}

#[test]
fn an_x550_conforms() {
    pf_conforms(Kind::X550, |_| {});
}

#[test]
fn a_virtual_function_of_82599_conforms_with_a_pf_as_linux_has_it() {
    vf_conforms(15, Kind::I82599, |options| {
        options.pf.trusted = true;
        // What an 82599's needs for the checks with large frames.
        options.pf.mtu = 9710;
    });
}

#[test]
fn a_virtual_function_that_is_given_no_address_and_speaks_the_oldest_version_conforms() {
    vf_conforms(12, Kind::X540, |options| {
        options.pf.mac = VfMac::Unset;
        options.pf.newest_api = Api::V10;
    });
}

#[test]
fn a_virtual_function_whose_sender_keeps_the_mailbox_conforms() {
    vf_conforms(15, Kind::X540, |options| {
        options.pf.newest_api = Api::V15;
        options.pf.trusted = true;
        options.pf.promiscuous = true;
    });
}

#[test]
fn a_virtual_function_of_x550_conforms_with_rss_of_its_own() {
    vf_conforms(17, Kind::X550, |options| {
        options.pf.trusted = true;
        options.pf.promiscuous = true;
    });
}
