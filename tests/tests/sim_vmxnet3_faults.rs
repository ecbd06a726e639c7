//! The vmxnet3 driver on a device that fails: an error in words, never a hang, and no frame lost.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use models::vmxnet3::{Vmxnet3, Vmxnet3Options};
use models::{Fault, Sim, SimOptions, WireOptions};
use port::{Config, LinkState, Port, PortError, QueueState};
use rig::conformance::{End, Line, PATIENCE, Received, frame, same};
use vmxnet3::Options;

/// Longer than anything that waits for a device may take.
const BOUND: Duration = Duration::from_secs(20);

fn wired() -> Arc<Sim> {
    let boxed = |last: u8| {
        let options = Vmxnet3Options {
            mac: [0, 0x0c, 0x29, 0, 0, last],
            ..Vmxnet3Options::default()
        };
        Vmxnet3::boxed(&format!("sim:vmxnet3/{last}"), &options)
    };
    let options = SimOptions {
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    let wire = WireOptions::default();
    Arc::new(Sim::with_options(boxed(0), boxed(1), wire, options))
}

fn open(sim: &Sim) -> [Box<dyn Port>; 2] {
    [0, 1].map(|end| vmxnet3::open(sim.function(end), &Options::default()).unwrap())
}

/// A line that has moved frames both ways.
fn start() -> (Arc<Sim>, Line) {
    let sim = wired();
    let mut line = Line::start(open(&sim), &Config::default()).unwrap();
    for from in [0, 1] {
        moves(&mut line, from);
    }
    (sim, line)
}

#[track_caller]
fn moves(line: &mut Line, from: usize) {
    let macs = line.macs();
    let frames: Vec<_> = (0..100)
        .map(|n| frame(macs[1 - from], macs[from], 80, n))
        .collect();
    let received = line.transfer(from, &frames, frames.len()).unwrap();
    same(&frames, &received).unwrap();
}

/// Sends from end 0 to end 1 for a moment or until `done`, whatever happens; what arrived, and
/// what each port said.
fn drive(
    line: &mut Line,
    limit: Duration,
    done: impl Fn(&Line, &[Vec<String>; 2]) -> bool,
) -> (Vec<Received>, [Vec<String>; 2]) {
    let macs = line.macs();
    let started = Instant::now();
    let (mut arrived, mut said) = (Vec::new(), [Vec::new(), Vec::new()]);
    let mut number = 1000;
    while started.elapsed() < limit && !done(line, &said) {
        let mut frames = (0..8)
            .map(|n| frame(macs[1], macs[0], 100, number + n))
            .collect();
        number += line.ends[0].post(0, &mut frames, 8) as u64;
        line.ends[0].reap();
        line.collect(1, &mut arrived);
        for (end, said) in line.ends.iter_mut().zip(&mut said) {
            match end.port.service() {
                Ok(events) => said.extend(events),
                Err(error) => said.push(format!("failed: {error}")),
            }
        }
        std::thread::yield_now();
    }
    (arrived, said)
}

fn has_failed(line: &Line, end: usize) -> bool {
    let queues = &line.ends[end].queues;
    let tx = queues.tx.iter().map(|queue| queue.state());
    let rx = queues.rx.iter().map(|queue| queue.state());
    tx.chain(rx).any(|state| state == QueueState::Failed)
}

/// Stops both ports within [`BOUND`]; each port's answer. Every frame must be home.
#[track_caller]
fn stop(line: Line) -> Vec<Result<(), PortError>> {
    let started = Instant::now();
    let mut answers = Vec::new();
    for end in line.ends {
        let End {
            mut port,
            queues,
            to_send,
            to_arm,
            ..
        } = end;
        answers.push(port.stop(queues));
        to_send.close().unwrap();
        to_arm.close().unwrap();
    }
    assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
    answers
}

#[test]
fn a_completion_of_a_slot_that_does_not_exist_fails_the_port() {
    for at in [0, 1] {
        let (sim, mut line) = start();
        sim.faults(at).switch_on(Fault::IdOutOfRange);
        let failed = |line: &Line, said: &[Vec<String>; 2]| {
            has_failed(line, at) || said[at].iter().any(|what| what.starts_with("failed: "))
        };
        let (arrived, said) = drive(&mut line, PATIENCE, failed);
        assert!(sim.faults(at).done(Fault::IdOutOfRange) > 0);
        assert!(failed(&line, &said), "went unnoticed at {at}: {said:?}");
        let error = line.ends[at].port.service().unwrap_err().to_string();
        assert!(error.contains(&format!("sim:vmxnet3/{at}")), "{error}");
        assert!(arrived.iter().all(|got| got.bytes.len() == 100));
        stop(line);
    }
}

#[test]
fn a_length_that_its_buffer_does_not_have_never_reaches_the_engine() {
    let (sim, mut line) = start();
    sim.faults(1).inject(Fault::WrongLength, 3);
    let done = |_: &Line, _: &[Vec<String>; 2]| sim.faults(1).done(Fault::WrongLength) == 3;
    drive(&mut line, PATIENCE, done);
    let (arrived, said) = drive(&mut line, Duration::from_millis(100), |_, _| false);
    assert!(sim.faults(1).done(Fault::WrongLength) > 0);
    let errors = line.ends[1].port.counters();
    let counted = errors.is_ok_and(|counters| counters.rx_errors > 0);
    assert!(
        counted || has_failed(&line, 1) || !said[1].is_empty(),
        "nobody noticed"
    );
    for got in arrived {
        let is_marked = got.meta.flags.contains(port::RxFlags::ERROR);
        assert!(is_marked || got.bytes.len() == 100, "{:?}", got.meta);
    }
    stop(line);
}

#[test]
fn queues_that_stand_still_are_told_or_started_over() {
    for at in [0, 1] {
        let (sim, mut line) = start();
        sim.faults(at).inject(Fault::NeedsReset, 1);
        let (_, said) = drive(&mut line, PATIENCE, |_, said| !said[at].is_empty());
        assert!(!said[at].is_empty(), "nobody noticed at {at}");
        stop(line);
    }
}

#[test]
fn a_lost_completion_hangs_nothing_and_its_frame_comes_home_at_the_stop() {
    for (fault, at) in [(Fault::TxCompletionLost, 0), (Fault::RxCompletionLost, 1)] {
        let (sim, mut line) = start();
        sim.faults(at).inject(fault, 5);
        let done = |_: &Line, _: &[Vec<String>; 2]| sim.faults(at).done(fault) == 5;
        drive(&mut line, PATIENCE, done);
        drive(&mut line, Duration::from_millis(100), |_, _| false);
        assert_eq!(sim.faults(at).done(fault), 5);
        stop(line);
    }
}

#[test]
fn a_device_that_is_pulled_out_under_load_is_an_error_at_once() {
    for at in [0, 1] {
        let (sim, mut line) = start();
        sim.faults(at).switch_on(Fault::Removed);
        let gone = |_: &Line, said: &[Vec<String>; 2]| {
            said[at].iter().any(|what| what.starts_with("failed: "))
        };
        let (_, said) = drive(&mut line, PATIENCE, gone);
        assert!(
            said[at].iter().any(|what| what.contains("gone")),
            "{said:?}"
        );
        let answers = stop(line);
        assert!(answers[1 - at].is_ok(), "{answers:?}");
        assert_eq!(sim.objections(), [""; 0]);
    }
}

#[test]
fn a_device_that_refuses_to_begin_is_an_error_in_words() {
    let sim = wired();
    let [mut first, second] = open(&sim);
    sim.faults(0).switch_on(Fault::CommandRefused);
    let memory = hugemem::Memory::new(&hugemem::MemoryRequest {
        bytes: 64 << 20,
        pages: hugemem::Pages::HugeOrBase,
        node: None,
        spaces: vec![first.space()],
    })
    .unwrap();
    let Err(error) = first.start(&Config::default(), &memory) else {
        panic!("it started");
    };
    assert!(error.to_string().contains("sim:vmxnet3/0"), "{error}");
    sim.faults(0).clear(Fault::CommandRefused);
    let mut line = Line::start([first, second], &Config::default()).unwrap();
    moves(&mut line, 0);
    stop(line).into_iter().for_each(Result::unwrap);
}

#[test]
fn a_reset_that_never_ends_hangs_nothing() {
    let (sim, line) = start();
    sim.faults(0).switch_on(Fault::StuckReset);
    let answers = stop(line);
    assert!(sim.faults(0).done(Fault::StuckReset) > 0);
    assert!(answers[1].is_ok(), "{answers:?}");
}

#[test]
fn a_link_that_goes_away_under_load_is_told_and_traffic_goes_on_when_it_is_back() {
    let (sim, mut line) = start();
    for _ in 0..3 {
        sim.set_link(false);
        let down = |_: &Line, said: &[Vec<String>; 2]| said.iter().all(|said| !said.is_empty());
        let (_, said) = drive(&mut line, PATIENCE, down);
        assert!(said.iter().all(|said| !said.is_empty()), "{said:?}");
        for end in &mut line.ends {
            assert_eq!(end.port.link().unwrap().state, LinkState::Down);
        }
        sim.set_link(true);
        let (_, said) = drive(&mut line, PATIENCE, down);
        assert!(said.iter().all(|said| !said.is_empty()), "{said:?}");
        for end in &mut line.ends {
            let link = end.port.link().unwrap();
            assert_eq!(link.state, LinkState::Up);
            assert_eq!(link.speed_bps, Some(10_000_000_000));
        }
        line.transfer(0, &[], 0).unwrap();
        line.settle(1).unwrap();
        for from in [0, 1] {
            moves(&mut line, from);
        }
    }
    stop(line).into_iter().for_each(Result::unwrap);
    assert_eq!([0, 1].map(|end| sim.unaccounted(end)), [0, 0]);
    assert_eq!(sim.objections(), [""; 0]);
}
