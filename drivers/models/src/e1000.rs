//! The e1000 family, as Intel's data sheets describe it, as PCI functions.
//!
//! Four devices ([`Kind`]): the 82540EM of every virtual machine, the 82574L ("e1000e"), the
//! 82576 ("igb") with its advanced descriptors and sixteen queues, and the 82576's virtual
//! function ("igbvf"), whose physical function is modelled as Linux's `igb` drives it ([`Pf`]).
//! Section marks (§) are the data sheets', which `bits` names.
//!
//! Where a data sheet leaves a choice, QEMU's is taken (`hw/net/{e1000,e1000e_core,igb_core}.c`):
//! a frame without room is dropped at once and counted as missed, as there is no packet buffer
//! between wire and ring; descriptors keep what a write-back has no field for; the totals count
//! what was accepted. Where QEMU knows less than the data sheet, the data sheet is followed: tags
//! and the FCS count in sizes and octets, the 82540 checks checksums when asked to.
//!
//! Not modelled, and objected to when asked for: segmentation, header split of the 82576, two VLAN tags (`CTRL_EXT.EXT_VLAN`), filtering by source address, pools
//! of the physical function (VMDq). Not modelled and kept silent about: flow control, interrupt
//! delays, write-back thresholds, masks in the MSI-X table, time stamps, power management; frames with a bad
//! FCS are dropped even with `RCTL.SBP`; the 16-bit checksum of the legacy descriptor is zero.

mod bits;
mod eeprom;
mod interrupt;
mod mailboxes;
mod options;
pub(crate) mod packet;
mod pci;
mod pf;
mod phy;
mod queue;
mod registers;
mod reset;
mod rss;
mod rx;
mod stats;
mod table;
mod tx;
mod vf;

use std::sync::Arc;

use hugemem::{SimSpace, Translator};

use crate::counters::{DeviceCounters, DeviceCounts};
use crate::device::{Device, Doorbells, LinkReport};
use crate::faults::{DeviceFaults, Fault};
use crate::frames::{Batch, Carrier, Segment, WireFrame};
use crate::interrupt::{InterruptSink, Outlet};
use crate::objections::Objections;

use bits::{cause, ctrl, reg, status};
use eeprom::Eeprom;
use pci::{PciSpace, VECTORS};
use phy::Phy;
use queue::{Queue, Side, Tails};
use reset::Reset;
use stats::Stats;
use table::Registers;
use tx::Sender;
use vf::VfSide;

pub use options::{E1000Options, Kind, PfOptions, VfMac};
pub use pf::Pf;
pub use table::map;

/// A device of the e1000 family.
pub struct E1000 {
    name: String,
    options: E1000Options,
    kind: Kind,
    pci: PciSpace,
    registers: Registers,
    stats: Stats,
    rx: Vec<Queue>,
    tx: Vec<Queue>,
    senders: Vec<Sender>,
    tails: Arc<Tails>,
    eeprom: Eeprom,
    phy: Phy,
    vf: Option<VfSide>,
    link: LinkReport,
    /// What the status register shows.
    link_shown: bool,
    resetting: Option<Reset>,
    /// It has stopped in the middle of everything, until it is reset.
    stalled: bool,
    /// Where the I/O window's data register leads.
    io_address: u32,
    space: Arc<SimSpace>,
    memory: Translator,
    counters: Arc<DeviceCounters>,
    faults: Arc<DeviceFaults>,
    objections: Objections,
    outlet: Outlet,
    /// The queue whose turn it is to send first.
    turn: u32,
    /// Buffers of the frame at hand, and its bytes; kept, so that nothing is allocated.
    segments: Vec<Segment>,
    scratch: Vec<u8>,
    /// What is sent to itself.
    looped: Batch,
}

impl E1000 {
    /// A device as it is after power-up.
    #[must_use]
    pub fn new(name: &str, options: &E1000Options) -> Self {
        let kind = options.kind;
        let queues = options.queues();
        let space = options.space.clone().unwrap_or_else(SimSpace::new);
        let counters = Arc::<DeviceCounters>::default();
        let mut device = Self {
            name: name.to_owned(),
            kind,
            pci: PciSpace::new(kind, options.device_id()),
            registers: Registers::new(kind),
            stats: Stats::new(),
            rx: Vec::new(),
            tx: Vec::new(),
            senders: Vec::new(),
            tails: Tails::new(kind, queues, Arc::clone(&counters)),
            eeprom: Eeprom::new(kind, options.device_id(), options.mac),
            phy: Phy::new(kind),
            vf: (kind == Kind::IgbVf).then(|| VfSide::new(options)),
            link: LinkReport {
                up: false,
                speed_bps: 0,
            },
            link_shown: false,
            resetting: None,
            stalled: false,
            io_address: 0,
            memory: space.translator(),
            space,
            counters,
            faults: Arc::default(),
            objections: Objections::default(),
            outlet: Outlet::default(),
            turn: 0,
            segments: Vec::with_capacity(64),
            scratch: vec![0; rx::SCRATCH],
            looped: Batch::new(),
            options: options.clone(),
        };
        device.reset_registers();
        device
    }

    /// As [`E1000::new`], as [`Sim`](crate::Sim) takes it.
    #[must_use]
    pub fn boxed(name: &str, options: &E1000Options) -> Box<dyn Device> {
        Box::new(Self::new(name, options))
    }

    /// The physical function beside a virtual one, for a test to administer.
    ///
    /// # Panics
    /// The device is no virtual function.
    #[must_use]
    pub fn pf(&self) -> Pf {
        let side = self.vf.as_ref().expect("only a virtual function has one");
        side.pf.clone()
    }

    fn queue_count(&self) -> u32 {
        u32::from(self.options.queues())
    }

    #[cold]
    fn object(&self, sentence: impl Into<String>) {
        self.objections.raise(sentence);
    }

    /// Objects, if there is something to object to.
    fn judge(&self, result: Result<(), String>) {
        if let Err(sentence) = result {
            self.object(sentence);
        }
    }

    /// True if the device may reach memory at all.
    fn is_alive(&self) -> bool {
        self.resetting.is_none()
            && !self.stalled
            && self.pci.is_master()
            && !(self.kind != Kind::E1000 && self.registers.has(reg::CTRL, ctrl::MASTER_DISABLE))
    }

    /// The VLAN type that marks a tag.
    fn vlan_type(&self) -> u16 {
        if self.kind == Kind::IgbVf {
            return 0x8100;
        }
        let [a, b, ..] = self.registers.get(reg::VET).to_le_bytes();
        u16::from_le_bytes([a, b])
    }

    /// The status register (§10.2.2.2).
    fn status(&self) -> u32 {
        let mut value = status::FD;
        if self.link_shown {
            value |= status::LU;
        }
        value |= match self.link.speed_bps {
            0..100_000_000 => 0,
            100_000_000..1_000_000_000 => status::SPEED_100,
            _ => status::SPEED_1000,
        };
        let is_express = matches!(self.kind, Kind::E1000e | Kind::Igb);
        if is_express && !self.registers.has(reg::CTRL, ctrl::MASTER_DISABLE) {
            value |= status::MASTER;
        }
        value | self.registers.get(reg::STATUS) & status::PHYRA
    }

    /// The link shows as the wire is, once software lets the MAC see it (`CTRL.SLU`), or as the
    /// physical function lets it.
    fn update_link(&mut self) {
        let seen = match &self.vf {
            Some(side) => side.is_up(),
            None => self.registers.has(reg::CTRL, ctrl::SLU),
        };
        let waits = self.options.waits_to_negotiate && !self.phy.negotiated;
        let up = self.link.up && seen && !(waits && self.vf.is_none());
        self.phy.set_link(self.link.up && !waits);
        if up != self.link_shown {
            self.link_shown = up;
            self.raise(cause::LSC);
        }
    }

    /// A queue did what it must not: it stands still from now on.
    #[cold]
    fn break_queue(&mut self, side: Side, queue: u32, sentence: &str) {
        self.object(format!("{} queue {queue}: {sentence}", side.name()));
        if let Some(queue) = self.queue_mut(side, queue) {
            queue.broken = true;
        }
    }

    fn queue_mut(&mut self, side: Side, queue: u32) -> Option<&mut Queue> {
        let queues = match side {
            Side::Rx => &mut self.rx,
            Side::Tx => &mut self.tx,
        };
        queues.get_mut(usize::try_from(queue).ok()?)
    }
}

impl Device for E1000 {
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
        let result = self.pci.write(offset, width, value);
        self.judge(result);
        self.update_line();
    }

    fn bar_len(&self, index: u8) -> Option<u64> {
        self.pci.bar_len(index)
    }

    fn bar_read(&mut self, index: u8, offset: u32, width: u8) -> u32 {
        if index == VECTORS {
            return self.pci.read_vectors(offset);
        }
        match self.register_at(index, offset, width, "read of") {
            Some(register) => self.read_register(register),
            None if Some(index) == self.pci.io_bar() && offset == 0 => self.io_address,
            None => u32::MAX,
        }
    }

    fn bar_write(&mut self, index: u8, offset: u32, width: u8, value: u32) {
        if index == VECTORS {
            self.pci.write_vectors(offset, value);
            return;
        }
        match self.register_at(index, offset, width, "write to") {
            Some(register) => self.write_register(register, value),
            None if Some(index) == self.pci.io_bar() && offset == 0 => self.io_address = value,
            None => {}
        }
    }

    fn doorbells(&self) -> Arc<dyn Doorbells> {
        Arc::clone(&self.tails) as _
    }

    fn reset(&mut self) {
        self.reset_function();
    }

    fn connect_interrupts(&mut self, sink: Arc<dyn InterruptSink>) {
        self.outlet.connect(sink);
    }

    fn set_link(&mut self, link: LinkReport) {
        let turned = self.link.up != link.up;
        self.link = link;
        self.update_link();
        if let Some(side) = self.vf.as_mut().filter(|_| turned) {
            side.ping();
            if side.is_up() {
                self.raise_mailbox();
            }
        }
    }

    fn poll(&mut self) -> bool {
        self.poll_pf()
    }

    fn transmit(&mut self, batch: &mut Batch, limit: usize) {
        if self.faults.strikes(Fault::NeedsReset) {
            self.stall();
        }
        self.take_frames(batch, limit);
    }

    fn sent(&mut self) {
        self.put_sent();
    }

    fn deliver(&mut self, frames: &[WireFrame], carrier: &mut Carrier<'_>) {
        let mut tally = DeviceCounts::default();
        if self.is_looped() {
            // Nothing comes in from the wire.
            tally.rx_not_ready = frames.len() as u64;
        } else {
            self.receive(frames, carrier, &mut tally);
        }
        self.counters.add(&tally);
    }

    fn memory(&mut self) -> &mut Translator {
        &mut self.memory
    }
}
