//! The port: the device from start to stop.

use std::sync::Arc;
use std::time::Instant;

use hugemem::{DmaSpace, Memory, TxFlags};
use hw::Function;
use port::{
    Caps, Config, Counters, Extended, Info, Link, LinkState, Mac, Offloads, Port, PortError,
    QueueId, Queues, Rss, Signal, StartError,
};

use crate::area::at;
use crate::caps::caps;
use crate::device::Device;
use crate::error::OpenError;
use crate::filter::{Filter, GROUPS_MAX};
use crate::options::Options;
use crate::plan::{MTU_MAX, MTU_MIN, Parts, Shape};
use crate::regs::{command, pci};
use crate::rx::{Duties, Rx};
use crate::shared::{Follower, Shared};
use crate::stats::{Device as DeviceCounts, Totals};
use crate::tx::Tx;
use crate::{rss, setup};

/// The first revision that is told which headers to hash.
const RSS_FIELDS: u32 = 4;
/// An open vmxnet3.
pub(crate) struct Vmxnet3<F: Function> {
    pub(crate) device: Device<F>,
    options: Options,
    info: Info,
    caps: Caps,
    parts: Option<Parts>,
    pub(crate) run: Option<Run>,
    filter: Filter,
    mtu: Option<usize>,
    rss: Option<Rss>,
    totals: Totals,
    link_up: Option<bool>,
    /// When the control thread last read registers.
    pub(crate) looked: Option<Instant>,
    /// Times that the device was started over in mid-run.
    pub(crate) recoveries: u64,
}

/// What is true while the port is started.
pub(crate) struct Run {
    pub(crate) shared: Arc<Shared>,
    config: Config,
    pub(crate) parts: Parts,
    rss: Option<Rss>,
    /// The device's counters when it was activated.
    before: DeviceCounts,
    pub(crate) stage: Stage,
    pub(crate) round: u32,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Frames move.
    Running,
    /// The device is reset, and the queues are clearing their rings.
    Clearing,
}

impl<F: Function> Vmxnet3<F> {
    /// The port on an open device.
    pub(crate) fn new(device: Device<F>, options: Options) -> Result<Self, OpenError> {
        let name = device.name().to_owned();
        let mac = device.permanent_mac().map_err(|error| match error {
            PortError::Gone { port } => OpenError::Gone { port },
            error => OpenError::Broken {
                port: name.clone(),
                what: error.to_string(),
            },
        })?;
        let revision = device.revision();
        let caps = caps(&name, revision, &options)?;
        let info = Info {
            driver: "vmxnet3",
            device: format!("vmxnet3 (revision {revision})"),
            pci: Some((pci::VMWARE, pci::VMXNET3)),
            mac,
            node: device.node(),
            simulated: name.starts_with("sim:"),
            name,
        };
        Ok(Self {
            caps,
            device,
            options,
            info,
            parts: None,
            run: None,
            filter: Filter::default(),
            mtu: None,
            rss: None,
            totals: Totals::default(),
            link_up: None,
            looked: None,
            recoveries: 0,
        })
    }

    pub(crate) fn name(&self) -> String {
        self.info.name.clone()
    }

    fn refused(&self, what: String, cure: String) -> PortError {
        PortError::Refused {
            port: self.name(),
            what,
            cure: Some(cure),
        }
    }

    fn shape(&self, config: &Config) -> Result<Shape, StartError> {
        let device = (&self.options, self.device.revision());
        Shape::new(&self.info.name, &self.caps, device, self.mtu, config)
    }

    /// How frames spread, if the run has queues to spread them over.
    fn spread(&self, config: &Config, shape: &Shape) -> Option<Rss> {
        let offered = self.caps.offloads.contains(Offloads::RSS);
        if !offered || shape.rx_queues == 1 {
            return None;
        }
        let fits = |rss: &&Rss| rss::check(rss, true, config.rx_queues).is_ok();
        let asked = config.rss.as_ref().or(self.rss.as_ref().filter(fits));
        Some(
            asked
                .cloned()
                .unwrap_or_else(|| rss::even(config.rx_queues)),
        )
    }

    /// Tells the device everything and starts its queues, on rings that are clear.
    pub(crate) fn activate(&mut self) -> Result<(), PortError> {
        let Some(run) = &mut self.run else {
            return Ok(());
        };
        run.parts.area.clear();
        run.parts.queues.clear();
        setup::fill(&run.parts, &run.config, &self.filter, run.rss.as_ref());
        self.device.set_memory_access(true);
        self.device.activate(run.parts.area.iova())?;
        // QEMU's device begins each activation with the address that it was made with.
        self.device.set_mac(self.info.mac);
        for update in [
            command::UPDATE_RX_MODE,
            command::UPDATE_MAC_FILTERS,
            command::UPDATE_VLAN_FILTERS,
        ] {
            self.device.command(update)?;
        }
        if run.rss.is_some() && self.device.revision() >= RSS_FIELDS {
            run.parts.area.put(at::COMMAND_INFO, rss::FIELDS);
            self.device.command(command::SET_RSS_FIELDS)?;
        }
        self.device.command(command::GET_STATS)?;
        run.before = DeviceCounts::read(&run.parts);
        Ok(())
    }

    /// Gives the queues of an active device out.
    fn queues(&self) -> Queues {
        let mut queues = Queues::default();
        let Some(run) = &self.run else {
            return queues;
        };
        let config = &run.config;
        let follower = |queue| Follower::new(&run.shared, queue);
        let duties = Duties {
            queues: u32::try_from(run.parts.shape.rx_queues).unwrap_or(u32::MAX),
            chain: run.parts.shape.chain,
            checksums: config.offloads.contains(Offloads::RX_CHECKSUM),
        };
        for (number, memory) in (0u32..).zip(&run.parts.rx).take(config.rx_queues) {
            let follower = follower(QueueId::Rx(queues.rx.len()));
            let rx = Rx::new(self.device.pass(), number, memory.clone(), duties, follower);
            queues.rx.push(Box::new(rx));
        }
        let mut allowed = TxFlags::empty();
        allowed.set(TxFlags::VLAN, config.offloads.contains(Offloads::TX_VLAN));
        let completes = config.offloads.contains(Offloads::TX_L4_CHECKSUM);
        allowed.set(TxFlags::L4_CHECKSUM, completes);
        for (number, memory) in (0u32..).zip(&run.parts.tx).take(config.tx_queues) {
            let follower = follower(QueueId::Tx(queues.tx.len()));
            let tx = Tx::new(
                self.device.pass(),
                number,
                memory.clone(),
                allowed,
                follower,
            );
            queues.tx.push(Box::new(tx));
        }
        queues
    }

    /// Stops the device's queues for good, after what it counted is read.
    pub(crate) fn halt_device(&mut self) -> Result<(), PortError> {
        let halted = self.count_and_reset();
        self.device.set_memory_access(false);
        halted
    }

    fn count_and_reset(&mut self) -> Result<(), PortError> {
        if let Some(run) = self.run.as_ref().filter(|run| run.stage == Stage::Running) {
            // What arrives from here on is neither received nor counted.
            run.parts.area.put(at::RX_MODE, 0);
            self.device.command(command::UPDATE_RX_MODE)?;
            self.device.command(command::GET_STATS)?;
            self.device.check()?;
            let now = DeviceCounts::read(&run.parts);
            self.totals.add_device(&now, &run.before);
        }
        self.device.reset()
    }

    /// Takes the device away from memory, and lets every frame go home.
    fn end(&mut self, queues: Queues) -> Result<(), PortError> {
        let halted = self.halt_device();
        if let Some(run) = self.run.take() {
            run.shared.halt();
            drop(queues);
            self.totals.add_queues(&run.shared);
        }
        halted
    }

    /// Totals as of now.
    fn count(&mut self) -> Result<Totals, PortError> {
        let mut totals = self.totals.clone();
        let Some(run) = &self.run else {
            return Ok(totals);
        };
        if run.stage == Stage::Running {
            self.device.command(command::GET_STATS)?;
            totals.add_device(&DeviceCounts::read(&run.parts), &run.before);
        }
        totals.add_queues(&run.shared);
        Ok(totals)
    }

    /// Gives a command to a device that is running.
    fn update(&self, command: u32, write: impl FnOnce(&Run, &Filter)) -> Result<(), PortError> {
        let Some(run) = self.run.as_ref().filter(|run| run.stage == Stage::Running) else {
            // It is told when it is started.
            return Ok(());
        };
        write(run, &self.filter);
        self.device.command(command).map(drop)
    }

    /// Tells a device that is running which VLANs it accepts.
    fn update_vlans(&self) -> Result<(), PortError> {
        self.update(command::UPDATE_VLAN_FILTERS, |run, filter| {
            let filters = run.config.offloads.contains(Offloads::VLAN_FILTER);
            filter.write_vlans(&run.parts.area, filters);
        })
    }
}

impl<F: Function> Port for Vmxnet3<F> {
    fn info(&self) -> &Info {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        self.device.space()
    }

    fn ring_bytes(&self, config: &Config) -> usize {
        self.shape(config).map_or(0, |shape| shape.bytes())
    }

    fn start(&mut self, config: &Config, memory: &Memory) -> Result<Queues, StartError> {
        assert!(
            self.run.is_none(),
            "a port is stopped before it is started again"
        );
        let shape = self.shape(config)?;
        let rss = self.spread(config, &shape);
        let parts = match self.parts.take() {
            Some(parts) if parts.serves(memory, &shape) => Parts { shape, ..parts },
            // Memory of an earlier run is let go of before more is taken.
            old => {
                drop(old);
                shape.carve(memory)?
            }
        };
        parts.clear();
        self.parts = Some(parts.clone());
        self.run = Some(Run {
            shared: Shared::new(config.rx_queues, config.tx_queues),
            config: config.clone(),
            before: DeviceCounts::read(&parts),
            parts,
            rss,
            stage: Stage::Running,
            round: 1,
        });
        if let Err(error) = self.activate() {
            // What went wrong first is what is told.
            let _ = self.end(Queues::default());
            return Err(error.into());
        }
        Ok(self.queues())
    }

    fn stop(&mut self, queues: Queues) -> Result<(), PortError> {
        self.end(queues)
    }

    fn link(&mut self) -> Result<Link, PortError> {
        let link = self.device.link()?;
        let lost = self
            .run
            .as_ref()
            .is_some_and(|run| run.stage != Stage::Running);
        Ok(Link {
            state: if lost { LinkState::Down } else { link.state },
            ..link
        })
    }

    fn counters(&mut self) -> Result<Counters, PortError> {
        Ok(self.count()?.counters())
    }

    fn extended(&mut self) -> Result<Vec<Extended>, PortError> {
        let mut extended = self.count()?.extended();
        extended.push(Extended {
            name: "recoveries".into(),
            value: self.recoveries,
        });
        Ok(extended)
    }

    fn service(&mut self) -> Result<Vec<String>, PortError> {
        let mut events = Vec::new();
        if let Some(what) = self.run.as_ref().and_then(|run| run.shared.failure()) {
            return Err(PortError::Broken {
                port: self.name(),
                what,
            });
        }
        if self.is_quiet() {
            return Ok(events);
        }
        self.looked = Some(Instant::now());
        if let Err(error) = self.advance(&mut events) {
            if let Some(run) = &self.run {
                run.shared.set(Signal::FAILED);
            }
            return Err(error);
        }
        let up = self.link()?.state == LinkState::Up;
        if self.link_up.replace(up).is_some_and(|was| was != up) {
            events.push(format!("link {}", if up { "up" } else { "down" }));
        }
        Ok(events)
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), PortError> {
        self.filter.promiscuous = on;
        self.update_vlans()?;
        self.update(command::UPDATE_RX_MODE, |run, filter| {
            filter.write_mode(&run.parts.area);
        })
    }

    fn set_all_multicast(&mut self, on: bool) -> Result<(), PortError> {
        self.filter.all_multicast = on;
        self.update(command::UPDATE_RX_MODE, |run, filter| {
            filter.write_mode(&run.parts.area);
        })
    }

    fn set_mac(&mut self, mac: Mac) -> Result<(), PortError> {
        if mac[0] & 1 == 1 || mac == [0; 6] {
            let cure = "choose one that is neither a group's nor zero".into();
            return Err(self.refused(format!("the address {mac:02x?}"), cure));
        }
        self.device.check()?;
        self.device.set_mac(mac);
        self.info.mac = mac;
        Ok(())
    }

    fn set_mac_filter(&mut self, macs: &[Mac]) -> Result<(), PortError> {
        if macs.iter().any(|mac| mac[0] & 1 == 0) {
            return Err(PortError::NotOffered {
                port: self.name(),
                what: "a filter by further unicast addresses (promiscuous mode is)".into(),
            });
        }
        if macs.len() > GROUPS_MAX {
            let cure = format!("{GROUPS_MAX} at most, or all multicasts");
            return Err(self.refused(format!("{} groups", macs.len()), cure));
        }
        self.filter.groups = macs.to_vec();
        self.update(command::UPDATE_MAC_FILTERS, |run, filter| {
            filter.write_groups(&run.parts.area, &run.parts.groups);
        })
    }

    fn set_vlan_filter(&mut self, id: u16, on: bool) -> Result<(), PortError> {
        if !(1..=4094).contains(&id) {
            let cure = "choose one from 1 to 4094".into();
            return Err(self.refused(format!("VLAN {id}"), cure));
        }
        let filters = |run: &Run| run.config.offloads.contains(Offloads::VLAN_FILTER);
        if self.run.as_ref().is_some_and(|run| !filters(run)) {
            // The filter drops every VLAN that is not asked for: so only on request.
            let cure = "start the port with the VLAN filter among its offloads".into();
            return Err(self.refused(format!("a filter for VLAN {id}"), cure));
        }
        self.filter.vlans.retain(|&vlan| vlan != id);
        if on {
            self.filter.vlans.push(id);
        }
        self.update_vlans()
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), PortError> {
        if self.run.is_some() {
            let what = "another MTU while it is started".into();
            return Err(self.refused(what, "stop the port first".into()));
        }
        if !(MTU_MIN..=MTU_MAX).contains(&mtu) {
            let cure = format!("choose one from {MTU_MIN} to {MTU_MAX}");
            return Err(self.refused(format!("an MTU of {mtu}"), cure));
        }
        self.mtu = Some(mtu);
        Ok(())
    }

    fn set_rss(&mut self, new: &Rss) -> Result<(), PortError> {
        if !self.caps.offloads.contains(Offloads::RSS) {
            return Err(PortError::NotOffered {
                port: self.name(),
                what: "spreading by RSS".into(),
            });
        }
        let most = *self.caps.rx_queues.range.end();
        let queues = self.run.as_ref().map_or(most, |run| run.config.rx_queues);
        rss::check(new, true, queues.max(1))
            .map_err(|allowed| self.refused("this key and table".into(), allowed))?;
        let has_key = |run: &Run| run.rss.as_ref().is_none_or(|rss| rss.key == new.key);
        if self.run.as_ref().is_some_and(|run| !has_key(run)) {
            // The device reads the key when it is activated, and the table on command.
            let cure = "stop the port first, or change the table alone".into();
            return Err(self.refused("another key while it is started".into(), cure));
        }
        self.rss = Some(new.clone());
        if let Some(run) = self.run.as_mut().filter(|run| run.rss.is_some()) {
            run.rss = Some(new.clone());
            self.update(command::UPDATE_RSSIDT, |run, _| {
                rss::write(new, &run.parts.rss);
            })?;
        }
        Ok(())
    }
}

impl<F: Function> Drop for Vmxnet3<F> {
    fn drop(&mut self) {
        if self.run.is_some() {
            let _ = self.end(Queues::default());
        }
    }
}
