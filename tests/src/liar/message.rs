//! Vhost-user messages as they are on the socket (QEMU's `docs/interop/vhost-user.rst`,
//! "Message specification"): a header of three 32-bit words (request, flags, size of the
//! payload), then the payload; all little endian here, as on the machines that we run on.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// Requests by their numbers.
pub(super) mod request {
    pub(in super::super) const GET_FEATURES: u32 = 1;
    pub(in super::super) const SET_FEATURES: u32 = 2;
    pub(in super::super) const SET_MEM_TABLE: u32 = 5;
    pub(in super::super) const SET_VRING_NUM: u32 = 8;
    pub(in super::super) const SET_VRING_ADDR: u32 = 9;
    pub(in super::super) const SET_VRING_BASE: u32 = 10;
    pub(in super::super) const GET_VRING_BASE: u32 = 11;
    pub(in super::super) const SET_VRING_KICK: u32 = 12;
    pub(in super::super) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(in super::super) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(in super::super) const GET_QUEUE_NUM: u32 = 17;
    pub(in super::super) const SET_VRING_ENABLE: u32 = 18;
    pub(in super::super) const GET_STATUS: u32 = 40;
}

/// The version of the protocol, in the low bits of the flags.
const VERSION: u32 = 1;
/// This message is an answer.
const REPLY: u32 = 1 << 2;
/// This message wants an answer even if its request has none of its own.
const NEED_REPLY: u32 = 1 << 3;

/// One message from the driver.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) request: u32,
    pub(super) needs_reply: bool,
    pub(super) payload: Vec<u8>,
    pub(super) file: Option<File>,
}

impl Message {
    /// Reads the next message; `None` when the driver has hung up.
    pub(super) fn read(socket: &mut UnixStream) -> io::Result<Option<Self>> {
        const LONGEST: u32 = 4096;
        let mut header = [0; 12];
        // The file comes with the first byte.
        let (got, file) = socket.recv_with_fd(&mut header).map_err(io::Error::from)?;
        if got == 0 {
            return Ok(None);
        }
        socket.read_exact(&mut header[got..])?;
        let (request, flags, size) = (word(&header, 0), word(&header, 4), word(&header, 8));
        if size > LONGEST || flags & 3 != VERSION {
            return Err(io::Error::other(format!(
                "request {request} with flags {flags:#x} and {size} bytes"
            )));
        }
        let mut payload = vec![0; size as usize];
        socket.read_exact(&mut payload)?;
        Ok(Some(Self {
            request,
            needs_reply: flags & NEED_REPLY != 0,
            payload,
            file,
        }))
    }

    /// The 32-bit word at `offset` of the payload; zero behind its end.
    pub(super) fn word(&self, offset: usize) -> u32 {
        word(&self.payload, offset)
    }

    /// The 64-bit word at `offset` of the payload.
    pub(super) fn long(&self, offset: usize) -> u64 {
        u64::from(self.word(offset)) | u64::from(self.word(offset + 4)) << 32
    }
}

/// An honest answer to `request`.
pub(super) fn reply(request: u32, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    raw(request, VERSION | REPLY, size, payload)
}

/// Any message, right or wrong.
pub(super) fn raw(request: u32, flags: u32, size: u32, payload: &[u8]) -> Vec<u8> {
    let words = [request, flags, size];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend_from_slice(payload);
    bytes
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    if let Some(found) = bytes.get(offset..offset + 4) {
        word.copy_from_slice(found);
    }
    u32::from_le_bytes(word)
}
