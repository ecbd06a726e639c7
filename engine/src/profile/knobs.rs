//! Knobs: a profile's parameters, checked before it is built.

use std::fmt;

use super::ProfileError;
use crate::similar::similar;

/// A knob of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub takes: Takes,
    /// Its value when it is not set.
    pub default: &'static str,
    /// What it does.
    pub what: &'static str,
}

/// What a knob takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A whole number, from the first to the second.
    Number(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number or one of these words.
    Either(u64, u64, &'static [&'static str]),
}

impl Takes {
    /// Whether it takes `value`.
    fn allows(self, value: &str) -> bool {
        let number = |min, max| {
            value
                .parse()
                .is_ok_and(|number: u64| (min..=max).contains(&number))
        };
        match self {
            Self::Number(min, max) => number(min, max),
            Self::Word(words) => words.contains(&value),
            Self::Either(min, max, words) => number(min, max) || words.contains(&value),
        }
    }
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(min, max) => write!(f, "{min}..{max}"),
            Self::Word(words) => f.write_str(&words.join("|")),
            Self::Either(min, max, words) => write!(f, "{min}..{max}|{}", words.join("|")),
        }
    }
}

/// The values of a profile's knobs, checked: each is one that its knob takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Values(Vec<(&'static str, String)>);

impl Values {
    /// The defaults with `set` over them.
    pub(super) fn new(
        profile: &'static str,
        knobs: &'static [Knob],
        set: &[(&str, &str)],
    ) -> Result<Self, ProfileError> {
        let mut values: Vec<_> = knobs
            .iter()
            .map(|knob| (knob.name, knob.default.to_owned()))
            .collect();
        for &(name, value) in set {
            let called = |knob: &Knob| {
                knob.name.eq_ignore_ascii_case(name)
                    || knob
                        .aliases
                        .iter()
                        .any(|alias| alias.eq_ignore_ascii_case(name))
            };
            let Some(index) = knobs.iter().position(called) else {
                let known: Vec<_> = knobs.iter().map(|knob| knob.name).collect();
                return Err(ProfileError::UnknownKnob {
                    profile,
                    knob: name.into(),
                    similar: similar(name, known.iter().copied()),
                    known,
                });
            };
            let (knob, value) = (&knobs[index], value.trim().to_ascii_lowercase());
            // Sizes may carry their unit.
            let plain = match value.strip_suffix('b') {
                Some(number) if number.parse::<u64>().is_ok() => number.to_owned(),
                _ => value,
            };
            if !knob.takes.allows(&plain) {
                return Err(ProfileError::BadValue {
                    knob: knob.name.into(),
                    value: plain,
                    allowed: knob.takes.to_string(),
                });
            }
            values[index].1 = plain;
        }
        Ok(Self(values))
    }

    pub(super) fn all(&self) -> &[(&'static str, String)] {
        &self.0
    }

    /// A knob's value as a word.
    pub(super) fn word(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(knob, _)| *knob == name);
        found.map_or("", |(_, value)| value)
    }

    /// A knob's value as a number; none if it is a word.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.word(name).parse().ok()
    }
}

/// Takes `size=64,vm=var1` apart, as TRex's `-t` does.
///
/// # Errors
/// Something in it is not of the form `KNOB=VALUE`.
pub fn parse_knobs(text: &str) -> Result<Vec<(&str, &str)>, ProfileError> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part
                .trim_start_matches('-')
                .split_once('=')
                .ok_or_else(|| ProfileError::Form { text: part.into() })?;
            Ok((name.trim(), value.trim()))
        })
        .collect()
}
