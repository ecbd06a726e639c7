//! Whole runs over a wire in memory, on a clock that moves when it is read.

mod account;
mod answer;
mod arrive;
mod forward;
mod pacing;
mod parts;
mod trials;

use std::sync::Arc;

use super::clock::manual::Manual;
use super::fake::{self, Knobs};
use super::{Hooks, Outcome, PortPlan, Run, RunPlan, start};
use crate::frame::{Frames, Template};
use crate::stream::{Measure, Rate, Stream};

const MS: u64 = 1_000_000;

/// Ethernet, IPv4 and UDP of `len` bytes without FCS; UDP checksum 0.
fn udp_bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17]);
    let total = u16::try_from(len - 14).unwrap();
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    for (at, byte) in bytes.iter_mut().enumerate().skip(42) {
        *byte = u8::try_from(at % 251).unwrap();
    }
    bytes
}

fn udp(len: usize) -> Frames {
    Frames::constant(Template::raw(udp_bytes(len)))
}

fn stream(name: &str, pps: f64, measure: Measure) -> Stream {
    let mut stream = Stream::new(name, udp(60));
    stream.rate = Rate::Pps(pps);
    stream.measure = measure;
    stream
}

/// A run of 20 ms from one end of a wire to the other.
fn plan(streams: Vec<Stream>) -> (RunPlan, Arc<Knobs>) {
    let (a, b, knobs) = fake::pair();
    let mut sender = PortPlan::new(a);
    sender.streams = streams;
    sender.peer = Some(1);
    let receiver = PortPlan::new(b);
    let mut plan = RunPlan::new(vec![sender, receiver]);
    plan.duration_ns = Some(20 * MS);
    plan.quiet_ns = MS / 10;
    // For so long, lost frames are waited for.
    plan.drain_ns = 5 * MS;
    // The clock does not go on by itself, so the worker waits for nobody.
    plan.yield_when_idle = false;
    (plan, knobs)
}

/// Waits for the end of a run and checks that every frame is accounted for.
fn join(run: Run) -> Outcome {
    let outcome = run.join().outcome;
    let broken = outcome.check();
    assert!(broken.is_empty(), "{broken:?}\n{outcome:#?}");
    outcome
}

fn run(plan: RunPlan, clock: Manual) -> Outcome {
    join(start(plan, clock, Hooks::default()).unwrap())
}
