//! What a user may choose about a port.

use port::PortError;

use crate::host::PfMtu;

/// What to ask of a device, and what its caps say by default.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Queues each way when the run does not say; all that the device has can be asked for then.
    pub queues: Option<usize>,
    /// Slots of each receive ring when the run does not say.
    pub rx_slots: Option<usize>,
    /// Slots of each send ring when the run does not say.
    pub tx_slots: Option<usize>,
    /// Largest payload of a frame, in bytes; if none, the device's largest, and 1500 for a virtual
    /// function of 82599, which needs its physical function's consent to more.
    pub mtu: Option<usize>,
    /// What becomes of a physical function's MTU, for a virtual one.
    pub pf_mtu: Option<PfMtu>,
}

/// Checks that nobody says what a physical function shall do to its own physical function.
///
/// # Errors
/// `options` do.
pub fn refuse_pf_mtu(port: &str, options: &Options) -> Result<(), PortError> {
    match options.pf_mtu {
        None => Ok(()),
        Some(_) => Err(PortError::Refused {
            port: port.to_owned(),
            what: "pf_mtu: it is a physical function itself".into(),
            cure: Some("leave pf_mtu out; mtu=N is this port's own".into()),
        }),
    }
}
