//! What a run asks for, checked against what the device can do, and the memory it takes.

use std::ops::RangeInclusive;

use hugemem::{Dma, Memory, MemoryError};
use intel::{ALIGN, Slot};
use port::{Caps, Config, Limits, Offloads, Rss, StartError};

use crate::desc::SEGMENTS;
use crate::kind::{Kind, Model};
use crate::options::Options;

/// Fewest slots of a ring (Linux, `IXGBE_MIN_TXD`).
const SLOTS_MIN: usize = 64;
/// Most slots of a physical function's ring (Linux, `IXGBE_MAX_TXD_82599`; X550 has more).
const SLOTS_MAX: usize = 8192;
/// Most slots of a virtual function's ring (Linux, `IXGBEVF_MAX_TXD`).
const VF_SLOTS_MAX: usize = 4096;
/// Slots of a receive ring when nobody asks. More than of a send ring, so that a receiver that
/// looks late still has room for all that one like it had posted.
const RX_SLOTS: usize = 1024;
/// Slots of a send ring when nobody asks.
const TX_SLOTS: usize = 512;
/// Largest frame, in bytes with FCS: what Linux's PF lets a VF have, and sets itself
/// (`IXGBE_MAX_JUMBO_FRAME_SIZE`).
pub(crate) const MAX_FRAME: usize = 9728;
/// Bytes of the hash's key.
const KEY: usize = 40;

/// What one device has: a virtual function's is what its physical function gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Has {
    /// Receive queues.
    pub(crate) rx: usize,
    /// Send queues.
    pub(crate) tx: usize,
    /// What it does to frames.
    pub(crate) offloads: Offloads,
}

impl Has {
    /// What every function does to frames.
    pub(crate) const OFFLOADS: Offloads = Offloads::TX_IPV4_CHECKSUM
        .union(Offloads::TX_L4_CHECKSUM)
        .union(Offloads::TX_VLAN)
        .union(Offloads::RX_CHECKSUM)
        .union(Offloads::RX_VLAN)
        .union(Offloads::RX_SCATTER)
        .union(Offloads::MAC_FILTER)
        .union(Offloads::VLAN_FILTER)
        .union(Offloads::SET_MAC)
        .union(Offloads::SET_MTU);

    /// A physical function: RSS tells 16 queues apart (82599 datasheet §7.1.2.8), and without
    /// traffic classes there are 64 send queues (§7.2.1.2.1).
    pub(crate) const PF: Self = Self {
        rx: 16,
        tx: 64,
        offloads: Self::OFFLOADS
            .union(Offloads::PROMISCUOUS)
            .union(Offloads::ALL_MULTICAST)
            .union(Offloads::RSS),
    };
}

/// What a device can do, and what it does when nobody asks; else what it has not.
pub(crate) fn caps(model: &Model, has: &Has, options: &Options) -> Result<Caps, String> {
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
    let most = match model.kind() {
        Kind::Ixgbe => SLOTS_MAX,
        Kind::IxgbeVf => VF_SLOTS_MAX,
    };
    let ring = |what, slots| limits(what, SLOTS_MIN..=most, slots, true);
    let rx_slots = options.rx_slots.unwrap_or(RX_SLOTS);
    let tx_slots = options.tx_slots.unwrap_or(TX_SLOTS);
    Ok(Caps {
        rx_queues: limits("a number of queues", 0..=has.rx, queues, false)?,
        tx_queues: limits("a number of queues", 0..=has.tx, queues, false)?,
        rx_slots: ring("a receive ring", rx_slots)?,
        tx_slots: ring("a send ring", tx_slots)?,
        max_frame: MAX_FRAME,
        max_segments: SEGMENTS,
        offloads: has.offloads,
    })
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
    /// A queue for each value of the hash's low bits.
    pub(crate) table: Box<[u8]>,
}

impl Spread {
    /// In turn, with a key under which both directions of a flow have one hash.
    fn even(queues: usize, entries: usize) -> Self {
        let key = std::array::from_fn(|n| if n % 2 == 0 { 0x6d } else { 0x5a });
        let queue = |n| u8::try_from(n % queues.max(1)).unwrap_or(0);
        Self {
            key,
            table: (0..entries).map(queue).collect(),
        }
    }

    /// As `rss` says, over `queues` queues, in a table of `entries`; else what would be possible.
    pub(crate) fn new(rss: &Rss, queues: usize, entries: usize) -> Result<Self, String> {
        let key = rss.key.as_slice().try_into();
        let key = key.map_err(|_| format!("a key of {KEY} bytes"))?;
        let asked = &rss.table;
        let fits = match asked.len() {
            0 => false,
            len if len <= entries => entries.is_multiple_of(len),
            // A longer table will do if it repeats itself.
            len => {
                let (first, rest) = asked.split_at(entries);
                len.is_multiple_of(entries) && rest.chunks(entries).all(|part| part == first)
            }
        };
        if !fits {
            return Err(format!(
                "a table of {entries} queues, or a part of it to repeat"
            ));
        }
        let known = |queue: &u16| {
            let known = u8::try_from(*queue).ok();
            let known = known.filter(|&queue| usize::from(queue) < queues);
            known.ok_or_else(|| format!("queues below {queues}"))
        };
        asked.iter().try_for_each(|queue| known(queue).map(drop))?;
        let table = asked.iter().cycle().take(entries).map(known);
        Ok(Self {
            key,
            table: table.collect::<Result<_, _>>()?,
        })
    }
}

/// The largest buffer that the device can use of frames that hold `capacity` bytes: counted in
/// units of 1 KiB, up to 16 (82599 datasheet §8.2.3.8, SRRCTL).
fn buffer(capacity: usize) -> Option<u16> {
    let units = u16::try_from((capacity / 1024).min(16)).unwrap_or(16);
    (units > 0).then_some(units * 1024)
}

impl Shape {
    /// The shape that `config` asks for.
    pub(crate) fn new(
        port: &str,
        model: &Model,
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
        let buffer = buffer(config.rx_capacity).ok_or_else(|| {
            let asked = format!("{} bytes", config.rx_capacity);
            unsupported("a receive frame", asked, "1024 at least".into())
        })?;
        let queues = config.rx_queues;
        let rss = match &config.rss {
            Some(_) if !caps.offloads.contains(Offloads::RSS) => {
                let allowed = "this device has none".into();
                return Err(unsupported("spreading by RSS", "a table".into(), allowed));
            }
            Some(rss) => Some(
                Spread::new(rss, queues, model.table())
                    .map_err(|allowed| unsupported("RSS", format!("{rss:?}"), allowed))?,
            ),
            // Of a virtual function without RSS, it is its PF that spreads.
            None if caps.offloads.contains(Offloads::RSS)
                && (queues > 1 || config.offloads.contains(Offloads::RSS)) =>
            {
                Some(Spread::even(queues, model.table()))
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
        let caps = caps(&model, &Has::PF, &Options::default()).unwrap();
        Shape::new("test", &model, &caps, config)
    }

    #[test]
    fn a_buffer_is_never_larger_than_the_frame_that_is_armed() {
        assert_eq!(buffer(1023), None);
        for capacity in 1024..20_000 {
            let buffer = usize::from(buffer(capacity).unwrap());
            assert!(buffer <= capacity && buffer.is_multiple_of(1024));
            assert!(buffer + 1024 > capacity || buffer == 16_384);
        }
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
        let good = shape(0x10fb, &rss(vec![0, 2])).unwrap().rss.unwrap();
        assert_eq!((good.table[126], good.table[127]), (0, 2));
        assert_eq!(good.table.len(), 128);
        let more = shape(0x1563, &rss(vec![0, 2])).unwrap().rss.unwrap();
        assert_eq!(more.table.len(), 512, "X550 has more entries");
        for bad in [vec![0, 3], vec![], vec![0; 3], vec![0; 129]] {
            assert!(shape(0x10fb, &rss(bad)).is_err());
        }
    }

    #[test]
    fn a_table_longer_than_the_device_s_must_repeat_itself() {
        let table = |last: u16| {
            let mut table: Vec<u16> = (0..128).map(|n| n % 2).collect();
            table[127] = last;
            Rss {
                key: vec![0; 40],
                table,
            }
        };
        let short = Spread::new(&table(1), 2, 64).unwrap();
        assert_eq!(short.table.len(), 64);
        assert!(Spread::new(&table(0), 2, 64).is_err());
    }

    #[test]
    fn rings_are_a_power_of_two() {
        let config = |slots| Config {
            tx_slots: Some(slots),
            ..Config::default()
        };
        for slots in [64, 8192] {
            assert!(shape(0x10fb, &config(slots)).is_ok());
        }
        for slots in [32, 100, 16_384] {
            assert!(shape(0x10fb, &config(slots)).is_err());
        }
    }
}
