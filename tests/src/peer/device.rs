//! What the peer is to the `vhost-user-backend` crate: its features, and its turn to poll.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost_user_backend::{VhostUserBackend, VringMutex, VringT};
use virtio_queue::QueueT;
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier,
};

use super::ring::{self, Given};
use super::{Role, Setup, Shared, digest, feature};

/// Frames that a queue pair moves in one turn.
const TURN: usize = 64;

/// One queue pair's state between turns.
#[derive(Debug, Default)]
struct Pair {
    /// A reflected frame that waits for an empty buffer.
    waiting: Option<Vec<u8>>,
    /// Frames that the source has sent.
    sent: u64,
}

/// The device of one connection.
pub(super) struct Device {
    shared: Arc<Shared>,
    setup: Setup,
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
    pairs: Mutex<Pairs>,
}

struct Pairs {
    pairs: Vec<Pair>,
    idle_turns: u32,
}

impl Device {
    pub(super) fn new(
        shared: Arc<Shared>,
        setup: &Setup,
        memory: GuestMemoryAtomic<GuestMemoryMmap>,
    ) -> Self {
        let pairs = (0..setup.pairs).map(|_| Pair::default()).collect();
        Self {
            shared,
            setup: setup.clone(),
            memory,
            pairs: Mutex::new(Pairs {
                pairs,
                idle_turns: 0,
            }),
        }
    }

    /// One turn of one queue pair; how many frames moved.
    fn turn(&self, pair: &mut Pair, to_driver: &VringMutex, from_driver: &VringMutex) -> usize {
        let mut moved = 0;
        for _ in 0..TURN {
            if let Some(frame) = pair.waiting.take() {
                if !self.give(to_driver, &frame) {
                    pair.waiting = Some(frame);
                    return moved;
                }
                moved += 1;
                continue;
            }
            if let Role::Source { frames, total } = &self.setup.role
                && pair.sent < *total
            {
                let number = usize::try_from(pair.sent).unwrap_or(usize::MAX) % frames.len();
                if self.give(to_driver, &frames[number]) {
                    pair.sent += 1;
                    moved += 1;
                }
            }
            let Some(mut frame) = self.take(from_driver) else {
                break;
            };
            moved += 1;
            if matches!(self.setup.role, Role::Reflector) {
                let (destination, source) = frame[..12].split_at_mut(6);
                destination.swap_with_slice(source);
                pair.waiting = Some(frame);
            }
        }
        moved
    }

    /// Takes a frame that the driver sends, and counts it before the driver learns that it is
    /// taken.
    fn take(&self, ring: &VringMutex) -> Option<Vec<u8>> {
        let mut ring = ring.get_mut();
        if !(ring.is_enabled() && ring.get_queue().ready()) {
            return None;
        }
        let memory = self.memory.memory();
        let (head, frame) = match ring::take(ring.get_queue_mut(), &memory) {
            Ok(taken) => taken?,
            Err(what) => {
                self.shared.object(what);
                return None;
            }
        };
        let shared = &self.shared;
        shared
            .taken_bytes
            .fetch_add(frame.len() as u64, Ordering::Relaxed);
        shared
            .taken_digest
            .fetch_add(digest(&frame), Ordering::Relaxed);
        shared.taken.fetch_add(1, Ordering::Release);
        if self.setup.keep > 0 {
            let mut kept = shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < self.setup.keep {
                kept.push(frame.clone());
            }
        }
        if let Err(error) = ring.add_used(head, 0) {
            shared.object(format!("the used ring of a send queue: {error}"));
        }
        Some(frame)
    }

    /// Gives the driver a frame, if it has empty buffers for it.
    fn give(&self, ring: &VringMutex, frame: &[u8]) -> bool {
        let mut ring = ring.get_mut();
        if !(ring.is_enabled() && ring.get_queue().ready()) {
            return false;
        }
        let memory = self.memory.memory();
        let mergeable = self.shared.acked.load(Ordering::Acquire) & feature::MRG_RXBUF != 0;
        let given = ring::give(ring.get_queue_mut(), &memory, frame, mergeable);
        let used = match given {
            Ok(Given::Into(used)) => used,
            Ok(Given::NoRoom) => return false,
            Err(what) => {
                self.shared.object(what);
                return false;
            }
        };
        let shared = &self.shared;
        shared
            .given_bytes
            .fetch_add(frame.len() as u64, Ordering::Relaxed);
        shared
            .given_digest
            .fetch_add(digest(frame), Ordering::Relaxed);
        shared.given.fetch_add(1, Ordering::Release);
        for (head, len) in used {
            if let Err(error) = ring.add_used(head, len) {
                shared.object(format!("the used ring of a receive queue: {error}"));
            }
        }
        true
    }
}

impl VhostUserBackend for Device {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        self.setup.pairs * 2
    }

    fn max_queue_size(&self) -> usize {
        self.setup.most_slots
    }

    fn features(&self) -> u64 {
        self.setup.features
    }

    fn acked_features(&self, features: u64) {
        if features & feature::VERSION_1 == 0 {
            self.shared
                .object("the driver did not acknowledge VERSION_1".into());
        }
        self.shared.acked.store(features, Ordering::Release);
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::from_bits_truncate(self.setup.protocol)
    }

    fn set_event_idx(&self, _enabled: bool) {}

    fn update_memory(&self, _memory: GuestMemoryAtomic<GuestMemoryMmap>) -> io::Result<()> {
        // The handle that `new` got is the same.
        Ok(())
    }

    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC).ok()
    }

    fn handle_event(
        &self,
        _event: u16,
        _set: EventSet,
        rings: &[VringMutex],
        _thread: usize,
    ) -> io::Result<()> {
        const PATIENCE: u32 = 2000;
        let mut state = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut moved = 0;
        for (number, pair) in state.pairs.iter_mut().enumerate() {
            if self.shared.stop.load(Ordering::Acquire)
                || self.shared.paused.load(Ordering::Acquire)
            {
                break;
            }
            moved += self.turn(pair, &rings[2 * number], &rings[2 * number + 1]);
        }
        state.idle_turns = if moved > 0 { 0 } else { state.idle_turns + 1 };
        let is_bored = state.idle_turns > PATIENCE;
        if is_bored {
            state.idle_turns = PATIENCE;
        }
        drop(state);
        // Tests share few cores with each other.
        if is_bored {
            thread::sleep(Duration::from_micros(50));
        } else if moved == 0 {
            thread::yield_now();
        }
        Ok(())
    }
}
