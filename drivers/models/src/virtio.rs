//! The virtio-net device, as virtio 1.2 describes it, as a PCI function.
//!
//! Three faces: modern, transitional with the legacy I/O window beside, legacy alone
//! ([`Identity`]). Behind them one device: status and features in their order, queues of split or
//! packed rings, a control queue, a receive filter. Section marks (§) are the standard's.
//!
//! Where the standard leaves a choice, QEMU's is taken: the filter's rules, promiscuity after a
//! reset, frames dropped (and counted) when there is no buffer or before `DRIVER_OK`, a broken
//! chain that stops the device with `NEEDS_RESET`, queues that come and go with the features that
//! the driver writes, the number of queues that counts those, a control queue of 64 slots. One
//! choice is the model's own: with several pairs of queues and no RSS it spreads received frames by
//! a hash of their addresses and ports, as QEMU's `tap` has the kernel do; the hash is no
//! standard's.
//!
//! Not modelled: segmentation offloads (never offered), hashes that look behind IPv6 extension
//! headers (not offered either), MSI-X vectors (the
//! registers read back "no vector"; interrupts are the line of INTx, which the ISR register lets
//! go).

mod bits;
pub(crate) mod checksum;
mod config;
mod control;
mod doorbell;
mod filter;
mod layout;
mod legacy;
mod options;
mod pci;
mod queue;
mod registers;
mod ring;
mod rss;
mod rx;
mod status;
mod steer;
mod tx;

use std::ops::Range;
use std::sync::Arc;

use hugemem::{SimSpace, Translator};

use crate::counters::{DeviceCounters, DeviceCounts};
use crate::device::{Device, Doorbells, LinkReport, RingPlace, RingRole};
use crate::faults::{DeviceFaults, Fault};
use crate::frames::{Batch, Carrier, Segment, WireFrame};
use crate::interrupt::{InterruptSink, Outlet};
use crate::objections::Objections;

use bits::{feature, header};
use config::NetConfig;
use doorbell::Bells;
use filter::Filter;
use pci::{Access, PciSpace};
use queue::Queue;
use ring::{Broken, Used};
use rss::Spread;
use status::Negotiation;

pub use options::{Identity, Notify, VirtioOptions};
pub use registers::common_map;

/// The window of the legacy interface.
const LEGACY_BAR: u8 = 0;
const LEGACY_BYTES: u64 = 64;
/// The window of the modern one, and what lies where in it.
const MODERN_BAR: u8 = 4;
const MODERN_BYTES: u64 = 0x4000;
const COMMON: Range<u32> = 0..0x40;
const ISR: Range<u32> = 0x1000..0x1001;
const CONFIG: Range<u32> = 0x2000..0x2000 + config::BYTES;
const NOTIFY: Range<u32> = 0x3000..0x4000;

/// ISR bits (§4.1.4.5).
const ISR_QUEUE: u8 = 1;
const ISR_CONFIG: u8 = 2;

/// A virtio-net device.
pub struct VirtioNet {
    name: String,
    options: VirtioOptions,
    pci: PciSpace,
    negotiation: Negotiation,
    queues: Vec<Queue>,
    /// The queue that the registers are about.
    selected: u16,
    config: NetConfig,
    filter: Filter,
    active_pairs: u16,
    /// How received frames are hashed and spread, once the driver has said so.
    spread: Option<Spread>,
    isr: u8,
    space: Arc<SimSpace>,
    memory: Translator,
    bells: Arc<Bells>,
    counters: Arc<DeviceCounters>,
    faults: Arc<DeviceFaults>,
    objections: Objections,
    outlet: Outlet,
    /// The pair whose turn it is to send first.
    turn: u16,
    /// Buffers and chains of the frame or command at hand; kept, so that nothing is allocated.
    segments: Vec<Segment>,
    used: Vec<Used>,
    scratch: Vec<u8>,
}

impl VirtioNet {
    /// A device as it is after power-up.
    ///
    /// # Panics
    /// The options are nonsense: no pair, more queues than doorbells fit, a ring size of zero.
    #[must_use]
    pub fn new(name: &str, options: &VirtioOptions) -> Self {
        let queues = options.queues();
        assert!(options.pairs > 0, "a network device has a pair of queues");
        assert!(
            options.queue_size > 0 && options.control_size > 0,
            "a ring has slots"
        );
        let doorbells = u32::from(queues) * options.notify_multiplier.max(2);
        assert!(
            doorbells <= NOTIFY.end - NOTIFY.start,
            "every queue's doorbell lies in the window"
        );
        let space = options.space.clone().unwrap_or_else(SimSpace::new);
        let counters = Arc::<DeviceCounters>::default();
        let objections = Objections::default();
        let has_legacy = options.identity != Identity::Modern;
        let multiplier = options.notify_multiplier;
        Self {
            name: name.to_owned(),
            pci: PciSpace::new(options),
            negotiation: Negotiation::new(options.features()),
            queues: (0..queues)
                .map(|index| Queue::new(index, options.slots(index, 1)))
                .collect(),
            selected: 0,
            config: NetConfig::new(options),
            filter: Filter::new(),
            active_pairs: 1,
            spread: None,
            isr: 0,
            memory: space.translator(),
            space,
            bells: Bells::new(
                queues,
                multiplier,
                has_legacy,
                Arc::clone(&counters),
                objections.clone(),
            ),
            counters,
            faults: Arc::default(),
            objections,
            outlet: Outlet::default(),
            turn: 0,
            segments: Vec::with_capacity(64),
            used: Vec::with_capacity(64),
            scratch: Vec::new(),
            options: options.clone(),
        }
    }

    /// As [`VirtioNet::new`], as [`Sim`](crate::Sim) takes it.
    #[must_use]
    pub fn boxed(name: &str, options: &VirtioOptions) -> Box<dyn Device> {
        Box::new(Self::new(name, options))
    }

    /// True if the driver accepted all of these features.
    fn has(&self, features: u64) -> bool {
        self.negotiation.accepted & features == features
    }

    /// Bytes before each frame.
    fn header_len(&self) -> usize {
        if self.has(feature::HASH_REPORT) {
            header::HASHED
        } else if self.negotiation.accepted & (feature::MRG_RXBUF | feature::VERSION_1) == 0 {
            header::SHORT
        } else {
            header::LONG
        }
    }

    /// True while frames may move.
    fn is_running(&self) -> bool {
        self.negotiation.is_running() && self.pci.is_master()
    }

    fn sleeps(&self) -> bool {
        self.options.notify == Notify::Sleeps
    }

    fn object(&self, sentence: impl Into<String>) {
        self.objections.raise(sentence);
    }

    /// The device cannot go on: it says so and stops (§2.1.2).
    #[cold]
    fn break_down(&mut self, queue: u16, broken: Broken) {
        self.object(format!("queue {queue}: {}", broken.0));
        self.need_reset();
    }

    fn need_reset(&mut self) {
        self.negotiation.need_reset();
        self.config_changed();
        self.show_state();
    }

    /// Something in the configuration is new: its generation, and the interrupt.
    fn config_changed(&mut self) {
        self.config.change();
        if self.negotiation.is_running() {
            self.isr |= ISR_CONFIG;
            self.update_line();
        }
    }

    /// Reading the ISR register clears it, and lets the line go.
    fn take_isr(&mut self) -> u8 {
        let isr = std::mem::take(&mut self.isr);
        self.update_line();
        isr
    }

    /// The line of INTx is high while the ISR register says why, unless the command register has
    /// it off.
    fn update_line(&mut self) {
        self.outlet.set_line(self.isr != 0 && self.pci.has_line());
    }

    /// Tells the doorbells what they must know.
    fn show_state(&self) {
        self.bells.set_state(
            self.negotiation.is_running(),
            self.negotiation.legacy,
            self.has(feature::NOTIFICATION_DATA),
        );
    }

    /// Publishes what was put back on `queue`.
    fn publish(&mut self, queue: usize) {
        let Some(queue) = self.queues.get_mut(queue) else {
            return;
        };
        if queue.publish(&self.faults) {
            self.isr |= ISR_QUEUE;
            self.update_line();
            self.counters.add(&DeviceCounts {
                interrupts: 1,
                ..DeviceCounts::default()
            });
        }
    }
}

impl Device for VirtioNet {
    fn name(&self) -> &str {
        &self.name
    }
    fn space(&self) -> Arc<SimSpace> {
        Arc::clone(&self.space)
    }
    fn counters(&self) -> Arc<DeviceCounters> {
        Arc::clone(&self.counters)
    }
    fn faults(&self) -> Arc<DeviceFaults> {
        Arc::clone(&self.faults)
    }
    fn objections(&self) -> Objections {
        self.objections.clone()
    }

    fn config_read(&mut self, offset: u16, width: u8) -> u32 {
        match self.pci.read(offset, width) {
            Access::Value(value) => value,
            Access::Bar {
                index,
                offset,
                width,
            } => self.bar_read(index, offset, width),
        }
    }

    fn config_write(&mut self, offset: u16, width: u8, value: u32) {
        match self.pci.write(offset, width, value) {
            Ok(Some(Access::Bar {
                index,
                offset,
                width,
            })) => self.bar_write(index, offset, width, value),
            Ok(_) => self.update_line(),
            Err(sentence) => self.object(sentence),
        }
    }

    fn bar_len(&self, index: u8) -> Option<u64> {
        self.pci.bar_len(index)
    }

    fn bar_read(&mut self, index: u8, offset: u32, width: u8) -> u32 {
        if !self.pci.decodes(index) {
            self.object(format!(
                "read of BAR {index}, which the command register has off"
            ));
            return u32::MAX;
        }
        if index == LEGACY_BAR && self.options.identity != Identity::Modern {
            self.legacy_read(offset, width)
        } else {
            self.modern_read(offset, width)
        }
    }

    fn bar_write(&mut self, index: u8, offset: u32, width: u8, value: u32) {
        if !self.pci.decodes(index) {
            self.object(format!(
                "write to BAR {index}, which the command register has off"
            ));
        } else if index == LEGACY_BAR && self.options.identity != Identity::Modern {
            self.legacy_write(offset, width, value);
        } else {
            self.modern_write(offset, width, value);
        }
    }

    fn doorbells(&self) -> Arc<dyn Doorbells> {
        Arc::clone(&self.bells) as _
    }

    fn reset(&mut self) {
        self.reset_device();
        self.negotiation.resetting = None;
    }

    fn connect_interrupts(&mut self, sink: Arc<dyn InterruptSink>) {
        self.outlet.connect(sink);
    }

    fn set_link(&mut self, link: LinkReport) {
        self.config.link = link;
        self.config_changed();
    }

    fn poll(&mut self) -> bool {
        self.poll_control()
    }

    fn transmit(&mut self, batch: &mut Batch, limit: usize) {
        self.take_frames(batch, limit);
    }

    fn sent(&mut self) {
        self.put_sent();
    }

    fn deliver(&mut self, frames: &[WireFrame], carrier: &mut Carrier<'_>) {
        self.receive(frames, carrier);
    }

    fn memory(&mut self) -> &mut Translator {
        &mut self.memory
    }

    fn rings(&self) -> Vec<RingPlace> {
        let control = self.pairs() * 2;
        let is_set_up = |queue: &&Queue| queue.index < control && queue.ring.is_some();
        let place = |queue: &Queue| RingPlace {
            role: if queue.index.is_multiple_of(2) {
                RingRole::Rx
            } else {
                RingRole::Tx
            },
            pair: queue.index / 2,
            size: queue.size,
            packed: self.has(feature::RING_PACKED),
            in_order: self.has(feature::IN_ORDER),
            descriptors: queue.addresses[0],
            driver: queue.addresses[1],
            device: queue.addresses[2],
            header: u32::try_from(self.header_len()).expect("20 bytes or less"),
            space: Arc::clone(&self.space),
        };
        self.queues.iter().filter(is_set_up).map(place).collect()
    }
}

/// The device takes a fault into account that is not there unless a test wants it.
fn refused(faults: &DeviceFaults) -> bool {
    faults.strikes(Fault::CommandRefused)
}
