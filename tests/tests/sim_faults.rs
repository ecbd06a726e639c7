//! The virtio driver on a device that fails: an error in words, never a hang, and no frame lost.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::time::{Duration, Instant};

use models::{Fault, Sim, WireOptions};
use port::{Config, Port, PortError, QueueState};
use rig::conformance::{Line, PATIENCE, Received, frame, same};
use rig::sims::{Variant, open, wired};

/// Longer than anything that waits for a device may take.
const BOUND: Duration = Duration::from_secs(20);

fn formats() -> [Variant; 4] {
    [
        Variant::rings(false, false),
        Variant::rings(false, true),
        Variant::rings(true, false),
        Variant::rings(true, true),
    ]
}

fn start(variant: &Variant) -> (std::sync::Arc<Sim>, Line) {
    let sim = wired(variant, WireOptions::default());
    let ports = open(&sim, variant).unwrap();
    let mut line = Line::start(ports, &Config::default()).unwrap();
    let macs = line.macs();
    // Good traffic first, both ways.
    for from in [0, 1] {
        let frames: Vec<_> = (0..100)
            .map(|n| frame(macs[1 - from], macs[from], 80, n))
            .collect();
        let received = line.transfer(from, &frames, frames.len()).unwrap();
        same(&frames, &received).unwrap();
    }
    (sim, line)
}

/// Sends from end 0 to end 1 for a moment or until `done`, whatever happens; what arrived, and
/// what the ports said.
fn drive(
    line: &mut Line,
    limit: Duration,
    done: impl Fn(&Line, &[String]) -> bool,
) -> (Vec<Received>, Vec<String>) {
    let macs = line.macs();
    let started = Instant::now();
    let (mut arrived, mut said) = (Vec::new(), Vec::new());
    let mut number = 1000;
    while started.elapsed() < limit && !done(line, &said) {
        let mut frames = (0..8)
            .map(|n| frame(macs[1], macs[0], 100, number + n))
            .collect();
        let posted = line.ends[0].post(0, &mut frames, 8);
        number += posted as u64;
        line.ends[0].reap();
        line.collect(1, &mut arrived);
        for end in &mut line.ends {
            match end.port.service() {
                Ok(events) => said.extend(events),
                Err(error) => said.push(format!("failed: {error}")),
            }
        }
    }
    (arrived, said)
}

fn has_failed(line: &Line, end: usize) -> bool {
    let queues = &line.ends[end].queues;
    queues
        .tx
        .iter()
        .any(|queue| queue.state() == QueueState::Failed)
        || queues
            .rx
            .iter()
            .any(|queue| queue.state() == QueueState::Failed)
}

/// Stops both ports within [`BOUND`]; each port's answer. Every frame must be home.
fn stop(line: Line) -> Vec<Result<(), PortError>> {
    let started = Instant::now();
    let mut answers = Vec::new();
    for end in line.ends {
        let rig::conformance::End {
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
    assert!(
        started.elapsed() < BOUND,
        "stopping took {:?}",
        started.elapsed()
    );
    answers
}

/// Checks that a fault of end 1's receiving side or end 0's sending side fails that port.
fn fails_the_port(fault: Fault, at: usize, variant: &Variant) {
    let (sim, mut line) = start(variant);
    // Again and again: a later truth may hide one lie from a driver that did not look.
    sim.faults(at).switch_on(fault);
    let failed = |line: &Line, said: &[String]| {
        has_failed(line, at) || said.iter().any(|what| what.starts_with("failed: "))
    };
    let (arrived, said) = drive(&mut line, PATIENCE, failed);
    assert!(
        sim.faults(at).done(fault) > 0,
        "{fault:?} never struck: {variant:?}"
    );
    assert!(
        failed(&line, &said),
        "{fault:?} at {at} went unnoticed: {said:?} {variant:?}"
    );
    let error = line.ends[at].port.service();
    assert!(
        error.is_err(),
        "{fault:?}: a failed port says nothing: {said:?}"
    );
    let text = error.unwrap_err().to_string();
    assert!(text.contains("sim:virtio"), "{text}");
    for got in arrived {
        assert_eq!(got.bytes.len(), 100, "{fault:?}");
    }
    stop(line);
}

#[test]
fn a_completion_of_a_buffer_that_does_not_exist_fails_the_port() {
    for variant in formats() {
        for at in [0, 1] {
            let driver = &variant.device;
            if at == 0 && driver.in_order && !driver.packed {
                // Used in order, sent chains need no name: the index says it all (§2.7.9).
                continue;
            }
            fails_the_port(Fault::IdOutOfRange, at, &variant);
        }
    }
}

#[test]
fn an_index_of_completions_that_runs_ahead_fails_the_port() {
    for variant in [Variant::rings(false, false), Variant::rings(false, true)] {
        for at in [0, 1] {
            fails_the_port(Fault::IndexOutOfRange, at, &variant);
        }
    }
}

#[test]
fn a_device_that_asks_for_a_reset_fails_the_port_or_is_reset() {
    for variant in formats() {
        for at in [0, 1] {
            let (sim, mut line) = start(&variant);
            sim.faults(at).inject(Fault::NeedsReset, 1);
            let (_, said) = drive(&mut line, PATIENCE, |_, said| !said.is_empty());
            assert!(!said.is_empty(), "nobody noticed: {variant:?}");
            stop(line);
        }
    }
}

#[test]
fn a_length_that_its_buffer_does_not_have_never_reaches_the_engine() {
    for variant in formats() {
        let (sim, mut line) = start(&variant);
        sim.faults(1).inject(Fault::WrongLength, 3);
        let (arrived, said) = drive(&mut line, Duration::from_millis(300), |_, _| false);
        assert!(sim.faults(1).done(Fault::WrongLength) > 0, "{variant:?}");
        let errors = line.ends[1]
            .port
            .counters()
            .map(|counters| counters.rx_errors);
        assert!(
            has_failed(&line, 1) || errors.is_ok_and(|count| count > 0) || !said.is_empty(),
            "nobody noticed: {variant:?}"
        );
        for got in arrived {
            let is_marked = got.meta.flags.contains(port::RxFlags::ERROR);
            assert!(
                is_marked || got.bytes.len() == 100,
                "{} bytes",
                got.bytes.len()
            );
        }
        stop(line);
    }
}

#[test]
fn a_lost_completion_hangs_nothing_and_the_frame_comes_home_at_the_stop() {
    for variant in formats() {
        for (fault, at) in [(Fault::TxCompletionLost, 0), (Fault::RxCompletionLost, 1)] {
            let (sim, mut line) = start(&variant);
            sim.faults(at).inject(fault, 1);
            drive(&mut line, Duration::from_millis(100), |_, _| false);
            assert_eq!(sim.faults(at).done(fault), 1, "{fault:?}: {variant:?}");
            stop(line);
        }
    }
}

#[test]
fn completions_that_come_late_are_all_the_same_to_the_driver() {
    for variant in formats() {
        let (sim, mut line) = start(&variant);
        let macs = line.macs();
        let frames: Vec<_> = (0..500).map(|n| frame(macs[1], macs[0], 90, n)).collect();
        for portion in frames.chunks(25) {
            for end in [0, 1] {
                sim.faults(end).inject(Fault::LateCompletions, 200);
            }
            let received = line.transfer(0, portion, portion.len()).unwrap();
            same(portion, &received).unwrap();
        }
        assert!(sim.faults(0).done(Fault::LateCompletions) > 0);
        assert_eq!(sim.objections(), [""; 0]);
        assert!(stop(line).iter().all(Result::is_ok));
    }
}

#[test]
fn a_refused_command_is_an_error_that_says_so_and_the_next_one_works() {
    for variant in formats() {
        let (sim, mut line) = start(&variant);
        let port = &mut line.ends[0].port;
        sim.faults(0).inject(Fault::CommandRefused, 1);
        let refused = port.set_promiscuous(true);
        assert!(
            matches!(refused, Err(PortError::Refused { .. })),
            "{refused:?}"
        );
        port.set_promiscuous(true).unwrap();
        assert_eq!(sim.objections(), [""; 0]);
        assert!(stop(line).iter().all(Result::is_ok));
    }
}

#[test]
fn a_command_without_an_answer_is_an_error_within_its_time() {
    let (sim, mut line) = start(&Variant::rings(false, false));
    sim.faults(0).inject(Fault::CommandSilent, 1);
    let started = Instant::now();
    let silent = line.ends[0].port.set_promiscuous(true);
    assert!(
        matches!(
            silent,
            Err(PortError::Stuck { .. } | PortError::Broken { .. })
        ),
        "{silent:?}"
    );
    assert!(started.elapsed() < BOUND);
    // Frames go on.
    let macs = line.macs();
    let frames = [frame(macs[1], macs[0], 100, 1)];
    same(&frames, &line.transfer(0, &frames, 1).unwrap()).unwrap();
    stop(line);
}

#[test]
fn a_reset_that_never_ends_is_an_error_within_its_time() {
    for variant in [Variant::rings(false, false), Variant::rings(true, true)] {
        let (sim, line) = start(&variant);
        sim.faults(0).switch_on(Fault::StuckReset);
        let answers = stop(line);
        assert!(
            matches!(answers[0], Err(PortError::Stuck { .. })),
            "{answers:?}"
        );
        assert!(answers[1].is_ok(), "{answers:?}");

        let started = Instant::now();
        let opened = virtio::open_pci(sim.function(0), &variant.driver);
        assert!(
            opened.is_err(),
            "opened a device that does not come out of its reset"
        );
        assert!(started.elapsed() < BOUND);
    }
}

#[test]
fn a_device_that_is_pulled_out_is_an_error_and_never_a_hang() {
    for variant in formats() {
        for at in [0, 1] {
            let (sim, mut line) = start(&variant);
            sim.faults(at).switch_on(Fault::Removed);
            let started = Instant::now();
            let (_, said) = drive(&mut line, PATIENCE, |_, said| {
                said.iter().any(|what| what.starts_with("failed: "))
            });
            assert!(
                said.iter().any(|what| what.contains("gone")),
                "{said:?}: {variant:?}"
            );
            let port = &mut line.ends[at].port;
            for (what, gone) in [
                ("link", port.link().err()),
                ("promiscuous", port.set_promiscuous(true).err()),
            ] {
                assert!(
                    matches!(gone, Some(PortError::Gone { .. })),
                    "{what} of a device that is gone: {gone:?}"
                );
            }
            assert!(has_failed(&line, at), "its queues say that they run");
            assert!(started.elapsed() < BOUND);
            let answers = stop(line);
            assert!(
                answers[1 - at].is_ok(),
                "the other end is well: {answers:?}"
            );

            let opened = virtio::open_pci(sim.function(at), &variant.driver);
            assert!(opened.is_err(), "opened a device that is gone");
        }
    }
}

#[test]
fn a_link_that_goes_down_and_up_is_seen_and_frames_pass_again() {
    for variant in formats() {
        let (sim, mut line) = start(&variant);
        let macs = line.macs();
        for _ in 0..3 {
            sim.set_link(false);
            wait_for_link(&mut line, port::LinkState::Down);
            drive(&mut line, Duration::from_millis(20), |_, _| false);
            sim.set_link(true);
            wait_for_link(&mut line, port::LinkState::Up);
            line.settle(1).unwrap();
            let frames: Vec<_> = (0..100).map(|n| frame(macs[1], macs[0], 90, n)).collect();
            let received = line.transfer(0, &frames, frames.len()).unwrap();
            same(&frames, &received).unwrap();
        }
        assert_eq!(sim.objections(), [""; 0]);
        assert!(stop(line).iter().all(Result::is_ok));
    }
}

fn wait_for_link(line: &mut Line, state: port::LinkState) {
    let started = Instant::now();
    while line
        .ends
        .iter_mut()
        .any(|end| end.port.link().unwrap().state != state)
    {
        assert!(started.elapsed() < PATIENCE, "the link is not {state:?}");
        line.serve().unwrap();
    }
}

#[test]
fn an_option_that_the_device_does_not_offer_is_refused_at_the_door() {
    let split = Variant::rings(false, false)
        .mergeable(false)
        .indirect(false);
    let sim = wired(&split, WireOptions::default());
    let demand = |change: fn(&mut virtio::Options)| {
        let mut options = virtio::Options::default();
        change(&mut options);
        match virtio::open_pci(sim.function(0), &options) {
            Ok(_) => panic!("opened, with {options:?}"),
            Err(error) => error,
        }
    };
    for error in [
        demand(|options| options.packed = virtio::Choice::On),
        demand(|options| options.in_order = virtio::Choice::On),
        demand(|options| options.mergeable = virtio::Choice::On),
        demand(|options| options.indirect = virtio::Choice::On),
        demand(|options| options.pairs = Some(2)),
    ] {
        assert!(error.to_string().starts_with("sim:virtio/0"), "{error}");
        assert!(error.remedy().is_some(), "{error}: no cure");
    }
    let port: Box<dyn Port> =
        virtio::open_pci(sim.function(0), &virtio::Options::default()).unwrap();
    assert_eq!(port.info().driver, "virtio");
}
