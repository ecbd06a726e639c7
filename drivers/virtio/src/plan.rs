//! What a run asks for, checked against what the device can do, and the memory it takes.

use std::sync::atomic::AtomicU8;

use hugemem::{Dma, Memory, MemoryError};
use port::{Caps, Config, Offloads, StartError};

use crate::control;
use crate::desc::Words;
use crate::features::{Features, choose};
use crate::options::Options;
use crate::ring::{Format, Geometry, RingMemory};
use crate::rss::Ability;
use crate::transport::Transport;
use crate::tx::tables::Tables;

/// The shape of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The features to use.
    pub(crate) features: Features,
    /// Queue pairs that the device works on.
    pub(crate) pairs: usize,
    /// Rings of those pairs: receive, send, receive, …
    pub(crate) rings: Vec<Geometry>,
    /// The control queue's, and its number.
    pub(crate) control: Option<(u16, Geometry)>,
}

/// What the device's configuration says once and for all.
pub(crate) struct Numbers {
    /// Most queue pairs that the device has, whether they are used or not: ring numbers follow.
    pub(crate) device_pairs: usize,
    /// How it spreads frames over queues, if it can.
    pub(crate) spreading: Option<Ability>,
}

impl Shape {
    /// The shape that `config` asks for.
    pub(crate) fn new<T: Transport>(
        transport: &T,
        caps: &Caps,
        options: &Options,
        numbers: &Numbers,
        config: &Config,
    ) -> Result<Self, StartError> {
        let unsupported = |what, asked: String, allowed: String| StartError::Unsupported {
            port: transport.name().to_owned(),
            what,
            asked,
            allowed,
        };
        config.check(transport.name(), caps)?;
        let (rx, tx) = config.slots(caps);
        if config.rx_queues > 0 && config.rx_capacity < FRAME_MIN {
            let asked = format!("{} bytes", config.rx_capacity);
            return Err(unsupported(
                "a receive frame",
                asked,
                format!("{FRAME_MIN} at least"),
            ));
        }
        let mut offloads = config.offloads;
        if let Some(rss) = &config.rss {
            let none = || Err("this device has none".into());
            let fits = |ability: Ability| ability.check(rss, config.rx_queues.max(1));
            numbers
                .spreading
                .map_or_else(none, fits)
                .map_err(|allowed| {
                    unsupported("spreading by RSS", "this key and table".into(), allowed)
                })?;
            offloads |= Offloads::RSS;
        }
        let features = choose(transport.offered(), options, offloads)
            .map_err(|missing| unsupported("option", missing.0.into(), "not offered".into()))?;
        let shape = Self::build(transport, features, numbers, (config, rx, tx));
        if offloads.contains(Offloads::RSS) && !shape.features.contains(Features::RSS) {
            let allowed = "its control queue holds no command".into();
            return Err(unsupported("offloading", "RSS".into(), allowed));
        }
        Ok(shape)
    }

    fn build<T: Transport>(
        transport: &T,
        features: Features,
        numbers: &Numbers,
        (config, rx, tx): (&Config, usize, usize),
    ) -> Self {
        let format = match features.contains(Features::RING_PACKED) {
            true => Format::Packed,
            false => Format::Split {
                legacy: transport.is_legacy(),
            },
        };
        let pairs = config.rx_queues.max(config.tx_queues).max(1);
        let legacy = transport.is_legacy();
        let rings = (0u16..)
            .take(pairs * 2)
            .map(|ring| {
                let asked = if ring.is_multiple_of(2) { rx } else { tx };
                let slots = if legacy { transport.slots(ring) } else { asked };
                Geometry { format, slots }
            })
            .collect();
        let control = features.contains(Features::CTRL_VQ).then(|| {
            // Behind all pairs that the device has, if it counts them at all (§5.1.2).
            let pairs = if features.contains(Features::MQ) {
                numbers.device_pairs
            } else {
                1
            };
            let ring = u16::try_from(pairs * 2).unwrap_or(u16::MAX);
            let most = transport.slots(ring);
            let slots = if legacy {
                most
            } else {
                most.min(control::SLOTS)
            };
            (ring, Geometry { format, slots })
        });
        let control = control.filter(|(_, geometry)| geometry.slots >= 2);
        let features = match control {
            Some(_) => features,
            None => features - Features::CTRL_VQ - Features::CONTROLLED,
        };
        Self {
            features,
            pairs,
            rings,
            control,
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let rings = self
            .rings
            .iter()
            .chain(self.control.iter().map(|(_, geometry)| geometry));
        let control = if self.control.is_some() {
            control::BYTES
        } else {
            0
        };
        let tables: usize = self.sends().map(|ring| self.table_bytes(ring)).sum();
        rings.map(|geometry| geometry.bytes()).sum::<usize>() + control + tables
    }

    fn sends(&self) -> impl Iterator<Item = &Geometry> {
        self.rings.iter().skip(1).step_by(2)
    }

    fn table_bytes(&self, ring: &Geometry) -> usize {
        if self.features.contains(Features::INDIRECT_DESC) {
            Tables::descriptors(ring.slots) * size_of::<Words>() + 64
        } else {
            0
        }
    }

    /// Carves the memory that it takes.
    pub(crate) fn carve(&self, memory: &Memory) -> Result<Parts, MemoryError> {
        let rings = self
            .rings
            .iter()
            .map(|ring| ring.carve(memory))
            .collect::<Result<_, _>>()?;
        let mut tables = Vec::new();
        if self.features.contains(Features::INDIRECT_DESC) {
            for ring in self.sends() {
                tables.push(memory.carve(Tables::descriptors(ring.slots), 64)?);
            }
        }
        let control = match &self.control {
            Some((_, geometry)) => Some((geometry.carve(memory)?, control::carve(memory)?)),
            None => None,
        };
        Ok(Parts {
            shape: self.clone(),
            rings,
            tables,
            control,
        })
    }
}

/// Bytes of the smallest buffer that is armed for receiving.
const FRAME_MIN: usize = 60;

/// The memory of a run, kept from one start to the next, as memory is carved for good.
#[derive(Clone)]
pub(crate) struct Parts {
    /// What it was carved for.
    pub(crate) shape: Shape,
    /// Rings: receive, send, receive, …
    pub(crate) rings: Vec<RingMemory>,
    /// Tables of each send ring, if there are any.
    pub(crate) tables: Vec<Dma<Words>>,
    /// The control queue's ring and area.
    pub(crate) control: Option<(RingMemory, Dma<AtomicU8>)>,
}

impl Parts {
    /// Makes every ring empty.
    pub(crate) fn clear(&self) {
        let control = self.control.iter().map(|(ring, _)| ring);
        self.rings.iter().chain(control).for_each(RingMemory::clear);
    }

    /// The rings by their numbers in the device.
    pub(crate) fn numbered(&self) -> Vec<(u16, RingMemory)> {
        let control = self.shape.control.iter().zip(&self.control);
        (0..)
            .zip(self.rings.iter().cloned())
            .chain(control.map(|((number, _), (ring, _))| (*number, ring.clone())))
            .collect()
    }

    /// True if it is part of `memory` and shaped as `shape`.
    pub(crate) fn serves(&self, memory: &Memory, shape: &Shape) -> bool {
        let tabled = |shape: &Shape| shape.features.contains(Features::INDIRECT_DESC);
        self.rings.iter().all(|ring| ring.desc.is_in(memory))
            && self.shape.rings == shape.rings
            && self.shape.control == shape.control
            && tabled(&self.shape) == tabled(shape)
    }
}
