//! The modern interface: common configuration, ISR, device configuration (§4.1.4).

use hw::mmio::RegInfo;

use super::bits::{NO_VECTOR, feature, status};
use super::ring::Rules;
use super::{COMMON, CONFIG, ISR, MODERN_BAR, NOTIFY, Notify, VirtioNet};

/// Fields of the common configuration (§4.1.4.3), by offset.
mod common {
    pub(super) const DEVICE_SELECT: u32 = 0;
    pub(super) const DEVICE_FEATURES: u32 = 4;
    pub(super) const DRIVER_SELECT: u32 = 8;
    pub(super) const DRIVER_FEATURES: u32 = 12;
    pub(super) const CONFIG_VECTOR: u32 = 16;
    pub(super) const QUEUES: u32 = 18;
    pub(super) const STATUS: u32 = 20;
    pub(super) const GENERATION: u32 = 21;
    pub(super) const QUEUE_SELECT: u32 = 22;
    pub(super) const QUEUE_SIZE: u32 = 24;
    pub(super) const QUEUE_VECTOR: u32 = 26;
    pub(super) const QUEUE_ENABLE: u32 = 28;
    pub(super) const QUEUE_NOTIFY: u32 = 30;
    /// Three addresses of 64 bits, each written in halves.
    pub(super) const ADDRESSES: u32 = 32;
    pub(super) const ADDRESSES_END: u32 = 56;
    pub(super) const QUEUE_RESET: u32 = 58;

    /// Bytes of the field at `offset`; 0 where none begins.
    pub(super) fn width(offset: u32) -> u8 {
        match offset {
            DEVICE_SELECT | DEVICE_FEATURES | DRIVER_SELECT | DRIVER_FEATURES => 4,
            STATUS | GENERATION => 1,
            CONFIG_VECTOR | QUEUES | QUEUE_SELECT | QUEUE_SIZE | QUEUE_VECTOR | QUEUE_ENABLE
            | QUEUE_NOTIFY | QUEUE_RESET => 2,
            ADDRESSES..ADDRESSES_END if offset.is_multiple_of(4) => 4,
            _ => 0,
        }
    }
}

/// Where the model has the registers of the common configuration, by the standard's names: for
/// the test that compares them with a driver's table.
#[must_use]
pub fn common_map() -> Vec<RegInfo> {
    let names = [
        ("DEVICE_FEATURE_SELECT", common::DEVICE_SELECT),
        ("DEVICE_FEATURE", common::DEVICE_FEATURES),
        ("DRIVER_FEATURE_SELECT", common::DRIVER_SELECT),
        ("DRIVER_FEATURE", common::DRIVER_FEATURES),
        ("CONFIG_MSIX_VECTOR", common::CONFIG_VECTOR),
        ("NUM_QUEUES", common::QUEUES),
        ("DEVICE_STATUS", common::STATUS),
        ("CONFIG_GENERATION", common::GENERATION),
        ("QUEUE_SELECT", common::QUEUE_SELECT),
        ("QUEUE_SIZE", common::QUEUE_SIZE),
        ("QUEUE_MSIX_VECTOR", common::QUEUE_VECTOR),
        ("QUEUE_ENABLE", common::QUEUE_ENABLE),
        ("QUEUE_NOTIFY_OFF", common::QUEUE_NOTIFY),
        ("QUEUE_DESC", common::ADDRESSES),
        ("QUEUE_DRIVER", common::ADDRESSES + 8),
        ("QUEUE_DEVICE", common::ADDRESSES + 16),
        ("QUEUE_RESET", common::QUEUE_RESET),
    ];
    let info = |(name, offset)| RegInfo {
        name,
        offset,
        stride: 4,
        count: 1,
    };
    names.map(info).to_vec()
}

/// Reads of the queue's reset register that show a reset going on.
const QUEUE_RESET_READS: u32 = 1;

impl VirtioNet {
    pub(super) fn modern_read(&mut self, offset: u32, width: u8) -> u32 {
        if COMMON.contains(&offset) {
            self.common_read(offset - COMMON.start, width)
        } else if ISR.contains(&offset) && width == 1 {
            u32::from(self.take_isr())
        } else if CONFIG.contains(&offset) {
            let offered = self.negotiation.offered;
            match self.config.read(offset - CONFIG.start, width, offered) {
                Ok(value) => value,
                Err(sentence) => {
                    self.object(sentence);
                    0
                }
            }
        } else {
            self.object(format!(
                "read of {width} bytes at {offset:#x} of BAR {MODERN_BAR}, where nothing is"
            ));
            0
        }
    }

    pub(super) fn modern_write(&mut self, offset: u32, width: u8, value: u32) {
        if COMMON.contains(&offset) {
            self.common_write(offset - COMMON.start, width, value);
        } else if CONFIG.contains(&offset) {
            self.object("write to the device's configuration, which is read-only (§5.1.4)");
        } else if !NOTIFY.contains(&offset) {
            self.object(format!(
                "write of {width} bytes at {offset:#x} of BAR {MODERN_BAR}, where nothing is"
            ));
        }
    }

    /// Objects to an access that is not as wide as its field (§4.1.3.1).
    fn is_field(&self, offset: u32, width: u8) -> bool {
        let wanted = common::width(offset);
        if wanted != width {
            self.object(format!(
                "access of {width} bytes to the common configuration at {offset}, whose field \
                 has {wanted} (§4.1.3.1)"
            ));
        }
        wanted == width
    }

    fn common_read(&mut self, offset: u32, width: u8) -> u32 {
        if !self.is_field(offset, width) {
            return 0;
        }
        let negotiation = &self.negotiation;
        match offset {
            common::DEVICE_SELECT => negotiation.device_select,
            common::DEVICE_FEATURES => {
                self.read_features(negotiation.device_select, negotiation.offered)
            }
            common::DRIVER_SELECT => negotiation.driver_select,
            common::DRIVER_FEATURES => {
                self.read_features(negotiation.driver_select, negotiation.written)
            }
            common::CONFIG_VECTOR => u32::from(NO_VECTOR),
            common::QUEUES => u32::from(self.shown_queues()),
            common::STATUS => u32::from(self.read_status()),
            common::GENERATION => u32::from(self.config.generation),
            common::QUEUE_SELECT => u32::from(self.selected),
            // A size of 0 says that there is no such queue (§4.1.4.3.1).
            common::QUEUE_SIZE => self.queue().map_or(0, |queue| u32::from(queue.size)),
            _ => self.queue_read(offset),
        }
    }

    fn queue_read(&mut self, offset: u32) -> u32 {
        let has_reset = self.has(feature::RING_RESET);
        let selected = self.selected;
        let Some(queue) = self.queue_mut() else {
            self.object(format!(
                "read of a register of queue {selected}: there is none"
            ));
            return 0;
        };
        match offset {
            common::QUEUE_VECTOR => u32::from(queue.vector),
            common::QUEUE_ENABLE => u32::from(queue.enabled),
            common::QUEUE_NOTIFY => u32::from(queue.index),
            common::QUEUE_RESET if has_reset => {
                let resetting = queue.resetting > 0;
                queue.resetting = queue.resetting.saturating_sub(1);
                u32::from(resetting)
            }
            common::QUEUE_RESET => {
                self.object("read of the queue's reset, which was not negotiated");
                0
            }
            _ => {
                let (part, high) = address_part(offset);
                let [a, b, c, d, e, f, g, h] = queue.addresses[part].to_le_bytes();
                let half = if high { [e, f, g, h] } else { [a, b, c, d] };
                u32::from_le_bytes(half)
            }
        }
    }

    fn common_write(&mut self, offset: u32, width: u8, value: u32) {
        if !self.is_field(offset, width) {
            return;
        }
        let [a, b, ..] = value.to_le_bytes();
        let short = u16::from_le_bytes([a, b]);
        if offset != common::STATUS && self.is_resetting("a register") {
            return;
        }
        match offset {
            common::DEVICE_SELECT => self.negotiation.device_select = value,
            common::DRIVER_SELECT => self.negotiation.driver_select = value,
            common::DRIVER_FEATURES => self.write_features(value),
            common::CONFIG_VECTOR => {}
            common::STATUS => {
                if a == 0 || !self.is_resetting("the status") {
                    self.write_status(a, false);
                }
            }
            common::QUEUE_SELECT => self.selected = short,
            common::DEVICE_FEATURES
            | common::QUEUES
            | common::GENERATION
            | common::QUEUE_NOTIFY => {
                self.object(format!(
                    "write to the common configuration at {offset}, which is read-only"
                ));
            }
            _ => self.queue_write(offset, value, short),
        }
    }

    fn queue_write(&mut self, offset: u32, value: u32, short: u16) {
        let selected = self.selected;
        let Some(queue) = self.queue_mut() else {
            self.object(format!(
                "write to a register of queue {selected}: there is none"
            ));
            return;
        };
        if queue.enabled && offset != common::QUEUE_RESET && offset != common::QUEUE_VECTOR {
            self.object(format!(
                "write to the common configuration at {offset} while queue {selected} is enabled \
                 (§4.1.4.3.2)"
            ));
            return;
        }
        match offset {
            common::QUEUE_SIZE => queue.size = short,
            common::QUEUE_VECTOR => {}
            common::QUEUE_ENABLE if short == 1 => self.enable(),
            common::QUEUE_ENABLE => {
                self.object(format!("queue_enable written with {short} (§4.1.4.3.2)"));
            }
            common::QUEUE_RESET => self.reset_queue(short),
            _ => {
                let (part, high) = address_part(offset);
                let old = queue.addresses[part];
                let value = u64::from(value);
                queue.addresses[part] = if high {
                    old & u64::from(u32::MAX) | value << 32
                } else {
                    old & !u64::from(u32::MAX) | value
                };
            }
        }
    }

    /// `queue_enable` is written on the modern interface.
    fn enable(&mut self) {
        let state = self.negotiation.status;
        if state & status::FEATURES_OK == 0 {
            self.object(format!(
                "queue {} enabled before FEATURES_OK (§3.1.1)",
                self.selected
            ));
        }
        if state & status::DRIVER_OK != 0 && !self.has(feature::RING_RESET) {
            self.object(format!(
                "queue {} enabled after DRIVER_OK (§3.1.1)",
                self.selected
            ));
        }
        self.enable_selected();
    }

    /// Lays the selected queue's ring out and starts to look at it.
    pub(super) fn enable_selected(&mut self) {
        let packed = self.has(feature::RING_PACKED);
        let rules = Rules {
            indirect: self.has(feature::INDIRECT_DESC),
            event_idx: self.has(feature::EVENT_IDX),
            in_order: self.has(feature::IN_ORDER),
            objections: self.objections.clone(),
        };
        let polls = self.options.notify == Notify::Polls;
        let index = self.selected;
        if index == self.pairs() * 2 && !self.has(feature::CTRL_VQ) {
            self.object(format!(
                "queue {index} enabled, the control queue, without CTRL_VQ (§5.1.2)"
            ));
            return;
        }
        let Some(queue) = self.queues.get_mut(usize::from(index)) else {
            return;
        };
        if let Some(flaw) = queue.flaw(packed) {
            self.object(format!("queue {index} enabled with {flaw}"));
            return;
        }
        if let Err(broken) = queue.build(packed, rules, &mut self.memory) {
            self.break_down(index, broken);
            return;
        }
        queue.enabled = true;
        queue.want_doorbell(!polls);
        self.bells.set_enabled(index, true);
    }

    /// `queue_reset` is written (§2.6.1, §4.1.4.3.1).
    fn reset_queue(&mut self, value: u16) {
        let negotiated = self.has(feature::RING_RESET);
        if !negotiated || value != 1 {
            self.object(format!(
                "queue_reset written with {value}, negotiated: {negotiated}"
            ));
            return;
        }
        let bells = std::sync::Arc::clone(&self.bells);
        if let Some(queue) = self.queue_mut() {
            if !queue.enabled {
                let index = queue.index;
                self.object(format!("reset of queue {index}, which is not enabled"));
                return;
            }
            queue.clear(&bells);
            queue.resetting = QUEUE_RESET_READS;
        }
    }
}

/// Which of a queue's addresses a field is, and whether its upper half.
fn address_part(offset: u32) -> (usize, bool) {
    let half = (offset - common::ADDRESSES) / 4;
    let part = usize::try_from(half / 2).expect("one of three");
    (part.min(2), half % 2 == 1)
}
