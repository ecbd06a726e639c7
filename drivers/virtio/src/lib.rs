//! Driver for virtio network devices: modern and legacy PCI, and vhost-user.
//!
//! Sections (§) refer to the OASIS virtio 1.2 standard.
#![forbid(unsafe_code)]

mod error;
mod options;

use std::path::Path;

use hw::Function;
use port::Port;

pub use error::OpenError;
pub use options::{Choice, Options, VhostOptions};

/// Opens a virtio network device on PCI: the modern interface if it has one, else the legacy.
///
/// # Errors
/// It is no virtio network device, or a broken one.
pub fn open_pci<F: Function>(function: F, _options: &Options) -> Result<Box<dyn Port>, OpenError> {
    Err(OpenError::NotOffered {
        port: function.name().to_owned(),
        what: "this driver".into(),
    })
}

/// Connects to a vhost-user peer through the socket at `path`.
///
/// # Errors
/// There is no peer, it does not answer in time, or it answers nonsense.
pub fn open_vhost_user(path: &Path, _options: &VhostOptions) -> Result<Box<dyn Port>, OpenError> {
    Err(OpenError::NotOffered {
        port: path.display().to_string(),
        what: "this driver".into(),
    })
}
