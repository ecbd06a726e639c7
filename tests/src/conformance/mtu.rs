//! Frames beyond the ordinary size.

use port::{Config, Offloads, Port, RxFlags};

use super::line::{Failure, Line, frame, same};
use super::{Named, Verdict};
use crate::require;

pub(super) const CHECKS: &[Named] = &[
    (
        "frames up to the largest MTU arrive byte for byte, in both directions",
        jumbo_frames_pass,
    ),
    (
        "an MTU that is too large or too small is refused, and so is one while started",
        odd_values_are_refused,
    ),
    (
        "a frame that is too large for the receiver is lost whole, and the next ones arrive",
        too_large_is_lost,
    ),
];

/// Ethernet header and FCS: what a frame has beside the MTU.
const AROUND: usize = 18;
const FCS: usize = 4;
/// The largest frame that these checks make, as the rig's buffers go.
const ROOM: usize = 9728;

fn takes_mtu(port: &dyn Port) -> bool {
    port.caps().offloads.contains(Offloads::SET_MTU)
}

/// The largest MTU of both ports, as far as the rig's buffers go; 0 if there is no choice.
fn largest(ports: &[Box<dyn Port>; 2]) -> usize {
    let largest = |port: &dyn Port| {
        let most = port.caps().max_frame.min(ROOM) - AROUND;
        if takes_mtu(port) { most } else { 0 }
    };
    largest(ports[0].as_ref()).min(largest(ports[1].as_ref()))
}

/// Starts both ports so that a frame of `mtu` fits: in several buffers where that can be had,
/// else in one.
fn start(ports: [Box<dyn Port>; 2], mtu: usize, scatter: bool) -> Result<Line, Failure> {
    let config = if scatter {
        Config {
            offloads: Offloads::RX_SCATTER,
            ..Config::default()
        }
    } else {
        Config {
            rx_capacity: (mtu + AROUND).next_multiple_of(64),
            ..Config::default()
        }
    };
    Line::start(ports, &config)
}

fn jumbo_frames_pass(mut ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let most = largest(&ports);
    if most <= 1500 {
        return Ok(Verdict::NotOffered("an MTU beyond 1500"));
    }
    let scatters = ports
        .iter()
        .all(|port| port.caps().offloads.contains(Offloads::RX_SCATTER));
    let middle = (most + 1500) / 2;
    for (mtu, scatter) in [(most, scatters), (middle, scatters), (most, false)] {
        for port in &mut ports {
            port.set_mtu(mtu)?;
        }
        let mut line = start(ports, mtu, scatter)?;
        let macs = line.macs();
        let whole = mtu + AROUND - FCS;
        let lens = [
            60,
            1514,
            1515,
            1600,
            2048,
            2049,
            4095,
            4096,
            whole - 1,
            whole,
        ];
        for from in [0, 1] {
            let frames: Vec<_> = (0..600)
                .map(|n| {
                    let len = lens[n % lens.len()].min(whole);
                    frame(macs[1 - from], macs[from], len, n as u64)
                })
                .collect();
            // In portions that the receiving ring holds for sure.
            let slots = line.ends[1 - from].port.caps().rx_slots.default;
            for portion in frames.chunks((slots / 16).max(1)) {
                let received = line.transfer(from, portion, portion.len())?;
                same(portion, &received)?;
            }
        }
        ports = line.stop()?;
    }
    Ok(Verdict::Passed)
}

fn odd_values_are_refused(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let [mut first, second] = ports;
    if !takes_mtu(first.as_ref()) {
        return Ok(Verdict::NotOffered("another MTU"));
    }
    let most = first.caps().max_frame - AROUND;
    for mtu in [0, 20, most + 1, usize::MAX] {
        require!(first.set_mtu(mtu).is_err(), "an MTU of {mtu} was taken");
    }
    first.set_mtu(1500)?;
    let mut line = Line::start([first, second], &Config::default())?;
    require!(
        line.ends[0].port.set_mtu(1400).is_err(),
        "another MTU was taken while the port was started"
    );
    let macs = line.macs();
    let frames = [frame(macs[1], macs[0], 1514, 1)];
    let received = line.transfer(0, &frames, 1)?;
    same(&frames, &received)?;
    line.stop()?;
    Ok(Verdict::Passed)
}

fn too_large_is_lost(mut ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let most = largest(&ports);
    if most < 4000 {
        return Ok(Verdict::NotOffered("an MTU of 4000"));
    }
    ports[0].set_mtu(most)?;
    ports[1].set_mtu(1500)?;
    // Buffers of 2048 bytes, and no frame in several.
    let mut line = Line::start(ports, &Config::default())?;
    let macs = line.macs();
    let before = line.ends[1].port.counters()?;
    let mut kept = 0;
    for (round, len) in (0..100_u64).zip((2500..).step_by(10)) {
        let large = frame(macs[1], macs[0], len, round);
        let small: Vec<_> = (0..5)
            .map(|n| frame(macs[1], macs[0], 200, 1000 + round * 5 + n))
            .collect();
        let frames: Vec<_> = [large.clone()].into_iter().chain(small.clone()).collect();
        let mut received = line.transfer(0, &frames, small.len())?;
        while received.len() < small.len() || received.last().map(|f| &f.bytes) != small.last() {
            received.extend(line.transfer(0, &[], 1)?);
        }
        // A port may hand up what was cut off, if it says that it is damaged.
        received.retain(|got| !got.meta.flags.contains(RxFlags::ERROR));
        // Only whole, if at all.
        if received.first().is_some_and(|first| first.bytes == large) {
            received.remove(0);
            kept += 1;
        }
        same(&small, &received)?;
    }
    let after = line.ends[1].port.counters()?;
    let lost = after.rx_errors - before.rx_errors + after.rx_missed - before.rx_missed;
    // A virtio device tells its driver of no frame that it dropped.
    require!(
        lost == 100 - kept || lost == 0,
        "of 100 frames that were too large {kept} arrived and {lost} were counted as lost"
    );
    line.stop()?;
    Ok(Verdict::Passed)
}
