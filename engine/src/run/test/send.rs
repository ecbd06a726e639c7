//! What is asked is sent, to the frame.

use super::*;

#[test]
fn a_second_at_a_rate_sends_exactly_the_rate() {
    let (plan, _) = plan(vec![stream("one", 1_000_000.0, Measure::None)]);
    let done = run(plan, Manual::new(50)).outcome;
    assert_eq!(done.figures.asked_frames, 20_000);
    assert_eq!(done.figures.shortfall_frames, 0);
    assert_eq!(done.figures.ports[0].tx_frames, 20_000);
    assert_eq!(done.figures.ports[1].rx_frames, 20_000);
    assert_eq!(done.figures.ports[0].lost, Some(0));
}

#[test]
fn a_measured_stream_is_received_whole() {
    let (plan, _) = plan(vec![stream("one", 500_000.0, Measure::Latency)]);
    let done = run(plan, Manual::new(50)).outcome;
    let stream = &done.figures.streams[0];
    assert_eq!((stream.tx_frames, stream.rx_frames), (10_000, 10_000));
    assert_eq!(
        (stream.lost, stream.duplicated, stream.reordered),
        (Some(0), 0, 0)
    );
    let latency = stream.latency.unwrap();
    assert_eq!(latency.count, 10_000);
    assert!(latency.min > 0 && latency.p50 <= latency.p99 && latency.p99 <= latency.max);
}
