//! A PCI function whose registers are a script.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use hugemem::{DmaSpace, Memory, MemoryRequest, PageSize, Pages, SimSpace};
use hw::function::{BarError, COMMAND, Function, command};
use hw::pci::{Bdf, MtuError, Pci, RaisedMtu, VfPlace};
use port::{Config, Port, Queues, StartError};

use super::Registers;

/// A function with device id `device`, and the physical function's interface under `pci`.
#[derive(Clone)]
pub(super) struct Fake {
    device: u16,
    pub(super) registers: Registers,
    space: Arc<SimSpace>,
    /// The command register.
    pub(super) command: Arc<AtomicU16>,
    /// What is seen of the bus, and as whom.
    pub(super) pci: Option<(Pci, Bdf)>,
    /// The MTUs that were asked for.
    pub(super) raised: Arc<Mutex<Vec<u32>>>,
}

impl Fake {
    pub(super) fn new(device: u16, registers: Registers) -> Self {
        Self {
            device,
            registers,
            space: SimSpace::new(),
            command: Arc::new(AtomicU16::new(command::MASTER)),
            pci: None,
            raised: Arc::default(),
        }
    }

    pub(super) fn is_master(&self) -> bool {
        self.command.load(Ordering::Relaxed) & command::MASTER != 0
    }
}

impl Function for Fake {
    type Bar = Registers;

    fn name(&self) -> &str {
        "0000:03:10.0"
    }
    fn config8(&self, _offset: u16) -> u8 {
        0
    }
    fn config16(&self, offset: u16) -> u16 {
        match offset {
            0 => 0x8086,
            2 => self.device,
            COMMAND => self.command.load(Ordering::Relaxed),
            _ => 0,
        }
    }
    fn config32(&self, _offset: u16) -> u32 {
        0
    }
    fn set_config16(&self, offset: u16, value: u16) {
        if offset == COMMAND {
            self.command.store(value, Ordering::Relaxed);
            // In the list of writes too, so that its place among them can be told.
            self.registers.state(|state| {
                state
                    .written
                    .push((BUS_MASTER, u32::from(value & command::MASTER)));
            });
        }
    }
    fn bar(&self, _index: u8) -> Result<Registers, BarError> {
        Ok(self.registers.clone())
    }
    fn space(&self) -> Arc<dyn DmaSpace> {
        self.space.clone()
    }
    fn reset(&self) -> io::Result<()> {
        Ok(())
    }
    fn raise_pf_mtu(&self, mtu: u32) -> Result<Option<RaisedMtu>, MtuError> {
        self.raised
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(mtu);
        match &self.pci {
            Some((pci, bdf)) => pci.raise_pf_mtu(*bdf, mtu),
            None => Ok(None),
        }
    }
    fn vf_place(&self) -> Option<VfPlace> {
        let (pci, bdf) = self.pci.as_ref()?;
        pci.vf_place(*bdf)
    }
}

/// Stands for the command register in the list of writes.
pub(super) const BUS_MASTER: u32 = u32::MAX;

/// Memory for a port, of `bytes` bytes and what pages round them up to.
pub(super) fn memory(port: &dyn Port, bytes: usize) -> Memory {
    let memory = Memory::new(&MemoryRequest {
        bytes,
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: vec![port.space()],
    });
    memory.expect("there is memory for a test")
}

/// Starts `port` in memory of its own.
pub(super) fn start(port: &mut dyn Port, config: &Config) -> (Memory, Result<Queues, StartError>) {
    let memory = memory(port, port.ring_bytes(config) + (1 << 16));
    let queues = port.start(config, &memory);
    (memory, queues)
}
