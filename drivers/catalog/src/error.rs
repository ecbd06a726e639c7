//! Why a port cannot be opened.

use hw::pci::Bdf;

use crate::spec::FORMS;

/// Why a port cannot be opened. Each variant says what was found; [`OpenError::remedy`] says
/// what to do about it, and [`OpenError::code`] names the kind for programs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The string names no port.
    #[error("'{text}' names no port")]
    NotAPort {
        /// The string.
        text: String,
    },
    /// A kind of port that this version does not have.
    #[error("'{text}': ports of this kind are not supported yet")]
    NotYet {
        /// The string.
        text: String,
    },
    /// A simulated wire has two ends.
    #[error("'{text}': a simulated wire has ends 0 and 1")]
    NoSuchEnd {
        /// The string.
        text: String,
    },
    /// An option with nothing before or after its `=`.
    #[error("'{text}' has an empty option")]
    EmptyOption {
        /// The string.
        text: String,
    },
    /// An option that this kind of port does not have.
    #[error("'{text}': there is no option '{option}'")]
    UnknownOption {
        /// The string.
        text: String,
        /// The option.
        option: String,
        /// Options that there are.
        known: &'static str,
    },
    /// An option's value makes no sense.
    #[error("'{text}': '{value}' is no value of '{option}'")]
    BadValue {
        /// The string.
        text: String,
        /// The option.
        option: String,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// No driver of that name.
    #[error("'{text}': there is no driver '{driver}' to simulate")]
    NoSuchDriver {
        /// The string.
        text: String,
        /// The driver.
        driver: String,
        /// Drivers that there are.
        known: &'static str,
    },
    /// The driver could not open the device.
    #[error(transparent)]
    Virtio(#[from] virtio::OpenError),
    /// The driver could not open the device.
    #[error(transparent)]
    Vmxnet3(#[from] vmxnet3::OpenError),
    /// The driver could not open the device.
    #[error(transparent)]
    E1000(#[from] e1000::OpenError),
    /// The driver could not open the device.
    #[error(transparent)]
    Ixgbe(#[from] ixgbe::OpenError),
    /// The interface cannot be used.
    #[error(transparent)]
    AfPacket(#[from] kernel::OpenError),
    /// No driver knows the PCI device.
    #[error("{bdf} is {name}, which rgen has no driver for yet")]
    NoDriver {
        /// Where it is.
        bdf: Bdf,
        /// What it is.
        name: String,
    },
    /// The device cannot be reached.
    #[error(transparent)]
    Vfio(#[from] hw::vfio::OpenError),
    /// The two ends of a wire describe it differently.
    #[error("'{text}': {option}={second} here, {option}={first} at the other end of the wire")]
    WireTwice {
        /// The string of the second end.
        text: String,
        /// The option.
        option: &'static str,
        /// Its value at the first end.
        first: String,
        /// Its value at the second end.
        second: String,
    },
    /// The same end twice.
    #[error("'{text}': this end of the simulated wire is taken already")]
    EndTaken {
        /// The string.
        text: String,
    },
}

impl OpenError {
    /// The kind of error, for programs: it does not change with the wording.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAPort { .. } | Self::NoSuchEnd { .. } | Self::EmptyOption { .. } => {
                "port-string"
            }
            Self::NotYet { .. } => "port-kind",
            Self::UnknownOption { .. } | Self::BadValue { .. } | Self::WireTwice { .. } => {
                "port-option"
            }
            Self::NoSuchDriver { .. } => "port-driver",
            Self::EndTaken { .. } => "port-taken",
            Self::NoDriver { .. } => "port-unknown",
            Self::Virtio(error) => virtio_code(error),
            Self::Vmxnet3(error) => vmxnet3_code(error),
            Self::E1000(_) | Self::Ixgbe(_) => "port-open",
            Self::AfPacket(error) => af_packet_code(error),
            Self::Vfio(hw::vfio::OpenError::Bound { .. }) => "port-bound",
            Self::Vfio(_) => "port-vfio",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::Virtio(error) => return error.remedy(),
            Self::Vmxnet3(error) => return error.remedy(),
            Self::E1000(error) => return error.remedy(),
            Self::Ixgbe(error) => return error.remedy(),
            Self::AfPacket(error) => return error.remedy(),
            Self::Vfio(error) => return error.remedy(),
            Self::NoDriver { .. } => "see which devices rgen drives: rgen ports".into(),
            Self::NotAPort { .. } | Self::NotYet { .. } => format!("ports look like: {FORMS}"),
            Self::NoSuchEnd { .. } => "write sim:virtio/0 or sim:virtio/1".into(),
            Self::EmptyOption { .. } => "options look like: queues=2,packed=on".into(),
            Self::UnknownOption { known, .. } => format!("options are: {known}"),
            Self::BadValue { allowed, .. } => format!("use {allowed}"),
            Self::NoSuchDriver { known, .. } => format!("drivers are: {known}"),
            Self::WireTwice { option, .. } => format!("give {option} at one end only"),
            Self::EndTaken { .. } => "give two sim: ports, or name the ends /0 and /1".into(),
        })
    }
}

fn af_packet_code(error: &kernel::OpenError) -> &'static str {
    use kernel::OpenError as E;
    match error {
        E::NoInterface { .. } => "no-interface",
        E::NotAllowed { .. } => "not-allowed",
        E::Queues { .. } => "port-option",
        _ => "port-open",
    }
}

fn vmxnet3_code(error: &vmxnet3::OpenError) -> &'static str {
    use vmxnet3::OpenError as E;
    match error {
        E::Option { .. } | E::Revision { .. } => "port-option",
        _ => "port-open",
    }
}

fn virtio_code(error: &virtio::OpenError) -> &'static str {
    use virtio::OpenError as E;
    match error {
        E::Option { .. } | E::NotOffered { .. } => "port-option",
        E::Interrupted { .. } => "interrupted",
        E::NoSocket { .. } => "no-socket",
        E::NoPeer { .. } | E::Listen { .. } | E::Nobody { .. } => "no-peer",
        E::Silent { .. } | E::Closed { .. } | E::Nonsense { .. } => "peer-broken",
        _ => "port-open",
    }
}
