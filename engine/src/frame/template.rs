//! A frame's bytes, and where its headers are.

use crate::stream::FCS;

/// A frame as bytes, without FCS, and the headers in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The bytes, without FCS.
    pub bytes: Vec<u8>,
    /// The headers, first to last.
    pub layers: Vec<LayerAt>,
}

impl Template {
    /// A frame of bytes that are not looked into.
    #[must_use]
    pub fn raw(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            layers: Vec::new(),
        }
    }

    /// Its size in bytes, with FCS.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len() + FCS
    }
}

/// A header in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerAt {
    /// First byte.
    pub offset: usize,
    /// Bytes of the header itself.
    pub len: usize,
}

/// How a field is written and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A number.
    Number,
    /// A MAC address.
    Mac,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
}

/// Where a field is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldAt {
    /// First bit, counted from the most significant bit of the frame's first byte.
    pub bit: usize,
    /// Width in bits.
    pub bits: usize,
    /// How it is written.
    pub kind: FieldKind,
}
