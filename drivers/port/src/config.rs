//! What a port is started with, and what it gives.

use crate::caps::{Caps, Offloads};
use crate::error::StartError;
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

    /// Slots of each receive ring and of each send ring.
    #[must_use]
    pub fn slots(&self, caps: &Caps) -> (usize, usize) {
        (
            self.rx_slots.unwrap_or(caps.rx_slots.default),
            self.tx_slots.unwrap_or(caps.tx_slots.default),
        )
    }

    /// Looks whether `caps` allow it, for the port named `port`.
    ///
    /// # Errors
    /// They do not; the error says what they allow.
    pub fn check(&self, port: &str, caps: &Caps) -> Result<(), StartError> {
        let unsupported = |what, asked, allowed| StartError::Unsupported {
            port: port.to_owned(),
            what,
            asked,
            allowed,
        };
        let missing = self.offloads - caps.offloads;
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter_names().map(|(name, _)| name).collect();
            let allowed = "this device does not offer it".into();
            return Err(unsupported("offloading", names.join(", "), allowed));
        }
        for (what, asked, limits) in [
            (
                "a number of receive queues",
                self.rx_queues,
                &caps.rx_queues,
            ),
            ("a number of send queues", self.tx_queues, &caps.tx_queues),
        ] {
            // No queues at all is always possible: they are not used.
            if asked > 0 && !limits.allow(asked) {
                let allowed = format!("at most {}", limits.range.end());
                return Err(unsupported(what, asked.to_string(), allowed));
            }
        }
        let (rx, tx) = self.slots(caps);
        for (what, asked, limits) in [
            ("a receive ring", rx, &caps.rx_slots),
            ("a send ring", tx, &caps.tx_slots),
        ] {
            if !limits.allow(asked) {
                let power = if limits.power_of_two {
                    ", a power of two"
                } else {
                    ""
                };
                let range = &limits.range;
                let allowed = format!("{} to {} slots{power}", range.start(), range.end());
                return Err(unsupported(what, format!("{asked} slots"), allowed));
            }
        }
        Ok(())
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
