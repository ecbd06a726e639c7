//! A virtio port whose device completes in the caller's thread.
//!
//! The driver is the real one, on the model's PCI function; what would run in the model's thread
//! is replaced by the least that a device can do ([`TxConsumer`]), called after each burst. So a
//! run over this port costs the engine, the driver, and a share of the device that is known and
//! can be taken off.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hugemem::{Burst, DmaSpace, Memory, Resident};
use models::consumer::{Share, TxConsumer};
use models::virtio::{VirtioNet, VirtioOptions};
use models::{RingRole, Sim, WireOptions};
use port::{
    Caps, Config, Counters, Extended, Info, Link, Mac, Port, PortError, QueueState, Queues, Rss,
    StartError, TxCounts, TxQueue,
};
use virtio::{Choice, Options};

/// Which rings a port has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rings {
    /// Split rings.
    Split,
    /// Packed rings, used in order.
    Packed,
}

impl Rings {
    /// A device that has them. It has no control queue: nobody steps the model, so nobody would
    /// answer.
    #[must_use]
    pub(crate) fn device(self) -> VirtioOptions {
        let packed = self == Self::Packed;
        VirtioOptions {
            control: false,
            packed,
            in_order: packed,
            ..VirtioOptions::default()
        }
    }

    /// A driver that takes them.
    pub(crate) fn driver(self) -> Options {
        let packed = if self == Self::Packed {
            Choice::On
        } else {
            Choice::Off
        };
        Options {
            packed,
            ..Options::default()
        }
    }
}

impl fmt::Display for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Split => "split",
            Self::Packed => "packed",
        })
    }
}

/// A virtio port on a device that only consumes.
pub struct Consumed {
    inner: Box<dyn Port>,
    sim: Sim,
    timed: bool,
    share: Arc<Mutex<Share>>,
}

impl Consumed {
    /// A port with `rings`. With `timed`, what the device does is timed, for
    /// [`Consumed::share`]; that costs two readings of the clock a burst.
    ///
    /// # Panics
    /// The driver does not open its own model.
    #[must_use]
    pub fn new(rings: Rings, timed: bool) -> Self {
        let device = rings.device();
        let end = |name: &str| VirtioNet::boxed(name, &device);
        let sim = Sim::stepped(end("near"), end("far"), WireOptions::default());
        let inner = virtio::open_pci(sim.function(0), &rings.driver()).expect("the model is sound");
        Self {
            inner,
            sim,
            timed,
            share: Arc::default(),
        }
    }

    /// What the device's part of the run before cost, once its queue is stopped.
    #[must_use]
    pub fn share(&self) -> Arc<Mutex<Share>> {
        Arc::clone(&self.share)
    }
}

impl Port for Consumed {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        self.inner.space()
    }

    fn ring_bytes(&self, config: &Config) -> usize {
        self.inner.ring_bytes(config)
    }

    fn start(&mut self, config: &Config, memory: &Memory) -> Result<Queues, StartError> {
        let Queues { rx, tx } = self.inner.start(config, memory)?;
        let places = self.sim.function(0).rings();
        let places = places.iter().filter(|place| place.role == RingRole::Tx);
        let wrapped = tx.into_iter().zip(places).map(|(inner, place)| {
            let device = TxConsumer::new(place).expect("the driver's rings are mapped");
            let share = Arc::clone(&self.share);
            let queue = ConsumedTx {
                inner,
                device,
                timed: self.timed,
                share,
            };
            Box::new(queue) as Box<dyn TxQueue>
        });
        Ok(Queues {
            rx,
            tx: wrapped.collect(),
        })
    }

    fn stop(&mut self, queues: Queues) -> Result<(), PortError> {
        self.inner.stop(queues)
    }

    fn link(&mut self) -> Result<Link, PortError> {
        self.inner.link()
    }

    /// What the driver counts: the device counts nothing.
    fn counters(&mut self) -> Result<Counters, PortError> {
        self.inner.counters()
    }

    fn extended(&mut self) -> Result<Vec<Extended>, PortError> {
        self.inner.extended()
    }

    fn set_promiscuous(&mut self, _on: bool) -> Result<(), PortError> {
        Ok(())
    }

    fn set_all_multicast(&mut self, _on: bool) -> Result<(), PortError> {
        Ok(())
    }

    fn set_mac(&mut self, mac: Mac) -> Result<(), PortError> {
        self.inner.set_mac(mac)
    }

    fn set_mac_filter(&mut self, macs: &[Mac]) -> Result<(), PortError> {
        self.inner.set_mac_filter(macs)
    }

    fn set_vlan_filter(&mut self, id: u16, on: bool) -> Result<(), PortError> {
        self.inner.set_vlan_filter(id, on)
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), PortError> {
        self.inner.set_mtu(mtu)
    }

    fn set_rss(&mut self, rss: &Rss) -> Result<(), PortError> {
        self.inner.set_rss(rss)
    }
}

struct ConsumedTx {
    // Dropped before the device, which only looks at rings.
    inner: Box<dyn TxQueue>,
    device: TxConsumer,
    timed: bool,
    share: Arc<Mutex<Share>>,
}

impl ConsumedTx {
    #[inline]
    fn consume(&mut self) {
        if self.timed {
            self.device.drain_timed();
        } else {
            self.device.drain();
        }
    }
}

impl TxQueue for ConsumedTx {
    fn burst(&mut self, frames: &mut Burst) -> usize {
        let taken = self.inner.burst(frames);
        self.consume();
        taken
    }

    fn reap(&mut self, out: &mut Burst) -> usize {
        self.inner.reap(out)
    }

    fn load(&mut self, set: Arc<Resident>) {
        self.inner.load(set);
    }

    fn burst_resident(&mut self, first: usize, count: usize) -> usize {
        let posted = self.inner.burst_resident(first, count);
        self.consume();
        posted
    }

    fn poll(&mut self) {
        self.inner.poll();
    }

    fn counts(&self) -> TxCounts {
        self.inner.counts()
    }

    fn state(&self) -> QueueState {
        self.inner.state()
    }
}

impl Drop for ConsumedTx {
    fn drop(&mut self) {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        *share = self.device.share();
    }
}
