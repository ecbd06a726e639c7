//! The vhost-user driver against peers that lie: an error in words, within its time, and every
//! frame at home afterwards.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use port::{Config, Port, QueueState};
use rig::conformance::{End, Received, frame};
use rig::liar::{Answer, Liar, Lie, Plan, RingLie};
use rig::peer::feature;
use virtio::VhostOptions;

/// How long the driver waits for an answer in these tests.
const REPLY: Duration = Duration::from_millis(300);
/// Longer than any of this may take.
const BOUND: Duration = Duration::from_secs(8);

fn connect(path: &Path) -> Result<Box<dyn Port>, virtio::OpenError> {
    let options = VhostOptions {
        connect_timeout: REPLY,
        reply_timeout: REPLY,
        rx_slots: 64,
        tx_slots: 64,
        ..VhostOptions::default()
    };
    virtio::open_vhost_user(path, &options)
}

/// What came of a port: how it did not start, or that it ran.
fn attempt(path: &Path) -> Result<(), String> {
    let started = Instant::now();
    let answer = match connect(path) {
        Err(error) => {
            assert!(error.remedy().is_some(), "{error}: no cure");
            Err(error.to_string())
        }
        Ok(port) => match End::alone(port, &Config::default()) {
            Err(error) => Err(error.to_string()),
            Ok(end) => run(end, |_| false, Duration::from_millis(200)).map(|_| ()),
        },
    };
    assert!(started.elapsed() < BOUND, "it took {:?}", started.elapsed());
    answer
}

/// Sends and receives for `time`, or until the port fails or `done`; then stops. What arrived and
/// what the port said, or how it failed. Every frame must be home in the end.
fn run(
    mut end: End,
    done: impl Fn(&End) -> bool,
    time: Duration,
) -> Result<(Vec<Received>, Vec<String>), String> {
    let started = Instant::now();
    let (mut arrived, mut said) = (Vec::new(), Vec::new());
    let mut failure = None;
    while started.elapsed() < time && failure.is_none() && !done(&end) {
        let mut frames = (0..8).map(|n| frame([2; 6], [2; 6], 60, n)).collect();
        end.post(0, &mut frames, 8);
        end.reap();
        end.receive(0, &mut arrived);
        match end.port.service() {
            Ok(events) => said.extend(events),
            Err(error) => failure = Some(error.to_string()),
        }
        let counts = end.queues.tx[0].counts();
        assert_eq!(
            counts.posted,
            counts.completed + counts.abandoned + counts.in_flight()
        );
    }
    let states = [end.queues.tx[0].state(), end.queues.rx[0].state()];
    if states.contains(&QueueState::Paused) {
        said.push("paused".into());
    }
    if states.contains(&QueueState::Failed) && failure.is_none() {
        let word = end.port.service().err().map(|error| error.to_string());
        failure = Some(word.unwrap_or_else(|| panic!("a queue failed without a word: {said:?}")));
    }
    let End {
        mut port,
        queues,
        to_send,
        to_arm,
        ..
    } = end;
    let _ = port.stop(queues);
    to_send.close().unwrap();
    to_arm.close().unwrap();
    match failure {
        Some(failure) => Err(failure),
        None => Ok((arrived, said)),
    }
}

/// The messages of an honest start: how many there are, and which get an answer.
fn honest(path: &Path) -> Vec<bool> {
    let liar = Liar::start(path, &Plan::of(Lie::None)).unwrap();
    let port = connect(path).unwrap();
    let end = End::alone(port, &Config::default()).unwrap();
    let messages = liar.messages();
    run(end, |_| true, BOUND).unwrap();
    assert_eq!(liar.complaints(), [""; 0]);
    assert!(messages.len() > 10, "{messages:?}");
    messages.iter().map(|message| message.answered).collect()
}

#[test]
fn a_peer_that_hangs_up_at_any_step_is_an_error_or_a_pause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    for (number, answered) in honest(&path).into_iter().enumerate() {
        let liar = Liar::start(&path, &Plan::of(Lie::HangUpAt(number))).unwrap();
        let answer = attempt(&path);
        assert!(liar.lies() > 0, "message {number} never came");
        if answered {
            let error = answer.expect_err("an answer that never came");
            assert!(!error.is_empty());
        }
    }
}

#[test]
fn a_peer_that_never_answers_is_an_error_within_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    for (number, answered) in honest(&path).into_iter().enumerate() {
        if !answered {
            continue;
        }
        let liar = Liar::start(&path, &Plan::of(Lie::SilentFrom(number))).unwrap();
        let error = attempt(&path).expect_err("an answer that never came");
        assert!(liar.lies() > 0);
        assert!(error.contains("within"), "message {number}: {error}");
    }
}

#[test]
fn nonsense_for_an_answer_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    let wrong = [
        Answer::Noise,
        Answer::Oversized,
        Answer::Truncated,
        Answer::WrongRequest,
        Answer::WrongVersion,
        Answer::NotAReply,
        Answer::WrongSize,
    ];
    for (number, answered) in honest(&path).into_iter().enumerate() {
        for answer in wrong.into_iter().filter(|_| answered) {
            let liar = Liar::start(&path, &Plan::of(Lie::AnswerAt(number, answer))).unwrap();
            let error = attempt(&path).expect_err("a wrong answer that was taken for a right one");
            assert!(liar.lies() > 0, "{answer:?} at {number}");
            assert!(!error.is_empty());
        }
    }
}

#[test]
fn an_answer_too_many_never_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    for (number, answered) in honest(&path).into_iter().enumerate() {
        if answered {
            let lie = Lie::AnswerAt(number, Answer::Twice);
            let _liar = Liar::start(&path, &Plan::of(lie)).unwrap();
            // An error, or nobody ever reads it: only time counts.
            let _ = attempt(&path);
        }
    }
}

#[test]
fn a_peer_that_is_not_of_this_version_or_has_no_queues_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    let old = Plan::of(Lie::None).without(feature::VERSION_1);
    let _liar = Liar::start(&path, &old).unwrap();
    let error = attempt(&path).unwrap_err();
    assert!(
        error.contains("VERSION_1") || error.contains("virtio 1"),
        "{error}"
    );

    let none = Plan {
        pairs: 0,
        ..Plan::of(Lie::None)
    };
    let _liar = Liar::start(&path, &none).unwrap();
    let error = attempt(&path).unwrap_err();
    assert!(error.contains("queue"), "{error}");
}

#[test]
fn no_peer_at_all_is_an_error_with_a_cure() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nobody.sock");
    let error = attempt(&missing).unwrap_err();
    assert!(error.contains("nobody.sock"), "{error}");
    let file = folder.path().join("file");
    std::fs::write(&file, "no socket").unwrap();
    assert!(attempt(&file).is_err());
    // A socket that somebody left behind.
    drop(std::os::unix::net::UnixListener::bind(&missing).unwrap());
    assert!(attempt(&missing).is_err());
}

/// Ring formats that a liar can offer.
fn formats() -> [(&'static str, Plan); 4] {
    let plan = Plan::of(Lie::None);
    [
        ("packed", plan.clone().without(feature::IN_ORDER)),
        ("packed in order", plan.clone()),
        (
            "split",
            plan.clone().without(feature::PACKED | feature::IN_ORDER),
        ),
        (
            "split, not mergeable",
            plan.without(feature::PACKED | feature::IN_ORDER | feature::MRG_RXBUF),
        ),
    ]
}

/// Runs against one lie about rings; how it ended.
fn lied_to(path: &Path, plan: &Plan, lie: Lie) -> Result<(Vec<Received>, Vec<String>), String> {
    let plan = Plan {
        lie,
        ..plan.clone()
    };
    let liar = Liar::start(path, &plan).unwrap();
    let end = End::alone(connect(path).unwrap(), &Config::default()).unwrap();
    let started = Instant::now();
    let told = Cell::new(None);
    let enough = |end: &End| {
        if liar.lies() == 0 {
            return false;
        }
        // A moment after the lie, for the driver to see it.
        let since = told.get().unwrap_or_else(Instant::now);
        told.set(Some(since));
        let states = [end.queues.tx[0].state(), end.queues.rx[0].state()];
        let is_seen = states.iter().any(|state| *state != QueueState::Running);
        is_seen || since.elapsed() > Duration::from_millis(400)
    };
    let outcome = run(end, enough, BOUND - Duration::from_secs(1));
    assert!(
        started.elapsed() < BOUND,
        "{lie:?}: {:?}",
        started.elapsed()
    );
    assert!(liar.lies() > 0, "{lie:?} was never told");
    assert_eq!(liar.complaints(), [""; 0]);
    outcome
}

#[test]
fn a_lie_about_what_was_used_fails_the_port_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    for (format, plan) in formats() {
        for ring in [Lie::SendRing, Lie::ReceiveRing] {
            for lie in [
                RingLie::UsesWhatIsNotAvailable,
                RingLie::IdOutOfRange,
                RingLie::IdJustOutOfRange,
                RingLie::IdTwice,
            ] {
                let lie = ring(lie);
                match lied_to(&path, &plan, lie) {
                    Err(words) => assert!(words.contains("liar.sock"), "{format} {lie:?}: {words}"),
                    Ok((_, said)) => {
                        // On packed rings only slots are looked at that hold something: claims
                        // about others are never read. Else: hung up on, and dialled again.
                        let is_unread = format.starts_with("packed")
                            && lie == ring(RingLie::UsesWhatIsNotAvailable);
                        assert!(
                            is_unread || !said.is_empty(),
                            "{format}: {lie:?} went unnoticed"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_lie_about_a_length_never_reaches_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    for (format, plan) in formats() {
        for lie in [
            RingLie::Length(0),
            RingLie::Length(3),
            RingLie::Length(11),
            RingLie::Length(1_000_000),
            RingLie::Length(u32::MAX),
            RingLie::Buffers(0),
            RingLie::Buffers(2000),
            RingLie::Buffers(u16::MAX),
        ] {
            let lie = Lie::ReceiveRing(lie);
            let Ok((arrived, _)) = lied_to(&path, &plan, lie) else {
                continue;
            };
            for got in arrived {
                let is_marked = got.meta.flags.contains(port::RxFlags::ERROR);
                assert!(
                    is_marked || got.bytes.len() == 60,
                    "{format}: {lie:?}: a frame of {} bytes",
                    got.bytes.len()
                );
            }
        }
    }
}

#[test]
fn a_peer_that_takes_nothing_fills_the_ring_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    for (format, plan) in formats() {
        for ring in [Lie::SendRing, Lie::ReceiveRing] {
            let outcome = lied_to(&path, &plan, ring(RingLie::NeverUses));
            assert!(outcome.is_ok(), "{format}: {outcome:?}");
        }
    }
}

#[test]
fn noise_on_the_rings_never_hangs_panics_or_leaks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liar.sock");
    let mut seed = 0;
    for (_, plan) in formats() {
        for ring in [Lie::SendRing, Lie::ReceiveRing] {
            for _ in 0..4 {
                seed += 1_000_003;
                let _ = lied_to(&path, &plan, ring(RingLie::Scribble { seed }));
            }
        }
    }
}
