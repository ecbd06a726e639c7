//! The device's own configuration: MAC address, link, queues, MTU, speed (§5.1.4).

use super::bits::feature;
use super::options::VirtioOptions;
use super::rss;
use crate::Mac;
use crate::device::LinkReport;

const LINK_UP: u16 = 1;
const ANNOUNCE: u16 = 2;
/// Full duplex.
const DUPLEX: u8 = 1;

/// Bytes of the configuration that are modelled.
pub(super) const BYTES: u32 = 24;

/// A field: where it is, how wide, and which feature brings it.
struct Field {
    offset: u32,
    width: u8,
    feature: u64,
}

/// Every field but the address, whose bytes are fields each.
const FIELDS: [Field; 8] = [
    field(6, 2, feature::STATUS),
    field(8, 2, feature::MQ | feature::RSS),
    field(10, 2, feature::MTU),
    field(12, 4, feature::SPEED_DUPLEX),
    field(16, 1, feature::SPEED_DUPLEX),
    field(17, 1, feature::RSS | feature::HASH_REPORT),
    field(18, 2, feature::RSS),
    field(20, 4, feature::RSS | feature::HASH_REPORT),
];

const fn field(offset: u32, width: u8, feature: u64) -> Field {
    Field {
        offset,
        width,
        feature,
    }
}

/// What the configuration says now.
pub(super) struct NetConfig {
    pub(super) mac: Mac,
    pub(super) link: LinkReport,
    pub(super) announce: bool,
    pairs: u16,
    mtu: u16,
    /// Changes with every change of the rest, so that a driver which reads in two steps sees
    /// that it must read again (§2.5.3).
    pub(super) generation: u8,
}

impl NetConfig {
    pub(super) fn new(options: &VirtioOptions) -> Self {
        Self {
            mac: options.mac,
            link: LinkReport {
                up: true,
                speed_bps: 0,
            },
            announce: false,
            pairs: options.pairs,
            mtu: options.mtu.unwrap_or(0),
            generation: 0,
        }
    }

    pub(super) fn change(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Reads with the width of a field, as the modern interface wants it (§4.1.3.1).
    pub(super) fn read(&self, offset: u32, width: u8, offered: u64) -> Result<u32, String> {
        let is_mac = offset < 6 && width == 1;
        let field = FIELDS
            .iter()
            .find(|field| field.offset == offset && field.width == width);
        match field {
            Some(field) if field.feature & offered == 0 => Err(format!(
                "read of the configuration at {offset}, a field that no offered feature brings"
            )),
            Some(_) => Ok(self.read_any(offset, width)),
            None if is_mac => Ok(self.read_any(offset, width)),
            None => Err(format!(
                "read of {width} bytes of the configuration at {offset}, where no field of that \
                 width is (§4.1.3.1)"
            )),
        }
    }

    /// Reads with any width, as the legacy interface allows.
    pub(super) fn read_any(&self, offset: u32, width: u8) -> u32 {
        let bytes = self.bytes();
        (offset..offset + u32::from(width))
            .rev()
            .fold(0, |value, at| {
                let byte = bytes.get(at as usize).copied().unwrap_or(0);
                value << 8 | u32::from(byte)
            })
    }

    fn bytes(&self) -> [u8; BYTES as usize] {
        let mut status = 0;
        if self.link.up {
            status |= LINK_UP;
        }
        if self.announce {
            status |= ANNOUNCE;
        }
        // Unknown where it is too fast to say (§5.1.4).
        let megabits = self.link.speed_bps / 1_000_000;
        let speed = u32::try_from(megabits).ok().filter(|&mbit| mbit > 0);
        let mut bytes = [0; BYTES as usize];
        bytes[..6].copy_from_slice(&self.mac);
        bytes[6..8].copy_from_slice(&status.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.pairs.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.mtu.to_le_bytes());
        bytes[12..16].copy_from_slice(&speed.unwrap_or(u32::MAX).to_le_bytes());
        bytes[16] = DUPLEX;
        bytes[17] = rss::KEY_MOST;
        bytes[18..20].copy_from_slice(&rss::TABLE_MOST.to_le_bytes());
        bytes[20..24].copy_from_slice(&rss::TYPES.to_le_bytes());
        bytes
    }
}
