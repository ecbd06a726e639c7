//! What the port asks of a device, whether it is a physical function or a virtual one.

use port::{Link, Mac, PortError};

use crate::filter::Wanted;
use crate::plan::{Rings, Shape, Spread};
use crate::stats::Totals;

/// What a device is started with.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    /// What the run asks for.
    pub(crate) shape: &'a Shape,
    /// Its rings, which are clear.
    pub(crate) rings: &'a Rings,
    /// What the filters shall accept.
    pub(crate) wanted: &'a Wanted,
    /// Longest frame that is received, in bytes with FCS; a VLAN tag may come on top.
    pub(crate) longest: usize,
}

/// A change of what is accepted, while the device runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    /// Promiscuous or all-multicast mode.
    Modes,
    /// The port's own or further addresses.
    Addresses,
    /// One VLAN, on or off.
    Vlan(u16, bool),
}

/// Whether a device still works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// It does.
    Good,
    /// It has forgotten what it was told, and has to be started over.
    Lost(String),
}

/// A device's control side.
pub(crate) trait Control: Send {
    /// The address that the device came with.
    fn mac(&self) -> Mac;

    /// Resets the device and starts its queues.
    fn bring_up(&mut self, setup: &Setup<'_>) -> Result<(), PortError>;

    /// Takes the device away from memory. It does not touch it afterwards, whatever the answer.
    fn halt(&mut self) -> Result<(), PortError>;

    /// Tells a running device of a change that `wanted` has already.
    fn change(&mut self, wanted: &Wanted, change: Change) -> Result<(), PortError>;

    /// Tells a running device how frames spread.
    fn spread(&mut self, spread: &Spread) -> Result<(), PortError>;

    /// The link as it is now.
    fn link(&mut self) -> Result<Link, PortError>;

    /// Whether the device still works, in mid-run or not.
    fn check(&mut self, running: bool) -> Result<Health, PortError>;

    /// Adds up what the device has counted since the last time.
    fn sample(&mut self) -> Result<(), PortError>;

    /// What happened that users should know of, in words, since the last time.
    fn news(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// True if starting the device depends on somebody who may be away for long: then it is tried
    /// for ever.
    fn depends_on_others(&self) -> bool {
        false
    }

    /// The next start is one that nobody waits for: it shall fail soon rather than late.
    fn hurry(&mut self) {}

    /// What was counted.
    fn totals(&self) -> &Totals;
}
