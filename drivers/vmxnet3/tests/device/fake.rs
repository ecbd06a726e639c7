//! The device: a handful of registers, and its commands.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use hugemem::{DmaSpace, Iova, Memory, MemoryRequest, PageSize, Pages, SimSpace};
use hw::{Bar, BarError, Function};
use port::{Config, Offloads, Port, Queues, StartError};
use vmxnet3::{OpenError, Options, open};

/// The address that the device was made with, in its two registers.
pub(crate) const PERMANENT: [u32; 2] = [0x0102_5452, 0x0403];

/// What the device remembers.
pub(crate) struct State {
    pub(crate) config: [u8; 64],
    /// Revisions it offers.
    pub(crate) revisions: u32,
    pub(crate) upt: u32,
    pub(crate) gone: bool,
    /// What it answers to being activated.
    pub(crate) answer: u32,
    pub(crate) link: u32,
    pub(crate) mac: [u32; 2],
    pub(crate) area: [u32; 2],
    /// Commands given, in order.
    pub(crate) commands: Vec<u32>,
    /// All other registers written: window, offset, value.
    pub(crate) writes: Vec<(u8, u32, u32)>,
    pub(crate) last: u32,
    pub(crate) active: bool,
    pub(crate) space: Arc<SimSpace>,
    /// Registers read or written.
    pub(crate) accesses: usize,
    /// What the device counts: of the first send queue, and of the first receive queue.
    pub(crate) stats: [[u64; 10]; 2],
}

impl State {
    pub(crate) fn address(&self) -> u64 {
        u64::from(self.area[0]) | u64::from(self.area[1]) << 32
    }

    /// Bytes of the shared area.
    pub(crate) fn area<const N: usize>(&self, at: u64) -> [u8; N] {
        self.read(self.address() + at)
    }

    pub(crate) fn read<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        let read = self
            .space
            .translator()
            .read(Iova::from_device(address), &mut bytes);
        read.expect("the address is mapped");
        bytes
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) {
        let written = self
            .space
            .translator()
            .write(Iova::from_device(address), bytes);
        written.expect("the address is mapped");
    }

    pub(crate) fn word(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.area(at))
    }

    pub(crate) fn long(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.area(at))
    }

    pub(crate) fn queues(&self) -> [usize; 2] {
        let [tx, rx] = self.area(62);
        [tx.into(), rx.into()]
    }

    pub(crate) fn command(&mut self, command: u32) {
        self.commands.push(command);
        self.last = 0;
        match command {
            0xcafe_0000 => {
                self.last = self.answer;
                self.active = self.answer == 0;
                // As QEMU's does: it has the address that it was made with again.
                self.mac = PERMANENT;
            }
            0xcafe_0001 => self.active = false,
            0xcafe_0002 => (self.active, self.area) = (false, [0; 2]),
            0xf00d_0001 if self.active => {
                let first_rx = 256 * self.queues()[0] as u64;
                for (stats, queue) in self.stats.iter().zip([0, first_rx]) {
                    let bytes: Vec<_> = stats.iter().flat_map(|v| v.to_le_bytes()).collect();
                    self.write(self.long(40) + queue + 88, &bytes);
                }
            }
            0xf00d_0002 => self.last = self.link,
            0xf00d_0003 => self.last = PERMANENT[0],
            0xf00d_0004 => self.last = PERMANENT[1],
            _ => {}
        }
    }
}

/// The device, and a way to look into it.
#[derive(Clone)]
pub(crate) struct Fake(Arc<Mutex<State>>);

impl Fake {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics with the lock held")
    }
}

#[derive(Clone)]
pub(crate) struct Window(Fake, u8);

impl Bar for Window {
    fn len(&self) -> u64 {
        4096
    }
    fn load8(&self, _: u32) -> u8 {
        u8::MAX
    }
    fn load16(&self, _: u32) -> u16 {
        u16::MAX
    }
    fn load32(&self, offset: u32) -> u32 {
        let mut state = self.0.state();
        state.accesses += 1;
        match (self.1, offset) {
            _ if state.gone => u32::MAX,
            (1, 0x00) => state.revisions,
            (1, 0x08) => state.upt,
            (1, 0x20) => state.last,
            (1, 0x28) => state.mac[0],
            (1, 0x30) => state.mac[1],
            _ => 0,
        }
    }
    fn store8(&self, _: u32, _: u8) {}
    fn store16(&self, _: u32, _: u16) {}
    fn store32(&self, offset: u32, value: u32) {
        let mut state = self.0.state();
        state.accesses += 1;
        match (self.1, offset) {
            (1, 0x10) => state.area = [value, 0],
            (1, 0x18) => state.area[1] = value,
            (1, 0x20) => state.command(value),
            (1, 0x28) => state.mac[0] = value,
            (1, 0x30) => state.mac[1] = value,
            (window, offset) => state.writes.push((window, offset, value)),
        }
    }
}

impl Function for Fake {
    type Bar = Window;

    fn name(&self) -> &str {
        "0000:03:00.0"
    }
    fn config8(&self, offset: u16) -> u8 {
        let state = self.state();
        if state.gone {
            u8::MAX
        } else {
            state.config[usize::from(offset)]
        }
    }
    fn config16(&self, offset: u16) -> u16 {
        u16::from_le_bytes([self.config8(offset), self.config8(offset + 1)])
    }
    fn config32(&self, offset: u16) -> u32 {
        u32::from(self.config16(offset)) | u32::from(self.config16(offset + 2)) << 16
    }
    fn set_config16(&self, offset: u16, value: u16) {
        let at = usize::from(offset);
        self.state().config[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    fn bar(&self, index: u8) -> Result<Window, BarError> {
        match index {
            0 | 1 => Ok(Window(self.clone(), index)),
            _ => Err(BarError::Absent { index }),
        }
    }
    fn space(&self) -> Arc<dyn DmaSpace> {
        Arc::clone(&self.state().space) as Arc<dyn DmaSpace>
    }
    fn reset(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn fake(revisions: u32) -> Fake {
    let mut config = [0; 64];
    config[..4].copy_from_slice(&[0xad, 0x15, 0xb0, 0x07]);
    // Left as a bus master by whoever had it before.
    config[4] = 4;
    Fake(Arc::new(Mutex::new(State {
        config,
        revisions,
        upt: 1,
        gone: false,
        answer: 0,
        link: 10_000 << 16 | 1,
        mac: [0; 2],
        area: [0; 2],
        commands: Vec::new(),
        writes: Vec::new(),
        last: 0,
        active: false,
        space: SimSpace::new(),
        accesses: 0,
        stats: [[0; 10]; 2],
    })))
}

pub(crate) fn opened(fake: &Fake) -> Box<dyn Port> {
    open(fake.clone(), &Options::default()).expect("it is sound")
}

pub(crate) fn refused(fake: &Fake, options: &Options) -> OpenError {
    open(fake.clone(), options).err().expect("it does not open")
}

pub(crate) fn start(port: &mut dyn Port, config: &Config) -> Result<(Queues, Memory), StartError> {
    let memory = Memory::new(&MemoryRequest {
        bytes: port.ring_bytes(config).max(4096),
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: vec![port.space()],
    })?;
    Ok((port.start(config, &memory)?, memory))
}

pub(crate) fn with(offloads: Offloads) -> Config {
    Config {
        offloads,
        ..Config::default()
    }
}
