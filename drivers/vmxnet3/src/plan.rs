//! What a run needs of the device, and the memory for it.

use std::sync::atomic::{AtomicU8, Ordering};

use hugemem::{Dma, Memory, MemoryError};
use port::{Caps, Config, Limits, Offloads, StartError};

use crate::area::{AREA, Area, QUEUE};
use crate::desc::{BUFFER_MAX, DATA, DataWords, HEAD_MIN, SLOT, Words};
use crate::filter::GROUPS_BYTES;
use crate::options::Options;
use crate::rss;
use crate::rx::CHAIN;

/// Boundary of rings and of the shared area (defs: `VMXNET3_RING_BA_ALIGN`).
const ALIGN: usize = 512;
/// Bytes around a payload, the FCS among them.
pub(crate) const AROUND: usize = 18;
/// Least MTU (defs: `VMXNET3_MIN_MTU`).
pub(crate) const MTU_MIN: usize = 60;
/// Largest MTU (defs: `VMXNET3_MAX_MTU`).
pub(crate) const MTU_MAX: usize = 9000;
/// MTU of a network where nobody says otherwise.
const MTU_ORDINARY: usize = 1500;
/// Bytes of a VLAN tag, and of an Ethernet header without one.
const TAGGED_HEADER: usize = 4 + 14;

/// Numbers that follow from a run's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Receive queues of the device: a power of two (Linux `vmxnet3_probe_device`), one at least.
    pub(crate) rx_queues: usize,
    /// Send queues of the device, the same.
    pub(crate) tx_queues: usize,
    /// Slots of each ring of heads, and of bodies.
    pub(crate) rx_slots: usize,
    /// Slots of each send ring.
    pub(crate) tx_slots: usize,
    /// Send queues have data rings.
    pub(crate) data_ring: bool,
    /// Receive queues have data rings.
    pub(crate) rx_data_ring: bool,
    /// Most buffers of a received frame.
    pub(crate) chain: usize,
    /// Largest payload.
    pub(crate) mtu: usize,
}

impl Shape {
    /// The shape that `config` asks for; `mtu` if the user set one.
    pub(crate) fn new(
        port: &str,
        caps: &Caps,
        (options, revision): (&Options, u32),
        mtu: Option<usize>,
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
        let rx_slots = config.rx_slots.unwrap_or(caps.rx_slots.default);
        let tx_slots = config.tx_slots.unwrap_or(caps.tx_slots.default);
        for (what, asked, limits) in [
            ("receive queues", config.rx_queues, &caps.rx_queues),
            ("send queues", config.tx_queues, &caps.tx_queues),
            ("slots of a receive ring", rx_slots, &caps.rx_slots),
            ("slots of a send ring", tx_slots, &caps.tx_slots),
        ] {
            if !limits.allow(asked) {
                return Err(unsupported(what, asked.to_string(), words(limits)));
            }
        }
        let (chain, mtu) = sizes(config, mtu).map_err(|allowed| {
            unsupported(
                "bytes of a receive frame",
                config.rx_capacity.to_string(),
                allowed,
            )
        })?;
        if let Some(rss) = &config.rss {
            let offered = caps.offloads.contains(Offloads::RSS);
            rss::check(rss, offered, config.rx_queues.max(1)).map_err(|allowed| {
                unsupported("spreading by RSS", "this key and table".into(), allowed)
            })?;
        }
        Ok(Self {
            rx_queues: config.rx_queues.max(1).next_power_of_two(),
            tx_queues: config.tx_queues.max(1).next_power_of_two(),
            rx_slots,
            tx_slots,
            data_ring: options.data_ring.unwrap_or(revision >= 2),
            rx_data_ring: revision >= 3 && options.rx_data_ring.unwrap_or(true),
            chain,
            mtu,
        })
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let round = |bytes: usize| bytes.next_multiple_of(ALIGN);
        let data = |on: bool, slots: usize| if on { slots * DATA } else { 0 };
        let tx = 2 * round(self.tx_slots * SLOT) + data(self.data_ring, self.tx_slots);
        let rx = 4 * round(self.rx_slots * SLOT) + data(self.rx_data_ring, self.rx_slots);
        let fixed = [AREA, self.queues() * QUEUE, GROUPS_BYTES, rss::BYTES];
        let fixed: usize = fixed.into_iter().map(round).sum();
        // The first may have to begin up to a boundary later.
        ALIGN + fixed + self.tx_queues * tx + self.rx_queues * rx
    }

    /// Queues of both kinds.
    pub(crate) fn queues(&self) -> usize {
        self.tx_queues + self.rx_queues
    }

    /// Carves the memory that it takes.
    pub(crate) fn carve(&self, memory: &Memory) -> Result<Parts, MemoryError> {
        let area = Area::new(memory.carve(AREA / 4, ALIGN)?);
        let queues = Area::new(memory.carve(self.queues() * QUEUE / 4, ALIGN)?);
        let groups = memory.carve(GROUPS_BYTES, ALIGN)?;
        let rss = memory.carve(rss::BYTES, ALIGN)?;
        let mut tx = Vec::new();
        for number in 0..self.tx_queues {
            tx.push(TxMemory {
                area: queues.part(number, QUEUE),
                ring: memory.carve(self.tx_slots, ALIGN)?,
                completions: memory.carve(self.tx_slots, ALIGN)?,
                data: carve_if(self.data_ring, memory, self.tx_slots)?,
            });
        }
        let mut rx = Vec::new();
        for number in 0..self.rx_queues {
            rx.push(RxMemory {
                area: queues.part(self.tx_queues + number, QUEUE),
                heads: memory.carve(self.rx_slots, ALIGN)?,
                bodies: memory.carve(self.rx_slots, ALIGN)?,
                completions: memory.carve(2 * self.rx_slots, ALIGN)?,
                data: carve_if(self.rx_data_ring, memory, self.rx_slots)?,
            });
        }
        Ok(Parts {
            shape: self.clone(),
            area,
            queues,
            groups,
            rss,
            tx,
            rx,
        })
    }
}

/// What limits allow, in words.
pub(crate) fn words(limits: &Limits) -> String {
    let power = if limits.power_of_two {
        ", a power of two"
    } else {
        ""
    };
    format!("{} to {}{power}", limits.range.start(), limits.range.end())
}

/// Most buffers of a received frame, and the MTU. What is wrong with the buffers, else.
///
/// The device shall expect no frame that its buffers cannot take: where the user did not set an
/// MTU, it follows from them.
fn sizes(config: &Config, mtu: Option<usize>) -> Result<(usize, usize), String> {
    if config.rx_queues == 0 {
        return Ok((1, mtu.unwrap_or(MTU_MAX)));
    }
    if config.rx_capacity < HEAD_MIN {
        return Err(format!("{HEAD_MIN} at least"));
    }
    let buffer = config.rx_capacity.min(BUFFER_MAX);
    if !config.offloads.contains(Offloads::RX_SCATTER) {
        let fitting = buffer.saturating_sub(TAGGED_HEADER);
        return Ok((1, mtu.unwrap_or(fitting.clamp(MTU_ORDINARY, MTU_MAX))));
    }
    let most = MTU_MAX.min(CHAIN * buffer - TAGGED_HEADER);
    let mtu = mtu.unwrap_or(most);
    let chain = (mtu + TAGGED_HEADER).div_ceil(buffer);
    if chain > CHAIN {
        let least = (mtu + TAGGED_HEADER).div_ceil(CHAIN);
        return Err(format!("{least} at least, for an MTU of {mtu}"));
    }
    Ok((chain, mtu))
}

fn carve_if(
    on: bool,
    memory: &Memory,
    slots: usize,
) -> Result<Option<Dma<DataWords>>, MemoryError> {
    on.then(|| memory.carve(slots, ALIGN)).transpose()
}

/// Memory of a send queue.
#[derive(Clone)]
pub(crate) struct TxMemory {
    /// The queue's descriptor.
    pub(crate) area: Area,
    /// The ring.
    pub(crate) ring: Dma<Words>,
    /// Completions: as many slots.
    pub(crate) completions: Dma<Words>,
    /// The data ring: as many slots.
    pub(crate) data: Option<Dma<DataWords>>,
}

/// Memory of a receive queue.
#[derive(Clone)]
pub(crate) struct RxMemory {
    /// The queue's descriptor.
    pub(crate) area: Area,
    /// The ring of heads.
    pub(crate) heads: Dma<Words>,
    /// The ring of bodies.
    pub(crate) bodies: Dma<Words>,
    /// Completions: as many slots as both have.
    pub(crate) completions: Dma<Words>,
    /// The data ring: a slot for each head.
    pub(crate) data: Option<Dma<DataWords>>,
}

/// The memory of a run, kept from one start to the next, as memory is carved for good.
#[derive(Clone)]
pub(crate) struct Parts {
    /// What it was carved for.
    pub(crate) shape: Shape,
    /// The shared area.
    pub(crate) area: Area,
    /// All queue descriptors: send, then receive.
    pub(crate) queues: Area,
    /// The table of groups.
    pub(crate) groups: Dma<AtomicU8>,
    /// The RSS configuration.
    pub(crate) rss: Dma<AtomicU8>,
    /// Send queues.
    pub(crate) tx: Vec<TxMemory>,
    /// Receive queues.
    pub(crate) rx: Vec<RxMemory>,
}

impl Parts {
    /// Makes everything zero: every ring empty.
    pub(crate) fn clear(&self) {
        self.area.clear();
        self.queues.clear();
        for queue in &self.tx {
            clear(&queue.ring);
            clear(&queue.completions);
        }
        for queue in &self.rx {
            for ring in [&queue.heads, &queue.bodies, &queue.completions] {
                clear(ring);
            }
        }
    }

    /// True if it is part of `memory` and has the rings of `shape`.
    pub(crate) fn serves(&self, memory: &Memory, shape: &Shape) -> bool {
        let rings = Shape {
            chain: shape.chain,
            mtu: shape.mtu,
            ..self.shape.clone()
        };
        self.area.words().is_in(memory) && rings == *shape
    }
}

fn clear(ring: &[Words]) {
    for word in ring.iter().flatten() {
        word.store(0, Ordering::Relaxed);
    }
}
