//! What a device can do.

use port::{Caps, Limits, Offloads};

use crate::desc::{SLOTS_MAX, SLOTS_MIN};
use crate::error::OpenError;
use crate::options::Options;
use crate::plan::{AROUND, MTU_MAX, words};
use crate::tx::SEGMENTS;

/// Slots of a ring when nobody asks.
const SLOTS: usize = 1024;
/// Send queues (defs: `VMXNET3_MAX_TX_QUEUES`).
const TX_QUEUES: usize = 8;
/// Receive queues (defs: `VMXNET3_MAX_RX_QUEUES`). QEMU's device, of revision 1, takes 8.
const RX_QUEUES: [usize; 2] = [8, 16];
/// The first revision whose devices spread frames: what VMware offers since ESXi 6.0. QEMU's has
/// revision 1 and puts every frame into queue 0.
const SPREADS: u32 = 2;

/// What a device of `revision` can do, with the defaults that `options` ask for.
pub(crate) fn caps(port: &str, revision: u32, options: &Options) -> Result<Caps, OpenError> {
    let queues = |most| Limits {
        range: 0..=most,
        default: options.queues.unwrap_or(1),
        power_of_two: false,
    };
    // Any multiple of 32 would do until revision 7; powers of two always do.
    let slots = |asked: Option<usize>| Limits {
        range: SLOTS_MIN..=SLOTS_MAX,
        default: asked.unwrap_or(SLOTS),
        power_of_two: true,
    };
    let tx_queues = queues(TX_QUEUES);
    let (rx_slots, tx_slots) = (slots(options.rx_slots), slots(options.tx_slots));
    for (option, limits) in [
        ("queues", &tx_queues),
        ("rx_slots", &rx_slots),
        ("tx_slots", &tx_slots),
    ] {
        if limits.default == 0 || !limits.allow(limits.default) {
            return Err(OpenError::Option {
                port: port.to_owned(),
                option,
                value: limits.default,
                allowed: words(limits),
            });
        }
    }
    let mut offloads = Offloads::TX_L4_CHECKSUM
        | Offloads::TX_VLAN
        | Offloads::RX_CHECKSUM
        | Offloads::RX_VLAN
        | Offloads::RX_SCATTER
        | Offloads::PROMISCUOUS
        | Offloads::ALL_MULTICAST
        | Offloads::GROUP_FILTER
        | Offloads::VLAN_FILTER
        | Offloads::SET_MAC
        | Offloads::SET_MTU;
    offloads.set(Offloads::RSS, revision >= SPREADS);
    Ok(Caps {
        rx_queues: queues(RX_QUEUES[usize::from(revision >= SPREADS)]),
        tx_queues,
        rx_slots,
        tx_slots,
        max_frame: MTU_MAX + AROUND,
        max_segments: SEGMENTS,
        offloads,
    })
}
