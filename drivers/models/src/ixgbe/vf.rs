//! A virtual function that is handed out alone: its registers and rings, and behind its mailbox
//! the physical function as Linux drives it.

mod administrator;
mod physical;
mod pool;
mod registers;
mod transfer;

use std::sync::Arc;

use hugemem::{SimSpace, Translator};

use super::interrupts::Interrupts;
use super::options::{IxgbeVfOptions, Kind};
use super::pci::{self, Identity, PciSpace};
use super::queue::{Layout, Side};
use super::rings::Rings;
use super::rss::Key;
use super::table::Registers;
use crate::counters::{DeviceCounters, DeviceCounts};
use crate::device::{Device, Doorbells, LinkReport};
use crate::faults::{DeviceFaults, Fault};
use crate::frames::{Batch, Carrier, WireFrame};
use crate::interrupt::{InterruptSink, Outlet};
use crate::objections::Objections;

pub use administrator::Pf;
use physical::{Effects, Physical};

/// `VTIVAR`, `VTIVAR_MISC`.
const IVAR: u32 = 0x120;
const IVAR_MISC: u32 = 0x140;

/// Counters that run free: frames over 32 bits, octets over 36.
#[derive(Default)]
struct Totals {
    rx_frames: u64,
    rx_bytes: u64,
    rx_multicast: u64,
    tx_frames: u64,
    tx_bytes: u64,
}

/// A virtual function.
pub struct IxgbeVf {
    name: String,
    kind: Kind,
    options: IxgbeVfOptions,
    pci: PciSpace,
    registers: Registers,
    rings: Rings,
    interrupts: Interrupts,
    side: Physical,
    totals: Totals,
    link: LinkReport,
    key: Key,
    key_stale: bool,
    space: Arc<SimSpace>,
    counters: Arc<DeviceCounters>,
    faults: Arc<DeviceFaults>,
    objections: Objections,
    outlet: Outlet,
    turn: usize,
    scratch: Vec<u8>,
}

impl IxgbeVf {
    /// A virtual function beside a physical one that is up.
    #[must_use]
    pub fn new(name: &str, options: &IxgbeVfOptions) -> Self {
        let kind = options.kind;
        let space = options.space.clone().unwrap_or_else(SimSpace::new);
        let counters = Arc::<DeviceCounters>::default();
        let faults = Arc::<DeviceFaults>::default();
        let identity = Identity {
            kind,
            device_id: options.device_id(),
            is_vf: true,
        };
        Self {
            name: name.to_owned(),
            kind,
            pci: PciSpace::new(identity),
            registers: Registers::new(kind, true),
            rings: Rings::new(
                Layout::Vf,
                &space,
                Arc::clone(&counters),
                Arc::clone(&faults),
            ),
            interrupts: Interrupts::default(),
            side: Physical::new(options),
            totals: Totals::default(),
            link: LinkReport {
                up: false,
                speed_bps: 0,
            },
            key: Key::new(&physical::RSS_KEY),
            key_stale: false,
            space,
            counters,
            faults,
            objections: Objections::default(),
            outlet: Outlet::default(),
            turn: 0,
            scratch: vec![0; super::receive::SCRATCH],
            options: options.clone(),
        }
    }

    /// As [`IxgbeVf::new`], as [`Sim`](crate::Sim) takes it.
    #[must_use]
    pub fn boxed(name: &str, options: &IxgbeVfOptions) -> Box<dyn Device> {
        Box::new(Self::new(name, options))
    }

    /// The physical function beside it, for a test to administer.
    #[must_use]
    pub fn pf(&self) -> Pf {
        self.side.pf.clone()
    }

    #[cold]
    fn object(&self, sentence: impl Into<String>) {
        self.objections.raise(sentence);
    }

    fn judge(&self, result: Result<(), String>) {
        if let Err(sentence) = result {
            self.object(sentence);
        }
    }

    #[cold]
    fn break_queue(&mut self, side: Side, queue: u32, sentence: &str) {
        self.object(format!("{} queue {queue}: {sentence}", side.name()));
        self.rings.stop(side, queue);
    }

    /// True while the physical function is up, and its link.
    fn has_link(&self) -> bool {
        self.link.up && self.side.is_up()
    }

    #[inline]
    fn raise_queue(&mut self, side: Side, queue: u32) {
        let bytes = self.registers.get(IVAR + queue / 2 * 4).to_le_bytes();
        let at = (queue & 1) * 2 + if side == Side::Tx { 1 } else { 0 };
        self.interrupts.raise_queue(bytes[at as usize]);
    }

    fn raise_mailbox(&mut self) {
        let [entry, ..] = self.registers.get(IVAR_MISC).to_le_bytes();
        self.interrupts.raise_queue(entry);
    }

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

    /// What a reset of the function clears: by itself, from outside (FLR), with the physical one.
    fn reset_registers(&mut self) {
        self.registers.reset();
        self.rings.reset();
        self.interrupts = Interrupts::default();
        self.totals = Totals::default();
        self.turn = 0;
        self.key_stale = true;
    }

    fn follow(&mut self, effects: Effects) {
        if effects.reset {
            self.reset_registers();
        }
        if effects.vf_reset {
            // Not cleared by a reset of the function, so the physical one does it.
            for queue in &mut self.rings.tx {
                queue.write_back = 0;
            }
        }
        if effects.commands > 0 {
            self.counters.add(&DeviceCounts {
                commands: effects.commands,
                ..DeviceCounts::default()
            });
        }
        if effects.interrupt {
            self.raise_mailbox();
        }
    }
}

impl Device for IxgbeVf {
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
        let value = if self.is_reached(offset, width) {
            self.read_register(offset)
        } else {
            u32::MAX
        };
        self.send_interrupts();
        value
    }

    fn bar_write(&mut self, index: u8, offset: u32, width: u8, value: u32) {
        if index == pci::REGISTERS && self.is_reached(offset, width) {
            self.write_register(offset, value);
            self.send_interrupts();
        }
    }

    fn doorbells(&self) -> Arc<dyn Doorbells> {
        Arc::clone(&self.rings.tails) as _
    }

    fn pf_mtu(&self) -> Option<u32> {
        Some(self.side.mtu())
    }

    fn reset(&mut self) {
        self.side.reset_vf();
        self.reset_registers();
    }

    fn set_link(&mut self, link: LinkReport) {
        let turned = self.link.up != link.up;
        self.link = link;
        if turned {
            self.side.ping();
            self.raise_mailbox();
        }
    }

    fn poll(&mut self) -> bool {
        let moved = match self.side.poll(&self.faults) {
            Ok(effects) => {
                if effects.moved {
                    self.follow(effects);
                }
                effects.moved
            }
            Err(sentence) => {
                self.object(sentence);
                true
            }
        };
        self.send_interrupts();
        moved
    }

    fn transmit(&mut self, batch: &mut Batch, limit: usize) {
        self.rings.begin();
        if self.faults.strikes(Fault::NeedsReset) {
            self.side.pf.reset();
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
        self.receive(frames, carrier);
        self.send_interrupts();
    }

    fn connect_interrupts(&mut self, sink: Arc<dyn InterruptSink>) {
        self.outlet.connect(sink);
    }

    fn memory(&mut self) -> &mut Translator {
        &mut self.rings.memory
    }
}
