//! Why a port could not be opened.

use std::io;
use std::path::PathBuf;

use hw::BarError;

/// Why a port could not be opened.
///
/// Each variant says what was found; [`OpenError::remedy`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is some other PCI device.
    #[error("{port} is {vendor:04x}:{device:04x}, not a virtio network device")]
    NotVirtio {
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
    /// A register window is missing or cannot be mapped.
    #[error("{port}: no register window")]
    Bar {
        /// The function.
        port: String,
        /// What is wrong with it.
        #[source]
        source: BarError,
    },
    /// It is virtio, and broken: a structure is missing, outside its window, or does not answer.
    #[error("{port}: {what}")]
    Broken {
        /// The port.
        port: String,
        /// What was found.
        what: String,
    },
    /// The device does not offer what was asked for.
    #[error("{port}: {what} is not offered by this device")]
    NotOffered {
        /// The port.
        port: String,
        /// What was asked for.
        what: String,
    },
    /// The device goes around the IOMMU: it would take bus addresses for physical ones, and write
    /// to memory that is not the driver's (§6.1, `VIRTIO_F_ACCESS_PLATFORM`).
    #[error("{port} does not keep to the IOMMU: it offers no ACCESS_PLATFORM")]
    AroundIommu {
        /// The function.
        port: String,
    },
    /// The device has fewer queue pairs than were asked for.
    #[error("{port} has {offered} queue pairs, not {asked}")]
    TooFewQueues {
        /// The port.
        port: String,
        /// Pairs asked for.
        asked: usize,
        /// Pairs that it has.
        offered: usize,
    },
    /// An option has a value that makes no sense.
    #[error("{option} of {value} is not possible: {allowed}")]
    Option {
        /// Its name.
        option: &'static str,
        /// Its value.
        value: String,
        /// What is possible.
        allowed: String,
    },
    /// The path is no socket's, and can be none's.
    #[error("{} cannot be a vhost-user socket: {what}", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Somebody asked to stop while a peer was waited for.
    #[error("interrupted while waiting for a peer at {}", path.display())]
    Interrupted {
        /// The socket.
        path: PathBuf,
    },
    /// No peer listens on the path.
    #[error("no vhost-user peer at {}", path.display())]
    NoPeer {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// This end cannot listen on the path.
    #[error("cannot listen on {}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// No peer connected.
    #[error("no peer connected to {} within {waited_ms} ms", path.display())]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// How long this end waited, in milliseconds.
        waited_ms: u64,
    },
    /// The peer did not answer in time.
    #[error("the peer at {} did not answer {step} within {waited_ms} ms", path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// The request.
        step: &'static str,
        /// How long this end waited, in milliseconds.
        waited_ms: u64,
    },
    /// The peer went away in the middle of the handshake.
    #[error("the peer at {} closed the connection at {step}", path.display())]
    Closed {
        /// The socket.
        path: PathBuf,
        /// The request.
        step: &'static str,
    },
    /// The peer's answer is no vhost-user message, or not the one that was due.
    #[error("the peer at {} answered {step} with nonsense: {what}", path.display())]
    Nonsense {
        /// The socket.
        path: PathBuf,
        /// The request.
        step: &'static str,
        /// What is wrong with the answer.
        what: String,
    },
}

impl OpenError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::NotVirtio { .. } => {
                Some("rgen ports lists what is there and which driver it takes".into())
            }
            Self::Gone { port } => Some(format!("look whether it is still there: lspci -s {port}")),
            Self::NotOffered { what, .. } => Some(format!(
                "enable {what} on the other side, or leave it out here"
            )),
            Self::AroundIommu { .. } => Some(
                "give the VM's device both: iommu_platform=on,disable-legacy=on (QEMU), or turn \
                 the VM's IOMMU off"
                    .into(),
            ),
            Self::TooFewQueues { offered, .. } => {
                Some(format!("queues={offered}, or give the device more"))
            }
            Self::NoSocket { .. } => Some("name the socket of a vhost-user peer".into()),
            Self::NoPeer { source, path } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some(format!(
                    "ls -l {}; run as a user who may write to it",
                    path.display()
                ))
            }
            Self::NoPeer { path, .. } => Some(format!(
                "start the peer first, or listen for it: vhost-user:{},server=on",
                path.display()
            )),
            Self::Listen { source, path } if source.kind() == io::ErrorKind::AddrInUse => {
                Some(format!(
                    "something listens on it already: ss -xlp | grep {}",
                    path.display()
                ))
            }
            Self::Listen { source, path } if source.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().unwrap_or(path);
                Some(format!(
                    "make the directory first: mkdir -p {}",
                    parent.display()
                ))
            }
            Self::Nobody { path, .. } => Some(format!(
                "start the peer as a client of {}, or connect to it: leave out server=on",
                path.display()
            )),
            Self::Silent { .. } | Self::Closed { .. } | Self::Nonsense { .. } => {
                Some("check that the socket is a vhost-user backend's, and look in its log".into())
            }
            Self::Broken { .. } => Some(
                "restart or update what provides the device, and look in its log: rgen needs what \
                 virtio 1.0 prescribes"
                    .into(),
            ),
            Self::Bar { .. }
            | Self::Option { .. }
            | Self::Listen { .. }
            | Self::Interrupted { .. } => None,
        }
    }
}
