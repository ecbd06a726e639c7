//! `sim:` ports: our driver on a model of the device, two ends of one wire.
//!
//! Each family of devices is a row of [`FAMILIES`], in a file of its own. The ends of a wire need
//! not be of one family.

mod e1000;
mod ixgbe;
mod port;
mod virtio;
mod vmxnet3;

use std::sync::Arc;
use std::time::Duration;

use ::port::{Mac, Port};
use models::virtio::{VirtioNet, VirtioOptions};
use models::{Device, Flap, Knee, KneeShape, Sim, SimFunction, SimOptions, WireOptions};

use crate::options::Options;
use crate::spec::{Place, Spec};
use crate::{OpenError, Options as OpenOptions};

use self::port::SimPort;

/// A family's own options with those of the wire behind them.
macro_rules! known {
    ($own:literal) => {
        concat!(
            $own,
            ", speed, paced, seed, loss, corrupt, bad_fcs, dup, reorder, delay, flap, \
             knee, knee_shape, knee_pause"
        )
    };
}
use known;

/// Every family that can be simulated.
const FAMILIES: &[Family] = &[
    virtio::FAMILY,
    e1000::E1000_FAMILY,
    e1000::E1000E_FAMILY,
    e1000::IGB_FAMILY,
    e1000::IGBVF_FAMILY,
    ixgbe::FAMILY,
    ixgbe::VF_FAMILY,
    vmxnet3::FAMILY,
];

/// Their names, for messages.
const DRIVERS: &str = "virtio, e1000, e1000e, igb, igbvf, ixgbe, ixgbevf, vmxnet3";

/// Options of any `sim:` port that are the wire's.
const CABLE: [&str; 13] = [
    "speed",
    "paced",
    "seed",
    "loss",
    "corrupt",
    "bad_fcs",
    "dup",
    "reorder",
    "delay",
    "flap",
    "knee",
    "knee_shape",
    "knee_pause",
];

/// What can stand behind `sim:DRIVER`.
struct Family {
    /// The name behind `sim:`.
    driver: &'static str,
    /// The options of such a port, for messages ([`known!`]).
    known: &'static str,
    /// Makes one end: takes the end's name, its number (from which it has its address), and
    /// those of the port's options that are the family's own.
    half: fn(&str, usize, &mut Options<'_>) -> Result<Half, OpenError>,
}

/// Opens a driver on a model of its device.
type OpenSim = Box<dyn FnOnce(SimFunction) -> Result<Box<dyn Port>, OpenError>>;

/// One end of a wire: a model, and the driver to open on it.
struct Half {
    /// The model of the device.
    device: Box<dyn Device>,
    /// How its driver opens it.
    open: OpenSim,
    /// The device has a counter for frames that found no buffer, which its driver reads.
    counts_missed: bool,
}

/// A port, and its place among those asked for.
pub(crate) type Placed = (usize, Box<dyn Port>);

/// A simulated end that was asked for.
struct End {
    name: String,
    half: Half,
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
    let mut devices = Vec::new();
    let mut drivers = Vec::new();
    for End { name, half } in ends {
        devices.push(half.device);
        drivers.push((name, half.open, half.counts_missed));
    }
    let mut devices = devices.into_iter();
    let mut device = || {
        let nobody = || VirtioNet::boxed("the far end", &VirtioOptions::default());
        devices.next().unwrap_or_else(nobody)
    };
    let thread = SimOptions {
        core: options.model_core,
        busy_threads: 1 + options.busy_threads.max(1),
        ..SimOptions::default()
    };
    let sim = Arc::new(Sim::with_options(device(), device(), cable, thread));
    let mut ports: Vec<Box<dyn Port>> = Vec::new();
    for (n, (name, open, counts_missed)) in drivers.into_iter().enumerate() {
        let inner = open(sim.function(n))?;
        let port = SimPort::new(inner, name, Arc::clone(&sim), n);
        ports.push(Box::new(port.counting_missed(!counts_missed)));
    }
    Ok(ports)
}

/// Reads a spec's options: what the device offers, what the driver takes, what the wire does.
fn end_of(spec: &Spec, number: usize, cable: &mut WireOptions) -> Result<End, OpenError> {
    let Place::Sim { driver, .. } = &spec.place else {
        unreachable!("only sim: ports come here")
    };
    let family = FAMILIES.iter().find(|family| family.driver == driver);
    let family = family.ok_or_else(|| OpenError::NoSuchDriver {
        text: spec.text.clone(),
        driver: driver.clone(),
        known: DRIVERS,
    })?;
    let name = format!("sim:{driver}/{number}");
    let mut options = Options::of(spec);
    let half = (family.half)(&name, number, &mut options)?;
    cable_options(&mut options, cable)?;
    options.done(family.known)?;
    Ok(End { name, half })
}

/// The address of end `number`: the one that is asked for, else one of our own.
fn address(number: usize, options: &mut Options<'_>) -> Result<Mac, OpenError> {
    let number = u8::try_from(number).unwrap_or(u8::MAX);
    let own = [0x02, 0x72, 0x67, 0x65, 0x6e, number];
    Ok(options.mac("mac")?.unwrap_or(own))
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
    cable.knee = knee(options, cable.knee)?;
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
        let hold = Duration::from_millis(50);
        cable.flap = Some(Flap {
            every,
            frames: every / 10,
            hold,
        });
    }
    Ok(())
}

/// The knee of a device under test: its rate, and what may be said of it.
fn knee(options: &mut Options<'_>, said: Option<Knee>) -> Result<Option<Knee>, OpenError> {
    let rate_pps = options.frame_rate("knee")?;
    let shape = options.one_of("knee_shape", "sharp, sloped or noisy", |word| match word {
        "sharp" => Some(KneeShape::Sharp),
        "sloped" => Some(KneeShape::Sloped),
        "noisy" => Some(KneeShape::Noisy),
        _ => None,
    })?;
    let pause = options.time("knee_pause")?;
    let Some(rate_pps) = rate_pps else {
        return match (shape, pause) {
            (None, None) => Ok(said),
            _ => Err(options.incomplete("knee_shape", "with knee=RATE beside it")),
        };
    };
    Ok(Some(Knee {
        rate_pps,
        shape: shape.unwrap_or(KneeShape::Sharp),
        pause: pause.unwrap_or(Duration::from_millis(15)),
    }))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn messages_list_the_families_of_the_table() {
        let names: Vec<_> = FAMILIES.iter().map(|family| family.driver).collect();
        assert_eq!(DRIVERS, names.join(", "));
    }
}
