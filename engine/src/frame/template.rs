//! A frame's bytes, and where its headers are.

use super::checksum;
use super::layer::Layer;
use super::name::{self, FieldNameError};
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
        let layers = vec![LayerAt {
            layer: Layer::Raw,
            offset: 0,
            len: bytes.len(),
            fixed: false,
        }];
        Self { bytes, layers }
    }

    /// Its size in bytes, with FCS.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len() + FCS
    }

    /// Where the field called `name` is: `ipv4.src`, or `ipv4[1].src` for the inner one of two
    /// (TRex's `IP.src` and `IP:1.src` mean the same).
    ///
    /// # Errors
    /// It has no such header or field; the error says which ones it has.
    pub fn field(&self, name: &str) -> Result<FieldAt, FieldNameError> {
        name::resolve(self, name)
    }

    /// The field's value.
    ///
    /// # Panics
    /// The field is not inside the frame.
    #[must_use]
    pub fn get(&self, field: &FieldAt) -> u128 {
        self.bits(field.bit, field.bits)
    }

    /// Sets the field. Checksums are for [`Template::correct`].
    ///
    /// # Panics
    /// The field is not inside the frame.
    pub fn set(&mut self, field: &FieldAt, value: u128) {
        write_bits(&mut self.bytes, field.bit, field.bits, value);
    }

    /// Corrects every checksum but those that were set by hand.
    pub fn correct(&mut self) {
        for fix in self.checksums() {
            checksum::write_full(&mut self.bytes, &fix);
        }
    }

    pub(crate) fn bits(&self, bit: usize, bits: usize) -> u128 {
        let one = |at: usize| u128::from(self.bytes[at / 8] >> (7 - at % 8) & 1);
        (bit..bit + bits).fold(0, |value, at| value << 1 | one(at))
    }
}

/// A header in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerAt {
    /// Which.
    pub layer: Layer,
    /// First byte.
    pub offset: usize,
    /// Bytes of the header itself.
    pub len: usize,
    /// Its checksum was set by hand: it stays as it is, whatever varies.
    pub fixed: bool,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldAt {
    /// First bit, counted from the most significant bit of the frame's first byte.
    pub bit: usize,
    /// Width in bits.
    pub bits: usize,
    /// How it is written.
    pub kind: FieldKind,
}

/// Sets bits of `bytes`, the first most significant.
pub(crate) fn write_bits(bytes: &mut [u8], bit: usize, bits: usize, value: u128) {
    for n in 0..bits {
        let at = bit + bits - 1 - n;
        let mask = 1 << (7 - at % 8);
        if value >> n & 1 == 1 {
            bytes[at / 8] |= mask;
        } else {
            bytes[at / 8] &= !mask;
        }
    }
}
