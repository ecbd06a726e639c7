//! Questions that come in mid-run are answered, and change nothing of what is counted.

use super::super::standby::{Offer, open};
use super::super::{RunError, Standby};
use super::*;
use crate::resolution::Addresses;

/// An ARP request of 10.0.0.9 for 10.0.0.`last`.
fn question(last: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..14].copy_from_slice(&[255, 255, 255, 255, 255, 255, 8, 8, 8, 8, 8, 8, 8, 6]);
    frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    frame[22..32].copy_from_slice(&[8, 8, 8, 8, 8, 8, 10, 0, 0, 9]);
    frame[38..42].copy_from_slice(&[10, 0, 0, last]);
    frame
}

fn asking(last: u8, pps: f64) -> Stream {
    let frames = Frames::constant(Template::raw(question(last)));
    let mut stream = Stream::new("questions", frames);
    stream.rate = Rate::Pps(pps);
    stream
}

fn own() -> Addresses {
    let [first, last] = ["10.0.0.1", "10.0.0.4"].map(|text| text.parse().unwrap());
    Addresses::new(vec![first..=last])
}

fn answering(streams: Vec<Stream>) -> RunPlan {
    let (mut plan, _) = plan(streams);
    plan.ports[1].addresses = own();
    // Room for the answers to be received in.
    plan.ports[0].receive = true;
    plan
}

#[test]
fn questions_for_own_addresses_are_answered_beside_measured_traffic() {
    let measured = stream("measured", 200_000.0, Measure::Latency);
    let streams = vec![asking(3, 50_000.0), measured, asking(5, 50_000.0)];
    let done = run(answering(streams), Manual::new(50));
    let [asker, answerer] = &done.figures.ports[..] else {
        unreachable!()
    };
    assert_eq!(asker.tx_frames, 2 * 1000 + 4000);
    assert_eq!(answerer.rx_frames, asker.tx_frames);
    assert_eq!((answerer.answered, answerer.tx_frames), (1000, 0));
    assert_eq!((asker.rx_frames, asker.answered), (1000, 0));
    assert_eq!(done.figures.streams[1].lost, Some(0));
    assert_eq!(answerer.rx_unmatched, 2000);
}

#[test]
fn questions_are_answered_where_nothing_is_measured_too_and_in_every_trial() {
    let plan = answering(vec![
        asking(1, 50_000.0),
        stream("plain", 1e5, Measure::None),
    ]);
    let offer = Offer::of(&plan);
    let mut standby = open(plan).unwrap();
    for _ in 0..3 {
        let running = standby
            .start(&offer, Manual::new(50), Hooks::default())
            .unwrap();
        let (outcome, open) = running.join_open();
        assert!(outcome.check().is_empty(), "{outcome:#?}");
        assert_eq!(outcome.figures.ports[1].answered, 1000);
        assert_eq!(outcome.figures.ports[0].rx_frames, 1000);
        standby = open;
    }
    let closed = Standby::close(standby);
    assert_eq!((closed.leaked, closed.failures.len()), (0, 0));
}

#[test]
fn more_questions_than_there_is_room_for_harm_nothing() {
    let streams = vec![
        asking(2, 5e6),
        stream("measured", 200_000.0, Measure::Count),
    ];
    let done = run(answering(streams), Manual::new(20_000));
    let answerer = &done.figures.ports[1];
    assert!(answerer.answered > 0, "{answerer:#?}");
    assert_eq!(done.figures.streams[1].lost, Some(0));
}

#[test]
fn a_port_that_sends_and_answers_keeps_its_books_apart() {
    let mut plan = answering(vec![asking(4, 10_000.0)]);
    plan.ports[1].streams = vec![stream("back", 100_000.0, Measure::Count)];
    plan.ports[1].peer = Some(0);
    plan.ports[0].config.rx_queues = 2;
    let done = run(plan, Manual::new(50));
    let answerer = &done.figures.ports[1];
    assert_eq!((answerer.tx_frames, answerer.answered), (2000, 200));
    assert_eq!(done.figures.ports[0].rx_frames, 2200);
    assert_eq!(done.figures.streams[1].lost, Some(0));
}

#[test]
fn a_port_without_a_queue_to_spare_is_refused_in_words() {
    let mut plan = answering(vec![asking(1, 1000.0)]);
    plan.ports[1].streams = vec![stream("back", 1000.0, Measure::None)];
    plan.ports[1].config.tx_queues = 4;
    let refused = open(plan).map(drop).unwrap_err();
    assert!(matches!(refused, RunError::Unsupported { .. }));
    assert!(refused.to_string().contains("answer"), "{refused}");
}
