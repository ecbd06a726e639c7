//! Why a device could not be opened.

use hw::BarError;

/// Why a device could not be opened.
///
/// Each variant says what was found; [`OpenError::remedy`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is some other PCI device.
    #[error("{port} is {vendor:04x}:{device:04x}, not a vmxnet3")]
    NotVmxnet3 {
        /// The function.
        port: String,
        /// PCI vendor id.
        vendor: u16,
        /// PCI device id.
        device: u16,
    },
    /// Its registers read as all ones: it was unplugged, or never was there.
    #[error("{port}: the device is gone")]
    Gone {
        /// The function.
        port: String,
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
    /// It is a vmxnet3, and broken.
    #[error("{port}: {what}")]
    Broken {
        /// The function.
        port: String,
        /// What was found.
        what: String,
    },
    /// An option has a value that the device cannot have.
    #[error("{port}: {option} of {value} is not possible: {allowed}")]
    Option {
        /// The function.
        port: String,
        /// The option.
        option: &'static str,
        /// Its value.
        value: usize,
        /// What is possible.
        allowed: String,
    },
    /// It offers no revision of its interface that will do.
    #[error("{port} offers revisions {offered:#b} (a bit each), none of them up to {most}")]
    Revision {
        /// The function.
        port: String,
        /// Revisions it offers, a bit each, the first in bit 0.
        offered: u32,
        /// The highest that will do.
        most: u32,
    },
}

impl OpenError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::NotVmxnet3 { .. } => {
                Some("rgen ports lists what is there and which driver it takes".into())
            }
            Self::Gone { port } => Some(format!("look whether it is still there: lspci -s {port}")),
            Self::Revision { .. } => Some("leave out revision=, or choose one it offers".into()),
            Self::Option {
                option, allowed, ..
            } => Some(format!("use {option}=N with N {allowed}")),
            Self::Bar { .. } | Self::Broken { .. } => None,
        }
    }
}
