//! `sim:` ports: our driver on a model of the device, two ends of one wire.

use std::sync::Arc;

use hugemem::{DmaSpace, Memory};
use models::virtio::{Identity, VirtioNet, VirtioOptions};
use models::{Flap, Sim, SimOptions, WireOptions};
use port::{
    Caps, Config, Counters, Extended, Info, Link, Mac, Port, PortError, Queues, Rss, StartError,
};

use crate::options::Options;
use crate::spec::{Place, Spec};
use crate::{OpenError, Options as OpenOptions};

/// Drivers that can be simulated.
const DRIVERS: &str = "virtio";
/// Options of a `sim:virtio` port.
const KNOWN: &str = "packed, in_order, mergeable, indirect, queues, rx_slots, tx_slots, mtu, mac, \
                     legacy, speed, paced, seed, loss, corrupt, bad_fcs, dup, reorder, delay, flap";

/// Those of them that are the wire's.
const CABLE: [&str; 10] = [
    "speed", "paced", "seed", "loss", "corrupt", "bad_fcs", "dup", "reorder", "delay", "flap",
];

/// A port, and its place among those asked for.
pub(crate) type Placed = (usize, Box<dyn Port>);

/// A simulated end that was asked for.
struct End {
    name: String,
    device: VirtioOptions,
    driver: virtio::Options,
}

/// Opens the simulated ports among `specs`: the first two are the ends of one wire, the next two
/// of another. Returns them with their places in `specs`.
pub(crate) fn open(specs: &[Spec], options: &OpenOptions) -> Result<Vec<Placed>, OpenError> {
    let simulated = specs
        .iter()
        .enumerate()
        .filter(|(_, spec)| is_sim(spec))
        .collect::<Vec<_>>();
    let mut opened = Vec::new();
    for (wire, pair) in simulated.chunks(2).enumerate() {
        let swapped = swapped(pair)?;
        agree(pair)?;
        let mut ends = Vec::new();
        let mut cable = WireOptions::default();
        for (n, (_, spec)) in pair.iter().enumerate() {
            let end = wire * 2 + (n ^ usize::from(swapped));
            ends.push(end_of(spec, end, &mut cable)?);
        }
        let places = pair.iter().map(|(place, _)| *place);
        opened.extend(places.zip(connect(ends, cable, options)?));
    }
    Ok(opened)
}

fn is_sim(spec: &Spec) -> bool {
    matches!(spec.place, Place::Sim { .. })
}

/// True if the pair names its ends the other way round.
fn swapped(pair: &[(usize, &Spec)]) -> Result<bool, OpenError> {
    let named = |n: usize| match pair.get(n).map(|(_, spec)| &spec.place) {
        Some(Place::Sim { end, .. }) => *end,
        _ => None,
    };
    match (named(0), named(1)) {
        (Some(a), Some(b)) if a == b => Err(OpenError::EndTaken {
            text: pair[1].1.text.clone(),
        }),
        (Some(1), _) | (None, Some(0)) => Ok(true),
        _ => Ok(false),
    }
}

/// The wire is one thing: what both ends say of it must be the same.
fn agree(pair: &[(usize, &Spec)]) -> Result<(), OpenError> {
    let [(_, one), (_, other)] = pair else {
        return Ok(());
    };
    for key in CABLE {
        let said = |spec: &Spec| spec.options.iter().rfind(|(name, _)| name == key).cloned();
        if let (Some((_, first)), Some((_, second))) = (said(one), said(other))
            && first != second
        {
            return Err(OpenError::WireTwice {
                text: other.text.clone(),
                option: key,
                first,
                second,
            });
        }
    }
    Ok(())
}

/// Puts a wire between the ends and opens our driver on each. Where only one was asked for, the
/// other is a device without a driver: a cable that leads nowhere.
fn connect(
    ends: Vec<End>,
    cable: WireOptions,
    options: &OpenOptions,
) -> Result<Vec<Box<dyn Port>>, OpenError> {
    let device = |n: usize| match ends.get(n) {
        Some(end) => VirtioNet::boxed(&end.name, &end.device),
        None => VirtioNet::boxed("the far end", &VirtioOptions::default()),
    };
    let thread = SimOptions {
        core: options.model_core,
        busy_threads: 1 + options.busy_threads.max(1),
        ..SimOptions::default()
    };
    let sim = Arc::new(Sim::with_options(device(0), device(1), cable, thread));
    let mut ports: Vec<Box<dyn Port>> = Vec::new();
    for (n, end) in ends.iter().enumerate() {
        let inner = virtio::open_pci(sim.function(n), &end.driver)?;
        ports.push(Box::new(SimPort::new(
            inner,
            end.name.clone(),
            Arc::clone(&sim),
            n,
        )));
    }
    Ok(ports)
}

/// Reads a spec's options: what the device offers, what the driver takes, what the wire does.
fn end_of(spec: &Spec, number: usize, cable: &mut WireOptions) -> Result<End, OpenError> {
    let Place::Sim { driver, .. } = &spec.place else {
        unreachable!("only sim: ports come here")
    };
    if driver != "virtio" {
        return Err(OpenError::NoSuchDriver {
            text: spec.text.clone(),
            driver: driver.clone(),
            known: DRIVERS,
        });
    }
    let mut options = Options::of(spec);
    let (device, driver) = ring_options(&mut options, number)?;
    cable_options(&mut options, cable)?;
    options.done(KNOWN)?;
    Ok(End {
        name: format!("sim:virtio/{number}"),
        device,
        driver,
    })
}

fn ring_options(
    options: &mut Options<'_>,
    number: usize,
) -> Result<(VirtioOptions, virtio::Options), OpenError> {
    let number = u8::try_from(number).unwrap_or(u8::MAX);
    let mac = options
        .mac("mac")?
        .unwrap_or([0x02, 0x72, 0x67, 0x65, 0x6e, number]);
    let mut device = VirtioOptions {
        mac,
        ..VirtioOptions::default()
    };
    // The device offers everything; the driver is told what to take.
    let mut driver = options.virtio()?;
    driver.rx_slots = options.slots("rx_slots")?;
    driver.tx_slots = options.slots("tx_slots")?;
    let most = driver.rx_slots.max(driver.tx_slots).unwrap_or(0);
    let most = u16::try_from(most.next_power_of_two()).unwrap_or(device.queue_size);
    device.queue_size = device.queue_size.max(most);
    (
        device.packed,
        device.in_order,
        device.mergeable,
        device.indirect,
    ) = (true, true, true, true);
    if let Some(pairs) = driver.pairs {
        device.pairs = u16::try_from(pairs).unwrap_or(1);
    }
    if let Some(mtu) = options.number("mtu", "68 to 65521 bytes", 68, 65_521)? {
        device.mtu = u16::try_from(mtu).ok();
    }
    if options.flag("legacy")?.unwrap_or(false) {
        device.identity = Identity::Legacy;
        // An interface of 32 feature bits has neither of these, nor address translation.
        (device.packed, device.in_order, device.access_platform) = (false, false, false);
    }
    Ok((device, driver))
}

fn cable_options(options: &mut Options<'_>, cable: &mut WireOptions) -> Result<(), OpenError> {
    let shares: [(&str, &mut f64); 5] = [
        ("loss", &mut cable.loss),
        ("corrupt", &mut cable.corrupt),
        ("bad_fcs", &mut cable.bad_fcs),
        ("dup", &mut cable.duplicate),
        ("reorder", &mut cable.reorder),
    ];
    for (key, share) in shares {
        *share = options.share(key)?.unwrap_or(*share);
    }
    cable.delay = options.time("delay")?.unwrap_or(cable.delay);
    cable.speed_bps = options.speed("speed")?.unwrap_or(cable.speed_bps);
    cable.paced = options.flag("paced")?.unwrap_or(cable.paced);
    let numbers = "a whole number";
    cable.seed = options
        .number("seed", numbers, 0, u64::MAX)?
        .unwrap_or(cable.seed);
    if let Some(every) = options.number(
        "flap",
        "1000 frames or more from flap to flap",
        1000,
        u64::MAX,
    )? {
        let hold = std::time::Duration::from_millis(50);
        cable.flap = Some(Flap {
            every,
            frames: every / 10,
            hold,
        });
    }
    Ok(())
}

/// A driver's port on a model, which it keeps running.
struct SimPort {
    // Order matters: the driver lets go of the device before the device ends.
    inner: Box<dyn Port>,
    info: Info,
    sim: Arc<Sim>,
    end: usize,
    told: usize,
}

impl SimPort {
    fn new(inner: Box<dyn Port>, name: String, sim: Arc<Sim>, end: usize) -> Self {
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
        }
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

    /// The driver's. A virtio device has no counter for frames that found no buffer; this one is
    /// known to have met some.
    fn counters(&mut self) -> Result<Counters, PortError> {
        let mut counters = self.inner.counters()?;
        counters.rx_missed += self.sim.counters(self.end).rx_no_buffer;
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
