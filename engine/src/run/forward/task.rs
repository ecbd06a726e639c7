//! What a worker does when it visits a pair of queues that forwards.

use std::net::IpAddr;
use std::sync::Arc;

use hugemem::{Burst, TxFlags};
use port::{Mac, QueueState, RxBurst, RxFlags, RxQueue, TxCounts, TxQueue};

use super::{ForwardMode, rewrite};
use crate::resolution::answer;
use crate::run::counters::{Gate, QueueReceived, QueueSent};
use crate::run::send::Visit;
use crate::run::tap::TapEnd;
use crate::stream::FCS;

/// A receive queue, and the send queue of the port behind it.
pub(in crate::run) struct ForwardTask {
    parts: ForwardParts,
    burst: RxBurst,
    /// Frames on their way out.
    out: Burst,
    /// Frames on their way back into the receive ring.
    empties: Burst,
    /// Whether the last buffer taken is continued by the next.
    inside: bool,
    end_ns: u64,
    phase: Phase,
}

/// What it is made of.
pub(in crate::run) struct ForwardParts {
    pub(in crate::run) rx: Box<dyn RxQueue>,
    /// None where nothing is sent.
    pub(in crate::run) tx: Option<Box<dyn TxQueue>>,
    /// The sending port and queue, where there is one.
    pub(in crate::run) out: Option<(usize, usize)>,
    pub(in crate::run) mode: ForwardMode,
    pub(in crate::run) tap: Option<TapEnd>,
    pub(in crate::run) retries: u32,
    /// The address of the port that sends.
    pub(in crate::run) mac: Mac,
    pub(in crate::run) next_hop: Mac,
    pub(in crate::run) ipv4: Option<[u8; 4]>,
    pub(in crate::run) received: Arc<QueueReceived>,
    pub(in crate::run) sent: Arc<QueueSent>,
    pub(in crate::run) gate: Arc<Gate>,
    pub(in crate::run) quiet_ns: u64,
    pub(in crate::run) drain_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Told to stop; since when, and when the last frame came.
    Draining {
        since_ns: u64,
        last_ns: u64,
    },
    Done,
}

/// Frames and bytes of a burst.
#[derive(Clone, Copy, Default)]
struct Amount {
    frames: u64,
    /// With FCS.
    bytes: u64,
}

impl ForwardTask {
    pub(in crate::run) fn new(parts: ForwardParts) -> Self {
        Self {
            parts,
            burst: RxBurst::default(),
            out: Burst::new(),
            empties: Burst::new(),
            inside: false,
            end_ns: u64::MAX,
            phase: Phase::Running,
        }
    }

    /// Sets when forwarding ends by itself.
    pub(in crate::run) fn begin(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
    }

    pub(in crate::run) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// A forwarded frame costs its receiving and its sending together: both show it.
    pub(in crate::run) fn account(&self, visit: Visit, took_ns: u64) {
        if visit.worked {
            self.parts.received.busy_ns.add(took_ns);
            self.parts.sent.busy_ns.add(took_ns);
        }
        if visit.blocked {
            self.parts.sent.blocked_ns.add(took_ns);
        }
    }

    /// The queues, with the sending port's and queue's number, and what became of the frames.
    #[expect(clippy::type_complexity, reason = "taken apart at once")]
    pub(in crate::run) fn into_queues(
        self,
    ) -> (
        Box<dyn RxQueue>,
        Option<(usize, usize, Box<dyn TxQueue>, TxCounts)>,
    ) {
        let ForwardParts { rx, tx, out, .. } = self.parts;
        let sender = tx.zip(out).map(|(tx, (port, queue))| {
            let counts = tx.counts();
            (port, queue, tx, counts)
        });
        (rx, sender)
    }

    /// Forwards one burst.
    #[inline]
    pub(in crate::run) fn visit(&mut self, now_ns: u64) -> Visit {
        if self.phase == Phase::Done {
            return Visit::default();
        }
        self.recycle();
        let received = self.parts.rx.burst(&mut self.burst);
        let mut blocked = false;
        if received > 0 {
            self.count_received();
            self.copy(now_ns);
            if let Phase::Draining { last_ns, .. } = &mut self.phase {
                *last_ns = now_ns;
            }
            self.rewrite();
            blocked = !self.send();
        } else if self.parts.rx.state() == QueueState::Failed {
            self.parts.gate.stop();
        }
        self.look_for_end(now_ns);
        Visit {
            worked: received > 0,
            blocked,
        }
    }

    /// Frames that were sent go back into the receive ring.
    #[inline]
    fn recycle(&mut self) {
        if let Some(tx) = &mut self.parts.tx {
            tx.reap(&mut self.empties);
        }
        if !self.empties.is_empty() {
            self.parts.rx.arm(&mut self.empties);
        }
    }

    #[inline]
    fn count_received(&mut self) {
        let mut amount = Amount::default();
        for (frame, meta) in self.burst.frames.iter().zip(&self.burst.meta) {
            amount.bytes += frame.len() as u64;
            if !meta.flags.contains(RxFlags::MORE) {
                amount.frames += 1;
                amount.bytes += FCS as u64;
            }
            if meta.flags.contains(RxFlags::ERROR) {
                self.parts.received.errors.add(1);
            }
        }
        self.parts.received.frames.add(amount.frames);
        self.parts.received.bytes.add(amount.bytes);
    }

    /// Gives copies to whoever wants them.
    #[inline]
    fn copy(&mut self, now_ns: u64) {
        if let Some(tap) = &mut self.parts.tap {
            for (frame, meta) in self.burst.frames.iter().zip(&self.burst.meta) {
                let more = meta.flags.contains(RxFlags::MORE);
                tap.note(frame.bytes(), more, now_ns);
            }
        }
    }

    /// Moves the burst to `out`, changed as the mode says; what is not sent to `empties`.
    #[inline]
    fn rewrite(&mut self) {
        let ForwardParts {
            mode,
            mac,
            next_hop,
            ipv4,
            ..
        } = self.parts;
        let mut metas = self.burst.meta.iter();
        while let Some(mut frame) = self.burst.frames.pop() {
            let more = metas
                .next()
                .is_some_and(|meta| meta.flags.contains(RxFlags::MORE));
            let first = !self.inside;
            self.inside = more;
            frame.flags = if more {
                TxFlags::MORE
            } else {
                TxFlags::empty()
            };
            let keep = match mode {
                ForwardMode::RxOnly => false,
                ForwardMode::IcmpEcho => {
                    let is_own = |asked: IpAddr| ipv4.is_none_or(|own| asked == IpAddr::from(own));
                    first && !more && answer(&mut frame, mac, is_own)
                }
                ForwardMode::Io => true,
                _ if !first => true,
                ForwardMode::Mac => {
                    rewrite::set_macs(frame.bytes_mut(), next_hop, mac);
                    true
                }
                ForwardMode::MacSwap => {
                    rewrite::swap_macs(frame.bytes_mut());
                    true
                }
                ForwardMode::Swap => {
                    rewrite::swap_all(frame.bytes_mut());
                    true
                }
            };
            let to = if keep {
                &mut self.out
            } else {
                &mut self.empties
            };
            if let Err(frame) = to.push(frame) {
                // Empties fill up when the receive ring takes none back: it has room again soon.
                self.parts.rx.arm(&mut self.empties);
                drop(self.empties.push(frame));
            }
        }
    }

    /// Posts what goes out, and drops what does not fit. False if something did not.
    #[inline]
    fn send(&mut self) -> bool {
        let Some(tx) = &mut self.parts.tx else {
            return true;
        };
        if self.out.is_empty() {
            return true;
        }
        let offered = amount(&self.out);
        tx.burst(&mut self.out);
        let mut tries = self.parts.retries;
        while !self.out.is_empty() && tries > 0 {
            tries -= 1;
            tx.poll();
            tx.burst(&mut self.out);
        }
        let left = amount(&self.out);
        self.parts.sent.frames.add(offered.frames - left.frames);
        self.parts.sent.bytes.add(offered.bytes - left.bytes);
        if left.frames == 0 {
            return true;
        }
        self.parts.sent.dropped.add(left.frames);
        self.give_back();
        false
    }

    /// What did not fit goes back into the receive ring.
    #[cold]
    fn give_back(&mut self) {
        while !self.out.is_empty() {
            let count = self.out.len();
            let moved = self.out.move_to(&mut self.empties, count);
            let armed = self.parts.rx.arm(&mut self.empties);
            if moved + armed == 0 {
                // Nowhere to keep them: home to the pool.
                self.out.clear();
            }
        }
    }

    /// Ends when told to, once nothing comes any more and everything is sent.
    #[inline]
    fn look_for_end(&mut self, now_ns: u64) {
        match self.phase {
            Phase::Running => {
                if self.parts.gate.is_stopped() || now_ns >= self.end_ns {
                    self.parts.gate.note_end(now_ns);
                    self.phase = Phase::Draining {
                        since_ns: now_ns,
                        last_ns: now_ns,
                    };
                }
            }
            Phase::Draining { since_ns, last_ns } => {
                let long = now_ns.saturating_sub(since_ns) >= self.parts.drain_ns;
                let quiet = now_ns.saturating_sub(last_ns) >= self.parts.quiet_ns;
                let in_flight = self.parts.tx.as_mut().map_or(0, |tx| {
                    tx.poll();
                    tx.counts().in_flight()
                });
                if long || quiet && in_flight == 0 {
                    let before = self.parts.tx.as_ref().map_or(0, |tx| tx.counts().abandoned);
                    self.parts.sent.abandoned.set(before + in_flight);
                    self.phase = Phase::Done;
                }
            }
            Phase::Done => {}
        }
    }
}

/// Frames, and their bytes with FCS.
#[inline]
fn amount(burst: &Burst) -> Amount {
    let mut amount = Amount::default();
    for frame in burst.iter() {
        let last = !frame.flags.contains(TxFlags::MORE);
        amount.frames += u64::from(last);
        amount.bytes += (frame.len() + if last { FCS } else { 0 }) as u64;
    }
    amount
}
