//! The ixgbe driver on the models of its devices.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod devices;
mod suite;
mod virtual_function;

use std::sync::Arc;
use std::time::Instant;

use ixgbe::Options;
use models::ixgbe::{Ixgbe, IxgbeOptions, IxgbeVf, IxgbeVfOptions, Kind};
use models::{Device, Sim, SimOptions, WireOptions};
use port::{Config, Offloads, Port};
use rig::conformance::{Line, PATIENCE, frame, same};

/// A kind of function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// A physical one.
    Pf(Kind),
    /// A virtual one, whose PF has a large MTU and trusts it.
    Vf(Kind),
}

const PFS: [Which; 3] = [
    Which::Pf(Kind::I82599),
    Which::Pf(Kind::X540),
    Which::Pf(Kind::X550),
];
const ALL: [Which; 6] = [
    PFS[0],
    PFS[1],
    PFS[2],
    Which::Vf(Kind::I82599),
    Which::Vf(Kind::X540),
    Which::Vf(Kind::X550),
];

fn address(end: u8) -> [u8; 6] {
    [0x02, 0x1b, 0x21, 0, 0, end]
}

fn virtual_function(kind: Kind, end: u8, change: impl FnOnce(&mut IxgbeVfOptions)) -> IxgbeVf {
    let mut options = IxgbeVfOptions::of(kind, address(end));
    options.pf.mtu = 9710;
    options.pf.trusted = true;
    options.pf.promiscuous = true;
    change(&mut options);
    IxgbeVf::new(&format!("sim:ixgbevf/{end}"), &options)
}

fn device(which: Which, end: u8) -> Box<dyn Device> {
    match which {
        Which::Pf(kind) => Ixgbe::boxed(
            &format!("sim:ixgbe/{end}"),
            &IxgbeOptions::of(kind, address(end)),
        ),
        Which::Vf(kind) => Box::new(virtual_function(kind, end, |_| {})),
    }
}

fn join(devices: [Box<dyn Device>; 2]) -> Arc<Sim> {
    let options = SimOptions {
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    let [first, second] = devices;
    Arc::new(Sim::with_options(
        first,
        second,
        WireOptions::default(),
        options,
    ))
}

fn wired(which: Which) -> Arc<Sim> {
    join([0, 1].map(|end| device(which, end)))
}

fn ports(sim: &Sim) -> [Box<dyn Port>; 2] {
    [0, 1].map(|end| ixgbe::open_pci(sim.function(end), &Options::default()).unwrap())
}

fn offloading(offloads: Offloads) -> Config {
    Config {
        offloads,
        ..Config::default()
    }
}

fn stop(line: Line, sim: &Sim) {
    line.stop().unwrap();
    assert_eq!(sim.objections(), [""; 0]);
    assert_eq!([sim.unaccounted(0), sim.unaccounted(1)], [0, 0]);
}

/// Serves both ports until `done` says so of all that they said.
fn serve_until(line: &mut Line, mut done: impl FnMut(&[String]) -> bool) {
    let mut said = Vec::new();
    let started = Instant::now();
    while !done(&said) {
        assert!(started.elapsed() < 4 * PATIENCE, "they said only {said:?}");
        for end in &mut line.ends {
            said.extend(end.service().unwrap());
            // A queue clears its ring in a call of its owner's.
            end.reap();
        }
        let mut out = Vec::new();
        line.collect(0, &mut out);
        line.collect(1, &mut out);
    }
}

/// One round of both ports' and their queues' turns.
fn serve_once(line: &mut Line) {
    for end in &mut line.ends {
        end.service().unwrap();
        end.reap();
    }
    let mut out = Vec::new();
    line.collect(0, &mut out);
    line.collect(1, &mut out);
}

/// Moves frames both ways and compares them.
fn traffic(line: &mut Line, first: u64) {
    let macs = line.macs();
    for from in [0, 1] {
        let frames: Vec<_> = (first..first + 300)
            .map(|n| frame(macs[1 - from], macs[from], 60 + (n % 1000) as usize, n))
            .collect();
        let received = line.transfer(from, &frames, frames.len()).unwrap();
        same(&frames, &received).unwrap();
    }
}
