//! What a frame shall be made of, before it is bytes.

use super::layer::{FieldDef, Layer};

/// The byte that payloads are filled with, as in TRex's profiles.
pub const FILL: u8 = b'x';

/// The smallest Ethernet frame in bytes, with FCS (IEEE 802.3 §4.4.2).
pub const MIN_SIZE: usize = 64;

/// The largest size that a frame may have in bytes, with FCS: the profiles' limit.
pub const MAX_SIZE: usize = 9216;

/// A header and what is set in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Which.
    pub layer: Layer,
    /// Fields that are set. Others have defaults, or follow from what is inside.
    pub set: Vec<(&'static FieldDef, u128)>,
    /// The bytes of [`Layer::Raw`].
    pub bytes: Vec<u8>,
}

impl Header {
    /// A header with nothing set.
    #[must_use]
    pub fn new(layer: Layer) -> Self {
        Self {
            layer,
            set: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// The same with a field set.
    ///
    /// # Panics
    /// The header has no such field, or the value does not fit it: texts go through
    /// [`text::parse`](super::text::parse), which says so in words.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<u128>) -> Self {
        let def = self.layer.field(field).expect("the header has this field");
        let value = value.into();
        assert!(value <= def.max(), "the value fits its field");
        self.set.push((def, value));
        self
    }

    /// What a field is set to, if it is.
    #[must_use]
    pub fn value(&self, field: &str) -> Option<u128> {
        let def = self.layer.field(field)?;
        self.set
            .iter()
            .rev()
            .find(|(set, _)| *set == def)
            .map(|(_, value)| *value)
    }

    /// Bytes of the header.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.layer {
            Layer::Ethernet => 14,
            Layer::Vlan | Layer::Mpls => 4,
            Layer::Ipv4 | Layer::Tcp => 20,
            Layer::Ipv6 => 40,
            Layer::Arp => 28,
            Layer::Gre if self.value("key").is_none() => 4,
            Layer::Udp | Layer::Icmp | Layer::Icmp6 | Layer::Gre | Layer::Vxlan | Layer::Gtpu => 8,
            Layer::Raw => self.bytes.len(),
        }
    }

    /// True for raw bytes of which there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A frame's headers, first to last, and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameSpec {
    /// The headers.
    pub headers: Vec<Header>,
    /// Bytes with FCS. The headers' own, but at least [`MIN_SIZE`], if none.
    pub size: Option<usize>,
}

impl FrameSpec {
    /// A frame of these headers.
    #[must_use]
    pub fn new(headers: impl Into<Vec<Header>>) -> Self {
        Self {
            headers: headers.into(),
            size: None,
        }
    }

    /// The same, `size` bytes with FCS.
    #[must_use]
    pub fn sized(self, size: usize) -> Self {
        Self {
            size: Some(size),
            ..self
        }
    }
}

/// Why a frame cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// It has no headers.
    #[error("a frame of no headers")]
    Empty,
    /// It begins with something that is not Ethernet.
    #[error("a frame begins with eth (or is raw altogether), not with {layer}")]
    Start {
        /// What it begins with.
        layer: &'static str,
    },
    /// A header where it cannot be.
    #[error("{inner} does not go into {outer}")]
    Stacking {
        /// The header before.
        outer: &'static str,
        /// The header that does not belong there.
        inner: &'static str,
        /// Number of the inner header, from 0.
        index: usize,
    },
    /// The size does not hold the headers, or is past what a frame can be.
    #[error("a frame of {size} bytes with FCS: the headers take {least}, and {most} is the most")]
    Size {
        /// What was asked for, in bytes with FCS.
        size: usize,
        /// What the headers and FCS take.
        least: usize,
        /// The largest frame.
        most: usize,
    },
}
