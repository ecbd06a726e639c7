//! Descriptors of frames to be sent: what they say, and what they must not say (82540 §3.3,
//! 82576 §7.2.2).

use crate::e1000::bits::txd;
use crate::e1000::options::Kind;

/// Context slots of a queue (82576 §7.2.2.2.11).
pub(super) const CONTEXTS: usize = 2;

/// What a context descriptor says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Context {
    /// Where sums begin, where they go and where they end: of the IP header and of what is in it
    /// (82540 §3.3.6).
    Places([Place; 2]),
    /// Lengths of headers, the kind of packet, and a tag (82576 §7.2.2.2).
    Lengths {
        mac: u32,
        ip: u32,
        is_ipv4: bool,
        /// 0 UDP, 1 TCP.
        transport: u32,
        vlan: u16,
    },
}

/// Where a checksum is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    start: usize,
    at: usize,
    /// The last byte; 0: that of the frame.
    last: usize,
}

/// A frame as its descriptors say it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Draft {
    pub(super) len: u64,
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

pub(super) fn bits(word: u64, shift: u32, width: u32) -> u32 {
    let mask = (1u64 << width) - 1;
    u32::try_from(word >> shift & mask).expect("no more than 32 bits are asked for")
}

fn place(word: u64, shift: u32) -> Place {
    let part = |at: u32, width: u32| bits(word, shift + at, width) as usize;
    Place {
        start: part(0, 8),
        at: part(8, 8),
        last: part(16, 16),
    }
}

/// Reads a descriptor of the device `kind`.
#[inline]
pub(super) fn decode(kind: Kind, words: [u64; 2]) -> Result<Slot, String> {
    let [low, high] = words;
    if high & txd::DEXT == 0 {
        return Ok(Slot::Data(bits(high, 0, 16)));
    }
    match (kind.is_advanced(), bits(high, 20, 4)) {
        (false, 1) => Ok(Slot::Data(bits(high, 0, 20))),
        (true, 3) => Ok(Slot::Data(bits(high, 0, 16))),
        (false, 0) => {
            if high & txd::TSE != 0 {
                return Err("segmentation asked for, which is not modelled".into());
            }
            let places = Context::Places([place(low, 0), place(low, 32)]);
            Ok(Slot::Context(0, places))
        }
        (true, 2) => {
            let context = Context::Lengths {
                ip: bits(low, 0, 9),
                mac: bits(low, 9, 7),
                vlan: u16::try_from(bits(low, 16, 16)).expect("16 bits"),
                is_ipv4: high >> 10 & 1 == 1,
                transport: bits(high, 11, 2),
            };
            match bits(high, 36, 3) {
                slot @ 0..2 => Ok(Slot::Context(slot as usize, context)),
                slot => Err(format!("context slot {slot}, of two")),
            }
        }
        (_, other) => Err(format!("descriptor of the unknown type {other}")),
    }
}

/// What must hold for every descriptor with data.
#[inline]
pub(super) fn check_data(kind: Kind, high: u64) -> Result<(), String> {
    if high & txd::DD != 0 {
        return Err("descriptor posted with DD set".into());
    }
    if kind.is_advanced() && high & txd::RS != 0 && high & txd::EOP == 0 {
        return Err("RS on another than the last descriptor of a frame".into());
    }
    Ok(())
}

/// A sum's range, and where it goes.
pub(super) type Sums = [Option<(usize, usize, usize)>; 2];

/// A legacy descriptor's own checksum: from `CSS` to the end, at `CSO` (82540 §3.3.3).
pub(super) fn legacy_sum(draft: &Draft) -> Sums {
    let wanted = draft.last & txd::IC != 0;
    let (start, at) = (bits(draft.last, 40, 8), bits(draft.last, 16, 8));
    [
        wanted.then_some((start as usize, usize::MAX, at as usize)),
        None,
    ]
}

/// Sums at the places that the context names (82540 §3.3.6, §3.3.7).
pub(super) fn places(first: u64, context: Option<Context>) -> Result<Sums, String> {
    if first & txd::TSE != 0 {
        return Err("segmentation asked for, which is not modelled".into());
    }
    let wanted = [bits(first, 40, 1) == 1, bits(first, 41, 1) == 1];
    if wanted == [false, false] {
        return Ok([None, None]);
    }
    let Some(Context::Places(places)) = context else {
        return Err("checksum asked for without a context".into());
    };
    let sum = |n: usize| {
        let place = places[n];
        let end = if place.last == 0 {
            usize::MAX
        } else {
            place.last + 1
        };
        wanted[n].then_some((place.start, end, place.at))
    };
    // The inner one first: the outer one may cover it.
    Ok([sum(1), sum(0)])
}

/// What must hold for a frame of advanced descriptors.
pub(super) fn check_advanced(draft: &Draft) -> Result<(), String> {
    let payload = draft.first >> 46;
    if draft.first & txd::TSE_ADVANCED != 0 {
        return Err("segmentation asked for, which is not modelled".into());
    }
    if payload != draft.len {
        return Err(format!(
            "PAYLEN {payload} of a frame of {} bytes",
            draft.len
        ));
    }
    if bits(draft.first, 36, 3) > 1 {
        return Err("a context slot that is none of the two".into());
    }
    Ok(())
}

/// Sums that follow from lengths of headers (82576 §7.2.2.2, §7.2.2.3.10).
pub(super) fn advanced_sums(first: u64, context: Option<Context>) -> Result<Sums, String> {
    let (header, inner) = (bits(first, 40, 1) == 1, bits(first, 41, 1) == 1);
    if !header && !inner {
        return Ok([None, None]);
    }
    let Some(Context::Lengths {
        mac,
        ip,
        is_ipv4,
        transport,
        ..
    }) = context
    else {
        return Err("checksum asked for without a context".into());
    };
    if header && !is_ipv4 {
        return Err("header checksum of a packet that is no IPv4".into());
    }
    let (mac, ip) = (mac as usize, ip as usize);
    let behind = match transport {
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
