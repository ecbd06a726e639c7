//! Intel's 10 Gbit/s controllers 82599, X540 and X550, as their data sheets describe them, as PCI
//! functions: the physical one ([`Ixgbe`]), and a virtual one that is handed out alone
//! ([`IxgbeVf`]), whose physical function is modelled as Linux's `ixgbe` drives it ([`Pf`]).
//!
//! Section marks (§) are the 82599 data sheet's (331520) where nothing else is said. What public
//! drivers rely on counts as evidence of what the hardware does: where a driver that works on
//! real devices needs a behaviour, the model has it.
//!
//! There is no packet buffer between wire and ring: a frame without room is dropped at once, and
//! counted as the queue's (`QPRDC`, with `SRRCTL.DROP_EN`) or the port's (`MPC`). Descriptors keep
//! what a write-back has no field for. Octets count FCS and tags.
//!
//! Not modelled, and objected to when asked for: header split, traffic classes (DCB), two VLAN
//! tags. Not modelled and kept silent about: pause frames in either direction (their registers
//! are kept), INTx and MSI (interrupts are MSI-X's messages), interrupt delays (`EITR`: every cause counts at once), receive-side coalescing
//! (a queue that has it on gets frames one by one), flow director and the filters by protocol,
//! port or EtherType (they are taken, and match nothing), switching between pools
//! (`PFDTXGSWC.VT_LBEN`), MACsec and IPsec, time stamps, wake-up. Frames with a bad FCS are dropped
//! even with `FCTRL.SBP`.

mod bits;
mod descriptor;
mod eeprom;
mod filter;
mod firmware;
mod functions;
mod interrupts;
mod link;
mod mailbox;
mod mdio;
mod options;
mod pci;
mod queue;
mod receive;
mod registers;
mod reset;
mod rings;
mod rss;
mod semaphore;
mod send;
mod sfp;
mod stats;
mod table;
mod vf;

use std::sync::Arc;

use hugemem::{SimSpace, Translator};

use crate::Mac;
use crate::counters::{DeviceCounters, DeviceCounts};
use crate::device::{Device, Doorbells, LinkReport};
use crate::faults::{DeviceFaults, Fault};
use crate::frames::{Batch, Carrier, WireFrame};
use crate::interrupt::{InterruptSink, Outlet};
use crate::objections::Objections;

use bits::{ctrl, reg};
use eeprom::Eeprom;
use interrupts::Interrupts;
use mailbox::Mailbox;
use mdio::Mdio;
use pci::{Identity, PciSpace};
use queue::{Layout, Side};
use reset::Reset;
use rings::Rings;
use rss::Key;
use semaphore::Semaphores;
use sfp::Cage;
use stats::Stats;
use table::Registers;

pub use options::{Api, IxgbeOptions, IxgbeVfOptions, Kind, Module, PfOptions, VfMac};
pub use table::map;
pub use vf::{IxgbeVf, Pf};

/// Pools, and virtual functions, at most.
const POOLS: usize = 64;

/// A physical function.
pub struct Ixgbe {
    name: String,
    options: IxgbeOptions,
    kind: Kind,
    pci: PciSpace,
    registers: Registers,
    stats: Stats,
    rings: Rings,
    /// Receive queues that drop without a word of their own (`QDE`), a bit each.
    drops: u128,
    interrupts: Interrupts,
    eeprom: Eeprom,
    cage: Cage,
    mdio: Mdio,
    semaphores: Semaphores,
    mailboxes: Vec<Mailbox>,
    link: LinkReport,
    /// What the link register shows.
    link_shown: bool,
    /// Rounds until it does, once everything is there.
    link_wait: u32,
    resetting: Option<Reset>,
    /// It has stopped in the middle of everything, until it is reset.
    stalled: bool,
    /// Addresses that are let in and the pools that they lead to, worked out from the registers.
    addresses: Vec<(Mac, u64)>,
    addresses_stale: bool,
    key: Key,
    key_stale: bool,
    space: Arc<SimSpace>,
    counters: Arc<DeviceCounters>,
    faults: Arc<DeviceFaults>,
    objections: Objections,
    outlet: Outlet,
    /// The queue whose turn it is to send first.
    turn: usize,
    scratch: Vec<u8>,
    /// What is sent to itself, and its way into memory meanwhile.
    looped: Batch,
    loop_memory: Translator,
}

impl Ixgbe {
    /// A device as it is after power-up.
    #[must_use]
    pub fn new(name: &str, options: &IxgbeOptions) -> Self {
        let kind = options.kind;
        let space = options.space.clone().unwrap_or_else(SimSpace::new);
        let counters = Arc::<DeviceCounters>::default();
        let faults = Arc::<DeviceFaults>::default();
        let identity = Identity {
            kind,
            device_id: options.device_id(),
            is_vf: false,
        };
        let rings = Rings::new(
            Layout::Pf,
            &space,
            Arc::clone(&counters),
            Arc::clone(&faults),
        );
        let mut device = Self {
            name: name.to_owned(),
            kind,
            pci: PciSpace::new(identity),
            registers: Registers::new(kind, false),
            stats: Stats::new(),
            rings,
            drops: 0,
            interrupts: Interrupts::default(),
            eeprom: Eeprom::new(kind, options.mac),
            cage: Cage::new(options.module),
            mdio: Mdio::new(kind),
            semaphores: Semaphores::new(kind),
            mailboxes: (0..POOLS).map(|_| Mailbox::default()).collect(),
            link: LinkReport {
                up: false,
                speed_bps: 0,
            },
            link_shown: false,
            link_wait: 0,
            resetting: None,
            stalled: false,
            addresses: Vec::with_capacity(128),
            addresses_stale: true,
            key: Key::new(&[0; rss::KEY]),
            key_stale: false,
            loop_memory: space.translator(),
            space,
            counters,
            faults,
            objections: Objections::default(),
            outlet: Outlet::default(),
            turn: 0,
            scratch: vec![0; receive::SCRATCH],
            looped: Batch::new(),
            options: options.clone(),
        };
        device.reset_function();
        device
    }

    /// As [`Ixgbe::new`], as [`Sim`](crate::Sim) takes it.
    #[must_use]
    pub fn boxed(name: &str, options: &IxgbeOptions) -> Box<dyn Device> {
        Box::new(Self::new(name, options))
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
            && !self.registers.has(reg::CTRL, ctrl::GIO_DIS)
    }

    /// A queue did what it must not: it stands still from now on.
    #[cold]
    fn break_queue(&mut self, side: Side, queue: u32, sentence: &str) {
        self.object(format!("{} queue {queue}: {sentence}", side.name()));
        self.rings.stop(side, queue);
    }

    /// Raises the interrupt that a queue leads to (§8.2.3.5.16).
    #[inline]
    fn raise_queue(&mut self, side: Side, queue: u32) {
        let bytes = self.registers.get(reg::IVAR + queue / 2 * 4).to_le_bytes();
        let at = (queue & 1) * 2 + if side == Side::Tx { 1 } else { 0 };
        self.interrupts.raise_queue(bytes[at as usize]);
    }

    /// Sends the interrupts that are due, and counts them.
    #[inline]
    fn send_interrupts(&mut self) {
        let mut vectors = self.interrupts.take_vectors();
        while vectors != 0 {
            let vector = vectors.trailing_zeros();
            vectors &= vectors - 1;
            self.outlet
                .message(u16::try_from(vector).expect("64 of them"));
        }
        let interrupts = self.interrupts.take_count();
        if interrupts > 0 {
            self.counters.add(&DeviceCounts {
                interrupts,
                ..DeviceCounts::default()
            });
        }
    }
}

impl Device for Ixgbe {
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
    }

    fn bar_len(&self, index: u8) -> Option<u64> {
        self.pci.bar_len(index)
    }

    fn bar_read(&mut self, index: u8, offset: u32, width: u8) -> u32 {
        if index != pci::REGISTERS {
            return 0;
        }
        if self.is_reached(offset, width, "read of") {
            let value = self.read_register(offset);
            self.send_interrupts();
            value
        } else {
            u32::MAX
        }
    }

    fn bar_write(&mut self, index: u8, offset: u32, width: u8, value: u32) {
        // The table of vectors is whoever sends interrupts' business.
        if index == pci::REGISTERS && self.is_reached(offset, width, "write to") {
            self.write_register(offset, value);
            self.send_interrupts();
        }
    }

    fn doorbells(&self) -> Arc<dyn Doorbells> {
        Arc::clone(&self.rings.tails) as _
    }

    fn reset(&mut self) {
        self.reset_function();
    }

    fn set_link(&mut self, link: LinkReport) {
        self.link = link;
        self.mdio.set_link(link.up, link.speed_bps);
        self.update_link();
    }

    fn poll(&mut self) -> bool {
        let moved = self.wait_for_link();
        self.send_interrupts();
        moved
    }

    fn transmit(&mut self, batch: &mut Batch, limit: usize) {
        self.rings.begin();
        if self.faults.strikes(Fault::NeedsReset) {
            self.stalled = true;
        }
        self.take_frames(batch, limit);
    }

    fn sent(&mut self) {
        self.rings.begin();
        self.put_sent();
        self.send_interrupts();
    }

    fn deliver(&mut self, frames: &[WireFrame], carrier: &mut Carrier<'_>) {
        self.rings.begin();
        let mut tally = DeviceCounts::default();
        self.receive(frames, carrier, &mut tally);
        self.counters.add(&tally);
        self.send_interrupts();
    }

    fn connect_interrupts(&mut self, sink: Arc<dyn InterruptSink>) {
        self.outlet.connect(sink);
    }

    fn memory(&mut self) -> &mut Translator {
        &mut self.rings.memory
    }
}
