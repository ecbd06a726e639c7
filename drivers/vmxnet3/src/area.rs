//! The shared area and the queue descriptors: structures in memory, seen as 32-bit words (defs:
//! `Vmxnet3_DriverShared`, `Vmxnet3_TxQueueDesc`, `Vmxnet3_RxQueueDesc`).
//!
//! The device reads and writes them when a command says so, and not while the driver does.

use std::sync::atomic::{AtomicU32, Ordering};

use hugemem::{Dma, Iova};

/// Bytes of the shared area, `cmdInfo` included.
pub(crate) const AREA: usize = 720;
/// Bytes of a queue's descriptor.
pub(crate) const QUEUE: usize = 256;

/// Offsets in the shared area, in bytes.
pub(crate) mod at {
    /// u32: [`super::MAGIC`].
    pub(crate) const MAGIC: usize = 0;
    /// u32: version of the driver.
    pub(crate) const DRIVER_VERSION: usize = 8;
    /// u32: the guest's system, in bits.
    pub(crate) const GOS: usize = 12;
    /// u32: `vmxnet3RevSpt`.
    pub(crate) const REVISION: usize = 16;
    /// u32: `uptVerSpt`.
    pub(crate) const UPT_VERSION: usize = 20;
    /// u64: features of the run, all of them in the low half.
    pub(crate) const UPT_FEATURES: usize = 24;
    /// u64: address of the queue descriptors.
    pub(crate) const QUEUE_DESC_PA: usize = 40;
    /// u32: their bytes.
    pub(crate) const QUEUE_DESC_LEN: usize = 52;
    /// u32: MTU.
    pub(crate) const MTU: usize = 56;
    /// u16 most buffers of a received frame, u8 send queues, u8 receive queues.
    pub(crate) const QUEUES: usize = 60;
    /// u8 auto-mask, u8 interrupts, u8 the one for events, u8 moderation of the first.
    pub(crate) const INTERRUPTS: usize = 80;
    /// u32: bit 0 keeps all interrupts off.
    pub(crate) const INTERRUPT_CONTROL: usize = 108;
    /// u32: which frames are accepted.
    pub(crate) const RX_MODE: usize = 120;
    /// u16: bytes of the table of groups.
    pub(crate) const GROUPS_LEN: usize = 124;
    /// u64: its address.
    pub(crate) const GROUPS_PA: usize = 128;
    /// 128 of u32: a bit for each VLAN.
    pub(crate) const VLANS: usize = 136;
    /// u32 version, u32 bytes, u64 address of the RSS configuration.
    pub(crate) const RSS: usize = 648;
    /// u32: events, written by the device.
    pub(crate) const EVENTS: usize = 696;
    /// u32: what `SET_RSS_FIELDS` reads.
    pub(crate) const COMMAND_INFO: usize = 704;
}

/// What the area begins with (defs: `VMXNET3_REV1_MAGIC`).
pub(crate) const MAGIC: u32 = 0xbabe_fee1;
/// Words of the table of VLANs.
pub(crate) const VLAN_WORDS: usize = 128;
/// [`at::GOS`]: 64 bits (2 in bits 1:0) and Linux (1 in bits 5:2), for which alone QEMU's device
/// puts one frame into several buffers.
pub(crate) const GUEST: u32 = 2 | 1 << 2;

/// Features of a run (upt1_defs: `UPT1_F_*`).
pub(crate) mod feature {
    /// Checksums are checked.
    pub(crate) const RXCSUM: u32 = 1 << 0;
    /// Frames are spread over receive queues.
    pub(crate) const RSS: u32 = 1 << 1;
    /// VLAN tags are stripped.
    pub(crate) const RXVLAN: u32 = 1 << 2;
}

/// Bits of [`at::RX_MODE`] (defs: `VMXNET3_RXM_*`).
pub(crate) mod mode {
    /// Frames for the port's address.
    pub(crate) const UCAST: u32 = 1 << 0;
    /// Frames for groups in the table.
    pub(crate) const MCAST: u32 = 1 << 1;
    /// Broadcasts.
    pub(crate) const BCAST: u32 = 1 << 2;
    /// Frames for any group.
    pub(crate) const ALL_MULTI: u32 = 1 << 3;
    /// Every frame.
    pub(crate) const PROMISC: u32 = 1 << 4;
}

/// Offsets in a queue's descriptor, in bytes.
pub(crate) mod queue {
    /// Send: u32, frames that the device was not told of.
    pub(crate) const TX_DEFERRED: usize = 0;
    /// Send: u32, from how many on it wants to be told; the device's.
    pub(crate) const TX_THRESHOLD: usize = 4;
    /// Receive: u8, the device wants to be told of armed slots; the device's.
    pub(crate) const RX_UPDATE: usize = 0;
    /// u64: first ring. Receive: the ring of bodies 8 bytes on.
    pub(crate) const RING_PA: usize = 16;
    /// u64: send, the data ring.
    pub(crate) const TX_DATA_PA: usize = 24;
    /// u64: completions.
    pub(crate) const COMPLETIONS_PA: usize = 32;
    /// u64: receive, the data ring.
    pub(crate) const RX_DATA_PA: usize = 48;
    /// u32: slots of the first ring.
    pub(crate) const RING_LEN: usize = 56;
    /// u32: send, slots of the data ring; receive, of the ring of bodies.
    pub(crate) const SECOND_LEN: usize = 60;
    /// u32: slots of the completion ring.
    pub(crate) const COMPLETIONS_LEN: usize = 64;
    /// u8 interrupt, u8 nothing, u16 bytes of a data ring's slot.
    pub(crate) const INTERRUPT_DATA_SIZE: usize = 72;
    /// u8: the device has stopped the queue.
    pub(crate) const STOPPED: usize = 80;
    /// u32: why.
    pub(crate) const ERROR: usize = 84;
    /// Ten of u64: counters.
    pub(crate) const STATS: usize = 88;
}

/// A structure in memory that device and driver share.
#[derive(Debug, Clone)]
pub(crate) struct Area(Dma<AtomicU32>);

impl Area {
    /// The structure in `words`.
    pub(crate) fn new(words: Dma<AtomicU32>) -> Self {
        Self(words)
    }

    /// Where the device finds it.
    pub(crate) fn iova(&self) -> Iova {
        self.0.iova()
    }

    /// The memory it lies in.
    pub(crate) fn words(&self) -> &Dma<AtomicU32> {
        &self.0
    }

    /// The `number`th of structures of `bytes` bytes that lie one after the other.
    pub(crate) fn part(&self, number: usize, bytes: usize) -> Self {
        let words = bytes / 4;
        Self(self.0.part(number * words..(number + 1) * words))
    }

    /// Makes it all zero.
    pub(crate) fn clear(&self) {
        self.0
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// The word at byte `at`.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> u32 {
        u32::from_le(self.0[at / 4].load(Ordering::Relaxed))
    }

    /// The two words at byte `at`, low half first.
    pub(crate) fn get64(&self, at: usize) -> u64 {
        u64::from(self.get(at)) | u64::from(self.get(at + 4)) << 32
    }

    /// Writes the word at byte `at`.
    #[inline]
    pub(crate) fn put(&self, at: usize, value: u32) {
        self.0[at / 4].store(value.to_le(), Ordering::Relaxed);
    }

    /// Writes an address at byte `at`.
    pub(crate) fn put_address(&self, at: usize, address: Iova) {
        let [a, b, c, d, e, f, g, h] = address.get().to_le_bytes();
        self.put(at, u32::from_le_bytes([a, b, c, d]));
        self.put(at + 4, u32::from_le_bytes([e, f, g, h]));
    }
}
