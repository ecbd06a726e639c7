//! Activation: what the driver has laid out in the shared area, checked and taken over.

use std::sync::atomic::{AtomicU32, Ordering};

use hugemem::{Iova, SimWords};

use super::bits::{feature, limit, mode, queue, shared};
use super::block::Block;
use super::doorbells::Bell;
use super::filter::Filter;
use super::queue::Opener;
use super::rss::{CONF_BYTES, Rss};
use super::rx::RxQueue;
use super::tx::TxQueue;
use super::{Active, Vmxnet3};
use crate::Mac;

/// The shared area as the device reads it at a command.
type Shared = Block<{ shared::BYTES }>;

/// Who is told of what, as the driver wants it.
struct Vectors {
    auto_mask: bool,
    event: u8,
    control: SimWords<AtomicU32>,
    /// Vectors that queues may name.
    count: u8,
}

impl Vmxnet3 {
    /// `ACTIVATE_DEV`; the rule that the driver breaks, otherwise.
    pub(super) fn activate(&mut self) -> Result<(), String> {
        if self.revision == 0 {
            return Err("no revision was written to VRRS".into());
        }
        if !self.upt {
            return Err("1 was not written to UVRS".into());
        }
        if !self.pci.is_master() {
            return Err("the command register has bus mastering off".into());
        }
        let block = self.shared_block()?;
        self.check_driver(&block)?;
        let queues = [shared::TX_QUEUES, shared::RX_QUEUES].map(|at| block.u8(at));
        self.check_queues(&block, queues)?;
        let vectors = self.vectors(&block, queues)?;
        let mut active = self.open_queues(&block, queues, &vectors)?;
        self.take_features(&mut active, &block)?;
        let mut filter = Filter::new();
        self.read_mode(&block, &mut filter)?;
        self.read_groups(&block, &mut filter)?;
        read_vlans(&block, &mut filter);
        self.filter = filter;
        self.interrupts.auto_mask = vectors.auto_mask;
        active.event_vector = vectors.event;
        active.control = Some(vectors.control);
        self.start(active);
        Ok(())
    }

    /// Everything is in order: the device begins.
    fn start(&mut self, active: Active) {
        for (index, queue) in active.tx.iter().enumerate() {
            self.bells.open(Bell::Tx, index, queue.size());
        }
        for (index, queue) in active.rx.iter().enumerate() {
            let [first, second] = queue.sizes();
            self.bells.open(Bell::Rx, index, first);
            self.bells.open(Bell::Rx2, index, second);
        }
        if self.options.activation_resets_mac {
            self.mac = self.options.mac;
        }
        self.turn = 0;
        self.active = Some(active);
        self.bells.set_active(true);
    }

    /// The shared area, where the driver has said that it is.
    pub(super) fn shared_block(&mut self) -> Result<Shared, String> {
        if self.shared_at == 0 {
            return Err("no address was written to DSAL and DSAH".into());
        }
        let block = Shared::read(self.shared_at, &mut self.memory);
        block.map_err(|fault| format!("shared area: {fault}"))
    }

    fn check_driver(&self, block: &Shared) -> Result<(), String> {
        let magic = block.u32(shared::MAGIC);
        if magic != shared::MAGIC_VALUE {
            return Err(format!("magic {magic:#x} in the shared area"));
        }
        let spoken = [shared::REVISIONS, shared::UPT_VERSIONS].map(|at| block.u32(at));
        if spoken.iter().any(|&versions| versions & 1 == 0) {
            return Err(format!(
                "vmxnet3RevSpt and uptVerSpt are {spoken:?}, and both begin with 1"
            ));
        }
        let mtu = block.u32(shared::MTU);
        let most = self
            .options
            .mtu
            .map_or(limit::mtu(self.revision), u32::from)
            .min(limit::mtu(self.revision));
        if !(limit::MTU_MIN..=most).contains(&mtu) {
            return Err(format!("MTU {mtu}, of {} to {most}", limit::MTU_MIN));
        }
        Ok(())
    }

    fn check_queues(&self, block: &Shared, [tx, rx]: [u8; 2]) -> Result<(), String> {
        let most = if self.revision >= 6 {
            [limit::EXT_QUEUES; 2]
        } else {
            [limit::TX_QUEUES, limit::RX_QUEUES]
        };
        let most = [
            most[0].min(self.options.tx_queues),
            most[1].min(self.options.rx_queues),
        ];
        if tx == 0 || rx == 0 || tx > most[0] || rx > most[1] {
            return Err(format!(
                "{tx} transmit and {rx} receive queues, of at most {} and {}",
                most[0], most[1]
            ));
        }
        let at = block.u64(shared::QUEUE_DESC_PA);
        if at == 0 || !at.is_multiple_of(queue::ALIGN) {
            return Err(format!("queue descriptors at {at:#x}"));
        }
        let len = block.u32(shared::QUEUE_DESC_LEN) as usize;
        let needed = (usize::from(tx) + usize::from(rx)) * queue::BYTES;
        if len != needed {
            return Err(format!("queueDescLen {len} instead of {needed}"));
        }
        Ok(())
    }

    /// Interrupts, as the driver wants them.
    fn vectors(&mut self, block: &Shared, [tx, rx]: [u8; 2]) -> Result<Vectors, String> {
        let is_extended = tx > limit::TX_QUEUES || rx > limit::RX_QUEUES;
        let (auto_mask, count, event, control, most) = if is_extended {
            let block: Block<{ shared::EXT_BYTES }> = Block::read(self.shared_at, &mut self.memory)
                .map_err(|fault| format!("extended shared area: {fault}"))?;
            (
                block.u8(shared::EXT_AUTO_MASK),
                block.u8(shared::EXT_INTERRUPTS),
                block.u8(shared::EXT_EVENT_INTERRUPT),
                shared::EXT_INTR_CTRL,
                limit::EXT_INTERRUPTS,
            )
        } else {
            (
                block.u8(shared::AUTO_MASK),
                block.u8(shared::INTERRUPTS),
                block.u8(shared::EVENT_INTERRUPT),
                shared::INTR_CTRL,
                limit::INTERRUPTS,
            )
        };
        // A driver that polls may say that it has none.
        let usable = if count == 0 { most } else { count };
        if count > most || event >= usable {
            return Err(format!(
                "{count} interrupts, of at most {most}; events on number {event}"
            ));
        }
        let control = Iova::from_device(self.shared_at + control as u64);
        let control = self.memory.words(control, 1);
        Ok(Vectors {
            auto_mask: auto_mask != 0,
            event,
            control: control.map_err(|fault| fault.to_string())?,
            count: usable,
        })
    }

    fn open_queues(
        &mut self,
        block: &Shared,
        [tx, rx]: [u8; 2],
        vectors: &Vectors,
    ) -> Result<Active, String> {
        let mut active = Active::new(usize::from(block.u16(shared::MAX_RX_SG).max(1)));
        let base = block.u64(shared::QUEUE_DESC_PA);
        for n in 0..u64::from(tx) + u64::from(rx) {
            let at = base + n * queue::BYTES as u64;
            let conf = Block::read(at, &mut self.memory);
            let conf: Block<{ queue::BYTES }> =
                conf.map_err(|fault| format!("queue descriptors: {fault}"))?;
            let vector = conf.u8(queue::INTERRUPT);
            let is_tx = n < u64::from(tx);
            let name = if is_tx {
                format!("transmit queue {n}")
            } else {
                format!("receive queue {}", n - u64::from(tx))
            };
            if vector >= vectors.count {
                return Err(format!("{name}: interrupt {vector}, of {}", vectors.count));
            }
            let mut opener = Opener {
                memory: &mut self.memory,
                revision: self.revision,
                name,
            };
            let told = if is_tx {
                active.tx.push(TxQueue::open(at, &conf, &mut opener)?);
                let threshold = self.options.tx_threshold.to_le_bytes();
                self.memory
                    .write(Iova::from_device(at + queue::TX_THRESHOLD), &threshold)
            } else {
                active.rx.push(RxQueue::open(at, &conf, &mut opener)?);
                let wanted = [u8::from(self.options.update_rx_prod)];
                self.memory
                    .write(Iova::from_device(at + queue::UPDATE_RX_PROD), &wanted)
            };
            told.map_err(|fault| fault.to_string())?;
        }
        Ok(active)
    }

    /// Offloads and RSS.
    pub(super) fn take_features(
        &mut self,
        active: &mut Active,
        block: &Shared,
    ) -> Result<(), String> {
        let features = block.u64(shared::FEATURES);
        if features & !feature::ALL != 0 {
            return Err(format!("uptFeatures {features:#x}"));
        }
        let wants_rss = self.options.rss && features & feature::RSS != 0;
        let rss = wants_rss.then(|| self.read_rss(block, active.rx.len()));
        active.rss = rss.transpose()?;
        active.features = features;
        Ok(())
    }

    fn read_rss(&mut self, block: &Shared, queues: usize) -> Result<Rss, String> {
        let version = block.u32(shared::RSS_CONF);
        let len = block.u32(shared::RSS_CONF + 4);
        let at = block.u64(shared::RSS_CONF + 8);
        if version != 1 || (len as usize) < CONF_BYTES {
            return Err(format!(
                "RSS: version {version}, {len} bytes, of at least {CONF_BYTES}"
            ));
        }
        let conf = Block::<CONF_BYTES>::read(at, &mut self.memory);
        let conf = conf.map_err(|fault| format!("RSS: {fault}"))?;
        let queues = u8::try_from(queues).expect("32 queues at most");
        Rss::parse(conf.bytes(), queues).map_err(|flaw| format!("RSS: {flaw}"))
    }

    pub(super) fn read_mode(&self, block: &Shared, filter: &mut Filter) -> Result<(), String> {
        let modes = block.u32(shared::RX_MODE);
        if modes & !mode::ALL != 0 {
            return Err(format!("receive mode {modes:#x}"));
        }
        filter.mode = modes;
        Ok(())
    }

    pub(super) fn read_groups(
        &mut self,
        block: &Shared,
        filter: &mut Filter,
    ) -> Result<(), String> {
        const MAC_BYTES: usize = size_of::<Mac>();
        let len = usize::from(block.u16(shared::MF_TABLE_LEN));
        if !len.is_multiple_of(MAC_BYTES) {
            return Err(format!("multicast table of {len} bytes"));
        }
        let mut bytes = vec![0; len];
        if len > 0 {
            let at = Iova::from_device(block.u64(shared::MF_TABLE_PA));
            let read = self.memory.read(at, &mut bytes);
            read.map_err(|fault| format!("multicast table: {fault}"))?;
        }
        let macs = bytes.as_chunks::<MAC_BYTES>().0;
        if let Some(mac) = macs.iter().find(|mac| mac[0] & 1 == 0) {
            return Err(format!("{mac:02x?} in the multicast table, one station"));
        }
        filter.groups = macs.to_vec();
        Ok(())
    }

    /// True while the driver has all interrupts off.
    pub(super) fn are_interrupts_off(&self) -> bool {
        let control = self
            .active
            .as_ref()
            .and_then(|active| active.control.as_ref());
        control.is_none_or(|control| {
            u32::from_le(control[0].load(Ordering::Acquire)) & shared::DISABLE_ALL != 0
        })
    }
}

pub(super) fn read_vlans(block: &Shared, filter: &mut Filter) {
    let table = &block.bytes()[shared::VF_TABLE..][..shared::VF_TABLE_BYTES];
    filter.vlans.copy_from_slice(table);
}
