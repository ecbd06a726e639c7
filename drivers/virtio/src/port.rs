//! The port: one device, whatever carries it, from start to stop.

use std::sync::Arc;

use hugemem::{DmaSpace, Memory};
use port::{
    Caps, Config, Counters, Extended, Info, Limits, Link, LinkState, Mac, Offloads, Port,
    PortError, QueueId, Queues, Rss, Signal, StartError,
};

use crate::build::{self, Site};
use crate::control::{Command, Control, MACS_MAX};
use crate::doorbell::Notifier;
use crate::error::OpenError;
use crate::features::{Features, Missing, choose, offloads};
use crate::options::Options;
use crate::plan::{Numbers, Parts, Shape};
use crate::ring::SLOTS_MAX;
use crate::shared::{Follower, Shared};
use crate::stats::Totals;
use crate::transport::{Health, NetConfig, Patience, Plan, Progress, Transport};

/// Slots when nobody asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Defaults {
    /// Of a receive ring.
    pub(crate) rx_slots: usize,
    /// Of a send ring.
    pub(crate) tx_slots: usize,
}

/// A virtio network device over transport `T`.
pub(crate) struct Virtio<T: Transport> {
    transport: T,
    options: Options,
    numbers: Numbers,
    info: Info,
    caps: Caps,
    parts: Option<Parts>,
    run: Option<Run>,
    wanted: Wanted,
    /// How frames are to spread, if anybody said so.
    rss: Option<Rss>,
    totals: Totals,
    link_up: Option<bool>,
    /// Times that the device was started over in mid-run.
    recoveries: u64,
}

/// What is true while the port is started.
struct Run {
    shared: Arc<Shared>,
    plan: Plan,
    control: Option<Control>,
    rx_queues: usize,
    /// How frames spread, if the device was asked to spread them.
    rss: Option<Rss>,
    /// Rings whose queues the engine has.
    owned: Vec<usize>,
    stage: Stage,
    round: u32,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Frames move.
    Running,
    /// The device is lost, and the queues are clearing their rings.
    Clearing,
    /// The device is being started over.
    Returning,
}

/// What the user asked of the device's filters: told to it whenever it is started.
#[derive(Debug, Clone, Default)]
struct Wanted {
    promiscuous: bool,
    all_multicast: bool,
    macs: Vec<Mac>,
    vlans: Vec<u16>,
    mac: Option<Mac>,
}

/// Bytes around a payload: Ethernet header and FCS.
const AROUND: usize = 18;
/// Smallest MTU of a network that carries IPv4 (§5.1.4.1).
const MTU_MIN: usize = 68;
/// Largest frame that a length of 16 bits tells of.
const LARGEST: usize = 65_535;
/// Fewest slots that a ring makes sense with.
const SLOTS_MIN: usize = 2;
/// Starts over in mid-run before a device counts as broken.
const RECOVERIES_MAX: u64 = 1000;

impl<T: Transport> Virtio<T> {
    /// The port on an open transport.
    pub(crate) fn new(
        mut transport: T,
        options: Options,
        defaults: Defaults,
    ) -> Result<Self, OpenError> {
        let name = transport.name().to_owned();
        let offered = transport.offered();
        let broken = |what: String| OpenError::Broken {
            port: name.clone(),
            what,
        };
        if !transport.is_legacy() && !offered.contains(Features::VERSION_1) {
            let what = "it does not offer VERSION_1: no device of the virtio standard".into();
            return Err(OpenError::Broken {
                port: name.clone(),
                what,
            });
        }
        choose(offered, &options, Offloads::empty()).map_err(|Missing(option)| {
            OpenError::NotOffered {
                port: name.clone(),
                what: format!("{option}=on"),
            }
        })?;
        let config = transport.config().map_err(|error| match error {
            PortError::Gone { port } => OpenError::Gone { port },
            error => broken(error.to_string()),
        })?;
        let device_pairs = config.pairs;
        let pairs = match options.pairs {
            Some(asked) if asked == 0 || asked > device_pairs => {
                return Err(OpenError::TooFewQueues {
                    port: name,
                    asked,
                    offered: device_pairs,
                });
            }
            Some(asked) => asked,
            None => device_pairs,
        };
        let caps = caps(&transport, &options, &config, pairs, defaults);
        if *caps.rx_slots.range.end() < SLOTS_MIN || *caps.tx_slots.range.end() < SLOTS_MIN {
            return Err(broken("the device has no receive or no send ring".into()));
        }
        let info = Info {
            driver: "virtio",
            device: transport.device(),
            pci: transport.pci(),
            mac: config.mac.unwrap_or_else(|| made_up_mac(&name)),
            node: transport.node(),
            simulated: name.starts_with("sim:"),
            name,
        };
        Ok(Self {
            transport,
            options,
            numbers: Numbers {
                device_pairs,
                spreading: config.spreading,
            },
            info,
            caps,
            parts: None,
            run: None,
            wanted: Wanted::default(),
            rss: None,
            totals: Totals::default(),
            link_up: None,
            recoveries: 0,
        })
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

    /// True if the transport does this without the device's help, or the device offers it.
    fn offers(&self, offload: Offloads) -> bool {
        self.caps.offloads.contains(offload)
    }

    /// Sends a command, if the device is running and takes commands.
    fn command(&mut self, needs: Features, command: &Command<'_>) -> Result<(), PortError> {
        let Some(run) = &mut self.run else {
            return Ok(());
        };
        if run.stage != Stage::Running || !run.plan.features.contains(needs) {
            return Ok(());
        }
        let Some(control) = &mut run.control else {
            return Ok(());
        };
        let answer = control.send(&self.info.name, command);
        if answer.is_err() {
            // A device that is gone answers nothing; then that is what is told.
            self.transport.check()?;
        }
        answer
    }

    /// Makes the control queue of a device that was just started, and tells it all that the
    /// user wanted. A device may start with any filter: it is told even what was not asked for.
    fn set_up_control(&mut self) -> Result<(), PortError> {
        let (Some(run), Some(parts)) = (&mut self.run, &self.parts) else {
            return Ok(());
        };
        let pairs = u16::try_from(run.plan.pairs).unwrap_or(u16::MAX);
        let rss = run.rss.clone();
        if let (Some((ring, area)), Some((number, _))) = (&parts.control, &parts.shape.control) {
            let doorbell = self.transport.doorbell(*number);
            run.control = Some(Control::new(ring.clone(), area.clone(), doorbell));
        }
        let wanted = self.wanted.clone();
        // Either says how many pairs are in use.
        match &rss {
            Some(rss) => self.command(Features::RSS, &self.spreading_by(rss, pairs))?,
            None if pairs > 1 => self.command(Features::MQ, &Command::Pairs(pairs))?,
            None => {}
        }
        self.command(Features::CTRL_RX, &Command::Promiscuous(wanted.promiscuous))?;
        self.command(
            Features::CTRL_RX,
            &Command::AllMulticast(wanted.all_multicast),
        )?;
        if !wanted.macs.is_empty() {
            self.command(Features::CTRL_RX, &Command::Macs(&wanted.macs))?;
        }
        if let Some(mac) = wanted.mac {
            self.command(Features::CTRL_MAC_ADDR, &Command::Mac(mac))?;
        }
        for id in wanted.vlans {
            self.command(Features::CTRL_VLAN, &Command::VlanAdd(id))?;
        }
        Ok(())
    }

    /// The command that has the device spread frames so.
    fn spreading_by<'a>(&self, rss: &'a Rss, pairs: u16) -> Command<'a> {
        let types = self.numbers.spreading.map(|ability| ability.types);
        Command::Spread(types.unwrap_or_default(), rss, pairs)
    }

    /// How frames are to spread in a run with these features: as the run asks, else as was asked
    /// before, if its queues allow that, else evenly.
    fn spread(&self, config: &Config, features: Features) -> Option<Rss> {
        let ability = self.numbers.spreading?;
        if !features.contains(Features::RSS) {
            return None;
        }
        let fits = |rss: &&Rss| ability.check(rss, config.rx_queues).is_ok();
        let asked = config.rss.as_ref().or(self.rss.as_ref().filter(fits));
        Some(match asked {
            Some(rss) => rss.clone(),
            None => ability.even(config.rx_queues),
        })
    }

    /// Starts the device on rings that are clear, and gives the queues out.
    fn launch(&mut self, config: &Config, parts: &Parts) -> Result<Queues, PortError> {
        let plan = Plan {
            features: parts.shape.features,
            pairs: parts.shape.pairs,
            rings: parts.numbered(),
        };
        self.transport.bring_up(&plan, Patience::Wait)?;
        let shared = Shared::new(config.rx_queues, config.tx_queues);
        let site = |transport: &T, queue: QueueId, ring: usize| Site {
            follower: Follower::new(&shared, queue),
            notifier: Notifier::new(
                transport.doorbell(u16::try_from(ring).expect("a device has few rings")),
            ),
        };
        let mut queues = Queues::default();
        let mut owned = Vec::new();
        for pair in 0..config.rx_queues {
            let site = site(&self.transport, QueueId::Rx(pair), pair * 2);
            queues.rx.push(build::receive(parts, pair, site));
            owned.push(pair * 2);
        }
        for pair in 0..config.tx_queues {
            let site = site(&self.transport, QueueId::Tx(pair), pair * 2 + 1);
            queues.tx.push(build::send(parts, pair, site));
            owned.push(pair * 2 + 1);
        }
        self.run = Some(Run {
            shared,
            plan,
            control: None,
            rx_queues: config.rx_queues,
            rss: self.spread(config, parts.shape.features),
            owned,
            stage: Stage::Running,
            round: 1,
        });
        self.set_up_control()?;
        Ok(queues)
    }

    /// Takes the device away from memory, and lets every frame go home.
    fn end(&mut self, queues: Queues) -> Result<(), PortError> {
        let halted = self.transport.halt();
        if let Some(run) = self.run.take() {
            run.shared.halt();
            drop(queues);
            self.totals.add(&run.shared);
        }
        halted
    }

    /// One step of a run's life.
    fn advance(&mut self, events: &mut Vec<String>) -> Result<(), PortError> {
        let Some(run) = &mut self.run else {
            if let Health::Lost(why) = self.transport.check()? {
                events.push(why);
            }
            return Ok(());
        };
        match run.stage {
            Stage::Running => {
                if let Health::Lost(why) = self.transport.check()? {
                    run.round += 1;
                    run.shared.set(Signal::pause(run.round));
                    run.stage = Stage::Clearing;
                    events.push(why);
                }
            }
            Stage::Clearing => {
                if run.shared.all_clear(run.round) {
                    self.prepare_return()?;
                }
            }
            Stage::Returning => match self.transport.bring_up(&run.plan, Patience::Step)? {
                Progress::Underway => {}
                Progress::Setback(why) => events.push(why),
                Progress::Running => {
                    run.stage = Stage::Running;
                    self.set_up_control()?;
                    if let Some(run) = &self.run {
                        run.shared.set(Signal::run(run.round));
                    }
                    events.push("the device is back".into());
                }
            },
        }
        Ok(())
    }

    /// The queues have cleared their rings; the port clears those that have no queue.
    fn prepare_return(&mut self) -> Result<(), PortError> {
        let (Some(run), Some(parts)) = (&mut self.run, &self.parts) else {
            return Ok(());
        };
        let unowned = (0..)
            .zip(&parts.rings)
            .filter(|(ring, _)| !run.owned.contains(ring));
        unowned.for_each(|(_, ring)| ring.clear());
        if let Some((ring, _)) = &parts.control {
            ring.clear();
        }
        run.control = None;
        run.stage = Stage::Returning;
        self.recoveries += 1;
        if self.recoveries > RECOVERIES_MAX {
            let what = format!("it had to be started over {RECOVERIES_MAX} times");
            return Err(PortError::Broken {
                port: self.name(),
                what,
            });
        }
        Ok(())
    }

    /// The port has failed: its queues shall know.
    fn fail(&mut self) {
        if let Some(run) = &self.run {
            run.shared.set(Signal::FAILED);
        }
    }

    fn read_link(&mut self) -> Result<Link, PortError> {
        let config = self.transport.config()?;
        let lost = self
            .run
            .as_ref()
            .is_some_and(|run| run.stage != Stage::Running);
        let state = if config.link_up && !lost {
            LinkState::Up
        } else {
            LinkState::Down
        };
        Ok(Link {
            state,
            speed_bps: config.speed_bps,
            full_duplex: config.full_duplex,
        })
    }
}

/// What the device can do.
fn caps<T: Transport>(
    transport: &T,
    options: &Options,
    config: &NetConfig,
    pairs: usize,
    defaults: Defaults,
) -> Caps {
    let offered = transport.offered();
    let packed = choose(offered, options, Offloads::empty())
        .is_ok_and(|features| features.contains(Features::RING_PACKED));
    let slots = |ring, default: usize| {
        let most = transport.slots(ring).min(SLOTS_MAX);
        if transport.is_legacy() {
            return Limits::exactly(most);
        }
        let default = default.min(most);
        let default = if packed {
            default
        } else {
            prev_power_of_two(default)
        };
        Limits {
            range: SLOTS_MIN..=most,
            default,
            power_of_two: !packed,
        }
    };
    let queues = Limits {
        range: 0..=pairs,
        // As many as were asked for when the port was opened.
        default: options.pairs.map_or(1, |asked| asked.min(pairs)),
        power_of_two: false,
    };
    let mut can = offloads(offered, options) | transport.emulates();
    can.set(Offloads::RSS, config.spreading.is_some());
    let max_frame = config.mtu.map_or(LARGEST, |mtu| usize::from(mtu) + AROUND);
    Caps {
        rx_queues: queues.clone(),
        tx_queues: queues,
        rx_slots: slots(0, defaults.rx_slots),
        tx_slots: slots(1, defaults.tx_slots),
        max_frame: max_frame.min(LARGEST),
        max_segments: crate::tx::SEGMENTS,
        offloads: can,
    }
}

fn prev_power_of_two(value: usize) -> usize {
    if value == 0 { 0 } else { 1 << value.ilog2() }
}

/// A locally administered address for a device that has none.
fn made_up_mac(name: &str) -> Mac {
    let sum = name.bytes().fold(0u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    let [a, b, c, d] = sum.to_be_bytes();
    [0x02, 0, a, b, c, d]
}

impl<T: Transport> Port for Virtio<T> {
    fn info(&self) -> &Info {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        self.transport.space()
    }

    fn ring_bytes(&self, config: &Config) -> usize {
        Shape::new(
            &self.transport,
            &self.caps,
            &self.options,
            &self.numbers,
            config,
        )
        .map_or(0, |shape| shape.bytes())
    }

    fn start(&mut self, config: &Config, memory: &Memory) -> Result<Queues, StartError> {
        assert!(
            self.run.is_none(),
            "a port is stopped before it is started again"
        );
        let shape = Shape::new(
            &self.transport,
            &self.caps,
            &self.options,
            &self.numbers,
            config,
        )?;
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
        match self.launch(config, &parts) {
            Ok(queues) => Ok(queues),
            Err(error) => {
                // What went wrong first is what is told.
                let _ = self.end(Queues::default());
                Err(error.into())
            }
        }
    }

    fn stop(&mut self, queues: Queues) -> Result<(), PortError> {
        self.end(queues)
    }

    fn link(&mut self) -> Result<Link, PortError> {
        self.read_link()
    }

    fn counters(&mut self) -> Result<Counters, PortError> {
        let mut totals = self.totals.clone();
        if let Some(run) = &self.run {
            totals.add(&run.shared);
        }
        Ok(totals.counters())
    }

    fn extended(&mut self) -> Result<Vec<Extended>, PortError> {
        let mut totals = self.totals.clone();
        if let Some(run) = &self.run {
            totals.add(&run.shared);
        }
        let mut extended = totals.extended();
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
        if let Err(error) = self.advance(&mut events) {
            self.fail();
            return Err(error);
        }
        let up = self.read_link()?.state == LinkState::Up;
        if self.link_up.replace(up).is_some_and(|was| was != up) {
            events.push(format!("link {}", if up { "up" } else { "down" }));
        }
        Ok(events)
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), PortError> {
        if !self.offers(Offloads::PROMISCUOUS) {
            return Err(self.not_offered("promiscuous mode"));
        }
        self.command(Features::CTRL_RX, &Command::Promiscuous(on))?;
        self.wanted.promiscuous = on;
        Ok(())
    }

    fn set_all_multicast(&mut self, on: bool) -> Result<(), PortError> {
        if !self.offers(Offloads::ALL_MULTICAST) {
            return Err(self.not_offered("all-multicast mode"));
        }
        self.command(Features::CTRL_RX, &Command::AllMulticast(on))?;
        self.wanted.all_multicast = on;
        Ok(())
    }

    fn set_mac(&mut self, mac: Mac) -> Result<(), PortError> {
        if !self.offers(Offloads::SET_MAC) {
            return Err(self.not_offered("another address"));
        }
        self.command(Features::CTRL_MAC_ADDR, &Command::Mac(mac))?;
        self.wanted.mac = Some(mac);
        self.info.mac = mac;
        Ok(())
    }

    fn set_mac_filter(&mut self, macs: &[Mac]) -> Result<(), PortError> {
        if !self.offers(Offloads::MAC_FILTER) {
            return Err(self.not_offered("a filter by address"));
        }
        if macs.len() > MACS_MAX {
            let what = format!("a filter of more than {MACS_MAX} addresses");
            return Err(self.not_offered(&what));
        }
        self.command(Features::CTRL_RX, &Command::Macs(macs))?;
        self.wanted.macs = macs.to_vec();
        Ok(())
    }

    fn set_vlan_filter(&mut self, id: u16, on: bool) -> Result<(), PortError> {
        if !self.offers(Offloads::VLAN_FILTER) {
            return Err(self.not_offered("a filter by VLAN"));
        }
        let taken = |run: &Run| run.plan.features.contains(Features::CTRL_VLAN);
        if self.run.as_ref().is_some_and(|run| !taken(run)) {
            // Taken, the feature drops every VLAN that is not asked for: so only on request.
            return Err(PortError::Refused {
                port: self.name(),
                what: format!("a filter for VLAN {id}"),
                cure: Some("start the port with the VLAN filter among its offloads".into()),
            });
        }
        let command = if on {
            Command::VlanAdd(id)
        } else {
            Command::VlanDelete(id)
        };
        self.command(Features::CTRL_VLAN, &command)?;
        self.wanted.vlans.retain(|&vlan| vlan != id);
        if on {
            self.wanted.vlans.push(id);
        }
        Ok(())
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), PortError> {
        let most = self.caps.max_frame - AROUND;
        if self.run.is_some() {
            return Err(PortError::Refused {
                port: self.name(),
                what: "another MTU while it is started".into(),
                cure: Some("stop the port first".into()),
            });
        }
        if !(MTU_MIN..=most).contains(&mtu) {
            return Err(PortError::Refused {
                port: self.name(),
                what: format!("an MTU of {mtu}"),
                cure: Some(format!("choose one from {MTU_MIN} to {most}")),
            });
        }
        // Nothing in the device depends on it: buffers decide what can be received.
        Ok(())
    }

    fn set_rss(&mut self, rss: &Rss) -> Result<(), PortError> {
        let Some(ability) = self.numbers.spreading else {
            return Err(self.not_offered("spreading by RSS"));
        };
        let refused = |what: &str, cure: String| PortError::Refused {
            port: self.name(),
            what: what.into(),
            cure: Some(cure),
        };
        let most = *self.caps.rx_queues.range.end();
        let queues = self.run.as_ref().map_or(most, |run| run.rx_queues);
        ability
            .check(rss, queues)
            .map_err(|allowed| refused("this key and table", format!("give it {allowed}")))?;
        if let Some(run) = &self.run {
            if run.rss.is_none() {
                let cure = "start the port with RSS among its offloads".into();
                return Err(refused("spreading by RSS", cure));
            }
            let pairs = u16::try_from(run.plan.pairs).unwrap_or(u16::MAX);
            self.command(Features::RSS, &self.spreading_by(rss, pairs))?;
        }
        if let Some(run) = &mut self.run {
            run.rss = Some(rss.clone());
        }
        self.rss = Some(rss.clone());
        Ok(())
    }
}

impl<T: Transport> Drop for Virtio<T> {
    fn drop(&mut self) {
        if self.run.is_some() {
            let _ = self.end(Queues::default());
        }
    }
}
