//! Checksums made ready: what stays is summed once.

use super::error::FieldError;
use super::plan::{Put, Sum};
use super::program::{Fix, Program};
use crate::frame::Template;
use crate::frame::checksum::Covered;

pub(super) fn sums(
    program: &Program,
    template: &Template,
    puts: &[Put],
    least: usize,
) -> Result<Vec<Sum>, FieldError> {
    let mut varying = vec![0; template.bytes.len()];
    for put in puts {
        let mask = put.mask.to_be_bytes();
        for (n, bits) in mask[8 - put.width..].iter().enumerate() {
            let at = if put.little_endian {
                put.width - 1 - n
            } else {
                n
            };
            varying[put.offset + at] |= bits;
        }
    }
    let mut sums = Vec::new();
    for fix in &program.fixes {
        let bytes = &template.bytes;
        let missing = || FieldError::NoChecksum {
            at: fix.at(),
            len: least,
        };
        // It must be inside the shortest frame too.
        Covered::find(&bytes[..least], fix).ok_or_else(missing)?;
        let covered = Covered::find(bytes, fix).ok_or_else(missing)?;
        sums.push(sum(fix, covered, bytes, &varying, program.size.is_some()));
        // What is outside covers this checksum as well.
        varying[covered.checksum..covered.checksum + 2].fill(0xff);
    }
    Ok(sums)
}

/// One checksum: incremental, unless what it covers depends on what varies. `varying` has the
/// bits of each byte that do.
fn sum(fix: &Fix, covered: Covered, bytes: &[u8], varying: &[u8], sized: bool) -> Sum {
    let resized = sized && !matches!(fix, Fix::Ipv4 { .. });
    let moves = resized
        || fix
            .bounds(bytes)
            .iter()
            .any(|(at, bits)| varying[*at] & bits != 0);
    let mut words = Vec::new();
    let addresses = covered.addresses.unwrap_or_default();
    for (first, end) in [(covered.first, covered.end), addresses] {
        for at in (first..end).step_by(2).filter(|at| *at != covered.checksum) {
            if varying[at..end.min(at + 2)].iter().any(|bits| *bits != 0) {
                words.push((at, end));
            }
        }
    }
    let odd = words.iter().any(|(at, end)| at + 2 > *end);
    if moves || odd {
        return Sum::Full(*fix);
    }
    let mut still = bytes.to_vec();
    for (at, _) in &words {
        still[*at..at + 2].fill(0);
    }
    Sum::Incremental {
        base: covered.sum(&still),
        words: words.into_iter().map(|(at, _)| at).collect(),
        checksum: covered.checksum,
        never_zero: covered.never_zero,
    }
}
