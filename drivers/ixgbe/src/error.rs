//! Why a port could not be opened.

use hw::BarError;
use port::PortError;

/// Why a port could not be opened.
///
/// Each variant says what was found; [`OpenError::remedy`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is some other PCI device.
    #[error("{port} is {vendor:04x}:{device:04x}, no NIC of the ixgbe family")]
    NotOurs {
        /// The function.
        port: String,
        /// PCI vendor id.
        vendor: u16,
        /// PCI device id.
        device: u16,
    },
    /// A register window is missing, too small, or cannot be mapped.
    #[error("{port}: no register window")]
    Bar {
        /// The function.
        port: String,
        /// What is wrong with it.
        #[source]
        source: BarError,
    },
    /// It does not answer as it should.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl OpenError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::NotOurs { .. } => {
                Some("rgen ports lists what is there and which driver it takes".into())
            }
            Self::Port(PortError::Gone { port }) => {
                Some(format!("look whether it is still there: lspci -s {port}"))
            }
            Self::Port(error) => error.remedy(),
            Self::Bar { .. } => None,
        }
    }
}
