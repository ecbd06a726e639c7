//! The contract between a driver and the engine.
//!
//! A driver opens a device as a [`Port`]. Started, a port gives its queues away: each is owned
//! by one worker, which calls it once a burst; nothing below that call is virtual. The port
//! itself stays with the control thread, which asks it for link and counters, changes filters,
//! and calls [`Port::service`] now and then.
//!
//! Frames move by handle. [`TxQueue::burst`] takes frames; [`TxQueue::reap`] gives back those
//! that the device is done with. [`RxQueue::burst`] gives full frames; [`RxQueue::arm`] takes
//! empty ones. A queue holds no pool and makes no frame: what circulates is what the engine put
//! in, so that a starved queue is the engine's decision and is counted by the device.
//!
//! Frames that do not change can be *resident*: the engine loads a rendered set once
//! ([`TxQueue::load`]) and then names frames by number ([`TxQueue::burst_resident`]); the queue
//! keeps what descriptors it can and hands none back.
#![forbid(unsafe_code)]

mod caps;
mod config;
mod counters;
mod error;
mod headers;
mod queue;
mod shared;
mod signal;

pub use caps::{Caps, Info, Limits, Link, LinkState, Offloads};
pub use config::{Config, Queues, Rss};
pub use counters::{Counters, Extended};
pub use error::{PortError, StartError};
pub use headers::Headers;
pub use queue::{QueueState, RxBurst, RxFlags, RxMeta, RxQueue, TxCounts, TxQueue};
pub use shared::{Count, Follower, QueueId, Shared, Turn};
pub use signal::Signal;

use std::sync::Arc;

use hugemem::{DmaSpace, Memory};

/// A MAC address.
pub type Mac = [u8; 6];

/// An open device.
pub trait Port: Send {
    /// What it is.
    fn info(&self) -> &Info;

    /// What it can do. Asking for anything else is an error that says so.
    fn caps(&self) -> &Caps;

    /// The space that the run's memory must be mapped in.
    fn space(&self) -> Arc<dyn DmaSpace>;

    /// Bytes of memory that the rings of `config` take, frames not included.
    fn ring_bytes(&self, config: &Config) -> usize;

    /// Configures the device, carves rings out of `memory`, and starts its queues. The receive
    /// queues have no frames yet: nothing is received until [`RxQueue::arm`].
    ///
    /// # Errors
    /// The device cannot do what `config` asks, or does not answer.
    fn start(&mut self, config: &Config, memory: &Memory) -> Result<Queues, StartError>;

    /// Stops the device and ends its queues. Afterwards the device touches no memory, every
    /// frame that the queues held is home, and the port can be started again.
    ///
    /// # Errors
    /// The device did not answer; it is cut off from memory all the same.
    fn stop(&mut self, queues: Queues) -> Result<(), PortError>;

    /// The link as it is now.
    ///
    /// # Errors
    /// The device is gone.
    fn link(&mut self) -> Result<Link, PortError>;

    /// What was counted since the port was opened. Never goes down, whatever width the device's
    /// registers have; bytes include the FCS.
    ///
    /// # Errors
    /// The device is gone.
    fn counters(&mut self) -> Result<Counters, PortError>;

    /// Everything else that the device counts, by datasheet name.
    ///
    /// # Errors
    /// The device is gone.
    fn extended(&mut self) -> Result<Vec<Extended>, PortError>;

    /// The control thread's turn, a few hundred times a second: link changes, mailboxes,
    /// reconnection. Returns what happened, in words, for the log and the event list.
    ///
    /// # Errors
    /// The port has failed for good.
    fn service(&mut self) -> Result<Vec<String>, PortError> {
        Ok(Vec::new())
    }

    /// Accepts every frame, or only those for this port.
    ///
    /// # Errors
    /// The device cannot, or refused.
    fn set_promiscuous(&mut self, on: bool) -> Result<(), PortError>;

    /// Accepts every multicast frame.
    ///
    /// # Errors
    /// The device cannot, or refused.
    fn set_all_multicast(&mut self, on: bool) -> Result<(), PortError>;

    /// Sets the port's own address.
    ///
    /// # Errors
    /// The device cannot, or refused.
    fn set_mac(&mut self, mac: Mac) -> Result<(), PortError>;

    /// Sets the further addresses, unicast and multicast, that the port accepts.
    ///
    /// # Errors
    /// The device cannot, or refused.
    fn set_mac_filter(&mut self, macs: &[Mac]) -> Result<(), PortError>;

    /// Accepts frames of VLAN `id`, or no longer.
    ///
    /// # Errors
    /// The device cannot, or refused.
    fn set_vlan_filter(&mut self, id: u16, on: bool) -> Result<(), PortError>;

    /// Sets the largest payload of an Ethernet frame, in bytes. Only while stopped.
    ///
    /// # Errors
    /// The device cannot, or refused.
    fn set_mtu(&mut self, mtu: usize) -> Result<(), PortError>;

    /// The largest frame that is sent under the MTU that the port has now, in bytes with FCS.
    fn longest(&self) -> usize {
        self.caps().max_frame
    }

    /// Sets how received frames spread over queues.
    ///
    /// # Errors
    /// The device cannot, or refused.
    fn set_rss(&mut self, rss: &Rss) -> Result<(), PortError>;
}
