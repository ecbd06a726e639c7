//! Registers: configuration and commands in BAR 1, masks of interrupts in BAR 0.

use hw::mmio::RegInfo;

use super::bits::{cap, doorbell, event, register, shared};
use super::commands::vectors;
use super::doorbells::Bells;
use super::pci::{PT, VD};
use super::{Vmxnet3, bits};

/// What the model calls each register, as VMware's header does, and where it has it: for the
/// test that compares it with a driver's table. BAR 1 first, then BAR 0.
#[must_use]
pub fn register_map() -> [Vec<RegInfo>; 2] {
    let one = |(name, offset): (&'static str, u32)| RegInfo {
        name,
        offset,
        stride: doorbell::STRIDE,
        count: 1,
    };
    let many = |(name, offset, count): (&'static str, u32, u32)| RegInfo {
        name,
        offset,
        stride: doorbell::STRIDE,
        count,
    };
    let commands = [
        ("VRRS", register::VRRS),
        ("UVRS", register::UVRS),
        ("DSAL", register::DSAL),
        ("DSAH", register::DSAH),
        ("CMD", register::CMD),
        ("MACL", register::MACL),
        ("MACH", register::MACH),
        ("ICR", register::ICR),
        ("ECR", register::ECR),
        ("DCR", register::DCR),
        ("PTCR", register::PTCR),
    ];
    let doorbells = [
        ("IMR", doorbell::IMR, u32::from(bits::limit::INTERRUPTS)),
        (
            "TXPROD",
            doorbell::TXPROD,
            u32::from(bits::limit::TX_QUEUES),
        ),
        (
            "RXPROD",
            doorbell::RXPROD,
            u32::from(bits::limit::RX_QUEUES),
        ),
        (
            "RXPROD2",
            doorbell::RXPROD2,
            u32::from(bits::limit::RX_QUEUES),
        ),
    ];
    [
        commands.into_iter().map(one).collect(),
        doorbells.into_iter().map(many).collect(),
    ]
}

impl Vmxnet3 {
    /// Reads BAR 1.
    pub(super) fn read_register(&mut self, offset: u32) -> u32 {
        let [a, b, c, d, e, f] = self.mac;
        match offset {
            register::VRRS => (1 << self.options.revision) - 1,
            register::UVRS => 1,
            register::CMD => self.result,
            register::MACL => u32::from_le_bytes([a, b, c, d]),
            register::MACH => u32::from_le_bytes([e, f, 0, 0]),
            register::ICR => {
                let was_high = std::mem::take(&mut self.interrupts.line);
                self.update_line();
                u32::from(was_high)
            }
            // Written alone; what is pending is in the shared area. Reads give 0 on QEMU.
            register::ECR | register::DSAL | register::DSAH => 0,
            register::DCR if self.revision >= 7 => self.capabilities(),
            register::PTCR if self.revision >= 7 => cap::ERROR,
            _ => {
                self.object(format!("read of {offset:#x} of BAR {VD}"));
                0
            }
        }
    }

    /// Writes BAR 1.
    pub(super) fn write_register(&mut self, offset: u32, value: u32) {
        match offset {
            register::VRRS => self.select_revision(value),
            register::UVRS if value == 1 => self.upt = true,
            register::UVRS => self.object(format!("{value:#x} written to UVRS, which offers 1")),
            register::DSAL => {
                if value == 0 {
                    self.deactivate();
                }
                self.shared_low = Some(value);
                self.set_shared(0);
            }
            register::DSAH => match self.shared_low.take() {
                Some(low) => self.set_shared(u64::from(value) << 32 | u64::from(low)),
                None => self.object("DSAH written without DSAL before it"),
            },
            register::CMD => self.command(value),
            register::MACL => self.mac_low = value,
            register::MACH => self.set_mac(value),
            register::ECR => self.acknowledge(value),
            register::DCR if self.revision >= 7 => self.switch_on(value),
            _ => self.object(format!("write of {value:#x} to {offset:#x} of BAR {VD}")),
        }
    }

    fn select_revision(&mut self, value: u32) {
        let offered = (1 << self.options.revision) - 1;
        if self.active.is_some() {
            self.object("VRRS written while the device is active");
        } else if value.is_power_of_two() && value & offered != 0 {
            self.revision = u8::try_from(value.trailing_zeros() + 1).expect("7 at most");
        } else {
            self.object(format!(
                "{value:#x} written to VRRS, which offers one bit of {offered:#x}"
            ));
        }
    }

    fn set_shared(&mut self, at: u64) {
        if self.active.is_some() {
            self.object("DSAL or DSAH written while the device is active");
            return;
        }
        if !at.is_multiple_of(shared::ALIGN) {
            self.object(format!("shared area at {at:#x}"));
        }
        self.shared_at = at;
    }

    fn set_mac(&mut self, high: u32) {
        let [a, b, c, d] = self.mac_low.to_le_bytes();
        let [e, f, rest @ ..] = high.to_le_bytes();
        let mac = [a, b, c, d, e, f];
        if rest != [0, 0] || a & 1 == 1 || mac == [0; 6] {
            self.object(format!("address {mac:02x?} and {rest:02x?} written"));
        }
        self.mac = mac;
    }

    /// What is not offered stays off, which `GET_DCR0_REG` says: where `PTCR` shows an error,
    /// Linux's driver asks for whatever it knows.
    fn switch_on(&mut self, value: u32) {
        let value = value & self.capabilities();
        if self.active.is_some() {
            self.object("DCR written while the device is active");
        } else {
            self.dcr = value;
            self.bells.set_large(value & cap::LARGE_BAR != 0);
        }
    }

    /// The driver has seen `events`.
    fn acknowledge(&mut self, events: u32) {
        if events & !event::ALL != 0 {
            self.object(format!("{events:#x} written to ECR"));
        }
        self.change_events(0, events);
    }

    /// Reads BAR 0.
    pub(super) fn read_mask(&mut self, offset: u32) -> u32 {
        match self.vector_at(offset) {
            Some(vector) => u32::from(self.interrupts.is_masked(vector)),
            None => {
                self.object(format!("read of {offset:#x} of BAR {PT}"));
                0
            }
        }
    }

    /// Writes BAR 0, but for doorbells.
    pub(super) fn write_mask(&mut self, offset: u32, value: u32) {
        let Some(vector) = self.vector_at(offset) else {
            let why = if Bells::is_one(offset) {
                ": the doorbells are elsewhere"
            } else {
                ""
            };
            self.object(format!(
                "write of {value:#x} to {offset:#x} of BAR {PT}{why}"
            ));
            return;
        };
        if value > 1 {
            self.object(format!("{value:#x} written to IMR {vector}"));
        }
        let is_off = self.are_interrupts_off();
        let sent = self.interrupts.mask(vector, value & 1 == 1, is_off);
        if let Some(vector) = u8::try_from(vector).ok().filter(|_| sent) {
            self.send(vector);
        }
        self.count_interrupts(u64::from(sent));
    }

    fn vector_at(&self, offset: u32) -> Option<usize> {
        let count = u32::from(vectors(self.options.revision));
        let vector = (offset - doorbell::IMR) / doorbell::STRIDE;
        (offset.is_multiple_of(doorbell::STRIDE) && vector < count).then_some(vector as usize)
    }
}
