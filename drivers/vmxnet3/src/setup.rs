//! Fills the shared area and the queue descriptors in, for the device to read when it is activated.

use hugemem::Iova;
use port::{Config, Offloads, Rss};

use crate::area::{Area, GUEST, MAGIC, QUEUE, at, feature, queue};
use crate::desc::DATA;
use crate::filter::Filter;
use crate::plan::{Parts, RxMemory, TxMemory};
use crate::rss;

/// Version of the driver, as the device is told: 1.0.0.0.
const DRIVER_VERSION: u32 = 1 << 24;
/// [`at::INTERRUPTS`]: no auto-mask, one interrupt, number 0 for events.
const ONE_INTERRUPT: u32 = 1 << 8;
/// [`at::INTERRUPT_CONTROL`]: none is raised (defs: `VMXNET3_IC_DISABLE_ALL`).
const NO_INTERRUPTS: u32 = 1;

/// Fills in everything. `parts` is all zero.
pub(crate) fn fill(parts: &Parts, config: &Config, filter: &Filter, rss: Option<&Rss>) {
    let (area, shape) = (&parts.area, &parts.shape);
    area.put(at::MAGIC, MAGIC);
    area.put(at::DRIVER_VERSION, DRIVER_VERSION);
    area.put(at::GOS, GUEST);
    area.put(at::REVISION, 1);
    area.put(at::UPT_VERSION, 1);
    let mut features = 0;
    for (offload, bit) in [
        (Offloads::RX_CHECKSUM, feature::RXCSUM),
        (Offloads::RX_VLAN, feature::RXVLAN),
    ] {
        if config.offloads.contains(offload) {
            features |= bit;
        }
    }
    if let Some(rss) = rss {
        features |= feature::RSS;
        rss::write(rss, &parts.rss);
        area.put(at::RSS, 1);
        area.put(at::RSS + 4, narrow(rss::BYTES));
        area.put_address(at::RSS + 8, parts.rss.iova());
    }
    area.put(at::UPT_FEATURES, features);
    area.put_address(at::QUEUE_DESC_PA, parts.queues.iova());
    area.put(at::QUEUE_DESC_LEN, narrow(shape.queues() * QUEUE));
    area.put(at::MTU, narrow(shape.mtu));
    let queues = shape.chain | shape.tx_queues << 16 | shape.rx_queues << 24;
    area.put(at::QUEUES, narrow(queues));
    area.put(at::INTERRUPTS, ONE_INTERRUPT);
    area.put(at::INTERRUPT_CONTROL, NO_INTERRUPTS);
    area.put_address(at::GROUPS_PA, parts.groups.iova());
    filter.write_mode(area);
    filter.write_groups(area, &parts.groups);
    filter.write_vlans(area, config.offloads.contains(Offloads::VLAN_FILTER));
    parts.tx.iter().for_each(fill_tx);
    parts.rx.iter().for_each(fill_rx);
}

fn fill_tx(memory: &TxMemory) {
    let area = &memory.area;
    area.put_address(queue::RING_PA, memory.ring.iova());
    area.put_address(queue::COMPLETIONS_PA, memory.completions.iova());
    area.put(queue::RING_LEN, narrow(memory.ring.len()));
    area.put(queue::COMPLETIONS_LEN, narrow(memory.completions.len()));
    if let Some(data) = &memory.data {
        area.put(queue::SECOND_LEN, narrow(data.len()));
        fill_data(area, queue::TX_DATA_PA, data.iova());
    }
}

fn fill_rx(memory: &RxMemory) {
    let area = &memory.area;
    area.put_address(queue::RING_PA, memory.heads.iova());
    area.put_address(queue::RING_PA + 8, memory.bodies.iova());
    area.put_address(queue::COMPLETIONS_PA, memory.completions.iova());
    area.put(queue::RING_LEN, narrow(memory.heads.len()));
    area.put(queue::SECOND_LEN, narrow(memory.bodies.len()));
    area.put(queue::COMPLETIONS_LEN, narrow(memory.completions.len()));
    if let Some(data) = &memory.data {
        fill_data(area, queue::RX_DATA_PA, data.iova());
    }
}

/// A data ring's place, and the size of its slots. The queue's interrupt is number 0.
fn fill_data(area: &Area, place: usize, iova: Iova) {
    area.put_address(place, iova);
    area.put(queue::INTERRUPT_DATA_SIZE, narrow(DATA << 16));
}

fn narrow(value: usize) -> u32 {
    u32::try_from(value).expect("sizes and counts of a ring are small")
}
