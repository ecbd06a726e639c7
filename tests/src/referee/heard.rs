//! A word back to the guest: that what it said was heard, and what it asked for done.
//!
//! What the guest prints arrives here a moment later, and the models' books must be read before
//! anything moves again; some things it can't do at all, as pulling the wire out. So the guest
//! waits for a byte on its third serial port, whose other end is a socket of ours. It looks at the port's registers itself (`/dev/port`): that needs no interrupt,
//! which an emulated PC's third port shares with its first, the console.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use peers::lab::INSIDE;

use super::net::{Fallible, wait};

/// What begins a line that asks for something.
const MARK: &str = "@please ";

/// What the guest asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// The wire between the models is pulled out.
    Unplug,
    /// And put in again.
    Plug,
    /// The physical functions beside the models are reset.
    ResetPf,
    /// Their own MTU becomes 1500.
    ShortPf,
    /// And 9000 again.
    LongPf,
}

impl Wish {
    const ALL: [Self; 5] = [
        Self::Unplug,
        Self::Plug,
        Self::ResetPf,
        Self::ShortPf,
        Self::LongPf,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Unplug => "unplug",
            Self::Plug => "plug",
            Self::ResetPf => "reset the physical function",
            Self::ShortPf => "give the physical function an MTU of 1500",
            Self::LongPf => "give the physical function an MTU of 9000",
        }
    }

    /// The one in a line, if there is one.
    pub(super) fn of(line: &str) -> Option<Self> {
        let name = line.strip_prefix(MARK)?;
        Self::ALL.into_iter().find(|wish| wish.name() == name)
    }

    /// In the guest: asks for it, and waits until it was done.
    pub(super) fn ask(self) -> Fallible {
        println!("{MARK}{}", self.name());
        wait_until_heard()
    }
}

/// The socket's name in the guest's folder.
const SOCKET: &str = "heard.sock";
/// The third serial port of a PC: its data, and the status of its line (16550A).
const DATA: u64 = 0x3e8;
const STATUS: u64 = 0x3ed;
/// In the status: a byte is there.
const READY: u8 = 1;

/// Our end.
pub(super) struct Heard {
    listener: UnixListener,
    guest: Option<UnixStream>,
}

impl Heard {
    /// Waits in `folder` for a QEMU with [`Heard::arguments`].
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            listener: UnixListener::bind(folder.join(SOCKET))?,
            guest: None,
        })
    }

    /// What QEMU is told, behind its other two serial ports.
    pub(super) fn arguments() -> [String; 2] {
        ["-serial".into(), format!("unix:{INSIDE}/{SOCKET}")]
    }

    /// The guest may go on.
    pub(super) fn say(&mut self) -> io::Result<()> {
        let guest = match self.guest.take() {
            Some(guest) => guest,
            // QEMU has connected before its guest could have said anything.
            None => self.listener.accept()?.0,
        };
        self.guest.insert(guest).write_all(b".")
    }
}

/// In the guest: waits until what was printed was heard.
pub(super) fn wait_until_heard() -> Fallible {
    let ports = File::open("/dev/port").map_err(|error| format!("/dev/port: {error}"))?;
    let read = |port: u64| {
        let mut byte = [0];
        ports.read_exact_at(&mut byte, port).map(|()| byte[0])
    };
    wait(|| read(STATUS).is_ok_and(|status| status & READY != 0))
        .map_err(|waited| format!("nobody has heard the counters after {waited:?}"))?;
    read(DATA).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_wish_is_known_by_its_line() {
        for wish in Wish::ALL {
            assert_eq!(Wish::of(&format!("{MARK}{}", wish.name())), Some(wish));
        }
        assert_eq!(Wish::of("unplug"), None);
        assert_eq!(Wish::of("@please sing"), None);
    }
}
