//! virtio on PCI (§4.1).

pub(crate) mod legacy;
pub(crate) mod modern;
pub(crate) mod window;

use std::time::{Duration, Instant};

use hw::Function;
use port::PortError;

use crate::error::OpenError;
use crate::features::Features;
use crate::regs::{Status, pci};

/// How long a device may take to reset.
pub(crate) const RESET_TIME: Duration = Duration::from_secs(5);

/// Checks that `function` is a virtio network device that is there, and lets it answer.
pub(crate) fn identify<F: Function>(function: &F) -> Result<(u16, u16), OpenError> {
    let port = || function.name().to_owned();
    let (vendor, device) = (
        function.config16(pci::VENDOR),
        function.config16(pci::DEVICE),
    );
    if vendor == u16::MAX {
        return Err(OpenError::Gone { port: port() });
    }
    let known = [pci::TRANSITIONAL_NET, pci::MODERN_NET].contains(&device);
    if vendor != pci::RED_HAT || !known {
        return Err(OpenError::NotVirtio {
            port: port(),
            vendor,
            device,
        });
    }
    set_command(
        function,
        pci::COMMAND_IO | pci::COMMAND_MEMORY | pci::COMMAND_NO_INTX,
        true,
    );
    Ok((vendor, device))
}

/// Checks that the device keeps to the IOMMU, if there is one: without ACCESS_PLATFORM it takes
/// the addresses that it is given for physical ones (§6.1), and hits memory of others.
pub(crate) fn keeps_to_iommu<F: Function>(
    function: &F,
    offered: Features,
) -> Result<(), OpenError> {
    if function.is_behind_iommu() && !offered.contains(Features::ACCESS_PLATFORM) {
        return Err(OpenError::AroundIommu {
            port: function.name().to_owned(),
        });
    }
    Ok(())
}

/// Sets or clears bits of the command register.
pub(crate) fn set_command<F: Function>(function: &F, bits: u16, on: bool) {
    let command = function.config16(pci::COMMAND);
    let wanted = if on { command | bits } else { command & !bits };
    if command != wanted {
        function.set_config16(pci::COMMAND, wanted);
    }
}

/// Waits until the device has reset itself: its status reads zero (§4.1.4.3.1).
pub(crate) fn await_reset(port: &str, status: impl Fn() -> Status) -> Result<(), PortError> {
    let start = Instant::now();
    loop {
        match status() {
            Status::GONE => {
                return Err(PortError::Gone {
                    port: port.to_owned(),
                });
            }
            now if now.is_empty() => return Ok(()),
            _ => {}
        }
        let waited = start.elapsed();
        if waited > RESET_TIME {
            return Err(PortError::Stuck {
                port: port.to_owned(),
                what: "the device's reset".into(),
                waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            });
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}
