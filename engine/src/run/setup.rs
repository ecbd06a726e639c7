//! From a plan to ports that run and tasks for workers.

use std::mem;
use std::sync::Arc;

use hugemem::{Frame, Memory, Pool};
use port::TxQueue;

use super::counters::{Counter, Gate, LaneReceived, LaneSent};
use super::draft::{Draft, QueueDraft, draft, largest};
use super::lane::{Cycle, Lane, Pen, Stamper, Supply};
use super::latency::Recorder;
use super::pace::Pacer;
use super::rates::{self, Planned, planned};
use super::receive::{Measured, ReceiveTask, ReceiveTimes, Seen};
use super::send::{SendParts, SendTask, Times};
use super::sequence::Window;
use super::site::{self, Site};
use super::stamp::{Key, sum_of_end};
use super::worker::{Placed, Task};
use super::{Clock, RunError, RunPlan};
use crate::stream::{FCS, Measure, Stream};

/// What a port sends, once the port itself is a site.
pub(super) struct Sending {
    pub(super) streams: Vec<Stream>,
    pub(super) unlimited: bool,
    pub(super) peer: Option<usize>,
}

/// A plan taken apart.
pub(super) struct Setup {
    /// The plan, without its ports.
    pub(super) plan: RunPlan,
    pub(super) sites: Vec<Site>,
    pub(super) sending: Vec<Sending>,
    drafts: Vec<Vec<QueueDraft>>,
    /// Measured lanes in all.
    stamps: u32,
}

/// Everything that workers and the control thread need.
pub(super) struct Crew {
    pub(super) tasks: Vec<Placed>,
    pub(super) streams: Vec<StreamState>,
    /// Frames at the wrong port, by receive queue and stamp.
    pub(super) misdirected: Vec<Arc<[Counter]>>,
    pub(super) gate: Arc<Gate>,
}

/// What the control side keeps of a stream.
pub(super) struct StreamState {
    pub(super) name: String,
    pub(super) port: usize,
    pub(super) measured: bool,
    pub(super) unlimited: bool,
    /// By lane.
    pub(super) sent: Vec<Arc<LaneSent>>,
    /// The numbers of its lanes in stamps.
    pub(super) stamps: Vec<u32>,
    /// By lane and receive queue.
    pub(super) received: Vec<Arc<LaneReceived>>,
}

impl Setup {
    /// Compiles what the plan sends, and checks that the ports can do it.
    pub(super) fn new(mut plan: RunPlan) -> Result<Self, RunError> {
        if plan.ports.is_empty() {
            return Err(RunError::NoPorts);
        }
        for port in &mut plan.ports {
            if !port.receive {
                port.config.rx_queues = 0;
            }
            if port.streams.is_empty() {
                port.config.tx_queues = 0;
            }
        }
        let (drafts, stamps) = draft(&plan)?;
        let streams = plan.ports.iter().flat_map(|port| &port.streams);
        let biggest = streams
            .map(|stream| largest(&stream.frames))
            .max()
            .unwrap_or(0);
        let (mut sites, mut sending) = (Vec::new(), Vec::new());
        for mut port in mem::take(&mut plan.ports) {
            let most = port.port.caps().max_frame.saturating_sub(FCS);
            let fits = biggest.min(most).next_multiple_of(64);
            let capacity = port.config.rx_capacity.max(fits);
            port.config.rx_capacity = capacity.min(usize::from(u16::MAX));
            let own = port
                .streams
                .iter()
                .map(|stream| stream.frames.max_size())
                .max();
            let site = Site::new(port.port, port.config, port.promiscuous);
            site.check(own.unwrap_or_default())?;
            sites.push(site);
            sending.push(Sending {
                streams: port.streams,
                unlimited: port.unlimited,
                peer: port.peer,
            });
        }
        Ok(Self {
            plan,
            sites,
            sending,
            drafts,
            stamps,
        })
    }

    /// Gets memory, starts the ports, waits for their links.
    pub(super) fn start_ports(&mut self, clock: impl Clock) -> Result<Memory, RunError> {
        let mut bytes = 0;
        for (site, queues) in self.sites.iter().zip(&self.drafts) {
            let slots = site.tx_slots();
            bytes += site.footprint(0);
            bytes += queues
                .iter()
                .map(|queue| queue.footprint(slots))
                .sum::<usize>();
        }
        let memory = site::memory(&self.sites, bytes, self.plan.pages, self.plan.node)?;
        for site in &mut self.sites {
            site.start(&memory, 0)?;
        }
        site::wait_for_links(&mut self.sites, clock, self.plan.link_wait_ns)?;
        Ok(memory)
    }

    /// Makes the tasks, and what the control side keeps of each stream.
    pub(super) fn crew(&mut self, memory: &Memory) -> Result<Crew, RunError> {
        let planned = planned(self)?;
        let mut drafts = mem::take(&mut self.drafts);
        // Whatever can fail comes first: queues are taken from their ports only afterwards.
        let supplies = self.supplies(&mut drafts, memory)?;
        let sends = |queue: &&QueueDraft| !queue.lanes.is_empty();
        let senders = drafts.iter().flatten().filter(sends).count();
        let mut crew = Crew {
            tasks: Vec::new(),
            streams: self.stream_states(&planned),
            misdirected: Vec::new(),
            gate: Arc::new(Gate::new(senders)),
        };
        for (port, (drafts, supplies)) in drafts.into_iter().zip(supplies).enumerate() {
            let queues = self.sites[port].queues.as_mut();
            let queues = queues
                .map(|queues| mem::take(&mut queues.tx))
                .unwrap_or_default();
            let parts = queues.into_iter().zip(drafts).zip(supplies).enumerate();
            for (number, ((queue, draft), supplies)) in parts {
                let task = if draft.lanes.is_empty() {
                    Task::Idle(queue)
                } else {
                    let place = (port, number);
                    let task = self.sender(place, queue, draft, supplies, &planned, &mut crew);
                    Task::Send(Box::new(task))
                };
                crew.tasks.push(Placed {
                    port,
                    queue: number,
                    task,
                });
            }
        }
        self.add_receivers(&mut crew, senders > 0);
        Ok(crew)
    }

    /// Renders and loads what is resident, and gets frames for what is written at sending.
    fn supplies(
        &mut self,
        drafts: &mut [Vec<QueueDraft>],
        memory: &Memory,
    ) -> Result<Vec<Vec<Supplies>>, RunError> {
        let streams = self.sending.iter().flat_map(|sending| &sending.streams);
        let names: Vec<&str> = streams.map(|stream| stream.name.as_str()).collect();
        let mut all = Vec::new();
        for (site, drafts) in self.sites.iter_mut().zip(drafts) {
            let slots = site.tx_slots();
            let mut supplies = Vec::new();
            for (number, draft) in drafts.iter_mut().enumerate() {
                let cycles = render(draft, site, number, memory, &names)?;
                let spare = spare(draft, site, memory, slots)?;
                supplies.push(Supplies { cycles, spare });
            }
            all.push(supplies);
        }
        Ok(all)
    }

    fn key(&self) -> Key {
        Key::new(self.plan.seed, self.plan.stamp_nonce)
    }

    fn stream_states(&self, planned: &[Planned]) -> Vec<StreamState> {
        let streams = self.sending.iter().flat_map(|sending| &sending.streams);
        let state = |(stream, planned): (&Stream, &Planned)| StreamState {
            name: stream.name.clone(),
            port: planned.port,
            measured: stream.measure != Measure::None,
            unlimited: planned.unlimited,
            sent: Vec::new(),
            stamps: Vec::new(),
            received: Vec::new(),
        };
        streams.zip(planned).map(state).collect()
    }

    /// Makes the task of one send queue.
    fn sender(
        &self,
        (port, number): (usize, usize),
        queue: Box<dyn TxQueue>,
        draft: QueueDraft,
        supplies: Supplies,
        planned: &[Planned],
        crew: &mut Crew,
    ) -> SendTask {
        let key = self.key();
        let catch_up_ns = self.plan.catch_up_ns;
        let timelines = rates::timelines(&draft.lanes, planned);
        let gap_ns = rates::mean_gap_ns(&draft.lanes, planned);
        let streams: Vec<&Stream> = self.sending.iter().flat_map(|s| &s.streams).collect();
        let peer = self.sending[port]
            .peer
            .and_then(|peer| self.sites.get(peer));
        let mut cycles = supplies.cycles.into_iter();
        let mut lanes = Vec::new();
        for (draft, timeline) in draft.lanes.into_iter().zip(timelines) {
            let counts = Arc::new(LaneSent::default());
            let state = &mut crew.streams[draft.stream];
            state.sent.push(Arc::clone(&counts));
            state.stamps.extend(draft.stamp);
            lanes.push(Lane {
                pacer: Pacer::new(timeline, catch_up_ns),
                unlimited: planned[draft.stream].unlimited,
                supply: match draft.resident.and_then(|_| cycles.next()) {
                    Some(cycle) => Supply::Resident(cycle),
                    None => Supply::Written(Box::new(pen(streams[draft.stream], draft, key))),
                },
                counts,
            });
        }
        SendTask::new(SendParts {
            queue,
            lanes,
            gap_ns,
            coalesce_ns: self.plan.coalesce_ns,
            spare: supplies.spare,
            key,
            times: Times {
                start_ns: 0,
                end_ns: u64::MAX,
                catch_up_ns,
                drain_ns: self.plan.drain_ns,
            },
            slots: self.sites[port].tx_slots(),
            counts: Arc::clone(&self.sites[port].sent[number]),
            gate: Arc::clone(&crew.gate),
            is_received: peer.is_some_and(|peer| peer.config.rx_queues > 0),
        })
    }

    /// Makes the tasks of all receive queues.
    fn add_receivers(&mut self, crew: &mut Crew, has_senders: bool) {
        let times = ReceiveTimes {
            end_ns: u64::MAX,
            quiet_ns: self.plan.quiet_ns,
            drain_ns: self.plan.drain_ns,
            has_senders,
            is_peer: false,
        };
        for port in 0..self.sites.len() {
            let sends_here =
                |sending: &Sending| sending.peer == Some(port) && !sending.streams.is_empty();
            let times = ReceiveTimes {
                is_peer: self.sending.iter().any(sends_here),
                ..times
            };
            let queues = self.sites[port].queues.as_mut();
            let queues = queues
                .map(|queues| mem::take(&mut queues.rx))
                .unwrap_or_default();
            for (number, queue) in queues.into_iter().enumerate() {
                let measured = (self.stamps > 0).then(|| self.measured(port, crew));
                let counts = Arc::clone(&self.sites[port].received[number]);
                let gate = Arc::clone(&crew.gate);
                let task = ReceiveTask::new(queue, measured, times, counts, gate);
                crew.tasks.push(Placed {
                    port,
                    queue: number,
                    task: Task::Receive(Box::new(task)),
                });
            }
        }
    }

    /// What one receive queue of `port` must know of measured lanes.
    fn measured(&self, port: usize, crew: &mut Crew) -> Measured {
        let lanes = self.stamps as usize;
        let misdirected: Arc<[Counter]> = (0..lanes).map(|_| Counter::default()).collect();
        crew.misdirected.push(Arc::clone(&misdirected));
        let streams = self.sending.iter().flat_map(|sending| &sending.streams);
        let (mut places, mut seen) = (vec![None; lanes], Vec::new());
        for (number, (stream, state)) in streams.zip(&mut crew.streams).enumerate() {
            let peer = self.sending[state.port].peer;
            if peer.is_some_and(|peer| peer != port) {
                continue;
            }
            for &stamp in &state.stamps {
                let counts = Arc::new(LaneReceived::default());
                state.received.push(Arc::clone(&counts));
                places[stamp as usize] = u32::try_from(seen.len()).ok();
                let latency = stream.measure == Measure::Latency;
                seen.push(Seen {
                    stream: number,
                    window: Window::new(),
                    counts,
                    recorder: latency.then(|| Recorder::new(lanes)),
                });
            }
        }
        Measured {
            key: self.key(),
            places: places.into(),
            seen: seen.into(),
            misdirected,
        }
    }
}

/// Where a queue's frames come from.
struct Supplies {
    /// Of each resident lane, in the lanes' order.
    cycles: Vec<Cycle>,
    spare: Vec<Frame>,
}

/// Renders what is resident on queue `number` and loads it; where each lane's frames are.
fn render(
    draft: &mut QueueDraft,
    site: &mut Site,
    number: usize,
    memory: &Memory,
    names: &[&str],
) -> Result<Vec<Cycle>, RunError> {
    let (count, len) = draft.resident();
    if count == 0 {
        return Ok(Vec::new());
    }
    let pool = Pool::new(memory, count, len)?;
    let set = draft.render(&pool, |stream| names[stream].to_owned())?;
    site.pools.push(pool);
    let mut cycles = Vec::new();
    let mut first = 0;
    for lane in &draft.lanes {
        let Some(count) = lane.resident else { continue };
        cycles.push(Cycle::new(first, &set.frames()[first..first + count]));
        first += count;
    }
    let queue = site
        .queues
        .as_mut()
        .and_then(|queues| queues.tx.get_mut(number));
    if let Some(queue) = queue {
        queue.load(Arc::new(set));
    }
    Ok(cycles)
}

/// The frames that a queue's written lanes circulate.
fn spare(
    draft: &QueueDraft,
    site: &mut Site,
    memory: &Memory,
    slots: usize,
) -> Result<Vec<Frame>, RunError> {
    let (count, len) = draft.written(slots);
    if count == 0 {
        return Ok(Vec::new());
    }
    let pool = Pool::new(memory, count, len)?;
    let frames = std::iter::from_fn(|| pool.take()).collect();
    site.pools.push(pool);
    Ok(frames)
}

fn pen(stream: &Stream, draft: Draft, key: Key) -> Pen {
    let template = &stream.frames.variants()[0].template.bytes;
    let replaced = draft.sum_len.and_then(|len| template.get(..len));
    let stamper = draft.stamp.map(|lane| Stamper {
        key,
        lane,
        sequence: 0,
        sum: replaced.map(sum_of_end),
    });
    Pen {
        writer: draft.writer,
        stamper,
    }
}
