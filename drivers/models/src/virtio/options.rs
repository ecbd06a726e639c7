//! What a virtio-net device is like.

use std::sync::Arc;

use hugemem::SimSpace;

use super::bits::feature;
use crate::Mac;

/// Which PCI device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// 1af4:1041: the modern interface alone.
    Modern,
    /// 1af4:1000 with both interfaces; the driver chooses.
    Transitional,
    /// 1af4:1000 as it was before virtio 1.0: the legacy interface alone.
    Legacy,
}

/// How the device finds out that there is something in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notify {
    /// It looks all the time, and says so (`NO_NOTIFY`): doorbells are not needed.
    Polls,
    /// It sleeps on an empty ring until its doorbell is rung. A driver that forgets to ring, or
    /// looks for the wish to be notified too early, gets stuck, as it should.
    Sleeps,
}

/// What the device offers, and how it behaves.
#[derive(Debug, Clone)]
pub struct VirtioOptions {
    /// Its address.
    pub mac: Mac,
    /// Which PCI device it is.
    pub identity: Identity,
    /// Packed rings.
    pub packed: bool,
    /// Buffers used in order, completions in batches.
    pub in_order: bool,
    /// One frame in several receive buffers.
    pub mergeable: bool,
    /// Descriptor tables outside the ring.
    pub indirect: bool,
    /// Event indexes.
    pub event_idx: bool,
    /// Reset of single queues.
    pub ring_reset: bool,
    /// Addresses are translated. A driver that does not accept it is refused.
    pub access_platform: bool,
    /// Doorbells carry the ring's position.
    pub notification_data: bool,
    /// The control queue with all that hangs on it: receive modes, MAC table, VLAN filter, MAC
    /// address, announcing, and multiqueue where there is more than one pair.
    pub control: bool,
    /// Completes checksums of frames that the driver sends.
    pub csum: bool,
    /// Tells the driver which received frames have good checksums.
    pub guest_csum: bool,
    /// Link status in the configuration.
    pub status: bool,
    /// Link speed in the configuration.
    pub speed_duplex: bool,
    /// Largest packet behind the Ethernet header; offered where given.
    pub mtu: Option<u16>,
    /// Pairs of queues, for a driver that accepts multiqueue; for others there is one.
    pub pairs: u16,
    /// Spreads received frames by RSS, and tells their hashes, for a driver that accepts it; where
    /// there is a control queue and more than one pair.
    pub rss: bool,
    /// Slots of a ring for frames, and the most that a driver may choose.
    pub queue_size: u16,
    /// The same of the control queue's ring.
    pub control_size: u16,
    /// How the device finds out about posted buffers.
    pub notify: Notify,
    /// How often the status must be read after a reset until it shows 0.
    pub reset_reads: u32,
    /// Bytes from one queue's doorbell to the next; 0: one for all.
    pub notify_multiplier: u32,
    /// Largest frame that the device sends, in bytes without FCS, where no MTU says less.
    pub max_frame: u32,
    /// More feature bits to offer, for tests of drivers that must not accept them.
    pub features_added: u64,
    /// Feature bits not to offer after all.
    pub features_removed: u64,
    /// The addresses that it can use; None: 39 bits, like many IOMMUs.
    pub space: Option<Arc<SimSpace>>,
}

impl Default for VirtioOptions {
    /// Everything a generator likes: modern, one pair, split rings, control queue.
    fn default() -> Self {
        Self {
            mac: [0x52, 0x54, 0, 0x12, 0x34, 0x56],
            identity: Identity::Modern,
            packed: false,
            in_order: false,
            mergeable: true,
            indirect: true,
            event_idx: true,
            ring_reset: true,
            access_platform: true,
            notification_data: false,
            control: true,
            csum: true,
            guest_csum: true,
            status: true,
            speed_duplex: true,
            mtu: Some(9216),
            pairs: 1,
            rss: true,
            queue_size: 1024,
            control_size: 64,
            notify: Notify::Polls,
            reset_reads: 2,
            notify_multiplier: 4,
            max_frame: 65_535,
            features_added: 0,
            features_removed: 0,
            space: None,
        }
    }
}

impl VirtioOptions {
    /// The feature bits that the device offers.
    #[must_use]
    pub fn features(&self) -> u64 {
        let multiqueue = self.control && self.pairs > 1;
        let choices = [
            (true, feature::MAC),
            (self.packed, feature::RING_PACKED),
            (self.in_order, feature::IN_ORDER),
            (self.mergeable, feature::MRG_RXBUF),
            (self.indirect, feature::INDIRECT_DESC),
            (self.event_idx, feature::EVENT_IDX),
            (self.ring_reset, feature::RING_RESET),
            (
                self.access_platform,
                feature::ACCESS_PLATFORM | feature::ORDER_PLATFORM,
            ),
            (self.notification_data, feature::NOTIFICATION_DATA),
            (
                self.control,
                feature::CTRL_VQ
                    | feature::CTRL_RX
                    | feature::CTRL_RX_EXTRA
                    | feature::CTRL_VLAN
                    | feature::CTRL_MAC_ADDR
                    | feature::GUEST_ANNOUNCE,
            ),
            (multiqueue, feature::MQ),
            (multiqueue && self.rss, feature::RSS | feature::HASH_REPORT),
            (self.csum, feature::CSUM),
            (self.guest_csum, feature::GUEST_CSUM),
            (self.status, feature::STATUS),
            (self.speed_duplex, feature::SPEED_DUPLEX),
            (self.mtu.is_some(), feature::MTU),
            (self.identity != Identity::Modern, feature::ANY_LAYOUT),
            (self.identity != Identity::Legacy, feature::VERSION_1),
        ];
        let offered = choices
            .iter()
            .filter(|(on, _)| *on)
            .fold(0, |bits, (_, bit)| bits | bit);
        let offered = (offered | self.features_added) & !self.features_removed;
        match self.identity {
            // The legacy interface has 32 feature bits.
            Identity::Legacy => offered & u64::from(u32::MAX),
            Identity::Modern | Identity::Transitional => offered,
        }
    }

    /// The most queues that there can be: pairs and, where offered, the control queue.
    pub(super) fn queues(&self) -> u16 {
        self.pairs * 2 + u16::from(self.offers_control())
    }

    /// The most slots of a queue while there are `pairs` pairs; 0: there is no such queue.
    pub(super) fn slots(&self, index: u16, pairs: u16) -> u16 {
        let control = pairs * 2;
        if index < control {
            self.queue_size
        } else if index == control && self.offers_control() {
            self.control_size
        } else {
            0
        }
    }

    fn offers_control(&self) -> bool {
        self.features() & feature::CTRL_VQ != 0
    }
}
