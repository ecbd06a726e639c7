//! The rings against a scripted device end.

mod device;
mod lies;
mod receive;
mod send;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hugemem::{DmaSpace, Frame, Memory, MemoryRequest, PageSize, Pages, Pool, SimSpace};
use port::{QueueId, RxQueue, TxQueue};

use crate::build::{self, Site};
use crate::doorbell::{Doorbell, Notifier};
use crate::features::Features;
use crate::plan::{Parts, Shape};
use crate::ring::{Format, Geometry};
use crate::shared::{Follower, Shared};
use device::End;

/// A doorbell that counts.
#[derive(Default)]
pub(super) struct Bell(AtomicU64);

impl Bell {
    pub(super) fn rung(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Doorbell for Bell {
    fn ring(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One queue pair, its device end, and frames.
pub(super) struct Rig {
    pub(super) parts: Parts,
    pub(super) shared: Arc<Shared>,
    pub(super) space: Arc<SimSpace>,
    pub(super) pool: Pool,
    pub(super) bell: Arc<Bell>,
}

impl Rig {
    /// A pair of rings of `slots` slots with `features`, and a pool of `frames` frames.
    pub(super) fn new(features: Features, slots: usize, frames: usize, capacity: usize) -> Self {
        let features = features | Features::VERSION_1;
        let format = match features.contains(Features::RING_PACKED) {
            true => Format::Packed,
            false => Format::Split { legacy: false },
        };
        let ring = Geometry { format, slots };
        let shape = Shape {
            features,
            pairs: 1,
            rings: vec![ring, ring],
            control: None,
        };
        let space = SimSpace::new();
        let spaces: Vec<Arc<dyn DmaSpace>> = vec![Arc::clone(&space) as _];
        let bytes = shape.bytes() + Pool::footprint(frames, capacity);
        let pages = Pages::Only(PageSize::Base4K);
        let memory = Memory::new(&MemoryRequest {
            bytes,
            pages,
            node: None,
            spaces,
        })
        .expect("base pages are always there");
        let parts = shape.carve(&memory).expect("the memory was sized for it");
        parts.clear();
        Self {
            parts,
            shared: Shared::new(1, 1),
            space,
            pool: Pool::new(&memory, frames, capacity).expect("the memory was sized for it"),
            bell: Arc::default(),
        }
    }

    fn site(&self, queue: QueueId) -> Site {
        let notifier = Notifier::new(Arc::clone(&self.bell) as Arc<dyn Doorbell>);
        Site {
            follower: Follower::new(&self.shared, queue),
            notifier,
        }
    }

    pub(super) fn tx(&self) -> Box<dyn TxQueue> {
        build::send(&self.parts, 0, self.site(QueueId::Tx(0)))
    }

    pub(super) fn rx(&self) -> Box<dyn RxQueue> {
        build::receive(&self.parts, 0, self.site(QueueId::Rx(0)))
    }

    /// The device's end of ring `ring`: 0 receives, 1 sends.
    pub(super) fn end(&self, ring: usize) -> End {
        End::new(self.parts.rings[ring].clone(), self.space.translator())
    }

    /// A frame of `len` bytes that says it is number `number`.
    pub(super) fn frame(&self, number: u32, len: usize) -> Frame {
        let mut frame = self.pool.take().expect("the pool is large enough");
        frame.fill(&content(number, len));
        frame
    }
}

/// The bytes of frame `number`.
pub(super) fn content(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![number.to_le_bytes()[0] ^ 0x5a; len];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Every kind of ring: features, and slots where any number will do.
pub(super) fn kinds() -> Vec<(Features, Vec<usize>)> {
    let packed = Features::RING_PACKED;
    let ordered = Features::IN_ORDER;
    vec![
        (Features::empty(), vec![2, 8, 64, 256]),
        (ordered, vec![2, 8, 64, 256]),
        (packed, vec![2, 7, 64, 100]),
        (packed | ordered, vec![2, 7, 64, 100]),
    ]
}
