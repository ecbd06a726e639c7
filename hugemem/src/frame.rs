//! A frame: the one handle on a packet buffer.
#![expect(unsafe_code, reason = "gives out the bytes that a handle owns")]

use std::fmt;
use std::ptr::NonNull;

use crate::iova::Iova;
use crate::pool;

/// Bytes before a frame that belong to its driver: room for what a device wants in front, such
/// as virtio-net's header. A cache line, so that the frame itself starts on one.
pub const HEADROOM: usize = 64;

bitflags::bitflags! {
    /// What the sender asks of the device, frame by frame.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TxFlags: u16 {
        /// The next frame of the burst continues this one: one packet in several buffers.
        const MORE = 1 << 0;
        /// Insert a VLAN tag, [`Frame::vlan`].
        const VLAN = 1 << 1;
        /// Fill in the IPv4 header checksum.
        const IPV4_CHECKSUM = 1 << 2;
        /// Fill in the TCP or UDP checksum; the field holds the pseudo-header's sum.
        const L4_CHECKSUM = 1 << 3;
    }
}

/// A packet buffer that its holder owns: the bytes, and where devices find them.
///
/// The handle can be moved, not copied. It is half a cache line, so that a burst of them moves
/// fast. `tag` is the owner's: the engine notes there what the buffer still holds.
pub struct Frame {
    address: NonNull<u8>,
    iova: Iova,
    /// Anything its owner wants to remember about the bytes. A pool keeps it as it was.
    pub tag: u32,
    pool: u16,
    capacity: u16,
    len: u16,
    /// The tag to insert ([`TxFlags::VLAN`]): priority, DEI and VLAN id, as on the wire.
    pub vlan: u16,
    /// What the device shall do on sending.
    pub flags: TxFlags,
    /// Whether anything was written to the headroom since it was all zero.
    used_headroom: bool,
}

const _: () = assert!(size_of::<Frame>() == 32 && size_of::<Option<Frame>>() == 32);

// SAFETY: a frame is the only handle on its bytes, so they go where it goes.
unsafe impl Send for Frame {}
// SAFETY: through a shared handle the bytes can only be read.
unsafe impl Sync for Frame {}

impl Frame {
    /// # Safety
    /// From `HEADROOM` bytes before `address` to `capacity` bytes after, the memory belongs to
    /// this handle alone, is mapped while the pool numbered `pool` lives, and is at `iova`.
    pub(crate) unsafe fn new(address: NonNull<u8>, iova: Iova, capacity: u16, pool: u16) -> Self {
        let flags = TxFlags::empty();
        Self {
            address,
            iova,
            tag: 0,
            pool,
            capacity,
            len: 0,
            vlan: 0,
            flags,
            // Memory of a region is zero at first.
            used_headroom: false,
        }
    }

    /// A second handle in the place of this one.
    ///
    /// # Safety
    /// This one is not used or dropped any more.
    pub(crate) unsafe fn reborn(&self) -> Self {
        Self {
            address: self.address,
            iova: self.iova,
            tag: self.tag,
            pool: self.pool,
            capacity: self.capacity,
            len: 0,
            vlan: 0,
            flags: TxFlags::empty(),
            used_headroom: self.used_headroom,
        }
    }

    pub(crate) fn pool(&self) -> u16 {
        self.pool
    }

    /// Bytes in the frame, without FCS.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// True for a frame of no bytes.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that it can hold.
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        usize::from(self.capacity)
    }

    /// Sets how many bytes are in the frame. Bytes that were not written since are what the
    /// buffer last held.
    ///
    /// # Panics
    /// It cannot hold that many.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        assert!(
            len <= self.capacity(),
            "a frame's length is at most its capacity"
        );
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most the capacity, a u16"
        )]
        let len = len as u16;
        self.len = len;
    }

    /// The bus address of the first byte.
    #[must_use]
    #[inline]
    pub fn iova(&self) -> Iova {
        self.iova
    }

    /// The frame's bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `new` says that `capacity` bytes are this handle's; `len` is at most that.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.len()) }
    }

    /// The frame's bytes, to write.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        // SAFETY: as for `bytes`; the handle is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), len) }
    }

    /// All the bytes it can hold, whatever its length.
    #[inline]
    pub fn room_mut(&mut self) -> &mut [u8] {
        let capacity = self.capacity();
        // SAFETY: as for `bytes`; the handle is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), capacity) }
    }

    /// Replaces the frame's content.
    ///
    /// # Panics
    /// It cannot hold that much.
    pub fn fill(&mut self, content: &[u8]) {
        self.set_len(content.len());
        self.bytes_mut().copy_from_slice(content);
    }

    /// The bytes before the frame, for its driver.
    #[must_use]
    #[inline]
    pub fn headroom(&self) -> &[u8; HEADROOM] {
        let before = self.before();
        // SAFETY: `new` says that the bytes before `address` are this handle's too.
        unsafe { before.as_ref() }
    }

    /// True if the bytes before the frame are all zero, for all that this process knows: nobody
    /// asked to write them, and no driver said that its device may have.
    #[must_use]
    #[inline]
    pub fn has_clean_headroom(&self) -> bool {
        !self.used_headroom
    }

    /// Notes that a device may write the bytes before the frame.
    #[inline]
    pub fn lend_headroom(&mut self) {
        self.used_headroom = true;
    }

    /// Makes the bytes before the frame zero, if they may not be. A driver whose device wants
    /// a header of zeros there thus writes it once and not for each lap.
    #[inline]
    pub fn clean_headroom(&mut self) {
        if self.used_headroom {
            self.headroom_mut().fill(0);
            self.used_headroom = false;
        }
    }

    /// The bytes before the frame, to write.
    #[inline]
    pub fn headroom_mut(&mut self) -> &mut [u8; HEADROOM] {
        self.used_headroom = true;
        let mut before = self.before();
        // SAFETY: as for `headroom`; the handle is borrowed for writing.
        unsafe { before.as_mut() }
    }

    #[inline]
    fn before(&self) -> NonNull<[u8; HEADROOM]> {
        // SAFETY: `new` says that there are `HEADROOM` bytes before `address`.
        unsafe { self.address.sub(HEADROOM) }.cast()
    }
}

impl Drop for Frame {
    /// Goes home to its pool.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it is being dropped, and so not used any more.
        unsafe { pool::bring_home(self) };
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Frame({} of {} bytes at {})",
            self.len, self.capacity, self.iova
        )
    }
}
