//! Two devices, the wire between them, and the thread that is all three.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::counters::{DeviceCounters, DeviceCounts, WireCounters, WireCounts};
use crate::device::{Device, LinkReport};
use crate::faults::DeviceFaults;
use crate::function::{End, SimFunction};
use crate::wire::{Ends, Wire, WireOptions};

/// Rounds with nothing to do after which the thread lets others run, where cores are short.
const IDLE_ROUNDS: u32 = 16;
/// What a step takes, on the clock of a [`Sim::stepped`] one.
const STEP: Duration = Duration::from_micros(1);

/// How a [`Sim`] runs.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// The thread's name, as `top -H` shows it; 15 bytes are kept.
    pub thread: String,
    /// The core that the thread stays on. None: wherever the system puts it.
    pub core: Option<usize>,
    /// Busy threads of this process, the model's included. Where fewer cores are allowed, the
    /// model's thread yields when it has nothing to do; otherwise it spins.
    pub busy_threads: usize,
    /// How long the thread sleeps when it has had nothing to do for some rounds, for pairs that
    /// others want the cores beside; None: it never sleeps.
    pub nap: Option<Duration>,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            thread: "rgen-model".into(),
            core: None,
            busy_threads: 2,
            nap: None,
        }
    }
}

/// A pair of devices with a wire between.
///
/// Dropping it stops the thread. Functions that are still held then see a device that answers on
/// its registers and moves no frame.
pub struct Sim {
    ends: [Arc<End>; 2],
    wire: [Arc<WireCounters>; 2],
    link: Arc<LinkSwitch>,
    runner: Runner,
}

enum Runner {
    Thread {
        stop: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    },
    Steps(Box<Mutex<Stepped>>),
}

struct Stepped {
    core: Core,
    now: Duration,
}

/// The link as set by hand; the core takes it over at its next round.
#[derive(Default)]
struct LinkSwitch {
    pulled: AtomicBool,
}

/// What runs: in a thread of its own or step by step.
struct Core {
    ends: [Arc<End>; 2],
    wire: Wire,
    link: Arc<LinkSwitch>,
    reported: Option<LinkReport>,
    speed_bps: u64,
}

impl Sim {
    /// Two devices on a wire, run by a thread of their own.
    ///
    /// # Panics
    /// The system makes no thread.
    #[must_use]
    pub fn pair(a: Box<dyn Device>, b: Box<dyn Device>, wire: WireOptions) -> Self {
        Self::with_options(a, b, wire, SimOptions::default())
    }

    /// As [`Sim::pair`], with a say in how the thread runs.
    ///
    /// # Panics
    /// The system makes no thread.
    #[must_use]
    pub fn with_options(
        a: Box<dyn Device>,
        b: Box<dyn Device>,
        wire: WireOptions,
        options: SimOptions,
    ) -> Self {
        Self::build(a, b, wire, |core| {
            let stop = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&stop);
            let thread = std::thread::Builder::new()
                .name(options.thread.clone())
                .spawn(move || core.run(&flag, &options))
                .expect("the system can start one more thread");
            let thread = Some(thread);
            Runner::Thread { stop, thread }
        })
    }

    /// Two devices on a wire that move only when [`Sim::step`] is called: the same again at each
    /// run. Time is what the steps make it.
    #[must_use]
    pub fn stepped(a: Box<dyn Device>, b: Box<dyn Device>, wire: WireOptions) -> Self {
        Self::build(a, b, wire, |core| {
            let now = Duration::ZERO;
            Runner::Steps(Box::new(Mutex::new(Stepped { core, now })))
        })
    }

    fn build(
        a: Box<dyn Device>,
        b: Box<dyn Device>,
        options: WireOptions,
        start: impl FnOnce(Core) -> Runner,
    ) -> Self {
        let ends = [End::new(a), End::new(b)];
        let counters: [Arc<WireCounters>; 2] = Default::default();
        let link = Arc::new(LinkSwitch::default());
        let speed_bps = options.speed_bps;
        let mut core = Core {
            ends: ends.clone(),
            wire: Wire::new(options, counters.clone()),
            link: Arc::clone(&link),
            reported: None,
            speed_bps,
        };
        // Once before anyone looks, so that the link is up from the first read on.
        core.report_link();
        Self {
            ends,
            wire: counters,
            link,
            runner: start(core),
        }
    }

    /// The device at `end` (0 or 1), for a driver to open.
    ///
    /// # Panics
    /// There are two ends.
    #[must_use]
    pub fn function(&self, end: usize) -> SimFunction {
        SimFunction::new(Arc::clone(&self.ends[end]))
    }

    /// One round: the devices look at their rings once. True if anything moved.
    ///
    /// # Panics
    /// A thread runs this pair.
    pub fn step(&self) -> bool {
        self.advance(STEP)
    }

    /// Lets `time` pass, then makes one round. True if anything moved.
    ///
    /// # Panics
    /// A thread runs this pair.
    pub fn advance(&self, time: Duration) -> bool {
        let Runner::Steps(stepped) = &self.runner else {
            panic!("a pair with a thread of its own is not stepped by hand");
        };
        let mut stepped = stepped.lock().unwrap_or_else(PoisonError::into_inner);
        stepped.now += time;
        let now = stepped.now;
        stepped.core.round(|| now)
    }

    /// Steps until nothing moves and nothing is on its way any more.
    ///
    /// # Panics
    /// A thread runs this pair, or it does not come to rest.
    pub fn settle(&self) {
        for _ in 0..10_000_000 {
            let moved = self.step();
            if !moved && (0..2).all(|direction| self.wire(direction).held() == 0) {
                return;
            }
        }
        panic!("the pair does not come to rest");
    }

    /// What the device at `end` counts.
    #[must_use]
    pub fn counters(&self, end: usize) -> DeviceCounts {
        self.ends[end].counters.read()
    }

    /// The same, to be read later too.
    #[must_use]
    pub fn live_counters(&self, end: usize) -> Arc<DeviceCounters> {
        Arc::clone(&self.ends[end].counters)
    }

    /// What the wire counts in the direction from `end` to the other.
    #[must_use]
    pub fn wire(&self, end: usize) -> WireCounts {
        self.wire[end].read()
    }

    /// What goes wrong with the device at `end`, to be switched on and off.
    #[must_use]
    pub fn faults(&self, end: usize) -> Arc<DeviceFaults> {
        Arc::clone(&self.ends[end].faults)
    }

    /// Plugs the wire in or pulls it out; both devices see it at the model's next round.
    pub fn set_link(&self, up: bool) {
        self.link.pulled.store(!up, Ordering::Release);
    }

    /// Every sentence that a device had to say about its driver: `sim:virtio/0: …`.
    #[must_use]
    pub fn objections(&self) -> Vec<String> {
        let of = |end: &Arc<End>| {
            let all = end.objections.all().into_iter();
            let name = end.name();
            all.map(move |sentence| format!("{name}: {sentence}"))
                .collect::<Vec<_>>()
        };
        self.ends.iter().flat_map(of).collect()
    }

    /// Frames that nobody accounts for, in the direction from `end` to the other: sent and
    /// neither received, nor counted as dropped, nor on their way. Zero, always, when nothing
    /// moves.
    #[must_use]
    pub fn unaccounted(&self, end: usize) -> i128 {
        let (sender, wire) = (self.counters(end), self.wire(end));
        let receiver = self.counters(1 - end);
        let arrived = receiver.rx_frames + receiver.rx_dropped();
        let lost = i128::from(wire.lost) + i128::from(wire.link_down) + i128::from(wire.held());
        i128::from(sender.tx_frames) + i128::from(wire.duplicated) - i128::from(arrived) - lost
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        if let Runner::Thread { stop, thread } = &mut self.runner {
            stop.store(true, Ordering::Release);
            if let Some(thread) = thread.take() {
                // A panic of the model was printed where it happened.
                let _ = thread.join();
            }
        }
    }
}

impl Core {
    fn run(mut self, stop: &AtomicBool, options: &SimOptions) {
        let cores = hw::cpu::count().unwrap_or(1);
        let yields = cores < options.busy_threads;
        if let Some(core) = options.core
            && let Err(error) = hw::cpu::pin(core)
        {
            tracing::warn!("the model's thread stays unpinned: core {core}: {error}");
        }
        let start = Instant::now();
        let mut idle = 0u32;
        while !stop.load(Ordering::Acquire) {
            if self.round(|| start.elapsed()) {
                idle = 0;
            } else if let Some(nap) = options.nap.filter(|_| idle >= IDLE_ROUNDS) {
                std::thread::sleep(nap);
            } else if yields && idle >= IDLE_ROUNDS {
                std::thread::yield_now();
            } else {
                idle += 1;
                std::hint::spin_loop();
            }
        }
    }

    fn round(&mut self, clock: impl FnOnce() -> Duration) -> bool {
        let now_ps = if self.wire.needs_clock() {
            u64::try_from(clock().as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX)
        } else {
            0
        };
        self.wire.tick(now_ps);
        self.report_link();
        let mut first = self.ends[0].round();
        let mut second = self.ends[1].round();
        // Under the locks: who sees a device gone and has waited for them sees no DMA after.
        let gone = [self.ends[0].is_gone(), self.ends[1].is_gone()];
        let [a, b] = [&mut **first, &mut **second];
        let counters = [&self.ends[0].counters, &self.ends[1].counters];
        let forth = Ends {
            sender: a,
            receiver: b,
            sender_gone: gone[0],
            receiver_gone: gone[1],
            receiver_counters: counters[1],
        };
        let mut moved = self.wire.carry(0, forth, now_ps);
        let back = Ends {
            sender: b,
            receiver: a,
            sender_gone: gone[1],
            receiver_gone: gone[0],
            receiver_counters: counters[0],
        };
        moved |= self.wire.carry(1, back, now_ps);
        moved |= !gone[0] && a.poll();
        moved |= !gone[1] && b.poll();
        moved
    }

    /// Tells both devices when the link is not what they were told last.
    fn report_link(&mut self) {
        self.wire.plug(!self.link.pulled.load(Ordering::Acquire));
        let report = LinkReport {
            up: self.wire.is_up(),
            speed_bps: self.speed_bps,
        };
        if self.reported != Some(report) {
            self.reported = Some(report);
            for end in &self.ends {
                end.round().set_link(report);
            }
        }
    }
}
