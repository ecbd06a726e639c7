//! The device: its registers, its revision, and commands.

use std::sync::Arc;

use hugemem::{DmaSpace, Iova};
use hw::function::{COMMAND, command as bits, set_bus_master};
use hw::{Bar, BarError, Function};
use port::{Link, LinkState, Mac, PortError};

use crate::error::OpenError;
use crate::options::Options;
use crate::regs::{Events, WINDOW, command, control, pass, pci};

/// The highest revision of the interface that this driver knows. (5 changes nothing that it uses; 6
/// and 7 lay out interrupts and registers anew, for more queues than these.)
const REVISION_MAX: u32 = 4;
/// What a register of a device that is gone reads as.
const GONE: u32 = u32::MAX;

/// A vmxnet3 whose revision is agreed on.
pub(crate) struct Device<F: Function> {
    function: F,
    pass: F::Bar,
    control: F::Bar,
    revision: u32,
}

impl<F: Function> Device<F> {
    /// The device behind `function`, reset, and kept from memory.
    pub(crate) fn open(function: F, options: &Options) -> Result<Self, OpenError> {
        let port = function.name().to_owned();
        let (vendor, id) = (
            function.config16(pci::VENDOR),
            function.config16(pci::DEVICE),
        );
        if vendor == u16::MAX {
            return Err(OpenError::Gone { port });
        }
        if (vendor, id) != (pci::VMWARE, pci::VMXNET3) {
            return Err(OpenError::NotVmxnet3 {
                port,
                vendor,
                device: id,
            });
        }
        // Whatever ran here before may have left the device at work.
        set_bus_master(&function, false);
        let was = function.config16(COMMAND);
        function.set_config16(COMMAND, was | bits::MEMORY | bits::INTX_OFF);
        let (pass, control) = (
            window(&function, pass::BAR)?,
            window(&function, control::BAR)?,
        );
        let revision = negotiate(&port, &control, options)?;
        let device = Self {
            function,
            pass,
            control,
            revision,
        };
        device.reset().map_err(|error| match error {
            PortError::Gone { port } => OpenError::Gone { port },
            error => OpenError::Broken {
                port,
                what: error.to_string(),
            },
        })?;
        Ok(device)
    }

    /// How the user names it.
    pub(crate) fn name(&self) -> &str {
        self.function.name()
    }

    /// The revision of the interface in use.
    pub(crate) fn revision(&self) -> u32 {
        self.revision
    }

    /// Where its DMA lands.
    pub(crate) fn space(&self) -> Arc<dyn DmaSpace> {
        self.function.space()
    }

    /// NUMA node, where it is known.
    pub(crate) fn node(&self) -> Option<u32> {
        self.function.numa_node()
    }

    /// The registers that queues write.
    pub(crate) fn pass(&self) -> F::Bar {
        self.pass.clone()
    }

    fn gone(&self) -> PortError {
        PortError::Gone {
            port: self.name().to_owned(),
        }
    }

    /// Fails if the device is gone. No revisions are all of them.
    pub(crate) fn check(&self) -> Result<(), PortError> {
        match self.control.read(control::VRRS) {
            GONE => Err(self.gone()),
            _ => Ok(()),
        }
    }

    /// Gives a command that makes the device read what was written before, and returns its
    /// result: reading that is also what waits for a command to be carried out. Of the commands that
    /// set something, only `ACTIVATE_DEV` is known to say whether it worked; what others leave
    /// there no public driver reads.
    pub(crate) fn command(&self, command: u32) -> Result<u32, PortError> {
        hw::ring::publish();
        self.control.write(control::CMD, command);
        let result = self.control.read(control::CMD);
        hw::ring::observe();
        if result == GONE {
            self.check()?;
        }
        Ok(result)
    }

    /// Stops the queues and makes the device forget where they are.
    pub(crate) fn reset(&self) -> Result<(), PortError> {
        self.command(command::QUIESCE_DEV)?;
        self.command(command::RESET_DEV)?;
        Ok(())
    }

    /// Lets the device read and write memory, or forbids it.
    pub(crate) fn set_memory_access(&self, on: bool) {
        set_bus_master(&self.function, on);
    }

    /// Tells the device where the shared area is, and starts its queues. (Interrupt 0, the one that
    /// all are told to use, is masked: this driver polls.)
    pub(crate) fn activate(&self, area: Iova) -> Result<(), PortError> {
        let [a, b, c, d, e, f, g, h] = area.get().to_le_bytes();
        self.control
            .write(control::DSAL, u32::from_le_bytes([a, b, c, d]));
        self.control
            .write(control::DSAH, u32::from_le_bytes([e, f, g, h]));
        let result = self.command(command::ACTIVATE_DEV)?;
        if result != 0 {
            return Err(PortError::Refused {
                port: self.name().to_owned(),
                what: format!("to start: its answer is {result:#x}"),
                cure: Some("ask for fewer queues, or smaller rings".into()),
            });
        }
        self.pass.write(pass::IMR.of(0), 1);
        Ok(())
    }

    /// The address that the device was made with.
    pub(crate) fn permanent_mac(&self) -> Result<Mac, PortError> {
        let low = self.command(command::GET_PERM_MAC_LO)?;
        let high = self.command(command::GET_PERM_MAC_HI)?;
        let ([a, b, c, d], [e, f, ..]) = (low.to_le_bytes(), high.to_le_bytes());
        let mac = [a, b, c, d, e, f];
        if mac[0] & 1 == 0 && mac != [0; 6] {
            return Ok(mac);
        }
        let low = self.control.read(control::MACL);
        let high = self.control.read(control::MACH);
        let ([a, b, c, d], [e, f, ..]) = (low.to_le_bytes(), high.to_le_bytes());
        Ok([a, b, c, d, e, f])
    }

    /// Sets the address that frames for this port carry.
    pub(crate) fn set_mac(&self, [a, b, c, d, e, f]: Mac) {
        self.control
            .write(control::MACL, u32::from_le_bytes([a, b, c, d]));
        self.control
            .write(control::MACH, u32::from_le_bytes([e, f, 0, 0]));
    }

    /// The link as it is now.
    pub(crate) fn link(&self) -> Result<Link, PortError> {
        let word = self.command(command::GET_LINK)?;
        let speed_mbps = u64::from(word >> 16);
        Ok(Link {
            state: if word & 1 == 1 {
                LinkState::Up
            } else {
                LinkState::Down
            },
            speed_bps: (speed_mbps > 0).then_some(speed_mbps * 1_000_000),
            full_duplex: true,
        })
    }

    /// Acknowledges events.
    pub(crate) fn acknowledge(&self, events: Events) {
        self.control.write(control::ECR, events.bits());
    }
}

fn window<F: Function>(function: &F, index: u8) -> Result<F::Bar, OpenError> {
    let failed = |source| OpenError::Bar {
        port: function.name().to_owned(),
        source,
    };
    let bar = function.bar(index).map_err(failed)?;
    if bar.len() < WINDOW {
        return Err(failed(BarError::Absent { index }));
    }
    Ok(bar)
}

/// Agrees on the highest revision that both sides know.
fn negotiate<B: Bar>(port: &str, bar: &B, options: &Options) -> Result<u32, OpenError> {
    let offered = bar.read(control::VRRS);
    if offered == GONE {
        return Err(OpenError::Gone { port: port.into() });
    }
    let most = options.revision.unwrap_or(REVISION_MAX).min(REVISION_MAX);
    let known = offered & ((1 << most) - 1);
    let revision = u32::BITS - known.leading_zeros();
    if revision == 0 {
        return Err(OpenError::Revision {
            port: port.into(),
            offered,
            most,
        });
    }
    bar.write(control::VRRS, 1 << (revision - 1));
    if bar.read(control::UVRS) & 1 == 0 {
        return Err(OpenError::Broken {
            port: port.into(),
            what: "it does not offer version 1 of UPT".into(),
        });
    }
    bar.write(control::UVRS, 1);
    Ok(revision)
}
