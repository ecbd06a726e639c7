//! Sending: what a worker does when it visits a send queue.

use std::sync::Arc;

use hugemem::{BURST, Burst, Frame};
use port::{QueueState, TxCounts, TxQueue};

use super::counters::{Counter, Gate, LaneSent, QueueSent};
use super::kit::{LaneKit, SendKit};
use super::lane::{Lane, Supply};
use super::ready::{Log, Owners, Picked};
use super::schedule::Schedule;
use super::since::Since;
use super::stamp::Key;
use crate::stream::FCS;

/// From so many resident frames of one lane on they are posted by themselves.
const TOGETHER: usize = 8;

/// What a visit came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Visit {
    /// It moved at least one frame.
    pub(super) worked: bool,
    /// It was stopped by a full ring.
    pub(super) blocked: bool,
}

/// Why frames that are due are not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Nobody came by in time.
    Late,
    /// The ring was full at the last visit.
    RingFull,
    /// The link or the peer is away.
    Paused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Sending,
    /// Waiting until this time for what is in flight.
    Draining {
        until_ns: u64,
    },
    /// Over, but what the device still has may leave while others receive.
    Lingering,
    Done,
}

/// The times of a run, as far as sending goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) start_ns: u64,
    /// When sending ends by itself; the end of time if it does not.
    pub(super) end_ns: u64,
    pub(super) catch_up_ns: u64,
    pub(super) drain_ns: u64,
}

/// A send queue and the lanes that it sends.
pub(super) struct SendTask {
    queue: Box<dyn TxQueue>,
    /// What the queue has counted since the task began.
    since: Since,
    lanes: Vec<Lane>,
    /// Lanes that are due by the clock, and those that take what time is left.
    timed: Schedule,
    free: Schedule,
    /// The virtual time of the latter: a frame a nanosecond.
    free_ns: u64,
    has_free: bool,
    /// Frames that are written and wait for the ring, since when, and whose they are.
    ready: Burst,
    ready_since_ns: u64,
    ready_bytes: u64,
    owners: Owners,
    /// Resident frames that wait to be posted together.
    picked: Picked,
    /// Frames to write into, the last used last.
    spare: Vec<Frame>,
    reaped: Burst,
    key: Key,
    times: Times,
    phase: Phase,
    cause: Cause,
    /// Whether this visit met a full ring, or found no frame to write into.
    blocked: bool,
    /// Whether the ring did not take all that was offered in this visit.
    short: bool,
    /// Whether the lane that was served last got rid of anything.
    took: bool,
    /// Frames posted so far.
    posted: u64,
    /// Lanes that may still have something to send.
    live: usize,
    /// The queue has failed: nothing more will be sent.
    failed: bool,
    visits: u64,
    /// Nothing is posted before this, so that more is posted at once.
    rests_until_ns: u64,
    coalesce_ns: u64,
    log: Log,
    counts: Arc<QueueSent>,
    gate: Arc<Gate>,
    is_received: bool,
}

/// What a send task is made of.
pub(super) struct SendParts {
    pub(super) queue: Box<dyn TxQueue>,
    /// Its lanes; at least one.
    pub(super) lanes: Vec<Lane>,
    /// Mean nanoseconds between frames of the timed lanes.
    pub(super) gap_ns: u64,
    /// As [`RunPlan::coalesce_ns`](super::RunPlan::coalesce_ns).
    pub(super) coalesce_ns: u64,
    /// Every frame that written lanes send, for good.
    pub(super) spare: Vec<Frame>,
    pub(super) key: Key,
    pub(super) times: Times,
    /// Slots of the ring: the most frames that can be in flight.
    pub(super) slots: usize,
    pub(super) counts: Arc<QueueSent>,
    pub(super) gate: Arc<Gate>,
    /// Whether a port of the run receives what is sent.
    pub(super) is_received: bool,
}

impl SendTask {
    pub(super) fn new(parts: SendParts) -> Self {
        let SendParts { lanes, times, .. } = parts;
        let mut timed = Schedule::new(lanes.len(), parts.gap_ns);
        let mut free = Schedule::new(lanes.len(), 1);
        for (number, lane) in (0..).zip(&lanes) {
            let schedule = if lane.unlimited {
                &mut free
            } else {
                &mut timed
            };
            schedule.insert(number, lane.pacer.next_ns());
        }
        let has_free = lanes.iter().any(|lane| lane.unlimited);
        let log = Log::new(if lanes.len() > 1 { parts.slots } else { 0 });
        let live = lanes.iter().filter(|lane| !lane.pacer.is_over()).count();
        Self {
            since: Since::begin(parts.queue.counts()),
            queue: parts.queue,
            lanes,
            timed,
            free,
            free_ns: 0,
            has_free,
            ready: Burst::new(),
            ready_since_ns: 0,
            ready_bytes: 0,
            owners: Owners::new(),
            picked: Picked::new(),
            spare: parts.spare,
            reaped: Burst::new(),
            key: parts.key,
            times,
            phase: Phase::Sending,
            cause: Cause::Late,
            blocked: false,
            short: false,
            took: false,
            posted: 0,
            live,
            failed: false,
            visits: 0,
            rests_until_ns: 0,
            coalesce_ns: if parts.gap_ns < parts.coalesce_ns {
                parts.coalesce_ns
            } else {
                0
            },
            log,
            counts: parts.counts,
            gate: parts.gate,
            is_received: parts.is_received,
        }
    }

    /// Sets when sending begins and ends.
    pub(super) fn begin(&mut self, start_ns: u64, end_ns: u64) {
        (self.times.start_ns, self.times.end_ns) = (start_ns, end_ns);
    }

    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    pub(super) fn counts(&self) -> &QueueSent {
        &self.counts
    }

    /// What the next trial goes on with, and what the queue says became of this one's frames.
    pub(super) fn into_kit(mut self) -> (SendKit, TxCounts) {
        let counts = self.since.note(self.queue.counts());
        // Frames that were written and given up.
        while let Some(frame) = self.ready.pop() {
            self.spare.push(frame);
        }
        let lane = |lane: Lane| LaneKit {
            part: lane.part,
            supply: lane.supply,
        };
        let kit = SendKit {
            queue: self.queue,
            lanes: self.lanes.into_iter().map(lane).collect(),
            spare: self.spare,
        };
        (kit, counts)
    }

    /// Sends what is due at `now_ns`, at most a burst of it.
    #[inline]
    pub(super) fn visit(&mut self, now_ns: u64) -> Visit {
        match self.phase {
            Phase::Sending => self.send(now_ns),
            Phase::Draining { until_ns } => {
                self.drain(now_ns, until_ns);
                Visit::default()
            }
            Phase::Lingering => {
                self.linger();
                Visit::default()
            }
            Phase::Done => Visit::default(),
        }
    }

    #[inline]
    fn send(&mut self, now_ns: u64) -> Visit {
        self.visits += 1;
        if self.visits.is_multiple_of(1024) {
            self.look_at_state();
        }
        if self.gate.is_stopped() && now_ns < self.times.end_ns {
            self.times.end_ns = now_ns;
        }
        if now_ns < self.rests_until_ns.min(self.times.end_ns) {
            return Visit::default();
        }
        (self.blocked, self.short) = (false, false);
        let before = self.posted;
        let Times {
            start_ns, end_ns, ..
        } = self.times;
        let over = now_ns >= end_ns || self.failed;
        let mut served = self.send_ready(now_ns);
        if served {
            // Frames are due until the end; those that are not late may still leave after it.
            let at_ns = now_ns.min(end_ns).saturating_sub(start_ns);
            served = self.serve_timed(at_ns, now_ns.saturating_sub(start_ns), now_ns);
            if served && self.has_free && !over && now_ns >= start_ns {
                served = self.serve_free(now_ns);
            }
            if !self.is_clear() && !self.short {
                served &= self.flush(now_ns);
            }
        }
        if served {
            self.cause = Cause::Late;
        }
        let worked = self.posted > before;
        if worked && served && !self.has_free {
            self.rests_until_ns = now_ns + self.coalesce_ns;
        }
        if over || !worked {
            self.maybe_finish(now_ns, over, served && self.is_clear());
        }
        Visit {
            worked,
            blocked: self.blocked,
        }
    }

    /// Posts what the last visit left over. True if nothing is left.
    #[inline]
    fn send_ready(&mut self, now_ns: u64) -> bool {
        self.is_clear() || self.resend_ready(now_ns)
    }

    /// True when nothing waits to be posted.
    #[inline]
    fn is_clear(&self) -> bool {
        self.ready.is_empty() && self.picked.is_empty()
    }

    /// Posts what waits. True if nothing is left.
    #[inline]
    fn flush(&mut self, now_ns: u64) -> bool {
        (self.ready.is_empty() || self.post(now_ns))
            && (self.picked.is_empty() || self.post_picked())
    }

    fn resend_ready(&mut self, now_ns: u64) -> bool {
        let waited_ns = now_ns.saturating_sub(self.ready_since_ns);
        let keep = self.has_free && self.cause != Cause::Paused;
        if waited_ns > self.times.catch_up_ns && !keep {
            self.give_up_ready();
            return true;
        }
        self.collect();
        // They leave now, not when they were written.
        for (index, frame) in self.ready.iter_mut().enumerate() {
            let owner = self.owners.lane(index);
            if let Supply::Written(pen) = &self.lanes[owner].supply
                && pen.stamper.is_some()
            {
                self.key.retime(frame.bytes_mut(), now_ns);
            }
        }
        self.flush(now_ns)
    }

    /// Frames that waited for too long are not sent any more.
    fn give_up_ready(&mut self) {
        for index in 0..self.ready.len() {
            self.miss(self.owners.lane(index), 1);
        }
        for index in 0..self.picked.len() {
            self.miss(self.picked.owners().lane(index), 1);
        }
        self.picked.remove(self.picked.len());
        self.owners.remove(self.ready.len());
        self.ready_bytes = 0;
        while let Some(frame) = self.ready.pop() {
            self.spare.push(frame);
        }
    }

    /// Counts `count` frames of `lane` as not sent, by the present cause.
    fn miss(&self, lane: usize, count: u64) {
        let lane = &self.lanes[lane];
        if !lane.unlimited {
            pick(&lane.counts, self.cause).add(count);
        }
    }

    /// Sends what is due by the clock. False if there was not room for all of it.
    #[inline]
    fn serve_timed(&mut self, at_ns: u64, elapsed_ns: u64, now_ns: u64) -> bool {
        if let [lane] = &self.lanes[..] {
            return lane.unlimited || self.serve(0, at_ns, elapsed_ns, now_ns);
        }
        loop {
            let Some(lane) = self.timed.pop_due(at_ns) else {
                return true;
            };
            let served = self.serve(lane as usize, at_ns, elapsed_ns, now_ns);
            let next_ns = self.lanes[lane as usize].pacer.next_ns();
            if served || self.took {
                self.timed.insert(lane, next_ns);
            } else {
                // It had no turn yet.
                self.timed.put_back(lane, next_ns);
            }
            if !served {
                return false;
            }
        }
    }

    /// Sends a burst of the lanes that are not due by the clock. False if there was not room.
    #[inline]
    fn serve_free(&mut self, now_ns: u64) -> bool {
        let at_ns = self.free_ns;
        let served = if let [_] = &self.lanes[..] {
            self.serve(0, at_ns, at_ns, now_ns)
        } else {
            self.serve_free_many(at_ns, now_ns)
        };
        if served {
            self.free_ns += BURST as u64;
        }
        served
    }

    fn serve_free_many(&mut self, at_ns: u64, now_ns: u64) -> bool {
        loop {
            let Some(lane) = self.free.pop_due(at_ns) else {
                return true;
            };
            let served = self.serve(lane as usize, at_ns, at_ns, now_ns);
            let next_ns = self.lanes[lane as usize].pacer.next_ns();
            if served || self.took {
                self.free.insert(lane, next_ns);
            } else {
                // It had no turn yet.
                self.free.put_back(lane, next_ns);
            }
            if !served {
                return false;
            }
        }
    }

    /// Sends what one lane has due at `at_ns`. False if there was not room for all of it.
    #[inline]
    fn serve(&mut self, number: usize, at_ns: u64, elapsed_ns: u64, now_ns: u64) -> bool {
        let lane = &mut self.lanes[number];
        let mut backlog = lane.pacer.backlog(at_ns);
        if backlog == 0 {
            return true;
        }
        if !lane.unlimited {
            let late = lane.pacer.too_late(elapsed_ns, backlog);
            if late > 0 {
                lane.pacer.advance(late);
                backlog -= late;
                self.miss(number, late);
            }
        }
        let count = usize::try_from(backlog).map_or(BURST, |backlog| backlog.min(BURST));
        let taken = match self.lanes[number].supply {
            Supply::Resident(_) if count < TOGETHER && self.lanes.len() > 1 => {
                self.pick(number, count, now_ns)
            }
            Supply::Resident(_) => self.post_resident(number, count, now_ns),
            Supply::Written(_) => self.write(number, count, now_ns),
        } as u64;
        self.took = taken > 0;
        let pacer = &mut self.lanes[number].pacer;
        pacer.advance(taken);
        self.live -= usize::from(pacer.is_over());
        taken == backlog
    }

    /// Posts frames of the resident set. How many it posted.
    #[inline]
    fn post_resident(&mut self, number: usize, count: usize, now_ns: u64) -> usize {
        // What was due earlier leaves earlier.
        if !self.is_clear() && !self.flush(now_ns) {
            return 0;
        }
        let whole = self.lanes.len() == 1;
        if !whole {
            self.note_abandoned();
        }
        let lane = &mut self.lanes[number];
        let Supply::Resident(cycle) = &mut lane.supply else {
            return 0;
        };
        let (mut done, mut bytes) = (0, 0);
        while done < count {
            let (first, wanted) = cycle.next(count - done, whole);
            let posted = self.queue.burst_resident(first, wanted);
            bytes += cycle.advance(posted);
            done += posted;
            if posted < wanted {
                self.blocked = true;
                break;
            }
        }
        lane.counts.posted.add(done as u64);
        lane.counts.bytes.add(bytes);
        self.posted += done as u64;
        self.log.add(id(number), done);
        if self.blocked {
            self.queue.poll();
            self.collect();
            self.find_cause();
        }
        done
    }

    /// Puts up to `count` resident frames of a lane with those that are posted together. How many.
    #[inline]
    fn pick(&mut self, number: usize, count: usize, now_ns: u64) -> usize {
        if self.picked.len() + count > BURST && !self.flush(now_ns) {
            return 0;
        }
        if self.is_clear() {
            self.ready_since_ns = now_ns;
        }
        let Supply::Resident(cycle) = &mut self.lanes[number].supply else {
            return 0;
        };
        for _ in 0..count {
            let (frame, size) = cycle.step();
            self.picked
                .push(frame, id(number), u32::try_from(size).unwrap_or(u32::MAX));
        }
        count
    }

    /// Posts the resident frames that wait. True if the ring took all of them.
    fn post_picked(&mut self) -> bool {
        self.note_abandoned();
        let taken = self.queue.burst_resident_each(self.picked.numbers());
        self.posted += taken as u64;
        for index in 0..taken {
            let owner = self.picked.owners().lane(index);
            let counts = &self.lanes[owner].counts;
            counts.posted.add(1);
            counts.bytes.add(self.picked.owners().size(index));
            self.log.add(id(owner), 1);
        }
        let all = taken == self.picked.len();
        self.picked.remove(taken);
        if !all {
            (self.blocked, self.short) = (true, true);
            self.queue.poll();
            self.collect();
            self.find_cause();
        }
        all
    }

    /// Writes up to `count` frames of a lane and posts them, or puts them with those that are
    /// posted together at the end of the visit. How many it took on.
    #[inline]
    fn write(&mut self, number: usize, count: usize, now_ns: u64) -> usize {
        let count = count.min(self.ready.room());
        if self.is_clear() {
            self.ready_since_ns = now_ns;
        }
        let alone = self.ready.is_empty();
        let frames = if alone {
            &mut self.ready
        } else {
            &mut self.reaped
        };
        self.queue.reap(frames);
        while frames.len() < count {
            let Some(frame) = self.spare.pop() else { break };
            let full = frames.push(frame);
            debug_assert!(full.is_ok(), "fewer than `count`, which is at most a burst");
        }
        while frames.len() > count {
            let Some(frame) = frames.pop_last() else {
                break;
            };
            self.spare.push(frame);
        }
        let taken = frames.len();
        let lane = &mut self.lanes[number];
        if let Supply::Written(pen) = &mut lane.supply {
            self.ready_bytes += pen.write(frames, now_ns);
        }
        if self.lanes.len() > 1 {
            for frame in frames.iter() {
                let size = frame.len() + FCS;
                self.owners
                    .push(id(number), u32::try_from(size).unwrap_or(u32::MAX));
            }
        }
        if !alone {
            self.reaped.move_to(&mut self.ready, taken);
        }
        if taken < count {
            // Every frame is with the device.
            self.blocked = true;
            self.find_cause();
        }
        if self.ready.room() == 0 {
            self.post(now_ns);
        }
        taken
    }

    /// Takes back frames that the device is done with.
    #[cold]
    fn collect(&mut self) {
        while self.queue.reap(&mut self.reaped) > 0 {
            while let Some(frame) = self.reaped.pop() {
                self.spare.push(frame);
            }
        }
    }

    /// Posts what is ready. True if the ring took all of it.
    #[inline]
    fn post(&mut self, now_ns: u64) -> bool {
        self.note_abandoned();
        let offered = self.ready.len();
        let taken = self.queue.burst(&mut self.ready);
        let left: u64 = self
            .ready
            .iter()
            .map(|frame| (frame.len() + FCS) as u64)
            .sum();
        self.posted += taken as u64;
        if let [lane] = &self.lanes[..] {
            lane.counts.posted.add(taken as u64);
            lane.counts.bytes.add(self.ready_bytes - left);
        } else {
            self.count_posted(taken);
        }
        self.ready_bytes = left;
        self.owners.remove(taken);
        if taken == offered {
            return true;
        }
        self.ready_since_ns = self.ready_since_ns.min(now_ns);
        (self.blocked, self.short) = (true, true);
        self.find_cause();
        false
    }

    /// Counts the first `taken` of the frames that were ready, by lane.
    fn count_posted(&mut self, taken: usize) {
        for index in 0..taken {
            let owner = self.owners.lane(index);
            let counts = &self.lanes[owner].counts;
            counts.posted.add(1);
            counts.bytes.add(self.owners.size(index));
            self.log.add(id(owner), 1);
        }
    }

    /// Why the ring did not take everything.
    #[cold]
    fn find_cause(&mut self) {
        self.look_at_state();
        if self.cause != Cause::Paused {
            self.cause = Cause::RingFull;
        }
    }

    #[cold]
    fn look_at_state(&mut self) {
        match self.queue.state() {
            QueueState::Running if self.cause == Cause::Paused => self.cause = Cause::RingFull,
            QueueState::Running => {}
            QueueState::Paused => self.cause = Cause::Paused,
            QueueState::Failed => {
                self.cause = Cause::Paused;
                self.failed = true;
                self.gate.stop();
            }
        }
    }

    /// Gives frames that the device took along when it was reset to their lanes.
    #[inline]
    fn note_abandoned(&mut self) {
        let counts = self.queue.counts();
        if self.since.is_more_abandoned(counts) {
            self.note_reset(counts);
        }
    }

    #[cold]
    fn note_reset(&mut self, counts: TxCounts) {
        let abandoned = self.since.note(counts).abandoned;
        let known = self.counts.abandoned.get();
        self.charge_abandoned(abandoned - known);
        self.counts.abandoned.set(abandoned);
    }

    #[cold]
    fn charge_abandoned(&mut self, count: u64) {
        if let [lane] = &self.lanes[..] {
            lane.counts.abandoned.add(count);
            return;
        }
        for lane in self.log.take_last(count) {
            self.lanes[lane].counts.abandoned.add(1);
        }
    }

    /// Ends sending if there is nothing left to send, now or ever. `served` says that nothing is
    /// due.
    #[inline]
    fn maybe_finish(&mut self, now_ns: u64, over: bool, served: bool) {
        let late_ns = now_ns.saturating_sub(self.times.end_ns);
        let given_up = self.failed || over && late_ns > self.times.catch_up_ns;
        if given_up || served && (over || self.live == 0) {
            self.finish(now_ns);
        }
    }

    /// Settles what was asked and not posted, and begins to drain.
    fn finish(&mut self, now_ns: u64) {
        let end_ns = now_ns.min(self.times.end_ns);
        self.gate.note_end(end_ns);
        let elapsed_ns = end_ns.saturating_sub(self.times.start_ns);
        for lane in &self.lanes {
            let counts = &lane.counts;
            if lane.unlimited {
                counts.asked.set(counts.posted.get());
                continue;
            }
            let asked = lane.pacer.timeline().due(elapsed_ns);
            let known = counts.posted.get()
                + counts.late.get()
                + counts.ring_full.get()
                + counts.paused.get();
            let rest = asked.saturating_sub(known);
            counts.asked.set(asked);
            match self.cause {
                Cause::Late => counts.ended.add(rest),
                cause => pick(counts, cause).add(rest),
            }
        }
        let until_ns = now_ns.saturating_add(self.times.drain_ns);
        self.phase = Phase::Draining { until_ns };
    }

    /// Waits for the device to be done with what it has.
    fn drain(&mut self, now_ns: u64, until_ns: u64) {
        self.queue.poll();
        self.note_abandoned();
        let in_flight = self.since.note(self.queue.counts()).in_flight();
        if in_flight > 0 && now_ns < until_ns && self.queue.state() != QueueState::Failed {
            return;
        }
        self.phase = Phase::Lingering;
        if self.is_received {
            let abandoned = self.counts.abandoned.get();
            self.gate.expect(self.posted.saturating_sub(abandoned));
        }
        self.gate.sender_done();
    }

    /// Watches frames leave until nobody receives them any more. What the device has then is as
    /// good as abandoned: it is about to be stopped.
    fn linger(&mut self) {
        let has_received = self.gate.has_received();
        self.queue.poll();
        self.note_abandoned();
        let in_flight = self.since.note(self.queue.counts()).in_flight();
        if in_flight > 0 && !has_received {
            return;
        }
        self.charge_abandoned(in_flight);
        self.counts.abandoned.add(in_flight);
        self.phase = Phase::Done;
    }
}

fn pick(counts: &LaneSent, cause: Cause) -> &Counter {
    match cause {
        Cause::Late => &counts.late,
        Cause::RingFull => &counts.ring_full,
        Cause::Paused => &counts.paused,
    }
}

/// A lane's number, as lists keep it.
#[inline]
fn id(lane: usize) -> u32 {
    u32::try_from(lane).expect("a queue has fewer lanes than stamps can name")
}
