//! Cycles a frame, engine and driver together, for each way of sending, beside the targets.
//!
//! Every row is a whole run of the engine: pacing, accounting, completion. The device completes
//! in the same thread and its own share, measured in a run of its own, is taken off.

use std::sync::PoisonError;

use benches::{Consumed, Rings, Tsc, core_ghz, ixgbe, ns_per_frame, null, stream};
use port::Port;

/// How long each run sends: so short that some of them are not disturbed by whatever else the
/// machine does.
const RUN_NS: u64 = 5_000_000;
/// Runs of each kind; the fastest counts, as what disturbs a run only ever slows it.
const RUNS: usize = 40;
/// Frames that a repeating stream may have to be rendered once.
const RENDERED: usize = 16_384;

/// A way of sending: its name, the profile's `vm`, whether rendered frames are allowed, and the
/// most cycles a frame that the design wants.
const ROWS: &[(&str, &str, usize, Option<f64>)] = &[
    ("none, resident", "none", RENDERED, Some(4.0)),
    ("cached, rendered", "cached", RENDERED, Some(12.0)),
    ("var1, rendered", "var1", RENDERED, Some(25.0)),
    ("var1, written at send", "var1", 0, Some(25.0)),
    ("var2, written at send", "var2", 0, None),
    ("random", "random", RENDERED, None),
    ("tuple", "tuple", RENDERED, None),
    ("size", "size", RENDERED, None),
];

fn main() {
    let clock = Tsc::calibrate();
    println!(
        "core {:.2} GHz; cycles a frame, engine and driver, the device's share taken off",
        core_ghz()
    );
    println!(
        "{:<24}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}",
        "", "split", "packed", "82599", "null:", "Mpps", "target"
    );
    for &(name, vm, limit, target) in ROWS {
        let split = on_ring(Rings::Split, vm, limit, clock);
        let packed = on_ring(Rings::Packed, vm, limit, clock);
        let nic = on_nic(vm, limit, clock);
        let alone = fastest(|| ns_per_frame(null(), stream(vm), RUN_NS, limit, clock));
        let ghz = core_ghz();
        let target = target.map_or("-".into(), |cycles| format!("{cycles:.0}"));
        println!(
            "{name:<24}{:>8.1}{:>8.1}{:>8.1}{:>8.1}{:>8.0}{target:>8}",
            split * ghz,
            packed * ghz,
            nic * ghz,
            alone * ghz,
            1e3 / alone,
        );
    }
}

/// Nanoseconds a frame on a virtio ring, without the device's share.
fn on_ring(rings: Rings, vm: &str, limit: usize, clock: Tsc) -> f64 {
    let device = fastest(|| {
        let port = Consumed::new(rings, true);
        let share = port.share();
        let _ = ns_per_frame(Box::new(port), stream(vm), RUN_NS, limit, clock);
        share
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .ns_per_frame()
    });
    let whole = fastest(|| {
        let port: Box<dyn Port> = Box::new(Consumed::new(rings, false));
        ns_per_frame(port, stream(vm), RUN_NS, limit, clock)
    });
    whole - device
}

/// Nanoseconds a frame on an 82599's ring, without the device's share.
fn on_nic(vm: &str, limit: usize, clock: Tsc) -> f64 {
    let device = fastest(|| {
        let (port, share) = ixgbe(true);
        let _ = ns_per_frame(port, stream(vm), RUN_NS, limit, clock);
        share.ns_per_frame()
    });
    let whole = fastest(|| ns_per_frame(ixgbe(false).0, stream(vm), RUN_NS, limit, clock));
    whole - device
}

fn fastest(mut run: impl FnMut() -> f64) -> f64 {
    (0..RUNS).map(|_| run()).fold(f64::MAX, f64::min)
}
