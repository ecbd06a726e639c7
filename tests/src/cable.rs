//! Two ports that are nothing but queues in memory, with flaws on request.
//!
//! The conformance checks are tried on them: on a cable without a flaw every check passes, and
//! for every [`Flaw`] one fails. A cable moves frames only when a queue is called.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hugemem::{Burst, DmaSpace, Frame, Memory, NoDevice, Resident, TxFlags};
use port::{
    Caps, Config, Counters, Extended, Info, Limits, Link, LinkState, Mac, Offloads, Port,
    PortError, QueueState, Queues, Rss, RxBurst, RxFlags, RxMeta, RxQueue, StartError, TxCounts,
    TxQueue,
};

/// What is wrong with a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    None,
    /// Every 500th frame is lost.
    Loses,
    /// Every 500th frame has a bit wrong.
    Damages,
    /// Every 500th frame comes one later.
    Reorders,
    /// Every 500th frame comes twice.
    Duplicates,
    /// The last byte of long frames is cut off.
    Cuts,
    /// A sent frame is not handed back, now and then.
    Keeps,
    /// Sent bytes are counted without the FCS.
    Miscounts,
    /// Only every other frame that finds no buffer is counted.
    Forgets,
    /// Promiscuous or not, everything is received.
    AcceptsAll,
    /// More frames are taken than the ring has slots.
    Overfills,
    /// A configuration that the caps forbid is started.
    StartsAnything,
    /// The resident set is sent from its start each time.
    StartsOver,
    /// VLAN tags lose their priority on the way in.
    Mistags,
    /// VLAN tags are taken off and not told.
    Untags,
    /// The last byte of jumbo frames is wrong.
    DamagesJumbo,
    /// Any MTU is taken.
    TakesAnyMtu,
    /// A frame that does not fit is cut off, and not marked.
    Truncates,
    /// A further counter starts again with the port.
    CountsAnew,
}

const FCS: u64 = 4;
const RARE: u64 = 500;

/// One end's state, which its port and its queues share.
struct EndState {
    mac: Mac,
    promiscuous: bool,
    running: bool,
    buffers: VecDeque<Frame>,
    full: VecDeque<(Frame, RxMeta)>,
    /// Takes VLAN tags off.
    strips: bool,
    /// Times that it was started, and frames since then.
    starts: u64,
    since: u64,
    counters: Counters,
    held_back: Option<Vec<u8>>,
    forgets: bool,
}

struct Wire {
    ends: [Mutex<EndState>; 2],
    flaw: Flaw,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    /// Sends one frame from end `from`.
    fn carry(&self, from: usize, bytes: &[u8]) {
        let mut sender = lock(&self.ends[from]);
        sender.counters.tx_frames += 1;
        let fcs = if self.flaw == Flaw::Miscounts { 0 } else { FCS };
        sender.counters.tx_bytes += bytes.len() as u64 + fcs;
        let is_rare = sender.counters.tx_frames.is_multiple_of(RARE);
        drop(sender);
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().max(60), 0);
        let mut receiver = lock(&self.ends[1 - from]);
        match self.flaw {
            Flaw::Loses if is_rare => return,
            Flaw::Damages if is_rare => bytes[30] ^= 4,
            Flaw::Cuts if bytes.len() > 1500 => bytes.truncate(bytes.len() - 1),
            Flaw::DamagesJumbo if bytes.len() > 1518 => {
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
            }
            Flaw::Reorders if is_rare => {
                receiver.held_back = Some(bytes);
                return;
            }
            Flaw::Duplicates if is_rare => receiver.arrive(bytes.clone(), self.flaw),
            _ => {}
        }
        receiver.arrive(bytes, self.flaw);
        if let Some(late) = receiver.held_back.take() {
            receiver.arrive(late, self.flaw);
        }
    }
}

impl EndState {
    fn arrive(&mut self, bytes: Vec<u8>, flaw: Flaw) {
        if !self.running {
            return;
        }
        let is_group = bytes[0] & 1 != 0;
        let is_wanted = bytes[..6] == self.mac || (is_group && bytes[..6] == [0xff; 6]);
        if !(is_wanted || self.promiscuous || flaw == Flaw::AcceptsAll) {
            return;
        }
        let Some(mut buffer) = self.buffers.pop_front() else {
            self.forgets = flaw == Flaw::Forgets && !self.forgets;
            if !self.forgets {
                self.counters.rx_missed += 1;
            }
            return;
        };
        let mut meta = RxMeta::default();
        let mut bytes = bytes;
        let len = bytes.len() as u64 + FCS;
        if self.strips && bytes[12..14] == [0x81, 0] {
            meta.vlan = u16::from_be_bytes([bytes[14], bytes[15]]);
            meta.flags.set(RxFlags::VLAN, flaw != Flaw::Untags);
            bytes.drain(12..16);
        }
        if bytes.len() > buffer.capacity() {
            bytes.truncate(buffer.capacity());
            meta.flags.set(RxFlags::ERROR, flaw != Flaw::Truncates);
            self.counters.rx_errors += 1;
        } else {
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += len;
        }
        self.since += 1;
        buffer.fill(&bytes);
        self.full.push_back((buffer, meta));
    }
}

/// One end of a cable.
pub struct Plug {
    wire: Arc<Wire>,
    end: usize,
    info: Info,
    caps: Caps,
}

/// Two ends of a cable with `flaw`.
#[must_use]
pub fn cable(flaw: Flaw) -> [Box<dyn Port>; 2] {
    let state = |last: u8| {
        Mutex::new(EndState {
            mac: [2, 0, 0, 0, 0, last],
            promiscuous: false,
            running: false,
            buffers: VecDeque::new(),
            full: VecDeque::new(),
            strips: false,
            starts: 0,
            since: 0,
            counters: Counters::default(),
            held_back: None,
            forgets: false,
        })
    };
    let wire = Arc::new(Wire {
        ends: [state(1), state(2)],
        flaw,
    });
    [0, 1].map(|end| Box::new(Plug::new(&wire, end)) as Box<dyn Port>)
}

impl Plug {
    fn new(wire: &Arc<Wire>, end: usize) -> Self {
        let mac = lock(&wire.ends[end]).mac;
        let slots = Limits {
            range: 8..=1024,
            default: 256,
            power_of_two: true,
        };
        Self {
            wire: Arc::clone(wire),
            end,
            info: Info {
                name: format!("cable/{end}"),
                driver: "cable",
                device: "queues in memory".into(),
                pci: None,
                mac,
                node: None,
                simulated: true,
            },
            caps: Caps {
                rx_queues: Limits {
                    range: 0..=1,
                    default: 1,
                    power_of_two: false,
                },
                tx_queues: Limits {
                    range: 0..=1,
                    default: 1,
                    power_of_two: false,
                },
                rx_slots: slots.clone(),
                tx_slots: slots,
                max_frame: 9018,
                max_segments: 1,
                offloads: Offloads::PROMISCUOUS
                    | Offloads::TX_VLAN
                    | Offloads::RX_VLAN
                    | Offloads::SET_MTU,
            },
        }
    }

    fn state(&self) -> MutexGuard<'_, EndState> {
        lock(&self.wire.ends[self.end])
    }

    fn not_offered(&self, what: &str) -> Result<(), PortError> {
        Err(PortError::NotOffered {
            port: self.info.name.clone(),
            what: what.to_owned(),
        })
    }

    fn check(&self, config: &Config) -> Result<(), StartError> {
        let caps = &self.caps;
        let fits = caps.rx_queues.allow(config.rx_queues)
            && caps.tx_queues.allow(config.tx_queues)
            && config
                .rx_slots
                .is_none_or(|slots| caps.rx_slots.allow(slots))
            && config
                .tx_slots
                .is_none_or(|slots| caps.tx_slots.allow(slots))
            && caps.offloads.contains(config.offloads);
        if fits || self.wire.flaw == Flaw::StartsAnything {
            return Ok(());
        }
        Err(StartError::Unsupported {
            port: self.info.name.clone(),
            what: "a configuration",
            asked: format!("{config:?}"),
            allowed: format!("{caps:?}"),
        })
    }
}

impl Port for Plug {
    fn info(&self) -> &Info {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        Arc::new(NoDevice)
    }

    fn ring_bytes(&self, _config: &Config) -> usize {
        0
    }

    fn start(&mut self, config: &Config, _memory: &Memory) -> Result<Queues, StartError> {
        self.check(config)?;
        {
            let mut state = self.state();
            state.running = true;
            state.strips = config.offloads.contains(Offloads::RX_VLAN);
            state.starts += 1;
            if self.wire.flaw == Flaw::CountsAnew {
                state.since = 0;
            }
        }
        let mut queues = Queues::default();
        for _ in 0..config.tx_queues {
            let sender = Sender {
                wire: Arc::clone(&self.wire),
                end: self.end,
                slots: config.tx_slots.unwrap_or(self.caps.tx_slots.default),
                sent: VecDeque::new(),
                kept: Vec::new(),
                set: None,
                counts: TxCounts::default(),
            };
            queues.tx.push(Box::new(sender));
        }
        for _ in 0..config.rx_queues {
            let receiver = Receiver {
                wire: Arc::clone(&self.wire),
                end: self.end,
                slots: config.rx_slots.unwrap_or(self.caps.rx_slots.default),
            };
            queues.rx.push(Box::new(receiver));
        }
        Ok(queues)
    }

    fn stop(&mut self, queues: Queues) -> Result<(), PortError> {
        drop(queues);
        let mut state = self.state();
        state.running = false;
        state.buffers.clear();
        state.full.clear();
        Ok(())
    }

    fn link(&mut self) -> Result<Link, PortError> {
        Ok(Link {
            state: LinkState::Up,
            speed_bps: None,
            full_duplex: true,
        })
    }

    fn counters(&mut self) -> Result<Counters, PortError> {
        Ok(self.state().counters)
    }

    fn extended(&mut self) -> Result<Vec<Extended>, PortError> {
        let state = self.state();
        let counters = [("starts", state.starts), ("arrived", state.since)];
        let named = |(name, value): (&str, u64)| Extended {
            name: name.into(),
            value,
        };
        Ok(counters.map(named).into())
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), PortError> {
        self.state().promiscuous = on;
        Ok(())
    }

    fn set_all_multicast(&mut self, _on: bool) -> Result<(), PortError> {
        self.not_offered("all multicast")
    }

    fn set_mac(&mut self, _mac: Mac) -> Result<(), PortError> {
        self.not_offered("another address")
    }

    fn set_mac_filter(&mut self, _macs: &[Mac]) -> Result<(), PortError> {
        self.not_offered("a MAC filter")
    }

    fn set_vlan_filter(&mut self, _id: u16, _on: bool) -> Result<(), PortError> {
        self.not_offered("a VLAN filter")
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), PortError> {
        let fits = (60..=9000).contains(&mtu) && !self.state().running;
        if fits || self.wire.flaw == Flaw::TakesAnyMtu {
            return Ok(());
        }
        Err(PortError::Refused {
            port: self.info.name.clone(),
            what: format!("an MTU of {mtu}"),
            cure: None,
        })
    }

    fn set_rss(&mut self, _rss: &Rss) -> Result<(), PortError> {
        self.not_offered("RSS")
    }
}

/// A frame's bytes, with the tag that it asks for.
fn tagged(frame: &Frame, flaw: Flaw) -> Vec<u8> {
    let mut bytes = frame.bytes().to_vec();
    if frame.flags.contains(TxFlags::VLAN) {
        let mask = if flaw == Flaw::Mistags { 0xfff } else { 0xffff };
        let [high, low] = (frame.vlan & mask).to_be_bytes();
        bytes.splice(12..12, [0x81, 0, high, low]);
    }
    bytes
}

struct Sender {
    wire: Arc<Wire>,
    end: usize,
    slots: usize,
    sent: VecDeque<Frame>,
    kept: Vec<Frame>,
    set: Option<Arc<Resident>>,
    counts: TxCounts,
}

impl Sender {
    fn count(&mut self, frames: usize) {
        self.counts.posted += frames as u64;
        self.counts.completed += frames as u64;
    }
}

impl TxQueue for Sender {
    fn burst(&mut self, frames: &mut Burst) -> usize {
        let mut posted = 0;
        while self.sent.len() < self.slots || self.wire.flaw == Flaw::Overfills {
            let Some(frame) = frames.pop() else { break };
            self.wire.carry(self.end, &tagged(&frame, self.wire.flaw));
            self.sent.push_back(frame);
            posted += 1;
        }
        self.count(posted);
        posted
    }

    fn reap(&mut self, out: &mut Burst) -> usize {
        let mut moved = 0;
        while out.room() > 0 {
            let Some(frame) = self.sent.pop_front() else {
                break;
            };
            if self.wire.flaw == Flaw::Keeps && self.kept.is_empty() {
                self.kept.push(frame);
            } else if out.push(frame).is_err() {
                break;
            } else {
                moved += 1;
            }
        }
        moved
    }

    fn load(&mut self, set: Arc<Resident>) {
        self.set = Some(set);
    }

    fn burst_resident(&mut self, first: usize, count: usize) -> usize {
        let set = Arc::clone(
            self.set
                .as_ref()
                .expect("a set is loaded before it is sent"),
        );
        let frames = set.frames();
        let first = if self.wire.flaw == Flaw::StartsOver {
            0
        } else {
            first
        };
        for number in first..first + count {
            self.wire
                .carry(self.end, frames[number % frames.len()].bytes());
        }
        self.count(count);
        count
    }

    fn poll(&mut self) {}

    fn counts(&self) -> TxCounts {
        self.counts
    }

    fn state(&self) -> QueueState {
        QueueState::Running
    }
}

struct Receiver {
    wire: Arc<Wire>,
    end: usize,
    slots: usize,
}

impl RxQueue for Receiver {
    fn burst(&mut self, out: &mut RxBurst) -> usize {
        let mut state = lock(&self.wire.ends[self.end]);
        let mut moved = 0;
        while out.frames.room() > 0 {
            let Some((frame, meta)) = state.full.pop_front() else {
                break;
            };
            out.meta[out.frames.len()] = meta;
            if out.frames.push(frame).is_err() {
                break;
            }
            moved += 1;
        }
        moved
    }

    fn arm(&mut self, empties: &mut Burst) -> usize {
        let mut state = lock(&self.wire.ends[self.end]);
        let mut armed = 0;
        while state.buffers.len() + state.full.len() < self.slots {
            let Some(frame) = empties.pop() else { break };
            state.buffers.push_back(frame);
            armed += 1;
        }
        armed
    }

    fn room(&self) -> usize {
        let state = lock(&self.wire.ends[self.end]);
        self.slots - state.buffers.len() - state.full.len()
    }

    fn state(&self) -> QueueState {
        QueueState::Running
    }
}
