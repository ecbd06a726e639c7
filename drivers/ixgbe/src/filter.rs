//! Which frames a physical function accepts (82599 datasheet §7.1.1).

use hw::Bar;
use intel::{Wanted, is_group};
use port::Mac;

use crate::regs::{self, Fctrl, PLACES};

/// Addresses that the device compares exactly, its own included. The last place is left to
/// storage's address (Linux, `ixgbe_reset_hw_82599`, SAN MAC).
const EXACT: u32 = PLACES - 1;

/// The place of a group in the hash filter: 12 bits of the address, from bit 36, 35, 34 or 32 on
/// as `kind` (MCSTCTRL.MO) says (82599 datasheet §8.2.3.7).
pub(crate) fn hash(group: &Mac, kind: u32) -> u16 {
    let shift = [4, 3, 2, 0][usize::try_from(kind & 3).unwrap_or(0)];
    let [low, high] = [u32::from(group[4]), u32::from(group[5])];
    let bits = ((high << 8 | low) >> shift) & 0xfff;
    u16::try_from(bits).unwrap_or(0)
}

/// An address as its two registers hold it.
fn halves(mac: &Mac) -> (u32, u32) {
    let [a, b, c, d, e, f] = *mac;
    let high = u32::from(u16::from_le_bytes([e, f]));
    (u32::from_le_bytes([a, b, c, d]), high | regs::RAH_VALID)
}

/// The address that the device has of its own, if it has one.
pub(crate) fn own_address<B: Bar>(bar: &B) -> Option<Mac> {
    let (low, high) = regs::address(0);
    let low = bar.read(low).to_le_bytes();
    let high = bar.read(high).to_le_bytes();
    let mac = [low[0], low[1], low[2], low[3], high[0], high[1]];
    (mac != [0; 6] && !is_group(&mac)).then_some(mac)
}

/// Further unicast addresses that a physical function can compare.
pub(crate) const STATIONS: usize = 126;

/// Writes all addresses: the port's own, then stations, then groups as long as there are exact
/// places, the rest of the groups by their hash.
pub(crate) fn write_addresses<B: Bar>(bar: &B, own: &Mac, wanted: &Wanted) {
    let exact = [own].into_iter().chain(wanted.stations());
    let mut all = exact.chain(wanted.groups());
    for place in 0..EXACT {
        let (low_place, high_place) = regs::address(place);
        // Not valid while it changes.
        bar.write(high_place, 0);
        let Some(mac) = all.next() else {
            bar.write(low_place, 0);
            continue;
        };
        let (low, high) = halves(mac);
        bar.write(low_place, low);
        bar.write(high_place, high);
    }
    let mut table = [0u32; 128];
    for group in all {
        let hash = hash(group, 0);
        table[usize::from(hash >> 5)] |= 1 << (hash & 31);
    }
    for (place, bits) in (0u32..).zip(table) {
        bar.write(regs::MTA.of(place), bits);
    }
    bar.write(regs::MCSTCTRL, regs::Mcstctrl::MFE);
}

/// Writes the VLAN filter.
pub(crate) fn write_vlans<B: Bar>(bar: &B, wanted: &Wanted) {
    let mut table = [0u32; 128];
    for id in &wanted.vlans {
        table[usize::from(id >> 5)] |= 1 << (id & 31);
    }
    for (place, bits) in (0u32..).zip(table) {
        bar.write(regs::VFTA.of(place), bits);
    }
}

/// Notes in the VLAN filter that `id` is accepted, or no longer.
pub(crate) fn write_vlan<B: Bar>(bar: &B, id: u16, on: bool) {
    let place = regs::VFTA.of(u32::from(id >> 5));
    let bit = 1 << (id & 31);
    bar.update(place, |bits| if on { bits | bit } else { bits & !bit });
}

/// The bits of filter control that say what is accepted.
pub(crate) fn modes(wanted: &Wanted) -> Fctrl {
    let mut modes = Fctrl::BAM;
    if wanted.promiscuous {
        modes |= Fctrl::UPE | Fctrl::MPE;
    }
    if wanted.all_multicast {
        modes |= Fctrl::MPE;
    }
    modes
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_group_has_a_place_by_the_twelve_bits_that_its_kind_names() {
        // Bytes 4 and 5 are 0xa5 and 0xc3: bits 47:32 of the address are 0xc3a5.
        let group = [1, 0, 0x5e, 0, 0xa5, 0xc3];
        let places = [0, 1, 2, 3].map(|kind| hash(&group, kind));
        assert_eq!(places, [0xc3a, 0x874, 0x0e9, 0x3a5]);
    }
}
