//! DPDK's telemetry: one question and one JSON answer a message, on a local socket.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;
use serde_json::Value;

/// How long an answer may take: it comes from a thread that shares its core with a poll loop.
const PATIENCE_S: i64 = 10;

/// A connection to one DPDK process.
#[derive(Debug)]
pub struct Telemetry {
    socket: OwnedFd,
    answer: Vec<u8>,
}

impl Telemetry {
    /// The socket's path for a process whose runtime folder is `folder`.
    #[must_use]
    pub fn path(folder: &Path, prefix: &str) -> PathBuf {
        folder.join("dpdk").join(prefix).join("dpdk_telemetry.v2")
    }

    /// Connects to the process that listens on `path`.
    ///
    /// # Errors
    /// When nobody listens there, or the greeting is not DPDK's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let kind = SockType::SeqPacket;
        let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(
            &socket,
            sockopt::ReceiveTimeout,
            &TimeVal::new(PATIENCE_S, 0),
        )?;
        connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        let mut telemetry = Self {
            socket,
            answer: vec![0; 1 << 16],
        };
        let greeting = telemetry.read()?;
        // The greeting says how long an answer may be.
        let longest = greeting["max_output_len"]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok());
        let longest = longest.filter(|n| *n < 1 << 24);
        let longest = longest.ok_or_else(|| io::Error::other(format!("greeted by {greeting}")))?;
        telemetry.answer.resize(longest + 1, 0);
        Ok(telemetry)
    }

    /// Asks for `query`, such as `/ethdev/stats,0`, and gives back what it holds.
    ///
    /// # Errors
    /// When the process is gone, slow, or answers something else. A question that it does not
    /// know, or has nothing to say to, is answered with null.
    pub fn ask(&mut self, query: &str) -> io::Result<Value> {
        send(
            self.socket.as_raw_fd(),
            query.as_bytes(),
            MsgFlags::MSG_NOSIGNAL,
        )?;
        let mut answer = self.read()?;
        let command = query.split(',').next().unwrap_or(query);
        let value = answer.get_mut(command).map(Value::take);
        value.ok_or_else(|| io::Error::other(format!("no answer to {query}")))
    }

    fn read(&mut self) -> io::Result<Value> {
        let length = recv(self.socket.as_raw_fd(), &mut self.answer, MsgFlags::empty())?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&self.answer[..length])?)
    }
}
