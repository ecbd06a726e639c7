//! What a device can do, and what it makes of receive frames.

use std::ops::RangeInclusive;

use intel::{Fit, Options};
use port::{Caps, Limits, Offloads};

use crate::desc::SEGMENTS;
use crate::kind::{Kind, Model};

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

/// The largest buffer that the device can use of frames that hold `capacity` bytes: counted in
/// units of 1 KiB, up to 16 (82599 datasheet §8.2.3.8, SRRCTL).
fn buffer(capacity: usize) -> Option<u16> {
    let units = u16::try_from((capacity / 1024).min(16)).unwrap_or(16);
    (units > 0).then_some(units * 1024)
}

/// What `model` makes of frames that hold `capacity` bytes.
pub(crate) fn fit(model: &Model, capacity: usize) -> Fit {
    Fit {
        buffer: buffer(capacity),
        least: 1024,
        table: model.table(),
    }
}

#[cfg(test)]
mod test {
    use intel::Shape;
    use port::{Config, Rss, StartError};

    use super::*;

    fn shape(device: u16, config: &Config) -> Result<Shape, StartError> {
        let model = Model::of(0x8086, device).unwrap();
        let caps = caps(&model, &Has::PF, &Options::default()).unwrap();
        Shape::new("test", &caps, config, &fit(&model, config.rx_capacity))
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
