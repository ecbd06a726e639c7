//! What a user may choose about a port.

/// What to ask of a device, and what its caps say by default.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Queues each way when the run does not say; all that the device has can be asked for then.
    pub queues: Option<usize>,
    /// Slots of each receive ring when the run does not say.
    pub rx_slots: Option<usize>,
    /// Slots of each send ring when the run does not say.
    pub tx_slots: Option<usize>,
}
