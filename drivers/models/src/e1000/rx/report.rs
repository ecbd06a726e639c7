//! What a write-back says of a frame, in each format (82540 §3.2.3, 82574 §7.1.6, 82576 §7.1.5).

use super::Packet;

/// A descriptor format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Legacy,
    /// The 82574's extended one and the 82576's advanced one: hash, status, length, tag in the
    /// same places.
    Extended,
}

/// What is said of a frame in its last descriptor.
#[derive(Clone, Copy, Default)]
pub(super) struct Report {
    pub(super) status: u32,
    pub(super) tag: u16,
    /// The low half of the first word.
    pub(super) kind: u32,
    /// The high half of it.
    pub(super) value: u32,
    /// Bytes of headers up to TCP's or UDP's, where there is IP.
    pub(super) header: u32,
}

/// True if the second word of a descriptor that the driver hands over still says what the last
/// write-back did: the driver must have cleared something to know the next one. Where the length
/// has a place of its own, that will do: Linux's `igb` looks at nothing else.
pub(super) fn is_done(format: Format, second: u64) -> bool {
    match format {
        Format::Legacy => second >> 32 & 1 == 1,
        Format::Extended => second & 1 == 1 && second >> 32 & 0xffff != 0,
    }
}

/// The packet type of the advanced descriptor (82576 §7.1.5.2).
pub(super) fn packet_type(packet: &Packet<'_>) -> u32 {
    let Some(ip) = packet.ip else { return 0 };
    let network = if ip.v6 { 0x40 } else { 0x10 };
    let transport = match ip.transport {
        Some(transport) if transport.tcp => 0x100,
        Some(_) => 0x200,
        None => 0,
    };
    network | transport
}

impl Report {
    /// The two words of a write-back; None for a first one that stays.
    pub(super) fn words(&self, format: Format, length: u32) -> (Option<u64>, u64) {
        let (length, tag) = (u64::from(length), u64::from(self.tag));
        match format {
            Format::Legacy => {
                // Length, checksum (zero), status, errors, tag.
                let [low, .., errors] = self.status.to_le_bytes();
                let word = length | u64::from(low) << 32 | u64::from(errors) << 40 | tag << 48;
                (None, word)
            }
            Format::Extended => (
                Some(u64::from(self.kind) | u64::from(self.value) << 32),
                u64::from(self.status) | length << 32 | tag << 48,
            ),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_descriptor_is_armed_by_clearing_done_or_the_length_where_that_is_apart() {
        let written = 0x3 | 60 << 32;
        assert!(is_done(Format::Extended, written));
        assert!(!is_done(Format::Extended, written & !1));
        assert!(!is_done(Format::Extended, 0x3), "as Linux's igb does it");
        assert!(is_done(Format::Legacy, 1 << 32));
        assert!(!is_done(Format::Legacy, 60));
    }
}
