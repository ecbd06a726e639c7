//! Spreading received frames over queues (RSS).

use port::{Config, Offloads, Port, Rss, RxFlags};

use super::line::{Failure, Line, Watch};
use super::packet::{Carries, Packet, toeplitz};
use super::{Named, Verdict};
use crate::require;

pub(super) const CHECKS: &[Named] = &[
    (
        "flows spread over receive queues as the table says, and move when it changes",
        flows_follow_the_table,
    ),
    (
        "the hash that picked a frame's queue is told with it",
        hashes_are_told,
    ),
];

const FLOWS: u16 = 200;
/// Entries of the table, as most devices have it.
const ENTRIES: usize = 128;

fn key() -> Vec<u8> {
    (0..40_u8).map(|n| n.wrapping_mul(73) ^ 0xa5).collect()
}

/// A table that names `queues` in turn.
fn table(queues: usize) -> Vec<u16> {
    let queues = u16::try_from(queues).unwrap_or(u16::MAX);
    (0..queues).cycle().take(ENTRIES).collect()
}

/// Sends one frame of each flow; the queue that each came in on, and its hash if it was told.
fn spread(line: &mut Line, v6: bool) -> Result<Vec<(usize, Option<u32>)>, Failure> {
    let macs = line.macs();
    let frames: Vec<_> = (0..FLOWS)
        .map(|flow| {
            let packet = Packet {
                v6,
                carries: Carries::Tcp,
                flow,
                payload: 40,
            };
            packet.frame(macs[1], macs[0]).bytes
        })
        .collect();
    let mut rest = frames.clone().into();
    let mut found = vec![None; frames.len()];
    let mut missing = frames.len();
    let mut watch = Watch::new();
    while missing > 0 {
        let before = missing;
        line.ends[0].post(0, &mut rest, 17);
        line.ends[0].reap();
        for queue in 0..line.ends[1].queues.rx.len() {
            let mut out = Vec::new();
            line.ends[1].receive(queue, &mut out);
            for got in out {
                let at = frames.iter().position(|frame| *frame == got.bytes);
                let Some(at) = at.filter(|&at| found[at].is_none()) else {
                    return Err(Failure::Found("a frame that was not sent, or twice".into()));
                };
                let told = got.meta.flags.contains(RxFlags::HASH);
                found[at] = Some((queue, told.then_some(got.meta.hash)));
                missing -= 1;
            }
        }
        require!(
            watch.is_patient(before != missing),
            "{missing} of {FLOWS} flows did not arrive"
        );
        line.serve()?;
    }
    Ok(found.into_iter().flatten().collect())
}

/// Starts both ports with up to four queues to spread over; on how many they do. None: they do not
/// offer that.
fn start(ports: [Box<dyn Port>; 2]) -> Result<Option<(Line, usize)>, Failure> {
    let offered = |port: &dyn Port| port.caps().offloads.contains(Offloads::RSS);
    let queues = ports
        .iter()
        .map(|port| *port.caps().rx_queues.range.end())
        .min()
        .unwrap_or(1)
        .min(4);
    if queues < 2 || !ports.iter().all(|port| offered(port.as_ref())) {
        return Ok(None);
    }
    let config = Config {
        rx_queues: queues,
        offloads: Offloads::RSS,
        rss: Some(Rss {
            key: key(),
            table: table(queues),
        }),
        ..Config::default()
    };
    Ok(Some((Line::start(ports, &config)?, queues)))
}

fn hashes_are_told(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let Some((mut line, queues)) = start(ports)? else {
        return Ok(Verdict::NotOffered("RSS"));
    };
    let mut told = 0;
    for v6 in [false, true] {
        let found = spread(&mut line, v6)?;
        told += found.iter().filter(|found| found.1.is_some()).count();
        check_hashes(&line, &found, v6, queues)?;
    }
    line.stop()?;
    if told == 0 {
        return Ok(Verdict::NotOffered("the hash of RSS"));
    }
    let all = 2 * usize::from(FLOWS);
    require!(told == all, "{told} frames of {all} came with their hashes");
    Ok(Verdict::Passed)
}

fn flows_follow_the_table(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let Some((mut line, queues)) = start(ports)? else {
        return Ok(Verdict::NotOffered("RSS"));
    };
    for v6 in [false, true] {
        let first = spread(&mut line, v6)?;
        for queue in 0..queues {
            let count = first.iter().filter(|found| found.0 == queue).count();
            require!(
                count * queues > usize::from(FLOWS) / 3,
                "{count} of {FLOWS} flows on queue {queue} of {queues}"
            );
        }
        check_hashes(&line, &first, v6, queues)?;
        let again = spread(&mut line, v6)?;
        require!(first == again, "the same flows went elsewhere");
    }
    for queue in [1, 0] {
        let number = u16::try_from(queue).unwrap_or(0);
        line.ends[1].port.set_rss(&Rss {
            key: key(),
            table: vec![number; ENTRIES],
        })?;
        let found = spread(&mut line, false)?;
        require!(
            found.iter().all(|found| found.0 == queue),
            "the table names queue {queue} alone, and flows came in elsewhere"
        );
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

/// Where hashes are told they are right, and the table was looked up with them.
fn check_hashes(
    line: &Line,
    found: &[(usize, Option<u32>)],
    v6: bool,
    queues: usize,
) -> Result<(), Failure> {
    let macs = line.macs();
    let (key, table) = (key(), table(queues));
    for (flow, &(queue, hash)) in (0..FLOWS).zip(found) {
        let Some(hash) = hash else { continue };
        let packet = Packet {
            v6,
            carries: Carries::Tcp,
            flow,
            payload: 0,
        };
        let bytes = packet.frame(macs[1], macs[0]).flow;
        let addresses = if v6 { 32 } else { 8 };
        let right = [&bytes[..], &bytes[..addresses]].map(|bytes| toeplitz(&key, bytes));
        let entry = table[hash as usize % ENTRIES];
        require!(
            right.contains(&hash) && usize::from(entry) == queue,
            "flow {flow}: hash {hash:#x}, of {right:#x?}, on queue {queue}, where the table says {entry}"
        );
    }
    Ok(())
}
