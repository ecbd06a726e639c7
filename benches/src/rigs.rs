//! One queue in a bench's hands.

use std::sync::Arc;

use engine::field::Writer;
use hugemem::{BURST, Burst, Memory, MemoryRequest, Pages, Pool, Resident};
use models::consumer::RxProducer;
use models::virtio::VirtioNet;
use models::{RingRole, Sim, WireOptions};
use port::{Config, Port, Queues, RxBurst};

use crate::{Consumed, NicShare, Rings};

/// A ring's worth of frames and a burst more: what circulates on a port.
const CIRCULATING: usize = 1024 + BURST;

/// A send queue and frames for it.
pub struct TxRig {
    // Order matters: queues before their port.
    queues: Queues,
    _port: Box<dyn Port>,
    burst: Burst,
    pool: Pool,
    cursor: usize,
    loaded: usize,
}

impl TxRig {
    /// A rig on `port`, with frames that hold `len` bytes.
    ///
    /// # Panics
    /// The port does not start.
    #[must_use]
    pub fn on(mut port: Box<dyn Port>, len: usize) -> Self {
        let config = Config {
            rx_queues: 0,
            ..Config::default()
        };
        // The port's frames, and as many for resident sets.
        let bytes = Pool::footprint(CIRCULATING * 2, len) + port.ring_bytes(&config) + (1 << 16);
        let memory = memory(bytes, &*port);
        let queues = port.start(&config, &memory).expect("the port starts");
        let pool = Pool::new(&memory, CIRCULATING * 2, len).expect("the memory was asked for");
        Self {
            queues,
            _port: port,
            burst: Burst::new(),
            pool,
            cursor: 0,
            loaded: 0,
        }
    }

    /// A rig on a virtio ring whose device only consumes, with frames of `len` bytes.
    ///
    /// # Panics
    /// As for [`TxRig::on`].
    #[must_use]
    pub fn consumed(rings: Rings, len: usize) -> Self {
        let mut rig = Self::on(Box::new(Consumed::new(rings, false)), len);
        rig.refill();
        rig.burst.iter_mut().for_each(|frame| frame.set_len(len));
        rig
    }

    /// The same on an 82599's ring.
    ///
    /// # Panics
    /// As for [`TxRig::on`].
    #[must_use]
    pub fn ixgbe(len: usize) -> Self {
        let mut rig = Self::on(crate::ixgbe(false).0, len);
        rig.refill();
        rig.burst.iter_mut().for_each(|frame| frame.set_len(len));
        rig
    }

    /// Loads a resident set of `count` frames.
    ///
    /// # Panics
    /// There are not so many.
    pub fn load(&mut self, count: usize) {
        let mut frames: Vec<_> = (0..count).filter_map(|_| self.pool.take()).collect();
        assert_eq!(frames.len(), count, "the pool has the frames");
        let len = self.pool.capacity();
        frames.iter_mut().for_each(|frame| frame.set_len(len));
        self.queues.tx[0].load(Arc::new(Resident::new(frames)));
        self.loaded = count;
    }

    /// Writes a burst into frames that hold what they held a pass ago; its bytes.
    pub fn write(&mut self, writer: &mut Writer) -> usize {
        self.refill();
        writer.next_burst(&mut self.burst)
    }

    /// Posts a burst and takes back what is done; frames posted.
    pub fn pass(&mut self) -> usize {
        self.refill();
        let len = self.pool.capacity();
        self.burst.iter_mut().for_each(|frame| frame.set_len(len));
        let posted = self.queues.tx[0].burst(&mut self.burst);
        self.queues.tx[0].reap(&mut self.burst);
        posted
    }

    /// Posts a burst of the loaded set; frames posted.
    pub fn pass_resident(&mut self) -> usize {
        let posted = self.queues.tx[0].burst_resident(self.cursor, BURST);
        self.cursor = (self.cursor + posted) % self.loaded;
        posted
    }

    fn refill(&mut self) {
        let room = self.burst.room();
        self.pool.take_burst(&mut self.burst, room);
    }
}

/// What fills receive buffers.
enum Filler {
    Virtio {
        device: Box<RxProducer>,
        _sim: Box<Sim>,
    },
    Ixgbe(NicShare),
}

impl Filler {
    /// Fills every buffer that is armed; how many.
    fn fill(&mut self) -> usize {
        match self {
            Self::Virtio { device, .. } => device.fill(u32::MAX) as usize,
            Self::Ixgbe(device) => device.fill(),
        }
    }
}

/// A receive queue whose device fills every buffer at once.
pub struct RxRig {
    // Order matters: queues before their port, the port before its device.
    queues: Queues,
    _port: Box<dyn Port>,
    device: Filler,
    /// Buffers that the device filled and the driver has not taken yet.
    filled: usize,
    out: RxBurst,
    _pool: Pool,
}

impl RxRig {
    /// A rig with `rings` and buffers of `capacity` bytes: large ones do not all fit a core's
    /// caches, so that each header is fetched from afar, as it is when a device wrote it.
    ///
    /// # Panics
    /// The port does not start.
    #[must_use]
    pub fn new(rings: Rings, capacity: usize) -> Self {
        let device = rings.device();
        let end = |name: &str| VirtioNet::boxed(name, &device);
        let sim = Sim::stepped(end("near"), end("far"), WireOptions::default());
        let port = virtio::open_pci(sim.function(0), &rings.driver()).expect("the model is sound");
        Self::on(port, capacity, || {
            let places = sim.function(0).rings();
            let place = places.iter().find(|place| place.role == RingRole::Rx);
            let device = RxProducer::new(place.expect("there is one"), 60);
            Filler::Virtio {
                device: Box::new(device.expect("it is mapped")),
                _sim: Box::new(sim),
            }
        })
    }

    /// A rig with an 82599's ring and buffers of `capacity` bytes.
    ///
    /// # Panics
    /// The port does not start.
    #[must_use]
    pub fn ixgbe(capacity: usize) -> Self {
        let (port, device) = crate::ixgbe(false);
        Self::on(port, capacity, || Filler::Ixgbe(device))
    }

    fn on(mut port: Box<dyn Port>, capacity: usize, device: impl FnOnce() -> Filler) -> Self {
        let config = Config {
            tx_queues: 0,
            rx_capacity: capacity,
            ..Config::default()
        };
        let bytes = Pool::footprint(CIRCULATING, capacity);
        let memory = memory(bytes + port.ring_bytes(&config) + (1 << 16), &*port);
        let mut queues = port.start(&config, &memory).expect("the port starts");
        let pool = Pool::new(&memory, CIRCULATING, capacity).expect("it fits");
        let mut burst = Burst::new();
        while pool.take_burst(&mut burst, BURST) > 0 && queues.rx[0].arm(&mut burst) > 0 {}
        let device = device();
        Self {
            queues,
            _port: port,
            device,
            filled: 0,
            out: RxBurst::default(),
            _pool: pool,
        }
    }

    /// The driver takes a burst that the device has filled, and is given the frames back; how
    /// many.
    pub fn pass(&mut self) -> usize {
        if self.filled < BURST {
            // A ring at a time: the device sees memory at addresses of its own, and a core that
            // reads at one address what it has only just written at another stalls, which no
            // real device makes it do.
            self.filled += self.device.fill();
        }
        let received = self.queues.rx[0].burst(&mut self.out);
        self.filled -= received;
        self.queues.rx[0].arm(&mut self.out.frames);
        received
    }
}

fn memory(bytes: usize, port: &dyn Port) -> Memory {
    let spaces = vec![port.space()];
    let request = MemoryRequest {
        bytes,
        pages: Pages::HugeOrBase,
        node: None,
        spaces,
    };
    Memory::new(&request).expect("base pages are always there")
}
