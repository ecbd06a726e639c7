//! Which queues there are: it follows from the features that the driver has written (§5.1.2).
//!
//! One pair and the control queue third, until multiqueue (or RSS) is among them; then all pairs
//! and the control queue behind them. As QEMU has it, that is so from the write on, before
//! `FEATURES_OK`; a reset goes back to one pair; queues that come, go or change their role are as
//! after a reset; and a control queue that is offered is shown whether or not it was accepted.

use super::VirtioNet;
use super::bits::feature;
use super::queue::Queue;

/// Queues of the first pair, which are there whatever was negotiated.
const FIRST_PAIR: usize = 2;

impl VirtioNet {
    /// How many pairs of queues there are.
    pub(super) fn pairs(&self) -> u16 {
        let negotiation = &self.negotiation;
        if negotiation.written & negotiation.offered & (feature::MQ | feature::RSS) == 0 {
            1
        } else {
            self.options.pairs
        }
    }

    /// The control queue's number, once the driver has accepted that there is one.
    pub(super) fn control_index(&self) -> Option<u16> {
        self.has(feature::CTRL_VQ).then(|| self.pairs() * 2)
    }

    /// How many queues the registers show.
    pub(super) fn shown_queues(&self) -> u16 {
        let count = self.queues.iter().filter(|queue| queue.exists()).count();
        u16::try_from(count).expect("a u16 of them")
    }

    /// The queue that the registers are about, if there is one of that number.
    pub(super) fn queue(&self) -> Option<&Queue> {
        let queue = self.queues.get(usize::from(self.selected));
        queue.filter(|queue| queue.exists())
    }

    /// As [`VirtioNet::queue`], to be changed.
    pub(super) fn queue_mut(&mut self) -> Option<&mut Queue> {
        let queue = self.queues.get_mut(usize::from(self.selected));
        queue.filter(|queue| queue.exists())
    }

    /// The driver has written these features; the queues follow.
    pub(super) fn set_written(&mut self, features: u64) {
        let before = self.pairs();
        self.negotiation.written = features;
        let pairs = self.pairs();
        if pairs == before {
            return;
        }
        self.active_pairs = 1;
        self.spread = None;
        self.turn = 0;
        for queue in self.queues.iter_mut().skip(FIRST_PAIR) {
            self.bells.set_enabled(queue.index, false);
            *queue = Queue::new(queue.index, self.options.slots(queue.index, pairs));
        }
    }
}
