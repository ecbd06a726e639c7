//! Ports without a NIC driver: interfaces that Linux drives, through its packet sockets
//! (`AF_PACKET`), so that Linux itself can be the device under test.
//!
//! Every queue is a socket with a ring that it shares with the kernel (`TPACKET_V2`; Linux,
//! `Documentation/networking/packet_mmap.rst`). A frame is copied into a slot of the ring to be
//! sent, and out of one to be received: the kernel's slots are not memory that frames can live
//! in. Telling the kernel of a burst takes a system call, the one that rgen's data path ever
//! makes; these ports are for what passes the kernel anyway.
//!
//! The interface stays the kernel's: its address, its MTU and its state are left as they are,
//! and what the port asks of it (promiscuous mode, groups) ends with the port, however that ends.

mod counters;
mod error;
mod filter;
mod interface;
mod port;
mod ring;
mod rx;
mod shared;
mod socket;
mod tx;

pub use crate::error::OpenError;

use crate::port::Packet;

/// How an interface shall be used.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Queues each way, 1 to [`QUEUES_MAX`]; one if none.
    pub queues: Option<usize>,
    /// Slots of each receive ring.
    pub rx_slots: Option<usize>,
    /// Slots of each send ring.
    pub tx_slots: Option<usize>,
}

/// Most queues each way.
pub const QUEUES_MAX: usize = 16;

/// Opens the interface `interface` as the port `name`.
///
/// # Errors
/// There is no such interface, it is no Ethernet, or packet sockets are not allowed.
pub fn open(
    name: &str,
    interface: &str,
    options: &Options,
) -> Result<Box<dyn ::port::Port>, OpenError> {
    Ok(Box::new(Packet::open(name, interface, options)?))
}
