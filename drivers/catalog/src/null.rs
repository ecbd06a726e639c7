//! `null:`: a port that takes everything and costs nothing.
//!
//! What a run over it takes is what the engine takes: frames are accepted and counted in the
//! same call, nothing is ever received. It is the yardstick for the engine alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hugemem::{Burst, DmaSpace, Fifo, Memory, NoDevice, Resident};
use port::{
    Caps, Config, Counters, Extended, Info, Limits, Link, LinkState, Mac, Offloads, Port,
    PortError, QueueState, Queues, Rss, RxBurst, RxQueue, StartError, TxCounts, TxQueue,
};

/// Bytes that a wire adds to each frame in memory.
const FCS: u64 = 4;
/// Frames that a queue holds until they are reaped, where nobody asks for more: one burst.
const SLOTS: usize = 64;

/// A port with nothing behind it.
pub(crate) struct Null {
    info: Info,
    caps: Caps,
    sent: Vec<Arc<Sent>>,
}

/// What one queue has taken; the queue writes, the port reads.
#[derive(Default)]
#[repr(align(128))]
struct Sent {
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl Null {
    pub(crate) fn new(name: &str) -> Self {
        let queues = Limits {
            range: 0..=64,
            default: 1,
            power_of_two: false,
        };
        let slots = Limits {
            range: 64..=32768,
            default: SLOTS,
            power_of_two: false,
        };
        let info = Info {
            name: name.to_owned(),
            driver: "null",
            device: "accepts and counts at once".to_owned(),
            pci: None,
            mac: [0x02, 0, 0, 0, 0, 0],
            node: None,
            simulated: false,
        };
        let caps = Caps {
            rx_queues: queues.clone(),
            tx_queues: queues,
            rx_slots: slots.clone(),
            tx_slots: slots,
            max_frame: 9216,
            max_segments: 1,
            offloads: Offloads::PROMISCUOUS | Offloads::ALL_MULTICAST,
        };
        Self {
            info,
            caps,
            sent: Vec::new(),
        }
    }

    fn not_offered(&self, what: &str) -> PortError {
        PortError::NotOffered {
            port: self.info.name.clone(),
            what: what.to_owned(),
        }
    }
}

impl Port for Null {
    fn info(&self) -> &Info {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        Arc::new(NoDevice)
    }

    fn ring_bytes(&self, _config: &Config) -> usize {
        0
    }

    fn start(&mut self, config: &Config, _memory: &Memory) -> Result<Queues, StartError> {
        let mut queues = Queues::default();
        let slots = config.tx_slots.unwrap_or(SLOTS);
        for _ in 0..config.tx_queues {
            let sent = Arc::new(Sent::default());
            self.sent.push(Arc::clone(&sent));
            queues.tx.push(Box::new(NullTx::new(sent, slots)));
        }
        for _ in 0..config.rx_queues {
            queues.rx.push(Box::new(NullRx));
        }
        Ok(queues)
    }

    fn stop(&mut self, queues: Queues) -> Result<(), PortError> {
        drop(queues);
        Ok(())
    }

    fn link(&mut self) -> Result<Link, PortError> {
        Ok(Link {
            state: LinkState::Up,
            speed_bps: None,
            full_duplex: true,
        })
    }

    fn counters(&mut self) -> Result<Counters, PortError> {
        let sum = |pick: fn(&Sent) -> &AtomicU64| {
            self.sent
                .iter()
                .map(|sent| pick(sent).load(Ordering::Relaxed))
                .sum()
        };
        let (tx_frames, tx_bytes) = (sum(|sent| &sent.frames), sum(|sent| &sent.bytes));
        Ok(Counters {
            tx_frames,
            tx_bytes,
            ..Counters::default()
        })
    }

    fn extended(&mut self) -> Result<Vec<Extended>, PortError> {
        Ok(Vec::new())
    }

    fn set_promiscuous(&mut self, _on: bool) -> Result<(), PortError> {
        Ok(())
    }

    fn set_all_multicast(&mut self, _on: bool) -> Result<(), PortError> {
        Ok(())
    }

    fn set_mac(&mut self, _mac: Mac) -> Result<(), PortError> {
        Err(self.not_offered("another MAC address"))
    }

    fn set_mac_filter(&mut self, _macs: &[Mac]) -> Result<(), PortError> {
        Err(self.not_offered("a MAC filter"))
    }

    fn set_vlan_filter(&mut self, _id: u16, _on: bool) -> Result<(), PortError> {
        Err(self.not_offered("a VLAN filter"))
    }

    fn set_mtu(&mut self, _mtu: usize) -> Result<(), PortError> {
        Err(self.not_offered("another MTU"))
    }

    fn set_rss(&mut self, _rss: &Rss) -> Result<(), PortError> {
        Err(self.not_offered("RSS"))
    }
}

/// Is done with each frame as soon as it came; keeps it until it is reaped.
struct NullTx {
    sent: Arc<Sent>,
    held: Fifo,
    loaded: Option<Loaded>,
    frames: u64,
    bytes: u64,
}

/// A resident set, and the bytes of its frames added up.
struct Loaded {
    set: Arc<Resident>,
    /// Bytes with FCS of all frames before number *i*; one more than there are frames.
    before: Box<[u64]>,
}

impl NullTx {
    fn new(sent: Arc<Sent>, slots: usize) -> Self {
        let held = Fifo::with_capacity(slots);
        Self {
            sent,
            held,
            loaded: None,
            frames: 0,
            bytes: 0,
        }
    }

    fn count(&mut self, frames: u64, bytes: u64) {
        self.frames += frames;
        self.bytes += bytes;
        self.sent.frames.store(self.frames, Ordering::Relaxed);
        self.sent.bytes.store(self.bytes, Ordering::Relaxed);
    }
}

impl TxQueue for NullTx {
    fn burst(&mut self, frames: &mut Burst) -> usize {
        let count = frames.len().min(self.held.room());
        let lengths = frames.as_slice()[..count]
            .iter()
            .map(|frame| frame.len() as u64);
        let bytes = lengths.sum::<u64>() + FCS * count as u64;
        self.held.put(frames, count);
        self.count(count as u64, bytes);
        count
    }

    fn reap(&mut self, out: &mut Burst) -> usize {
        self.held.take(out, out.room())
    }

    fn load(&mut self, set: Arc<Resident>) {
        let mut before = Vec::with_capacity(set.slots().len() + 1);
        let mut total = 0;
        before.push(total);
        for slot in set.slots() {
            total += u64::from(slot.len) + FCS;
            before.push(total);
        }
        self.loaded = Some(Loaded {
            set,
            before: before.into_boxed_slice(),
        });
    }

    fn burst_resident(&mut self, first: usize, count: usize) -> usize {
        let loaded = self
            .loaded
            .as_ref()
            .expect("a set is loaded before it is sent");
        let period = loaded.set.slots().len();
        assert!(
            first < period,
            "the set has {period} frames, not one numbered {first}"
        );
        let whole = loaded.before[period];
        let end = first + count;
        let bytes =
            (end / period) as u64 * whole + loaded.before[end % period] - loaded.before[first];
        self.count(count as u64, bytes);
        count
    }

    fn poll(&mut self) {}

    fn counts(&self) -> TxCounts {
        TxCounts {
            posted: self.frames,
            completed: self.frames,
            abandoned: 0,
        }
    }

    fn state(&self) -> QueueState {
        QueueState::Running
    }
}

/// A queue on which nothing ever arrives.
struct NullRx;

impl RxQueue for NullRx {
    fn burst(&mut self, _out: &mut RxBurst) -> usize {
        0
    }

    fn arm(&mut self, _empties: &mut Burst) -> usize {
        0
    }

    fn room(&self) -> usize {
        0
    }

    fn state(&self) -> QueueState {
        QueueState::Running
    }
}

#[cfg(test)]
mod test {
    use hugemem::{MemoryRequest, PageSize, Pages, Pool};

    use super::*;

    fn memory(port: &Null) -> Memory {
        let pages = Pages::Only(PageSize::Base4K);
        let request = MemoryRequest {
            bytes: 1 << 21,
            pages,
            node: None,
            spaces: vec![port.space()],
        };
        Memory::new(&request).expect("base pages are always there")
    }

    #[test]
    fn every_frame_is_counted_and_comes_back_in_order() {
        let mut null = Null::new("null:");
        let memory = memory(&null);
        let pool = Pool::new(&memory, 2048, 60).unwrap();
        let mut queues = null.start(&Config::default(), &memory).unwrap();
        let (mut burst, mut back) = (Burst::new(), Burst::new());
        let (mut next, mut expected) = (0, 0);
        for _ in 0..200 {
            pool.take_burst(&mut burst, 64);
            for frame in burst.iter_mut() {
                frame.set_len(60);
                frame.tag = next;
                next += 1;
            }
            while !burst.is_empty() {
                queues.tx[0].burst(&mut burst);
                queues.tx[0].reap(&mut back);
                while let Some(frame) = back.pop() {
                    assert_eq!(frame.tag, expected);
                    expected += 1;
                }
            }
        }
        assert_eq!(null.counters().unwrap().tx_frames, 12800);
        assert_eq!(null.counters().unwrap().tx_bytes, 12800 * 64);
        null.stop(queues).unwrap();
        pool.close().unwrap();
    }

    #[test]
    fn resident_bytes_add_up_from_any_frame_over_any_number_of_laps() {
        let mut null = Null::new("null:");
        let memory = memory(&null);
        let pool = Pool::new(&memory, 5, 200).unwrap();
        let mut frames: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        let lengths = [60usize, 61, 100, 70, 200];
        frames
            .iter_mut()
            .zip(lengths)
            .for_each(|(frame, len)| frame.set_len(len));
        let mut queues = null.start(&Config::default(), &memory).unwrap();
        queues.tx[0].load(Arc::new(Resident::new(frames)));
        let (mut cursor, mut bytes) = (0, 0u64);
        for count in (1..40).cycle().take(300) {
            assert_eq!(queues.tx[0].burst_resident(cursor, count), count);
            bytes += (0..count)
                .map(|n| lengths[(cursor + n) % 5] as u64 + 4)
                .sum::<u64>();
            cursor = (cursor + count) % 5;
        }
        assert_eq!(null.counters().unwrap().tx_bytes, bytes);
    }
}
