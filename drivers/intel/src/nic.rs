//! The port: one device from start to stop, whatever its family.

mod life;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hugemem::{DmaSpace, Memory};
use hw::Function;
use port::{
    Caps, Config, Counters, Extended, Info, Link, LinkState, Mac, Offloads, Port, PortError,
    Queues, Rss, Signal, StartError,
};

use crate::control::{Change, Control, Setup};
use crate::design::{AROUND, Design, Start, TAG};
use crate::shape::{Rings, Shape, Spread};
use crate::shared::Shared;
use crate::vlans::Vlans;
use crate::wanted::{Wanted, check_addresses, is_group};

use life::{Run, Stage};

/// Smallest MTU of a network that carries IPv4 (RFC 791).
const MTU_MIN: usize = 68;
/// How often the device's counters are read unasked: the shortest that count bytes go round in half
/// a minute at line rate.
const SAMPLE: Duration = Duration::from_secs(2);
/// A NIC of a family that `D` describes.
pub struct Nic<F: Function, D> {
    function: Arc<F>,
    bar: F::Bar,
    design: D,
    control: Box<dyn Control>,
    info: Info,
    caps: Caps,
    rings: Option<Rings>,
    run: Option<Run>,
    wanted: Wanted,
    /// What receive queues know of it.
    vlans: Arc<Vlans>,
    spread: Option<Spread>,
    mtu: usize,
    refused: u64,
    link_up: Option<bool>,
    sampled: Instant,
    recoveries: u64,
}

impl<F: Function, D> Nic<F, D> {
    /// Takes the device away from memory, and lets every frame go home.
    fn end(&mut self, queues: Queues) -> Result<(), PortError> {
        let halted = self.control.halt();
        if let Some(run) = self.run.take() {
            run.shared.halt();
            drop(queues);
            self.refused += refused(&run.shared);
        }
        halted
    }
}

/// Intel's PCI vendor id.
pub const INTEL: u16 = 0x8086;

impl<F: Function, D: Design<F::Bar>> Nic<F, D> {
    /// The port of an open device that has `caps` and is driven through `control`.
    #[must_use]
    pub fn new(
        function: Arc<F>,
        bar: F::Bar,
        design: D,
        caps: Caps,
        control: Box<dyn Control>,
    ) -> Self {
        let name = function.name().to_owned();
        let info = Info {
            driver: design.driver(),
            device: design.name().to_owned(),
            pci: Some((INTEL, design.id())),
            mac: control.mac(),
            node: function.numa_node(),
            simulated: name.starts_with("sim:"),
            name,
        };
        Self {
            function,
            bar,
            mtu: design.mtu(&caps),
            design,
            control,
            info,
            caps,
            rings: None,
            run: None,
            wanted: Wanted::default(),
            vlans: Arc::default(),
            spread: None,
            refused: 0,
            link_up: None,
            sampled: Instant::now(),
            recoveries: 0,
        }
    }

    fn name(&self) -> String {
        self.info.name.clone()
    }

    fn not_offered(&self, what: &str) -> PortError {
        PortError::NotOffered {
            port: self.name(),
            what: what.into(),
        }
    }

    fn refused(&self, what: String, cure: String) -> PortError {
        PortError::Refused {
            port: self.name(),
            what,
            cure: Some(cure),
        }
    }

    fn shape(&self, config: &Config) -> Result<Shape, StartError> {
        let mut shape = Shape::new(
            &self.info.name,
            &self.caps,
            config,
            &self.design.fit(config.rx_capacity),
        )?;
        if let (None, Some(spread)) = (&config.rss, &self.spread)
            && shape.rss.is_some()
            && spread
                .table
                .iter()
                .all(|&queue| usize::from(queue) < shape.rx.0)
        {
            shape.rss = Some(spread.clone());
        }
        Ok(shape)
    }

    /// Resets the device and starts it on rings that are clear.
    fn bring_up(&mut self, shape: &Shape, rings: &Rings) -> Result<(), PortError> {
        let longest = self.design.longest(self.mtu, &self.caps);
        let setup = Setup {
            shape,
            rings,
            wanted: &self.wanted,
            longest,
        };
        self.control.bring_up(&setup)?;
        // A PF may have given its VF another address meanwhile.
        self.info.mac = self.wanted.mac.unwrap_or(self.control.mac());
        Ok(())
    }

    /// Changes what is accepted: at once if the device runs, else when it starts. A change that
    /// is refused is as if it had not been asked for.
    fn change(&mut self, change: Change, make: impl FnOnce(&mut Wanted)) -> Result<(), PortError> {
        let before = self.wanted.clone();
        make(&mut self.wanted);
        if !self.is_up() {
            return Ok(());
        }
        let answer = self.control.change(&self.wanted, change);
        if answer.is_err() {
            self.wanted = before;
        }
        answer
    }

    /// The link, which is down while the device is being started over.
    fn read_link(&mut self) -> Result<Link, PortError> {
        let mut link = self.control.link()?;
        if self.run.is_some() && !self.is_up() {
            link.state = LinkState::Down;
        }
        Ok(link)
    }

    fn read_counters(&mut self) -> Result<(), PortError> {
        self.sampled = Instant::now();
        self.control.sample()
    }
}

/// Frames that send queues refused as too long.
fn refused(shared: &Shared) -> u64 {
    shared.tx_counts().map(|ledger| ledger.errors.get()).sum()
}

impl<F: Function, D: Design<F::Bar>> Port for Nic<F, D> {
    fn info(&self) -> &Info {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        self.function.space()
    }

    fn ring_bytes(&self, config: &Config) -> usize {
        self.shape(config).map_or(0, |shape| shape.bytes())
    }

    /// A frame that is sent may have a tag on top of its MTU's.
    fn longest(&self) -> usize {
        (self.mtu + AROUND + TAG).min(self.caps.max_frame)
    }

    fn start(&mut self, config: &Config, memory: &Memory) -> Result<Queues, StartError> {
        assert!(
            self.run.is_none(),
            "a port is stopped before it is started again"
        );
        let shape = self.shape(config)?;
        let rings = match self.rings.take() {
            Some(rings) if rings.serve(memory, &shape) => rings,
            // Memory of an earlier run is let go of before more is taken.
            old => {
                drop(old);
                shape.carve(memory)?
            }
        };
        rings.clear();
        // They are kept whatever happens: what is carved of a memory is carved for good.
        self.rings = Some(rings.clone());
        if let Err(error) = self.bring_up(&shape, &rings) {
            // What went wrong first is what is told.
            let _ = self.end(Queues::default());
            self.control.give_back();
            return Err(error.into());
        }
        let shared = Shared::new(rings.rx.len(), rings.tx.len());
        self.vlans.set(&self.wanted.vlans);
        let shows_all = !self.design.shows_own_tags_only();
        let queues = self.design.queues(&Start {
            bar: &self.bar,
            shape: &shape,
            rings: &rings,
            shared: &shared,
            longest: self.design.longest(self.mtu, &self.caps),
            hides_tags: self.control.hides_tags(),
            own_vlans: (!shows_all).then(|| Arc::clone(&self.vlans)),
        });
        self.run = Some(Run {
            shared,
            shape,
            stage: Stage::Running,
            round: 1,
            attempts: 0,
            tried: Instant::now(),
        });
        Ok(queues)
    }

    fn stop(&mut self, queues: Queues) -> Result<(), PortError> {
        self.end(queues)
    }

    fn link(&mut self) -> Result<Link, PortError> {
        self.read_link()
    }

    fn counters(&mut self) -> Result<Counters, PortError> {
        self.read_counters()?;
        let mut counters = self.control.totals().counters();
        let now = self.run.as_ref().map_or(0, |run| refused(&run.shared));
        counters.tx_errors += self.refused + now;
        Ok(counters)
    }

    fn extended(&mut self) -> Result<Vec<Extended>, PortError> {
        self.read_counters()?;
        let mut extended = self.control.totals().extended();
        let now = self.run.as_ref().map_or(0, |run| refused(&run.shared));
        for (name, value) in [
            ("tx_too_long", self.refused + now),
            ("recoveries", self.recoveries),
        ] {
            extended.push(Extended {
                name: name.into(),
                value,
            });
        }
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
        if let Err(error) = self.advance(&mut events) {
            if let Some(run) = &self.run {
                run.shared.set(Signal::FAILED);
            }
            return Err(error);
        }
        if self.is_up() && self.sampled.elapsed() > SAMPLE {
            self.read_counters()?;
        }
        events.extend(self.control.news());
        let up = self.read_link()?.state == LinkState::Up;
        if self.link_up.replace(up).is_some_and(|was| was != up) {
            events.push(format!("link {}", if up { "up" } else { "down" }));
        }
        Ok(events)
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), PortError> {
        if !self.caps.offloads.contains(Offloads::PROMISCUOUS) {
            return Err(self.not_offered("promiscuous mode"));
        }
        self.change(Change::Modes, |wanted| wanted.promiscuous = on)
    }

    fn set_all_multicast(&mut self, on: bool) -> Result<(), PortError> {
        if !self.caps.offloads.contains(Offloads::ALL_MULTICAST) {
            return Err(self.not_offered("all-multicast mode"));
        }
        self.change(Change::Modes, |wanted| wanted.all_multicast = on)
    }

    fn set_mac(&mut self, mac: Mac) -> Result<(), PortError> {
        if is_group(&mac) || mac == [0; 6] {
            let what = "a group's address as its own".into();
            return Err(self.refused(what, "choose a station's address".into()));
        }
        self.change(Change::Addresses, |wanted| wanted.mac = Some(mac))?;
        self.info.mac = mac;
        Ok(())
    }

    fn set_mac_filter(&mut self, macs: &[Mac]) -> Result<(), PortError> {
        check_addresses(&self.info.name, macs, self.design.stations())?;
        self.change(Change::Addresses, |wanted| wanted.macs = macs.to_vec())
    }

    fn set_vlan_filter(&mut self, id: u16, on: bool) -> Result<(), PortError> {
        if id > 4095 {
            let what = format!("a filter for VLAN {id}");
            return Err(self.refused(what, "VLANs are 0 to 4095".into()));
        }
        let filters = |run: &Run| run.shape.offloads.contains(Offloads::VLAN_FILTER);
        // A VF's filter is its PF's, and always there.
        if !self.design.is_virtual() && self.run.as_ref().is_some_and(|run| !filters(run)) {
            let what = format!("a filter for VLAN {id}");
            let cure = "start the port with the VLAN filter among its offloads";
            return Err(self.refused(what, cure.into()));
        }
        if on {
            // Before its first frame comes.
            self.vlans.set(&[&self.wanted.vlans[..], &[id]].concat());
        }
        let answer = self.change(Change::Vlan(id, on), |wanted| {
            wanted.vlans.retain(|&vlan| vlan != id);
            if on {
                wanted.vlans.push(id);
            }
        });
        self.vlans.set(&self.wanted.vlans);
        answer
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), PortError> {
        let most = self.caps.max_frame - AROUND;
        if self.run.is_some() {
            let what = "another MTU while it is started".into();
            return Err(self.refused(what, "stop the port first".into()));
        }
        if !(MTU_MIN..=most).contains(&mtu) {
            let what = format!("an MTU of {mtu}");
            return Err(self.refused(what, format!("choose one from {MTU_MIN} to {most}")));
        }
        self.mtu = mtu;
        Ok(())
    }

    fn set_rss(&mut self, rss: &Rss) -> Result<(), PortError> {
        if !self.caps.offloads.contains(Offloads::RSS) {
            return Err(self.not_offered("spreading by RSS"));
        }
        let queues = match &self.run {
            Some(run) => run.shape.rx.0,
            None => *self.caps.rx_queues.range.end(),
        };
        let spread = Spread::new(rss, queues, self.design.fit(0).table)
            .map_err(|allowed| self.refused("this RSS".into(), format!("give it {allowed}")))?;
        if self.is_up() {
            self.control.spread(&spread)?;
        }
        if let Some(run) = &mut self.run
            && run.shape.rss.is_some()
        {
            run.shape.rss = Some(spread.clone());
        }
        self.spread = Some(spread);
        Ok(())
    }
}

impl<F: Function, D> Drop for Nic<F, D> {
    fn drop(&mut self) {
        if self.run.is_some() {
            let _ = self.end(Queues::default());
        }
    }
}
