//! Meeting the peer: a socket that never blocks.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::error::OpenError;

/// Most bytes of a socket's path (unix(7): 108 with the zero at its end).
const PATH_MAX: usize = 107;
/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(20);

/// Where the peer is met.
pub(crate) struct Meeting {
    path: PathBuf,
    listener: Option<UnixListener>,
    next: Instant,
}

impl Meeting {
    /// Meets the peer at `path`: listening there if this end is the server.
    pub(crate) fn new(path: &Path, server: bool) -> Result<Self, OpenError> {
        check(path)?;
        let listener = if server { Some(listen(path)?) } else { None };
        Ok(Self {
            path: path.to_owned(),
            listener,
            next: Instant::now(),
        })
    }

    /// A connection, if there is one to be had now. Attempts come at intervals.
    pub(crate) fn try_once(&mut self) -> Option<UnixStream> {
        if Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + PAUSE;
        self.attempt().ok()
    }

    /// Makes no attempt for `time`.
    pub(crate) fn rest(&mut self, time: Duration) {
        self.next = Instant::now() + time;
    }

    /// Sleeps until the next attempt.
    pub(crate) fn pause(&self) {
        std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
    }

    /// A connection within `time`, or until `stop` is set. A peer that is not there at all is an
    /// error at once; one that only has no time yet is waited for.
    pub(crate) fn wait(
        &mut self,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<UnixStream, OpenError> {
        let end = Instant::now() + time;
        loop {
            let source = match self.attempt() {
                Ok(socket) => return Ok(socket),
                Err(source) => source,
            };
            let waits = source.kind() == io::ErrorKind::WouldBlock;
            if stop.load(Ordering::Relaxed) {
                let path = self.path.clone();
                return Err(OpenError::Interrupted { path });
            }
            if !waits || Instant::now() >= end {
                return Err(self.nobody(source, time));
            }
            std::thread::sleep(PAUSE.min(end.saturating_duration_since(Instant::now())));
        }
    }

    fn nobody(&self, source: io::Error, time: Duration) -> OpenError {
        let path = self.path.clone();
        if self.listener.is_some() {
            let waited_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            return OpenError::Nobody { path, waited_ms };
        }
        OpenError::NoPeer { path, source }
    }

    fn attempt(&self) -> io::Result<UnixStream> {
        let stream = match &self.listener {
            Some(listener) => listener.accept()?.0,
            None => connect_now(&self.path)?,
        };
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        if self.listener.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Refuses what can never be a socket's path: the kernel's own answers to it mislead.
fn check(path: &Path) -> Result<(), OpenError> {
    let bytes = path.as_os_str().len();
    let what = match std::fs::metadata(path) {
        _ if bytes > PATH_MAX => format!("its path of {bytes} bytes is longer than {PATH_MAX}"),
        Ok(found) if found.is_dir() => "it is a directory".to_owned(),
        Ok(found) if !found.file_type().is_socket() => "it is a file of another kind".to_owned(),
        _ => return Ok(()),
    };
    Err(OpenError::NoSocket {
        path: path.to_owned(),
        what,
    })
}

/// Connects without waiting for a peer whose queue of connections is full.
fn connect_now(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// Listens on `path`. What a dead process left there is removed; what a living one listens on,
/// and what is no socket, is not.
fn listen(path: &Path) -> Result<UnixListener, OpenError> {
    let failed = |source| OpenError::Listen {
        path: path.to_owned(),
        source,
    };
    if let Ok(what) = std::fs::symlink_metadata(path) {
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        let stale = what.file_type().is_socket() && connect_now(path).is_err_and(|e| refused(&e));
        if !stale {
            return Err(failed(io::Error::from(io::ErrorKind::AddrInUse)));
        }
        std::fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}
