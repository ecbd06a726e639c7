//! Which frames are let in, and to which queues (82599 §7.1.1, §7.1.2, §7.10.3).

use super::Ixgbe;
use super::bits::{fctrl, hlreg, reg, vmolr, vt};
use super::options::Kind;
use super::rss::{Hash, KEY};
use crate::Mac;
use crate::e1000::packet::Packet;

const EVERYONE: Mac = [0xff; 6];
/// Longest frame with FCS that the device takes (§8.2.3.22.13), and the longest usual one.
const LONGEST: u32 = 15_872;
const USUAL: u32 = 1518;
const TAG: u32 = 4;
/// `VLNCTRL.VFE`; `MCSTCTRL.MFE`; `VLVF.VIEN`; `RXCSUM.PCSD`.
const VLAN_FILTER: u32 = 1 << 30;
const TABLE_FILTER: u32 = 1 << 2;
const VALID: u32 = 1 << 31;
const HASH_REPORTED: u32 = 1 << 13;

/// Where a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    /// Its address is one of the exact ones, or everyone's.
    pub(super) exact: bool,
    /// The pools that get it, a bit each; the only one is 0 where there are no pools.
    pub(super) pools: u64,
}

impl Ixgbe {
    /// True if a frame of `len` bytes without FCS is longer than `MHADD.MFS` allows.
    #[inline]
    pub(super) fn is_too_long(&self, len: u32, tagged: bool) -> bool {
        let most = if self.registers.has(reg::HLREG0, hlreg::JUMBOEN) {
            (self.registers.get(reg::MHADD) >> 16).min(LONGEST)
        } else {
            USUAL
        };
        len + 4 > most + if tagged { TAG } else { 0 }
    }

    fn has_pools(&self) -> bool {
        self.registers.has(reg::VT_CTL, vt::ENABLE)
    }

    /// Queues of a pool.
    pub(super) fn queues_per_pool(&self) -> u32 {
        match self.registers.get(reg::MRQC) & 0xf {
            0xa => 4,
            _ => 2,
        }
    }

    /// The pool that a transmit queue is in, where there are pools.
    pub(super) fn pool_of(&self, queue: u32) -> Option<u32> {
        self.has_pools().then(|| queue / self.queues_per_pool())
    }

    /// Works the list of addresses out, where it was changed.
    pub(super) fn refresh_addresses(&mut self) {
        if !std::mem::take(&mut self.addresses_stale) {
            return;
        }
        self.addresses.clear();
        for n in 0..128 {
            let [a, b, c, d] = self.registers.get(reg::RAL_ALL + 8 * n).to_le_bytes();
            let high = self.registers.get(reg::RAL_ALL + 4 + 8 * n);
            let [e, f, ..] = high.to_le_bytes();
            if high & VALID != 0 {
                let pools = self.registers.pair(reg::MPSAR + 8 * n);
                self.addresses.push(([a, b, c, d, e, f], pools));
            }
        }
    }

    /// Works the key out, where it was changed.
    pub(super) fn refresh_key(&mut self) {
        if std::mem::take(&mut self.key_stale) {
            let mut key = [0; KEY];
            for (n, bytes) in (0..).zip(key.chunks_exact_mut(4)) {
                bytes.copy_from_slice(&self.registers.get(reg::RSSRK + 4 * n).to_le_bytes());
            }
            self.key = super::rss::Key::new(&key);
        }
    }

    /// The receive filter: VLAN, address, then pools. None: not let in.
    #[inline]
    pub(super) fn route(&self, to: Mac, vlan: Option<u16>) -> Option<Route> {
        let tag = vlan.filter(|_| self.registers.has(reg::VLNCTRL, VLAN_FILTER));
        let id = tag.map(|tag| u32::from(tag & 0xfff));
        if id.is_some_and(|id| !self.registers.bit(reg::VFTA, id)) {
            return None;
        }
        let found = self.addresses.iter().filter(|(known, _)| *known == to);
        let mut pools = 0;
        let mut exact = to == EVERYONE;
        for (_, more) in found {
            pools |= more;
            exact = true;
        }
        let hash = self.hash_of(to);
        let in_table = if to[0] & 1 == 1 {
            self.registers.has(reg::MCSTCTRL, TABLE_FILTER) && self.registers.bit(reg::MTA, hash)
        } else {
            self.registers.bit(reg::UTA, hash)
        };
        let anyone = if to == EVERYONE {
            fctrl::BAM
        } else if to[0] & 1 == 1 {
            fctrl::MPE
        } else {
            fctrl::UPE
        };
        let known = exact && to != EVERYONE;
        if !self.has_pools() {
            let open = known || in_table || self.registers.has(reg::FCTRL, anyone);
            return open.then_some(Route { exact, pools: 1 });
        }
        let pools = self.pools_of(to, id, vlan, pools, in_table);
        (pools != 0).then_some(Route { exact, pools })
    }

    /// The pools that a frame goes to (§7.10.3.3 to §7.10.3.5).
    fn pools_of(
        &self,
        to: Mac,
        id: Option<u32>,
        vlan: Option<u16>,
        exact: u64,
        in_table: bool,
    ) -> u64 {
        let with = |bits: u32| {
            (0..64).fold(0u64, |pools, n| {
                pools | u64::from(self.registers.has(reg::VMOLR + 4 * n, bits)) << n
            })
        };
        let control = self.registers.get(reg::VT_CTL);
        let mut pools = exact;
        if to == EVERYONE {
            pools |= with(vmolr::BAM);
        } else if to[0] & 1 == 1 {
            pools |= with(vmolr::MPE) | if in_table { with(vmolr::ROMPE) } else { 0 };
        } else {
            pools |= with(vmolr::UPE) | if in_table { with(vmolr::ROPE) } else { 0 };
        }
        if pools == 0 && control & vt::NO_DEFAULT == 0 {
            pools = 1 << (control >> vt::POOL_SHIFT & 0x3f);
        }
        pools &= match id {
            Some(id) => {
                let entry = (0..64).find(|n| self.registers.get(reg::VLVF + 4 * n) == VALID | id);
                let members = entry.map_or(0, |n| self.registers.pair(reg::VLVFB + 8 * n));
                members | with(vmolr::VPE)
            }
            None if vlan.is_none() => with(vmolr::AUPE),
            None => u64::MAX,
        };
        pools &= self.registers.pair(reg::VFRE);
        if control & vt::REPLICATE == 0 {
            pools &= pools.wrapping_neg();
        }
        pools
    }

    /// The twelve bits of an address that the tables are asked with (§7.1.1.2).
    fn hash_of(&self, to: Mac) -> u32 {
        let shift = [4, 3, 2, 0][(self.registers.get(reg::MCSTCTRL) & 3) as usize];
        let bits = u32::from(to[5]) << 8 | u32::from(to[4]);
        bits >> shift & 0xfff
    }

    /// True if received hashes are reported, in place of checksums.
    #[inline]
    pub(super) fn reports_hash(&self) -> bool {
        self.registers.has(reg::RXCSUM, HASH_REPORTED)
    }

    /// The hash of a frame, where one is made.
    #[inline]
    pub(super) fn hash(&self, packet: &Packet<'_>) -> Hash {
        let control = self.registers.get(reg::MRQC);
        if !matches!(control & 0xf, 1 | 0xa | 0xb) {
            return Hash::default();
        }
        if !self.reports_hash() {
            self.object("RSS while RXCSUM.PCSD is off: hash and checksum share a field (§7.1.2.8)");
        }
        self.key.hash(packet, control)
    }

    /// The queue that a pool's frame goes to.
    #[inline]
    pub(super) fn queue_in(&self, pool: u32, hash: Hash) -> u32 {
        let spread = if hash.kind == 0 {
            0
        } else {
            self.entry_of(hash.value)
        };
        if !self.has_pools() {
            return spread;
        }
        let bits = self.registers.get(reg::PSRTYPE + 4 * pool) >> 29;
        pool * self.queues_per_pool() + (spread & ((1 << bits) - 1))
    }

    /// What the redirection table says (§7.1.2.8.1; X550 has four times as long a one).
    fn entry_of(&self, hash: u32) -> u32 {
        let (slot, mask) = match self.kind {
            Kind::X550 => (hash & 0x1ff, 0x3f),
            Kind::I82599 | Kind::X540 => (hash & 0x7f, 0xf),
        };
        let at = if slot < 128 {
            reg::RETA + slot / 4 * 4
        } else {
            reg::ERETA + (slot - 128) / 4 * 4
        };
        let entries = self.registers.get(at).to_le_bytes();
        u32::from(entries[(slot % 4) as usize]) & mask
    }
}
