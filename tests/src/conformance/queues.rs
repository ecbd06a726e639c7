//! Several queues.

use std::collections::VecDeque;

use port::{Config, Port};

use super::line::{Failure, Line, Watch, frame};
use super::{Named, Verdict};
use crate::require;

pub(super) const CHECKS: &[Named] = &[
    (
        "every send queue sends, each in order, and nothing is lost between several",
        every_queue_sends,
    ),
    (
        "a port with one direction only starts and moves frames",
        one_direction,
    ),
];

fn every_queue_sends(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let most = ports
        .iter()
        .flat_map(|port| {
            [
                *port.caps().rx_queues.range.end(),
                *port.caps().tx_queues.range.end(),
            ]
        })
        .min()
        .unwrap_or(1)
        .min(4);
    if most < 2 {
        return Ok(Verdict::NotOffered("more than one queue"));
    }
    let config = Config {
        rx_queues: most,
        tx_queues: most,
        ..Config::default()
    };
    let mut line = Line::start(ports, &config)?;
    let macs = line.macs();
    const EACH: usize = 700;
    let mut rest: Vec<VecDeque<Vec<u8>>> = (0..most as u64)
        .map(|queue| {
            let numbers = (0..EACH as u64).map(|n| queue << 32 | n);
            numbers.map(|n| frame(macs[1], macs[0], 64, n)).collect()
        })
        .collect();
    let total = EACH * most;
    let mut arrived = Vec::new();
    let mut watch = Watch::new();
    while arrived.len() < total {
        let before = (arrived.len(), rest.iter().map(VecDeque::len).sum::<usize>());
        for (queue, frames) in rest.iter_mut().enumerate() {
            // No more under way than a receiving ring holds.
            if total - before.1 - before.0 < 200 {
                line.ends[0].post(queue, frames, 23);
            }
        }
        line.ends[0].reap();
        line.collect(1, &mut arrived);
        let now = (arrived.len(), rest.iter().map(VecDeque::len).sum::<usize>());
        require!(
            watch.is_patient(before != now),
            "{} of {total} frames arrived over {most} queues",
            arrived.len()
        );
        line.serve()?;
    }
    let mut next = vec![0; most];
    for got in &arrived {
        let number = got.bytes[14..22]
            .iter()
            .fold(0_u64, |n, &byte| n << 8 | u64::from(byte));
        let (queue, number) = ((number >> 32) as usize, number & 0xffff_ffff);
        require!(queue < most, "a frame of queue {queue}");
        require!(
            got.bytes == frame(macs[1], macs[0], 64, (queue as u64) << 32 | number),
            "frame {number} of queue {queue} is damaged"
        );
        next[queue] += 1;
    }
    require!(
        next.iter().all(|&count| count == EACH),
        "arrived from each queue: {next:?}"
    );
    line.stop()?;
    Ok(Verdict::Passed)
}

fn one_direction(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let can = |port: &dyn Port| port.caps().rx_queues.allow(0) && port.caps().tx_queues.allow(0);
    if !ports.iter().all(|port| can(port.as_ref())) {
        return Ok(Verdict::NotOffered("a port without one kind of queue"));
    }
    let config = Config {
        rx_queues: 0,
        ..Config::default()
    };
    let line = Line::start(ports, &config)?;
    let ports = line.stop()?;
    let config = Config {
        tx_queues: 0,
        ..Config::default()
    };
    Line::start(ports, &config)?.stop()?;
    Ok(Verdict::Passed)
}
