//! Messages of the vhost-user protocol: requests with their bodies, and replies.
//!
//! A message is a header of 12 bytes (request, flags, size of the body; host order, which is
//! little endian on every machine that this runs on) and a body.

use std::os::fd::RawFd;

use vhost::vhost_user::message::{
    FrontendReq, VhostUserMemory, VhostUserMemoryRegion, VhostUserU64, VhostUserVringAddr,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vm_memory::ByteValued;

/// Bytes of a header.
pub(crate) const HEADER: usize = 12;
/// Longest reply that this end waits for.
pub(crate) const REPLY_MAX: usize = 8;

/// Protocol version, in every message's flags.
const VERSION: u32 = 1;
/// The lowest two bits are the version.
const VERSION_MASK: u32 = 3;
/// The message is a reply.
const REPLY: u32 = 1 << 2;
/// The message wants a reply, though its kind has none.
const NEED_REPLY: u32 = 1 << 3;

/// What comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing.
    None,
    /// A number, for the front end to use.
    Number,
    /// Zero, if all went well.
    Acknowledgement,
    /// A number or a ring's state, of which nothing is used but that it came.
    Unused,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    /// Which.
    pub(crate) code: FrontendReq,
    /// Its name in the protocol.
    pub(crate) name: &'static str,
    /// Header and body.
    pub(crate) bytes: Vec<u8>,
    /// Descriptors that go with it.
    pub(crate) files: Vec<RawFd>,
    /// What comes back.
    pub(crate) answer: Answer,
}

impl Request {
    /// A request without a body.
    pub(crate) fn bare(code: FrontendReq, name: &'static str, answer: Answer) -> Self {
        Self::new(code, name, answer, &[])
    }

    /// A request of one number.
    pub(crate) fn number(code: FrontendReq, name: &'static str, value: u64) -> Self {
        Self::new(
            code,
            name,
            Answer::None,
            VhostUserU64::new(value).as_slice(),
        )
    }

    /// A request about a ring, with one number.
    pub(crate) fn ring(code: FrontendReq, name: &'static str, ring: u16, value: u32) -> Self {
        let state = VhostUserVringState::new(u32::from(ring), value);
        Self::new(code, name, Answer::None, state.as_slice())
    }

    /// A ring's eventfd: its number, and the descriptor beside it.
    pub(crate) fn eventfd(code: FrontendReq, name: &'static str, ring: u16, file: RawFd) -> Self {
        let mut request = Self::number(code, name, u64::from(ring));
        request.files.push(file);
        request
    }

    /// Where a ring is, in this process's addresses.
    pub(crate) fn addresses(ring: u16, desc: u64, driver: u64, device: u64) -> Self {
        let flags = VhostUserVringAddrFlags::empty();
        let addresses = VhostUserVringAddr::new(u32::from(ring), flags, desc, device, driver, 0);
        let code = FrontendReq::SET_VRING_ADDR;
        Self::new(code, "SET_VRING_ADDR", Answer::None, addresses.as_slice())
    }

    /// The memory table.
    pub(crate) fn memory(regions: &[(VhostUserMemoryRegion, RawFd)]) -> Self {
        let count = u32::try_from(regions.len()).expect("a table has at most 8 rows");
        let mut body = VhostUserMemory::new(count).as_slice().to_vec();
        for (region, _) in regions {
            body.extend_from_slice(region.as_slice());
        }
        let code = FrontendReq::SET_MEM_TABLE;
        let mut request = Self::new(code, "SET_MEM_TABLE", Answer::None, &body);
        request.files = regions.iter().map(|&(_, file)| file).collect();
        request
    }

    fn new(code: FrontendReq, name: &'static str, answer: Answer, body: &[u8]) -> Self {
        let size = u32::try_from(body.len()).expect("a request is short");
        let mut bytes = Vec::with_capacity(HEADER + body.len());
        for word in [u32::from(code), VERSION, size] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend_from_slice(body);
        Self {
            code,
            name,
            bytes,
            files: Vec::new(),
            answer,
        }
    }

    /// The same, with a reply that says if it went well.
    pub(crate) fn acknowledged(mut self) -> Self {
        self.answer = Answer::Acknowledgement;
        self.bytes[4..8].copy_from_slice(&(VERSION | NEED_REPLY).to_ne_bytes());
        self
    }

    /// With that reply instead of none.
    pub(crate) fn with(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }

    /// What `reply`'s header must be followed by, in bytes; or what is wrong with it.
    pub(crate) fn check_header(&self, header: &[u8; HEADER]) -> Result<usize, String> {
        let [code, flags, size] = words(header);
        if code != u32::from(self.code) {
            return Err(format!("a message of kind {code}"));
        }
        if flags & VERSION_MASK != VERSION || flags & REPLY == 0 {
            return Err(format!("flags {flags:#x}"));
        }
        let expected = match self.answer {
            Answer::None => 0,
            Answer::Number | Answer::Acknowledgement | Answer::Unused => 8,
        };
        if size != expected {
            return Err(format!("a body of {size} bytes, not {expected}"));
        }
        Ok(expected as usize)
    }
}

/// The words of a header.
fn words(header: &[u8; HEADER]) -> [u32; 3] {
    let word = |at: usize| {
        u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    [word(0), word(4), word(8)]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn requests_have_the_bytes_of_the_protocol() {
        let request = Request::ring(FrontendReq::SET_VRING_BASE, "", 3, 0x8000);
        let expected = [
            10, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, // header
            3, 0, 0, 0, 0, 0x80, 0, 0,
        ];
        assert_eq!(request.bytes, expected);
        let request = Request::addresses(1, 0x10, 0x20, 0x30);
        assert_eq!(request.bytes.len(), 12 + 40);
        // Index, flags, descriptors, used, available, log.
        assert_eq!((request.bytes[12], request.bytes[20]), (1, 0x10));
        assert_eq!((request.bytes[28], request.bytes[36]), (0x30, 0x20));
        let region = VhostUserMemoryRegion::new(1, 2, 3, 4);
        let request = Request::memory(&[(region, 7)]).acknowledged();
        assert_eq!(request.bytes.len(), 12 + 8 + 32);
        assert_eq!(&request.bytes[..12], [5, 0, 0, 0, 9, 0, 0, 0, 40, 0, 0, 0]);
        assert_eq!(request.files, [7]);
    }

    #[test]
    fn a_reply_of_another_kind_version_direction_or_size_is_refused() {
        let request = Request::bare(FrontendReq::GET_FEATURES, "", Answer::Number);
        let header = |code: u32, flags: u32, size: u32| {
            let mut bytes = [0; HEADER];
            for (place, word) in bytes.chunks_mut(4).zip([code, flags, size]) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
            bytes
        };
        assert_eq!(request.check_header(&header(1, 5, 8)), Ok(8));
        for (code, flags, size) in [(2, 5, 8), (1, 4, 8), (1, 1, 8), (1, 5, 4), (1, 5, 1 << 30)] {
            assert!(request.check_header(&header(code, flags, size)).is_err());
        }
    }
}
