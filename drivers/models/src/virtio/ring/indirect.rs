//! Descriptor tables outside the ring.

use hugemem::{Iova, Translator};

use super::super::bits::descriptor as flag;
use super::{Broken, add};
use crate::frames::Segment;
use crate::objections::Objections;

/// How the entries of a table follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// By their `next` fields, from the first on (§2.7.5.3).
    Linked,
    /// One after the other (§2.8.7).
    Listed,
}

/// Adds the buffers of the table that `pointer` points at to the chain that begins at `first`.
pub(super) fn read(
    pointer: Segment,
    order: Order,
    ring_size: u16,
    memory: &mut Translator,
    out: &mut Vec<Segment>,
    first: usize,
    objections: &Objections,
) -> Result<(), Broken> {
    let bytes = pointer.len as usize;
    if bytes == 0 || !bytes.is_multiple_of(flag::BYTES) {
        return Err(Broken::new(format!(
            "indirect table of {bytes} bytes, not a multiple of 16"
        )));
    }
    let count = bytes / flag::BYTES;
    let mut at = 0;
    for n in 0.. {
        if n >= count || out.len() - first >= usize::from(ring_size) {
            return Err(Broken::new(format!(
                "chain in an indirect table of {count} longer than the table or the ring \
                 of {ring_size}: it loops or is too long"
            )));
        }
        let mut raw = [0; flag::BYTES];
        memory.read(
            Iova::from_device(pointer.iova + (at * flag::BYTES) as u64),
            &mut raw,
        )?;
        let [.., a, b, c, d] = raw;
        let (third, fourth) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let segment = |writable| Segment {
            iova: u64::from_le_bytes(raw[..8].try_into().expect("8 of 16 bytes")),
            len: u32::from_le_bytes(raw[8..12].try_into().expect("4 of 16 bytes")),
            writable,
        };
        // A listed entry has its buffer id, which means nothing here, before its flags.
        let (flags, next) = match order {
            Order::Linked => (third, fourth),
            Order::Listed => (fourth, 0),
        };
        if flags & flag::INDIRECT != 0 {
            return Err(Broken::new("indirect table inside an indirect table"));
        }
        let known = match order {
            Order::Linked => flag::NEXT | flag::WRITE,
            Order::Listed => flag::WRITE,
        };
        if flags & !known != 0 {
            objections.raise(format!(
                "reserved flags {:#x} in an indirect table",
                flags & !known
            ));
        }
        add(out, first, segment(flags & flag::WRITE != 0))?;
        match order {
            Order::Linked if flags & flag::NEXT == 0 => return Ok(()),
            Order::Linked => at = usize::from(next),
            Order::Listed if n + 1 == count => return Ok(()),
            Order::Listed => at += 1,
        }
        if at >= count {
            return Err(Broken::new(format!(
                "next entry {at} of an indirect table of {count}"
            )));
        }
    }
    Ok(())
}
