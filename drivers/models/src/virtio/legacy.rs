//! The legacy interface in its I/O window (§4.1.4.8, §4.1.5.1.3).

use super::bits::{feature, status};
use super::{Identity, LEGACY_BAR, VirtioNet};

const DEVICE_FEATURES: u32 = 0;
const DRIVER_FEATURES: u32 = 4;
const QUEUE_PAGE: u32 = 8;
const QUEUE_SIZE: u32 = 12;
const QUEUE_SELECT: u32 = 14;
const NOTIFY: u32 = 16;
const STATUS: u32 = 18;
const ISR: u32 = 19;
/// Where the device's configuration begins, MSI-X being off.
const CONFIG: u32 = 20;

/// Bytes of the register at `offset`.
fn width_of(offset: u32) -> u8 {
    match offset {
        DEVICE_FEATURES | DRIVER_FEATURES | QUEUE_PAGE => 4,
        QUEUE_SIZE | QUEUE_SELECT | NOTIFY => 2,
        STATUS | ISR => 1,
        _ => 0,
    }
}

impl VirtioNet {
    pub(super) fn legacy_read(&mut self, offset: u32, width: u8) -> u32 {
        if offset >= CONFIG {
            return self.config.read_any(offset - CONFIG, width);
        }
        if !self.is_legacy_register(offset, width) {
            return 0;
        }
        let selected = self.queue();
        match offset {
            DEVICE_FEATURES => self.read_features(0, self.negotiation.offered),
            DRIVER_FEATURES => self.read_features(0, self.negotiation.written),
            QUEUE_PAGE => selected.map_or(0, |queue| {
                let page = queue.addresses[0] / super::bits::LEGACY_PAGE;
                u32::try_from(page).unwrap_or(u32::MAX)
            }),
            // The device says how long the ring is; 0: no such queue.
            QUEUE_SIZE => selected.map_or(0, |queue| u32::from(queue.limit)),
            QUEUE_SELECT => u32::from(self.selected),
            STATUS => u32::from(self.read_status()),
            ISR => u32::from(self.take_isr()),
            _ => 0,
        }
    }

    pub(super) fn legacy_write(&mut self, offset: u32, width: u8, value: u32) {
        if offset >= CONFIG {
            self.legacy_config_write(offset - CONFIG, width, value);
            return;
        }
        if !self.is_legacy_register(offset, width) {
            return;
        }
        let [a, b, ..] = value.to_le_bytes();
        match offset {
            DRIVER_FEATURES => self.legacy_features(value),
            QUEUE_PAGE => self.legacy_queue(value),
            QUEUE_SELECT => self.selected = u16::from_le_bytes([a, b]),
            STATUS => self.write_status(a, true),
            NOTIFY => {}
            _ => self.object(format!(
                "write to the legacy register at {offset}, which is read-only"
            )),
        }
    }

    fn is_legacy_register(&self, offset: u32, width: u8) -> bool {
        let wanted = width_of(offset);
        if wanted != width {
            self.object(format!(
                "access of {width} bytes to BAR {LEGACY_BAR} at {offset}, whose register has \
                 {wanted}"
            ));
        }
        wanted == width
    }

    /// Legacy drivers write features once, and they hold.
    fn legacy_features(&mut self, value: u32) {
        let value = u64::from(value);
        let stranger = value & !self.negotiation.offered;
        if stranger != 0 {
            self.object(format!(
                "features {stranger:#x} accepted that were not offered (§2.2.1)"
            ));
        }
        if self.negotiation.status & status::DRIVER == 0 {
            self.object("features written before DRIVER (§3.1.1)");
        }
        let value = value & self.negotiation.offered & u64::from(u32::MAX);
        for &(dependent, any_of) in feature::NEEDS {
            if value & dependent != 0 && value & any_of == 0 {
                self.object(format!(
                    "feature {} accepted without one that it needs, {any_of:#x} (§5.1.3.1)",
                    dependent.trailing_zeros()
                ));
            }
        }
        self.set_written(value);
        self.accept(value);
    }

    /// A queue's page is written: the queue is there, or no more.
    fn legacy_queue(&mut self, page: u32) {
        let selected = self.selected;
        let bells = std::sync::Arc::clone(&self.bells);
        let Some(queue) = self.queue_mut() else {
            self.object(format!(
                "address of queue {selected} written: there is none"
            ));
            return;
        };
        if page == 0 {
            queue.clear(&bells);
            return;
        }
        if queue.enabled {
            self.object(format!(
                "address of queue {selected} written while it is enabled"
            ));
            return;
        }
        queue.set_legacy_page(page);
        self.enable_selected();
    }

    /// Only the address can be written, and only while no command can set it (§5.1.4.1).
    fn legacy_config_write(&mut self, offset: u32, width: u8, value: u32) {
        let end = offset + u32::from(width);
        if end > 6 || self.options.identity == Identity::Modern {
            self.object("write to the device's configuration, which is read-only (§5.1.4)");
            return;
        }
        if self.has(feature::CTRL_MAC_ADDR) {
            self.object("address written though it is to be set by command (§5.1.6.5.2)");
            return;
        }
        for (at, byte) in (offset..end).zip(value.to_le_bytes()) {
            self.config.mac[at as usize] = byte;
        }
    }
}
