//! Answers that carry a chain of capabilities behind their structure.
//!
//! Asked with too little room, the kernel says how much it needs (`argsz`); asked again with
//! that much, it appends capabilities: each a header (id: 2 bytes, version: 2, offset of the
//! next from the start of the answer: 4) and its content (Linux `include/uapi/linux/vfio.h`).

use std::io;

use super::kernel::{Argument, Node};

/// Most bytes that an answer may have: a device with thousands of holes in a BAR fits.
const LARGEST: u32 = 1 << 20;
/// Bytes of a capability's header.
const HEADER: usize = 8;

/// An answer of the kernel's, of the fixed structure and what follows it.
pub(super) struct Answer(Vec<u8>);

impl Answer {
    /// Makes the call `request` on `question`, a structure that begins with its size.
    pub(super) fn ask(node: &dyn Node, request: u32, question: &[u8]) -> io::Result<Self> {
        let mut bytes = question.to_vec();
        loop {
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            node.call(request, Argument::Bytes(&mut bytes))?;
            let answer = Self(bytes);
            let needed = answer.u32(0).min(LARGEST);
            if needed <= len {
                return Ok(answer);
            }
            // What was asked is in the fixed part; the rest of it is for the kernel to fill.
            bytes = question.to_vec();
            bytes.resize(needed as usize, 0);
        }
    }

    /// Four bytes at `at`; 0 past the end.
    pub(super) fn u32(&self, at: usize) -> u32 {
        self.word(at).map_or(0, u32::from_ne_bytes)
    }

    /// Eight bytes at `at`; 0 past the end.
    pub(super) fn u64(&self, at: usize) -> u64 {
        self.word(at).map_or(0, u64::from_ne_bytes)
    }

    fn word<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    /// Where the content of capability `id` begins, in the chain that starts at offset `first`
    /// (0: there is none).
    pub(super) fn capability(&self, first: u32, id: u16) -> Option<usize> {
        let mut at = first as usize;
        // Each header takes eight bytes, so a longer chain goes round.
        for _ in 0..self.0.len() / HEADER {
            if at == 0 {
                return None;
            }
            let header: [u8; HEADER] = self.word(at)?;
            let [a, b, _, _, next @ ..] = header;
            if u16::from_ne_bytes([a, b]) == id {
                return Some(at + HEADER);
            }
            at = u32::from_ne_bytes(next) as usize;
        }
        None
    }
}
