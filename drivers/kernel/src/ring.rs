//! A ring that a socket shares with the kernel.
//!
//! Each slot begins with a header, `struct tpacket2_hdr`. Its first word says whose the slot is:
//! whoever it belongs to writes the rest of the slot, and then gives it away with that word. So
//! the other bytes of a slot are read and written only while it is ours, after and before the
//! word.
#![expect(unsafe_code, reason = "reads and writes memory that the kernel shares")]

use std::io;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::tpacket2_hdr;
use memmap2::{MmapOptions, MmapRaw};

use crate::socket::{Shape, Socket};

/// Bytes of a slot's header, padded: where a frame to be sent begins (`TPACKET2_HDRLEN` less the
/// address that only received frames have).
pub(crate) const DATA: usize = size_of::<tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// Bytes that the kernel wants in front of a received frame: header, address, and the gap that
/// aligns what follows the Ethernet header (`tpacket_rcv` in Linux's af_packet.c).
pub(crate) const RECEIVE_OVERHEAD: usize =
    (libc::TPACKET2_HDRLEN + 16).next_multiple_of(libc::TPACKET_ALIGNMENT);

/// The slots of a ring.
pub(crate) struct Ring {
    map: MmapRaw,
    shape: Shape,
    /// The kernel's end: the ring is its for as long as the socket is open.
    pub(crate) socket: Arc<Socket>,
}

/// What the kernel says of a frame that it received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes of the frame.
    pub(crate) len: usize,
    /// Bytes of it that are in the slot.
    pub(crate) kept: usize,
    /// Where in the slot it begins.
    pub(crate) offset: usize,
    /// The VLAN tag that was taken out of it: what stood in the type field, and the tag.
    pub(crate) vlan: Option<(u16, u16)>,
    /// Its TCP or UDP checksum is still to be filled in.
    pub(crate) partial: bool,
}

impl Ring {
    /// Maps the ring of `shape` that `socket` was given.
    pub(crate) fn map(socket: Arc<Socket>, shape: Shape) -> io::Result<Self> {
        let map = MmapOptions::new().len(shape.bytes()).map_raw(&*socket)?;
        Ok(Self { map, shape, socket })
    }

    /// Slots.
    pub(crate) fn len(&self) -> usize {
        self.shape.slots
    }

    /// Bytes of a slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.shape.slot_bytes
    }

    /// The address of `len` bytes at `offset` in slot `slot`.
    fn at(&self, slot: usize, offset: usize, len: usize) -> *mut u8 {
        assert!(
            slot < self.shape.slots && offset + len <= self.shape.slot_bytes,
            "{len} bytes at {offset} of slot {slot} are in the ring"
        );
        let place = slot * self.shape.slot_bytes + offset;
        // SAFETY: the map has `slots * slot_bytes` bytes, and the assertion holds.
        unsafe { self.map.as_mut_ptr().add(place) }
    }

    /// The word that says whose the slot is.
    fn owner(&self, slot: usize) -> &AtomicU32 {
        let word = self.at(slot, offset_of!(tpacket2_hdr, tp_status), 4);
        // SAFETY: slots begin at powers of two of at least 16 bytes and the word at their start,
        // so it is aligned; it is mapped while `self` lives; the kernel treats it as an atomic.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    /// Whose the slot is, as the kernel's `TP_STATUS_…`; and to see everything that was done
    /// before it was given away.
    #[inline]
    pub(crate) fn status(&self, slot: usize) -> u32 {
        self.owner(slot).load(Ordering::Acquire)
    }

    /// Gives the slot away, with everything that was written to it.
    #[inline]
    pub(crate) fn give(&self, slot: usize, status: u32) {
        self.owner(slot).store(status, Ordering::Release);
    }

    /// Copies bytes out of a slot that is ours.
    #[inline]
    pub(crate) fn read(&self, slot: usize, offset: usize, into: &mut [u8]) {
        let from = self.at(slot, offset, into.len());
        // SAFETY: `from` has that many bytes, which the kernel leaves alone while the slot is
        // ours; `into` is borrowed for writing and no part of the map.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes into a slot that is ours.
    #[inline]
    pub(crate) fn write(&mut self, slot: usize, offset: usize, bytes: &[u8]) {
        let to = self.at(slot, offset, bytes.len());
        // SAFETY: `to` has that many bytes, which the kernel leaves alone while the slot is
        // ours; `bytes` is no part of the map.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Says how long the frame in a slot of ours is.
    #[inline]
    pub(crate) fn write_len(&mut self, slot: usize, len: u32) {
        self.write(slot, offset_of!(tpacket2_hdr, tp_len), &len.to_ne_bytes());
    }

    /// What the kernel says of the frame in a slot of ours.
    #[inline]
    pub(crate) fn received(&self, slot: usize, status: u32) -> Received {
        let mut header = [0; size_of::<tpacket2_hdr>()];
        self.read(slot, 0, &mut header);
        let word = |at: usize| {
            let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_ne_bytes(bytes) as usize
        };
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let tagged = status & libc::TP_STATUS_VLAN_VALID != 0;
        // Kernels before 3.14 do not say what stood there.
        let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let kind = known.then(|| half(offset_of!(tpacket2_hdr, tp_vlan_tpid)));
        Received {
            len: word(offset_of!(tpacket2_hdr, tp_len)),
            kept: word(offset_of!(tpacket2_hdr, tp_snaplen)),
            offset: half(offset_of!(tpacket2_hdr, tp_mac)).into(),
            vlan: tagged.then(|| {
                let tag = half(offset_of!(tpacket2_hdr, tp_vlan_tci));
                (kind.unwrap_or(0x8100), tag)
            }),
            partial: status & libc::TP_STATUS_CSUMNOTREADY != 0,
        }
    }
}
