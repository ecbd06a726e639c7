//! What a device can do, and what it makes of receive frames.

use std::ops::RangeInclusive;

use intel::{Fit, Options};
use port::{Caps, Limits, Offloads};

use crate::desc::SEGMENTS;
use crate::kind::{Kind, Model};

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
        Kind::E1000 => all | Offloads::PROMISCUOUS,
        Kind::E1000e | Kind::Igb => all | Offloads::PROMISCUOUS | Offloads::RSS,
        // The PF's mailbox has no request for promiscuous mode, and RSS belongs to the PF.
        Kind::IgbVf => all,
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

/// What a device of `kind` makes of frames that hold `capacity` bytes.
pub(crate) fn fit(kind: Kind, capacity: usize) -> Fit {
    Fit {
        buffer: buffer(kind, capacity),
        least: if kind == Kind::IgbVf { 1024 } else { 256 },
        table: TABLE,
    }
}

#[cfg(test)]
mod test {
    use intel::Shape;
    use port::{Config, Rss, StartError};

    use super::*;

    fn shape(device: u16, config: &Config) -> Result<Shape, StartError> {
        let model = Model::of(0x8086, device).unwrap();
        let caps = caps(&model, &Options::default()).unwrap();
        Shape::new("test", &caps, config, &fit(model.kind, config.rx_capacity))
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
