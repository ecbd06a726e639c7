//! What varies, as people write it: `16.0.0.0/24 each`, `1024..65535 random`, `80, 443`.
//!
//! A range is `FIRST..LAST` (both included), an address with a prefix length, or a list with
//! commas. After it, in any order: `each` or `inc` (the default), `dec`, `random`; `step N`;
//! and for `random`, `limit N` (N values, then the same again) and `seed N`.

use super::program::{Order, Program, Values, Var, Write};
use crate::frame::{FieldAt, FieldKind, FieldNameError, Template, ValueError, parse_value};

/// Why something cannot vary like that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VaryError {
    /// The field is not in the frame.
    #[error(transparent)]
    Field(#[from] FieldNameError),
    /// A value is not one for this field.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Nothing to take values from.
    #[error("{text:?} has no values: FIRST..LAST, ADDRESS/PREFIX or a list is expected")]
    NoValues {
        /// The text.
        text: String,
    },
    /// A word that means nothing here.
    #[error("{word:?} is not understood")]
    Word {
        /// The word.
        word: String,
    },
    /// A word that needs a number after it.
    #[error("{word} needs a number of at least 1 after it")]
    NoNumber {
        /// The word.
        word: String,
    },
    /// The first value is larger than the last.
    #[error("{text:?}: the first value is larger than the last")]
    Backwards {
        /// The text.
        text: String,
    },
    /// A prefix length that an address of this kind does not have.
    #[error("{text:?}: a prefix length of 0 to {most} is expected")]
    Prefix {
        /// The text.
        text: String,
        /// The largest.
        most: usize,
    },
    /// More of an IPv6 address varies than the low 64 bits.
    #[error("{text:?}: only the low 64 bits of an address can vary")]
    TooWide {
        /// The text.
        text: String,
    },
    /// Words that exclude each other.
    #[error("{one} does not go with {other}")]
    Together {
        /// One.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
}

impl VaryError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Field(error) => error.remedy(),
            Self::NoValues { .. } | Self::Word { .. } | Self::NoNumber { .. } => Some(
                "as in \"16.0.0.0/24 each\", \"1024..65535 random\", \"0..100 step 5\", \"80, 443\""
                    .into(),
            ),
            Self::Backwards { .. } => Some("swap them, and say dec to count down".into()),
            _ => None,
        }
    }
}

/// What varies, read: values, and what all of them have in front of the low 64 bits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Vary {
    pub(crate) values: Values,
    pub(crate) high: u64,
}

/// Words after the values.
#[derive(Debug, Default, PartialEq)]
struct Words {
    dec: bool,
    random: bool,
    step: Option<u64>,
    limit: Option<u64>,
    seed: Option<u64>,
}

impl Program {
    /// Makes the field called `name` vary as `how` says; its first value goes into `template`.
    /// Checksums are for [`Program::correct`], when everything varies that shall.
    ///
    /// # Errors
    /// There is no such field, or it cannot vary like that.
    pub fn vary(
        &mut self,
        template: &mut Template,
        name: &str,
        how: &str,
    ) -> Result<(), VaryError> {
        let field = template.field(name)?;
        let vary = parse(how, field.kind, field.bits)?;
        let first = u128::from(vary.high) << 64 | u128::from(vary.values.first());
        template.set(&field, first);
        let width = [1, 2, 4, 8]
            .into_iter()
            .find(|width| width * 8 >= field.bits.min(64));
        self.writes.push(Write::field(name, &field));
        let values = vary.values;
        self.vars.push(Var {
            name: name.into(),
            width: width.unwrap_or(8),
            values,
            next: None,
        });
        Ok(())
    }
}

/// Reads `text` for a field of `kind` and `bits`.
pub(crate) fn parse(text: &str, kind: FieldKind, bits: usize) -> Result<Vary, VaryError> {
    const WORDS: [&str; 7] = ["each", "inc", "dec", "random", "step", "limit", "seed"];
    let is_word = |token: &&str| {
        token.starts_with(|c: char| c.is_ascii_alphabetic()) && !token.contains([':', '.', '/'])
    };
    let tokens: Vec<_> = text.split_whitespace().collect();
    let values = tokens
        .iter()
        .position(|token| WORDS.contains(token) || is_word(token));
    let (values, words) = tokens.split_at(values.unwrap_or(tokens.len()));
    let words = read_words(words)?;
    let values = values.join(" ");
    if values.contains(',') {
        return list(&values, kind, bits, &words);
    }
    let (first, last) = range(&values, kind, bits, text)?;
    if first > last {
        return Err(VaryError::Backwards { text: text.into() });
    }
    let ((high, min), (same, max)) = (halves(first), halves(last));
    if high != same {
        return Err(VaryError::TooWide { text: text.into() });
    }
    let values = match (words.random, words.limit) {
        (true, None) => Values::Random { min, max },
        (true, Some(limit)) => {
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            Values::RepeatableRandom {
                min,
                max,
                limit,
                seed: words.seed,
            }
        }
        (false, _) => Values::Step {
            order: if words.dec { Order::Dec } else { Order::Inc },
            min,
            max,
            init: None,
            step: words.step.unwrap_or(1),
        },
    };
    Ok(Vary { values, high })
}

fn read_words(words: &[&str]) -> Result<Words, VaryError> {
    let mut read = Words::default();
    let mut counts = false;
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let mut number = || {
            let number = words.next().and_then(|number| number.parse().ok());
            let number = number.filter(|number| *number > 0 || word == "seed");
            number.ok_or_else(|| VaryError::NoNumber { word: word.into() })
        };
        match word {
            "each" | "inc" => counts = true,
            "dec" => read.dec = true,
            "random" => read.random = true,
            "step" => read.step = Some(number()?),
            "limit" => read.limit = Some(number()?),
            "seed" => read.seed = Some(number()?),
            _ => return Err(VaryError::Word { word: word.into() }),
        }
    }
    let clash = |one, other| Err(VaryError::Together { one, other });
    match () {
        () if read.random && read.dec => clash("random", "dec"),
        () if read.random && counts => clash("random", "each"),
        () if counts && read.dec => clash("each", "dec"),
        () if read.random && read.step.is_some() => clash("random", "step"),
        () if !read.random && read.limit.is_some() => clash("limit", "each"),
        () if read.limit.is_none() && read.seed.is_some() => clash("seed", "no limit"),
        () => Ok(read),
    }
}

fn list(text: &str, kind: FieldKind, bits: usize, words: &Words) -> Result<Vary, VaryError> {
    let mut values = Vec::new();
    let mut common = None;
    for part in text.trim_matches(['[', ']']).split(',').map(str::trim) {
        let (high, low) = halves(parse_value(part, kind, bits)?);
        if common.is_some_and(|common| common != high) {
            return Err(VaryError::TooWide { text: text.into() });
        }
        common = Some(high);
        values.push(low);
    }
    if words.limit.is_some() {
        return Err(VaryError::Together {
            one: "limit",
            other: "a list",
        });
    }
    let order = if words.dec { Order::Dec } else { Order::Inc };
    let values = match words.random {
        true => Values::RandomOf(values),
        false => Values::List {
            values,
            order,
            step: words.step.unwrap_or(1),
        },
    };
    Ok(Vary {
        values,
        high: common.unwrap_or_default(),
    })
}

/// The first and the last value.
fn range(
    values: &str,
    kind: FieldKind,
    bits: usize,
    text: &str,
) -> Result<(u128, u128), VaryError> {
    if values.is_empty() {
        return Err(VaryError::NoValues { text: text.into() });
    }
    if let Some((first, last)) = values.split_once("..") {
        let last = last.trim_start_matches('=');
        return Ok((
            parse_value(first, kind, bits)?,
            parse_value(last, kind, bits)?,
        ));
    }
    if let Some((address, prefix)) = values.split_once('/') {
        let address = parse_value(address, kind, bits)?;
        let prefix = prefix
            .trim()
            .parse()
            .ok()
            .filter(|prefix: &usize| *prefix <= bits);
        let prefix = prefix.ok_or(VaryError::Prefix {
            text: text.into(),
            most: bits,
        })?;
        let all = u128::MAX >> (128 - bits);
        let hosts = all
            .checked_shr(u32::try_from(prefix).unwrap_or(128))
            .unwrap_or(0);
        return Ok((address & !hosts, address | hosts));
    }
    let value = parse_value(values, kind, bits)?;
    Ok((value, value))
}

/// The high and the low 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
const fn halves(value: u128) -> (u64, u64) {
    ((value >> 64) as u64, value as u64)
}

impl Values {
    /// What comes first; of what is random, the smallest.
    fn first(&self) -> u64 {
        let (min, max) = self.range();
        match self {
            Self::Step {
                order: Order::Dec,
                init,
                ..
            } => init.unwrap_or(max),
            Self::Step { init, .. } => init.unwrap_or(min),
            Self::List {
                values,
                order: Order::Inc,
                ..
            } => values.first().copied().unwrap_or(0),
            Self::List { values, .. } => values.last().copied().unwrap_or(0),
            _ => min,
        }
    }
}

/// The values of a frame's size as people write them, in bytes with FCS.
pub(crate) fn sizes(text: &str) -> Result<Values, VaryError> {
    let at = FieldAt {
        bit: 0,
        bits: 16,
        kind: FieldKind::Number,
    };
    Ok(parse(text, at.kind, at.bits)?.values)
}
