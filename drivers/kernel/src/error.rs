//! Why an interface cannot be opened.

use std::io;

use crate::QUEUES_MAX;

/// Why an interface cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No interface has that name here.
    #[error("there is no interface '{interface}' in this network namespace")]
    NoInterface {
        /// The name.
        interface: String,
        /// Those that there are.
        there: Vec<String>,
    },
    /// The process may not open packet sockets.
    #[error("'{interface}': packet sockets are not allowed to this user")]
    NotAllowed {
        /// The name.
        interface: String,
    },
    /// It carries no Ethernet frames.
    #[error("'{interface}' is no Ethernet interface (its ARP hardware type is {kind})")]
    NotEthernet {
        /// The name.
        interface: String,
        /// Its type, as `ARPHRD_…` of Linux's `if_arp.h`.
        kind: u16,
    },
    /// A number of queues that no port of this kind has.
    #[error("'{interface}': {asked} queues are not possible")]
    Queues {
        /// The name.
        interface: String,
        /// What was asked for.
        asked: usize,
    },
    /// The kernel does not do what it should.
    #[error("'{interface}': the kernel does not {what}: {source}")]
    Kernel {
        /// The name.
        interface: String,
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

impl OpenError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::NoInterface { there, .. } if there.is_empty() => {
                Some("there is none at all: look with ip link".into())
            }
            Self::NoInterface { there, .. } => Some(format!("there are: {}", there.join(", "))),
            Self::NotAllowed { .. } => Some(
                "they need CAP_NET_RAW: run it with sudo, or once: \
                 sudo setcap cap_net_raw+ep \"$(command -v rgen)\""
                    .into(),
            ),
            Self::NotEthernet { .. } => {
                Some("name one that is: ip -brief link shows which there are".into())
            }
            Self::Queues { .. } => Some(format!("use 1 to {QUEUES_MAX}")),
            Self::Kernel { .. } => None,
        }
    }
}
