//! Ports that run, and what is sent and received on them: all that outlasts a trial.

use std::mem;
use std::sync::Arc;
use std::thread;

use port::{PortError, Queues};

use super::answer::{AnswerKit, AnswerTask};
use super::counters::{Counter, Gate, LaneReceived, LaneSent};
use super::kit::{ReceiveKit, SendKit};
use super::lane::{Lane, Part};
use super::latency::Recorder;
use super::outcome::Event;
use super::pace::Pacer;
use super::rates::{self, Planned, planned};
use super::receive::{Measured, ReceiveTask, ReceiveTimes, Seen};
use super::send::{SendParts, SendTask, Times};
use super::sequence::Window;
use super::setup::{Kits, Sending, Setup};
use super::site::{self, Site};
use super::stamp::Key;
use super::standby::Offer;
use super::worker::{Placed, Task};
use super::{Clock, RunError, RunPlan};
use crate::stream::{Measure, Stream};

/// Ports that run, with what they send.
pub(super) struct Stage {
    /// The plan, without its ports.
    pub(super) plan: RunPlan,
    pub(super) sites: Vec<Site>,
    pub(super) sending: Vec<Sending>,
    /// Measured lanes in all.
    stamps: u32,
    /// By port and queue; all of them while no trial goes on.
    pub(super) kits: Kits,
    /// Trials so far.
    trials: u64,
}

/// Everything that workers and the control thread need for one trial.
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

impl Stage {
    pub(super) fn new(setup: Setup, kits: Kits) -> Self {
        Self {
            plan: setup.plan,
            sites: setup.sites,
            sending: setup.sending,
            stamps: setup.stamps,
            kits,
            trials: 0,
        }
    }

    /// Ports whose queues are somebody else's, and which send no streams.
    pub(super) fn bare(sites: Vec<Site>) -> Self {
        let nothing = |_: &Site| Sending {
            streams: Vec::new(),
            unlimited: false,
            peer: None,
        };
        let plan = RunPlan {
            seed: 0,
            ..RunPlan::new(Vec::new())
        };
        Self {
            plan,
            sending: sites.iter().map(nothing).collect(),
            sites,
            stamps: 0,
            kits: Kits::default(),
            trials: 0,
        }
    }

    /// Whether its queues are somebody else's.
    pub(super) fn is_bare(&self) -> bool {
        self.trials == 0
    }

    /// Gets ready for a trial: waits for links, and lets go of what is left of the last one.
    /// Returns what happened meanwhile.
    pub(super) fn settle(&mut self, clock: impl Clock) -> Result<Vec<Event>, RunError> {
        self.check_queues()?;
        let events = site::wait_for_links(&mut self.sites, clock, self.plan.link_wait_ns)?;
        let until_ns = clock.now_ns().saturating_add(self.plan.drain_ns);
        loop {
            let mut clear = true;
            for kit in self.kits.senders.iter_mut().flatten() {
                clear &= kit.settle();
            }
            if clear || clock.now_ns() >= until_ns {
                break;
            }
            for site in &mut self.sites {
                site.port.service()?;
            }
            thread::yield_now();
        }
        for (site, kits) in self.sites.iter().zip(&mut self.kits.receivers) {
            // Twice the ring: what was there, and what came while it was taken away.
            let limit = site.rx_slots() * 2;
            kits.iter_mut().for_each(|kit| kit.discard(limit));
        }
        Ok(events)
    }

    /// A worker that panicked took its queues along.
    fn check_queues(&self) -> Result<(), RunError> {
        let kits = self.kits.senders.iter().zip(&self.kits.receivers);
        let kits = kits.zip(&self.kits.answerers);
        for (site, ((senders, receivers), answerer)) in self.sites.iter().zip(kits) {
            let has = (
                receivers.len(),
                senders.len() + usize::from(answerer.is_some()),
            );
            if has != (site.config.rx_queues, site.config.tx_queues) {
                return Err(RunError::Port(PortError::Broken {
                    port: site.name().to_owned(),
                    what: "queues of it went down with a worker in the trial before".to_owned(),
                }));
            }
        }
        Ok(())
    }

    /// Makes the tasks of a trial, and what the control side keeps of each stream. Counters begin
    /// at zero, and measured frames carry the trial's own key.
    pub(super) fn crew(&mut self, offer: &Offer) -> Result<Crew, RunError> {
        let planned = planned(&mut self.sites, &self.sending, offer)?;
        for site in &mut self.sites {
            site.begin_counting()?;
        }
        // A late frame of the last trial must be foreign to this one.
        let nonce = self.plan.stamp_nonce.wrapping_add(self.trials);
        let key = Key::new(self.plan.seed, nonce);
        self.trials += 1;
        let kits = mem::take(&mut self.kits);
        let sends = |kit: &&SendKit| !kit.lanes.is_empty();
        let senders = kits.senders.iter().flatten().filter(sends).count();
        let mut crew = Crew {
            tasks: Vec::new(),
            streams: self.stream_states(&planned),
            misdirected: Vec::new(),
            gate: Arc::new(Gate::new(senders)),
        };
        for (port, kits) in kits.senders.into_iter().enumerate() {
            for (queue, kit) in kits.into_iter().enumerate() {
                let task = if kit.lanes.is_empty() {
                    Task::Idle(kit.queue)
                } else {
                    let task = self.sender((port, queue), kit, key, &planned, &mut crew);
                    Task::Send(Box::new(task))
                };
                crew.tasks.push(Placed { port, queue, task });
            }
        }
        self.add_receivers(kits.receivers, key, senders > 0, &mut crew);
        self.add_answerers(kits.answerers, &mut crew);
        Ok(crew)
    }

    /// Makes the tasks of the queues that answer, once all receive queues are known to the gate.
    fn add_answerers(&self, kits: Vec<Option<AnswerKit>>, crew: &mut Crew) {
        for ((port, kit), site) in kits.into_iter().enumerate().zip(&self.sites) {
            let (Some(kit), Some(counts)) = (kit, site.sent.last()) else {
                continue;
            };
            let (counts, answered) = (Arc::clone(counts), Arc::clone(&site.answered));
            let task = AnswerTask::new(kit, counts, answered, Arc::clone(&crew.gate));
            crew.tasks.push(Placed {
                port,
                queue: site.sent.len() - 1,
                task: Task::Answer(Box::new(task)),
            });
        }
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
        kit: SendKit,
        key: Key,
        planned: &[Planned],
        crew: &mut Crew,
    ) -> SendTask {
        let catch_up_ns = self.plan.catch_up_ns;
        let parts: Vec<Part> = kit.lanes.iter().map(|lane| lane.part).collect();
        let timelines = rates::timelines(&parts, planned);
        let peer = self.sending[port]
            .peer
            .and_then(|peer| self.sites.get(peer));
        let mut lanes = Vec::new();
        for (mut lane, timeline) in kit.lanes.into_iter().zip(timelines) {
            let counts = Arc::new(LaneSent::default());
            let state = &mut crew.streams[lane.part.stream];
            state.sent.push(Arc::clone(&counts));
            state.stamps.extend(lane.part.stamp);
            lane.supply.begin_trial(key);
            lanes.push(Lane {
                part: lane.part,
                pacer: Pacer::new(timeline, catch_up_ns),
                unlimited: planned[lane.part.stream].unlimited,
                supply: lane.supply,
                counts,
            });
        }
        SendTask::new(SendParts {
            queue: kit.queue,
            lanes,
            gap_ns: rates::mean_gap_ns(&parts, planned),
            coalesce_ns: self.plan.coalesce_ns,
            spare: kit.spare,
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
    fn add_receivers(
        &self,
        kits: Vec<Vec<ReceiveKit>>,
        key: Key,
        has_senders: bool,
        crew: &mut Crew,
    ) {
        for (port, kits) in kits.into_iter().enumerate() {
            let sends_here =
                |sending: &Sending| sending.peer == Some(port) && !sending.streams.is_empty();
            let times = ReceiveTimes {
                end_ns: u64::MAX,
                quiet_ns: self.plan.quiet_ns,
                drain_ns: self.plan.drain_ns,
                has_senders,
                is_peer: self.sending.iter().any(sends_here),
            };
            for (number, kit) in kits.into_iter().enumerate() {
                let measured = (self.stamps > 0).then(|| self.measured(port, key, crew));
                let counts = Arc::clone(&self.sites[port].received[number]);
                let gate = Arc::clone(&crew.gate);
                let task = ReceiveTask::new(kit, measured, times, counts, gate);
                crew.tasks.push(Placed {
                    port,
                    queue: number,
                    task: Task::Receive(Box::new(task)),
                });
            }
        }
    }

    /// What one receive queue of `port` must know of measured lanes.
    fn measured(&self, port: usize, key: Key, crew: &mut Crew) -> Measured {
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
            key,
            places: places.into(),
            seen: seen.into(),
            misdirected,
        }
    }

    /// Stops the ports.
    pub(super) fn stop(&mut self) {
        let kits = mem::take(&mut self.kits);
        let (mut senders, mut receivers) = (kits.senders.into_iter(), kits.receivers.into_iter());
        let mut answerers = kits.answerers.into_iter();
        for site in &mut self.sites {
            let tx = senders.next().unwrap_or_default().into_iter();
            let rx = receivers.next().unwrap_or_default().into_iter();
            let answerer = answerers.next().flatten();
            // Started, and its queues lent out.
            if let Some(queues) = &mut site.queues {
                *queues = Queues {
                    rx: rx.map(|kit| kit.queue).collect(),
                    tx: tx
                        .map(|kit| kit.queue)
                        .chain(answerer.map(|kit| kit.queue))
                        .collect(),
                };
            }
            site.stop();
        }
    }
}
