//! A pair of ports that are two ends of a wire in memory, with faults on demand: for tests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use hugemem::{Burst, DmaSpace, Frame, Memory, Resident, SimSpace, TxFlags};
use port::{
    Caps, Config, Counters, Extended, Info, Limits, Link, LinkState, Mac, Offloads, Port,
    PortError, QueueState, Queues, Rss, RxBurst, RxFlags, RxMeta, RxQueue, StartError, TxCounts,
    TxQueue,
};

/// What a test turns.
#[derive(Default)]
pub(super) struct Knobs {
    /// 0 running, 1 paused, 2 failed.
    state: AtomicU8,
    /// The ring takes nothing while this is set; completions stop too.
    pub(super) stuck: AtomicBool,
    /// Every n-th frame is lost, comes twice, or changes places with the next; 0 for none.
    pub(super) drop_every: AtomicU64,
    pub(super) double_every: AtomicU64,
    pub(super) swap_every: AtomicU64,
    /// Received frames are cut into buffers of so many bytes; 0 for no cutting.
    pub(super) cut: AtomicU64,
    /// Frames come only after so many more looks at the receive queue: a long wire.
    pub(super) looks: AtomicU64,
    /// What was posted leaves the device after so many polls: a slow one.
    pub(super) polls: AtomicU64,
    /// Bits a second that the link claims; 0 for unknown.
    pub(super) speed_bps: AtomicU64,
    pub(super) link_down: AtomicBool,
    /// The link shows as down for so many more looks at it.
    pub(super) down_looks: AtomicU64,
    /// What was sent, in order, if it is kept.
    pub(super) keep: AtomicBool,
    pub(super) kept: Mutex<Vec<Vec<u8>>>,
    /// What was lost on purpose.
    pub(super) dropped: AtomicU64,
    pub(super) doubled: AtomicU64,
    pub(super) swapped: AtomicU64,
}

impl Knobs {
    pub(super) fn set_state(&self, state: QueueState) {
        let state = match state {
            QueueState::Running => 0,
            QueueState::Paused => 1,
            QueueState::Failed => 2,
        };
        self.state.store(state, Ordering::Relaxed);
    }

    fn state(&self) -> QueueState {
        match self.state.load(Ordering::Relaxed) {
            0 => QueueState::Running,
            1 => QueueState::Paused,
            _ => QueueState::Failed,
        }
    }
}

/// One direction of one queue: frames on their way.
#[derive(Default)]
struct Wire {
    frames: VecDeque<Vec<u8>>,
    held: Option<Vec<u8>>,
    number: u64,
}

type Wires = Arc<Vec<Mutex<Wire>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds this")
}

/// One end.
pub(super) struct Fake {
    info: Info,
    caps: Caps,
    space: Arc<SimSpace>,
    out: Wires,
    back: Wires,
    knobs: Arc<Knobs>,
    counters: Arc<Mutex<Counters>>,
}

const QUEUES: usize = 4;
pub(super) const SLOTS: usize = 256;

/// Two ends of a wire; the knobs are those of what the first sends.
pub(super) fn pair() -> (Box<dyn Port>, Box<dyn Port>, Arc<Knobs>) {
    let wires = || -> Wires { Arc::new((0..QUEUES).map(|_| Mutex::default()).collect()) };
    let (one, other) = (wires(), wires());
    let (knobs, others) = (Arc::new(Knobs::default()), Arc::new(Knobs::default()));
    let a = Fake::new("fake/0", 1, &one, &other, &knobs);
    let b = Fake::new("fake/1", 2, &other, &one, &others);
    (Box::new(a), Box::new(b), knobs)
}

/// One port that receives what it sends.
pub(super) fn looped() -> (Box<dyn Port>, Arc<Knobs>) {
    let wires: Wires = Arc::new((0..QUEUES).map(|_| Mutex::default()).collect());
    let knobs = Arc::new(Knobs::default());
    let port = Fake::new("fake/loop", 1, &wires, &wires, &knobs);
    (Box::new(port), knobs)
}

/// Puts a frame on its way to the second end of a pair whose first end is not in the run, and
/// takes what that end sends.
pub(super) struct Far {
    out: Wires,
    back: Wires,
}

/// A port, and its far end in the test's hands.
pub(super) fn with_far_end() -> (Box<dyn Port>, Far) {
    let wires = || -> Wires { Arc::new((0..QUEUES).map(|_| Mutex::default()).collect()) };
    let (out, back) = (wires(), wires());
    let port = Fake::new("fake/near", 1, &back, &out, &Arc::default());
    (Box::new(port), Far { out, back })
}

impl Far {
    pub(super) fn send(&self, frame: &[u8]) {
        lock(&self.out[0]).frames.push_back(frame.to_vec());
    }

    pub(super) fn take(&self) -> Vec<Vec<u8>> {
        lock(&self.back[0]).frames.drain(..).collect()
    }
}

impl Fake {
    fn new(name: &str, last: u8, out: &Wires, back: &Wires, knobs: &Arc<Knobs>) -> Self {
        let queues = Limits {
            range: 0..=QUEUES,
            default: 1,
            power_of_two: false,
        };
        let info = Info {
            name: name.into(),
            driver: "fake",
            device: "a wire in memory".into(),
            pci: None,
            mac: [2, 0, 0, 0, 0, last],
            node: None,
            simulated: true,
        };
        let caps = Caps {
            rx_queues: queues.clone(),
            tx_queues: queues,
            rx_slots: Limits::exactly(SLOTS),
            tx_slots: Limits::exactly(SLOTS),
            max_frame: 9216,
            max_segments: 8,
            offloads: Offloads::empty(),
        };
        Self {
            info,
            caps,
            space: SimSpace::new(),
            out: Arc::clone(out),
            back: Arc::clone(back),
            knobs: Arc::clone(knobs),
            counters: Arc::default(),
        }
    }
}

impl Port for Fake {
    fn info(&self) -> &Info {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        Arc::clone(&self.space) as _
    }

    fn ring_bytes(&self, _config: &Config) -> usize {
        0
    }

    fn start(&mut self, config: &Config, _memory: &Memory) -> Result<Queues, StartError> {
        let mut queues = Queues::default();
        for number in 0..config.rx_queues {
            queues.rx.push(Box::new(FakeRx {
                wires: Arc::clone(&self.back),
                number,
                armed: VecDeque::new(),
                knobs: Arc::clone(&self.knobs),
                counters: Arc::clone(&self.counters),
            }));
        }
        for number in 0..config.tx_queues {
            queues.tx.push(Box::new(FakeTx {
                wires: Arc::clone(&self.out),
                number,
                ring: VecDeque::new(),
                set: None,
                counts: TxCounts::default(),
                knobs: Arc::clone(&self.knobs),
                counters: Arc::clone(&self.counters),
            }));
        }
        Ok(queues)
    }

    fn stop(&mut self, queues: Queues) -> Result<(), PortError> {
        drop(queues);
        Ok(())
    }

    fn link(&mut self) -> Result<Link, PortError> {
        let looks = self.knobs.down_looks.load(Ordering::Relaxed);
        self.knobs
            .down_looks
            .store(looks.saturating_sub(1), Ordering::Relaxed);
        let down = looks > 0 || self.knobs.link_down.load(Ordering::Relaxed);
        let speed = self.knobs.speed_bps.load(Ordering::Relaxed);
        Ok(Link {
            state: if down { LinkState::Down } else { LinkState::Up },
            speed_bps: Some(speed).filter(|&speed| speed > 0),
            full_duplex: true,
        })
    }

    fn counters(&mut self) -> Result<Counters, PortError> {
        Ok(*lock(&self.counters))
    }

    fn extended(&mut self) -> Result<Vec<Extended>, PortError> {
        Ok(Vec::new())
    }

    fn service(&mut self) -> Result<Vec<String>, PortError> {
        match self.knobs.state() {
            QueueState::Failed => Err(PortError::Gone {
                port: self.info.name.clone(),
            }),
            QueueState::Running | QueueState::Paused => Ok(Vec::new()),
        }
    }

    fn set_promiscuous(&mut self, _on: bool) -> Result<(), PortError> {
        Ok(())
    }

    fn set_all_multicast(&mut self, _on: bool) -> Result<(), PortError> {
        Ok(())
    }

    fn set_mac(&mut self, _mac: Mac) -> Result<(), PortError> {
        Ok(())
    }

    fn set_mac_filter(&mut self, _macs: &[Mac]) -> Result<(), PortError> {
        Ok(())
    }

    fn set_vlan_filter(&mut self, _id: u16, _on: bool) -> Result<(), PortError> {
        Ok(())
    }

    fn set_mtu(&mut self, _mtu: usize) -> Result<(), PortError> {
        Ok(())
    }

    fn set_rss(&mut self, _rss: &Rss) -> Result<(), PortError> {
        Ok(())
    }
}

/// A slot of the send ring: a frame to hand back, or a resident one.
type Slot = Option<Frame>;

struct FakeTx {
    wires: Wires,
    number: usize,
    ring: VecDeque<Slot>,
    set: Option<Arc<Resident>>,
    counts: TxCounts,
    knobs: Arc<Knobs>,
    counters: Arc<Mutex<Counters>>,
}

impl FakeTx {
    fn takes(&mut self) -> bool {
        if self.knobs.state() != QueueState::Running {
            // The peer is gone with everything it had.
            self.counts.abandoned += self.counts.in_flight();
            return false;
        }
        self.ring.len() < SLOTS && !self.knobs.stuck.load(Ordering::Relaxed)
    }

    /// Whether the device has everything still.
    fn keeps(&self) -> bool {
        self.knobs.stuck.load(Ordering::Relaxed) || self.knobs.polls.load(Ordering::Relaxed) > 0
    }

    fn send(&mut self, bytes: &[u8]) {
        let knobs = &self.knobs;
        let mut wire = lock(&self.wires[self.number]);
        wire.number += 1;
        let every = |knob: &AtomicU64| {
            let every = knob.load(Ordering::Relaxed);
            every > 0 && wire.number.is_multiple_of(every)
        };
        let (drop, double, swap) = (
            every(&knobs.drop_every),
            every(&knobs.double_every),
            every(&knobs.swap_every),
        );
        if knobs.keep.load(Ordering::Relaxed) {
            lock(&knobs.kept).push(bytes.to_vec());
        }
        let mut counters = lock(&self.counters);
        counters.tx_frames += 1;
        counters.tx_bytes += bytes.len() as u64 + 4;
        self.counts.posted += 1;
        if drop {
            knobs.dropped.fetch_add(1, Ordering::Relaxed);
        } else if swap && wire.held.is_none() {
            knobs.swapped.fetch_add(1, Ordering::Relaxed);
            wire.held = Some(bytes.to_vec());
        } else {
            wire.frames.push_back(bytes.to_vec());
            if double {
                knobs.doubled.fetch_add(1, Ordering::Relaxed);
                wire.frames.push_back(bytes.to_vec());
            }
            let held = wire.held.take();
            wire.frames.extend(held);
        }
    }

    /// Completes everything, unless stuck.
    fn complete(&mut self) {
        if self.keeps() {
            return;
        }
        self.counts.completed += self.counts.in_flight();
        // Resident frames leave the ring by themselves, up to one that is to be handed back.
        while self.ring.front().is_some_and(Option::is_none) {
            self.ring.pop_front();
        }
    }
}

impl TxQueue for FakeTx {
    fn burst(&mut self, frames: &mut Burst) -> usize {
        let mut taken = 0;
        let mut joined: Vec<u8> = Vec::new();
        while self.takes() {
            let Some(frame) = frames.pop() else { break };
            joined.extend_from_slice(frame.bytes());
            taken += 1;
            if !frame.flags.contains(TxFlags::MORE) {
                self.send(&joined);
                joined.clear();
            }
            self.ring.push_back(Some(frame));
        }
        taken
    }

    fn reap(&mut self, out: &mut Burst) -> usize {
        if self.knobs.state() == QueueState::Running {
            self.complete();
        }
        if self.keeps() {
            return 0;
        }
        let mut moved = 0;
        while out.room() > 0 {
            match self.ring.pop_front() {
                Some(Some(frame)) => {
                    assert!(out.push(frame).is_ok());
                    moved += 1;
                }
                Some(None) => {}
                None => break,
            }
        }
        moved
    }

    fn load(&mut self, set: Arc<Resident>) {
        self.set = Some(set);
    }

    fn burst_resident(&mut self, first: usize, count: usize) -> usize {
        let set = Arc::clone(self.set.as_ref().expect("a set is loaded"));
        assert!(first < set.frames().len());
        self.complete();
        let mut taken = 0;
        while taken < count && self.takes() {
            let frame = &set.frames()[(first + taken) % set.frames().len()];
            self.send(frame.bytes());
            self.ring.push_back(None);
            taken += 1;
        }
        taken
    }

    fn poll(&mut self) {
        let polls = self.knobs.polls.load(Ordering::Relaxed);
        self.knobs
            .polls
            .store(polls.saturating_sub(1), Ordering::Relaxed);
        if self.knobs.state() == QueueState::Running {
            self.complete();
            let mut wire = lock(&self.wires[self.number]);
            // The end of the run: what was held back has nothing to change places with.
            let held = wire.held.take();
            wire.frames.extend(held);
        } else {
            self.takes();
        }
    }

    fn counts(&self) -> TxCounts {
        self.counts
    }

    fn state(&self) -> QueueState {
        self.knobs.state()
    }
}

struct FakeRx {
    wires: Wires,
    number: usize,
    armed: VecDeque<Frame>,
    knobs: Arc<Knobs>,
    counters: Arc<Mutex<Counters>>,
}

impl RxQueue for FakeRx {
    fn burst(&mut self, out: &mut RxBurst) -> usize {
        if self.knobs.polls.load(Ordering::Relaxed) > 0 {
            return 0;
        }
        let looks = self.knobs.looks.load(Ordering::Relaxed);
        if looks > 0 {
            self.knobs.looks.store(looks - 1, Ordering::Relaxed);
            return 0;
        }
        let mut wire = lock(&self.wires[self.number]);
        let cut = match self.knobs.cut.load(Ordering::Relaxed) {
            0 => usize::MAX,
            cut => usize::try_from(cut).unwrap_or(usize::MAX),
        };
        let mut moved = 0;
        while let Some(bytes) = wire.frames.front() {
            let parts = bytes.len().div_ceil(cut).max(1);
            if out.frames.room() < parts || self.armed.len() < parts {
                break;
            }
            let Some(bytes) = wire.frames.pop_front() else {
                break;
            };
            for (number, part) in bytes.chunks(cut).enumerate() {
                let mut frame = self.armed.pop_front().expect("counted above");
                frame.fill(part);
                let more = number + 1 < parts;
                out.meta[out.frames.len()] = RxMeta {
                    flags: if more {
                        RxFlags::MORE
                    } else {
                        RxFlags::empty()
                    },
                    ..RxMeta::default()
                };
                assert!(out.frames.push(frame).is_ok());
                moved += 1;
            }
            let mut counters = lock(&self.counters);
            counters.rx_frames += 1;
            counters.rx_bytes += bytes.len() as u64 + 4;
        }
        moved
    }

    fn arm(&mut self, empties: &mut Burst) -> usize {
        let mut taken = 0;
        while self.armed.len() < SLOTS {
            let Some(frame) = empties.pop() else { break };
            self.armed.push_back(frame);
            taken += 1;
        }
        taken
    }

    fn room(&self) -> usize {
        SLOTS - self.armed.len()
    }

    fn state(&self) -> QueueState {
        QueueState::Running
    }
}
