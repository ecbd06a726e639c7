//! Frames of every size, and their bytes.

use port::{Config, Offloads, Port};

use super::line::{Failure, Line, frame, same};
use super::{Named, Verdict};
use crate::require;

pub(super) const CHECKS: &[Named] = &[
    (
        "every frame size from 60 bytes up arrives byte for byte, in both directions",
        every_size_arrives,
    ),
    (
        "a frame larger than one buffer arrives in several, whole",
        a_large_frame_is_scattered,
    ),
    (
        "a frame in several buffers is sent as one",
        a_frame_in_several_buffers_is_one,
    ),
    (
        "a frame shorter than Ethernet allows arrives padded or not at all",
        a_short_frame_is_padded,
    ),
];

/// Bytes of an Ethernet frame without VLAN tag and FCS.
const ORDINARY: usize = 1514;

fn every_size_arrives(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let largest = ports
        .iter()
        .map(|port| port.caps().max_frame - 4)
        .min()
        .unwrap_or(ORDINARY)
        .min(ORDINARY);
    let mut line = Line::start(ports, &Config::default())?;
    let macs = line.macs();
    for from in [0, 1] {
        let to = 1 - from;
        let frames: Vec<_> = (60..=largest)
            .map(|len| frame(macs[to], macs[from], len, len as u64))
            .collect();
        let received = line.transfer(from, &frames, frames.len())?;
        same(&frames, &received)?;
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn a_large_frame_is_scattered(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let offered = |port: &dyn Port| port.caps().offloads.contains(Offloads::RX_SCATTER);
    if !ports.iter().all(|port| offered(port.as_ref())) {
        return Ok(Verdict::NotOffered("receiving into several buffers"));
    }
    let config = |rx_capacity| Config {
        offloads: Offloads::RX_SCATTER,
        rx_capacity,
        ..Config::default()
    };
    // A ring of no bytes is none: some devices have no buffers that small.
    let can = |capacity| ports.iter().all(|p| p.ring_bytes(&config(capacity)) > 0);
    let capacity = if can(512) { 512 } else { 1024 };
    let config = config(capacity);
    let mut line = Line::start(ports, &config)?;
    let macs = line.macs();
    for from in [0, 1] {
        // Around the seams of buffers, with and without room for a header in each; enough of
        // them for several laps.
        let lens = (60..=ORDINARY)
            .step_by(7)
            .chain(480..=530)
            .chain(1000..1060);
        let frames: Vec<_> = lens
            .cycle()
            .take(3000)
            .enumerate()
            .map(|(number, len)| frame(macs[1 - from], macs[from], len, number as u64))
            .collect();
        // In portions that the receiving ring holds for sure, as nothing slows the sender down.
        let slots = line.ends[1 - from].port.caps().rx_slots.default;
        let mut most = 0;
        for portion in frames.chunks((slots / 8).max(1)) {
            let received = line.transfer(from, portion, portion.len())?;
            same(portion, &received)?;
            most = received
                .iter()
                .map(|frame| frame.buffers)
                .fold(most, usize::max);
        }
        require!(
            most > ORDINARY / capacity,
            "1514 bytes in buffers of {capacity} came in at most {most}"
        );
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn a_frame_in_several_buffers_is_one(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let segments = ports[0].caps().max_segments;
    if segments < 2 {
        return Ok(Verdict::NotOffered("sending from several buffers"));
    }
    let segments = segments.min(8);
    let mut line = Line::start(ports, &Config::default())?;
    let macs = line.macs();
    let mut sent = Vec::new();
    let mut arrived = Vec::new();
    let mut watch = super::line::Watch::new();
    let total = 3 * line.ends[0].port.caps().tx_slots.default.min(1024);
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut number = 0_u64;
    while arrived.len() < total {
        let before = arrived.len();
        if sent.len() < total && pieces.is_empty() {
            let len = 60 + (sent.len() * 37) % (ORDINARY - 60);
            let whole = frame(macs[1], macs[0], len, number);
            number += 1;
            let parts = 1 + sent.len() % segments;
            pieces = whole
                .chunks(len.div_ceil(parts))
                .map(<[u8]>::to_vec)
                .collect();
            sent.push(whole);
        }
        if super::rings::post_pieces(&mut line.ends[0], &pieces) {
            pieces.clear();
        }
        line.ends[0].reap();
        line.collect(1, &mut arrived);
        require!(
            watch.is_patient(before != arrived.len()),
            "{} of {} frames arrived",
            arrived.len(),
            sent.len()
        );
    }
    same(&sent, &arrived)?;
    line.stop()?;
    Ok(Verdict::Passed)
}

fn a_short_frame_is_padded(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let mut line = Line::start(ports, &Config::default())?;
    let macs = line.macs();
    let long = frame(macs[1], macs[0], 60, 7);
    let short: Vec<_> = (14..60).map(|len| long[..len].to_vec()).collect();
    let frames: Vec<_> = short.into_iter().chain([long.clone()]).collect();
    let mut received = line.transfer(0, &frames, 1)?;
    while received.last().is_none_or(|last| last.bytes != long) {
        let more = line.transfer(0, std::slice::from_ref(&long), 1)?;
        require!(received.len() < 200, "the last frame never came");
        received.extend(more);
    }
    for got in &received {
        let len = got.bytes.len();
        require!(
            (14..=60).contains(&len) && long.starts_with(&got.bytes[..14]),
            "a short frame came as {len} bytes: {:02x?}",
            got.bytes
        );
    }
    line.stop()?;
    Ok(Verdict::Passed)
}
