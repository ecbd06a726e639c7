//! Built-in profiles: streams by name, with knobs.
//!
//! Names, knobs and frames are those of TRex's profiles of the same name, with one difference:
//! UDP checksums are 0 ("none", RFC 768) in all of them, not only in `bench`. TRex computes one
//! for the template in some and lets it go stale when an address changes.

mod bench;
mod knobs;
mod mix;
mod simple;

pub use knobs::{Knob, Takes, parse_knobs};

pub use crate::frame::Macs;
use crate::similar::similar;
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
    /// Something that is not a knob and its value.
    #[error("{text:?} is not of the form KNOB=VALUE")]
    Form {
        /// What stands there.
        text: String,
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
    #[error("{knob}={value} is not possible: it takes {allowed}")]
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
            Self::Unknown { similar, .. } => Some(match similar {
                Some(name) => format!("did you mean {name}?"),
                None => {
                    let names: Vec<_> = list().iter().map(|about| about.name).collect();
                    format!("built-in profiles: {}", names.join(", "))
                }
            }),
            Self::UnknownKnob { similar, known, .. } => Some(match similar {
                Some(knob) => format!("did you mean {knob}? It has: {}", known.join(", ")),
                None if known.is_empty() => "it has none".into(),
                None => format!("it has: {}", known.join(", ")),
            }),
            Self::Form { .. } => Some("as in size=64,vm=var1".into()),
            Self::BadValue { .. } | Self::Contradiction { .. } => None,
        }
    }
}

/// What help says about a profile.
#[derive(Debug)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it sends, in a line.
    pub what: &'static str,
    /// Its knobs.
    pub knobs: &'static [Knob],
    check: fn(&knobs::Values) -> Result<(), ProfileError>,
    build: fn(&knobs::Values, usize, Macs) -> Vec<Stream>,
}

/// A profile with its knobs set.
#[derive(Debug, Clone)]
pub struct Profile {
    about: &'static About,
    values: knobs::Values,
}

impl Profile {
    /// The profile called `name`, with `knobs` set, as `("size", "64")`.
    ///
    /// # Errors
    /// There is none, or a knob is unknown, out of its range, or contradicts another.
    pub fn new(name: &str, knobs: &[(&str, &str)]) -> Result<Self, ProfileError> {
        let called = |about: &&About| {
            about.name.eq_ignore_ascii_case(name)
                || about
                    .aliases
                    .iter()
                    .any(|alias| alias.eq_ignore_ascii_case(name))
        };
        let about = list().iter().find(called).ok_or_else(|| {
            let known = list()
                .iter()
                .flat_map(|about| std::iter::once(about.name).chain(about.aliases.iter().copied()));
            ProfileError::Unknown {
                name: name.into(),
                similar: similar(name, known),
            }
        })?;
        let values = knobs::Values::new(about.name, about.knobs, knobs)?;
        (about.check)(&values)?;
        Ok(Self { about, values })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.about.name
    }

    /// What help says about it.
    #[must_use]
    pub fn about(&self) -> &'static About {
        self.about
    }

    /// Its knobs and their values, set or not.
    #[must_use]
    pub fn knobs(&self) -> &[(&'static str, String)] {
        self.values.all()
    }

    /// What port number `port`, counted from 0, sends: even ports one direction, odd ports the
    /// other. Rates are for a multiplier to scale: 1 frame a second, or a few in proportion.
    #[must_use]
    pub fn streams(&self, port: usize, macs: Macs) -> Vec<Stream> {
        (self.about.build)(&self.values, port, macs)
    }
}

/// Every built-in profile, for help.
#[must_use]
pub fn list() -> &'static [About] {
    &[
        bench::ABOUT,
        mix::ABOUT,
        simple::LATENCY,
        simple::SPLIT,
        simple::UDP64,
        simple::SYN,
    ]
}

/// For profiles whose knobs go together in any way.
fn anything(_: &knobs::Values) -> Result<(), ProfileError> {
    Ok(())
}
