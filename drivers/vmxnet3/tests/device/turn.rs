//! The control thread's turn.

use std::time::{Duration, Instant};

use port::{Config, LinkState, Port, PortError};

use super::fake::{Fake, fake, opened, start};

/// Bits of what a device reports.
const QUEUE_STOPPED: u8 = 2;
const LINK_CHANGED: u8 = 4;
/// How long what must be noticed may go unnoticed, on a host that is busy with others.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes what the device reports.
fn report(fake: &Fake, events: u8) {
    let state = fake.state();
    state.write(state.address() + 696, &[events, 0, 0, 0]);
}

/// Turns until one of them ends in something to say, or fails.
fn turns(port: &mut dyn Port) -> Result<Vec<String>, PortError> {
    let started = Instant::now();
    loop {
        let said = port.service()?;
        if !said.is_empty() {
            return Ok(said);
        }
        assert!(started.elapsed() < PATIENCE, "nothing is said");
        std::thread::yield_now();
    }
}

#[test]
fn a_device_that_reports_nothing_is_left_alone_most_of_the_time() {
    let fake = fake(1);
    let mut port = opened(&fake);
    let (queues, _memory) = start(port.as_mut(), &Config::default()).unwrap();
    let started = Instant::now();
    fake.state().accesses = 0;
    for _ in 0..1000 {
        assert_eq!(port.service().unwrap(), [""; 0]);
    }
    // Ten looks a second at most, of a few registers each.
    let looks = started.elapsed().as_millis() / 100 + 1;
    let accesses = fake.state().accesses as u128;
    assert!(
        (1..=4 * looks).contains(&accesses),
        "{accesses} in {looks} looks"
    );
    port.stop(queues).unwrap();
}

#[test]
fn a_link_that_changes_is_told_of_in_the_turn_after_the_report_and_soon_without_one() {
    let fake = fake(1);
    let mut port = opened(&fake);
    let (queues, _memory) = start(port.as_mut(), &Config::default()).unwrap();
    assert_eq!(port.service().unwrap(), [""; 0]);
    for (link, word) in [(0, "link down"), (1, "link up")] {
        fake.state().link = link;
        report(&fake, LINK_CHANGED);
        assert_eq!(port.service().unwrap(), [word]);
        assert!(
            fake.state()
                .writes
                .contains(&(1, 0x40, LINK_CHANGED.into()))
        );
        report(&fake, 0);
    }
    for (link, word) in [(0, "link down"), (1, "link up")] {
        fake.state().link = link;
        assert_eq!(turns(port.as_mut()).unwrap(), [word]);
    }
    port.stop(queues).unwrap();
}

#[test]
fn a_device_that_vanishes_between_two_looks_is_missed_at_the_next() {
    let fake = fake(1);
    let mut port = opened(&fake);
    let (queues, _memory) = start(port.as_mut(), &Config::default()).unwrap();
    assert_eq!(port.service().unwrap(), [""; 0]);
    fake.state().gone = true;
    assert!(matches!(turns(port.as_mut()), Err(PortError::Gone { .. })));
    assert_eq!(queues.tx[0].state(), port::QueueState::Failed);
    assert!(matches!(port.stop(queues), Err(PortError::Gone { .. })));
}

#[test]
fn a_device_that_stops_a_queue_is_started_over_once_the_queues_have_cleared_their_rings() {
    let fake = fake(1);
    let mut port = opened(&fake);
    let (mut queues, _memory) = start(port.as_mut(), &Config::default()).unwrap();
    assert_eq!(port.service().unwrap(), [""; 0]);
    report(&fake, QUEUE_STOPPED | LINK_CHANGED);
    {
        let state = fake.state();
        state.write(state.long(40) + 80, &[1, 0, 0, 0, 2, 0, 0, 0x80]);
    }
    let events = port.service().unwrap();
    assert!(
        events
            .iter()
            .any(|e| e.contains("send queue 0: a frame in too many buffers")),
        "{events:?}"
    );
    assert!(
        fake.state().writes.contains(&(1, 0x40, 6)),
        "the events are acknowledged"
    );
    assert!(!fake.state().active && fake.state().config[4] & 4 == 0);
    assert_eq!(port.link().unwrap().state, LinkState::Down);
    port.service().unwrap();
    assert!(!fake.state().active, "a queue may still write its ring");
    queues.tx[0].poll();
    queues.rx[0].burst(&mut port::RxBurst::default());
    let events = port.service().unwrap();
    assert!(
        events.iter().any(|event| event.contains("is back")),
        "{events:?}"
    );
    assert!(fake.state().active);
    assert_eq!(queues.tx[0].state(), port::QueueState::Running);
    let extended = port.extended().unwrap();
    assert!(
        extended
            .iter()
            .any(|e| e.name == "recoveries" && e.value == 1)
    );
    port.stop(queues).unwrap();
}

#[test]
fn a_device_that_is_gone_is_an_error_everywhere_and_stops_all_the_same() {
    let fake = fake(1);
    let mut port = opened(&fake);
    let (queues, _memory) = start(port.as_mut(), &Config::default()).unwrap();
    fake.state().gone = true;
    assert!(matches!(port.link(), Err(PortError::Gone { .. })));
    assert!(matches!(port.counters(), Err(PortError::Gone { .. })));
    assert!(matches!(port.service(), Err(PortError::Gone { .. })));
    assert_eq!(queues.tx[0].state(), port::QueueState::Failed);
    assert!(matches!(
        port.set_promiscuous(true),
        Err(PortError::Gone { .. })
    ));
    assert!(matches!(port.stop(queues), Err(PortError::Gone { .. })));
}
