//! What carries a virtio device: PCI, modern or legacy, or a vhost-user socket.

use std::sync::Arc;

use hugemem::DmaSpace;
use port::{Mac, PortError};

use crate::doorbell::Doorbell;
use crate::features::Features;
use crate::ring::RingMemory;
use crate::rss::Ability;

/// The device's configuration, as far as it has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NetConfig {
    /// Its address.
    pub(crate) mac: Option<Mac>,
    /// Whether the link is up.
    pub(crate) link_up: bool,
    /// Most queue pairs.
    pub(crate) pairs: usize,
    /// Largest payload.
    pub(crate) mtu: Option<u16>,
    /// Bits a second.
    pub(crate) speed_bps: Option<u64>,
    /// Both directions at once.
    pub(crate) full_duplex: bool,
    /// How it spreads frames over queues, if it can.
    pub(crate) spreading: Option<Ability>,
}

/// How a device is to be started.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The features to use.
    pub(crate) features: Features,
    /// Queue pairs in use.
    pub(crate) pairs: usize,
    /// Each ring, by its number in the device.
    pub(crate) rings: Vec<(u16, RingMemory)>,
}

/// How it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// Well.
    Fine,
    /// It must be started over; why, in words.
    Lost(String),
}

/// How far a device is on its way to running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It runs.
    Running,
    /// There are steps to come.
    Underway,
    /// An attempt failed, for the reason given; there will be another.
    Setback(String),
}

/// Whether to wait for the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until it is done or its time is over.
    Wait,
    /// Not at all: take a step, if one can be taken.
    Step,
}

/// See the module.
pub(crate) trait Transport: Send {
    /// The port's name.
    fn name(&self) -> &str;

    /// For people: `virtio-net (modern PCI)`.
    fn device(&self) -> String;

    /// PCI vendor and device.
    fn pci(&self) -> Option<(u16, u16)>;

    /// NUMA node.
    fn node(&self) -> Option<u32>;

    /// Where the device's DMA lands.
    fn space(&self) -> Arc<dyn DmaSpace>;

    /// What the device offers.
    fn offered(&self) -> Features;

    /// What else the port can do, besides what features say.
    fn emulates(&self) -> port::Offloads {
        port::Offloads::empty()
    }

    /// Most slots of ring `ring`; the only possible number if [`Transport::is_legacy`].
    fn slots(&self, ring: u16) -> usize;

    /// True for the interface of the drafts before the standard.
    fn is_legacy(&self) -> bool {
        false
    }

    /// Reads the configuration.
    fn config(&mut self) -> Result<NetConfig, PortError>;

    /// Starts the device as planned, from reset to running. With [`Patience::Wait`] it is running
    /// then, with [`Patience::Step`] this is called again until it is.
    fn bring_up(&mut self, plan: &Plan, patience: Patience) -> Result<Progress, PortError>;

    /// How to tell the device of new buffers in ring `ring`; after it was started.
    fn doorbell(&self, ring: u16) -> Arc<dyn Doorbell>;

    /// How the device is.
    fn check(&mut self) -> Result<Health, PortError>;

    /// Stops the device: it touches no memory afterwards, whatever the result.
    fn halt(&mut self) -> Result<(), PortError>;
}
