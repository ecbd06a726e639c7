//! Runs of the whole engine, as a bench needs them.

use std::sync::Arc;

use engine::frame::{Frames, Macs};
use engine::profile::Profile;
use engine::run::{Clock, Hooks, PortPlan, RunPlan, start};
use engine::stream::Stream;
use port::Port;

/// The time-stamp counter, for the engine.
#[derive(Clone, Copy)]
pub struct Tsc(hw::Clock);

impl Tsc {
    /// A calibrated one.
    #[must_use]
    pub fn calibrate() -> Self {
        Self(hw::Clock::calibrate())
    }
}

impl Clock for Tsc {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

/// What the `bench` profile sends from an even port, 64 B frames, with the knob `vm`.
///
/// # Panics
/// The profile has no such `vm`.
#[must_use]
pub fn stream(vm: &str) -> Stream {
    let knobs = [("size", "64"), ("vm", vm)];
    let profile = Profile::new("bench", &knobs).expect("the profile has this knob");
    let macs = Macs {
        src: [2, 0, 0, 0, 0, 1],
        dst: [2, 0, 0, 0, 0, 2],
    };
    profile.streams(0, macs).remove(0)
}

/// Its frames alone.
///
/// # Panics
/// As for [`stream`].
#[must_use]
pub fn frames(vm: &str) -> Frames {
    stream(vm).frames
}

/// A `null:` port.
///
/// # Panics
/// Never: it is always there.
#[must_use]
pub fn null() -> Box<dyn Port> {
    catalog::open(&["null:"], &catalog::Options::default())
        .expect("null: is always there")
        .remove(0)
}

/// Sends `stream` on `port` for `duration_ns` as fast as it goes, on one core; nanoseconds a
/// frame. Streams that repeat within `resident_limit` frames are rendered once.
///
/// # Panics
/// The run does not start, or its accounting does not close.
#[must_use]
pub fn ns_per_frame(
    port: Box<dyn Port>,
    stream: Stream,
    duration_ns: u64,
    resident_limit: usize,
    clock: Tsc,
) -> f64 {
    let sender = PortPlan {
        streams: vec![stream],
        unlimited: true,
        receive: false,
        promiscuous: false,
        ..PortPlan::new(port)
    };
    let plan = RunPlan {
        duration_ns: Some(duration_ns),
        resident_limit,
        yield_when_idle: false,
        cores: vec![0],
        ..RunPlan::new(vec![sender])
    };
    let hooks = Hooks {
        on_worker_start: Arc::new(|_| {}),
    };
    let run = start(plan, clock, hooks).expect("the run starts");
    let outcome = run.join().outcome;
    assert_eq!(outcome.check(), [""; 0], "every frame is accounted for");
    outcome.duration_s * 1e9 / outcome.figures.ports[0].tx_frames as f64
}
