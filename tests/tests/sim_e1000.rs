//! The e1000 driver on the models of its devices: the whole conformance suite, for each of them.

use std::sync::Arc;

use e1000::Options;
use models::e1000::{E1000, E1000Options, Kind, VfMac};
use models::{Device, Sim, SimOptions, WireOptions};
use rig::conformance::{Failure, Pair, run_all};

/// Two devices on a wire, and the driver on each.
fn pair(device: &dyn Fn(u8) -> Box<dyn Device>, driver: &Options) -> Result<Pair, Failure> {
    let options = SimOptions {
        // Tests run side by side, so a model gives its core away when it has nothing to do.
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    let wire = WireOptions::default();
    let sim = Arc::new(Sim::with_options(device(0), device(1), wire, options));
    let open = |end| {
        let opened = e1000::open_pci(sim.function(end), driver);
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

fn options(kind: Kind, end: u8) -> E1000Options {
    E1000Options::of(kind, [0x02, 0x1b, 0x21, 0, 0, end])
}

#[track_caller]
fn conforms(held_at_least: usize, change: impl Fn(&mut E1000Options), kind: Kind) {
    let device = |end: u8| {
        let mut options = options(kind, end);
        change(&mut options);
        E1000::boxed(&format!("sim:{kind:?}/{end}"), &options)
    };
    match run_all(&|| pair(&device, &Options::default())) {
        Ok(lines) => {
            let held = lines.iter().filter(|line| line.starts_with("ok: ")).count();
            assert!(
                held >= held_at_least,
                "hardly anything was checked:\n{}",
                lines.join("\n")
            );
            println!("{}", lines.join("\n"));
        }
        Err(failures) => panic!("{kind:?}\n{failures}"),
    }
}

#[test]
fn an_82540em_conforms() {
    conforms(20, |_| {}, Kind::E1000);
}

#[test]
fn an_82574l_conforms() {
    conforms(20, |_| {}, Kind::E1000e);
}

#[test]
fn an_82576_conforms() {
    conforms(21, |_| {}, Kind::Igb);
}

#[test]
fn a_virtual_function_that_is_given_an_address_conforms() {
    conforms(15, |options| options.pf.mac = VfMac::Given, Kind::IgbVf);
}

#[test]
fn a_virtual_function_that_is_given_no_address_conforms() {
    conforms(15, |options| options.pf.mac = VfMac::Unset, Kind::IgbVf);
}
