//! What to send: a built-in profile with its knobs, or one's own in TOML.

mod diagnostic;
mod file;
mod schema;
mod size;
mod vary;

#[cfg(test)]
mod test;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use engine::frame::Macs;
use engine::profile::{self, ProfileError};
use engine::stream::Stream;

use self::diagnostic::Text;
pub(crate) use self::file::OwnProfile;
use crate::error::Error;
use crate::require::Criterion;

/// A profile, ready to make streams.
pub(crate) enum Profile {
    /// One that rgen brings.
    BuiltIn(profile::Profile),
    /// One from a file.
    Own(Box<OwnProfile>),
}

impl Profile {
    /// The profile that `name` means, with `tunables` (`knob=value`) set.
    pub(crate) fn load(name: &str, tunables: &[String]) -> Result<Self, Error> {
        let knobs = tunables
            .iter()
            .filter(|tunable| !tunable.is_empty())
            .map(|tunable| split(tunable))
            .collect::<Result<Vec<_>, _>>()?;
        if !is_file(name) {
            return match profile::Profile::new(name, &knobs) {
                Ok(profile) => Ok(Self::BuiltIn(profile)),
                Err(error) => Err(unavailable(name, error)),
            };
        }
        if let Some((knob, _)) = knobs.first() {
            return Err(Error::UnknownKnob {
                profile: name.to_owned(),
                knob: (*knob).to_owned(),
                known: Vec::new(),
            });
        }
        let own = OwnProfile::parse(Text {
            name: name.to_owned(),
            text: read(name)?,
        })?;
        Ok(Self::Own(Box::new(own)))
    }

    /// What results call it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::BuiltIn(profile) => profile.name(),
            Self::Own(own) => own.name(),
        }
    }

    /// Every knob and its value, set or not.
    pub(crate) fn knobs(&self) -> BTreeMap<String, String> {
        match self {
            Self::BuiltIn(profile) => profile
                .knobs()
                .iter()
                .map(|(knob, value)| ((*knob).to_owned(), value.clone()))
                .collect(),
            Self::Own(_) => BTreeMap::new(),
        }
    }

    /// The TOML, of one's own.
    pub(crate) fn source(&self) -> Option<&str> {
        match self {
            Self::BuiltIn(_) => None,
            Self::Own(own) => Some(own.source()),
        }
    }

    /// The ports that it names: the sending one, the receiving one.
    pub(crate) fn ports(&self) -> Option<(&str, &str)> {
        match self {
            Self::BuiltIn(_) => None,
            Self::Own(own) => own.ports(),
        }
    }

    /// Its own criteria.
    pub(crate) fn criteria(&self) -> &[Criterion] {
        match self {
            Self::BuiltIn(_) => &[],
            Self::Own(own) => own.criteria(),
        }
    }

    /// What port number `port` sends; even ports one direction, odd ports the other.
    pub(crate) fn streams(&self, port: usize, macs: Macs) -> Result<Vec<Stream>, Error> {
        match self {
            Self::BuiltIn(profile) => Ok(profile.streams(port, macs)),
            Self::Own(own) => own.streams(port, macs),
        }
    }
}

/// Whether a name means a file: `-`, something with a slash or an ending, or one that is there.
fn is_file(name: &str) -> bool {
    name == "-" || name.contains(['/', '.']) || Path::new(name).is_file()
}

fn read(name: &str) -> Result<String, Error> {
    let mut text = String::new();
    let done = if name == "-" {
        io::stdin().read_to_string(&mut text).map(drop)
    } else {
        fs::read_to_string(name).map(|found| text = found)
    };
    done.map(|()| text).map_err(|source| Error::File {
        verb: "read",
        file: name.into(),
        source,
    })
}

fn split(tunable: &str) -> Result<(&str, &str), Error> {
    tunable.split_once('=').ok_or_else(|| Error::Usage {
        found: format!("-t {tunable}: a knob is set with ="),
        cure: format!("-t {tunable}=VALUE"),
    })
}

/// The engine's refusal as ours.
fn unavailable(name: &str, error: ProfileError) -> Error {
    match error {
        ProfileError::Unknown { name, .. } => Error::UnknownProfile {
            name,
            known: profile::list().iter().map(|about| about.name).collect(),
        },
        ProfileError::UnknownKnob {
            profile,
            knob,
            known,
            ..
        } => Error::UnknownKnob {
            profile: profile.to_owned(),
            knob,
            known: known.into_iter().map(str::to_owned).collect(),
        },
        ProfileError::BadValue {
            knob,
            value,
            allowed,
        } => Error::KnobValue {
            profile: name.to_owned(),
            knob,
            value,
            why: allowed,
        },
        other => Error::Usage {
            found: other.to_string(),
            cure: format!("rgen show {name} lists its knobs"),
        },
    }
}
