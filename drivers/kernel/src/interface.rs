//! What the kernel says of an interface: the requests of `netdevice(7)`.
#![expect(unsafe_code, reason = "makes system calls")]

use std::ffi::{c_int, c_ulong};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use port::{Link, LinkState, Mac};

use crate::socket::Socket;

/// `struct ifreq`: a name, and a value whose form the request decides.
#[repr(C, align(8))]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

/// The old form of a link's settings, `struct ethtool_cmd` of `linux/ethtool.h`, which every
/// kernel still answers.
#[repr(C, align(4))]
struct Settings([u8; 44]);

/// `ETHTOOL_GSET`.
const GET_SETTINGS: u32 = 1;

/// An interface, by its number: a name may go to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Its index.
    pub(crate) index: c_int,
}

impl Request {
    fn named(name: &str) -> io::Result<Self> {
        let mut request = Self {
            name: [0; libc::IFNAMSIZ],
            value: [0; 24],
        };
        // The last byte stays zero.
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        Ok(request)
    }

    /// Makes the request `number`, one that reads or writes no more than the structure.
    fn ask(mut self, socket: &Socket, number: c_ulong) -> io::Result<Self> {
        let place = std::ptr::from_mut(&mut self);
        // SAFETY: the kernel reads and writes one `struct ifreq` for the requests of this
        // module; for `SIOCETHTOOL`, what `settings` points it to.
        let answer = unsafe { libc::ioctl(socket.as_raw_fd(), number, place) };
        if answer < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(self)
        }
    }

    fn int(&self) -> c_int {
        let [a, b, c, d, ..] = self.value;
        c_int::from_ne_bytes([a, b, c, d])
    }

    fn short(&self) -> u16 {
        u16::from_ne_bytes([self.value[0], self.value[1]])
    }
}

impl Interface {
    /// The interface of that name.
    pub(crate) fn find(socket: &Socket, name: &str) -> io::Result<Self> {
        let answer = Request::named(name)?.ask(socket, libc::SIOCGIFINDEX)?;
        Ok(Self {
            index: answer.int(),
        })
    }

    /// A request that names it, whatever it is called now.
    fn request(&self, socket: &Socket) -> io::Result<Request> {
        let mut request = Request {
            name: [0; libc::IFNAMSIZ],
            value: [0; 24],
        };
        request.value[..4].copy_from_slice(&self.index.to_ne_bytes());
        request.ask(socket, libc::SIOCGIFNAME)
    }

    /// What it is called.
    pub(crate) fn name(&self, socket: &Socket) -> io::Result<String> {
        let request = self.request(socket)?;
        let end = request.name.iter().position(|&byte| byte == 0);
        let name = &request.name[..end.unwrap_or(request.name.len())];
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// The kind of its addresses (`ARPHRD_…`), and its own.
    pub(crate) fn address(&self, socket: &Socket) -> io::Result<(u16, Mac)> {
        let answer = self.request(socket)?.ask(socket, libc::SIOCGIFHWADDR)?;
        let [_, _, a, b, c, d, e, f, ..] = answer.value;
        Ok((answer.short(), [a, b, c, d, e, f]))
    }

    /// Its MTU.
    pub(crate) fn mtu(&self, socket: &Socket) -> io::Result<usize> {
        let answer = self.request(socket)?.ask(socket, libc::SIOCGIFMTU)?;
        usize::try_from(answer.int()).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Its link: up if it is switched on and has a carrier.
    pub(crate) fn link(&self, socket: &Socket) -> io::Result<Link> {
        let answer = self.request(socket)?.ask(socket, libc::SIOCGIFFLAGS)?;
        let flags = c_int::from(answer.short());
        let both = libc::IFF_UP | libc::IFF_RUNNING;
        let state = if flags & both == both {
            LinkState::Up
        } else {
            LinkState::Down
        };
        // Many interfaces that are no hardware have no settings.
        let (speed_bps, full_duplex) = self.settings(socket).unwrap_or((None, true));
        Ok(Link {
            state,
            speed_bps,
            full_duplex,
        })
    }

    /// Bits a second, if it says so, and whether both directions go at once.
    fn settings(&self, socket: &Socket) -> io::Result<(Option<u64>, bool)> {
        let mut settings = Settings([0; 44]);
        settings.0[..4].copy_from_slice(&GET_SETTINGS.to_ne_bytes());
        let place = std::ptr::from_mut(&mut settings);
        let mut request = self.request(socket)?;
        request.value[..8].copy_from_slice(&(place.expose_provenance() as u64).to_ne_bytes());
        request.ask(socket, libc::SIOCETHTOOL)?;
        let half = |at: usize| u16::from_ne_bytes([settings.0[at], settings.0[at + 1]]);
        let mbps = u32::from(half(28)) << 16 | u32::from(half(12));
        let known = mbps != 0 && mbps != u32::MAX && mbps != u32::from(u16::MAX);
        let speed = known.then_some(u64::from(mbps) * 1_000_000);
        let half_duplex = 0;
        Ok((speed, settings.0[14] != half_duplex))
    }
}

/// The interfaces of this thread's network namespace.
pub(crate) fn names() -> Vec<String> {
    let table = fs::read_to_string(TABLE).unwrap_or_default();
    let mut names: Vec<String> = lines(&table)
        .map(|(name, _)| name.to_owned())
        .filter(|name| name != "lo")
        .collect();
    names.sort();
    names
}

/// The kernel's table of interfaces and what they counted, of this thread's namespace.
pub(crate) const TABLE: &str = "/proc/thread-self/net/dev";

/// The lines of that table: name, and the numbers after it.
pub(crate) fn lines(table: &str) -> impl Iterator<Item = (&str, &str)> {
    table.lines().filter_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        Some((name.trim(), numbers))
    })
}
