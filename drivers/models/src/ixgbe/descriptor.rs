//! Descriptors of frames to be sent: what they say, and what they must not say (82599 §7.2.3.2).

use super::bits::txd;

/// Context slots of a queue (§7.2.3.2.3).
pub(super) const CONTEXTS: usize = 2;
/// Descriptors that a frame may have (§7.2.1.1 "maximum number of buffers").
pub(super) const MOST: u32 = 40;
/// Bytes that a descriptor may have (§7.2.3.2.4: 16 bits; buffers are up to 15.5 KiB).
const LARGEST: u32 = 16 * 1024;

/// What a context descriptor says: lengths of headers, the kind of packet, a tag (§7.2.3.2.3).
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    pub(super) mac: u32,
    pub(super) ip: u32,
    pub(super) is_ipv4: bool,
    /// 0 UDP, 1 TCP, 2 SCTP.
    pub(super) transport: u32,
    pub(super) l4: u32,
    pub(super) mss: u32,
    pub(super) vlan: u16,
}

/// A frame as its descriptors say it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Draft {
    pub(super) len: u64,
    /// Descriptors with data.
    pub(super) count: u32,
    /// The first data descriptor's second word, and the last one's.
    pub(super) first: u64,
    pub(super) last: u64,
}

/// What a descriptor is.
pub(super) enum Slot {
    Context(usize, Context),
    /// Data of this many bytes.
    Data(u32),
}

#[inline]
pub(super) fn bits(word: u64, shift: u32, width: u32) -> u32 {
    let mask = (1u64 << width) - 1;
    super::bits::low(word >> shift & mask)
}

impl Draft {
    pub(super) fn is_legacy(&self) -> bool {
        self.first & txd::DEXT == 0
    }

    /// The context that it names.
    pub(super) fn context(&self) -> u32 {
        bits(self.first, 36, 3)
    }
}

/// Reads a descriptor.
#[inline]
pub(super) fn decode(words: [u64; 2]) -> Result<Slot, String> {
    let [first, second] = words;
    if second & txd::DD != 0 {
        return Err("descriptor posted with DD set".into());
    }
    if second & txd::DEXT == 0 {
        return data(bits(second, 0, 16));
    }
    match bits(second, 20, 4) {
        3 => data(bits(second, 0, 16)),
        2 => {
            let context = Context {
                ip: bits(first, 0, 9),
                mac: bits(first, 9, 7),
                vlan: u16::try_from(bits(first, 16, 16)).expect("16 bits"),
                is_ipv4: second >> 10 & 1 == 1,
                transport: bits(second, 11, 2),
                l4: bits(second, 40, 8),
                mss: bits(second, 48, 16),
            };
            match bits(second, 36, 3) {
                slot @ 0..2 => Ok(Slot::Context(slot as usize, context)),
                slot => Err(format!("context slot {slot}, of two")),
            }
        }
        other => Err(format!("descriptor of the unknown type {other}")),
    }
}

fn data(len: u32) -> Result<Slot, String> {
    match len {
        0 => Err("descriptor without data".into()),
        1..=LARGEST => Ok(Slot::Data(len)),
        _ => Err(format!("descriptor of {len} bytes, of {LARGEST} at most")),
    }
}

/// What must hold for a frame of advanced descriptors.
pub(super) fn check_advanced(draft: &Draft) -> Result<(), String> {
    let payload = draft.first >> 46;
    if draft.first & txd::TSE == 0 && payload != draft.len {
        return Err(format!(
            "PAYLEN {payload} of a frame of {} bytes",
            draft.len
        ));
    }
    if draft.context() > 1 {
        return Err("a context slot that is none of the two".into());
    }
    Ok(())
}

/// A sum's range, and where it goes.
pub(super) type Sums = [Option<(usize, usize, usize)>; 2];

/// A legacy descriptor's own checksum: from `CSS` to the end, at `CSO` (§7.2.3.2.2).
pub(super) fn legacy_sum(draft: &Draft) -> Sums {
    let wanted = draft.last & txd::IC != 0;
    let (start, at) = (bits(draft.last, 40, 8), bits(draft.last, 16, 8));
    [
        wanted.then_some((start as usize, usize::MAX, at as usize)),
        None,
    ]
}

/// Sums that follow from lengths of headers (§7.2.5).
pub(super) fn advanced_sums(first: u64, context: Option<Context>) -> Result<Sums, String> {
    let (header, inner) = (bits(first, 40, 1) == 1, bits(first, 41, 1) == 1);
    if !header && !inner {
        return Ok([None, None]);
    }
    let Some(context) = context else {
        return Err("checksum asked for without a context".into());
    };
    if header && !context.is_ipv4 {
        return Err("header checksum of a packet that is no IPv4".into());
    }
    let (mac, ip) = (context.mac as usize, context.ip as usize);
    let behind = match context.transport {
        0 => 6,
        1 => 16,
        other => return Err(format!("checksum of transport {other}, not modelled")),
    };
    let start = mac + ip;
    Ok([
        inner.then_some((start, usize::MAX, start + behind)),
        header.then_some((mac, start, mac + 10)),
    ])
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_context_is_taken_apart_as_the_data_sheet_says() {
        let first = 20 | 14 << 9 | 0x6007 << 16;
        let second = 1 << 10 | 1 << 11 | 2 << 20 | 1 << 29 | 1 << 36 | 20 << 40 | 1448 << 48;
        let Ok(Slot::Context(1, context)) = decode([first, second]) else {
            panic!("no context in slot 1");
        };
        assert_eq!((context.mac, context.ip, context.l4), (14, 20, 20));
        assert_eq!((context.vlan, context.mss), (0x6007, 1448));
        assert!(context.is_ipv4 && context.transport == 1);
    }
}
