//! Which frames a physical function accepts (developer's manual §3.2.1, 82576 §7.1.1).

use hw::Bar;
use intel::{Wanted, is_group};
use port::Mac;

use crate::regs::{self, Rctl};

/// Addresses that the device compares exactly, its own included. There are 16 places and more;
/// on 82574 the last may be the firmware's (Linux, `e1000_init_mac_params_82571`).
pub(crate) const EXACT: usize = 15;

/// The place of a group in the hash filter: bits 47:36 of the address, as RCTL.MO of 0 and the
/// mailbox of 82576 have it (developer's manual §13.5.1).
pub(crate) fn hash(group: &Mac) -> u16 {
    (u16::from(group[4]) >> 4 | u16::from(group[5]) << 4) & 0xfff
}

/// An address as its two registers hold it.
fn halves(mac: &Mac) -> (u32, u32) {
    let [a, b, c, d, e, f] = *mac;
    let high = u32::from(u16::from_le_bytes([e, f]));
    (u32::from_le_bytes([a, b, c, d]), high | regs::RAH_VALID)
}

/// The address that the device has of its own, if it has one.
pub(crate) fn own_address<B: Bar>(bar: &B) -> Option<Mac> {
    let low = bar.read(regs::RAL.of(0)).to_le_bytes();
    let high = bar.read(regs::RAH.of(0)).to_le_bytes();
    let mac = [low[0], low[1], low[2], low[3], high[0], high[1]];
    (mac != [0; 6] && !is_group(&mac)).then_some(mac)
}

/// Writes all addresses: the port's own, then stations, then groups as long as there are exact
/// places, the rest of the groups by their hash.
pub(crate) fn write_addresses<B: Bar>(bar: &B, own: &Mac, wanted: &Wanted) {
    let exact = [own].into_iter().chain(wanted.stations());
    let mut all = exact.chain(wanted.groups());
    for place in (0u32..).take(EXACT) {
        // Not valid while it changes.
        bar.write(regs::RAH.of(place), 0);
        if let Some(mac) = all.next() {
            let (low, high) = halves(mac);
            bar.write(regs::RAL.of(place), low);
            bar.write(regs::RAH.of(place), high);
        } else {
            bar.write(regs::RAL.of(place), 0);
        }
    }
    let mut table = [0u32; 128];
    for group in all {
        let hash = hash(group);
        table[usize::from(hash >> 5)] |= 1 << (hash & 31);
    }
    for (place, bits) in (0u32..).zip(table) {
        bar.write(regs::MTA.of(place), bits);
    }
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

/// The bits of receive control that say what is accepted.
pub(crate) fn modes(wanted: &Wanted) -> Rctl {
    let mut modes = Rctl::BAM;
    if wanted.promiscuous {
        modes |= Rctl::UPE | Rctl::MPE;
    }
    if wanted.all_multicast {
        modes |= Rctl::MPE;
    }
    modes
}
