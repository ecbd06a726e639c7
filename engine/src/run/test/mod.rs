//! Whole runs over a wire in memory, on a clock that moves when it is read.

mod send;

use std::sync::Arc;

use super::clock::manual::Manual;
use super::fake::{self, Knobs};
use super::{Finished, Hooks, PortPlan, RunPlan, start};
use crate::frame::{Frames, Template};
use crate::stream::{Measure, Rate, Stream};

pub(super) const MS: u64 = 1_000_000;

/// Ethernet, IPv4 and UDP of `len` bytes without FCS; UDP checksum 0.
pub(super) fn udp(len: usize) -> Frames {
    let mut bytes = vec![0; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17]);
    let total = u16::try_from(len - 14).unwrap();
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    for (at, byte) in bytes.iter_mut().enumerate().skip(42) {
        *byte = u8::try_from(at % 251).unwrap();
    }
    Frames::constant(Template::raw(bytes))
}

pub(super) fn stream(name: &str, pps: f64, measure: Measure) -> Stream {
    let mut stream = Stream::new(name, udp(60));
    stream.rate = Rate::Pps(pps);
    stream.measure = measure;
    stream
}

/// A run from one end of a wire to the other.
pub(super) fn plan(streams: Vec<Stream>) -> (RunPlan, Arc<Knobs>) {
    let (a, b, knobs) = fake::pair();
    let mut sender = PortPlan::new(a);
    sender.streams = streams;
    sender.peer = Some(1);
    let receiver = PortPlan::new(b);
    let mut plan = RunPlan::new(vec![sender, receiver]);
    plan.duration_ns = Some(20 * MS);
    plan.quiet_ns = MS / 10;
    (plan, knobs)
}

/// Runs to the end and checks that every frame is accounted for.
pub(super) fn run(plan: RunPlan, clock: Manual) -> Finished {
    let run = start(plan, clock, Hooks::default()).unwrap();
    let finished = run.join();
    let broken = finished.outcome.check();
    assert!(broken.is_empty(), "{broken:?}\n{:#?}", finished.outcome);
    finished
}
