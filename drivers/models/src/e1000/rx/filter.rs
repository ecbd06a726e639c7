//! Which frames are let in, and to which queue (82540 §3.2.1, 82576 §7.1.1).

use super::EVERYONE;
use crate::Mac;
use crate::e1000::E1000;
use crate::e1000::bits::{rctl, reg, rxcsum};
use crate::e1000::options::Kind;
use crate::e1000::packet::Packet;
use crate::e1000::rss::{self, Hash};

/// Longest frame with FCS where `LPE` allows long ones (82540 §13.4.22).
const LONGEST: u32 = 16_384;
/// RSS, as `MRQC` says it.
const RSS_82574: u32 = 1;
const RSS_82576: u32 = 2;

impl E1000 {
    pub(super) fn is_too_long(&self, len: u32, tagged: bool) -> bool {
        let with_fcs = len + 4;
        let long = self.registers.has(reg::RCTL, rctl::LPE);
        match (self.kind, long) {
            (Kind::Igb, true) => with_fcs > self.registers.get(reg::RLPML),
            (Kind::Igb, false) => len > 1514 + if tagged { 4 } else { 0 },
            (_, true) => with_fcs > LONGEST,
            // These two count a tag in whether there is one or not.
            (_, false) => with_fcs > 1522,
        }
    }

    /// The receive filter (82540 §3.2.1): VLAN, then address.
    #[inline]
    pub(super) fn accepts(&self, to: Mac, vlan: Option<u16>) -> bool {
        let control = self.registers.get(reg::RCTL);
        if let Some(tag) = vlan.filter(|_| control & rctl::VFE != 0) {
            let id = u32::from(tag & 0xfff);
            if !self.registers.has(reg::VFTA + id / 32 * 4, 1 << (id % 32)) {
                return false;
            }
        }
        let anyone = if to == EVERYONE {
            rctl::BAM
        } else if to[0] & 1 == 1 {
            rctl::MPE
        } else {
            rctl::UPE
        };
        control & anyone != 0 || self.has_address(to) || to[0] & 1 == 1 && self.in_groups(to)
    }

    /// True if one of the exact addresses is this one.
    fn has_address(&self, to: Mac) -> bool {
        let [a, b, c, d, e, f] = to;
        let low = u32::from_le_bytes([a, b, c, d]);
        let high = u32::from_le_bytes([e, f, 0, 0x80]);
        let is_it = |at: u32| {
            self.registers.get(at) == low && self.registers.get(at + 4) & 0x8003_ffff == high
        };
        let first = (0..16).any(|n| is_it(reg::RA + 8 * n));
        first || self.kind == Kind::Igb && (0..8).any(|n| is_it(reg::RA_MORE + 8 * n))
    }

    /// True if the multicast table has the address's bit (82540 §13.5.1).
    fn in_groups(&self, to: Mac) -> bool {
        let offset = self.registers.get(reg::RCTL) >> rctl::MO_SHIFT & 3;
        let shift = [4, 3, 2, 0][offset as usize];
        let bits = u32::from(to[5]) << 8 | u32::from(to[4]);
        let hash = bits >> shift & 0xfff;
        self.registers
            .has(reg::MTA + hash / 32 * 4, 1 << (hash % 32))
    }

    /// True if frames are spread over queues.
    fn has_rss(&self) -> bool {
        let mode = self.registers.get(reg::MRQC) & 7;
        match self.kind {
            Kind::E1000e => mode & 3 == RSS_82574,
            Kind::Igb => mode == RSS_82576,
            Kind::E1000 | Kind::IgbVf => false,
        }
    }

    /// Objects to spreading that the descriptors cannot report.
    pub(in crate::e1000) fn check_rss(&self) {
        if self.has_rss() && !self.registers.has(reg::RXCSUM, rxcsum::PCSD) {
            self.object("RSS while RXCSUM.PCSD is off: hash and checksum share a field (§7.1.2.8)");
        }
    }

    /// The hash, and the queue that it leads to.
    #[inline]
    pub(super) fn spread(&self, packet: &Packet<'_>) -> (Hash, u32) {
        let control = self.registers.get(reg::MRQC);
        if !self.has_rss() || !self.registers.has(reg::RXCSUM, rxcsum::PCSD) {
            self.check_rss();
            return (Hash::default(), 0);
        }
        let mut key = [0; 40];
        for (n, bytes) in (0..).zip(key.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&self.registers.get(reg::RSSRK + 4 * n).to_le_bytes());
        }
        let fields = match self.kind {
            Kind::E1000e => control & rss::FIELDS_82574,
            _ => control,
        };
        let hash = rss::hash(packet, fields, &key);
        if hash.kind == 0 {
            return (hash, 0);
        }
        let slot = hash.value & 0x7f;
        let entries = self.registers.get(reg::RETA + slot / 4 * 4).to_le_bytes();
        let entry = u32::from(entries[(slot % 4) as usize]);
        let queue = if self.kind == Kind::Igb {
            entry & 0xf
        } else {
            entry >> 7
        };
        (hash, queue)
    }
}
