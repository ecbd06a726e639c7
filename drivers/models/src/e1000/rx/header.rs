//! Header split of the later devices: two buffers a descriptor, the first for headers (82576
//! §7.1.5.2, §7.1.10, §8.10.2).
//!
//! Which headers are split off says `PSRTYPE`; here all kinds that IP has are, once any is asked
//! for. Only the first descriptor of a frame uses its header buffer. How long the header is that
//! "always use header buffer" filled without knowing it, the data sheet leaves open; Linux's
//! `igbvf` depends on it being the length of that buffer.

use super::super::E1000;
use super::super::options::Kind;

/// `PSRTYPE` of queue 0, and a virtual function's own.
const PSRTYPE: u32 = 0x5480;
const VFPSRTYPE: u32 = 0xf0c;
/// Descriptor types in `SRRCTL`: split, and split with the header buffer filled in any case.
const SPLIT: u32 = 2;
const ALWAYS: u32 = 5;
/// In the write-back's first word: the header's length, and that it was split off.
const LENGTH_SHIFT: u32 = 21;
const LENGTH_MOST: u32 = 0x3ff;
const SPH: u32 = 1 << 31;

/// What is done with the header buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes that go there.
    pub(super) bytes: u32,
    /// What the first descriptor says of it.
    pub(super) info: u32,
}

/// True for the descriptor types that the advanced devices have.
pub(super) fn is_known(descriptor: u32) -> bool {
    matches!(descriptor, 0 | 1 | SPLIT | ALWAYS)
}

/// What becomes of a frame of `total` bytes whose first `header` are known as headers (0: none
/// are), by the queue's `SRRCTL`.
fn divide(srrctl: u32, total: u32, header: u32) -> Header {
    let descriptor = srrctl >> 25 & 7;
    let room = (srrctl >> 8 & 0x3f) * 64;
    if descriptor != SPLIT && descriptor != ALWAYS {
        return Header::default();
    }
    let say = |len: u32, split: u32| len.min(LENGTH_MOST) << LENGTH_SHIFT | split;
    let fills = descriptor == ALWAYS;
    if header > 0 && header <= room {
        return Header {
            bytes: header,
            info: say(header, SPH),
        };
    }
    let bytes = if fills { total.min(room) } else { 0 };
    let info = if header > 0 {
        say(header, SPH)
    } else {
        say(bytes, 0)
    };
    Header { bytes, info }
}

impl E1000 {
    /// What goes into the header buffer of the next descriptor of `queue`.
    pub(super) fn header_of(&self, queue: u32, total: u32, header: u32) -> Header {
        if !self.kind.is_advanced() {
            return Header::default();
        }
        let srrctl = self.rx.get(queue as usize).map_or(0, |queue| queue.srrctl);
        let kinds = match self.kind {
            Kind::IgbVf => self.registers.get(VFPSRTYPE),
            // Eight of them, a pool each; without pools the first is everyone's.
            _ => self.registers.get(PSRTYPE),
        };
        divide(srrctl, total, if kinds == 0 { 0 } else { header })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const ROOM: u32 = 2 << 8;

    #[test]
    fn headers_are_split_off_where_they_fit() {
        for kind in [SPLIT, ALWAYS] {
            let header = divide(kind << 25 | ROOM, 1000, 54);
            assert_eq!(header.bytes, 54);
            assert_eq!(header.info, SPH | 54 << 21);
        }
        assert_eq!(divide(1 << 25 | ROOM, 1000, 54), Header::default());
    }

    #[test]
    fn the_header_buffer_may_be_filled_in_any_case() {
        let always = ALWAYS << 25 | ROOM;
        let told = |total, header| {
            let header = divide(always, total, header);
            (header.bytes, header.info)
        };
        assert_eq!(told(60, 0), (60, 60 << 21), "all of it");
        assert_eq!(told(1000, 0), (128, 128 << 21));
        assert_eq!(told(1000, 200), (128, SPH | 200 << 21));
        let split = divide(SPLIT << 25 | ROOM, 1000, 0);
        assert_eq!(split, Header::default());
    }
}
