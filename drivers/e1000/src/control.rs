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
    /// Longest frame that is received, in bytes with FCS and one VLAN tag.
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

    /// What was counted.
    fn totals(&self) -> &Totals;
}
