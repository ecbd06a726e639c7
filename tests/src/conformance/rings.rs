//! Rings: laps, full ones, starved ones, frames that stay.

use std::collections::VecDeque;
use std::sync::Arc;

use hugemem::{Burst, Resident, TxFlags};
use port::{Config, Port};

use super::line::{End, Failure, Line, Received, Watch, frame, same};
use super::{Named, Verdict};
use crate::require;

pub(super) const CHECKS: &[Named] = &[
    (
        "every ring goes three laps at odd burst sizes, in order, at each ring size",
        three_laps,
    ),
    (
        "a full send ring takes no more, gives every frame back once, and loses none",
        a_full_ring_gives_back,
    ),
    (
        "a starved receive ring loses what it must, counts it where it can, and recovers",
        a_starved_ring_recovers,
    ),
    (
        "resident frames leave in order, over laps of the set and of the ring, mixed with others",
        resident_frames_in_order,
    ),
];

/// Posts one frame that lies in `pieces`; false if the ring has no room for it.
pub(super) fn post_pieces(end: &mut End, pieces: &[Vec<u8>]) -> bool {
    let mut burst = Burst::new();
    if pieces.is_empty() || end.to_send.free() < pieces.len() {
        return false;
    }
    end.to_send.take_burst(&mut burst, pieces.len());
    let last = pieces.len() - 1;
    for (number, (frame, bytes)) in burst.iter_mut().zip(pieces).enumerate() {
        frame.fill(bytes);
        frame.flags = if number < last {
            TxFlags::MORE
        } else {
            TxFlags::empty()
        };
    }
    end.queues.tx[0].burst(&mut burst) > 0
}

/// Ring sizes to try: the smallest, one that is no power of two if that may be, the default.
fn ring_sizes(port: &dyn Port) -> Vec<usize> {
    let (tx, rx) = (&port.caps().tx_slots, &port.caps().rx_slots);
    let mut sizes = vec![tx.default.min(rx.default)];
    let smallest = *tx.range.start().max(rx.range.start());
    for size in [smallest, smallest + 1, 100, 256] {
        if tx.allow(size) && rx.allow(size) && !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    sizes
}

fn three_laps(mut ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    for slots in ring_sizes(ports[0].as_ref()) {
        let config = Config {
            rx_slots: Some(slots),
            tx_slots: Some(slots),
            ..Config::default()
        };
        let mut line = Line::start(ports, &config)?;
        let macs = line.macs();
        for from in [0, 1] {
            let frames: Vec<_> = (0..3 * slots as u64 + 17)
                .map(|n| frame(macs[1 - from], macs[from], 60 + (n % 40) as usize, n))
                .collect();
            // In portions that the receiving ring holds, as nothing slows the sender down.
            for portion in frames.chunks(slots.div_ceil(2).max(1)) {
                let received = line.transfer(from, portion, portion.len())?;
                same(portion, &received)?;
            }
        }
        ports = line.stop()?;
    }
    Ok(Verdict::Passed)
}

fn a_full_ring_gives_back(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let config = Config {
        tx_slots: smallest_fit(ports[0].as_ref(), 64),
        ..Config::default()
    };
    let slots = config.tx_slots.unwrap_or(64);
    let mut line = Line::start(ports, &config)?;
    let macs = line.macs();
    let end = &mut line.ends[0];
    // Nothing is reaped, so only so many can be taken.
    let most = end.to_send.total();
    let mut frames: VecDeque<Vec<u8>> = (0..most as u64)
        .map(|n| frame(macs[1], macs[0], 60, n))
        .collect();
    let all = Vec::from(frames.clone());
    let mut posted = 0;
    let mut refusals = 0;
    while refusals < 100 && !frames.is_empty() {
        let took = end.post(0, &mut frames, 64);
        posted += took;
        refusals += u32::from(took == 0);
        require!(
            end.queues.tx[0].counts().posted == posted as u64,
            "{posted} frames were taken, {:?} counted",
            end.queues.tx[0].counts()
        );
    }
    require!(
        posted <= slots && refusals > 0,
        "a ring of {slots} slots took {posted} frames with none reaped"
    );
    // One slot tells a full ring from an empty one, and one may say what holds for all frames.
    require!(
        posted + 2 >= slots,
        "a ring of {slots} slots took only {posted}"
    );
    let mut watch = Watch::new();
    let mut back = 0;
    while back < posted {
        let came = end.reap();
        back += came;
        require!(
            watch.is_patient(came > 0),
            "{back} of {posted} frames came back"
        );
    }
    require!(
        back == posted && end.to_send.free() == most,
        "{back} frames came back of {posted}"
    );
    require!(
        end.in_flight() == 0,
        "in flight: {:?}",
        end.queues.tx[0].counts()
    );
    let mut arrived = Vec::new();
    while arrived.len() < posted {
        let before = arrived.len();
        line.collect(1, &mut arrived);
        require!(
            watch.is_patient(before != arrived.len()),
            "{before} of {posted} frames arrived"
        );
    }
    same(&all[..posted], &arrived)?;
    line.stop()?;
    Ok(Verdict::Passed)
}

/// The smallest number of send slots that the port allows from `least` on.
fn smallest_fit(port: &dyn Port, least: usize) -> Option<usize> {
    let slots = &port.caps().tx_slots;
    (least..=*slots.range.end()).find(|&count| slots.allow(count))
}

fn a_starved_ring_recovers(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let mut line = Line::start_unarmed(ports, &Config::default())?;
    // Before that, nothing that is sent says anything of rings.
    line.wait_for_link()?;
    let macs = line.macs();
    let all: Vec<_> = (0..200).map(|n| frame(macs[1], macs[0], 100, n)).collect();
    let mut frames = VecDeque::from(all.clone());
    let before = line.ends[1].port.counters()?;
    push_until_stuck(&mut line, &mut frames);
    line.settle_unarmed(1)?;
    let counters = line.ends[1].port.counters()?;
    let sent = line.ends[0].port.counters()?.tx_frames;
    let missed = counters.rx_missed - before.rx_missed;
    // A wire may hold frames back for a port that is not ready, and then stop the sender.
    require!(
        counters.rx_frames == before.rx_frames && missed <= sent,
        "{sent} frames sent into a ring without buffers: {missed} missed, {} received",
        counters.rx_frames - before.rx_frames
    );
    line.ends[1].arm();
    let mut late = Vec::new();
    let mut watch = Watch::new();
    while !frames.is_empty() || line.ends[0].in_flight() > 0 {
        let left = (frames.len(), line.ends[0].in_flight(), late.len());
        line.ends[0].post(0, &mut frames, 31);
        line.ends[0].reap();
        line.collect(1, &mut late);
        let moved = left != (frames.len(), line.ends[0].in_flight(), late.len());
        require!(
            watch.is_patient(moved),
            "buffers came, and still {} frames are not posted, {} in flight",
            frames.len(),
            line.ends[0].in_flight()
        );
        line.serve()?;
    }
    // What was held back comes now; then the ring works as ever. Not in order, as long as the ring
    // runs empty now and then: QEMU's hub lets the second overtake the first, which it kept.
    let frames: Vec<_> = (0..300).map(|n| frame(macs[1], macs[0], 90, n)).collect();
    late.append(&mut line.transfer(0, &frames, frames.len())?);
    let is_fresh = |got: &Received| got.bytes.len() == frames[0].len();
    let mut watch = Watch::new();
    while late.iter().filter(|got| is_fresh(got)).count() < frames.len() {
        let count = late.len();
        line.collect(1, &mut late);
        require!(
            watch.is_patient(count != late.len()),
            "not all frames came afterwards"
        );
    }
    let (mut fresh, late): (Vec<_>, Vec<_>) = late.into_iter().partition(is_fresh);
    fresh.sort_by_key(|got| frames.iter().position(|sent| *sent == got.bytes));
    same(&frames, &fresh)?;
    // Each once.
    let mut numbers: Vec<_> = late
        .iter()
        .map(|got| all.iter().position(|sent| *sent == got.bytes))
        .collect();
    numbers.sort_unstable();
    require!(
        !numbers.contains(&None) && numbers.windows(2).all(|pair| pair[0] != pair[1]),
        "frames that were held back came twice or damaged: {numbers:?}"
    );
    let missed = line.ends[1].port.counters()?.rx_missed - before.rx_missed;
    // One that counts, counts every one; a virtio device tells its driver of none.
    let accounted = late.len() as u64 + missed;
    require!(
        accounted == 200 || missed == 0 && accounted < 200,
        "of 200 frames {missed} were missed, and {} came late",
        late.len()
    );
    line.stop()?;
    Ok(Verdict::Passed)
}

/// Posts frames at end 0 until all are sent, or nothing has moved for a while.
fn push_until_stuck(line: &mut Line, frames: &mut VecDeque<Vec<u8>>) {
    let mut watch = Watch::new();
    let end = &mut line.ends[0];
    loop {
        let left = (frames.len(), end.in_flight());
        if !frames.is_empty() {
            end.post(0, frames, 31);
        }
        end.reap();
        let now = (frames.len(), end.in_flight());
        if now == (0, 0) || !watch.is_patient(left != now) {
            return;
        }
    }
}

fn resident_frames_in_order(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let mut line = Line::start(ports, &Config::default())?;
    let macs = line.macs();
    let slots = line.ends[0].port.caps().tx_slots.default;
    for (period, first_number) in [(7_usize, 0_u64), (251, 1000), (1, 9000)] {
        let bytes: Vec<_> = (0..period)
            .map(|n| {
                frame(
                    macs[1],
                    macs[0],
                    60 + 13 * (n % 100),
                    first_number + n as u64,
                )
            })
            .collect();
        let pool = hugemem::Pool::new(&line.memory, period, 1514)?;
        let set = bytes
            .iter()
            .map_while(|bytes| {
                let mut frame = pool.take()?;
                frame.fill(bytes);
                Some(frame)
            })
            .collect();
        line.ends[0].queues.tx[0].load(Arc::new(Resident::new(set)));
        let others: Vec<_> = (0..40_u64)
            .map(|n| frame(macs[1], macs[0], 64, 50_000 + n))
            .collect();
        let expected = send_mixed(&mut line, &bytes, &others, 3 * slots + 100)?;
        require!(
            expected >= 3 * slots,
            "only {expected} frames of {period} went round"
        );
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

/// Sends the loaded set round and round, with others in between, and compares every frame; how
/// many went.
fn send_mixed(
    line: &mut Line,
    set: &[Vec<u8>],
    others: &[Vec<u8>],
    total: usize,
) -> Result<usize, Failure> {
    let (mut cursor, mut next_other, mut done) = (0, 0, 0);
    while done < total {
        // As many as the receiving ring holds for sure.
        let mut portion = Vec::new();
        let mut watch = Watch::new();
        let mut arrived = Vec::new();
        while portion.len() < 100 {
            let before = portion.len();
            let count = line.burst_size().min(100 - portion.len());
            if next_other < others.len() && portion.len() % 3 == 1 {
                let mut one = VecDeque::from([others[next_other].clone()]);
                if line.ends[0].post(0, &mut one, 1) == 1 {
                    portion.push(others[next_other].clone());
                    next_other += 1;
                }
            } else {
                let posted = line.ends[0].queues.tx[0].burst_resident(cursor, count);
                portion.extend((0..posted).map(|n| set[(cursor + n) % set.len()].clone()));
                cursor = (cursor + posted) % set.len();
            }
            line.ends[0].reap();
            line.collect(1, &mut arrived);
            require!(
                watch.is_patient(before != portion.len()),
                "no room for resident frames: {:?}",
                line.ends[0].queues.tx[0].counts()
            );
        }
        let rest = line.transfer(0, &[], portion.len().saturating_sub(arrived.len()))?;
        arrived.extend(rest);
        same(&portion, &arrived)?;
        done += portion.len();
    }
    Ok(done)
}
