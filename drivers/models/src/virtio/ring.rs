//! Both kinds of ring from the device's side.
//!
//! A ring gives *chains*: the buffers that a driver posted together. The device reads or writes
//! them and puts them back as *used*. What a driver may not do in a ring is found here, and is
//! either an objection (the device can go on) or the ring's end ([`Broken`]).

mod indirect;
mod packed;
mod split;

use hugemem::{IommuFault, Translator};

use crate::frames::Segment;
use crate::objections::Objections;

pub(super) use packed::Packed;
pub(super) use split::Split;

/// Why a device stops using a ring: it asks for a reset (§2.1.2) and does nothing more.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl Broken {
    #[cold]
    pub(super) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl From<IommuFault> for Broken {
    #[cold]
    fn from(fault: IommuFault) -> Self {
        Self(fault.to_string())
    }
}

/// Buffers that were posted together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    /// How the driver knows them: the head descriptor, or the buffer id.
    pub(super) id: u16,
    /// Slots of the ring that they take.
    pub(super) slots: u16,
}

/// A chain that goes back, and the bytes that were written into it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    pub(super) chain: Chain,
    pub(super) written: u32,
}

/// What was negotiated that rings care about.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) indirect: bool,
    pub(super) event_idx: bool,
    pub(super) in_order: bool,
    pub(super) objections: Objections,
}

/// A ring that the driver has set up.
pub(super) trait Ring {
    /// Where the device was, to go back there.
    type Mark: Copy;

    /// The next chain that the driver has posted; its buffers are added to `out`.
    fn next(
        &mut self,
        memory: &mut Translator,
        out: &mut Vec<Segment>,
    ) -> Result<Option<Chain>, Broken>;
    /// Where the device is.
    fn mark(&self) -> Self::Mark;
    /// Gives back, untouched, what was taken since `mark`.
    fn rewind(&mut self, mark: Self::Mark);
    /// Puts chains back. The driver sees none of them before it sees the first.
    fn put(&mut self, used: &[Used]);
    /// Puts `chains` chains back that take `slots` slots, by naming the last: for rings in order.
    fn put_batch(&mut self, last: Chain, chains: u16, slots: u16);
    /// Shows the driver what was put back. True if it wants to be interrupted.
    fn publish(&mut self) -> bool;
    /// Asks the driver to ring the doorbell, or not to.
    fn want_doorbell(&mut self, wanted: bool);
    /// As a fault: shows more completions than there are. True if this kind of ring can.
    fn publish_too_many(&mut self) -> bool;
    /// As a fault: puts an id back that there is none of.
    fn put_stranger(&mut self, used: Used);
    /// Checks that the ring's own memory is still mapped.
    fn check(&self, memory: &mut Translator) -> Result<(), Broken>;
}

/// Checks a buffer and adds it to the chain that begins at `first`.
#[inline]
pub(super) fn add(out: &mut Vec<Segment>, first: usize, segment: Segment) -> Result<(), Broken> {
    if segment.len == 0 {
        return Err(Broken::new("descriptor with a length of zero"));
    }
    if !segment.writable && out[first..].last().is_some_and(|before| before.writable) {
        return Err(Broken::new(
            "readable buffer behind a writable one (§2.7.4.2, §2.8.17)",
        ));
    }
    out.push(segment);
    Ok(())
}
