//! Packet sockets: the system calls.
//!
//! Numbers and structures are the kernel's own, `linux/if_packet.h` and `linux/filter.h`
//! (crate libc).
#![expect(unsafe_code, reason = "makes system calls")]

use std::ffi::{c_int, c_uint, c_ushort};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{packet_mreq, sock_filter, sock_fprog, sockaddr_ll, tpacket_req, tpacket_stats};
use port::Mac;

/// A packet socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// What a socket hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hears {
    /// Nothing: it only sends.
    Nothing,
    /// Every frame that its filter lets pass.
    All,
}

/// Something that is asked of an interface for as long as a socket lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Frames for every station.
    Promiscuous,
    /// Frames for every group.
    AllMulticast,
    /// Frames for this station or group.
    Address(Mac),
}

/// A ring that a socket shall have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Slots.
    pub(crate) slots: usize,
    /// Bytes of a slot, a power of two.
    pub(crate) slot_bytes: usize,
}

/// The least that the kernel allots: a page.
const PAGE: usize = 4096;

impl Shape {
    /// A ring of at least `slots` slots that hold `slot_bytes` bytes each.
    pub(crate) fn holding(slots: usize, slot_bytes: usize) -> Self {
        let slot_bytes = slot_bytes.next_power_of_two();
        // Whole blocks, of a slot or of a page.
        let per_block = (PAGE / slot_bytes).max(1);
        Self {
            slots: slots.next_multiple_of(per_block),
            slot_bytes,
        }
    }

    /// Bytes of the whole ring.
    pub(crate) fn bytes(&self) -> usize {
        self.slots * self.slot_bytes
    }

    fn request(&self) -> tpacket_req {
        let block = self.slot_bytes.max(PAGE);
        let number = |value: usize| c_uint::try_from(value).unwrap_or(c_uint::MAX);
        tpacket_req {
            tp_block_size: number(block),
            tp_block_nr: number(self.bytes() / block),
            tp_frame_size: number(self.slot_bytes),
            tp_frame_nr: number(self.slots),
        }
    }
}

fn check(answer: c_int) -> io::Result<c_int> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}

fn length<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("options are small")
}

impl Socket {
    /// A socket that is bound to nothing and hears nothing.
    pub(crate) fn new() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes numbers only.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: the kernel just made this descriptor, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sets an option of the level `level`.
    fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let (fd, value) = (self.0.as_raw_fd(), std::ptr::from_ref(value));
        // SAFETY: the kernel reads the `size_of::<T>()` bytes of `value`, which is borrowed.
        let answer = unsafe { libc::setsockopt(fd, level, option, value.cast(), length::<T>()) };
        check(answer).map(drop)
    }

    /// Gives the socket a ring: one to receive into, or one to send from.
    pub(crate) fn make_ring(&self, receives: bool, shape: &Shape) -> io::Result<()> {
        let version = libc::tpacket_versions::TPACKET_V2 as c_int;
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let ring = if receives {
            libc::PACKET_RX_RING
        } else {
            libc::PACKET_TX_RING
        };
        self.set(libc::SOL_PACKET, ring, &shape.request())
    }

    /// Frames that this host sends are not received.
    pub(crate) fn ignore_outgoing(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)
    }

    /// What is sent goes to the interface's driver at once, past the queueing discipline.
    pub(crate) fn bypass_qdisc(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)
    }

    /// Binds it to the interface of this index.
    pub(crate) fn bind(&self, interface: c_int, hears: Hears) -> io::Result<()> {
        let protocol = match hears {
            Hears::Nothing => 0,
            Hears::All => c_ushort::try_from(libc::ETH_P_ALL).unwrap_or(0).to_be(),
        };
        let address = sockaddr_ll {
            sll_family: c_ushort::try_from(libc::AF_PACKET).unwrap_or(0),
            sll_protocol: protocol,
            sll_ifindex: interface,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let (fd, address) = (self.0.as_raw_fd(), std::ptr::from_ref(&address));
        // SAFETY: the kernel reads the bytes of `address`, which lives on.
        let answer = unsafe { libc::bind(fd, address.cast(), length::<sockaddr_ll>()) };
        check(answer).map(drop)
    }

    /// Sets the program that picks the frames that are received. It takes effect at once.
    pub(crate) fn set_filter(&self, program: &mut [sock_filter]) -> io::Result<()> {
        let program = sock_fprog {
            len: c_ushort::try_from(program.len())
                .map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?,
            filter: program.as_mut_ptr(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Asks something of the interface, or no longer.
    pub(crate) fn set_membership(
        &self,
        interface: c_int,
        what: Membership,
        on: bool,
    ) -> io::Result<()> {
        let (kind, mac) = match what {
            Membership::Promiscuous => (libc::PACKET_MR_PROMISC, None),
            Membership::AllMulticast => (libc::PACKET_MR_ALLMULTI, None),
            Membership::Address(mac) if mac[0] & 1 == 1 => (libc::PACKET_MR_MULTICAST, Some(mac)),
            Membership::Address(mac) => (libc::PACKET_MR_UNICAST, Some(mac)),
        };
        let mut request = packet_mreq {
            mr_ifindex: interface,
            mr_type: c_ushort::try_from(kind).unwrap_or(0),
            mr_alen: if mac.is_some() { 6 } else { 0 },
            mr_address: [0; 8],
        };
        if let Some(mac) = mac {
            request.mr_address[..6].copy_from_slice(&mac);
        }
        let option = if on {
            libc::PACKET_ADD_MEMBERSHIP
        } else {
            libc::PACKET_DROP_MEMBERSHIP
        };
        self.set(libc::SOL_PACKET, option, &request)
    }

    /// Shares what arrives with the sockets of a group, by the hash of a frame's flow; a new
    /// group if none is named. The group.
    pub(crate) fn join_fanout(&self, group: Option<u16>) -> io::Result<u16> {
        let unique = if group.is_none() {
            libc::PACKET_FANOUT_FLAG_UNIQUEID
        } else {
            0
        };
        let how = libc::PACKET_FANOUT_HASH | unique;
        let word = how << 16 | u32::from(group.unwrap_or(0));
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &word)?;
        let word: u32 = self.get(libc::PACKET_FANOUT)?;
        Ok(u16::try_from(word & 0xffff).unwrap_or(0))
    }

    /// Reads an option of the packet level: one that is made of numbers, so that any bytes are
    /// one.
    fn get<T: Numbers>(&self, option: c_int) -> io::Result<T> {
        let mut value = T::default();
        let mut len = length::<T>();
        let (fd, place) = (self.0.as_raw_fd(), std::ptr::from_mut(&mut value));
        let level = libc::SOL_PACKET;
        // SAFETY: the kernel writes at most `len` bytes, the size of `value`, and `Numbers` says
        // that any bytes are a value.
        let answer = unsafe { libc::getsockopt(fd, level, option, place.cast(), &raw mut len) };
        check(answer)?;
        Ok(value)
    }

    /// Frames that found the receive ring full since this was last asked.
    pub(crate) fn take_drops(&self) -> io::Result<u64> {
        let stats: Statistics = self.get(libc::PACKET_STATISTICS)?;
        Ok(u64::from(stats.0.tp_drops))
    }

    /// Tells the kernel to send what its ring holds. Does not wait.
    pub(crate) fn kick(&self) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        // SAFETY: there is no buffer and no address: what is sent lies in the ring.
        let sent = unsafe { libc::send(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

/// Marks types of which any bytes are a value.
trait Numbers: Default {}

impl Numbers for u32 {}

/// [`tpacket_stats`]: two numbers.
#[repr(transparent)]
struct Statistics(tpacket_stats);

impl Default for Statistics {
    fn default() -> Self {
        Self(tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        })
    }
}

impl Numbers for Statistics {}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_ring_is_whole_blocks_of_slots_that_are_a_power_of_two() {
        for (slots, bytes) in [(1, 100), (16, 1600), (17, 1600), (4096, 2048), (33, 9100)] {
            let shape = Shape::holding(slots, bytes);
            let request = shape.request();
            assert!(shape.slots >= slots && shape.slot_bytes >= bytes);
            assert!(shape.slot_bytes.is_power_of_two());
            assert_eq!(request.tp_block_size as usize % PAGE, 0, "{request:?}");
            // What the kernel checks: `packet_set_ring` in Linux's af_packet.c.
            let per_block = request.tp_block_size / request.tp_frame_size;
            assert_eq!(
                request.tp_frame_nr,
                per_block * request.tp_block_nr,
                "{request:?}"
            );
        }
    }
}
