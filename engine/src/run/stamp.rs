//! Stamps: how a receiver knows a measured frame among all others.
//!
//! The last 18 bytes of a frame, before the FCS:
//!
//! | bytes | what |
//! |---|---|
//! | 2 | balance: makes the ones' complement sum of the 18 bytes what it was without the stamp |
//! | 8 | lane (18 bits: which stream, from which queue) and send time (46 bits of nanoseconds) |
//! | 4 | sequence number within the lane |
//! | 4 | tag: a keyed hash of the 12 bytes before it |
//!
//! A 64-byte frame of IPv4 and UDP has just this room (60 - 14 - 20 - 8). It lies at the end, so
//! that whatever a device under test does to headers (NAT, TTL, VLAN tags, encapsulation) leaves
//! it readable; where a frame was padded afterwards, it is looked for at the end of the IP packet
//! too.
//!
//! **Checksums stay right by themselves.** The balance keeps the sum (RFC 1071), so a UDP or TCP
//! checksum that covered the unstamped frame covers the stamped one, over IPv4 and IPv6, and no
//! offset of it need be known. Streams whose UDP checksum is 0 (none) are not touched either.
//!
//! **Foreign traffic does not match.** It would have to hit a 32-bit keyed tag (2^-32 for any
//! bytes that were not made with the key), name a lane that exists, and a time within the last
//! [`HORIZON_NS`]. The key follows from the run's seed and nonce, so another run's frames are
//! foreign as well.

/// Bytes of a stamp.
pub(super) const STAMP: usize = 18;
/// Most lanes that stamps can name.
pub(super) const MAX_LANES: usize = 1 << LANE_BITS;
/// Frames older than this are not believed: 34 s.
const HORIZON_NS: u64 = 1 << 35;

const LANE_BITS: u32 = 18;
const TIME_BITS: u32 = 64 - LANE_BITS;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// The secret of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key(u64, u64);

/// What a stamp says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) lane: u32,
    pub(super) sequence: u32,
    /// Nanoseconds since it was sent.
    pub(super) age_ns: u64,
}

impl Key {
    pub(super) fn new(seed: u64, nonce: u64) -> Self {
        let first = scramble(seed ^ scramble(nonce));
        Self(first, scramble(first))
    }

    #[inline]
    fn tag(self, head: u64, sequence: u32) -> u32 {
        let hash = mix(head ^ self.0, u64::from(sequence) ^ self.1);
        // The upper half: the better mixed one of a product.
        (hash >> 32) as u32
    }

    /// Writes a stamp at the end of `bytes`, which are a frame without FCS, so that the sum of
    /// the stamp's bytes is `sum` ([`sum_of_end`]).
    ///
    /// # Panics
    /// The frame is shorter than a stamp.
    #[inline]
    pub(super) fn write(self, bytes: &mut [u8], lane: u32, sequence: u32, now_ns: u64, sum: u16) {
        let end = bytes
            .last_chunk_mut::<STAMP>()
            .expect("the plan refuses frames without room for a stamp");
        let head = u64::from(lane) << TIME_BITS | now_ns & TIME_MASK;
        self.put(end, head, sequence, sum);
    }

    /// Gives the stamp at the end of `bytes` a new time.
    #[inline]
    pub(super) fn retime(self, bytes: &mut [u8], now_ns: u64) {
        let Some(end) = bytes.last_chunk_mut::<STAMP>() else {
            return;
        };
        let sum = fold(sum_of(end));
        let (head, sequence, _) = take(end);
        self.put(end, head & !TIME_MASK | now_ns & TIME_MASK, sequence, sum);
    }

    #[inline]
    fn put(self, end: &mut [u8; STAMP], head: u64, sequence: u32, sum: u16) {
        let tag = self.tag(head, sequence);
        end[2..10].copy_from_slice(&head.to_be_bytes());
        end[10..14].copy_from_slice(&sequence.to_be_bytes());
        end[14..].copy_from_slice(&tag.to_be_bytes());
        let words = u64::from(sequence) << 32 | u64::from(tag);
        // sum - head - words, in ones' complement arithmetic.
        let used = fold(u64::from(fold_words(head)) + u64::from(fold_words(words)));
        let balance = fold(u64::from(sum) + u64::from(!used));
        end[..2].copy_from_slice(&balance.to_be_bytes());
    }

    /// The stamp of this run in `bytes`, a frame without FCS, if it has one.
    #[inline]
    pub(super) fn read(self, bytes: &[u8], now_ns: u64, lanes: u32) -> Option<Stamp> {
        match self.read_end(bytes, now_ns, lanes) {
            None => self.read_padded(bytes, now_ns, lanes),
            found => found,
        }
    }

    /// The stamp at the very end of `bytes`.
    #[inline]
    pub(super) fn read_end(self, bytes: &[u8], now_ns: u64, lanes: u32) -> Option<Stamp> {
        let (head, sequence, tag) = take(bytes.last_chunk::<STAMP>()?);
        if tag != self.tag(head, sequence) {
            return None;
        }
        let lane = u32::try_from(head >> TIME_BITS).ok()?;
        let age_ns = now_ns.wrapping_sub(head) & TIME_MASK;
        // A time slightly ahead of ours: another core's clock, or one that went back.
        let age_ns = if age_ns > TIME_MASK - 1_000_000 {
            0
        } else {
            age_ns
        };
        (lane < lanes && age_ns < HORIZON_NS).then_some(Stamp {
            lane,
            sequence,
            age_ns,
        })
    }

    /// The stamp at the end of the IP packet, where padding follows it.
    #[cold]
    fn read_padded(self, bytes: &[u8], now_ns: u64, lanes: u32) -> Option<Stamp> {
        let end = packet_end(bytes)?;
        let packet = bytes
            .get(..end)
            .filter(|packet| packet.len() < bytes.len())?;
        self.read_end(packet, now_ns, lanes)
    }
}

/// The ones' complement sum of the last bytes of `bytes`, where a stamp goes.
pub(super) fn sum_of_end(bytes: &[u8]) -> u16 {
    bytes
        .last_chunk::<STAMP>()
        .map_or(0, |end| fold(sum_of(end)))
}

#[inline]
fn take(end: &[u8; STAMP]) -> (u64, u32, u32) {
    let (mut head, mut sequence, mut tag) = ([0; 8], [0; 4], [0; 4]);
    head.copy_from_slice(&end[2..10]);
    sequence.copy_from_slice(&end[10..14]);
    tag.copy_from_slice(&end[14..]);
    (
        u64::from_be_bytes(head),
        u32::from_be_bytes(sequence),
        u32::from_be_bytes(tag),
    )
}

/// The sum of the 16-bit words of `end`, not folded.
#[inline]
fn sum_of(end: &[u8; STAMP]) -> u64 {
    let (words, _) = end.as_chunks::<2>();
    words
        .iter()
        .map(|&word| u64::from(u16::from_be_bytes(word)))
        .sum()
}

/// The ones' complement sum of the four 16-bit words of `value`.
#[inline]
fn fold_words(value: u64) -> u16 {
    fold((value >> 32) + (value & 0xffff_ffff))
}

/// Folds a sum of 16-bit words, or of 32-bit ones, into 16 bits with end-around carry (RFC 1071).
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    #[expect(clippy::cast_possible_truncation, reason = "folded into 16 bits")]
    let folded = sum as u16;
    folded
}

/// Where the IP packet in a frame ends: EtherType behind up to two VLAN tags, then the length that
/// the IP header gives (RFC 791 §3.1, RFC 8200 §3).
fn packet_end(bytes: &[u8]) -> Option<usize> {
    let word = |at: usize| {
        let word = bytes.get(at..at + 2)?;
        Some(u16::from_be_bytes([word[0], word[1]]))
    };
    let mut at = 12;
    while at < 20 && matches!(word(at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    match word(at)? {
        0x0800 => Some(at + 2 + usize::from(word(at + 4)?)),
        0x86dd => Some(at + 2 + 40 + usize::from(word(at + 6)?)),
        _ => None,
    }
}

/// A step of `SplitMix64` (Steele, Lea, Flood 2014): a different word for every word, each bit of
/// which depends on all.
fn scramble(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Multiplies two words and folds the product: the middle bits depend on all of both.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    let low = product as u64;
    low ^ (product >> 64) as u64
}
