//! What a run asks for, checked against what the device can do, and the memory it takes.

use std::ops::RangeInclusive;

use hugemem::{Dma, Memory, MemoryError};
use intel::{ALIGN, Slot};
use port::{Caps, Config, Limits, Offloads, Rss, StartError};

use crate::desc::SEGMENTS;
use crate::kind::{Kind, Model};
use crate::options::Options;

/// Fewest slots of a ring: what every device of the families has.
const SLOTS_MIN: usize = 32;
/// Most slots of a ring (developer's manual §13.4.27, 82576 §8.10.3).
const SLOTS_MAX: usize = 4096;
/// Slots of a receive ring when nobody asks. More than of a send ring, so that a receiver that
/// looks late still has room for all that one like it had posted.
const RX_SLOTS: usize = 1024;
/// Slots of a send ring when nobody asks.
const TX_SLOTS: usize = 512;
/// Values of the RSS hash that the indirection table tells apart (82576 §7.1.2.8.3).
const TABLE: usize = 128;
/// Bytes of the hash's key.
const KEY: usize = 40;

/// What a device can do, and what it does when nobody asks; else what it has not.
pub(crate) fn caps(model: &Model, options: &Options) -> Result<Caps, String> {
    let limits = |what, range: RangeInclusive<usize>, default, power_of_two| {
        let limits = Limits {
            range,
            default,
            power_of_two,
        };
        if limits.allow(default) {
            Ok(limits)
        } else {
            Err(format!("{what} of {default}"))
        }
    };
    let queues = options.queues.unwrap_or(1);
    let queues = limits("a number of queues", 0..=model.queues, queues, false)?;
    let ring = |what, slots| limits(what, SLOTS_MIN..=SLOTS_MAX, slots, true);
    let rx_slots = options.rx_slots.unwrap_or(RX_SLOTS);
    let tx_slots = options.tx_slots.unwrap_or(TX_SLOTS);
    Ok(Caps {
        rx_queues: queues.clone(),
        tx_queues: queues,
        rx_slots: ring("a receive ring", rx_slots)?,
        tx_slots: ring("a send ring", tx_slots)?,
        max_frame: model.max_frame,
        max_segments: SEGMENTS,
        offloads: offloads(model.kind),
    })
}

fn offloads(kind: Kind) -> Offloads {
    let all = Offloads::TX_IPV4_CHECKSUM
        | Offloads::TX_L4_CHECKSUM
        | Offloads::TX_VLAN
        | Offloads::RX_CHECKSUM
        | Offloads::RX_VLAN
        | Offloads::RX_SCATTER
        | Offloads::ALL_MULTICAST
        | Offloads::MAC_FILTER
        | Offloads::VLAN_FILTER
        | Offloads::SET_MAC
        | Offloads::SET_MTU;
    match kind {
        Kind::E1000 | Kind::E1000e => all | Offloads::PROMISCUOUS,
        Kind::Igb => all | Offloads::PROMISCUOUS | Offloads::RSS,
        // The PF's mailbox has no request for promiscuous mode, and RSS belongs to the PF.
        Kind::IgbVf => all,
    }
}

/// A run's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Receive queues, and slots of each.
    pub(crate) rx: (usize, usize),
    /// Send queues, and slots of each.
    pub(crate) tx: (usize, usize),
    /// Bytes that the device may write to a receive buffer.
    pub(crate) buffer: u16,
    /// What the device shall do to frames.
    pub(crate) offloads: Offloads,
    /// Key and table, for several receive queues.
    pub(crate) rss: Option<Spread>,
}

/// How frames spread over receive queues, as the device wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spread {
    /// The Toeplitz key.
    pub(crate) key: [u8; KEY],
    /// A queue for each value of the hash's low 7 bits.
    pub(crate) table: [u8; TABLE],
}

impl Spread {
    /// In turn, with a key under which both directions of a flow have one hash.
    fn even(queues: usize) -> Self {
        let key = std::array::from_fn(|n| if n % 2 == 0 { 0x6d } else { 0x5a });
        let table = std::array::from_fn(|n| u8::try_from(n % queues.max(1)).unwrap_or(0));
        Self { key, table }
    }

    /// As `rss` says, over `queues` queues; else what would be possible.
    pub(crate) fn new(rss: &Rss, queues: usize) -> Result<Self, String> {
        let key = rss.key.as_slice().try_into();
        let key = key.map_err(|_| format!("a key of {KEY} bytes"))?;
        let len = rss.table.len();
        if len == 0 || !TABLE.is_multiple_of(len) {
            return Err(format!(
                "a table of {TABLE} queues, or a part of it to repeat"
            ));
        }
        let mut table = [0; TABLE];
        for (place, queue) in table.iter_mut().zip(rss.table.iter().cycle()) {
            let known = u8::try_from(*queue).ok();
            let known = known.filter(|&queue| usize::from(queue) < queues);
            *place = known.ok_or_else(|| format!("queues below {queues}"))?;
        }
        Ok(Self { key, table })
    }
}

/// Receive buffers that legacy devices know, largest first (developer's manual §13.4.22).
const BUFFERS: [u16; 7] = [16_384, 8_192, 4_096, 2_048, 1_024, 512, 256];

/// The largest buffer that the device can use of frames that hold `capacity` bytes.
fn buffer(kind: Kind, capacity: usize) -> Option<u16> {
    if kind == Kind::IgbVf || (kind == Kind::Igb && capacity >= 1024) {
        // Counted in units of 1 KiB (82576 §8.10.2). Smaller ones are the PF's to choose.
        let units = u16::try_from((capacity / 1024).min(16)).unwrap_or(16);
        return (units > 0).then_some(units * 1024);
    }
    BUFFERS
        .into_iter()
        .find(|&size| usize::from(size) <= capacity)
}

impl Shape {
    /// The shape that `config` asks for.
    pub(crate) fn new(
        port: &str,
        kind: Kind,
        caps: &Caps,
        config: &Config,
    ) -> Result<Self, StartError> {
        let unsupported = |what, asked: String, allowed: String| StartError::Unsupported {
            port: port.to_owned(),
            what,
            asked,
            allowed,
        };
        let missing = config.offloads - caps.offloads;
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter_names().map(|(name, _)| name).collect();
            let allowed = "this device does not offer it".into();
            return Err(unsupported("offloading", names.join(", "), allowed));
        }
        for (what, asked, limits) in [
            (
                "a number of receive queues",
                config.rx_queues,
                &caps.rx_queues,
            ),
            ("a number of send queues", config.tx_queues, &caps.tx_queues),
        ] {
            if !limits.allow(asked) {
                let allowed = format!("at most {}", limits.range.end());
                return Err(unsupported(what, asked.to_string(), allowed));
            }
        }
        let rx = config.rx_slots.unwrap_or(caps.rx_slots.default);
        let tx = config.tx_slots.unwrap_or(caps.tx_slots.default);
        for (what, asked, limits) in [
            ("a receive ring", rx, &caps.rx_slots),
            ("a send ring", tx, &caps.tx_slots),
        ] {
            if !limits.allow(asked) {
                let range = &limits.range;
                let allowed = format!("{} to {} slots, a power of two", range.start(), range.end());
                return Err(unsupported(what, format!("{asked} slots"), allowed));
            }
        }
        let buffer = buffer(kind, config.rx_capacity).ok_or_else(|| {
            let least = if kind == Kind::IgbVf { 1024 } else { 256 };
            let asked = format!("{} bytes", config.rx_capacity);
            unsupported("a receive frame", asked, format!("{least} at least"))
        })?;
        let queues = config.rx_queues;
        let rss = match &config.rss {
            Some(_) if !caps.offloads.contains(Offloads::RSS) => {
                let allowed = "this device has none".into();
                return Err(unsupported("spreading by RSS", "a table".into(), allowed));
            }
            Some(rss) => Some(
                Spread::new(rss, queues)
                    .map_err(|allowed| unsupported("RSS", format!("{rss:?}"), allowed))?,
            ),
            None if queues > 1 || config.offloads.contains(Offloads::RSS) => {
                Some(Spread::even(queues))
            }
            None => None,
        };
        Ok(Self {
            rx: (queues, rx),
            tx: (config.tx_queues, tx),
            buffer,
            offloads: config.offloads,
            rss,
        })
    }

    /// Bytes of memory that its rings take.
    pub(crate) fn bytes(&self) -> usize {
        let ring = |slots: usize| slots * size_of::<Slot>() + ALIGN;
        self.rx.0 * ring(self.rx.1) + self.tx.0 * ring(self.tx.1)
    }

    /// Carves the memory that it takes.
    pub(crate) fn carve(&self, memory: &Memory) -> Result<Rings, MemoryError> {
        let carve = |(count, slots): (usize, usize)| {
            (0..count)
                .map(|_| memory.carve(slots, ALIGN))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Rings {
            rx: carve(self.rx)?,
            tx: carve(self.tx)?,
            shape: (self.rx, self.tx),
        })
    }
}

/// The rings of a run, kept from one start to the next, as memory is carved for good.
#[derive(Debug, Clone)]
pub(crate) struct Rings {
    /// Receive rings, by queue.
    pub(crate) rx: Vec<Dma<Slot>>,
    /// Send rings, by queue.
    pub(crate) tx: Vec<Dma<Slot>>,
    shape: ((usize, usize), (usize, usize)),
}

impl Rings {
    fn all(&self) -> impl Iterator<Item = &Dma<Slot>> {
        self.rx.iter().chain(&self.tx)
    }

    /// Makes every ring empty.
    pub(crate) fn clear(&self) {
        self.all().for_each(intel::clear);
    }

    /// True if they are part of `memory` and as many and as long as `shape` says.
    pub(crate) fn serve(&self, memory: &Memory, shape: &Shape) -> bool {
        self.shape == (shape.rx, shape.tx) && self.all().all(|ring| ring.is_in(memory))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn shape(device: u16, config: &Config) -> Result<Shape, StartError> {
        let model = Model::of(0x8086, device).unwrap();
        let caps = caps(&model, &Options::default()).unwrap();
        Shape::new("test", model.kind, &caps, config)
    }

    #[test]
    fn a_buffer_is_never_larger_than_the_frame_that_is_armed() {
        for kind in [Kind::E1000, Kind::E1000e, Kind::Igb, Kind::IgbVf] {
            for capacity in 0..20_000 {
                if let Some(buffer) = buffer(kind, capacity) {
                    assert!(usize::from(buffer) <= capacity, "{kind:?} {capacity}");
                    assert!(usize::from(buffer) * 2 > capacity || buffer == 16_384);
                }
            }
        }
        assert_eq!(buffer(Kind::Igb, 512), Some(512));
        assert_eq!(buffer(Kind::IgbVf, 1023), None);
        assert_eq!(buffer(Kind::Igb, 3100), Some(3072));
    }

    #[test]
    fn a_table_names_only_queues_that_there_are() {
        let rss = |table: Vec<u16>| Config {
            rx_queues: 3,
            rss: Some(Rss {
                key: vec![1; 40],
                table,
            }),
            ..Config::default()
        };
        let good = shape(0x10c9, &rss(vec![0, 2])).unwrap().rss.unwrap();
        assert_eq!((good.table[126], good.table[127]), (0, 2));
        for bad in [vec![0, 3], vec![], vec![0; 3]] {
            assert!(shape(0x10c9, &rss(bad)).is_err());
        }
        let one = Config {
            rx_queues: 1,
            ..rss(vec![0])
        };
        assert!(shape(0x100e, &one).is_err(), "82540EM has no RSS");
    }

    #[test]
    fn rings_are_a_power_of_two() {
        let config = |slots| Config {
            tx_slots: Some(slots),
            ..Config::default()
        };
        for slots in [32, 4096] {
            assert!(shape(0x10d3, &config(slots)).is_ok());
        }
        for slots in [16, 100, 8192] {
            assert!(shape(0x10d3, &config(slots)).is_err());
        }
    }
}
