//! Opening, starting, stopping, counting.

use std::collections::VecDeque;

use port::{Config, LinkState, Port, StartError};

use super::line::{Failure, Line, PATIENCE, Watch, frame, same};
use super::{Named, Verdict};
use crate::require;

pub(super) const CHECKS: &[Named] = &[
    (
        "a port says what it is, and refuses what its caps do not allow",
        identity_and_caps,
    ),
    ("the link is up on both ends", link_is_up),
    (
        "frames and bytes are counted as they were sent, on both ends",
        counters_are_exact,
    ),
    (
        "further counters have names, each one of its own, and never go down",
        further_counters,
    ),
    (
        "a port stops and starts ten times and leaks nothing",
        stop_and_start,
    ),
    (
        "a port that is stopped under load touches no memory afterwards",
        stop_under_load,
    ),
];

fn identity_and_caps(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let [first, mut second] = ports;
    let info = first.info();
    require!(!info.name.is_empty() && !info.driver.is_empty(), "{info:?}");
    require!(
        info.mac[0] & 1 == 0 && info.mac != [0; 6],
        "{:02x?} is no station",
        info.mac
    );
    require!(
        info.mac != second.info().mac,
        "both ends are {:02x?}",
        info.mac
    );
    let caps = first.caps().clone();
    for (what, limits) in [
        ("rx queues", &caps.rx_queues),
        ("tx queues", &caps.tx_queues),
        ("rx slots", &caps.rx_slots),
        ("tx slots", &caps.tx_slots),
    ] {
        require!(
            limits.allow(limits.default),
            "{what}: the default of {limits:?}"
        );
    }
    require!(caps.max_frame >= 1518, "largest frame {}", caps.max_frame);
    require!(caps.max_segments >= 1, "{caps:?}");
    let too_many = [
        Config {
            rx_queues: caps.rx_queues.range.end() + 1,
            ..Config::default()
        },
        Config {
            tx_queues: caps.tx_queues.range.end() + 1,
            ..Config::default()
        },
        Config {
            tx_slots: Some(caps.tx_slots.range.end() + 1),
            ..Config::default()
        },
        Config {
            rx_slots: Some(caps.rx_slots.range.end() + 1),
            ..Config::default()
        },
        Config {
            offloads: !caps.offloads,
            ..Config::default()
        },
    ];
    let memory = hugemem::Memory::new(&hugemem::MemoryRequest {
        bytes: 64 << 20,
        pages: hugemem::Pages::HugeOrBase,
        node: None,
        spaces: vec![second.space()],
    })?;
    for config in too_many {
        if config.offloads.is_empty() || !config.offloads.difference(caps.offloads).is_empty() {
            match second.start(&config, &memory) {
                Err(StartError::Unsupported { .. }) => {}
                Err(other) => require!(false, "{config:?}: {other}"),
                Ok(_) => require!(false, "started with {config:?}"),
            }
        }
    }
    Ok(Verdict::Passed)
}

fn link_is_up(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let mut line = Line::start(ports, &Config::default())?;
    for end in &mut line.ends {
        let link = end.port.link()?;
        require!(link.state == LinkState::Up, "{link:?}");
        require!(link.speed_bps != Some(0), "{link:?}");
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn counters_are_exact(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    const FCS: u64 = 4;
    let mut line = Line::start(ports, &Config::default())?;
    let macs = line.macs();
    let mut totals = [(0, 0); 2];
    for round in 0..4_usize {
        for from in [0, 1] {
            let frames: Vec<_> = (0..150 + 31 * round)
                .map(|n| frame(macs[1 - from], macs[from], 60 + (n * 29) % 1455, n as u64))
                .collect();
            let received = line.transfer(from, &frames, frames.len())?;
            same(&frames, &received)?;
            let bytes: u64 = frames.iter().map(|frame| frame.len() as u64 + FCS).sum();
            totals[from].0 += frames.len() as u64;
            totals[from].1 += bytes;
        }
    }
    let mut watch = Watch::new();
    loop {
        line.serve()?;
        let [first, second] = [0, 1].map(|end: usize| line.ends[end].port.counters());
        let (first, second) = (first?, second?);
        let sent = [first, second].map(|c| (c.tx_frames, c.tx_bytes));
        let received = [second, first].map(|c| (c.rx_frames, c.rx_bytes));
        if sent == totals && received == totals {
            let clean = [first, second]
                .iter()
                .all(|c| c.tx_errors + c.rx_errors + c.rx_missed == 0);
            require!(clean, "nothing went wrong, but: {first:?} {second:?}");
            break;
        }
        require!(
            watch.is_patient(false),
            "sent {totals:?}, counted {sent:?} and {received:?}"
        );
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn further_counters(mut ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let mut last: Vec<Vec<port::Extended>> = Vec::new();
    for round in 0..3_u64 {
        let mut line = Line::start(ports, &Config::default())?;
        let macs = line.macs();
        // Fewer each time: what starts again with the port falls.
        let frames: Vec<_> = (0..100 - 30 * round)
            .map(|n| frame(macs[1], macs[0], 80, round * 100 + n))
            .collect();
        line.transfer(0, &frames, frames.len())?;
        let mut now = Vec::new();
        for end in &mut line.ends {
            now.push(end.port.extended()?);
        }
        for (before, counters) in last.iter().zip(&now) {
            for old in before {
                let new = counters.iter().find(|counter| counter.name == old.name);
                let fell = new.is_none_or(|new| new.value < old.value);
                require!(!fell, "{} was {}, and is {new:?}", old.name, old.value);
            }
        }
        for counters in &now {
            let mut names: Vec<&str> = counters.iter().map(|c| c.name.as_str()).collect();
            names.sort_unstable();
            let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
            let nameless = names.first().is_some_and(|name| name.is_empty());
            require!(twice.is_none() && !nameless, "names {names:?}");
        }
        last = now;
        ports = line.stop()?;
    }
    if last.iter().all(Vec::is_empty) {
        return Ok(Verdict::NotOffered("further counters"));
    }
    Ok(Verdict::Passed)
}

fn stop_and_start(mut ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let mut counted = 0;
    for round in 0..10_u64 {
        let mut line = Line::start(ports, &Config::default())?;
        let macs = line.macs();
        let frames: Vec<_> = (0..100 + round)
            .map(|n| frame(macs[1], macs[0], 200, n))
            .collect();
        let received = line.transfer(0, &frames, frames.len())?;
        same(&frames, &received)?;
        counted += frames.len() as u64;
        ports = line.stop()?;
        let total = ports[0].counters()?.tx_frames;
        require!(
            total == counted,
            "after {} starts {counted} frames were sent and {total} counted",
            round + 1
        );
    }
    Ok(Verdict::Passed)
}

fn stop_under_load(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    /// What no frame here contains.
    const MARK: u8 = 0xe7;
    let mut line = Line::start(ports, &Config::default())?;
    let macs = line.macs();
    let more = |n: u64| -> VecDeque<Vec<u8>> {
        (0..64)
            .map(|k| frame(macs[1], macs[0], 1000, n + k))
            .collect()
    };
    for round in 0..50 {
        let mut frames = more(round * 64);
        line.ends[0].post(0, &mut frames, 64);
        line.ends[0].reap();
    }
    let [mut sender, receiver] = line.ends;
    // The receiver stops while frames are on their way to it.
    let mut frames = more(10_000);
    sender.post(0, &mut frames, 64);
    let pool = receiver.to_arm.clone();
    let mut receiver_port = receiver.stop()?;
    let mut home: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    for frame in &mut home {
        frame.room_mut().fill(MARK);
        frame.set_len(frame.capacity());
    }
    let started = std::time::Instant::now();
    let mut posted = 0;
    while posted < 500 && started.elapsed() < PATIENCE {
        let mut frames = more(20_000);
        posted += sender.post(0, &mut frames, 64);
        sender.reap();
        let _ = receiver_port.service()?;
    }
    for frame in &home {
        require!(
            frame.bytes().iter().all(|&byte| byte == MARK),
            "a stopped port wrote into a frame"
        );
    }
    drop(home);
    pool.close()?;
    sender.stop()?;
    Ok(Verdict::Passed)
}
