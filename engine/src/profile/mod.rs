//! Built-in profiles: streams by name, with knobs.
//!
//! Names and knobs are TRex's where TRex has the same profile.

pub use crate::frame::Macs;
use crate::stream::Stream;

/// Why a profile cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// There is none of this name.
    #[error("there is no profile {name:?}")]
    Unknown {
        /// The name.
        name: String,
        /// One that looks like it.
        similar: Option<String>,
    },
    /// It has no such knob.
    #[error("profile {profile} has no knob {knob:?}")]
    UnknownKnob {
        /// The profile.
        profile: &'static str,
        /// The name.
        knob: String,
        /// One that looks like it.
        similar: Option<String>,
        /// Those that it has.
        known: Vec<&'static str>,
    },
    /// A knob does not take this value.
    #[error("{knob}={value} is not possible: {allowed}")]
    BadValue {
        /// The knob.
        knob: String,
        /// The value.
        value: String,
        /// What it takes.
        allowed: String,
    },
    /// Two knobs contradict each other.
    #[error("{what}")]
    Contradiction {
        /// What does not go together.
        what: String,
    },
}

impl ProfileError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Unknown { similar, .. } => similar.as_ref().map(|name| format!("try {name}")),
            Self::UnknownKnob { similar, known, .. } => Some(match similar {
                Some(knob) => format!("did you mean {knob}? It has: {}", known.join(", ")),
                None => format!("it has: {}", known.join(", ")),
            }),
            Self::BadValue { .. } | Self::Contradiction { .. } => None,
        }
    }
}

/// What help says about a profile.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it sends, in a line.
    pub what: &'static str,
    /// Its knobs.
    pub knobs: &'static [Knob],
}

/// A knob of a profile.
#[derive(Debug, Clone, Copy)]
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// Its value when it is not set.
    pub default: &'static str,
    /// What it does.
    pub what: &'static str,
}

/// A profile with its knobs set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    name: &'static str,
}

impl Profile {
    /// The profile called `name`, with `knobs` set, as `("size", "64")`.
    ///
    /// # Errors
    /// There is none, or a knob is unknown or out of its range.
    pub fn new(name: &str, knobs: &[(&str, &str)]) -> Result<Self, ProfileError> {
        let _ = knobs;
        Err(ProfileError::Unknown {
            name: name.into(),
            similar: None,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its knobs and their values, set or not.
    #[must_use]
    pub fn knobs(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What port number `port`, counted from 0, sends. Even ports send one direction, odd ports
    /// the other.
    #[must_use]
    pub fn streams(&self, port: usize, macs: Macs) -> Vec<Stream> {
        let _ = (port, macs);
        Vec::new()
    }
}

/// Every built-in profile, for help.
#[must_use]
pub fn list() -> &'static [About] {
    &[]
}
