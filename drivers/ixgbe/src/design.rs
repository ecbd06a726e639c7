//! What the port has to know of this family.

use hw::Bar;
use intel::{AROUND, Design, FCS, Fit, Layout, Reports, Start, TAG, Tail};
use port::{Caps, Queues, RxFlags};

use crate::desc::{Everything, Lengths, SHORTEST, Writer};
use crate::filter::STATIONS;
use crate::kind::{Kind, Mac, Model};
use crate::plan;
use crate::regs::QueueRegs;

impl<B: Bar + Send + Clone + 'static> Design<B> for Model {
    fn driver(&self) -> &'static str {
        self.kind().driver()
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn id(&self) -> u16 {
        self.id
    }

    fn is_virtual(&self) -> bool {
        self.kind() == Kind::IxgbeVf
    }

    /// But not of 82599's virtual functions, where an MTU beyond 1500 needs a PF that was set up
    /// for it.
    fn mtu(&self, caps: &Caps) -> usize {
        if self.kind() == Kind::IxgbeVf && self.mac == Mac::M82599 {
            return 1500;
        }
        caps.max_frame - AROUND
    }

    /// A VLAN tag may come on top.
    fn longest(&self, mtu: usize, _caps: &Caps) -> usize {
        mtu + AROUND
    }

    fn fit(&self, capacity: usize) -> Fit {
        plan::fit(self, capacity)
    }

    fn stations(&self) -> usize {
        match self.kind() {
            Kind::Ixgbe => STATIONS,
            Kind::IxgbeVf => usize::MAX,
        }
    }

    fn queues(&self, start: &Start<'_, B>) -> Queues {
        let (rx_tail, tx_tail, writer): (Tail, Tail, _) = match self.kind() {
            Kind::Ixgbe => (
                |number| QueueRegs::rx(number).tail(),
                |number| QueueRegs::tx(number).tail(),
                Writer::pf(),
            ),
            Kind::IxgbeVf => (
                |number| QueueRegs::vf_rx(number).tail(),
                |number| QueueRegs::vf_tx(number).tail(),
                Writer::vf(),
            ),
        };
        let flags = start.reported();
        let layout = Layout {
            rx_tail,
            tx_tail,
            sizes: SHORTEST..=start.longest + TAG - FCS,
            reports: Reports {
                buffer: start.shape.buffer,
                flags,
                put_tags_back: false,
                doubts_udp: self.mac == Mac::M82599,
            },
        };
        if flags == RxFlags::ERROR {
            start.queues::<Lengths>(writer, &layout)
        } else {
            start.queues::<Everything>(writer, &layout)
        }
    }
}
