//! What a user may choose about a port.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use port::Mac;

/// A feature that may be left to the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// The driver decides.
    #[default]
    Auto,
    /// It must be there; the port does not open without.
    On,
    /// It is not used, whatever the device offers.
    Off,
}

/// What to ask of the device, whatever it is reached through.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Packed rings (virtio 1.2 §2.8). Auto: if offered.
    pub packed: Choice,
    /// Buffers used in the order in which they were made available (§2.7.9, §2.8.9). Auto: on
    /// packed rings if offered, where it saves the device a write a frame; on split rings not,
    /// where descriptors of resident frames then need no rewriting.
    pub in_order: Choice,
    /// One received frame in several buffers (§5.1.6.4). Auto: when a buffer is smaller than
    /// the largest frame.
    pub mergeable: Choice,
    /// A packet of several buffers in one slot of the ring (§2.7.5.3). Auto: if offered.
    pub indirect: Choice,
    /// Queue pairs to offer in [`Caps`](port::Caps); none for all that the device has.
    pub pairs: Option<usize>,
    /// Slots of each receive ring on PCI when the run does not say: 1024 if none. More bear longer
    /// pauses of the receiving core, and lie less in its cache.
    pub rx_slots: Option<usize>,
    /// Slots of each send ring on PCI, likewise.
    pub tx_slots: Option<usize>,
}

/// How to reach a vhost-user peer, and what to ask of it.
#[derive(Debug, Clone)]
pub struct VhostOptions {
    /// What to ask of the device. `pairs` of none means one.
    pub device: Options,
    /// This end listens on the path and the peer connects; else the peer listens.
    pub server: bool,
    /// The port's address; one made from the path, locally administered, if none.
    pub mac: Option<Mac>,
    /// Slots of each receive ring when the run does not say.
    pub rx_slots: usize,
    /// Slots of each send ring when the run does not say.
    pub tx_slots: usize,
    /// How long to wait for a peer to appear.
    pub connect_timeout: Duration,
    /// How long a peer may take to answer one request.
    pub reply_timeout: Duration,
    /// Ends the wait for a peer once it is set.
    pub stop: Arc<AtomicBool>,
}

impl Default for VhostOptions {
    fn default() -> Self {
        Self {
            device: Options::default(),
            server: false,
            mac: None,
            rx_slots: 1024,
            tx_slots: 1024,
            connect_timeout: Duration::from_secs(5),
            reply_timeout: Duration::from_secs(3),
            stop: Arc::default(),
        }
    }
}
