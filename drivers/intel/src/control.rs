//! What the port asks of a device, whether it is a physical function or a virtual one.

use port::{Counters, Extended, Link, Mac, PortError};

use crate::shape::{Rings, Shape, Spread};
use crate::wanted::Wanted;

/// What a device is started with.
#[derive(Debug)]
pub struct Setup<'a> {
    /// What the run asks for.
    pub shape: &'a Shape,
    /// Its rings, which are clear.
    pub rings: &'a Rings,
    /// What the filters shall accept.
    pub wanted: &'a Wanted,
    /// Longest frame that is received, in bytes with FCS ([`crate::Design::longest`]).
    pub longest: usize,
}

/// A change of what is accepted, while the device runs.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// Promiscuous or all-multicast mode.
    Modes,
    /// The port's own or further addresses.
    Addresses,
    /// One VLAN, on or off.
    Vlan(u16, bool),
}

/// Whether a device still works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Good,
    /// It has forgotten what it was told, and has to be started over.
    Lost(String),
}

/// What a device has counted, over all runs.
pub trait Counted {
    /// The counters that every port has.
    fn counters(&self) -> Counters;
    /// Everything, by the datasheet's names.
    fn extended(&self) -> Vec<Extended>;
}

/// A device's control side.
pub trait Control: Send {
    /// The address that the device came with.
    fn mac(&self) -> Mac;

    /// Resets the device and starts its queues.
    ///
    /// # Errors
    /// The device does not answer or is gone, or its physical function refuses.
    fn bring_up(&mut self, setup: &Setup<'_>) -> Result<(), PortError>;

    /// Takes the device away from memory. It does not touch it afterwards, whatever the answer.
    ///
    /// # Errors
    /// The device is gone, or did not stop by itself.
    fn halt(&mut self) -> Result<(), PortError>;

    /// Tells a running device of a change that `wanted` has already.
    ///
    /// # Errors
    /// It is refused, or the device is gone.
    fn change(&mut self, wanted: &Wanted, change: Change) -> Result<(), PortError>;

    /// Tells a running device how frames spread.
    ///
    /// # Errors
    /// It is refused, or the device is gone.
    fn spread(&mut self, spread: &Spread) -> Result<(), PortError>;

    /// The link as it is now.
    ///
    /// # Errors
    /// The device is gone.
    fn link(&mut self) -> Result<Link, PortError>;

    /// Whether the device still works, in mid-run or not.
    ///
    /// # Errors
    /// The device is gone.
    fn check(&mut self, running: bool) -> Result<Health, PortError>;

    /// Adds up what the device has counted since the last time.
    ///
    /// # Errors
    /// The device is gone.
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

    /// True if tags that the device strips are of a VLAN that users know nothing of.
    fn hides_tags(&self) -> bool {
        false
    }

    /// The next start is one that nobody waits for: it shall fail soon rather than late.
    fn hurry(&mut self) {}

    /// A start has failed, and no other one is due: what was done for it beside the device is
    /// taken back.
    fn give_back(&mut self) {}

    /// What was counted.
    fn totals(&self) -> &dyn Counted;
}
