//! A driver's port on a model.

use std::sync::Arc;

use hugemem::{DmaSpace, Memory};
use models::Sim;
use port::{
    Caps, Config, Counters, Extended, Info, Link, Mac, Port, PortError, Queues, Rss, StartError,
};

/// A driver's port on a model, which it keeps running.
pub(super) struct SimPort {
    // Order matters: the driver lets go of the device before the device ends.
    inner: Box<dyn Port>,
    info: Info,
    sim: Arc<Sim>,
    end: usize,
    told: usize,
    /// Counts, in the driver's place, frames that found no buffer.
    counts_missed: bool,
}

impl SimPort {
    /// The port of `inner`, on the device at `end` of `sim`.
    pub(super) fn new(inner: Box<dyn Port>, name: String, sim: Arc<Sim>, end: usize) -> Self {
        let info = Info {
            name,
            simulated: true,
            ..inner.info().clone()
        };
        Self {
            inner,
            info,
            sim,
            end,
            told: 0,
            counts_missed: false,
        }
    }

    /// Whether to count frames that found no buffer, for a device that has no such counter: this
    /// one is known to have met some.
    pub(super) fn counting_missed(mut self, on: bool) -> Self {
        self.counts_missed = on;
        self
    }
}

impl Port for SimPort {
    fn info(&self) -> &Info {
        &self.info
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
        self.inner.start(config, memory)
    }

    fn stop(&mut self, queues: Queues) -> Result<(), PortError> {
        self.inner.stop(queues)
    }

    fn link(&mut self) -> Result<Link, PortError> {
        self.inner.link()
    }

    fn counters(&mut self) -> Result<Counters, PortError> {
        let mut counters = self.inner.counters()?;
        if self.counts_missed {
            counters.rx_missed += self.sim.counters(self.end).rx_no_buffer;
        }
        Ok(counters)
    }

    /// The driver's, and what the device and the wire behind it counted, so that a loss has a
    /// name.
    fn extended(&mut self) -> Result<Vec<Extended>, PortError> {
        let mut all = self.inner.extended()?;
        let (device, wire) = (self.sim.counters(self.end), self.sim.wire(self.end));
        let further = [
            ("device_rx_no_buffer", device.rx_no_buffer),
            ("device_rx_filtered", device.rx_filtered),
            ("device_rx_not_ready", device.rx_not_ready),
            ("device_rx_too_long", device.rx_too_long),
            ("device_rx_bad_fcs", device.rx_bad_fcs),
            ("device_tx_errors", device.tx_errors),
            ("wire_lost", wire.lost),
            ("wire_link_down", wire.link_down),
            ("wire_corrupted", wire.corrupted),
            ("wire_bad_fcs", wire.bad_fcs),
            ("wire_duplicated", wire.duplicated),
            ("wire_reordered", wire.reordered),
            ("wire_delayed", wire.delayed),
        ];
        let named = |(name, value): (&str, u64)| Extended {
            name: name.to_owned(),
            value,
        };
        all.extend(further.into_iter().map(named));
        Ok(all)
    }

    /// The driver's turn; and what the device objects to is said aloud, as it is a bug of ours.
    fn service(&mut self) -> Result<Vec<String>, PortError> {
        let mut events = self.inner.service()?;
        if self.end == 0 {
            let objections = self.sim.objections();
            let fresh = objections.iter().skip(self.told);
            events.extend(fresh.map(|sentence| format!("the model objects: {sentence}")));
            self.told = objections.len();
        }
        Ok(events)
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), PortError> {
        self.inner.set_promiscuous(on)
    }

    fn set_all_multicast(&mut self, on: bool) -> Result<(), PortError> {
        self.inner.set_all_multicast(on)
    }

    fn set_mac(&mut self, mac: Mac) -> Result<(), PortError> {
        self.inner.set_mac(mac)?;
        self.info.mac = mac;
        Ok(())
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

    fn longest(&self) -> usize {
        self.inner.longest()
    }

    fn set_rss(&mut self, rss: &Rss) -> Result<(), PortError> {
        self.inner.set_rss(rss)
    }
}
