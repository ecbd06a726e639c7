//! What can go wrong, in one shape: what was found, and the cure.
//!
//! ```text
//! error[unknown-profile]: there is no built-in profile `bnech`
//!   cure: did you mean `bench`? All: bench, imix, latency
//! ```

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use crate::output::schema::Schema;
use crate::suggest;
use crate::units::QuantityError;

/// What the command's exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done as asked.
    Done = 0,
    /// Something that should not happen.
    Unexpected = 1,
    /// The command line or the profile is wrong.
    Usage = 2,
    /// This machine is not ready for what was asked.
    NotReady = 3,
    /// A port failed.
    PortFailed = 4,
    /// A criterion (`--require`, `[require]`) was not met.
    NotMet = 5,
    /// The generator, not what it tests, was the bottleneck.
    Bottleneck = 6,
    /// Ctrl-C; the result is partial.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command ended without its result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// Neither a built-in profile nor a file.
    #[error("there is no built-in profile `{name}`")]
    UnknownProfile {
        /// What was typed.
        name: String,
        /// The built-in ones.
        known: Vec<&'static str>,
    },
    /// A built-in profile without such a knob.
    #[error("profile `{profile}` has no knob `{knob}`")]
    UnknownKnob {
        /// The profile.
        profile: String,
        /// What was typed.
        knob: String,
        /// The knobs that it has.
        known: Vec<String>,
    },
    /// A knob that does not take this value.
    #[error("knob `{knob}` of profile `{profile}` does not take `{value}`: {why}")]
    KnobValue {
        /// The profile.
        profile: String,
        /// The knob.
        knob: String,
        /// What was typed.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file that cannot be read or written.
    #[error("cannot {verb} {}: {source}", file.display())]
    File {
        /// `read` or `write`.
        verb: &'static str,
        /// The file.
        file: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A profile that says something wrong, with the place.
    #[error("{0}")]
    Profile(String),
    /// An option whose value is wrong.
    #[error("{option}: {source}")]
    Quantity {
        /// The option.
        option: &'static str,
        /// What is wrong.
        source: QuantityError,
    },
    /// What clap refuses, for machines; people get its own words.
    #[error("{0}")]
    CommandLine(String),
    /// Options that do not go together, or one that is wrong.
    #[error("{found}")]
    Usage {
        /// What is wrong.
        found: String,
        /// What would be right.
        cure: String,
    },
    /// A port cannot be opened.
    #[error("{message}")]
    Open {
        /// The catalog's code.
        code: &'static str,
        /// What was found.
        message: String,
        /// What to do about it.
        cure: Option<String>,
        /// Whether the string was wrong, or the machine.
        exit: Exit,
    },
    /// A port or its memory failed.
    #[error("{message}")]
    Port {
        /// Which kind.
        code: &'static str,
        /// What was found.
        message: String,
        /// What to do about it.
        cure: Option<String>,
    },
    /// The machine is not ready.
    #[error("{found}")]
    NotReady {
        /// Which check.
        code: &'static str,
        /// What was found.
        found: String,
        /// What to do about it.
        cure: Option<String>,
    },
    /// A result that was printed, and that the file of `-o` did not take.
    #[error("cannot write {}: {source}", file.display())]
    Unsaved {
        /// The file.
        file: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The result cannot be written.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
    /// A bug.
    #[error("{0}")]
    Unexpected(String),
}

impl Error {
    /// A short name that stays the same, for scripts.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::UnknownProfile { .. } => "unknown-profile",
            Self::UnknownKnob { .. } => "unknown-knob",
            Self::KnobValue { .. } => "knob-value",
            Self::File { .. } => "file",
            Self::Profile(_) => "profile",
            Self::Quantity { .. } => "quantity",
            Self::Usage { .. } | Self::CommandLine(_) => "usage",
            Self::Open { code, .. } | Self::Port { code, .. } | Self::NotReady { code, .. } => code,
            Self::Output(_) | Self::Unsaved { .. } => "output",
            Self::Unexpected(_) => "unexpected",
        }
    }

    /// What to do about it, where something is known to help.
    pub(crate) fn cure(&self) -> Option<String> {
        match self {
            Self::UnknownProfile { name, known } => Some(format!(
                "{}there are {}; a profile of your own is a file: ./{name}.toml",
                suggest::did_you_mean(name, known),
                known.join(", "),
            )),
            Self::UnknownKnob { knob, known, .. } if known.is_empty() => {
                Some(format!("it has none: leave `{knob}` out"))
            }
            Self::UnknownKnob { knob, known, .. } => Some(format!(
                "{}it has {}",
                suggest::did_you_mean(knob, known),
                known.join(", "),
            )),
            Self::KnobValue { profile, .. } => Some(format!("rgen show {profile} lists its knobs")),
            Self::Quantity { source, .. } => Some(source.remedy()),
            Self::Usage { cure, .. } => Some(cure.clone()),
            Self::CommandLine(_) => Some("rgen --help, or rgen COMMAND --help".to_owned()),
            Self::Open { cure, .. } | Self::Port { cure, .. } | Self::NotReady { cure, .. } => {
                cure.clone()
            }
            Self::File { verb: "read", .. } => {
                Some("give the path of a file that you may read, or - for stdin".to_owned())
            }
            Self::File { .. } => {
                Some("give a path where you may write, or - for stdout".to_owned())
            }
            Self::Unsaved { .. } => {
                Some("the result is what was printed; --json > FILE".to_owned())
            }
            Self::Unexpected(_) => Some("this is a fault of rgen: please report it".to_owned()),
            Self::Profile(_) | Self::Output(_) => None,
        }
    }

    /// The exit code that goes with it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::UnknownProfile { .. }
            | Self::UnknownKnob { .. }
            | Self::KnobValue { .. }
            | Self::File { .. }
            | Self::Profile(_)
            | Self::Quantity { .. }
            | Self::CommandLine(_)
            | Self::Usage { .. } => Exit::Usage,
            Self::Open { exit, .. } => *exit,
            Self::Port { .. } => Exit::PortFailed,
            Self::NotReady { .. } => Exit::NotReady,
            Self::Output(_) | Self::Unsaved { .. } | Self::Unexpected(_) => Exit::Unexpected,
        }
    }

    /// For people: the two lines.
    pub(crate) fn for_people(&self) -> String {
        let mut text = format!("error[{}]: {self}", self.code());
        if let Some(cure) = self.cure() {
            text.push_str("\n  cure: ");
            text.push_str(&cure);
        }
        text
    }

    /// For machines: the document that `--json` prints in place of a result.
    pub(crate) fn document(&self) -> ErrorDocument {
        ErrorDocument {
            schema: Schema::Error,
            error: ErrorBody {
                code: self.code(),
                message: self.to_string(),
                cure: self.cure(),
            },
        }
    }
}

/// `{"schema": "rgen/error/1", "error": {"code", "message", "cure"}}`
#[derive(Debug, Serialize)]
pub(crate) struct ErrorDocument {
    schema: Schema,
    error: ErrorBody,
}

#[derive(Debug, Serialize)]
struct ErrorBody {
    code: &'static str,
    message: String,
    cure: Option<String>,
}

/// An error and what is behind it, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_error_has_one_shape() {
        let error = Error::UnknownProfile {
            name: "bnech".to_owned(),
            known: vec!["bench", "imix"],
        };
        assert_eq!(
            error.for_people(),
            "error[unknown-profile]: there is no built-in profile `bnech`\n  cure: did you mean \
             `bench`? there are bench, imix; a profile of your own is a file: ./bnech.toml"
        );
        let document = serde_json::to_value(error.document()).unwrap();
        assert_eq!(document["schema"], "rgen/error/1");
        assert_eq!(document["error"]["code"], "unknown-profile");
        assert_eq!(error.exit(), Exit::Usage);
    }
}
