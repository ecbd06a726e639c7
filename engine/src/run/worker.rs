//! Workers: threads that visit their queues in turn.

use std::hint;
use std::sync::Arc;
use std::thread;

use port::TxQueue;

use super::answer::AnswerTask;
use super::counters::Gate;
use super::forward::ForwardTask;
use super::receive::ReceiveTask;
use super::send::{SendTask, Visit};
use super::{Clock, Hooks};

/// A queue, or a pair of them, and what to do with it.
pub(super) enum Task {
    /// Sends.
    Send(Box<SendTask>),
    /// Receives.
    Receive(Box<ReceiveTask>),
    /// Sends what it receives.
    Forward(Box<ForwardTask>),
    /// Answers what is asked of the port.
    Answer(Box<AnswerTask>),
    /// A send queue that nothing is sent on.
    Idle(Box<dyn TxQueue>),
}

/// A task, and where its queue belongs: port and queue number.
pub(super) struct Placed {
    pub(super) port: usize,
    pub(super) queue: usize,
    pub(super) task: Task,
}

/// What a worker needs.
pub(super) struct Worker<C> {
    pub(super) tasks: Vec<Placed>,
    pub(super) core: Option<usize>,
    pub(super) clock: C,
    pub(super) yield_when_idle: bool,
    pub(super) duration_ns: Option<u64>,
    pub(super) gate: Arc<Gate>,
    pub(super) hooks: Hooks,
}

impl<C: Clock> Worker<C> {
    /// Visits the tasks until all are done; gives them back.
    ///
    /// The clock is read after each visit. That reading tells how long the visit took, and it is
    /// the time at which the next one begins.
    pub(super) fn run(mut self) -> Vec<Placed> {
        let _watch = Watch(Arc::clone(&self.gate));
        if let Some(core) = self.core {
            (self.hooks.on_worker_start)(core);
        }
        self.begin();
        let mut now_ns = self.clock.now_ns();
        loop {
            let (mut worked, mut done) = (false, true);
            for placed in &mut self.tasks {
                let visit = placed.task.visit(now_ns, self.clock);
                let after_ns = self.clock.now_ns();
                placed.task.account(visit, after_ns.saturating_sub(now_ns));
                now_ns = after_ns;
                worked |= visit.worked;
                done &= placed.task.is_done();
            }
            if done {
                return self.tasks;
            }
            if !worked {
                if self.yield_when_idle {
                    thread::yield_now();
                    now_ns = self.clock.now_ns();
                } else {
                    hint::spin_loop();
                }
            }
        }
    }

    /// Waits for the common beginning.
    fn begin(&mut self) {
        self.gate.report_ready();
        let start_ns = loop {
            match self.gate.start_ns() {
                Some(start_ns) => break start_ns,
                None => thread::yield_now(),
            }
        };
        let end_ns = self
            .duration_ns
            .map_or(u64::MAX, |duration_ns| start_ns.saturating_add(duration_ns));
        for placed in &mut self.tasks {
            match &mut placed.task {
                Task::Send(task) => task.begin(start_ns, end_ns),
                Task::Receive(task) => task.begin(end_ns),
                Task::Forward(task) => task.begin(end_ns),
                Task::Answer(_) | Task::Idle(_) => {}
            }
        }
    }
}

/// Tells the others if this worker panics: they would wait for its queues for ever.
struct Watch(Arc<Gate>);

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.give_up();
        }
    }
}

impl Task {
    #[inline]
    fn visit(&mut self, now_ns: u64, clock: impl Clock) -> Visit {
        match self {
            Self::Send(task) => task.visit(now_ns),
            Self::Receive(task) => task.visit(now_ns, clock),
            Self::Forward(task) => task.visit(now_ns),
            Self::Answer(task) => task.visit(),
            Self::Idle(_) => Visit::default(),
        }
    }

    #[inline]
    fn is_done(&self) -> bool {
        match self {
            Self::Send(task) => task.is_done(),
            Self::Receive(task) => task.is_done(),
            Self::Forward(task) => task.is_done(),
            Self::Answer(task) => task.is_done(),
            Self::Idle(_) => true,
        }
    }

    #[inline]
    fn account(&mut self, visit: Visit, took_ns: u64) {
        match self {
            Self::Send(task) => {
                let counts = task.counts();
                if visit.worked {
                    counts.busy_ns.add(took_ns);
                }
                if visit.blocked {
                    counts.blocked_ns.add(took_ns);
                }
            }
            Self::Receive(task) => {
                if visit.worked {
                    task.counts().busy_ns.add(took_ns);
                }
            }
            Self::Forward(task) => task.account(visit, took_ns),
            Self::Answer(task) => {
                if visit.worked {
                    task.counts().busy_ns.add(took_ns);
                }
            }
            Self::Idle(_) => {}
        }
    }
}

/// Spreads tasks over `workers` workers: everything on one; or senders apart from receivers, in
/// proportion to their numbers, each kind in turn. Receivers come first, so that a worker which was
/// away empties rings before it fills others.
pub(super) fn spread(tasks: Vec<Placed>, workers: usize) -> Vec<Vec<Placed>> {
    let receives = |placed: &Placed| matches!(placed.task, Task::Receive(_) | Task::Answer(_));
    let (receivers, senders): (Vec<_>, Vec<_>) = tasks.into_iter().partition(receives);
    let (r, s) = (receivers.len(), senders.len());
    let workers = workers.clamp(1, (r + s).max(1));
    let mut lists: Vec<Vec<Placed>> = (0..workers).map(|_| Vec::new()).collect();
    let for_senders = if r == 0 || s == 0 || workers == 1 {
        workers
    } else {
        (workers * s).div_ceil(r + s).clamp(1, workers - 1)
    };
    let first = if s == 0 || workers == 1 {
        0
    } else {
        for_senders
    };
    let for_receivers = (workers - first).max(1);
    for (number, task) in receivers.into_iter().enumerate() {
        lists[first + number % for_receivers].push(task);
    }
    for (number, task) in senders.into_iter().enumerate() {
        lists[number % for_senders].push(task);
    }
    lists
}
