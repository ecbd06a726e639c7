//! Answering: what is asked of a port's own addresses while it is busy with a run.
//!
//! A receive queue's worker copies what may be a question into a frame of the answerer's and goes
//! on. The answerer, a task with a send queue of its own, turns it into the answer. Questions that
//! come faster than that are left unanswered: whoever asks repeats them.

use std::sync::Arc;

use crossbeam::queue::ArrayQueue;
use hugemem::{BURST, Burst, Frame, Memory, Pool, TxFlags};
use port::{Mac, TxCounts, TxQueue};

use super::RunError;
use super::counters::{Counter, Gate, QueueSent};
use super::send::Visit;
use crate::resolution::{Addresses, is_question};

/// Questions that may be waiting and answers that may be on their way, together.
const FRAMES: usize = 256;
/// Bytes that a question may have at least.
const CAPACITY: usize = 1600;

/// Where questions go, and where empty frames for more come from.
#[derive(Clone)]
pub(super) struct Asked {
    questions: Arc<ArrayQueue<Frame>>,
    empties: Arc<ArrayQueue<Frame>>,
}

impl Asked {
    /// With frames of `memory` that hold `capacity` bytes or more; and their pool.
    pub(super) fn new(memory: &Memory, capacity: usize) -> Result<(Self, Pool), RunError> {
        let pool = Pool::new(memory, FRAMES, capacity.max(CAPACITY))?;
        let asked = Self {
            questions: Arc::new(ArrayQueue::new(FRAMES)),
            empties: Arc::new(ArrayQueue::new(FRAMES)),
        };
        while let Some(frame) = pool.take() {
            asked.put_back(frame);
        }
        Ok((asked, pool))
    }

    /// Bytes of memory that it takes.
    pub(super) fn footprint(capacity: usize) -> usize {
        Pool::footprint(FRAMES, capacity.max(CAPACITY))
    }

    /// Takes note of a whole frame that came, if it may be a question.
    #[inline]
    pub(super) fn look(&self, bytes: &[u8]) {
        if is_question(bytes) {
            self.ask(bytes);
        }
    }

    #[cold]
    fn ask(&self, bytes: &[u8]) {
        let Some(mut frame) = self.empties.pop() else {
            return;
        };
        if bytes.len() > frame.capacity() {
            self.put_back(frame);
            return;
        }
        frame.fill(bytes);
        // There is room: the queue holds as many as there are.
        let kept = self.questions.push(frame);
        debug_assert!(kept.is_ok());
    }

    fn put_back(&self, frame: Frame) {
        let kept = self.empties.push(frame);
        debug_assert!(kept.is_ok());
    }
}

/// A send queue, and for whom it answers.
pub(super) struct AnswerKit {
    pub(super) queue: Box<dyn TxQueue>,
    pub(super) asked: Asked,
    pub(super) addresses: Addresses,
    pub(super) mac: Mac,
    /// Answers that are on their way out.
    pub(super) out: Burst,
}

/// Answers questions, as long as anything is received.
pub(super) struct AnswerTask {
    kit: AnswerKit,
    reaped: Burst,
    counts: Arc<QueueSent>,
    answered: Arc<Counter>,
    gate: Arc<Gate>,
    before: TxCounts,
}

impl AnswerTask {
    pub(super) fn new(
        kit: AnswerKit,
        counts: Arc<QueueSent>,
        answered: Arc<Counter>,
        gate: Arc<Gate>,
    ) -> Self {
        Self {
            before: kit.queue.counts(),
            kit,
            reaped: Burst::new(),
            counts,
            answered,
            gate,
        }
    }

    #[inline]
    pub(super) fn visit(&mut self) -> Visit {
        if self.kit.asked.questions.is_empty() && self.kit.out.is_empty() && !self.is_sending() {
            return Visit::default();
        }
        self.turn()
    }

    /// True while answers are with the device.
    fn is_sending(&self) -> bool {
        self.kit.queue.counts().in_flight() > 0
    }

    #[cold]
    fn turn(&mut self) -> Visit {
        let AnswerKit {
            queue,
            asked,
            addresses,
            mac,
            out,
        } = &mut self.kit;
        queue.reap(&mut self.reaped);
        while let Some(frame) = self.reaped.pop() {
            asked.put_back(frame);
        }
        let mut worked = false;
        while out.len() < BURST
            && let Some(mut frame) = asked.questions.pop()
        {
            worked = true;
            frame.flags = TxFlags::empty();
            if !addresses.answer(&mut frame, *mac) {
                asked.put_back(frame);
            } else if let Err(frame) = out.push(frame) {
                asked.put_back(frame);
            }
        }
        queue.burst(out);
        let counts = queue.counts();
        self.answered.set(counts.posted - self.before.posted);
        Visit {
            worked,
            blocked: false,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.gate.has_received()
    }

    pub(super) fn counts(&self) -> &QueueSent {
        &self.counts
    }

    pub(super) fn into_kit(self) -> AnswerKit {
        self.kit
    }
}
