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
    /// Largest payload of a frame, in bytes; the device's largest if none.
    pub mtu: Option<usize>,
    /// What becomes of a physical function's MTU, for a virtual one.
    pub pf_mtu: PfMtu,
}

/// What becomes of the MTU of a virtual function's physical function.
///
/// Linux's igb lets its VFs receive what they ask for, whatever its own MTU is; other PFs refuse,
/// or drop what is longer than their own MTU allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PfMtu {
    /// It is raised where the PF refuses otherwise.
    #[default]
    Auto,
    /// It is raised to the VF's own first.
    Raise,
    /// It is left alone.
    Keep,
}
