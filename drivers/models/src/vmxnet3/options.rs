//! What a vmxnet3 device is like.

use std::sync::Arc;

use hugemem::SimSpace;

use super::bits::limit;
use crate::Mac;

/// The newest revision that the model knows.
pub(super) const NEWEST: u8 = 7;

/// How the device finds out that there is something in a transmit ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notify {
    /// It looks when `TXPROD` is written, and takes what lies before the slot written there: a
    /// driver that forgets to ring gets stuck, as it should.
    Doorbell,
    /// It looks all the time, as a busy host does, and goes by generations alone.
    Polls,
}

/// What the device offers, and how it behaves.
#[derive(Debug, Clone)]
pub struct Vmxnet3Options {
    /// Its permanent address.
    pub mac: Mac,
    /// The newest revision that it offers, 1 to 7; it offers all before that too.
    pub revision: u8,
    /// Transmit queues that a driver may set up: 8 at most, 32 since revision 6.
    pub tx_queues: u8,
    /// Receive queues that a driver may set up: 16 at most, 32 since revision 6.
    pub rx_queues: u8,
    /// Largest MTU that it takes, in bytes behind the Ethernet header. None: what the revision
    /// in use allows, 9000 or 9190.
    pub mtu: Option<u16>,
    /// How it finds out about posted frames.
    pub notify: Notify,
    /// Frames that a driver shall collect before it writes `TXPROD` (`txThreshold`). With more
    /// than 1 the device has to poll, or the last ones stay where they are.
    pub tx_threshold: u32,
    /// It wants `RXPROD` and `RXPROD2` to be written (`updateRxProd`), and takes no buffer that
    /// lies behind. Otherwise it goes by generations alone.
    pub update_rx_prod: bool,
    /// Bytes of a transmit data ring's entry that it proposes, since revision 3.
    pub tx_data_size: u16,
    /// It spreads frames over queues where the driver asks for it.
    pub rss: bool,
    /// It verifies checksums where the driver asks for it.
    pub rx_checksum: bool,
    /// It offers doorbells behind the first page of BAR 0, since revision 7.
    pub large_bar: bool,
    /// `ACTIVATE_DEV` gives it its permanent address back, whatever was written before. QEMU
    /// does so; ESXi keeps what was written. A driver that writes the address once the device is
    /// active is right on both.
    pub activation_resets_mac: bool,
    /// The addresses that it can use; None: 39 bits, like many IOMMUs.
    pub space: Option<Arc<SimSpace>>,
}

impl Default for Vmxnet3Options {
    /// All that the model knows.
    fn default() -> Self {
        Self {
            mac: [0, 0x0c, 0x29, 0x12, 0x34, 0x56],
            revision: NEWEST,
            tx_queues: limit::TX_QUEUES,
            rx_queues: limit::RX_QUEUES,
            mtu: None,
            notify: Notify::Doorbell,
            tx_threshold: 1,
            update_rx_prod: false,
            tx_data_size: limit::TX_DATA_MIN,
            rss: true,
            rx_checksum: true,
            large_bar: false,
            activation_resets_mac: true,
            space: None,
        }
    }
}

impl Vmxnet3Options {
    /// The device as QEMU has it (`hw/net/vmxnet3.c`): revision 1 alone, no RSS, and no look at
    /// checksums.
    #[must_use]
    pub fn qemu() -> Self {
        Self {
            revision: 1,
            tx_queues: 8,
            rx_queues: 8,
            rss: false,
            rx_checksum: false,
            ..Self::default()
        }
    }

    /// Panics on nonsense.
    pub(super) fn check(&self) {
        assert!(
            (1..=NEWEST).contains(&self.revision),
            "revisions are 1 to {NEWEST}"
        );
        let (tx, rx) = if self.revision >= 6 {
            (limit::EXT_QUEUES, limit::EXT_QUEUES)
        } else {
            (limit::TX_QUEUES, limit::RX_QUEUES)
        };
        assert!(
            (1..=tx).contains(&self.tx_queues) && (1..=rx).contains(&self.rx_queues),
            "a revision allows so many queues"
        );
        let sizes = limit::TX_DATA_MIN..=limit::DATA_MAX;
        assert!(
            sizes.contains(&self.tx_data_size)
                && self.tx_data_size.is_multiple_of(limit::DATA_STEP),
            "entries of a data ring have 128 to 2048 bytes, in steps of 64"
        );
    }
}
