//! What a device finds out about a received frame, and says in its completions.

use super::bits::desc;
use super::packet::{Ip, Packet, TCP, UDP};
use super::rss::Hash;

/// What completions say about a frame beside where it is.
pub(super) struct Findings {
    /// In the first word of each: its hash. Linux reads it in the first, DPDK in the last.
    pub(super) each: u64,
    /// In the two words of the last.
    pub(super) last: [u64; 2],
}

impl Findings {
    /// What is known about a frame that was not looked at.
    pub(super) fn none(hash: Option<Hash>) -> Self {
        let hash = hash.map_or(0, |hash| {
            u64::from(hash.kind) << desc::COMP_RSS_TYPE
                | u64::from(hash.value) << desc::COMP_RSS_HASH
        });
        Self {
            each: hash,
            last: [desc::COMP_CNC, desc::COMP_FCS],
        }
    }

    /// What the bytes of an IP packet say.
    pub(super) fn judge(&mut self, frame: &[u8]) {
        let Some(packet) = Packet::find(frame) else {
            return;
        };
        let flag = |on: bool, bit: u64| if on { bit } else { 0 };
        let is_whole = !packet.is_fragment;
        self.last[0] &= !desc::COMP_CNC;
        self.last[1] |= flag(packet.ip == Ip::V4, desc::COMP_V4)
            | flag(packet.ip == Ip::V6, desc::COMP_V6)
            | flag(packet.is_fragment, desc::COMP_FRG)
            | flag(packet.is_header_good(frame), desc::COMP_IPC)
            | flag(is_whole && packet.protocol == TCP, desc::COMP_TCP)
            | flag(is_whole && packet.protocol == UDP, desc::COMP_UDP)
            | flag(packet.is_payload_good(frame) == Some(true), desc::COMP_TUC);
    }

    /// The tag that was taken off.
    pub(super) fn stripped(&mut self, tci: [u8; 2]) {
        let tci = u64::from(u16::from_be_bytes(tci));
        self.last[1] |= desc::COMP_TS | tci << desc::COMP_TCI;
    }
}
