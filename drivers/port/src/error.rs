//! What can go wrong with a port.

use hugemem::{MemoryError, PoolError};

/// Why a port did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The device cannot do that.
    #[error("{port}: {what} of {asked} is not possible: {allowed}")]
    Unsupported {
        /// The port.
        port: String,
        /// What was asked for.
        what: &'static str,
        /// The value asked for.
        asked: String,
        /// What the device allows.
        allowed: String,
    },
    /// There is not enough memory for its rings.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// There is not enough memory for its frames.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The device does not behave.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// What is wrong with a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The device is gone: every register reads as ones, or the peer closed.
    #[error("{port}: the device is gone")]
    Gone {
        /// The port.
        port: String,
    },
    /// The device did not do what it should within its time.
    #[error("{port}: {what} did not happen within {waited_ms} ms")]
    Stuck {
        /// The port.
        port: String,
        /// What was waited for.
        what: String,
        /// How long, in milliseconds.
        waited_ms: u64,
    },
    /// The device or the peer broke its protocol.
    #[error("{port}: {what}")]
    Broken {
        /// The port.
        port: String,
        /// What it did.
        what: String,
    },
    /// The device cannot do that ([`Caps`](crate::Caps) says so).
    #[error("{port}: {what} is not offered by this device")]
    NotOffered {
        /// The port.
        port: String,
        /// What was asked for.
        what: String,
    },
    /// The device could, but refused.
    #[error("{port}: the device refused {what}")]
    Refused {
        /// The port.
        port: String,
        /// What was asked for.
        what: String,
        /// What to do about it, where something is known.
        cure: Option<String>,
    },
}

impl PortError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Refused { cure, .. } => cure.clone(),
            Self::Stuck { .. } => Some(
                "the device or its peer hangs, or gets no time to run: free a core for it, or reset \
                 it"
                .into(),
            ),
            _ => None,
        }
    }
}

impl StartError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Memory(error) | Self::Pool(PoolError::Memory(error)) => error.remedy(),
            Self::Port(error) => error.remedy(),
            Self::Unsupported { .. } | Self::Pool(_) => None,
        }
    }
}
