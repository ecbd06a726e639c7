//! VMware's vmxnet3, as a PCI function: 15ad:07b0.
//!
//! There is no data sheet. What the device does is what VMware's headers say (as Linux carries
//! them), what Linux and DPDK rely on, and what QEMU does (`hw/net/vmxnet3.c`); where QEMU leaves
//! out what ESXi has, the headers decide. Revisions 1 to 7 differ in what the sections below
//! name.
//!
//! - **Control**: the driver picks a revision (`VRRS`), lays out a shared area with queue
//!   descriptors behind it, names it (`DSAL`, then `DSAH`, which takes both), and writes commands
//!   to `CMD`, whose result is a read of `CMD`.
//! - **Rings**: slots change hands by generation bits. A transmit frame begins with the slot that
//!   turns last. Received frames begin in a *head* of the first ring and go on in *bodies*, of the
//!   first ring if one comes next there, else of the second.
//! - **Doorbells** carry slot numbers. `TXPROD` says up to where the device looks; `RXPROD` and
//!   `RXPROD2` matter when the device has asked for them ([`Vmxnet3Options::update_rx_prod`]).
//! - **Counters** are written to the queue descriptors at `GET_STATS`, why a queue stands still at
//!   `GET_QUEUE_STATUS`; they start at 0 with each `ACTIVATE_DEV`. Bytes are without FCS and
//!   padding, and without a tag that was taken off.
//! - **Data rings**, transmit since revision 1 (entries of 128 bytes) and of other sizes since 3;
//!   receive since 3. UDP is hashed since 4, more queues come with 6, capabilities with 7.
//!
//! Where this model goes further than QEMU's: completions only where `cq` asks for one; RSS;
//! verdicts about checksums; receive completions of their proper type; and objections, where QEMU
//! tolerates or aborts.
//!
//! Not modelled: large receive, inner offloads of tunnels, passthrough, MSI, wake-up, the time
//! rings of revision 9.

mod bits;
mod block;
mod commands;
mod doorbells;
mod filter;
mod findings;
mod interrupts;
mod offload;
mod options;
mod packet;
mod pci;
mod queue;
mod reception;
mod registers;
mod ring;
mod rss;
mod rx;
mod setup;
mod tx;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hugemem::{Iova, SimSpace, SimWords, Translator};

use crate::Mac;
use crate::counters::{DeviceCounters, DeviceCounts};
use crate::device::{Device, Doorbells, LinkReport};
use crate::faults::DeviceFaults;
use crate::frames::{Batch, Carrier, Segment, WireFrame};
use crate::interrupt::{InterruptSink, Outlet};
use crate::objections::Objections;

use bits::{error, event, shared};
use doorbells::Bells;
use filter::Filter;
use interrupts::Interrupts;
use pci::{PT, PciSpace, VD, VECTORS};
use reception::Used;
use rss::Rss;
use rx::RxQueue;
use tx::TxQueue;

pub use options::{Notify, Vmxnet3Options};
pub use registers::register_map;

/// A vmxnet3 device.
pub struct Vmxnet3 {
    name: String,
    options: Vmxnet3Options,
    pci: PciSpace,
    /// The revision that the driver selected; 0: none yet.
    revision: u8,
    /// The driver selected version 1 of UPT.
    upt: bool,
    /// What was written to `DSAL` and waits for `DSAH`.
    shared_low: Option<u32>,
    /// Where the shared area is; 0: nowhere.
    shared_at: u64,
    /// What a read of `CMD` gives.
    result: u32,
    mac: Mac,
    /// What was written to `MACL` and waits for `MACH`.
    mac_low: u32,
    /// Capabilities that the driver switched on.
    dcr: u32,
    rss_fields: u32,
    link: LinkReport,
    filter: Filter,
    interrupts: Interrupts,
    active: Option<Active>,
    space: Arc<SimSpace>,
    memory: Translator,
    bells: Arc<Bells>,
    counters: Arc<DeviceCounters>,
    faults: Arc<DeviceFaults>,
    objections: Objections,
    outlet: Outlet,
    /// The transmit queue whose turn it is first.
    turn: usize,
    /// Buffers of the frame at hand, and their slots; kept, so that nothing is allocated.
    segments: Vec<Segment>,
    used: Vec<Used>,
    /// Bytes of a frame that is changed on its way out, and of one that is looked at.
    scratch: Vec<u8>,
    bytes: Vec<u8>,
    /// Vectors that there is reason for.
    vectors: Vec<u8>,
}

/// What there is between `ACTIVATE_DEV` and `QUIESCE_DEV`.
struct Active {
    features: u64,
    /// Most buffers for one frame (`maxNumRxSG`).
    parts: usize,
    rss: Option<Rss>,
    tx: Vec<TxQueue>,
    rx: Vec<RxQueue>,
    event_vector: u8,
    /// `intrCtrl`, which the driver changes without a command.
    control: Option<SimWords<AtomicU32>>,
}

impl Active {
    fn new(parts: usize) -> Self {
        Self {
            features: 0,
            parts,
            rss: None,
            tx: Vec::new(),
            rx: Vec::new(),
            event_vector: 0,
            control: None,
        }
    }
}

impl Vmxnet3 {
    /// A device as it is after power-up.
    ///
    /// # Panics
    /// The options are nonsense: a revision that there is not, more queues than it has, an odd
    /// size of data ring.
    #[must_use]
    pub fn new(name: &str, options: &Vmxnet3Options) -> Self {
        options.check();
        let space = options.space.clone().unwrap_or_else(SimSpace::new);
        let counters = Arc::<DeviceCounters>::default();
        let objections = Objections::default();
        let vectors = commands::vectors(options.revision);
        Self {
            name: name.to_owned(),
            pci: PciSpace::new(vectors, options.large_bar),
            revision: 0,
            upt: false,
            shared_low: None,
            shared_at: 0,
            result: 0,
            mac: options.mac,
            mac_low: 0,
            dcr: 0,
            rss_fields: rss::field::TCP,
            link: LinkReport {
                up: false,
                speed_bps: 0,
            },
            filter: Filter::new(),
            interrupts: Interrupts::new(),
            active: None,
            memory: space.translator(),
            space,
            bells: Bells::new(Arc::clone(&counters), objections.clone()),
            counters,
            faults: Arc::default(),
            objections,
            outlet: Outlet::default(),
            turn: 0,
            segments: Vec::with_capacity(64),
            used: Vec::with_capacity(64),
            scratch: Vec::new(),
            bytes: Vec::new(),
            vectors: Vec::new(),
            options: options.clone(),
        }
    }

    /// As [`Vmxnet3::new`], as [`Sim`](crate::Sim) takes it.
    ///
    /// # Panics
    /// As there.
    #[must_use]
    pub fn boxed(name: &str, options: &Vmxnet3Options) -> Box<dyn Device> {
        Box::new(Self::new(name, options))
    }

    #[cold]
    fn object(&self, sentence: impl Into<String>) {
        self.objections.raise(sentence);
    }

    /// The device leaves memory alone from now on.
    fn deactivate(&mut self) {
        self.bells.close();
        self.active = None;
    }

    /// `RESET_DEV`: what the driver set up is gone, but for the revision and the address.
    fn reset_device(&mut self) {
        self.deactivate();
        self.interrupts = Interrupts::new();
        self.filter = Filter::new();
        self.rss_fields = rss::field::TCP;
        self.shared_low = None;
        self.shared_at = 0;
    }

    /// Every queue stands still, and the driver is told: what a test wants.
    fn stop_all(&mut self) {
        let Some(active) = &mut self.active else {
            return;
        };
        for queue in &mut active.tx {
            queue.error = Some(error::STRESS);
        }
        for queue in &mut active.rx {
            queue.error = Some(error::STRESS);
        }
        self.raise_event(event::TQERR | event::RQERR);
    }

    /// Something happened that is no frame.
    fn raise_event(&mut self, events: u32) {
        self.change_events(events, 0);
        if let Some(active) = &self.active {
            let mut vector = vec![active.event_vector];
            self.interrupt(&mut vector);
        }
    }

    /// Sets and clears events in the shared area.
    fn change_events(&mut self, set: u32, clear: u32) {
        if self.shared_at == 0 {
            if clear != 0 {
                self.object("ECR written without a shared area");
            }
            return;
        }
        let at = Iova::from_device(self.shared_at + shared::ECR as u64);
        match self.memory.words::<AtomicU32>(at, 1) {
            Ok(word) => {
                word[0].fetch_and((!clear).to_le(), Ordering::AcqRel);
                word[0].fetch_or(set.to_le(), Ordering::AcqRel);
            }
            Err(fault) => self.object(format!("events: {fault}")),
        }
    }

    /// There is reason for each of `vectors`, which are taken.
    fn interrupt(&mut self, vectors: &mut Vec<u8>) {
        if vectors.is_empty() {
            return;
        }
        let is_off = self.are_interrupts_off();
        let mut sent = 0;
        for vector in vectors.drain(..) {
            if self.interrupts.raise(vector, is_off) {
                self.send(vector);
                sent += 1;
            }
        }
        self.count_interrupts(sent);
    }

    /// Sends `vector`: as a message, or all of them by the line of INTx.
    fn send(&mut self, vector: u8) {
        if self.pci.has_messages() {
            self.outlet.message(u16::from(vector));
        } else {
            self.update_line();
        }
    }

    /// The line is high from the first interrupt on until `ICR` is read.
    fn update_line(&mut self) {
        let is_high = self.interrupts.line && self.pci.has_line();
        self.outlet.set_line(is_high);
    }

    fn count_interrupts(&self, interrupts: u64) {
        self.counters.add(&DeviceCounts {
            interrupts,
            ..DeviceCounts::default()
        });
    }

    /// Objects to accesses that these registers do not stand for. True if it may go on.
    fn is_sound(&self, index: u8, offset: u32, width: u8) -> bool {
        if !self.pci.decodes() {
            self.object(format!(
                "access to BAR {index}, which the command register has off"
            ));
        } else if width != 4 {
            self.object(format!(
                "access of {width} bytes at {offset:#x} of BAR {index}"
            ));
        }
        self.pci.decodes() && width == 4
    }
}

impl Device for Vmxnet3 {
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
        self.pci.read(offset, width)
    }

    fn config_write(&mut self, offset: u16, width: u8, value: u32) {
        if let Err(sentence) = self.pci.write(offset, width, value) {
            self.object(sentence);
        }
        self.update_line();
    }

    fn bar_len(&self, index: u8) -> Option<u64> {
        self.pci.bar_len(index)
    }

    fn bar_read(&mut self, index: u8, offset: u32, width: u8) -> u32 {
        if !self.is_sound(index, offset, width) {
            return u32::MAX;
        }
        match index {
            PT => self.read_mask(offset),
            VD => self.read_register(offset),
            VECTORS => self.pci.read_vectors(offset),
            _ => u32::MAX,
        }
    }

    fn bar_write(&mut self, index: u8, offset: u32, width: u8, value: u32) {
        if !self.is_sound(index, offset, width) {
            return;
        }
        match index {
            PT => self.write_mask(offset, value),
            VD => self.write_register(offset, value),
            _ if self.pci.write_vectors(offset, value) => {}
            _ => self.object(format!("write to {offset:#x} of BAR {index}")),
        }
    }

    fn doorbells(&self) -> Arc<dyn Doorbells> {
        Arc::clone(&self.bells) as _
    }

    fn reset(&mut self) {
        self.reset_device();
        self.pci.reset();
        self.revision = 0;
        self.upt = false;
        self.result = 0;
        self.mac = self.options.mac;
        self.dcr = 0;
        self.bells.set_large(false);
    }

    fn connect_interrupts(&mut self, sink: Arc<dyn InterruptSink>) {
        self.outlet.connect(sink);
    }

    fn set_link(&mut self, link: LinkReport) {
        self.link = link;
        if self.active.is_some() {
            self.raise_event(event::LINK);
        }
    }

    fn poll(&mut self) -> bool {
        // Commands are carried out as they are written.
        false
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
}
