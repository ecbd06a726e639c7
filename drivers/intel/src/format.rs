//! What a queue wants to know of its descriptors: two words each, whose bits the driver knows.

use port::{Headers, RxFlags};

/// The two words of a descriptor, in the host's order.
pub type Words = [u64; 2];

/// Sending, second word: *descriptor done* (82599 datasheet §7.2.3.2.4; 8254x developer's manual
/// §3.3.3.2).
pub const DONE: u64 = 1 << 32;
/// Sending, second word: *report status*, so that the device sets [`DONE`] (the same sections).
pub const REPORT: u64 = 1 << 27;

/// What is asked of the device for one packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asks {
    /// Where the headers are, if a checksum is asked for.
    pub headers: Option<Headers>,
    /// Fills the IPv4 header checksum in.
    pub ipv4: bool,
    /// Fills the TCP or UDP checksum in.
    pub l4: bool,
    /// Inserts this tag.
    pub vlan: Option<u16>,
}

/// Where a buffer is in its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Bus address.
    pub iova: u64,
    /// Bytes.
    pub len: u32,
    /// The packet ends with it.
    pub last: bool,
    /// Bytes of the whole packet.
    pub total: u32,
}

/// How descriptors are written for sending.
pub trait SendFormat: Send + Copy + 'static {
    /// Most buffers of a packet.
    const SEGMENTS: usize;

    /// What the device has to be told before a ring's first packet, if anything.
    fn first(self) -> Option<Words> {
        None
    }
    /// A packet in one buffer of which nothing is asked.
    fn plain(self, iova: u64, len: u32) -> Words;
    /// Whether the device can be told of headers so far behind.
    fn reaches(self, headers: &Headers) -> bool;
    /// The context descriptor that comes before a packet of which `asks` is asked, if any.
    fn context(self, asks: &Asks) -> Option<Words>;
    /// One buffer of a packet of which `asks` is asked.
    fn piece(self, piece: &Piece, asks: &Asks) -> Words;
}

/// What a device says of a buffer that it filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completion {
    /// Bytes in it.
    pub len: u16,
    /// The packet ends with it.
    pub last: bool,
    /// The device took it for UDP; where formats do not say so, false.
    pub udp: bool,
    /// The tag that was stripped, if the flags say so.
    pub vlan: u16,
    /// The RSS hash, if the flags say so.
    pub hash: u32,
    /// What was found.
    pub flags: RxFlags,
}

/// How descriptors are armed, and read when the device has filled them.
pub trait ReceiveFormat: Send + Copy + 'static {
    /// Whether more than lengths and damage is read.
    const ALL: bool = true;

    /// An empty buffer.
    #[must_use]
    fn arm(iova: u64) -> Words {
        [iova, 0]
    }
    /// True if the second word says that the buffer is filled.
    fn is_filled(second: u64) -> bool;
    /// What the two words say; the first is read only if it has to be.
    fn completion(first: impl FnOnce() -> u64, second: u64) -> Completion;
}
