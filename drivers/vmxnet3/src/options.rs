//! What is left to the user.

/// How to drive the device. What is `None` is as the driver likes it best.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The highest revision of the interface to use, 1 to 4.
    pub revision: Option<u32>,
    /// Copy frames of up to 128 bytes into the send queue's *data ring*, which the device has at
    /// hand, so that it need not look up where the frame lies. By default from revision 2 on: a
    /// device that knows nothing but revision 1 is QEMU's, and that looks up the data ring as well.
    pub data_ring: Option<bool>,
    /// Let the device put received frames of up to 128 bytes into a data ring (revision 3 and
    /// later). By default where it can be had.
    pub rx_data_ring: Option<bool>,
    /// Queues of each kind when the run does not say: one.
    pub queues: Option<usize>,
    /// Slots of each receive ring when the run does not say: 1024.
    pub rx_slots: Option<usize>,
    /// Slots of each send ring, likewise.
    pub tx_slots: Option<usize>,
}
