//! What a port is started with, and what it gives.

use crate::caps::{Caps, Offloads};
use crate::queue::{RxQueue, TxQueue};

/// How a port shall run.
#[derive(Debug, Clone)]
pub struct Config {
    /// Receive queues; 0 for a port that only sends.
    pub rx_queues: usize,
    /// Send queues; 0 for a port that only receives.
    pub tx_queues: usize,
    /// Slots of each receive ring; the port's default if none.
    pub rx_slots: Option<usize>,
    /// Slots of each send ring; the port's default if none.
    pub tx_slots: Option<usize>,
    /// What the device shall do to frames.
    pub offloads: Offloads,
    /// Bytes that each frame which is armed for receiving holds. A device that fills several
    /// for one packet marks all but the last with [`RxFlags::MORE`](crate::RxFlags::MORE).
    pub rx_capacity: usize,
    /// How frames spread over several receive queues; the device's own way if none.
    pub rss: Option<Rss>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_slots: None,
            tx_slots: None,
            offloads: Offloads::empty(),
            rx_capacity: 2048,
            rss: None,
        }
    }
}

impl Config {
    /// As many queues as a port with `caps` has when nobody asks, and the default of everything
    /// else.
    #[must_use]
    pub fn of(caps: &Caps) -> Self {
        Self {
            rx_queues: caps.rx_queues.default,
            tx_queues: caps.tx_queues.default,
            ..Self::default()
        }
    }
}

/// Receive-side scaling: how a hash of each frame picks its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rss {
    /// The Toeplitz key, 40 bytes on most devices.
    pub key: Vec<u8>,
    /// The indirection table (RETA): a queue for each value of the hash's low bits.
    pub table: Vec<u16>,
}

/// The queues of a started port.
#[derive(Default)]
pub struct Queues {
    /// Receive queues, by number.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Send queues, by number.
    pub tx: Vec<Box<dyn TxQueue>>,
}
