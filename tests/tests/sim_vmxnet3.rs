//! The vmxnet3 driver on the model of a vmxnet3 device: the whole conformance suite, for each way
//! in which a device may be.

use std::sync::Arc;

use models::vmxnet3::{Notify, Vmxnet3, Vmxnet3Options};
use models::{Sim, SimOptions, WireOptions};
use port::Port;
use rig::conformance::{Failure, Pair, run_all};
use vmxnet3::Options;

/// A pair of drivers on two devices with these options.
fn pair(device: &Vmxnet3Options, driver: &Options) -> Result<Pair, Failure> {
    let boxed = |last: u8| {
        let options = Vmxnet3Options {
            mac: [0, 0x0c, 0x29, 0, 0, last],
            ..device.clone()
        };
        Vmxnet3::boxed(&format!("sim:vmxnet3/{last}"), &options)
    };
    let options = SimOptions {
        // Tests run side by side, so a model gives its core away when it has nothing to do.
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    let wire = WireOptions::default();
    let sim = Arc::new(Sim::with_options(boxed(0), boxed(1), wire, options));
    let open = |end| -> Result<Box<dyn Port>, Failure> {
        let opened = vmxnet3::open(sim.function(end), driver);
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
fn conforms(device: &Vmxnet3Options, driver: &Options) {
    match run_all(&|| pair(device, driver)) {
        Ok(lines) => {
            let held = lines.iter().filter(|line| line.starts_with("ok: ")).count();
            let all = lines.join("\n");
            assert!(held >= 15, "hardly anything was checked:\n{all}");
            println!("{all}");
        }
        Err(failures) => panic!("{device:?}\n{driver:?}\n{failures}"),
    }
}

#[test]
fn a_device_of_the_newest_revision_conforms() {
    conforms(&Vmxnet3Options::default(), &Options::default());
}

#[test]
fn devices_of_older_revisions_conform() {
    for revision in [2, 3, 4] {
        let device = Vmxnet3Options {
            revision,
            ..Vmxnet3Options::default()
        };
        conforms(&device, &Options::default());
    }
}

#[test]
fn a_device_like_qemus_conforms() {
    conforms(&Vmxnet3Options::qemu(), &Options::default());
}

#[test]
fn a_device_that_wants_to_know_what_is_armed_conforms() {
    let device = Vmxnet3Options {
        update_rx_prod: true,
        ..Vmxnet3Options::default()
    };
    conforms(&device, &Options::default());
}

#[test]
fn a_device_that_polls_and_wants_few_doorbells_conforms() {
    let device = Vmxnet3Options {
        notify: Notify::Polls,
        tx_threshold: 64,
        ..Vmxnet3Options::default()
    };
    conforms(&device, &Options::default());
}

#[test]
fn a_device_that_keeps_its_address_conforms() {
    let device = Vmxnet3Options {
        activation_resets_mac: false,
        ..Vmxnet3Options::default()
    };
    conforms(&device, &Options::default());
}

#[test]
fn frames_that_do_not_go_through_data_rings_conform() {
    let driver = Options {
        data_ring: Some(false),
        rx_data_ring: Some(false),
        ..Options::default()
    };
    conforms(&Vmxnet3Options::default(), &driver);
}
