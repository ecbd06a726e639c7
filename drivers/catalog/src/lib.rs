//! From a port string to an open port: the one place that names drivers.
//!
//! | string | what it opens |
//! |---|---|
//! | `sim:virtio`, `sim:vmxnet3`, `sim:igb`, … | our driver on a model of the device; two of them are the ends of one wire |
//! | `vhost-user:/run/a.sock` | a vhost-user peer: a switch, a DPDK application, a VM |
//! | `af_packet:eth0` | an interface that Linux drives, in this network namespace |
//! | `0000:3b:00.0` | a PCI device that `vfio-pci` holds; its id picks the driver |
//! | `null:` | accepts and counts at once: what the engine costs alone |
//!
//! Options follow after commas: `vhost-user:/run/a.sock,queues=2,packed=on`.
#![forbid(unsafe_code)]

mod af_packet;
mod error;
mod null;
mod options;
mod pci;
mod sim;
mod spec;
mod vhost;

pub use error::OpenError;
pub use pci::supports;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use port::Port;

use crate::null::Null;
use crate::options::Options as Given;
use crate::spec::{Place, Spec};

/// How ports are opened.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The core that a simulated device's thread runs on; any if none.
    pub model_core: Option<usize>,
    /// Threads of the caller's that are busy all the time: with too few cores for them and the
    /// simulated devices, all of them yield when idle.
    pub busy_threads: usize,
    /// Ends waiting for peers once it is set.
    pub stop: Arc<AtomicBool>,
}

/// Opens the ports that `texts` name, in that order: all of them, or none.
///
/// # Errors
/// One of them is no port string, or cannot be opened; the error says which, why, and what
/// would help.
pub fn open(texts: &[&str], options: &Options) -> Result<Vec<Box<dyn Port>>, OpenError> {
    let specs = texts
        .iter()
        .map(|text| Spec::parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    let mut ports: Vec<sim::Placed> = sim::open(&specs, options)?;
    for (place, spec) in specs.iter().enumerate() {
        match &spec.place {
            Place::Sim { .. } => {}
            Place::Null => {
                Given::of(spec).done("none")?;
                ports.push((place, Box::new(Null::new(&spec.text))));
            }
            Place::VhostUser { path } => ports.push((place, vhost::open(spec, path, options)?)),
            Place::AfPacket { interface } => {
                ports.push((place, af_packet::open(spec, interface)?));
            }
            Place::Pci { bdf } => ports.push((place, pci::open(spec, *bdf)?)),
        }
    }
    ports.sort_by_key(|(place, _)| *place);
    Ok(ports.into_iter().map(|(_, port)| port).collect())
}
