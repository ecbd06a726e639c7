//! Where the rings of a device lie, and what a slot of theirs says.
//!
//! A third transcription of the formats, beside the driver's and the model's, and only of what a
//! *device* writes: what the driver writes is the same code's on both sides.

mod e1000;
mod virtio;
mod vmxnet3;

use std::collections::BTreeMap;

use hugemem::{Iova, Translator};

pub use e1000::{Advanced, Legacy};
pub use virtio::Virtio;
pub use vmxnet3::Vmxnet3;

/// Slots that follow one another in memory.
pub struct Slots {
    /// Which ring it is.
    pub name: String,
    /// Bus address of the first.
    pub base: u64,
    /// How many.
    pub count: u32,
    /// Bytes of each.
    pub bytes: usize,
    /// What one says.
    pub say: Say,
    /// Where what belongs to them lies: a table of descriptors.
    pub aside: u64,
}

/// What a slot says, as values by name; nothing for one that is not to be compared.
pub type Say = fn(&Slots, &[u8], &mut Look<'_>) -> Vec<(&'static str, String)>;

/// What a slot is looked at with.
pub struct Look<'a> {
    /// Names of addresses.
    pub labels: &'a mut Labels,
    /// What the slot points to.
    pub memory: &'a mut Translator,
}

/// Names for addresses, in the order in which they appear: the same driver takes the same buffers
/// in the same order, wherever they lie.
#[derive(Default)]
pub struct Labels(BTreeMap<u64, usize>);

impl Labels {
    /// The name of `address`.
    pub fn of(&mut self, address: u64) -> String {
        let next = self.0.len();
        format!("@{}", self.0.entry(address).or_insert(next))
    }
}

/// What is known of a family of devices.
pub trait Rings: Send {
    /// The device was found; `config` reads 32 bits of its configuration space.
    fn met(&mut self, _config: &dyn Fn(u16) -> u32) {}
    /// The driver wrote a register.
    fn written(&mut self, bar: u8, offset: u32, value: u32);
    /// True for a register that takes an address.
    fn is_address(&self, bar: u8, offset: u32) -> bool;
    /// True for a counter that is cleared by being read: what a driver makes of it is compared, not
    /// when it reads it.
    fn is_counter(&self, _bar: u8, _offset: u32) -> bool {
        false
    }
    /// A register's name, for the trace.
    fn place(&self, bar: u8, offset: u32) -> String;
    /// The rings that the device has been shown.
    fn list(&mut self, memory: &mut Translator) -> Vec<Slots>;
}

/// Bits `high..=low` of `word`.
fn bits(word: u64, high: u32, low: u32) -> u64 {
    (word >> low) & (u64::MAX >> (63 - (high - low)))
}

/// A number, in hexadecimal digits where that is how people read it.
fn hex(value: u64) -> String {
    format!("{value:#x}")
}

/// The little-endian number of up to 8 bytes at `at` of `bytes`; zero past its end.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let part = bytes.get(at..at + len).unwrap_or_default();
    let digits = part.iter().rev();
    digits.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Reads `len` bytes of memory at `at`; zeros where nothing is mapped.
fn peek(memory: &mut Translator, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // What is not there shows as zeros, and so as a difference.
    let _ = memory.read(Iova::from_device(at), &mut bytes);
    bytes
}
