//! A run: frames are sent at their times, received, counted, and accounted for to the last one.
//!
//! [`start`] takes a [`RunPlan`], plans memory for it, starts the ports and then the workers, each
//! a thread that visits its queues in turn, to completion, and never waits for another. The
//! caller keeps the [`Run`]: it calls [`Run::service`] a few hundred times a second (the ports'
//! control side), [`Run::snapshot`] when it wants figures, and [`Run::join`] at the end.
//!
//! [`Run::join_open`] ends a trial and leaves the ports started: [`Standby`] runs the same streams
//! again, at other rates.
//!
//! # What the figures mean
//!
//! *Asked* is what the rates say for the time sent, rounded down, frame by frame exact
//! ([`FrameRate`]). *Sent* is what the device has confirmed. *Shortfall* is the rest, by
//! [cause](Shortfall): a worker that came too late, a ring that was full, a link or peer that was
//! away, frames the device had when it was reset (nobody can know about those), the end of the
//! run. Asked = sent + shortfall, always; [`Outcome::check`] looks.
//!
//! A worker that was late makes up for it as long as frames are not later than
//! [`RunPlan::catch_up_ns`]; older ones are given up and counted. Time is never stretched.
//!
//! At the end sending stops, the send rings drain, receiving goes on until nothing has come for
//! [`RunPlan::quiet_ns`], and only then are counters read: what is *lost* is lost.
//!
//! The *busy share* of a queue (`tx_cpu`, `rx_cpu`) is the part of the run's time that its worker
//! spent in visits of it that moved at least one frame. It is measured, not sampled, and not
//! extrapolated; a visit that found the ring full or nothing to do is not busy.

mod answer;
mod chain;
mod clock;
mod control;
mod counters;
mod draft;
mod error;
#[cfg(test)]
mod fake;
mod figures;
mod forward;
mod kit;
mod lane;
mod latency;
mod outcome;
mod pace;
mod plan;
mod rates;
mod ready;
mod receive;
mod schedule;
mod send;
mod sequence;
mod setup;
mod since;
mod site;
mod stage;
mod stamp;
mod standby;
mod tap;
mod worker;

pub use chain::{ChainError, ChainTurn, chain_turns, check as check_chains};
pub use clock::Clock;
pub use control::{Run, start};
pub use error::RunError;
pub use forward::{ForwardMode, ForwardPlan, ForwardPort, forward};
pub use outcome::{
    Bottleneck, Event, Figures, Finished, Latency, Outcome, PortFigures, Quantile, Shortfall,
    Snapshot, StreamFigures,
};
pub use pace::{Bursts, FrameRate};
pub use plan::{Hooks, PortPlan, RunPlan};
pub use standby::{Closed, Offer, Pace, Standby, open};
pub use tap::{Copied, Tap};

#[cfg(test)]
mod test;
