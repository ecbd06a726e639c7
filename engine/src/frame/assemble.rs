//! Frames from text: headers, sizes, what varies.

use std::str::FromStr;

use super::build::{Macs, build};
use super::spec::{BuildError, FrameSpec, MAX_SIZE, MIN_SIZE};
use super::{Frames, Variant};
use crate::field::{Program, Values, Var, VaryError, sizes};
use crate::imix::{Imix, TABLES, schedule};
use crate::stream::FCS;

/// The sizes of a stream's frames, in bytes with FCS.
#[derive(Debug, Clone, PartialEq)]
pub enum Sizes {
    /// What the headers need, at least 64.
    Least,
    /// One size.
    One(usize),
    /// Several, by turns: sizes, and how many of each there are in a round.
    Mix(Vec<(usize, usize)>),
    /// Sizes that vary from frame to frame.
    Vary(Values),
}

/// Why a text says no sizes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizesError {
    /// Not a size, a range, a mix or a table.
    #[error("{text:?} is not a frame size")]
    Form {
        /// The text.
        text: String,
    },
    /// A size that frames cannot have.
    #[error("frames of {size} bytes: {MIN_SIZE} to {MAX_SIZE} are possible, with FCS")]
    Size {
        /// The size.
        size: u64,
    },
    /// No table is called that.
    #[error("there is no IMIX table {name:?}")]
    NoTable {
        /// The name.
        name: String,
    },
    /// A range that is not one.
    #[error(transparent)]
    Vary(#[from] VaryError),
}

impl SizesError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Form { .. } => {
                Some("as in 64, 64..1518 random, imix, imix:csit, or 64x7,594x4,1518x1".into())
            }
            Self::NoTable { .. } => {
                let names: Vec<_> = TABLES.iter().map(|table| table.name).collect();
                Some(format!("tables: {}", names.join(", ")))
            }
            Self::Vary(error) => error.remedy(),
            Self::Size { .. } => None,
        }
    }
}

impl FromStr for Sizes {
    type Err = SizesError;

    /// `64`, `64B`, `64..1518 random`, `imix`, `imix:csit`, or `64x7,594x4,1518x1`.
    fn from_str(text: &str) -> Result<Self, SizesError> {
        let form = || SizesError::Form { text: text.into() };
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        if lower == "imix" || lower.starts_with("imix:") {
            let name = lower.strip_prefix("imix:").unwrap_or("trex");
            let table = Imix::named(name).ok_or(SizesError::NoTable { name: name.into() })?;
            return Ok(Self::Mix(table.parts.to_vec()));
        }
        if lower.contains("..") {
            let values = sizes(&lower)?;
            let (min, max) = values.range();
            return in_range(min).and(in_range(max)).map(|_| Self::Vary(values));
        }
        if lower.contains(['x', ',']) {
            let part = |part: &str| {
                let (size, count) = part.trim().split_once('x').unwrap_or((part.trim(), "1"));
                let size = size.trim().parse().map_err(|_| form())?;
                let count = count
                    .trim()
                    .parse()
                    .ok()
                    .filter(|count| (1..=1000).contains(count));
                Ok((in_range(size)?, count.ok_or_else(form)?))
            };
            return lower
                .split(',')
                .map(part)
                .collect::<Result<_, _>>()
                .map(Self::Mix);
        }
        let plain = lower.strip_suffix('b').unwrap_or(&lower).trim();
        in_range(plain.parse().map_err(|_| form())?).map(Self::One)
    }
}

fn in_range(size: u64) -> Result<usize, SizesError> {
    let found = usize::try_from(size)
        .ok()
        .filter(|size| (MIN_SIZE..=MAX_SIZE).contains(size));
    found.ok_or(SizesError::Size { size })
}

/// Why frames cannot be put together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// The headers do not go together, or do not fit.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Something cannot vary like that.
    #[error("{field}: {error}")]
    Vary {
        /// The field.
        field: String,
        /// Why.
        error: VaryError,
    },
}

impl AssembleError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Vary { error, .. } => error.remedy(),
            Self::Build(_) => None,
        }
    }
}

impl Frames {
    /// Frames of the headers of `spec`, in these sizes, in which fields vary: names (`ipv4.src`)
    /// and how (`16.0.0.0/24 each`). Lengths follow, and every checksum that was not set by hand
    /// is right.
    ///
    /// # Errors
    /// Headers that do not go together or do not fit, or something that cannot vary like that.
    pub fn assemble(
        spec: &FrameSpec,
        sizes: &Sizes,
        vary: &[(&str, &str)],
        macs: Macs,
    ) -> Result<Self, AssembleError> {
        let variant = |size: Option<usize>| {
            let spec = FrameSpec {
                size: size.or(spec.size),
                ..spec.clone()
            };
            let mut template = build(&spec, macs)?;
            let mut program = Program::default();
            for &(field, how) in vary {
                program
                    .vary(&mut template, field, how)
                    .map_err(|error| AssembleError::Vary {
                        field: field.into(),
                        error,
                    })?;
            }
            if let Sizes::Vary(values) = sizes {
                let var = Var {
                    name: "size".into(),
                    width: 2,
                    values: values.clone().less(FCS as u64),
                    next: None,
                };
                program.vars.push(var);
                program.resize(&template, "size");
            }
            template.correct();
            program.correct(&template);
            Ok(Variant { template, program })
        };
        let one = |size| Ok(Self::scheduled(vec![variant(size)?], vec![0]));
        match sizes {
            Sizes::Least => one(None),
            Sizes::One(size) => one(Some(*size)),
            Sizes::Vary(values) => one(usize::try_from(values.range().1).ok()),
            Sizes::Mix(parts) => {
                let variants: Result<_, AssembleError> =
                    parts.iter().map(|(size, _)| variant(Some(*size))).collect();
                let counts: Vec<_> = parts.iter().map(|(_, count)| *count).collect();
                Ok(Self::scheduled(variants?, schedule(&counts)))
            }
        }
    }
}

impl Values {
    /// The same values, `by` less each.
    fn less(mut self, by: u64) -> Self {
        match &mut self {
            Self::Step { min, max, init, .. } => {
                *init = init.map(|init| init - by);
                (*min, *max) = (*min - by, *max - by);
            }
            Self::Random { min, max } | Self::RepeatableRandom { min, max, .. } => {
                (*min, *max) = (*min - by, *max - by);
            }
            Self::List { values, .. } | Self::RandomOf(values) => {
                values.iter_mut().for_each(|value| *value -= by);
            }
            Self::Tuple { .. } => {}
        }
        self
    }
}
