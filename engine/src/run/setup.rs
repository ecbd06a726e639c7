//! From a plan to ports that run, with everything that they will send.

use std::mem;
use std::sync::Arc;

use hugemem::{Burst, Frame, Memory, Pool};
use port::TxQueue;

use super::answer::{AnswerKit, Asked};
use super::draft::{Draft, QueueDraft, draft, largest};
use super::kit::{LaneKit, ReceiveKit, SendKit};
use super::lane::{Cycle, Pen, Stamper, Supply};
use super::site::{self, Site};
use super::stage::Stage;
use super::stamp::{Key, sum_of_end};
use super::{RunError, RunPlan};
use crate::resolution::Addresses;
use crate::stream::{FCS, Stream};

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
    pub(super) stamps: u32,
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
        for port in &mut plan.ports {
            // Nothing is asked where nothing is received.
            if port.config.rx_queues == 0 {
                port.addresses = Addresses::default();
            }
            port.config.tx_queues += usize::from(!port.addresses.is_empty());
        }
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
            let mut site = Site::new(port.port, port.config, port.promiscuous);
            site.addresses = port.addresses;
            site.check_answering()?;
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

    /// Gets memory, starts the ports, and makes ready what they will send. Where that fails, what
    /// was started is stopped again.
    pub(super) fn into_stage(mut self) -> Result<Stage, RunError> {
        let ready = self.start_ports().and_then(|memory| self.kits(&memory));
        let kits = ready.inspect_err(|_| self.sites.iter_mut().for_each(Site::stop))?;
        Ok(Stage::new(self, kits))
    }

    fn start_ports(&mut self) -> Result<Memory, RunError> {
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
        Ok(memory)
    }

    /// Renders and loads what is resident, gets frames for what is written at sending, and takes
    /// the queues from their ports.
    fn kits(&mut self, memory: &Memory) -> Result<Kits, RunError> {
        let mut drafts = mem::take(&mut self.drafts);
        // Whatever can fail comes first: queues are taken from their ports only afterwards.
        let supplies = self.supplies(&mut drafts, memory)?;
        let key = Key::new(self.plan.seed, self.plan.stamp_nonce);
        let streams: Vec<&Stream> = self.sending.iter().flat_map(|s| &s.streams).collect();
        let mut kits = Kits::default();
        let ports = self.sites.iter_mut().zip(drafts).zip(supplies);
        for ((site, drafts), supplies) in ports {
            // What can fail comes before the queues are taken.
            let asked = asked(site, memory)?;
            let mut queues = site.queues.as_mut().map(mem::take).unwrap_or_default();
            let answerer = asked.clone().and_then(|asked| {
                Some(AnswerKit {
                    queue: queues.tx.pop()?,
                    asked,
                    addresses: site.addresses.clone(),
                    mac: site.port.info().mac,
                    out: Burst::new(),
                })
            });
            kits.answerers.push(answerer);
            let receiver = |queue| ReceiveKit {
                asked: asked.clone(),
                ..ReceiveKit::new(queue)
            };
            kits.receivers
                .push(queues.rx.into_iter().map(receiver).collect());
            let parts = queues.tx.into_iter().zip(drafts).zip(supplies);
            let kit = |((queue, draft), supplies)| send_kit(queue, draft, supplies, &streams, key);
            kits.senders.push(parts.map(kit).collect());
        }
        Ok(kits)
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
}

/// The kits of all queues, by port and queue.
#[derive(Default)]
pub(super) struct Kits {
    pub(super) senders: Vec<Vec<SendKit>>,
    pub(super) receivers: Vec<Vec<ReceiveKit>>,
    /// By port: what answers for it.
    pub(super) answerers: Vec<Option<AnswerKit>>,
}

/// What `site` has for questions, if it has addresses.
fn asked(site: &mut Site, memory: &Memory) -> Result<Option<Asked>, RunError> {
    if site.addresses.is_empty() {
        return Ok(None);
    }
    let (asked, pool) = Asked::new(memory, site.config.rx_capacity)?;
    site.pools.push(pool);
    Ok(Some(asked))
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

fn send_kit(
    queue: Box<dyn TxQueue>,
    draft: QueueDraft,
    supplies: Supplies,
    streams: &[&Stream],
    key: Key,
) -> SendKit {
    let mut cycles = supplies.cycles.into_iter();
    let lane = |draft: Draft| LaneKit {
        part: draft.part,
        supply: match draft.resident.and_then(|_| cycles.next()) {
            Some(cycle) => Supply::Resident(cycle),
            None => Supply::Written(Box::new(pen(streams[draft.part.stream], draft, key))),
        },
    };
    SendKit {
        queue,
        lanes: draft.lanes.into_iter().map(lane).collect(),
        spare: supplies.spare,
    }
}

fn pen(stream: &Stream, draft: Draft, key: Key) -> Pen {
    let template = &stream.frames.variants()[0].template.bytes;
    let replaced = draft.sum_len.and_then(|len| template.get(..len));
    let stamper = draft.part.stamp.map(|lane| Stamper {
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
