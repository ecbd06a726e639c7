//! What the port has to know of these families.

use hw::Bar;
use intel::{AROUND, Design, FCS, Fit, Layout, Reports, Start, TAG, Tail};
use port::{Caps, Offloads, Queues, RxFlags};

use crate::desc::{Advanced, Extended, Legacy};
use crate::filter::EXACT;
use crate::kind::{Kind, Model};
use crate::plan;
use crate::regs::QueueRegs;

impl<B: Bar + Send + Clone + 'static> Design<B> for Model {
    fn driver(&self) -> &'static str {
        self.kind.driver()
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn id(&self) -> u16 {
        self.id
    }

    fn is_virtual(&self) -> bool {
        self.kind == Kind::IgbVf
    }

    fn shows_own_tags_only(&self) -> bool {
        self.kind == Kind::IgbVf
    }

    /// A tag counts as part of the frame.
    fn longest(&self, mtu: usize, caps: &Caps) -> usize {
        (mtu + AROUND + TAG).min(caps.max_frame)
    }

    fn fit(&self, capacity: usize) -> Fit {
        plan::fit(self.kind, capacity)
    }

    fn stations(&self) -> usize {
        EXACT - 1
    }

    fn queues(&self, start: &Start<'_, B>) -> Queues {
        let (rx_tail, tx_tail): (Tail, Tail) = match self.kind {
            Kind::Igb => (
                |number| QueueRegs::rx(true, number).tail(),
                |number| QueueRegs::tx(true, number).tail(),
            ),
            Kind::E1000 | Kind::E1000e | Kind::IgbVf => (
                |number| QueueRegs::rx(false, number).tail(),
                |number| QueueRegs::tx(false, number).tail(),
            ),
        };
        let layout = Layout {
            rx_tail,
            tx_tail,
            sizes: self.kind.shortest()..=start.longest - FCS,
            reports: Reports {
                buffer: start.shape.buffer,
                flags: start.reported() | RxFlags::VLAN,
                put_tags_back: !start.shape.offloads.contains(Offloads::RX_VLAN),
                doubts_udp: false,
            },
        };
        match self.kind {
            // RSS's hash has a place in extended descriptors only.
            Kind::E1000e if start.shape.rss.is_some() => start.queues::<Extended>(Legacy, &layout),
            Kind::E1000 | Kind::E1000e => start.queues::<Legacy>(Legacy, &layout),
            Kind::Igb | Kind::IgbVf => start.queues::<Advanced>(Advanced, &layout),
        }
    }
}
