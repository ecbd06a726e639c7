//! A port in a run: its memory, its start, its link, its end.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hugemem::{BURST, DmaSpace, Memory, Pages, Pool};
use port::{Config, Counters, LinkState, Port, PortError, Queues};

use super::answer::Asked;
use super::counters::{Counter, QueueReceived, QueueSent};
use super::outcome::Event;
use super::receive::arm_all;
use super::{Clock, RunError};
use crate::resolution::Addresses;

/// How often a link is asked for while it is waited for.
const LINK_POLL: Duration = Duration::from_millis(1);
/// Bytes that a ring or a pool may lose to its boundary.
const BOUNDARY: usize = 8192;

/// Ethernet header and FCS.
const AROUND: usize = 18;

/// A port, and what the run holds for it.
pub(super) struct Site {
    pub(super) port: Box<dyn Port>,
    pub(super) config: Config,
    pub(super) promiscuous: bool,
    pub(super) queues: Option<Queues>,
    pub(super) pools: Vec<Pool>,
    /// What it had counted before the run.
    pub(super) before: Counters,
    pub(super) sent: Vec<Arc<QueueSent>>,
    pub(super) received: Vec<Arc<QueueReceived>>,
    /// For whom it answers, on its last send queue.
    pub(super) addresses: Addresses,
    /// Questions answered.
    pub(super) answered: Arc<Counter>,
    pub(super) link: Option<LinkState>,
    /// What the port said before the run began, which belongs to the run's events.
    pub(super) said: Vec<String>,
    pub(super) failure: Option<PortError>,
}

impl Site {
    pub(super) fn new(port: Box<dyn Port>, config: Config, promiscuous: bool) -> Self {
        let sent = (0..config.tx_queues).map(|_| Arc::default()).collect();
        let received = (0..config.rx_queues).map(|_| Arc::default()).collect();
        Self {
            port,
            config,
            promiscuous,
            queues: None,
            pools: Vec::new(),
            before: Counters::default(),
            sent,
            received,
            addresses: Addresses::default(),
            answered: Arc::default(),
            link: None,
            said: Vec::new(),
            failure: None,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.port.info().name
    }

    /// Slots of each send ring.
    pub(super) fn tx_slots(&self) -> usize {
        self.config
            .tx_slots
            .unwrap_or(self.port.caps().tx_slots.default)
    }

    pub(super) fn rx_slots(&self) -> usize {
        self.config
            .rx_slots
            .unwrap_or(self.port.caps().rx_slots.default)
    }

    /// Frames of each receive queue's pool: one for each slot, and those on their way.
    fn rx_frames(&self, in_flight: usize) -> usize {
        self.rx_slots() + 2 * BURST + in_flight
    }

    /// Refuses to answer on a port that has no send queue left for it.
    pub(super) fn check_answering(&self) -> Result<(), RunError> {
        let (has, needs) = (&self.port.caps().tx_queues, self.config.tx_queues);
        if self.addresses.is_empty() || has.allow(needs) {
            return Ok(());
        }
        Err(RunError::Unsupported {
            port: self.name().to_owned(),
            what: "answering for addresses, with a send queue more,",
            asked: format!("{needs} queues"),
            allowed: format!("it has {}", has.range.end()),
        })
    }

    /// Refuses what the port says it cannot do, before anything is started.
    pub(super) fn check(&self, largest: usize) -> Result<(), RunError> {
        let caps = self.port.caps();
        let refuse = |what, asked: usize, allowed: String| RunError::Unsupported {
            port: self.name().to_owned(),
            what,
            asked: asked.to_string(),
            allowed,
        };
        let limits = [
            (
                "number of receive queues",
                self.config.rx_queues,
                &caps.rx_queues,
            ),
            (
                "number of send queues",
                self.config.tx_queues,
                &caps.tx_queues,
            ),
            ("receive ring", self.rx_slots(), &caps.rx_slots),
            ("send ring", self.tx_slots(), &caps.tx_slots),
        ];
        for (what, asked, limits) in limits {
            // No queues at all is always possible: they are not used.
            if asked > 0 && !limits.allow(asked) {
                let (first, last) = (limits.range.start(), limits.range.end());
                let powers = if limits.power_of_two {
                    ", powers of two"
                } else {
                    ""
                };
                return Err(refuse(what, asked, format!("{first} to {last}{powers}")));
            }
        }
        if largest > caps.max_frame {
            return Err(refuse(
                "frame size",
                largest,
                format!("at most {}", caps.max_frame),
            ));
        }
        let longest = self.port.longest();
        if largest > longest {
            let mtu = largest - AROUND;
            return Err(refuse(
                "frame size",
                largest,
                format!("at most {longest} with the MTU that it has; add mtu={mtu} to the port"),
            ));
        }
        Ok(())
    }

    /// Bytes that rings and receive pools take. `in_flight` more frames of each receive queue may
    /// be in a send ring.
    pub(super) fn footprint(&self, in_flight: usize) -> usize {
        let pool = Pool::footprint(self.rx_frames(in_flight), self.config.rx_capacity) + BOUNDARY;
        let queues = self.config.rx_queues + self.config.tx_queues;
        let asked = match self.addresses.is_empty() {
            true => 0,
            false => Asked::footprint(self.config.rx_capacity) + BOUNDARY,
        };
        self.port.ring_bytes(&self.config)
            + queues * 4 * BOUNDARY
            + self.config.rx_queues * pool
            + asked
    }

    /// Starts the port and arms its receive queues.
    pub(super) fn start(&mut self, memory: &Memory, in_flight: usize) -> Result<(), RunError> {
        let mut queues = self.port.start(&self.config, memory)?;
        let frames = self.rx_frames(in_flight);
        let mut armed: Result<(), RunError> = Ok(());
        for queue in &mut queues.rx {
            match Pool::new(memory, frames, self.config.rx_capacity) {
                Ok(pool) => {
                    arm_all(queue.as_mut(), &pool);
                    self.pools.push(pool);
                }
                Err(error) => armed = Err(error.into()),
            }
        }
        let given = (queues.rx.len(), queues.tx.len());
        self.queues = Some(queues);
        armed?;
        if given != (self.config.rx_queues, self.config.tx_queues) {
            return Err(RunError::Port(PortError::Broken {
                port: self.name().to_owned(),
                what: format!("it gave {} receive and {} send queues", given.0, given.1),
            }));
        }
        if self.config.rx_queues > 0 && self.promiscuous {
            match self.port.set_promiscuous(true) {
                // A device that has no filter to switch off.
                Ok(()) | Err(PortError::NotOffered { .. }) => {}
                // A virtual function whose host does not trust it still receives its own frames.
                Err(error @ PortError::Refused { .. }) => {
                    let cure = error
                        .remedy()
                        .map_or(String::new(), |cure| format!(" ({cure})"));
                    self.said.push(format!(
                        "{error}: frames for other addresses are not received{cure}"
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// From here on, counters are those of a new trial.
    pub(super) fn begin_counting(&mut self) -> Result<(), PortError> {
        self.before = self.port.counters()?;
        self.sent = (0..self.config.tx_queues).map(|_| Arc::default()).collect();
        self.received = (0..self.config.rx_queues).map(|_| Arc::default()).collect();
        self.answered = Arc::default();
        Ok(())
    }

    /// What was counted since the run began.
    pub(super) fn counted(&mut self) -> Result<Counters, PortError> {
        let (now, before) = (self.port.counters()?, self.before);
        Ok(Counters {
            tx_frames: now.tx_frames - before.tx_frames,
            tx_bytes: now.tx_bytes - before.tx_bytes,
            tx_errors: now.tx_errors - before.tx_errors,
            rx_frames: now.rx_frames - before.rx_frames,
            rx_bytes: now.rx_bytes - before.rx_bytes,
            rx_missed: now.rx_missed - before.rx_missed,
            rx_errors: now.rx_errors - before.rx_errors,
        })
    }

    /// Stops the port, if it runs.
    pub(super) fn stop(&mut self) {
        if let Some(queues) = self.queues.take()
            && let Err(error) = self.port.stop(queues)
        {
            self.failure.get_or_insert(error);
        }
    }
}

/// The run's memory: `bytes`, and some to spare for boundaries.
pub(super) fn memory(
    sites: &[Site],
    bytes: usize,
    pages: Pages,
    node: Option<u32>,
) -> Result<Memory, RunError> {
    let spaces: Vec<Arc<dyn DmaSpace>> = sites.iter().map(|site| site.port.space()).collect();
    // Physical pages that are not neighbours cost up to a ring or a frame each.
    let bytes = bytes + bytes / 16 + BOUNDARY;
    Ok(Memory::new(&hugemem::MemoryRequest {
        bytes,
        pages,
        node,
        spaces: distinct(spaces),
    })?)
}

/// Ports that share a space (one container, one peer) map the memory once.
fn distinct(spaces: Vec<Arc<dyn DmaSpace>>) -> Vec<Arc<dyn DmaSpace>> {
    let mut seen: Vec<Arc<dyn DmaSpace>> = Vec::new();
    for space in spaces {
        if !seen.iter().any(|other| Arc::ptr_eq(other, &space)) {
            seen.push(space);
        }
    }
    seen
}

/// Waits until every link is up. Returns what there is to say about those that were not.
pub(super) fn wait_for_links(
    sites: &mut [Site],
    clock: impl Clock,
    wait_ns: u64,
) -> Result<Vec<Event>, RunError> {
    let from_ns = clock.now_ns();
    let mut missed = vec![false; sites.len()];
    let until_ns = from_ns.saturating_add(wait_ns);
    loop {
        let mut down = None;
        for (site, missed) in sites.iter_mut().zip(&mut missed) {
            let mut said = site.port.service()?;
            // Links that come up now are what is waited for, and no news.
            said.retain(|event| !event.starts_with("link "));
            site.said.append(&mut said);
            let link = site.port.link()?;
            let before = site.link.replace(link.state);
            // At the start of a port that is nothing to speak of.
            *missed |= before == Some(LinkState::Up) && link.state == LinkState::Down;
            if link.state == LinkState::Down {
                down = Some(site.name().to_owned());
            }
        }
        let Some(port) = down else {
            let waited_ms = (clock.now_ns() - from_ns) / 1_000_000;
            return Ok(returned(&missed, waited_ms));
        };
        if clock.now_ns() >= until_ns {
            return Err(RunError::LinkDown {
                port,
                waited_ms: wait_ns / 1_000_000,
            });
        }
        thread::sleep(LINK_POLL);
    }
}

/// That links were down and came back.
fn returned(missed: &[bool], waited_ms: u64) -> Vec<Event> {
    let ports = missed.iter().enumerate().filter(|(_, missed)| **missed);
    let event = |(port, _)| Event {
        at_ns: 0,
        port,
        what: format!("the link was down before the trial, and is up again after {waited_ms} ms"),
    };
    ports.map(event).collect()
}
