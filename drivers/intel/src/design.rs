//! In what the ports of one family differ from those of another.

use std::ops::RangeInclusive;
use std::sync::Arc;

use hugemem::TxFlags;
use hw::Bar;
use hw::mmio::{Reg, Rw};
use port::{Caps, Offloads, QueueId, Queues, RxFlags};

use crate::format::{ReceiveFormat, SendFormat};
use crate::ring::Ring;
use crate::rx::{Reports, Rx};
use crate::shape::{Fit, Rings, Shape};
use crate::shared::{Follower, Shared};
use crate::tx::Tx;
use crate::vlans::Vlans;

/// Bytes around a payload: Ethernet header and FCS.
pub const AROUND: usize = 18;
/// Bytes of a VLAN tag.
pub const TAG: usize = 4;
/// Bytes of the FCS.
pub const FCS: usize = 4;

/// What the port has to know of its device.
pub trait Design<B: Bar>: Send {
    /// What users call the driver.
    fn driver(&self) -> &'static str;
    /// What people call the device.
    fn name(&self) -> &'static str;
    /// The device's PCI id.
    fn id(&self) -> u16;
    /// True for a virtual function.
    fn is_virtual(&self) -> bool;

    /// The MTU when nobody asks: all that the device takes, as profiles choose their frames later.
    fn mtu(&self, caps: &Caps) -> usize {
        caps.max_frame - AROUND
    }
    /// Longest frame that the device is told to take under an MTU, in bytes with FCS.
    fn longest(&self, mtu: usize, caps: &Caps) -> usize;
    /// What the device makes of receive frames that hold `capacity` bytes.
    fn fit(&self, capacity: usize) -> Fit;
    /// Further unicast addresses that the device can compare; how many a virtual function may have
    /// is its physical function's to say.
    fn stations(&self) -> usize;

    /// True for a virtual function that sees the tags of the VLAN that its host put it into, and
    /// is not told which that is: users see tags of VLANs then that they asked for, and no others.
    fn shows_own_tags_only(&self) -> bool {
        false
    }

    /// Makes the queues of a device that runs.
    fn queues(&self, start: &Start<'_, B>) -> Queues;
}

/// A start that has succeeded: what queues are made of.
#[derive(Debug)]
pub struct Start<'a, B> {
    /// The registers.
    pub bar: &'a B,
    /// What was asked for.
    pub shape: &'a Shape,
    /// The rings, which are clear.
    pub rings: &'a Rings,
    /// What queues share with the port.
    pub shared: &'a Arc<Shared>,
    /// As of [`Design::longest`].
    pub longest: usize,
    /// As of [`Control::hides_tags`](crate::Control::hides_tags).
    pub hides_tags: bool,
    /// The VLANs whose tags are the port's business; none where all are.
    pub own_vlans: Option<Arc<Vlans>>,
}

/// Where the tail register of a queue is, by the queue's number.
pub type Tail = fn(u32) -> Reg<u32, Rw>;

/// Where a family's queues have their tails, and which frames they send.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Of receive queues.
    pub rx_tail: Tail,
    /// Of send queues.
    pub tx_tail: Tail,
    /// Frames that are posted as they are, in bytes without FCS: shorter ones are padded, longer
    /// ones refused.
    pub sizes: RangeInclusive<usize>,
    /// What receive queues report.
    pub reports: Reports,
}

impl<B: Bar + Send + Clone + 'static> Start<'_, B> {
    /// The queues, receiving in format `R` and sending in `format`.
    #[must_use]
    pub fn queues<R: ReceiveFormat>(&self, format: impl SendFormat, layout: &Layout) -> Queues {
        let mut queues = Queues::default();
        for (number, slots) in (0..).zip(&self.rings.rx) {
            let tail = (layout.rx_tail)(number);
            let ring = Ring::new(slots.clone(), self.bar.clone(), tail);
            let follower = Follower::new(self.shared, QueueId::Rx(queues.rx.len()));
            let rx = Rx::<_, R>::new(ring, follower, layout.reports);
            let rx = rx.hiding_tags_but(self.own_vlans.clone());
            queues.rx.push(Box::new(rx));
        }
        let asked = asked(self.shape.offloads);
        for (number, slots) in (0..).zip(&self.rings.tx) {
            let tail = (layout.tx_tail)(number);
            let ring = Ring::new(slots.clone(), self.bar.clone(), tail);
            let follower = Follower::new(self.shared, QueueId::Tx(queues.tx.len()));
            let tx = Tx::new(ring, follower, format, layout.sizes.clone(), asked);
            queues.tx.push(Box::new(tx));
        }
        queues
    }
}

impl<B> Start<'_, B> {
    /// What receive queues report: what the port was started for, and damage.
    #[must_use]
    pub fn reported(&self) -> RxFlags {
        let offloads = self.shape.offloads;
        let mut flags = RxFlags::ERROR;
        if offloads.contains(Offloads::RX_CHECKSUM) {
            flags |= RxFlags::IPV4_GOOD | RxFlags::IPV4_BAD | RxFlags::L4_GOOD | RxFlags::L4_BAD;
        }
        let shows_tags = offloads.contains(Offloads::RX_VLAN) && !self.hides_tags;
        flags.set(RxFlags::VLAN, shows_tags);
        flags.set(RxFlags::HASH, self.shape.rss.is_some());
        flags
    }
}

/// What frames may ask of send queues.
fn asked(offloads: Offloads) -> TxFlags {
    let mut flags = TxFlags::empty();
    for (offload, flag) in [
        (Offloads::TX_VLAN, TxFlags::VLAN),
        (Offloads::TX_IPV4_CHECKSUM, TxFlags::IPV4_CHECKSUM),
        (Offloads::TX_L4_CHECKSUM, TxFlags::L4_CHECKSUM),
    ] {
        if offloads.contains(offload) {
            flags |= flag;
        }
    }
    flags
}
