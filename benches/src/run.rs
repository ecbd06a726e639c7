//! Runs of the whole engine, as a bench needs them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::frame::{Frames, Macs};
use engine::profile::Profile;
use engine::run::{Clock, Hooks, PortPlan, RunPlan, start};
use engine::stream::{Rate, Stream};
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

/// A clock that each reading moves by the same step: nothing is waited for.
#[derive(Clone, Copy)]
struct Counting {
    readings: &'static AtomicU64,
    step_ns: u64,
}

impl Clock for Counting {
    fn now_ns(&self) -> u64 {
        self.readings.fetch_add(self.step_ns, Ordering::Relaxed)
    }
}

/// Sends `frames` frames of `stream` on `port`, at a rate at which `frames_a_visit` are due each
/// time that the worker comes by.
///
/// # Panics
/// The run does not start, or its accounting does not close.
pub fn paced(port: Box<dyn Port>, mut stream: Stream, frames: u64, frames_a_visit: u32) {
    static READINGS: AtomicU64 = AtomicU64::new(1);
    const STEP_NS: u64 = 1000;
    stream.rate = Rate::Pps(f64::from(frames_a_visit) * 1e9 / STEP_NS as f64);
    let sender = PortPlan {
        streams: vec![stream],
        receive: false,
        ..PortPlan::new(port)
    };
    let plan = RunPlan {
        frames_limit: Some(frames),
        yield_when_idle: false,
        ..RunPlan::new(vec![sender])
    };
    let clock = Counting {
        readings: &READINGS,
        step_ns: STEP_NS,
    };
    let run = start(plan, clock, Hooks::default()).expect("the run starts");
    assert_eq!(
        run.join().outcome.check(),
        [""; 0],
        "every frame is accounted for"
    );
}

/// Sends `frames` frames of `stream` on `port` as fast as it goes.
///
/// # Panics
/// As for [`paced`].
pub fn unpaced(port: Box<dyn Port>, stream: Stream, frames: u64, clock: Tsc) {
    let streams = vec![stream];
    let sender = PortPlan {
        streams,
        unlimited: true,
        receive: false,
        ..PortPlan::new(port)
    };
    let plan = RunPlan {
        frames_limit: Some(frames),
        yield_when_idle: false,
        ..RunPlan::new(vec![sender])
    };
    let run = start(plan, clock, Hooks::default()).expect("the run starts");
    assert_eq!(
        run.join().outcome.check(),
        [""; 0],
        "every frame is accounted for"
    );
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
