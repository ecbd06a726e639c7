//! Why a run did not start.

use hugemem::{MemoryError, PoolError};
use port::{PortError, StartError};

use super::chain::ChainError;
use crate::field::{FieldError, RenderError};
use crate::load::LoadError;

/// Why a run did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The plan has no ports.
    #[error("a run needs at least one port")]
    NoPorts,
    /// A port cannot do what the plan asks.
    #[error("{port}: {what} of {asked} is not possible: {allowed}")]
    Unsupported {
        /// The port.
        port: String,
        /// What was asked for.
        what: &'static str,
        /// The value asked for.
        asked: String,
        /// What is allowed.
        allowed: String,
    },
    /// A port did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A port failed before the first frame.
    #[error(transparent)]
    Port(#[from] PortError),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// There is not enough memory for frames.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A stream's program is wrong.
    #[error("stream {stream}: {source}")]
    Field {
        /// The stream.
        stream: String,
        /// What is wrong.
        source: FieldError,
    },
    /// A stream's frames could not be rendered.
    #[error("stream {stream}: {source}")]
    Render {
        /// The stream.
        stream: String,
        /// What is wrong.
        source: RenderError,
    },
    /// A stream's rate is no rate.
    #[error("stream {stream}: {what}")]
    Rate {
        /// The stream.
        stream: String,
        /// What is wrong with it.
        what: String,
    },
    /// Streams that follow one another make no chain.
    #[error("stream {stream}: {source}")]
    Chain {
        /// The stream.
        stream: String,
        /// What is wrong with it.
        source: ChainError,
    },
    /// A load that a port's streams cannot make up.
    #[error("{port}: {source}")]
    Load {
        /// The port.
        port: String,
        /// What is wrong with it.
        source: LoadError,
    },
    /// A measured stream's frames have no room for the stamp.
    #[error(
        "stream {stream}: measured frames need {needed} bytes of payload at their end that \
         nothing else uses, and these have {room}"
    )]
    StampRoom {
        /// The stream.
        stream: String,
        /// Bytes of a stamp.
        needed: usize,
        /// Bytes behind the last header or written field.
        room: usize,
    },
    /// A link is down.
    #[error("{port}: the link is down after {waited_ms} ms")]
    LinkDown {
        /// The port.
        port: String,
        /// How long it was waited for, in milliseconds.
        waited_ms: u64,
    },
    /// A worker's thread could not be made.
    #[error("cannot start a worker")]
    Thread(#[source] std::io::Error),
}

impl RunError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Start(error) => error.remedy(),
            Self::Port(error) => error.remedy(),
            Self::Memory(error) | Self::Pool(PoolError::Memory(error)) => error.remedy(),
            Self::StampRoom { needed, room, .. } => Some(format!(
                "make the frames {} bytes larger",
                needed.saturating_sub(*room)
            )),
            Self::Load { source, .. } => source.remedy(),
            Self::LinkDown { .. } => Some("check the cable, or the peer, or its process".into()),
            _ => None,
        }
    }
}
