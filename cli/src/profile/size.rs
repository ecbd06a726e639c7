//! Sizes of a stream's frames: one, any of a range, or a mix.

use std::ops::Range;

use engine::field::{Program, Values, Var};
use engine::frame::Template;
use engine::imix::{self, Imix};
use engine::stream::FCS;

use crate::units;

/// The sizes that a stream's frames have, in bytes with FCS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sizes {
    /// What the headers take, 64 at least.
    Natural,
    /// One.
    One(usize),
    /// Any of these, equally likely.
    Random(Range<usize>),
    /// Each so often, in turns.
    Mix(Vec<(usize, usize)>),
}

/// Sums of weights beyond this make a schedule that nobody meant.
const MOST_TURNS: usize = 4096;

impl Sizes {
    /// Reads a TOML value; what is wrong with it otherwise.
    pub(super) fn parse(value: &toml::Value) -> Result<Self, String> {
        match value {
            toml::Value::Integer(bytes) => usize::try_from(*bytes)
                .map(Self::One)
                .map_err(|_| format!("{bytes} is no frame size")),
            toml::Value::String(text) => Self::parse_text(text),
            toml::Value::Array(rows) => Self::parse_mix(rows),
            _ => Err("a size is 64, \"64..1518\", \"imix\" or [[64, 7], [594, 4]]".to_owned()),
        }
    }

    /// Reads `64B`, `64..1518`, `imix`, or a table by name: `imix:csit`.
    fn parse_text(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        if let Some(table) = lower.strip_prefix("imix") {
            let name = if table.is_empty() { ":trex" } else { table };
            let table = name.strip_prefix(':').and_then(Imix::named);
            return table
                .map(|table| Self::Mix(table.parts.to_vec()))
                .ok_or_else(|| {
                    let names: Vec<&str> = imix::TABLES.iter().map(|table| table.name).collect();
                    format!("`{text}` is no mix: imix:NAME with {} is", names.join(", "))
                });
        }
        let one = |text: &str| units::frame_size(text).map_err(|error| error.to_string());
        let Some((least, most)) = text.split_once("..") else {
            return one(text).map(Self::One);
        };
        let (least, most) = (one(least)?, one(most.trim_start_matches('='))?);
        if least > most {
            return Err(format!("{least} is more than {most}"));
        }
        Ok(Self::Random(least..most + 1))
    }

    fn parse_mix(rows: &[toml::Value]) -> Result<Self, String> {
        let row = |row: &toml::Value| {
            let pair = row.as_array()?;
            let number = |at: usize| usize::try_from(pair.get(at)?.as_integer()?).ok();
            let weight = number(1).filter(|weight| *weight > 0)?;
            (pair.len() == 2).then_some((number(0)?, weight))
        };
        let mix: Option<Vec<(usize, usize)>> = rows.iter().map(row).collect();
        let mix = mix
            .filter(|mix| !mix.is_empty())
            .ok_or("a mix is made of pairs [size, weight]: [[64, 7], [594, 4]]")?;
        let turns: usize = mix.iter().map(|(_, weight)| weight).sum();
        if turns > MOST_TURNS {
            return Err(format!(
                "the weights add up to {turns}, and {MOST_TURNS} is the most"
            ));
        }
        Ok(Self::Mix(mix))
    }

    /// The templates' sizes: one for each variant, none for what the headers take.
    pub(super) fn of_templates(&self) -> Vec<Option<usize>> {
        match self {
            Self::Natural => vec![None],
            Self::One(size) => vec![Some(*size)],
            Self::Random(sizes) => vec![Some(sizes.end - 1)],
            Self::Mix(mix) => mix.iter().map(|(size, _)| Some(*size)).collect(),
        }
    }

    /// The order in which variants take turns: each as often as its weight says, and spread as
    /// evenly as can be.
    pub(super) fn schedule(&self) -> Vec<usize> {
        match self {
            Self::Mix(mix) => {
                let weights: Vec<usize> = mix.iter().map(|(_, weight)| *weight).collect();
                imix::schedule(&weights)
            }
            _ => vec![0],
        }
    }
}

/// Makes `program` shorten the template to any of `sizes` bytes (with FCS), and the lengths in its
/// headers with it.
pub(super) fn vary(program: &mut Program, template: &Template, sizes: &Range<usize>) {
    const NAME: &str = "size";
    let without_fcs = |size: usize| (size - FCS) as u64;
    program.vars.push(Var {
        name: NAME.to_owned(),
        width: 2,
        values: Values::Random {
            min: without_fcs(sizes.start),
            max: without_fcs(sizes.end - 1),
        },
        next: None,
    });
    program.resize(template, NAME);
}

#[cfg(test)]
mod test {
    use super::*;

    fn parse(text: &str) -> Result<Sizes, String> {
        let table: toml::Table = format!("x = {text}").parse().unwrap();
        Sizes::parse(&table["x"])
    }

    #[test]
    fn sizes_are_read_in_every_form() {
        assert_eq!(parse("64"), Ok(Sizes::One(64)));
        assert_eq!(parse("\"64B\""), Ok(Sizes::One(64)));
        assert_eq!(parse("\"64..1518\""), Ok(Sizes::Random(64..1519)));
        let trex = vec![(64, 28), (594, 16), (1518, 4)];
        assert_eq!(parse("\"imix\""), Ok(Sizes::Mix(trex.clone())));
        assert_eq!(parse("\"imix:trex\""), Ok(Sizes::Mix(trex)));
        assert_eq!(
            parse("[[64, 7], [594, 4]]"),
            Ok(Sizes::Mix(vec![(64, 7), (594, 4)]))
        );
    }

    #[test]
    fn what_is_no_size_says_why() {
        for bad in [
            "-1",
            "1.5",
            "\"large\"",
            "\"1518..64\"",
            "[]",
            "[[64]]",
            "[[64, 0]]",
            "[[64, -1]]",
            "[[64, 1, 1]]",
            "[64, 7]",
            "[[64, 5000]]",
            "\"imix:mine\"",
            "\"imixed\"",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mix_takes_turns_as_its_weights_say_and_evenly() {
        let schedule = Sizes::Mix(vec![(64, 7), (594, 4), (1518, 1)]).schedule();
        let count = |n: usize| schedule.iter().filter(|&&turn| turn == n).count();
        assert_eq!((count(0), count(1), count(2)), (7, 4, 1));
    }
}
